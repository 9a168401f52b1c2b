// What made an operator, and the form of the model that lost: here the one in which three products of
// one operand are one. A form with an operator that no plan carries out is none.
// RUN: ipu-opt %s --ipu-select-operators="tiles=8 finalists=1" --explain-selection -o %t.mlir 2>&1 | FileCheck %s
// RUN: ipu-opt %s --ipu-select-operators="tiles=8 finalists=1" --explain-selection=json -o %t.mlir 2>&1 | FileCheck %s --check-prefix=JSON

// CHECK: explain-selection-forms.mlir:[[# @LINE + 15]]:{{[0-9]+}}: nn.linear gemm grid
// CHECK-NEXT: form by linear-of-matmul
// CHECK: other form: nn.linear to tensor<8x96xf16> instead of 3 nn.linear to tensor<8x32xf16>,{{.*}} by merge-linears: {{[0-9]+}} cycles, +{{[0-9]+}}; algebra:
// CHECK-NOT: nn.matmul to
// JSON: "rules": [
// JSON-NEXT: "linear-of-matmul"
// JSON: "forms": [
// JSON: "with_rules": [
// JSON: "merge-linears"
// JSON: "difference": {{[0-9]+}}
// JSON-NEXT: "reason": "algebra
func.func @main(%x: tensor<8x32xf16>) -> tensor<8x32xf16> {
  %wq = nn.parameter "wq" : tensor<32x32xf16>
  %wk = nn.parameter "wk" : tensor<32x32xf16>
  %wv = nn.parameter "wv" : tensor<32x32xf16>
  %q = nn.matmul %x, %wq : (tensor<8x32xf16>, tensor<32x32xf16>) -> tensor<8x32xf16>
  %k = nn.matmul %x, %wk : (tensor<8x32xf16>, tensor<32x32xf16>) -> tensor<8x32xf16>
  %v = nn.matmul %x, %wv : (tensor<8x32xf16>, tensor<32x32xf16>) -> tensor<8x32xf16>
  %0 = nn.add %q, %k : (tensor<8x32xf16>, tensor<8x32xf16>) -> tensor<8x32xf16>
  %1 = nn.mul %0, %v : (tensor<8x32xf16>, tensor<8x32xf16>) -> tensor<8x32xf16>
  return %1 : tensor<8x32xf16>
}
