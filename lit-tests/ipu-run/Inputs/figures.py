"""Checks the figures of a result file: figures.py r.json"""
import json
import sys

r = json.load(open(sys.argv[1]))
names = ["total_cycles", "compute_cycles", "exchange_cycles", "sync_cycles", "phases", "total_cycles_at_600"]
for name in names:
    assert type(r[name]) is int, (name, r)
assert r["compute_cycles"] + r["exchange_cycles"] + r["sync_cycles"] == r["total_cycles"], r
assert r["total_cycles_at_600"] == r["total_cycles"] + 450 * r["phases"], r
assert abs(r["scheduled_cycles"] - r["total_cycles"]) <= max(40, 0.03 * r["total_cycles"]), r
assert r["device"] == "sim" and r["function"] == "main", r
# The 64 rows of weights are on some tile, and code and buffers fit.
assert 64 * 2 <= r["peak_memory_bytes"] <= 624 * 1024 and r["peak_memory_tile"] in range(8), r
