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
    tile.buffer @y : tensor<4x16xf32, #rows> align 32
    // expected-error@+1 {{rearrangement 'move' from 'x' to 'y' moves f32, only f16 moves in blocks of 32 bytes}}
    tile.rearrange @move from @x to @y
  }
}

// -----

#rows = #ipu.layout<rows 1 x 4 stride 0, columns 1 x 16 stride 0, order rows>
#halves = #ipu.layout<rows 1 x 4 stride 0, columns 2 x 8 stride 1, order panels>
ipu.candidate @c0 {
  tile.program @main on 2 tiles {
    tile.buffer @x : tensor<4x16xf16, #rows> align 32
    tile.buffer @y : tensor<4x16xf16, #halves> align 32
    // expected-error@+1 {{rearrangement 'move' from 'x' to 'y' divides columns into blocks of 8, not of 16}}
    tile.rearrange @move from @x to @y
  }
}

// -----

// expected-error@+1 {{'ipu.candidate' op has no tile.program; run ipu-tile first}}
ipu.candidate @c0 {
}
