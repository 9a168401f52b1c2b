// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu-select-operators{tiles=4})' | FileCheck %s
// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu-select-operators{tiles=4 finalists=1})' | FileCheck %s --check-prefix=ONE
// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu-select-operators{tiles=4 partials=f16})' | FileCheck %s --check-prefix=F16
// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu-select-operators{tiles=1})' | FileCheck %s --check-prefix=TILE
// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu-select-operators{tiles=4 function=elementwise})' | FileCheck %s --check-prefix=ELEMENTWISE
// RUN: ipu-opt %s --ipu-select-operators="tiles=4 finalists=1" | FileCheck %s --check-prefix=ONE
//
// The functions themselves are gone: what remains stands in candidates.
// RUN: ipu-opt %s --ipu-select-operators=tiles=4 | not grep '^  func.func'
//
// What is selected is IR like any other: it verifies and prints the same again.
// RUN: ipu-opt %s --ipu-select-operators=tiles=4 -o %t.mlir
// RUN: ipu-opt %t.mlir | diff - %t.mlir

// Product, bias and relu become one operator with the best of at least three plans. The product is
// 8 rows of 32 deep and 32 wide on 4 tiles: 2 groups of 16 columns, so 1 or 2 parts of columns, and
// 1 to 4 (1 to 2) parts of rows.
// CHECK: ipu.candidate @c0 estimated {{[0-9]+}} because ["fewest estimated cycles", "{{[0-9]+}} bytes of weights, {{[0-9]+}} of values, {{[0-9]+}} of records and rows", "optimal: true", "e-graph of {{[0-9]+}} nodes in {{[0-9]+}} classes, saturated after {{[0-9]+}} iterations"] {
// CHECK-NEXT: func.func @main(%[[X:.*]]: tensor<8x32xf16, #ipu.layout<{{.*}} order panels>>) -> tensor<8x32xf16, #ipu.layout<{{.*}} order panels>> {
// CHECK-NEXT: %[[W:.*]] = nn.parameter "fc.weight" : tensor<32x32xf16>
// CHECK-NEXT: %[[B:.*]] = nn.parameter "fc.bias" : tensor<32xf16>
// CHECK-NEXT: nn.linear %[[X]], %[[W]] bias %[[B]] activation relu {plan = #ipu.plan<gemm grid
// CHECK-SAME: partials f32, compute {{[0-9]+}} cycles, exchange {{[0-9]+}} cycles, best of {{([3-9]|[1-9][0-9]+)}}, operands [
// The left operand is in panels, the weights in the order of two passes of 8 columns.
// CHECK-SAME: order panels{{.*}}>, <rows 1 x 32 stride 0, columns {{.*}} order weights8 memory interleaved{{.*}}>, <rows 1 x 1 stride 0{{.*}} order rows
// CHECK-NOT: nn.matmul
// CHECK-NOT: nn.add

// Finalists differ.
// CHECK: ipu.candidate @c1 estimated {{[0-9]+}} because ["{{.*}}fewest

// ONE: ipu.candidate @c0
// ONE-NOT: ipu.candidate @c1

// F16: nn.linear {{.*}} partials f16, {{.*}} order weights16 memory interleaved
// F16-NOT: partials f32

// One tile has one plan of each operator; another candidate has other operators.
// TILE: nn.linear {{.*}} grid 1 x 1, {{.*}} exchange {{[0-9]+}} cycles, best of 1,
// TILE-NOT: grid {{[2-9]}}
func.func @main(%x: tensor<8x32xf16>) -> tensor<8x32xf16> {
  %w = nn.parameter "fc.weight" : tensor<32x32xf16>
  %b = nn.parameter "fc.bias" : tensor<32xf16>
  %0 = nn.matmul %x, %w : (tensor<8x32xf16>, tensor<32x32xf16>) -> tensor<8x32xf16>
  %1 = nn.add %b, %0 : (tensor<32xf16>, tensor<8x32xf16>) -> tensor<8x32xf16>
  %2 = nn.relu %1 : tensor<8x32xf16>
  return %2 : tensor<8x32xf16>
}

// A bias of several rows is no bias; relu is fused with a product only. All operands of an
// elementwise operator are where its result is.
// ELEMENTWISE: %[[P:.*]] = nn.linear
// ELEMENTWISE-NOT: activation
// ELEMENTWISE: %[[S:.*]] = nn.add %[[P]], %{{.*}} {plan = #ipu.plan<elementwise grid [[G:[0-9]+ x [0-9]+]], partials f16, {{.*}}, operands [<[[L:.*order panels]]>, <[[L]]>]>}
// ELEMENTWISE: nn.relu %[[S]] {plan = #ipu.plan<elementwise grid [[G]], {{.*}} operands [<[[L]]>]>}
func.func @elementwise(%x: tensor<8x32xf16>) -> tensor<8x32xf16> {
  %w = nn.parameter "fc.weight" : tensor<32x32xf16>
  %b = nn.parameter "fc.bias" : tensor<8x32xf16>
  %0 = nn.matmul %x, %w : (tensor<8x32xf16>, tensor<32x32xf16>) -> tensor<8x32xf16>
  %1 = nn.add %0, %b : (tensor<8x32xf16>, tensor<8x32xf16>) -> tensor<8x32xf16>
  %2 = nn.relu %1 : tensor<8x32xf16>
  return %2 : tensor<8x32xf16>
}
