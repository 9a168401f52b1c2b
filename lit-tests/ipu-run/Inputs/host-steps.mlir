// Lookups by indices of an argument, in a parameter, an argument and a constant; a mask; results
// that the host alone computes.
func.func @main(%tokens: tensor<2x3xi32>, %mask: tensor<2x3xi32>, %table: tensor<5x8xf32>)
    -> (tensor<2x3x8xf16>, tensor<2x3x8xf32>, tensor<2x3xi32>, tensor<6xf16>) {
  %words = nn.parameter "words" : tensor<7x8xf16>
  %0 = nn.gather %words, %tokens : (tensor<7x8xf16>, tensor<2x3xi32>) -> tensor<2x3x8xf16>
  %seen = nn.cast %mask : (tensor<2x3xi32>) -> tensor<2x3xf16>
  %factor = nn.reshape %seen : (tensor<2x3xf16>) -> tensor<2x3x1xf16>
  %1 = nn.mul %0, %factor : (tensor<2x3x8xf16>, tensor<2x3x1xf16>) -> tensor<2x3x8xf16>
  %order = nn.constant dense<[4, 3, 2, 1, 0, 0, 1]> : tensor<7xi32>
  %turned = nn.gather %order, %tokens : (tensor<7xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  %2 = nn.gather %table, %turned : (tensor<5x8xf32>, tensor<2x3xi32>) -> tensor<2x3x8xf32>
  %3 = nn.relu %2 : tensor<2x3x8xf32>
  %flat = nn.reshape %turned : (tensor<2x3xi32>) -> tensor<6xi32>
  %4 = nn.cast %flat : (tensor<6xi32>) -> tensor<6xf16>
  return %1, %3, %turned, %4 : tensor<2x3x8xf16>, tensor<2x3x8xf32>, tensor<2x3xi32>, tensor<6xf16>
}
