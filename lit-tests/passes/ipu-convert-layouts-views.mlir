// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu.candidate(ipu-convert-layouts))' | FileCheck %s

// Rearrangements that cut, turn, repeat and reshape. Runs that are contiguous on both sides and
// whole words go to their places; others go to a staging buffer, whose first words are zero, and
// gather_f16 puts words together from pairs of halves. A record of copy_runs is the number of runs,
// a word for its law, and source byte, destination byte and words of each run.

#tokens = #ipu.layout<rows 8 x 2 stride 1, columns 1 x 32 stride 0, order panels>
#heads = #ipu.layout<rows 4 x 8 stride 2, columns 1 x 16 stride 0, order panels>
#first = #ipu.layout<rows 1 x 16 stride 0, columns 1 x 32 stride 0, order panels>
#turned = #ipu.layout<rows 2 x 16 stride 1, columns 1 x 16 stride 0, order panels>
#narrow = #ipu.layout<rows 2 x 2 stride 1, columns 1 x 3 stride 0, order rows>
#wide = #ipu.layout<rows 2 x 2 stride 1, columns 1 x 6 stride 0, order rows>
#flat = #ipu.layout<rows 1 x 1 stride 0, columns 2 x 6 stride 1 unit 1, order rows>
#row = #ipu.layout<rows 1 x 1 stride 0, columns 1 x 32 stride 0, order rows>
#single = #ipu.layout<rows 4 x 1 stride 1, columns 1 x 3 stride 0, order rows>

