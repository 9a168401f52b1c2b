// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu.candidate(ipu-phase-exchanges))' | FileCheck %s
// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu.candidate(ipu-phase-exchanges{merge=false}))' | FileCheck %s --check-prefix=APART

#two = #ipu.layout<rows 2 x 1 stride 1, columns 1 x 16 stride 0, order panels>

ipu.candidate @c0 {
  tile.program @main on 2 tiles {
    tile.buffer @q : tensor<2x16xf16, #two> align 32
    tile.buffer @k : tensor<2x16xf16, #two> align 32
    tile.buffer @there : tensor<2x16xf16, #two> align 32
    tile.buffer @also : tensor<2x16xf16, #two> align 32
    tile.buffer @sum : tensor<2x16xf16, #two> align 32

    // The second exchange needs relu of k, which does not need the first: both cross together.
    // The last one sends what depends on what they bring.
    // CHECK: tile.compute @relu.k
    // CHECK-NEXT: tile.exchange @move.q {
    // CHECK-NEXT:   copy @q to @there [0+0 x 8 -> 1+0]
    // CHECK-NEXT:   copy @k to @also [0+0 x 8 -> 1+0]
    // CHECK-NEXT: } schedule
    // CHECK: tile.compute @add
    // CHECK-NEXT: tile.exchange @back {

    // APART: tile.exchange @move.q {
    // APART: tile.compute @relu.k
    // APART: tile.exchange @move.k {
    // APART: tile.exchange @back {
    tile.exchange @move.q { copy @q to @there [0+0 x 8 -> 1+0] }
    tile.compute @relu.k "relu_f16"(@k, @k) {0: [0, 4]}
    tile.exchange @move.k { copy @k to @also [0+0 x 8 -> 1+0] }
    tile.compute @add "add_f16"(@there, @also, @sum) {1: [0, 4]}
    tile.exchange @back { copy @sum to @there [1+0 x 8 -> 0+0] }
  }
}
