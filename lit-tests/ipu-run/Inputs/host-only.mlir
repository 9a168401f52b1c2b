// A function of host values only: nothing runs on tiles, and the results are there.
func.func @main() -> (tensor<4x6xf16>, tensor<2x4xf16>, tensor<4x4xf32>) {
  %w = nn.parameter "w" : tensor<6x4xf16>
  %t = nn.transpose %w permutation [1, 0] : (tensor<6x4xf16>) -> tensor<4x6xf16>
  %i = nn.constant dense<[5, 0]> : tensor<2xi32>
  %g = nn.gather %w, %i axis 0 : (tensor<6x4xf16>, tensor<2xi32>) -> tensor<2x4xf16>
  %m = nn.matmul %t, %w : (tensor<4x6xf16>, tensor<6x4xf16>) -> tensor<4x4xf32>
  return %t, %g, %m : tensor<4x6xf16>, tensor<2x4xf16>, tensor<4x4xf32>
}
