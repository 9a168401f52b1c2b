// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu.candidate(ipu-place-storage))' | FileCheck %s

// Data starts an element of 16 KiB behind the runtime state at 0x58000; region 1 starts at 0x80000.
#x = #ipu.layout<rows 2 x 6 stride 1, columns 1 x 16 stride 0, order panels>
#w = #ipu.layout<rows 1 x 16 stride 0, columns 1 x 16 stride 0, order weights8 memory interleaved copies 2 stride 1>
#acc = #ipu.layout<rows 2 x 3 stride 1, columns 1 x 16 stride 0, order rows memory interleaved>

// Exchange rows get elements of their own, one at least.
// CHECK: tile.program @main on 2 tiles rows 16384 bytes at 0x54000 {
ipu.candidate @c0 {
  tile.program @main on 2 tiles {
    // 6 rows of 32 bytes on each tile. The product reads @x and accumulates in @acc in one
    // instruction, so they must not share an element; they are in different regions anyway.
    // CHECK-NEXT: tile.buffer @x : {{.*}} align 32 tail 24 live 0 to 0 at 0x5c000
    tile.buffer @x : tensor<12x16xf16, #x> align 32 tail 24
    // Parameters live always.
    // CHECK-NEXT: tile.buffer @w : {{.*}} align 32 live 0 to 2 at 0x80000
    tile.buffer @w : tensor<16x16xf16, #w> align 32
    // 512 bytes of weights are before it.
    // CHECK-NEXT: tile.buffer @acc : {{.*}} align 32 tail 56 live 0 to 0 at 0x80200
    tile.buffer @acc : tensor<6x16xf32, #acc> align 32 tail 56
    // Live with @x, which ends at 0x5c000 + 192 + 24: the next multiple of 32.
    // CHECK-NEXT: tile.buffer @y : {{.*}} align 32 live 0 to 1 at 0x5c0e0
    tile.buffer @y : tensor<12x16xf16, #x> align 32
    // @x is not needed any more.
    // CHECK-NEXT: tile.buffer @z : {{.*}} align 32 live 1 to 2 at 0x5c000
    tile.buffer @z : tensor<12x16xf16, #x> align 32
    // An output is kept to the end, here where @y was.
    // CHECK-NEXT: tile.buffer @r : {{.*}} align 32 live 2 to 2 at 0x5c0c0
    tile.buffer @r : tensor<12x16xf16, #x> align 32
    tile.bind @x to input 0
    tile.bind @w to parameter "w" : tensor<16x16xf16>
    tile.bind @r to output 0
    tile.compute @gemm "gemm_f32"(@x, @w, @acc, @y) {0 to 1: [1, 0, 1, 1, 192, 192]}
    tile.compute @relu "relu_f16"(@y, @z) {0 to 1: [4, 0]}
    tile.compute @relu2 "relu_f16"(@z, @r) {0 to 1: [4, 0]}
  }
}

// What a tile sends and receives in one phase is kept in different elements: tile 0 sends @s and
// receives @d, so @d starts at the next multiple of 16 KiB although @s has 32 bytes.
#one = #ipu.layout<rows 2 x 1 stride 1, columns 1 x 16 stride 0, order panels>
// CHECK-LABEL: ipu.candidate @swap
// CHECK: tile.buffer @s : {{.*}} at 0x5c000
// CHECK: tile.buffer @d : {{.*}} at 0x60000
ipu.candidate @swap {
  tile.program @main on 2 tiles {
    tile.buffer @s : tensor<2x16xf16, #one> align 32
    tile.buffer @d : tensor<2x16xf16, #one> align 32
    tile.bind @s to input 0
    tile.bind @d to output 0
    tile.exchange @swap {
      copy @s to @d [0+0 x 8 -> 1+0, 1+0 x 8 -> 0+0]
    } schedule horizon 66 bound 66 by tile 0 {
      tile 0 until 66 []
      tile 1 until 66 []
    }
  }
}

// Shards on different tiles share an address.
#a = #ipu.layout<rows 1 x 2 stride 0, columns 1 x 16 stride 0, order rows>
#b = #ipu.layout<rows 1 x 2 stride 0, columns 1 x 16 stride 0, order rows from tile 1>
// CHECK-LABEL: ipu.candidate @apart
// CHECK: tile.buffer @a : {{.*}} at 0x5c000
// CHECK: tile.buffer @b : {{.*}} at 0x5c000
ipu.candidate @apart {
  tile.program @main on 2 tiles {
    tile.buffer @a : tensor<2x16xf16, #a> align 32
    tile.buffer @b : tensor<2x16xf16, #b> align 32
    tile.bind @a to input 0
    tile.bind @b to input 1
    tile.compute @relu "relu_f16"(@a, @a) {0: [1, 2]}
  }
}

// Too much for a tile: the candidate says why, another one may fit. 0x80000 to 0xe7bb0 are
// 424880 bytes of region 1; 8192 x 32 weights have 524288.
#big = #ipu.layout<rows 1 x 8192 stride 0, columns 1 x 32 stride 0, order weights8 memory interleaved>
#sm = #ipu.layout<rows 1 x 16 stride 0, columns 1 x 16 stride 0, order weights8 memory interleaved>
// CHECK-LABEL: ipu.candidate @large
// CHECK-SAME: infeasible = "the model does not fit: buffer 'big' needs 524288 bytes of region 1 memory on tile 0, which has 424880 bytes in all; live at the same time:\0A 512 bytes 'small'
// CHECK-SAME: use more tiles
// CHECK-NOT: at 0x
// CHECK: tile.compute
ipu.candidate @large {
  tile.program @main on 1 tiles {
    tile.buffer @big : tensor<8192x32xf16, #big> align 32
    tile.buffer @small : tensor<16x16xf16, #sm> align 32
    tile.bind @big to parameter "big" : tensor<8192x32xf16>
    tile.bind @small to parameter "small" : tensor<16x16xf16>
    tile.compute @relu "relu_f16"(@small, @small) {0: [1, 2]}
  }
}
