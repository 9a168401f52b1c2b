"""Changes the sign of the last value of an f32 npy file: negate.py FILE"""

import sys

data = bytearray(open(sys.argv[1], "rb").read())
data[-1] ^= 0x80
open(sys.argv[1], "wb").write(data)
