// A product whose operands are distributed: each element of x and of the weights is on one tile, and
// two steps bring halves of the contraction to a grid of 2 x 2 x 2 tiles.

// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu-select-operators{tiles=10 partials=any finalists=1},ipu.candidate(ipu-tile))' | FileCheck %s --check-prefix=TILE
// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu-select-operators{tiles=10 partials=any finalists=1},ipu.candidate(ipu-tile,ipu-convert-layouts))' | FileCheck %s
// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu-select-operators{tiles=10 partials=any finalists=1})' | ipu-opt | FileCheck %s --check-prefix=PLAN

// PLAN: #ipu.plan<gemm grid 2 x 2 k 2 steps 2 weights distributed, partials f16

// Homes begin behind the grid's first tiles, so that no tile has a part of its own blocks.
// TILE: tile.buffer @arg0 : tensor<12x64xf16, #ipu.layout<rows 2 x 6 stride 2, columns 4 x 16 stride 4 groups of 2 stride 1, order panels from tile 2>>
// TILE: tile.buffer @w : tensor<64x32xf16, #ipu.layout<rows 4 x 16 stride 0 unit 1 period 16 groups of 1 stride 1, columns 2 x 16 stride 4, order weights16 from tile 1>>
// Steps share their buffers.
// TILE: tile.rearrange @move.linear.left from @arg0 to @linear.left view [12, 32] from 0 by [64, 1] to 0 by [32, 1]
// TILE-NEXT: tile.rearrange @move.linear.block from @w to @linear.block view [32, 32] from 0 by [32, 1] to 0 by [32, 1]
// TILE-NEXT: tile.compute @linear.gemm "gemm_f16"(@linear.left, @linear.block, @linear.partial)
// TILE-NEXT: tile.rearrange @move.linear.left_1 from @arg0 to @linear.left view [12, 32] from 32 by [64, 1] to 0 by [32, 1]
// TILE-NEXT: tile.rearrange @move.linear.block_1 from @w to @linear.block view [32, 32] from 1024 by [32, 1] to 0 by [32, 1]
// TILE-NEXT: tile.compute @linear.gemm_1 "gemm_f16_accumulate"(@linear.left, @linear.block, @linear.partial)
// TILE-NEXT: tile.rearrange @move.linear.partial from @linear.partial to @linear.parts

// A panel of x goes to both column parts, a panel of the weights to both row parts.
// CHECK-NOT: copy_blocks
// CHECK: tile.exchange @move.linear.left {
// CHECK: tile.exchange @move.linear.block {
// CHECK-NEXT: copy @w to @linear.block [
// CHECK-NEXT: 1+0 x 128 -> 0+0 and 2+0,
// CHECK-NEXT: 2+0 x 128 -> 1+0 and 3+0,
// CHECK-NEXT: 5+0 x 128 -> 4+0 and 6+0,
// CHECK-NEXT: 6+0 x 128 -> 5+0 and 7+0
// CHECK: tile.compute @linear.gemm "gemm_f16"
// CHECK-NOT: copy_blocks
// CHECK: tile.exchange @move.linear.block_1 {
// CHECK-NEXT: copy @w to @linear.block [
// CHECK-NEXT: 3+0 x 128 -> 0+0 and 2+0,
// CHECK-NEXT: 4+0 x 128 -> 1+0 and 3+0,
// CHECK-NEXT: 7+0 x 128 -> 4+0 and 6+0,
// CHECK-NEXT: 8+0 x 128 -> 5+0 and 7+0
// CHECK: tile.compute @linear.gemm_1 "gemm_f16_accumulate"

func.func @main(%x: tensor<12x64xf16>) -> tensor<12x32xf16> {
  %w = nn.parameter "w" : tensor<64x32xf16>
  %b = nn.parameter "b" : tensor<32xf16>
  %0 = nn.matmul %x, %w {ipu.plan_hint = "grid=2x2x2,partials=f16,steps=2"} : (tensor<12x64xf16>, tensor<64x32xf16>) -> tensor<12x32xf16>
  %1 = nn.add %0, %b : (tensor<12x32xf16>, tensor<32xf16>) -> tensor<12x32xf16>
  return %1 : tensor<12x32xf16>
}
