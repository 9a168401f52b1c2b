// A pass that runs too early says what is missing and which pass makes it.
//
// DEFINE: %{passes} =
// DEFINE: %{candidate} =
// DEFINE: %{run} = not ipu-opt %s -o /dev/null --pass-pipeline='builtin.module(ipu-select-operators{tiles=2 finalists=1},ipu.candidate(%{candidate}),%{passes})' 2>&1 | FileCheck %s --check-prefix
//
// RUN: not ipu-opt %s --ipu-emit 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: {{.*}}has 0 candidates, emission takes one; run ipu-pick-finalist first
//
// RUN: not ipu-opt %s --ipu-pick-finalist 2>&1 | FileCheck %s --check-prefix=EMPTY
// EMPTY: error: {{.*}}has no ipu.candidate; run ipu-select-operators first
//
// REDEFINE: %{passes} = ipu-emit
// REDEFINE: %{candidate} = cse
// RUN: %{run}=TILE
// REDEFINE: %{candidate} = ipu-convert-layouts
// RUN: %{run}=TILE
// REDEFINE: %{candidate} = ipu-phase-exchanges
// RUN: %{run}=TILE
// REDEFINE: %{candidate} = ipu-place-storage
// RUN: %{run}=TILE
// TILE: out-of-order.mlir:[[#]]:1: error: {{.*}}has no tile.program; run ipu-tile first
//
// REDEFINE: %{candidate} = ipu-tile,ipu-tile
// RUN: %{run}=TWICE
// TWICE: error: {{.*}}has no function; run ipu-select-operators first
//
// REDEFINE: %{candidate} = ipu-tile,ipu-place-storage
// RUN: %{run}=CONVERT
// REDEFINE: %{candidate} = ipu-tile,ipu-phase-exchanges
// RUN: %{run}=CONVERT
// CONVERT: error: {{.*}}exchange 'move.arg0': it is a rearrangement; run ipu-convert-layouts first
//
// REDEFINE: %{candidate} = ipu-tile,ipu-convert-layouts,ipu-place-storage
// RUN: %{run}=PHASE
// REDEFINE: %{candidate} = ipu-tile,ipu-convert-layouts
// REDEFINE: %{passes} = ipu-pick-finalist
// RUN: %{run}=PHASE
// PHASE: error: {{.*}}exchange 'move.arg0'{{.*}} has no schedule; run ipu-phase-exchanges first
//
// REDEFINE: %{candidate} = ipu-tile,ipu-convert-layouts,ipu-phase-exchanges
// REDEFINE: %{passes} = ipu-emit
// RUN: %{run}=PLACE
// PLACE: error: {{.*}}has no address; run ipu-place-storage first
//
// RUN: printf 'ipu.candidate @a {\n}\nipu.candidate @b {\n}\n' | not ipu-opt --ipu-emit 2>&1 | FileCheck %s --check-prefix=MANY
// MANY: error: {{.*}}has 2 candidates, emission takes one; run ipu-pick-finalist first
func.func @main(%x: tensor<4x64xf16>) -> tensor<4x64xf16> {
  %w = nn.parameter "fc.weight" : tensor<64x64xf16>
  %0 = nn.matmul %x, %w : (tensor<4x64xf16>, tensor<64x64xf16>) -> tensor<4x64xf16>
  return %0 : tensor<4x64xf16>
}
