func.func @main(%x: tensor<2x2xf16>, %i: tensor<2xi32>) -> tensor<2x2xf32> {
  %0 = nn.gather %x, %i : (tensor<2x2xf16>, tensor<2xi32>) -> tensor<2x2xf16>
  %1 = nn.cast %0 : (tensor<2x2xf16>) -> tensor<2x2xf32>
  %2 = nn.matmul %1, %1 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %2 : tensor<2x2xf32>
}
