// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu.candidate(ipu-tile))' | FileCheck %s
// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu.candidate(ipu-tile,ipu-convert-layouts))' | FileCheck %s --check-prefix=LAYOUTS

// Several tiles share a contraction. 6 rows, 32 deep, 32 wide on 8 tiles: 2 row parts x 2 parts of
// the depth x 2 column parts. Tile c * 4 + i * 2 + p has 3 rows (i), 16 of K (p) and 16 columns (c).
// The result: 4 row parts, 2 on the tiles of each block.
#x = #ipu.layout<rows 2 x 3 stride 2, columns 2 x 16 stride 1, order panels>
#out = #ipu.layout<rows 4 x 2 stride 1, columns 2 x 16 stride 4, order panels>

// CHECK-LABEL: ipu.candidate @product {
// CHECK-NEXT: tile.program @main on 8 tiles {
ipu.candidate @product {
  func.func @main(%x: tensor<6x32xf16, #x>) -> tensor<6x32xf16, #out> {
    %w = nn.parameter "fc.weight" : tensor<32x32xf16>
    %b = nn.parameter "b" : tensor<32xf16>
    %0 = nn.linear %x, %w bias %b {plan = #ipu.plan<gemm grid 2 x 2 k 2, partials f16, compute 1 cycles, exchange 1 cycles, best of 3, operands [
      <rows 2 x 3 stride 2, columns 2 x 16 stride 1, order panels copies 2 stride 4>,
      <rows 2 x 16 stride 1, columns 2 x 16 stride 4, order weights16 memory interleaved copies 2 stride 2>,
      <rows 4 x 2 stride 1, columns 2 x 16 stride 4, order panels>
    ]>} : (tensor<6x32xf16, #x>, tensor<32x32xf16>, tensor<32xf16>) -> tensor<6x32xf16, #out>
    return %0 : tensor<6x32xf16, #out>
  }
}
// The bias comes where the sums are added.
// CHECK: tile.buffer @b : tensor<6x32xf16, #ipu.layout<rows 4 x 2 stride 1, columns 2 x 16 stride 4, order panels>>
// Partial sums: for each column part 16 columns of each part of the depth. Parts of the depth are on
// neighbouring tiles, column parts 4 tiles apart.
// CHECK-NEXT: tile.buffer @fc.partial : tensor<6x64xf16, #ipu.layout<rows 2 x 3 stride 2, columns 4 x 16 stride 1 groups of 2 stride 4, order panels memory interleaved>>
// The same tensor where it is added: all parts of 2 rows.
// CHECK-NEXT: tile.buffer @fc.parts : tensor<6x64xf16, #ipu.layout<rows 4 x 2 stride 1, columns 2 x 32 stride 4 unit 32, order panels memory interleaved>>
// CHECK: tile.compute @fc.gemm "gemm_f16"(@arg0.panels, @fc.weight, @fc.partial) {0 to 7: [0, 3, 1, 1, 96, 96]}
// CHECK-NEXT: tile.rearrange @move.fc.partial from @fc.partial to @fc.parts
// 2 rows of 32 bytes are 4 pairs of atoms; 2 parts, 64 bytes apart.
// CHECK-NEXT: tile.compute @fc.reduce "reduce_halves_f16_add"(@fc.parts, @b, @fc) {
// CHECK-SAME: 0 to 7: [0, 4, 2, 64]

// Tile 0 adds rows 0 and 1 of tiles 0 and 1, tile 1 rows 2 of both and 3 of tiles 2 and 3, whose rows
// are 3 to 5: one row of a panel is 8 words.
// LAYOUTS-LABEL: ipu.candidate @product {
// LAYOUTS: tile.compute @move.fc.partial.local "copy_blocks"(@fc.partial, @fc.parts)
// LAYOUTS: tile.exchange @move.fc.partial {
// LAYOUTS-NEXT: copy @fc.partial to @fc.parts [
// LAYOUTS-NEXT: 0+64 x 8 -> 1+0,
// LAYOUTS-NEXT: 1+0 x 16 -> 0+64,
// LAYOUTS-NEXT: 2+0 x 8 -> 1+32, 2+64 x 8 -> 3+0,
// LAYOUTS-NEXT: 3+0 x 8 -> 1+96, 3+32 x 8 -> 2+64,

