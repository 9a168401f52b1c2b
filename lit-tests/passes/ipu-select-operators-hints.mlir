// A hint fixes the grid or the partial sums of an operator, as an attribute or by its line.
// RUN: split-file %s %t
// RUN: ipu-opt %t/grid.mlir --ipu-select-operators="tiles=8 finalists=2" | FileCheck %s --check-prefix=GRID
// RUN: ipu-opt %t/plain.mlir --pass-pipeline='builtin.module(ipu-select-operators{tiles=8 finalists=1 hints=3:grid=4x1x1})' | FileCheck %s --check-prefix=LINE
// RUN: not ipu-opt %t/illegal.mlir --ipu-select-operators=tiles=8 2>&1 | FileCheck %s --check-prefix=ILLEGAL
// RUN: not ipu-opt %t/conflict.mlir --ipu-select-operators=tiles=8 2>&1 | FileCheck %s --check-prefix=CONFLICT
// RUN: not ipu-opt %t/syntax.mlir --ipu-select-operators=tiles=8 2>&1 | FileCheck %s --check-prefix=SYNTAX
// RUN: ipu-opt %t/siblings.mlir --ipu-select-operators="tiles=8 finalists=1" | FileCheck %s --check-prefix=SIBLINGS
// RUN: not ipu-opt %t/plain.mlir --ipu-select-operators="tiles=8 hints=30:grid=1x1" 2>&1 | FileCheck %s --check-prefix=NOLINE

// All candidates have it, and the product hands it on to the operator that absorbs it.
// GRID: nn.linear {{.*}} {plan = #ipu.plan<gemm grid 2 x 2,
// GRID-NOT: grid 2 x 1
// LINE: nn.linear {{.*}} {plan = #ipu.plan<gemm grid 4 x 1,
// ILLEGAL: illegal.mlir:3:{{[0-9]+}}: error: 'nn.linear' has no plan with grid=3x5x1 on 8 tiles; {{[0-9]+}} grids are possible, such as 1x1x1,
// CONFLICT: conflict.mlir:4:{{[0-9]+}}: error: attribute ipu.plan_hint demands grid=1x2x1, which contradicts grid=2x2x1 of attribute ipu.plan_hint
// SYNTAX: syntax.mlir:3:{{[0-9]+}}: error: {{.*}}attribute ipu.plan_hint: 'tiles=3' is no demand on a plan
// NOLINE: error: {{.*}}option hints: '30:grid=1x1' names line 30, where no operator is

// Two products of one operand may become one. Contradicting demands on them are met by the form in
// which they are two.
// SIBLINGS: nn.linear {{.*}} {plan = #ipu.plan<gemm grid 2 x 2,
// SIBLINGS: nn.linear {{.*}} {plan = #ipu.plan<gemm grid 4 x 1,

//--- siblings.mlir
func.func @main(%x: tensor<8x32xf16>) -> (tensor<8x32xf16>, tensor<8x32xf16>) {
  %w = nn.parameter "w" : tensor<32x32xf16>
  %v = nn.parameter "v" : tensor<32x32xf16>
  %0 = nn.matmul %x, %w {ipu.plan_hint = "grid=2x2"} : (tensor<8x32xf16>, tensor<32x32xf16>) -> tensor<8x32xf16>
  %1 = nn.matmul %x, %v {ipu.plan_hint = "grid=4x1"} : (tensor<8x32xf16>, tensor<32x32xf16>) -> tensor<8x32xf16>
  return %0, %1 : tensor<8x32xf16>, tensor<8x32xf16>
}
//--- grid.mlir
func.func @main(%x: tensor<8x32xf16>) -> tensor<8x32xf16> {
  %w = nn.parameter "w" : tensor<32x32xf16>
  %0 = nn.matmul %x, %w {ipu.plan_hint = "grid=2x2"} : (tensor<8x32xf16>, tensor<32x32xf16>) -> tensor<8x32xf16>
  %1 = nn.relu %0 : tensor<8x32xf16>
  return %1 : tensor<8x32xf16>
}
//--- plain.mlir
func.func @main(%x: tensor<8x32xf16>) -> tensor<8x32xf16> {
  %w = nn.parameter "w" : tensor<32x32xf16>
  %0 = nn.matmul %x, %w : (tensor<8x32xf16>, tensor<32x32xf16>) -> tensor<8x32xf16>
  return %0 : tensor<8x32xf16>
}
//--- illegal.mlir
func.func @main(%x: tensor<8x32xf16>) -> tensor<8x32xf16> {
  %w = nn.parameter "w" : tensor<32x32xf16>
  %0 = nn.matmul %x, %w {ipu.plan_hint = "grid=3x5"} : (tensor<8x32xf16>, tensor<32x32xf16>) -> tensor<8x32xf16>
  return %0 : tensor<8x32xf16>
}
//--- conflict.mlir
func.func @main(%x: tensor<8x32xf16>) -> tensor<8x32xf16> {
  %w = nn.parameter "w" : tensor<32x32xf16>
  %0 = nn.matmul %x, %w {ipu.plan_hint = "grid=2x2"} : (tensor<8x32xf16>, tensor<32x32xf16>) -> tensor<8x32xf16>
  %1 = nn.relu %0 {ipu.plan_hint = "grid=1x2"} : tensor<8x32xf16>
  return %1 : tensor<8x32xf16>
}
//--- syntax.mlir
func.func @main(%x: tensor<8x32xf16>) -> tensor<8x32xf16> {
  %w = nn.parameter "w" : tensor<32x32xf16>
  %0 = nn.matmul %x, %w {ipu.plan_hint = "tiles=3"} : (tensor<8x32xf16>, tensor<32x32xf16>) -> tensor<8x32xf16>
  return %0 : tensor<8x32xf16>
}
