// RUN: ipu-opt %s --ipu-select-operators='tiles=4 finalists=1 print-egraph' -o %t.mlir 2>&1 | FileCheck %s
// RUN: ipu-opt %s --ipu-select-operators='tiles=4 finalists=1 numerics=strict print-egraph' -o %t.mlir 2>&1 | FileCheck %s --check-prefix=STRICT
// RUN: rm -rf %t.d && ipu-opt %s --egraph-dump=%t.d --ipu-select-operators='tiles=4 finalists=1' -o %t.mlir
// RUN: FileCheck %s < %t.d/main.txt
// RUN: FileCheck %s --check-prefix=JSON < %t.d/main.egraph.json
// RUN: FileCheck %s --check-prefix=DOT < %t.d/main.dot
// RUN: ipu-opt %s --ipu-select-operators='tiles=4 finalists=1' --mlir-print-debuginfo | FileCheck %s --check-prefix=WHERE

// Saturation: each value lists its alternatives.
// CHECK: egraph @main(%0) {
// CHECK: %[[W:.*]] = host parameter "w" : tensor<32x32xf16>
// CHECK: %[[P:.*]] = any : tensor<8x32xf16> {
// CHECK-NEXT: matmul %0, %[[W]]
// CHECK: linear %0, %[[W]], %{{.*}} // linear-of-matmul
// CHECK: linear relu %0, %[[W]], %{{.*}} // relu-of-linear
// CHECK: return

// What removes a rounding is strict too.
// STRICT: linear relu

// JSON: "root_eclasses"
// DOT: digraph egraph

// Extraction: one operator, which knows where all of it comes from and why.
// WHERE: nn.linear {{.*}} loc(#[[L:.*]])
// WHERE: #[[L]] = loc(fused<["relu-of-linear", "bias-right", "linear-of-matmul"]>[
func.func @main(%x: tensor<8x32xf16>) -> tensor<8x32xf16> {
  %w = nn.parameter "w" : tensor<32x32xf16>
  %b = nn.parameter "b" : tensor<32xf16>
  %0 = nn.matmul %x, %w : (tensor<8x32xf16>, tensor<32x32xf16>) -> tensor<8x32xf16>
  %1 = nn.add %0, %b : (tensor<8x32xf16>, tensor<32xf16>) -> tensor<8x32xf16>
  %2 = nn.relu %1 : tensor<8x32xf16>
  return %2 : tensor<8x32xf16>
}
