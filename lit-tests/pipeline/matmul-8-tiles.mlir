// A layer on 8 tiles, level by level: what a person reads in `ipu-run --dump_compilation_phases_to`.
//
// DEFINE: %{candidate} = ipu-tile
// DEFINE: %{run} = ipu-opt %s --pass-pipeline='builtin.module(ipu-select-operators{tiles=8 finalists=1},ipu.candidate(%{candidate}))' | FileCheck %s --check-prefix
// RUN: ipu-opt %s --ipu-select-operators="tiles=8 finalists=1" | FileCheck %s --check-prefix=SELECT
// RUN: %{run}=TILE
// REDEFINE: %{candidate} = ipu-tile,ipu-convert-layouts
// RUN: %{run}=LAYOUTS
// REDEFINE: %{candidate} = ipu-tile,ipu-convert-layouts,ipu-phase-exchanges
// RUN: %{run}=PHASES
// REDEFINE: %{candidate} = ipu-tile,ipu-convert-layouts,ipu-phase-exchanges,ipu-place-storage
// RUN: %{run}=STORAGE
// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu-select-operators{tiles=8},ipu.candidate(%{candidate}),ipu-pick-finalist,ipu-emit)' | FileCheck %s --check-prefix=PACKAGE

// 4 rows of 64 times 64 x 64: one plan in 2 x 4 parts, 2 rows and 16 columns on each tile.
func.func @main(%x: tensor<4x64xf16>) -> tensor<4x64xf16> {
  %w = nn.parameter "fc.weight" : tensor<64x64xf16>
  %b = nn.parameter "fc.bias" : tensor<64xf16>
  %0 = nn.matmul %x, %w : (tensor<4x64xf16>, tensor<64x64xf16>) -> tensor<4x64xf16>
  %1 = nn.add %0, %b : (tensor<4x64xf16>, tensor<64xf16>) -> tensor<4x64xf16>
  %2 = nn.relu %1 : tensor<4x64xf16>
  return %2 : tensor<4x64xf16>
}

// Operators: the three are one. The argument arrives in 8 parts, 2 rows of 16 columns on each tile;
// the product wants each pair of rows whole on 4 tiles and has each quarter of the weights on 2.
// SELECT: ipu.candidate @c0 estimated {{[0-9]+}} because
// SELECT-NEXT: func.func @main(%arg0: tensor<4x64xf16, #ipu.layout<rows 2 x 2 stride 4, columns 4 x 16 stride 1, order panels>>)
// SELECT: nn.linear %arg0, %0 bias %1 activation relu {plan = #ipu.plan<gemm grid 2 x 4, partials f32, compute {{[0-9]+}} cycles, exchange {{[0-9]+}} cycles, best of {{[0-9]+}}, operands [
// SELECT-SAME: <rows 2 x 2 stride 4, columns 1 x 64 stride 0, order panels copies 4 stride 1>,
// SELECT-SAME: <rows 1 x 64 stride 0, columns 4 x 16 stride 1, order weights8 memory interleaved copies 2 stride 4>,
// SELECT-SAME: <rows 1 x 1 stride 0, columns 4 x 16 stride 1, order rows copies 2 stride 4>]>}
// SELECT-SAME: -> tensor<4x64xf16, #ipu.layout<rows 2 x 2 stride 4, columns 4 x 16 stride 1, order panels>>

// Tiles: buffers, what the host writes and reads, and two steps.
// TILE: tile.program @main on 8 tiles {
// TILE-NEXT: tile.buffer @arg0 :
// TILE-NEXT: tile.buffer @arg0.panels :
// TILE-NEXT: tile.buffer @fc.weight :
// TILE-NEXT: tile.buffer @fc.bias : tensor<64xf32,
// TILE-NEXT: tile.buffer @fc :
// TILE-NEXT: tile.buffer @fc.acc :
// TILE-NEXT: tile.bind @arg0 to input 0
// TILE-NEXT: tile.bind @fc.weight to parameter "fc.weight" : tensor<64x64xf16>
// TILE-NEXT: tile.bind @fc.bias to parameter "fc.bias" : tensor<64xf16>
// TILE-NEXT: tile.bind @fc to output 0
// TILE-NEXT: tile.rearrange @move.arg0 from @arg0 to @arg0.panels
// 2 rows are 0 for each of 6 workers and 2 more; 64 deep are 4 blocks; one group of 16 columns.
// TILE-NEXT: tile.compute @fc.gemm "gemm_f32_bias_relu"(@arg0.panels, @fc.weight, @fc.bias, @fc.acc, @fc) {0 to 7: [0, 2, 4, 1, 64, 64]}