ipu.candidate @c0 {
  tile.program @main on 8 tiles {
    tile.buffer @x : tensor<16x32xf16, #tokens> align 32
    tile.buffer @heads : tensor<2x16x16xf16, #heads> align 32
    tile.buffer @all : tensor<16x32xf16, #first> align 32
    tile.buffer @turned : tensor<32x16xf16, #turned> align 32
    tile.buffer @narrow : tensor<4x3xf16, #narrow> align 32
    tile.buffer @wide : tensor<4x6xf16, #wide> align 32
    tile.buffer @flat : tensor<12xf16, #flat> align 32
    tile.buffer @bias : tensor<32xf16, #row> align 32
    tile.buffer @f : tensor<4x3xf32, #narrow> align 32
    tile.buffer @g : tensor<4x3xf32, #single> align 32

    // Head split: token t of head h is row 16 h + t. A panel of 2 tokens is 16 words; tile 0 keeps
    // those of head 0 and tile 6 those of the last tokens of head 1.
    // CHECK: tile.compute @split.local "copy_runs"(@x, @heads) {
    // CHECK-NEXT:   0: [1, 30] table [0, 0, 16],
    // CHECK-NEXT:   6: [1, 30] table [64, 128, 16]
    // CHECK-NEXT: }
    // CHECK-NEXT: tile.exchange @split {
    // CHECK-NEXT:   copy @x to @heads [
    // CHECK-NEXT:     0+64 x 16 -> 4+0,
    // CHECK-NEXT:     1+0 x 16 -> 0+64, 1+64 x 16 -> 4+64,
    // CHECK-NEXT:     2+0 x 16 -> 0+128, 2+64 x 16 -> 4+128,
    // CHECK-NEXT:     3+0 x 16 -> 0+192, 3+64 x 16 -> 4+192,
    // CHECK-NEXT:     4+0 x 16 -> 2+0, 4+64 x 16 -> 6+0,
    // CHECK-NEXT:     5+0 x 16 -> 2+64, 5+64 x 16 -> 6+64,
    // CHECK-NEXT:     6+0 x 16 -> 2+128,
    // CHECK-NEXT:     7+0 x 16 -> 2+192, 7+64 x 16 -> 6+192
    // CHECK-NEXT:   ]
    // CHECK-NEXT: }
    tile.rearrange @split from @x to @heads view [2, 16, 16] from 0 by [16, 32, 1] to 0 by [256, 16, 1]

    // Transposition: tile 0 gathers its half from the source itself, tile 1 from what it receives.
    // CHECK-NEXT: tile.compute @turn.local "gather_f16"(@all, @turned) {0: [128, 0] table
    // CHECK-NEXT: tile.exchange @turn {
    // CHECK-NEXT:   copy @all to @turn.stage [0+512 x 128 -> 1+8]
    // CHECK-NEXT: }
    // CHECK-NEXT: tile.compute @turn.build "gather_f16"(@turn.stage, @turned) {1: [128, 0] table
    tile.rearrange @turn from @all to @turned view [32, 16] from 0 by [1, 32] to 0 by [16, 1]

    // Columns 5 to 7 of rows 3 to 6: row 3 is on tile 1, its halves 5 to 7 in words 2 and 3 of the
    // 40 bytes from there on. They come to stand in staging halves 4 to 7; the first word of the
    // result are halves 5 and 6 (6 * 65536 + 5), the second 7 and a zero.
    // CHECK-NEXT: tile.compute @cut.clear "fill_zero"(@cut.stage) {0 to 1: [0, 1]}
    // CHECK-NEXT: tile.exchange @cut {
    // CHECK-NEXT:   copy @x to @cut.stage [
    // CHECK-NEXT:     1+40 x 2 -> 0+8,
    // CHECK-NEXT:     2+8 x 2 -> 0+16, 2+40 x 2 -> 1+8,
    // CHECK-NEXT:     3+8 x 2 -> 1+16
    // CHECK-NEXT:   ]
    // CHECK-NEXT: }
    // CHECK-NEXT: tile.compute @cut.build "gather_f16"(@cut.stage, @narrow) {0 to 1: [16, 0] table [393221, 7, 0, 0, 0, 0, 0, 0, 655369, 11, 0, 0, 0, 0, 0, 0]}
    tile.rearrange @cut from @x to @narrow view [4, 3] from 101 by [32, 1] to 0 by [3, 1]

    // Concatenation of columns 0 to 2 and 3 to 5: the middle word of a row holds halves of both, so
    // that it is staged with what it has, built, and put back. The right part brings the padding.
    // CHECK-NEXT: tile.compute @left.local "copy_runs"(@narrow, @left.stage)
    // CHECK-NEXT: tile.compute @left.local_1 "copy_runs"(@wide, @left.stage)
    // CHECK-NEXT: tile.compute @left.build "gather_f16"(@left.stage, @left.words) {0 to 1: [4, 0]
    // CHECK-NEXT: tile.compute @left.place "copy_runs"(@left.words, @wide) {0 to 1: [2, 16] table [0, 0, 2, 8, 32, 2]}
    // CHECK-NEXT: tile.compute @right.local "copy_runs"(@narrow, @right.stage)
    // CHECK-NEXT: tile.compute @right.local_1 "copy_runs"(@wide, @right.stage)
    // CHECK-NEXT: tile.compute @right.build "gather_f16"(@right.stage, @right.words) {0 to 1: [14, 0]
    // CHECK-NEXT: tile.compute @right.place "copy_runs"(@right.words, @wide) {0 to 1: [2, 24] table [28, 36, 7, 0, 4, 7]}
    tile.rearrange @left from @narrow to @wide view [4, 3] from 0 by [3, 1] to 0 by [6, 1]
    tile.rearrange @right from @narrow to @wide view [4, 3] from 0 by [3, 1] to 3 by [6, 1]

    // A row for every row: each piece crosses once, to all tiles.
    // CHECK-NEXT: tile.compute @repeat.local "copy_runs"(@bias, @x) {0:
    // CHECK-NEXT: tile.exchange @repeat {
    // CHECK-NEXT:   copy @bias to @x [0+0 x 8 -> 1+0 and 2+0 and 3+0 and 4+0 and 5+0 and 6+0 and 7+0, 0+0 x 16 -> 1+32
    // CHECK-NEXT: }
    tile.rearrange @repeat from @bias to @x view [16, 32] from 0 by [0, 1] to 0 by [32, 1]

    // A reshape of odd rows; all of it is on the tiles already. The last source row and the result
    // end together, so that the zeros behind one become those behind the other.
    // CHECK-NEXT: tile.compute @flatten.local "gather_f16"(@narrow, @flat) {0 to 1: [8, 0] table [65536, 1048578, 1179665, 1310739,
    tile.rearrange @flatten from @narrow to @flat

    // f32 is whole words everywhere; a row with its padding is 16.
    // CHECK-NEXT: tile.compute @words.local "copy_runs"(@f, @g) {0: [1, 30] table [0, 0, 16]}
    // CHECK-NEXT: tile.exchange @words {
    // CHECK-NEXT:   copy @f to @g [
    // CHECK-NEXT:     0+64 x 16 -> 1+0,
    // CHECK-NEXT:     1+0 x 16 -> 2+0, 1+64 x 16 -> 3+0
    // CHECK-NEXT:   ]
    // CHECK-NEXT: }
    tile.rearrange @words from @f to @g
    // CHECK-NOT: tile.rearrange
  }
}
