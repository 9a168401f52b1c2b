// RUN: not ipu-opt %s --pass-pipeline='builtin.module(ipu-select-operators{tiles=2})' -o /dev/null 2>&1 | FileCheck %s

// One parameter has one type: no weights file can serve two.
func.func @main(%x: tensor<2x8xf16>) -> (tensor<2x3xf16>, tensor<2x5xf16>) {
  %a = nn.parameter "w" : tensor<8x3xf16>
  // CHECK: parameter-types.mlir:[[#@LINE+1]]:8: error: parameter 'w' is tensor<8x5xf16> here and tensor<8x3xf16> at {{.*}}parameter-types.mlir:[[#@LINE-1]]:8
  %b = nn.parameter "w" : tensor<8x5xf16>
  %0 = nn.matmul %x, %a : (tensor<2x8xf16>, tensor<8x3xf16>) -> tensor<2x3xf16>
  %1 = nn.matmul %x, %b : (tensor<2x8xf16>, tensor<8x5xf16>) -> tensor<2x5xf16>
  return %0, %1 : tensor<2x3xf16>, tensor<2x5xf16>
}
