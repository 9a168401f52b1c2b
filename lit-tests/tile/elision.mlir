// Tables of many entries are left out of what people read.
// UNSUPPORTED: roundtrip
//
// RUN: ipu-opt %s --mlir-elide-elementsattrs-if-larger=2 | FileCheck %s --check-prefix=SHORT
// RUN: ipu-opt %s | FileCheck %s --check-prefix=WHOLE
// RUN: ipu-opt %s -o %t && ipu-opt %t --verify-roundtrip | FileCheck %s --check-prefix=WHOLE

#rows = #ipu.layout<rows 4 x 2 stride 1, columns 1 x 16 stride 0, order rows>
tile.program @main on 4 tiles {
  tile.buffer @x : tensor<8x16xf16, #rows> align 32
  tile.buffer @y : tensor<8x16xf16, #rows> align 32
  // SHORT: tile.exchange @e {
  // SHORT-NEXT: copy @x to @y [elided 3 senders]
  // SHORT-NEXT: copy @y to @x [
  // SHORT-NEXT:   0+0 x 2 -> 1+0, 0+8 x 2 -> 2+0, 0+16 x 2 -> 3+0,
  // SHORT-NEXT:   1+0 x 2 -> 0+0
  // SHORT-NEXT: ]
  // SHORT-NEXT: } schedule horizon 110 bound 96 by tile 0 {
  // SHORT-NEXT: elided 3 rows
  // SHORT-NEXT: }
  // SHORT: tile.compute @g "gather_f16"(@x, @y) {
  // SHORT-NEXT: 0: [3, 0] table [elided 3 words],
  // SHORT-NEXT: 1: [0, 0] table [elided 3 words]
  // SHORT-NEXT: }
  // SHORT-NEXT: tile.compute @h "gather_f16"(@x, @y) {0 to 1: [2, 0] table [1, 2]}
  // WHOLE: 2+0 x 2 -> 3+0{{$}}
  // WHOLE: tile 2 until 5 []
  tile.exchange @e {
    copy @x to @y [0+0 x 2 -> 1+0, 1+0 x 2 -> 2+0, 2+0 x 2 -> 3+0]
    copy @y to @x [0+0 x 2 -> 1+0, 0+8 x 2 -> 2+0, 0+16 x 2 -> 3+0, 1+0 x 2 -> 0+0]
  } schedule horizon 110 bound 96 by tile 0 {
    tile 0 until 5 []
    tile 1 until 5 []
    tile 2 until 5 []
  }
  // WHOLE: 0: [3, 0] table [7, 8, 9],
  tile.compute @g "gather_f16"(@x, @y) {0: [3, 0] table [7, 8, 9], 1: [0, 0] table [7, 8, 9]}
  tile.compute @h "gather_f16"(@x, @y) {0 to 1: [2, 0] table [1, 2]}
}