// Copies: each tile keeps its part, a panel of 2 rows, and sends it, 16 words, to the 3 other tiles
// that want these rows. Panel n of a tile starts at n * 64.
// LAYOUTS: tile.compute @move.arg0.local "copy_blocks"(@arg0, @arg0.panels) {
// LAYOUTS-NEXT: 0: [0, 2, 1, 0, 0, 32, 64, 32, 64],
// LAYOUTS-NEXT: 1: [0, 2, 1, 0, 64, 32, 64, 32, 64],
// LAYOUTS-NEXT: 2: [0, 2, 1, 0, 128, 32, 64, 32, 64],
// LAYOUTS-NEXT: 3: [0, 2, 1, 0, 192, 32, 64, 32, 64],
// LAYOUTS-NEXT: 4: [0, 2, 1, 0, 0, 32, 64, 32, 64],
// LAYOUTS-NEXT: 5: [0, 2, 1, 0, 64, 32, 64, 32, 64],
// LAYOUTS-NEXT: 6: [0, 2, 1, 0, 128, 32, 64, 32, 64],
// LAYOUTS-NEXT: 7: [0, 2, 1, 0, 192, 32, 64, 32, 64]
// LAYOUTS-NEXT: }
// LAYOUTS-NEXT: tile.exchange @move.arg0 {
// LAYOUTS-NEXT: copy @arg0 to @arg0.panels [
// LAYOUTS-NEXT: 0+0 x 16 -> 1+0 and 2+0 and 3+0,
// LAYOUTS-NEXT: 1+0 x 16 -> 0+64 and 2+64 and 3+64,
// LAYOUTS-NEXT: 2+0 x 16 -> 0+128 and 1+128 and 3+128,
// LAYOUTS-NEXT: 3+0 x 16 -> 0+192 and 1+192 and 2+192,
// LAYOUTS-NEXT: 4+0 x 16 -> 5+0 and 6+0 and 7+0,
// LAYOUTS-NEXT: 5+0 x 16 -> 4+64 and 6+64 and 7+64,
// LAYOUTS-NEXT: 6+0 x 16 -> 4+128 and 5+128 and 7+128,
// LAYOUTS-NEXT: 7+0 x 16 -> 4+192 and 5+192 and 6+192
// LAYOUTS-NEXT: ]
// LAYOUTS-NEXT: }
// LAYOUTS-NEXT: tile.compute @fc.gemm

// Schedules: a row of every tile. Each sends its 16 words to the 3 others of its rows, at once or
// to one after the other, and listens to them one after the other; in the end to nobody.
// PHASES: tile.exchange @move.arg0 {
// PHASES: {{^ *}}]
// PHASES-NEXT: } schedule horizon {{[0-9]+}} bound {{[0-9]+}} by tile {{[0-7]}} {
// PHASES-NEXT: tile 0 until {{[0-9]+}} [{{.*}}send {{[0-9]+}} @arg0+0 x 16 direction {{[123]}}{{.*}}]
// PHASES-NEXT: tile 1 until {{[0-9]+}} [{{.*}}send {{[0-9]+}} @arg0+0 x 16 direction {{[123]}}{{.*}}]
// PHASES-NEXT: tile 2 until {{[0-9]+}} [{{.*}}send {{[0-9]+}} @arg0+0 x 16 direction {{[123]}}{{.*}}]
// PHASES-NEXT: tile 3 until {{[0-9]+}} [{{.*}}send {{[0-9]+}} @arg0+0 x 16 direction {{[123]}}{{.*}}]
// PHASES-NEXT: tile 4 until {{[0-9]+}} [
// PHASES-SAME: from {{[567]}}
// PHASES-SAME: from {{[567]}}
// PHASES-SAME: from {{[567]}}
// PHASES-SAME: off
// PHASES-NEXT: tile 5 until {{[0-9]+}} [
// PHASES-SAME: from {{[467]}}
// PHASES-SAME: from {{[467]}}
// PHASES-SAME: from {{[467]}}
// PHASES-NEXT: tile 6 until
// PHASES-NEXT: tile 7 until
// PHASES-NEXT: }

// Addresses and lifetimes: 3 steps, 0 to 2. The argument is sent while panels arrive: different
// elements.
// STORAGE: tile.program @main on 8 tiles rows 16384 bytes at 0x54000 {
// STORAGE-NEXT: tile.buffer @arg0 : {{.*}} live 0 to 1 at 0x
// STORAGE-NEXT: tile.buffer @arg0.panels : {{.*}} tail 24 live 0 to 2 at 0x[[#%x,PANELS:]]
// STORAGE-NEXT: tile.buffer @fc.weight : {{.*}} live 0 to 2 at 0x80000
// STORAGE-NEXT: tile.buffer @fc.bias : {{.*}} live 0 to 2 at 0x
// STORAGE-NEXT: tile.buffer @fc : {{.*}} live 2 to 2 at 0x
// STORAGE-NEXT: tile.buffer @fc.acc : {{.*}} tail 56 live 2 to 2 at 0x80800

// PACKAGE: ipu.package @main format "ipuexe" = dense_resource<main>
// PACKAGE: ipu.candidate {{.*}} scheduled {{[0-9]+}}
