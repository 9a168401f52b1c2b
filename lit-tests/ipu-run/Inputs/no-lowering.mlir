func.func @main(%x: tensor<2x2xf16>) -> tensor<2x2xf16> {
  %0 = nn.matmul %x, %x : (tensor<2x2xf16>, tensor<2x2xf16>) -> tensor<2x2xf16>
  %1 = nn.div %0, %x : (tensor<2x2xf16>, tensor<2x2xf16>) -> tensor<2x2xf16>
  return %1 : tensor<2x2xf16>
}
