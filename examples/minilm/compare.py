#!/usr/bin/env python3
"""Compares sentence embeddings with their reference, and the sentences with each other.

Exit status 1 when a cosine to the reference is below the limit, or when the pairs of sentences have
another order by similarity than in the reference.
"""

import argparse
import itertools
import pathlib

import numpy as np


def unit(path):
    rows = np.load(path).astype(np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("embeddings", type=pathlib.Path)
    parser.add_argument("expected", type=pathlib.Path)
    parser.add_argument("--sentences", type=pathlib.Path, help="text of the sentences, one a line")
    parser.add_argument("--limit", type=float, default=0.9995, help="least cosine")
    options = parser.parse_args()
    found, expected = unit(options.embeddings), unit(options.expected)
    if found.shape != expected.shape:
        raise SystemExit(f"expected {expected.shape} embeddings, found {found.shape}")
    cosines = (found * expected).sum(axis=1)
    for i, cosine in enumerate(cosines):
        print(f"sentence {i} cosine {cosine:.5f}")
    if options.sentences:
        lines = [s for s in options.sentences.read_text().splitlines() if s.strip()]
        for i, line in enumerate(lines):
            print(f"  {i}: {line}")
    print("similarities")
    for row in found @ found.T:
        print("  " + " ".join(f"{value:6.3f}" for value in row))
    pairs = list(itertools.combinations(range(len(found)), 2))
    by = [sorted(pairs, key=lambda p: -(rows[p[0]] @ rows[p[1]])) for rows in (found, expected)]
    same = by[0] == by[1]
    print(f"ranking of {len(pairs)} pairs: {'as in the reference' if same else 'another one'}")
    if not same or not (cosines >= options.limit).all():
        raise SystemExit(1)


if __name__ == "__main__":
    main()
