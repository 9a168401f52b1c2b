// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu.candidate(ipu-phase-exchanges{renumber=1000}))' | FileCheck %s --check-prefix=GIVEN
// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu.candidate(ipu-phase-exchanges{renumber=0}))' | FileCheck %s
// RUN: not ipu-opt %s --pass-pipeline='builtin.module(ipu.candidate(ipu-phase-exchanges{renumber=1001}))' 2>&1 | FileCheck %s --check-prefix=RANGE

// RANGE: error: {{.*}}ipu-phase-exchanges: option renumber is 1001, expected 0 to 1000

// Tile 2 is a row farther than tile 1, two events for whoever receives there: the tiles of the
// whole program are transposed, which its layouts can say.
// GIVEN: tile.buffer @x : tensor<4x16xf16, {{.*}}<rows 4 x 1 stride 1, columns
// GIVEN: copy @x to @y [0+0 x 8 -> 2+0]
// GIVEN: schedule horizon 68 bound 68 by tile 2
// GIVEN: tile.compute @relu "relu_f16"(@y, @y) {2: [8, 0]}
// CHECK: tile.buffer @x : tensor<4x16xf16, {{.*}}<rows 4 x 1 stride 2 groups of 2 stride 1, columns
// CHECK: copy @x to @y [0+0 x 8 -> 1+0]
// CHECK: schedule horizon 66 bound 66 by tile 1
// CHECK: tile.compute @relu "relu_f16"(@y, @y) {1: [8, 0]}

#four = #ipu.layout<rows 4 x 1 stride 1, columns 1 x 16 stride 0, order rows>
ipu.candidate @c0 {
  tile.program @main on 4 tiles {
    tile.buffer @x : tensor<4x16xf16, #four> align 32
    tile.buffer @y : tensor<4x16xf16, #four> align 32
    tile.exchange @move { copy @x to @y [0+0 x 8 -> 2+0] }
    tile.compute @relu "relu_f16"(@y, @y) {2: [8, 0]}
  }
}
