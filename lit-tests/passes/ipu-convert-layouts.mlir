// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu.candidate(ipu-convert-layouts))' | FileCheck %s

// 4 rows of 20 columns, so 2 panels of 16 columns each; on 2 tiles a shard has 2 rows.
#rows = #ipu.layout<rows 2 x 2 stride 1, columns 1 x 20 stride 0, order rows>
#panels = #ipu.layout<rows 2 x 2 stride 1, columns 1 x 20 stride 0, order panels>
#first = #ipu.layout<rows 1 x 4 stride 0, columns 1 x 20 stride 0, order panels>
#firstrows = #ipu.layout<rows 1 x 4 stride 0, columns 1 x 20 stride 0, order rows>
#both = #ipu.layout<rows 1 x 4 stride 0, columns 1 x 20 stride 0, order panels copies 3 stride 1>

ipu.candidate @c0 {
  tile.program @main on 3 tiles {
    tile.buffer @rows : tensor<4x20xf16, #rows> align 32
    tile.buffer @panels : tensor<4x20xf16, #panels> align 32
    tile.buffer @first : tensor<4x20xf16, #first> align 32
    tile.buffer @firstrows : tensor<4x20xf16, #firstrows> align 32
    tile.buffer @all : tensor<4x20xf16, #both> align 32

    // The same tiles: local copies of 2 rows (no row for each of 6 workers, 2 more) in 2 panels.
    // Rows of 32 elements are 64 bytes apart, panels in them 32; in panels rows are 32 apart and
    // panels of 2 rows 64.
    // CHECK: tile.compute @pack "copy_blocks"(@rows, @panels) {0 to 1: [0, 2, 2, 0, 0, 64, 32, 32, 64]}
    tile.rearrange @pack from @rows to @panels

    // To tile 0: its own rows stay there; the rows of tile 1 are 2 runs of 2 * 32 bytes, 16 words,
    // to row 2 of each panel, whose panels are 4 * 32 bytes apart.
    // CHECK-NEXT: tile.compute @gather.local "copy_blocks"(@panels, @first) {0: [0, 2, 2, 0, 0, 32, 64, 32, 128]}
    // CHECK-NEXT: tile.exchange @gather {
    // CHECK-NEXT:   copy @panels to @first [1+0 x 16 -> 0+64, 1+64 x 16 -> 0+192]
    // CHECK-NEXT: }
    tile.rearrange @gather from @panels to @first

    // Equal pieces for several tiles are one transfer. Whole panels follow each other on both
    // sides: they are joined to one of 2 * 4 * 32 bytes, 64 words.
    // CHECK-NEXT: tile.compute @spread.local "copy_blocks"(@first, @all) {0: [0, 4, 2, 0, 0, 32, 128, 32, 128]}
    // CHECK-NEXT: tile.exchange @spread {
    // CHECK-NEXT:   copy @first to @all [0+0 x 64 -> 1+0 and 2+0]
    // CHECK-NEXT: }
    tile.rearrange @spread from @first to @all

    // Of several copies the one on the same tile is taken: no exchange.
    // CHECK-NEXT: tile.compute @near.local "copy_blocks"(@all, @panels) {
    // CHECK-NEXT:   0: [0, 2, 2, 0, 0, 32, 128, 32, 64],
    // CHECK-NEXT:   1: [0, 2, 2, 64, 0, 32, 128, 32, 64]
    // CHECK-NEXT: }
    tile.rearrange @near from @all to @panels

    // Rows to rows on other tiles stay rows: 2 rows of 64 bytes, padding included, are one run.
    // CHECK-NEXT: tile.compute @far.local "copy_runs"(@rows, @firstrows) {0: [2, 30] table [0, 0, 16, 64, 64, 16]}
    // CHECK-NEXT: tile.exchange @far {
    // CHECK-NEXT:   copy @rows to @firstrows [1+0 x 32 -> 0+128]
    // CHECK-NEXT: }
    tile.rearrange @far from @rows to @firstrows

    // Rows to panels on other tiles: packed, exchanged; and panels to rows.
    // CHECK-NEXT: tile.compute @there.pack "copy_blocks"(@rows, @there.pack)
    // CHECK-NEXT: tile.compute @there.local "copy_blocks"(@there.pack, @first)
    // CHECK-NEXT: tile.exchange @there {
    // CHECK-NEXT:   copy @there.pack to @first [1+0 x 16 -> 0+64, 1+64 x 16 -> 0+192]
    // CHECK-NEXT: }
    tile.rearrange @there from @rows to @first
    // CHECK-NEXT: tile.compute @back.local "copy_blocks"(@panels, @back.unpack)
    // CHECK-NEXT: tile.exchange @back {
    // CHECK-NEXT:   copy @panels to @back.unpack [1+0 x 16 -> 0+64, 1+64 x 16 -> 0+192]
    // CHECK-NEXT: }
    // CHECK-NEXT: tile.compute @back.unpack "copy_blocks"(@back.unpack, @firstrows) {0: [0, 4, 2, 0, 0, 32, 128, 64, 32]}
    tile.rearrange @back from @panels to @firstrows
    // CHECK-NOT: tile.rearrange
  }
}
