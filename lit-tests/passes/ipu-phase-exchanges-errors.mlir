// RUN: ipu-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(ipu.candidate(ipu-phase-exchanges))'

#two = #ipu.layout<rows 2 x 2 stride 1, columns 1 x 16 stride 0, order rows>
ipu.candidate @c0 {
  tile.program @main on 4 tiles {
    tile.buffer @x : tensor<4x16xf16, #two> align 32
    tile.buffer @y : tensor<4x16xf16, #two> align 32
    // expected-error@+1 {{exchange 'odd': transfer 0: 2 words at 0x6 on tile 0 are none, not aligned to words, or outside memory; transfer 0 is [0+6 x 2 -> 1+0]}}
    tile.exchange @odd { copy @x to @y [0+6 x 2 -> 1+0] }
  }
}

// -----

// Tile 1 sends on a part of @y, but not of what both write: which of them wins is open.
#two = #ipu.layout<rows 2 x 2 stride 1, columns 1 x 16 stride 0, order rows>
#all = #ipu.layout<rows 4 x 2 stride 1, columns 1 x 16 stride 0, order rows>
ipu.candidate @c0 {
  tile.program @main on 4 tiles {
    tile.buffer @x : tensor<4x16xf16, #two> align 32
    tile.buffer @y : tensor<8x16xf16, #all> align 32
    tile.buffer @z : tensor<8x16xf16, #all> align 32
    // expected-error@+1 {{exchange 'open': transfers 0 and 1 both write 0x4 on tile 1, and no transfer that reads it lies between; transfer 0 is [0+0 x 2 -> 1+0]; transfer 1 is [2+0 x 2 -> 1+4]}}
    tile.exchange @open {
      copy @x to @y [0+0 x 2 -> 1+0]
      copy @z to @y [2+0 x 2 -> 1+4]
      copy @y to @z [1+32 x 2 -> 3+0]
    }
  }
}
