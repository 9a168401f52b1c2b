// The explanation goes to standard error; the IR is the same as without.
// RUN: ipu-opt %s --ipu-select-operators=tiles=4 --explain-selection -o %t.mlir 2>&1 | FileCheck %s
// RUN: ipu-opt %s --ipu-select-operators=tiles=4 | diff - %t.mlir
// RUN: ipu-opt %s --ipu-select-operators=tiles=4 --explain-selection=json -o %t.mlir 2>&1 | FileCheck %s --check-prefix=JSON

// CHECK: {{[0-9]+}} estimated cycles, optimal
// CHECK: explain-selection.mlir:[[# @LINE + 10]]:{{[0-9]+}}: nn.linear gemm grid {{.*}}, best of {{[0-9]+}}: compute {{[0-9]+}}, exchange {{[0-9]+}}, conversion {{[0-9]+}}, sync {{[0-9]+}}, memory {{[0-9]+}}
// CHECK-NEXT: form by linear-of-matmul
// CHECK-NEXT: gemm grid {{.*}}: compute {{[+-][0-9]+}}, exchange {{[+-][0-9]+}}, conversion {{[+-][0-9]+}}, sync {{[+-][0-9]+}}, memory {{[+-][0-9]+}}; segment +{{[0-9]+}}; {{slower|layout|dominated}}
// JSON: "bounded_by": []
// JSON: "op": "nn.linear"
// JSON: "alternatives": [
// JSON: "segment_cycles": {{[0-9]+}}
// JSON: "reason":
func.func @main(%x: tensor<8x32xf16>) -> tensor<8x32xf16> {
  %w = nn.parameter "fc.weight" : tensor<32x32xf16>
  %0 = nn.matmul %x, %w : (tensor<8x32xf16>, tensor<32x32xf16>) -> tensor<8x32xf16>
  %1 = nn.gelu %0 approximate tanh : tensor<8x32xf16>
  return %1 : tensor<8x32xf16>
}