// Attention of 2 heads, 4 queries and 6 keys of width 8 on 8 tiles: 2 query parts x 2 key parts each.
#q = #ipu.layout<rows 4 x 2 stride 2 period 4, columns 1 x 8 stride 0, order panels>
#o = #ipu.layout<rows 8 x 1 stride 1 period 4, columns 1 x 8 stride 0, order panels>
// CHECK-LABEL: ipu.candidate @attention {
ipu.candidate @attention {
  func.func @main(%q: tensor<2x4x8xf16, #q>, %k: tensor<2x6x8xf16>, %v: tensor<2x6x8xf16>) -> tensor<2x4x8xf16, #o> {
    %0 = nn.attention %q, %k, %v scale 0.5 {plan = #ipu.plan<attention grid 4 x 1 k 2, partials f16, compute 1 cycles, exchange 1 cycles, best of 3, operands [
      <rows 4 x 2 stride 2 period 4, columns 1 x 8 stride 0, order panels copies 2 stride 1>,
      <rows 4 x 3 stride 1 period 6 groups of 2 stride 4, columns 1 x 8 stride 0, order panels memory interleaved copies 2 stride 2>,
      <rows 4 x 3 stride 1 period 6 groups of 2 stride 4, columns 1 x 8 stride 0, order panels copies 2 stride 2>
    ]>} : (tensor<2x4x8xf16, #q>, tensor<2x6x8xf16>, tensor<2x6x8xf16>) -> tensor<2x4x8xf16, #o>
    return %0 : tensor<2x4x8xf16, #o>
  }
}
// Scores of 2 queries and 3 keys a tile. Behind the products of a key part is a panel with its sums
// and scales.
// CHECK: tile.buffer @attention.scores : tensor<8x6xf16, #ipu.layout<rows 4 x 2 stride 2 period 4, columns 2 x 3 stride 1 unit 1, order panels memory interleaved>>
// CHECK: tile.buffer @attention.transposed : tensor<32x6xf16, #ipu.layout<rows 2 x 16 stride 4 unit 16, columns 2 x 3 stride 1 unit 1, order panels memory interleaved copies 2 stride 2>>
// CHECK-NEXT: tile.buffer @attention.partial : tensor<8x64xf16, #ipu.layout<rows 4 x 2 stride 2 period 4, columns 2 x 32 stride 1 unit 32, order panels memory interleaved>>
// CHECK-NEXT: tile.buffer @attention.parts : tensor<8x64xf16, #ipu.layout<rows 8 x 1 stride 1 period 4, columns 1 x 64 stride 0, order panels memory interleaved>>
// CHECK: tile.compute @attention.scores_1 "bgemm_f16"
// CHECK-NEXT: tile.compute @attention.softmax "softmax_partial_f16"(@attention.scores, @attention.shares, @attention.partial) {
// CHECK-SAME: 0 to 7: [0, 2, 3, 32, 64, 32, 64, 1056964608, 64]
// CHECK-NEXT: tile.compute @attention.transpose "transpose_f16"
// CHECK-NEXT: tile.compute @attention.values "bgemm_f16"
// CHECK-NEXT: tile.rearrange @move.attention.partial from @attention.partial to @attention.parts
// One row a tile, one panel of 2 parts.
// CHECK-NEXT: tile.compute @attention.combine "combine_softmax_f16"(@attention.parts, @attention.weights, @attention_1) {0 to 7: [0, 1, 1, 2, 64, 32, 32]}
