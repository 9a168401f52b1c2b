// RUN: ipu-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{'tile.program' op has no tiles}}
tile.program @main on 0 tiles {
}

// -----

// Everything is reported in one run.
#rows = #ipu.layout<rows 4 x 2 stride 1, columns 1 x 16 stride 0, order rows>
tile.program @main on 3 tiles {
  // expected-error@+1 {{'tile.buffer' op @x needs tile 3, the program has 3 tiles}}
  tile.buffer @x : tensor<8x16xf16, #rows> align 32
  // expected-error@+1 {{'tile.buffer' op @weights is tensor<8x16xf16> without an #ipu.layout}}
  tile.buffer @weights : tensor<8x16xf16> align 32
  // expected-error@+1 {{'tile.bind' op refers to unknown buffer @weight, did you mean 'weights'?}}
  tile.bind @weight to input 0
}

// -----

#rows = #ipu.layout<rows 2 x 2 stride 1, columns 1 x 16 stride 0, order rows>
tile.program @main on 4 tiles {
  tile.buffer @x : tensor<4x16xf16, #rows> align 32
  // expected-error@+1 {{@x is defined twice}}
  tile.buffer @x : tensor<4x16xf16, #rows> align 32
  // expected-error@+1 {{@a has alignment 24, not a power of two}}
  tile.buffer @a : tensor<4x16xf16, #rows> align 24
  // expected-error@+1 {{@b is at 0x10, not a multiple of its alignment 32}}
  tile.buffer @b : tensor<4x16xf16, #rows> align 32 at 16
  // expected-error@+1 {{@c is live from step 3 to 2, which is before}}
  tile.buffer @c : tensor<4x16xf16, #rows> align 32 live 3 to 2
  // expected-error@+1 {{@e has two parts on tile 1, a tile holds one}}
  tile.buffer @e : tensor<8x16xf16, #ipu.layout<rows 2 x 4 stride 0, columns 1 x 16 stride 0, order rows from tile 1>> align 32
  // expected-error@+1 {{has -1 as tail, not a 32-bit number}}
  tile.buffer @d : tensor<4x16xf16, #rows> align 32 tail -1
}

// -----

#rows = #ipu.layout<rows 2 x 2 stride 1, columns 1 x 16 stride 0, order rows>
tile.program @main on 4 tiles {
  tile.buffer @x : tensor<4x16xf16, #rows> align 32
  tile.buffer @y : tensor<4x16xf16, #rows> align 32
  tile.buffer @z : tensor<2x16xf16, #rows> align 32
  // expected-error@+1 {{needs exactly one of: input, output, parameter, constant, host}}
  tile.bind @x to input 0 output 0
  // expected-error@+1 {{calls unknown kernel "rellu_f16", did you mean 'relu_f16'?}}
  tile.compute @s0 "rellu_f16"(@x, @y) {0: [4]}
  // expected-error@+1 {{gives "relu_f16" 1 buffers, it takes 2: a, out}}
  tile.compute @s1 "relu_f16"(@x) {0: [4]}
  // expected-error@+1 {{gives "relu_f16" 0 words for 2 tiles, each takes}}
  tile.compute @s2 "relu_f16"(@x, @y) {0 to 1: []}
  // expected-error@+1 {{gives "relu_f16" a table of 1 words, it takes none}}
  tile.compute @t0 "relu_f16"(@x, @y) {0 to 1: [4] table [1]}
  // expected-error@+1 {{gives "copy_runs" 4 words for 1 tiles, each takes 2: runs, work; then the table 'source offset, destination offset and words of each run', here of 3}}
  tile.compute @t1 "copy_runs"(@x, @y) {0: [4] table [1, 2, 3]}
  // expected-error@+1 {{gives "gather_f16" 5 words for 2 tiles, each takes 2: count, dst_offset; then the table 'two element numbers for each word', here of 0}}
  tile.compute @t2 "gather_f16"(@x, @y) {0: [0, 0], 1: [1, 0, 3]}
  // expected-error@+1 {{has -1 as table, not a 32-bit number}}
  "tile.compute"() <{sym_name = "t3", kernel = "copy_runs", buffers = [@x, @y], tiles = array<i32: 0>, words = array<i32: 0, 0>, table = -1 : i64}> : () -> ()
  // expected-error@+1 {{@s2 is defined twice}}
  tile.rearrange @s2 from @x to @y
  // expected-error@+1 {{from @x, tensor<4x16xf16>, to @z, tensor<2x16xf16>: numbers of elements differ: 64 in the source, 32 in the destination}}
  tile.rearrange @s3 from @x to @z
  // expected-error@+1 {{view reaches element 32 of the destination, which has 32}}
  tile.rearrange @s4 from @x to @z view [2, 16] from 32 by [16, 1] to 1 by [16, 1]
  // expected-error@+1 {{view steps by 15 through the destination at axis 0, axes of smaller strides span 16 elements}}
  tile.rearrange @s5 from @x to @z view [2, 16] from 0 by [0, 0] to 0 by [15, 1]
  // expected-error@+1 {{has a malformed view}}
  "tile.rearrange"() <{sym_name = "s6", source = @x, destination = @z, view = array<i64: 7, 1>}> : () -> ()
}

