#!/usr/bin/env python3
"""Prints a table of result files of ipu-run: tools/cycles.py NAME=FILE.json..."""

import json
import sys

COLUMNS = [
    ("estimated", "estimated_cycles"),
    ("scheduled", "scheduled_cycles"),
    ("simulated", "total_cycles"),
    ("compute", "compute_cycles"),
    ("exchange", "exchange_cycles"),
    ("sync", "sync_cycles"),
    ("phases", "phases"),
    ("at 600", "total_cycles_at_600"),
]


def main() -> int:
    rows = [["", *(title for title, _ in COLUMNS)]]
    for argument in sys.argv[1:]:
        name, _, file = argument.partition("=")
        if not file:
            print(__doc__, file=sys.stderr)
            return 2
        with open(file) as text:
            result = json.load(text)
        rows.append([name, *(f"{result[key]:,}" if key in result else "-" for _, key in COLUMNS)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print(row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:])), sep="  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
