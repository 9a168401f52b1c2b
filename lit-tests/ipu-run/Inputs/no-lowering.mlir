func.func @main(%x: tensor<2x2xf16>, %i: tensor<2xi32>) -> (tensor<2x2xf16>, tensor<1x2x2x1xf16>) {
  %0 = nn.relu %x : tensor<2x2xf16>
  %1 = nn.gather %0, %i : (tensor<2x2xf16>, tensor<2xi32>) -> tensor<2x2xf16>
  %2 = nn.reshape %x : (tensor<2x2xf16>) -> tensor<1x2x2x1xf16>
  %w = nn.parameter "w" : tensor<2x2x1x1xf16>
  %3 = nn.conv2d %2, %w padding [1, 0, 1, 0] : (tensor<1x2x2x1xf16>, tensor<2x2x1x1xf16>) -> tensor<1x2x2x1xf16>
  return %1, %3 : tensor<2x2xf16>, tensor<1x2x2x1xf16>
}
