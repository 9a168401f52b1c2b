"""Compares the one row of `ipu-bench workloads` with a run of ipu-run on the same model:
workloads.py ROWS RESULT STATISTICS"""

import json
import sys

(row,) = json.load(open(sys.argv[1], encoding="utf-8"))
run = json.load(open(sys.argv[2], encoding="utf-8"))
lines = open(sys.argv[3], encoding="utf-8").read().splitlines()
SAME = {
    "estimated_cycles": "estimated_cycles",
    "scheduled_cycles": "scheduled_cycles",
    "simulated_cycles": "total_cycles",
    "compute_cycles": "compute_cycles",
    "exchange_cycles": "exchange_cycles",
    "sync_cycles": "sync_cycles",
    "phases": "phases",
    "simulated_cycles_at_600": "total_cycles_at_600",
    "peak_memory_bytes": "peak_memory_bytes",
    "relative_l2": "relative_l2",
    "max_abs": "max_abs",
}
OWN = ["workload", "seed", "tiles", "exchange_share", "accuracy", "compile_seconds", "simulate_seconds"]
assert sorted(row) == sorted([*SAME, *OWN]), row
for key, name in SAME.items():
    assert row[key] == run[name], (key, row[key], run[name])
assert row["accuracy"] == run.get("accuracy"), row
assert row["seed"] is None, row
assert abs(row["exchange_share"] - run["exchange_cycles"] / run["total_cycles"]) < 1e-12, row
assert row["compile_seconds"] > 0 and row["simulate_seconds"] > 0, row
assert 0 < row["relative_l2"] < 2e-3, row
for line in [
    f"estimated: {row['estimated_cycles']} cycles",
    f"scheduled: {row['scheduled_cycles']} cycles",
    f"simulated: {row['simulated_cycles']} cycles",
    f"  exchange: {row['exchange_cycles']} cycles",
    f"  sync ({row['phases']} phases): {row['sync_cycles']} cycles",
    f"simulated, 600 cycles a phase: {row['simulated_cycles_at_600']} cycles",
    f"peak memory: {row['peak_memory_bytes']} bytes, on tile {run['peak_memory_tile']}",
]:
    assert line in lines, (line, lines)
print(f"{row['workload']}: {row['tiles']} tiles, accuracy {row['accuracy']}, as ipu-run")
