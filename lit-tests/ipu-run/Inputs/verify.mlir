func.func @main(%x: tensor<2x3xf16>) -> tensor<2x2xf16> {
  %w = nn.parameter "w" : tensor<4x2xf16>
  %0 = nn.matmul %x, %w : (tensor<2x3xf16>, tensor<4x2xf16>) -> tensor<2x2xf16>
  return %0 : tensor<2x2xf16>
}
