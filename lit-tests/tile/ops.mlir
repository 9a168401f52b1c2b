// RUN: ipu-opt %s --verify-roundtrip | FileCheck %s
// RUN: ipu-opt %s --mlir-print-op-generic | ipu-opt | FileCheck %s

// The dump of a placed and scheduled program of 8 tiles, as people read it.

#rows = #ipu.layout<rows 8 x 2 stride 1, columns 1 x 16 stride 0, order rows>
#panels = #ipu.layout<rows 8 x 2 stride 1, columns 1 x 16 stride 0, order panels>
#weights = #ipu.layout<rows 1 x 16 stride 0, columns 1 x 16 stride 0, order weights8 memory interleaved copies 8 stride 1>
#sums = #ipu.layout<rows 8 x 2 stride 1, columns 1 x 16 stride 0, order panels memory interleaved>
#first = #ipu.layout<rows 1 x 16 stride 0, columns 1 x 16 stride 0, order rows>

ipu.candidate @c0 {
  // CHECK: tile.program @main on 8 tiles rows 4096 bytes at 0x4c000 {
  tile.program @main on 8 tiles rows 4096 bytes at 0x4c000 {
    // CHECK-NEXT: tile.buffer @x : tensor<16x16xf16, #ipu.layout<rows 8 x 2 stride 1, columns 1 x 16 stride 0, order rows>> align 32
    tile.buffer @x : tensor<16x16xf16, #rows> align 32
    // CHECK-NEXT: tile.buffer @a : {{.*}} align 32 tail 64 live 0 to 1 at 0x5c000
    tile.buffer @a : tensor<16x16xf16, #panels> align 32 tail 64 live 0 to 1 at 0x5c000
    tile.buffer @w : tensor<16x16xf16, #weights> align 32 at 0x80000
    tile.buffer @acc : tensor<16x16xf32, #sums> align 32 tail 96
    tile.buffer @y : tensor<16x16xf16, #panels> align 32
    tile.buffer @g : tensor<16x16xf16, #first> align 32
    // CHECK: tile.bind @x to input 0
    tile.bind @x to input 0
    // CHECK-NEXT: tile.bind @g to output 0
    tile.bind @g to output 0
    // CHECK-NEXT: tile.bind @w to parameter "fc1.weight" : tensor<16x16xf16>
    tile.bind @w to parameter "fc1.weight" : tensor<16x16xf16>
    // CHECK-NEXT: tile.bind @acc to constant dense<0.000000e+00> : tensor<f32>
    tile.bind @acc to constant dense<0.0> : tensor<f32>
    // CHECK-NEXT: tile.rearrange @x.panels from @x to @a
    tile.rearrange @x.panels from @x to @a
    // A transposition, and the first row as every other row.
    // CHECK-NEXT: tile.rearrange @turn from @x to @a view [16, 16] from 0 by [1, 16] to 0 by [16, 1]
    tile.rearrange @turn from @x to @a view [16, 16] from 0 by [1, 16] to 0 by [16, 1]
    // CHECK-NEXT: tile.rearrange @repeat from @x to @a view [8, 16] from 0 by [0, 1] to 16 by [32, 1]
    tile.rearrange @repeat from @x to @a view [8, 16] from 0 by [0, 1] to 16 by [32, 1]
    // CHECK-NEXT: tile.compute @fc1 "gemm_f32"(@a, @w, @acc, @y) {
    // CHECK-NEXT:   0 to 3: [0, 2, 1, 2, 32, 32],
    // CHECK-NEXT:   4: [0, 1, 1, 2, 32, 32],
    // CHECK-NEXT:   6: [0, 1, 1, 2, 32, 32]
    // CHECK-NEXT: }
    // CHECK-NEXT: tile.compute @fc2 "relu_f16"(@a, @y) {0 to 7: [4, 1]}
    // CHECK-NEXT: tile.compute @copy "copy_runs"(@a, @y) {
    // CHECK-NEXT:   0 to 1: [1, 16] table [0, 4294967292, 2],
    // CHECK-NEXT:   2: [0, 0] table [0, 0, 0]
    // CHECK-NEXT: }
    // CHECK-NEXT: tile.compute @none "copy_runs"(@a, @y) {0: [0, 0]}
    tile.compute @fc1 "gemm_f32"(@a, @w, @acc, @y) {0 to 3: [0, 2, 1, 2, 32, 32], 4: [0, 1, 1, 2, 32, 32], 6: [0, 1, 1, 2, 32, 32]}
    tile.compute @fc2 "relu_f16"(@a, @y) {0 to 7: [4, 1]}
    tile.compute @copy "copy_runs"(@a, @y) {0: [1, 16] table [0, 4294967292, 2], 1: [1, 16] table [0, 4294967292, 2], 2: [0, 0] table [0, 0, 0]}
    // A table may be empty.
    tile.compute @none "copy_runs"(@a, @y) {0: [0, 0] table []}
    // CHECK-NEXT: tile.exchange @gather {
    // CHECK-NEXT:   copy @y to @g [
    // CHECK-NEXT:     1+0 x 16 -> 0+64, 1+0 x 8 -> 4+0,
    // CHECK-NEXT:     2+0 x 16 -> 0+128 and 3+0
    // CHECK-NEXT:   ]
    // CHECK-NEXT:   copy @x to @a []
    // CHECK-NEXT: } schedule horizon 110 bound 96 by tile 0 {
    // CHECK-NEXT:   tile 0 until 110 [mux 5 from 1, point 61 @g+64, mux 45 off]
    // CHECK-NEXT:   tile 1 until 30 [send 0 @y+0 x 16 direction 1]
    // CHECK-NEXT: }
    tile.exchange @gather {
      copy @y to @g [1+0 x 16 -> 0+64, 1+0 x 8 -> 4+0, 2+0 x 16 -> 0+128 and 3+0]
      copy @x to @a []
    } schedule horizon 110 bound 96 by tile 0 {
      tile 0 until 110 [mux 5 from 1, point 61 @g+64, mux 45 off]
      tile 1 until 30 [send 0 @y+0 x 16 direction 1]
    }
    // A step may have the name of a buffer.
    // CHECK-NEXT: tile.exchange @x {
    // CHECK-NEXT:   copy @x to @g [1+0 x 16 -> 0+0]
    // CHECK-NEXT: }
    tile.exchange @x {
      copy @x to @g [1+0 x 16 -> 0+0]
    }
  }
}
