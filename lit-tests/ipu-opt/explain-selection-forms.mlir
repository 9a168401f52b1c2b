// What made an operator, and the form of the model that lost: here three products of one operand, which
// became one.
// RUN: ipu-opt %s --ipu-select-operators="tiles=8 finalists=1" --explain-selection -o %t.mlir 2>&1 | FileCheck %s
// RUN: ipu-opt %s --ipu-select-operators="tiles=8 finalists=1" --explain-selection=json -o %t.mlir 2>&1 | FileCheck %s --check-prefix=JSON

// CHECK: explain-selection-forms.mlir:[[# @LINE + 18]]:{{[0-9]+}}: nn.linear gemm grid
// CHECK-NEXT: form by merge-linears{{.*}}linear-of-matmul{{.*}}, with {{.*}}explain-selection-forms.mlir:[[# @LINE + 18]]
// CHECK: other form: {{.*}}nn.linear to tensor<8x32xf16>{{.*}} instead of nn.linear to tensor<8x96xf16>{{.*}}, without merge-linears{{.*}}: {{[0-9]+}} cycles, +{{[0-9]+}}; algebra:
// JSON: "rules": [
// JSON: "merge-linears"
// JSON: "forms": [
// JSON: "without_rules": [
// JSON: "merge-linears"
// JSON: "difference": {{[0-9]+}}
// JSON: "reason": "algebra
func.func @main(%x: tensor<8x32xf16>) -> tensor<8x32xf16> {
  %wq = nn.parameter "wq" : tensor<32x32xf16>
  %wk = nn.parameter "wk" : tensor<32x32xf16>
  %wv = nn.parameter "wv" : tensor<32x32xf16>
  %bias = nn.parameter "bias" : tensor<32xf16>
  %q = nn.matmul %x, %wq : (tensor<8x32xf16>, tensor<32x32xf16>) -> tensor<8x32xf16>
  %k = nn.matmul %x, %wk : (tensor<8x32xf16>, tensor<32x32xf16>) -> tensor<8x32xf16>
  %v = nn.matmul %x, %wv : (tensor<8x32xf16>, tensor<32x32xf16>) -> tensor<8x32xf16>
  %0 = nn.add %q, %k : (tensor<8x32xf16>, tensor<8x32xf16>) -> tensor<8x32xf16>
  %1 = nn.mul %0, %v : (tensor<8x32xf16>, tensor<8x32xf16>) -> tensor<8x32xf16>
  return %1 : tensor<8x32xf16>
}