// -----

#rows = #ipu.layout<rows 2 x 2 stride 1, columns 1 x 16 stride 0, order rows>
tile.program @main on 4 tiles {
  tile.buffer @x : tensor<4x16xf16, #rows> align 32
  tile.buffer @y : tensor<4x16xf16, #rows> align 32
  // expected-error@+1 {{names tile 4, the program has 4 tiles}}
  tile.exchange @e0 { copy @x to @y [0+0 x 2 -> 4+0] }
  // expected-error@+1 {{reaches byte 68 of @x, which has 64}}
  tile.exchange @e1 { copy @x to @y [0+60 x 2 -> 1+0] }
  // expected-error@+1 {{reaches byte 4294967304 of @y, which has 64}}
  tile.exchange @e2 { copy @x to @y [0+0 x 3 -> 1+4294967292] }
  // expected-error@+1 {{sends from tile 0 to itself}}
  tile.exchange @e3 { copy @x to @y [0+0 x 2 -> 0+0] }
  // expected-error@+1 {{writes byte 4 of @y on tile 1 twice, by transfers with no order: [0+0 x 2 -> 1+0] and [2+0 x 2 -> 1+4]}}
  tile.exchange @e4 { copy @x to @y [0+0 x 2 -> 1+0, 2+0 x 2 -> 1+4] }
  // expected-error@+1 {{transfers nothing from tile 0}}
  tile.exchange @e5 { copy @x to @y [0+0 x 0 -> 1+0] }
  // expected-error@+1 {{has a row of tile 1 until 11, beyond the horizon 10}}
  tile.exchange @e6 { } schedule horizon 10 bound 1 by tile 0 { tile 1 until 11 [] }
  // expected-error@+1 {{has the row of tile 0 out of order}}
  tile.exchange @e7 { } schedule horizon 10 bound 1 by tile 0 { tile 1 until 1 [] tile 0 until 1 [] }
  // expected-error@+1 {{sends on tile 1 in direction 4, not 1, 2 or 3}}
  tile.exchange @e8 { } schedule horizon 10 bound 1 by tile 0 { tile 1 until 1 [send 0 @x+0 x 1 direction 4] }
  // expected-error@+1 {{sends 3 words at offset 0 on tile 1, which are no 64-bit items}}
  tile.exchange @e10 { } schedule horizon 10 bound 1 by tile 0 { tile 1 until 1 [send 0 @x+0 x 3 direction 5] }
  // expected-error@+1 {{sets format 3 on tile 1, not 0, 1 or 2}}
  tile.exchange @e11 { } schedule horizon 10 bound 1 by tile 0 { tile 1 until 1 [format 1 is 3] }
  // expected-error@+1 {{has a malformed table of copies}}
  "tile.exchange"() <{sym_name = "e9", buffers = [], copies = array<i32: 7>}> : () -> ()
}

// -----

tile.program @main on 4 tiles {
  // expected-error@+1 {{unknown event 'sned', one of: send, mux, point, pair, format}}
  tile.exchange @e { } schedule horizon 10 bound 1 by tile 0 { tile 1 until 1 [sned 0] }
}

// -----

tile.program @main on 4 tiles {
  // expected-error@+1 {{expected 2 strides, one for each axis, found 1}}
  tile.rearrange @m from @x to @y view [2, 3] from 0 by [3] to 0 by [3, 1]
}

// -----

tile.program @main on 4 tiles {
  // expected-error@+1 {{tiles 3 to 1 are not a range}}
  tile.compute @c "relu_f16"() {3 to 1: []}
}

// -----

tile.program @main on 4 tiles {
  // expected-error@+1 {{the table was elided when this text was printed}}
  tile.compute @c "relu_f16"() {elided 17 calls}
}

// -----

tile.program @main on 4 tiles {
  // expected-error@+1 {{the table was elided when this text was printed}}
  tile.compute @c "copy_runs"() {0: [1, 2] table [elided 99 words]}
}

// -----

tile.program @main on 4 tiles {
  // expected-error@+1 {{tile 2 has a table of 1 words, tiles before it one of 2}}
  tile.compute @c "gather_f16"() {0: [1, 0] table [1, 2], 2: [1, 0] table [1]}
}

// -----

// expected-error@+1 {{'tile.bind' op expects parent op 'tile.program'}}
tile.bind @x to input 0
