// RUN: ipu-opt %s --split-input-file --ipu-select-operators=tiles=4 --ipu-tile | FileCheck %s

// Every operator of f32 has kernels of f32.
// CHECK-DAG: "gemm32_bias_relu"
// CHECK-DAG: "gemm32"
// CHECK-DAG: "softmax_f32"
// CHECK-DAG: "layer_norm_f32"
// CHECK-DAG: "rms_norm_f32"
// CHECK-DAG: "reduce_row_sum_f32"
// CHECK-DAG: "reduce_column_max_f32"
// CHECK-DAG: "pack_weights_f32"
// CHECK-DAG: "bgemm32"
// CHECK-DAG: "softmax_causal_f32"
// CHECK-DAG: "pack_weights_turned_f32"
// CHECK-DAG: "zero_columns_f32"
// CHECK-NOT: f16
func.func @main(%x: tensor<2x4xf32>, %y: tensor<1x2x4xf32>, %z: tensor<3x2x4xf32>)
    -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2xf32>, tensor<3x4xf32>, tensor<1x2x4xf32>, tensor<2x4xf32>) {
  %w = nn.parameter "w" : tensor<4x4xf32>
  %b = nn.parameter "b" : tensor<4xf32>
  %0 = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = nn.linear %x, %w bias %b activation relu : (tensor<2x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %2 = nn.softmax %x axis 1 : tensor<2x4xf32>
  %3 = nn.layer_norm %x, %b, %b : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %4 = nn.rms_norm %x, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %5 = nn.reduce sum %x over [1] : (tensor<2x4xf32>) -> tensor<2xf32>
  %6 = nn.reduce max %z over [1] : (tensor<3x2x4xf32>) -> tensor<3x4xf32>
  %7 = nn.attention %y, %y, %y heads 1 scale 0.5 causal : (tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  %8 = nn.exp %x : tensor<2x4xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2xf32>, tensor<3x4xf32>, tensor<1x2x4xf32>, tensor<2x4xf32>
}

// -----

// A result of f32 from f16 operands is never f16 in between: weights of the host are multiplied as
// they are, with the f32 sums as the result, other operands become f32 first.
// CHECK-DAG: "gemm_f32_partial"
// CHECK-DAG: "add_f32"
// CHECK-DAG: "relu_f32"
// CHECK-DAG: "cast_f16_f32"
// CHECK-DAG: "bgemm32"
func.func @main(%x: tensor<2x4xf16>, %y: tensor<4x2xf16>) -> (tensor<2x4xf32>, tensor<2x2xf32>) {
  %w = nn.parameter "w" : tensor<4x4xf16>
  %b = nn.parameter "b" : tensor<4xf16>
  %0 = nn.linear %x, %w bias %b activation relu : (tensor<2x4xf16>, tensor<4x4xf16>, tensor<4xf16>) -> tensor<2x4xf32>
  %1 = nn.matmul %x, %y : (tensor<2x4xf16>, tensor<4x2xf16>) -> tensor<2x2xf32>
  return %0, %1 : tensor<2x4xf32>, tensor<2x2xf32>
}
