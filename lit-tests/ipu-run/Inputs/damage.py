"""Runs a package truncated at many lengths and with single bytes changed: each must be refused
with status 1 and one message that names the file. damage.py PACKAGE SCRATCH"""
import subprocess
import sys

good = open(sys.argv[1], "rb").read()
scratch = sys.argv[2]


def refused(data, what):
    with open(scratch, "wb") as out:
        out.write(data)
    run = subprocess.run(["ipu-run", scratch, "--quiet", "--input=2x3xf16=0"], capture_output=True, text=True)
    assert run.returncode == 1, (what, run.returncode, run.stderr)
    assert run.stderr.startswith(f"error: {scratch}: package: "), (what, run.stderr)
    assert run.stdout == "" and len(run.stderr) < 1000, (what, run.stdout, run.stderr)
    return run.stderr


size = len(good)
for length in sorted({0, 1, 7, 8, 9, 12, 16, 40, 64, size // 2, size - 1} | {size * i // 12 for i in range(12)}):
    refused(good[:length], f"{length} of {size} bytes")
refused(good + b"\0", "one byte more")
for at in sorted(set(range(0, 96, 8)) | {size * i // 24 for i in range(24)} | {size - 1}):
    changed = bytearray(good)
    changed[at] ^= 0x10
    refused(bytes(changed), f"byte {at} of {size} changed")
# The version follows the magic of 8 bytes; the message says who can read the file.
older = bytearray(good)
older[8:12] = (0).to_bytes(4, "little")
message = refused(bytes(older), "version 0")
assert "format version 0" in message and "compile the model again" in message, message
