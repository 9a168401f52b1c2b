func.func @main(%x: tensor<2x2xf16>, %i: tensor<2xi32>) -> (tensor<2x2xf16>, tensor<2xf32>) {
  %0 = nn.gather %x, %i : (tensor<2x2xf16>, tensor<2xi32>) -> tensor<2x2xf16>
  %1 = nn.relu %0 : tensor<2x2xf16>
  %2 = nn.cast %i : (tensor<2xi32>) -> tensor<2xf32>
  return %1, %2 : tensor<2x2xf16>, tensor<2xf32>
}
