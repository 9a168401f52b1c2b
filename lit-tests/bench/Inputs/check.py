"""Checks the rows of `ipu-bench kernels` against the registry: check.py ROWS REGISTRY"""

import json
import re
import sys

rows = json.load(open(sys.argv[1], encoding="utf-8"))
text = open(sys.argv[2], encoding="utf-8").read()
kernels = set(re.findall(r'"(\w+)": \(', text[text.index("kernels: {") :]))
for row in rows:
    assert list(row) == ["kernel", "shape", "law", "simulated", "error_percent"], row
    law, simulated = row["law"], row["simulated"]
    assert abs(row["error_percent"] - 100 * (law - simulated) / simulated) < 1e-6, row
    assert abs(law - simulated) <= max(30, 0.03 * simulated), row
assert kernels and kernels == {row["kernel"] for row in rows}, kernels
print("all kernels of the registry")
print("60 rows or more" if len(rows) >= 60 else len(rows))
