"""Writes small npy and safetensors files without numpy.

make.py FILE.npy DTYPE SHAPE VALUE...
make.py FILE.safetensors KEY:DTYPE:SHAPE:VALUE,VALUE,...  ...

One value is repeated for all elements. DTYPE is f16, f32, f64, i64 or c64 (npy only); SHAPE is 2x3, or - for a scalar."""
import json
import math
import struct
import sys

NPY = {"f16": ("<f2", "e"), "f32": ("<f4", "f"), "f64": ("<f8", "d"), "i64": ("<i8", "q"), "c64": ("<c8", "d")}
SAFE = {"f16": ("F16", "e"), "f32": ("F32", "f"), "f64": ("F64", "d"), "i64": ("I64", "q")}


def extents(text):
    return [] if text == "-" else [int(n) for n in text.split("x")]


def data(letter, shape, values):
    if len(values) == 1:
        values = values * math.prod(extents(shape))
    return b"".join(struct.pack("<" + letter, int(v) if letter == "q" else float(v)) for v in values)


def npy(file, dtype, shape, values):
    descr, letter = NPY[dtype]
    text = "".join(f"{n}, " for n in extents(shape))
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({text}), }}\n".encode()
    with open(file, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data(letter, shape, values))


def safetensors(file, tensors):
    header, blob = {}, b""
    for text in tensors:
        key, dtype, shape, values = text.split(":")
        name, letter = SAFE[dtype]
        bytes_ = data(letter, shape, values.split(","))
        header[key] = {"dtype": name, "shape": extents(shape), "data_offsets": [len(blob), len(blob) + len(bytes_)]}
        blob += bytes_
    text = json.dumps(header).encode()
    with open(file, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + blob)


if sys.argv[1].endswith(".npy"):
    npy(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
else:
    safetensors(sys.argv[1], sys.argv[2:])
