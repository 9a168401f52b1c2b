// x * w + b with w = [1 2][3 4][5 6] and b = [0.5 -100] in the tests.
func.func @main(%x: tensor<2x3xf16>) -> tensor<2x2xf16> {
  %w = nn.parameter "fc.weight" : tensor<3x2xf16>
  %b = nn.parameter "fc.bias" : tensor<2xf16>
  %0 = nn.matmul %x, %w : (tensor<2x3xf16>, tensor<3x2xf16>) -> tensor<2x2xf16>
  %1 = nn.add %0, %b : (tensor<2x2xf16>, tensor<2xf16>) -> tensor<2x2xf16>
  return %1 : tensor<2x2xf16>
}

// For --function.
func.func @sums(%x: tensor<2xf16>, %y: tensor<2xf16>) -> (tensor<2xf16>, tensor<2xf16>) {
  %0 = nn.add %x, %y : (tensor<2xf16>, tensor<2xf16>) -> tensor<2xf16>
  %1 = nn.sub %x, %y : (tensor<2xf16>, tensor<2xf16>) -> tensor<2xf16>
  return %0, %1 : tensor<2xf16>, tensor<2xf16>
}
