// RUN: ipu-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(ipu.candidate(ipu-convert-layouts))'

#rows = #ipu.layout<rows 2 x 2 stride 1, columns 1 x 16 stride 0, order rows>
#weights = #ipu.layout<rows 1 x 4 stride 0, columns 1 x 16 stride 0, order weights8 memory interleaved>
ipu.candidate @c0 {
  tile.program @main on 2 tiles {
    tile.buffer @w : tensor<4x16xf16, #weights> align 32
    tile.buffer @x : tensor<4x16xf16, #rows> align 32
    // expected-error@+1 {{rearrangement 'move' from 'w' to 'x' has element order 'weights8', which only the host writes}}
    tile.rearrange @move from @w to @x
  }
}

// -----

#rows = #ipu.layout<rows 2 x 2 stride 1, columns 1 x 16 stride 0, order rows>
ipu.candidate @c0 {
  tile.program @main on 2 tiles {
    tile.buffer @x : tensor<4x16xf32, #rows> align 32
    tile.buffer @y : tensor<4x16xf16, #rows> align 32
    // expected-error@+1 {{rearrangement 'move' from 'x' to 'y' changes the element type from f32 to f16}}
    tile.rearrange @move from @x to @y
  }
}

// -----

#rows = #ipu.layout<rows 2 x 2 stride 1, columns 1 x 16 stride 0, order rows>
ipu.candidate @c0 {
  tile.program @main on 2 tiles {
    tile.buffer @x : tensor<4x16xf16, #rows> align 32
    // expected-error@+1 {{rearrangement 'turn' from 'x' to 'x' reads what it writes; use two buffers}}
    tile.rearrange @turn from @x to @x view [16, 4] from 0 by [1, 16] to 0 by [4, 1]
  }
}

// -----

// Blocks of 4 in which units of 8 rows do not fit.
#rows = #ipu.layout<rows 4 x 4 stride 1, columns 1 x 16 stride 0, order rows>
#units = #ipu.layout<rows 4 x 4 stride 1 unit 8, columns 1 x 16 stride 0, order panels>
ipu.candidate @c0 {
  tile.program @main on 4 tiles {
    tile.buffer @x : tensor<12x8xf16, #rows> align 32
    tile.buffer @y : tensor<6x16xf16, #units> align 32
    // expected-error@+1 {{rearrangement 'move' from 'x' to 'y' has rows 0 to 6 in part 0, which do not follow 0 or are more than the block of 4}}
    tile.rearrange @move from @x to @y
  }
}

// -----

// expected-error@+1 {{'ipu.candidate' op has no tile.program; run ipu-tile first}}
ipu.candidate @c0 {
}
