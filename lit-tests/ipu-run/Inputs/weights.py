"""Weights of a model, or one array, with values that look random and are the same everywhere.

weights.py FILE.safetensors MODEL.mlir: all parameters, f32, between -1/4 and 1/4
weights.py FILE.npy SHAPE: f32, between -1 and 1"""
import os
import re
import subprocess
import sys


def values(count, scale, seed):
    state = seed
    for _ in range(count):
        state = (state * 1103515245 + 12345) % 2**31
        yield scale * (state / 2**30 - 1)


def size(shape):
    count = 1
    for n in shape.split("x"):
        count *= int(n)
    return count


make = [sys.executable, os.path.join(os.path.dirname(__file__), "make.py"), sys.argv[1]]
if sys.argv[1].endswith(".npy"):
    shape = sys.argv[2]
    make += ["f32", shape, *(repr(x) for x in values(size(shape), 1, 77))]
else:
    found = re.findall(r'nn\.parameter "([^"]*)" : tensor<([0-9x]*)x', open(sys.argv[2]).read())
    for seed, (key, shape) in enumerate(found, 1):
        text = ",".join(f"{x:.6f}" for x in values(size(shape), 0.25, seed))
        make.append(f"{key}:f32:{shape}:{text}")
subprocess.run(make, check=True)
