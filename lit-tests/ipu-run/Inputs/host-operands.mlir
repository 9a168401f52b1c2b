// Host values as operands of batched products and attention, and an operator of any kind on them.
func.func @main(%x: tensor<2x3x4xf16>, %y: tensor<2x5x4xf16>) -> (tensor<2x3x5xf16>, tensor<2x3x5xf16>, tensor<2x5x4xf16>, tensor<3x4xf16>) {
  %w = nn.parameter "w" : tensor<2x4x5xf16>
  %v = nn.parameter "v" : tensor<2x5x4xf16>
  %0 = nn.matmul %x, %w : (tensor<2x3x4xf16>, tensor<2x4x5xf16>) -> tensor<2x3x5xf16>
  %1 = nn.matmul %x, %v transpose_b : (tensor<2x3x4xf16>, tensor<2x5x4xf16>) -> tensor<2x3x5xf16>
  %2 = nn.attention %y, %v, %v heads 2 scale 0.5 : (tensor<2x5x4xf16>, tensor<2x5x4xf16>, tensor<2x5x4xf16>) -> tensor<2x5x4xf16>
  %p = nn.parameter "p" : tensor<3x4xf16>
  %q = nn.parameter "q" : tensor<4xf16>
  %b = nn.broadcast %q : (tensor<4xf16>) -> tensor<3x4xf16>
  %s = nn.softmax %p axis 0 : tensor<3x4xf16>
  %r = nn.add %s, %b : (tensor<3x4xf16>, tensor<3x4xf16>) -> tensor<3x4xf16>
  return %0, %1, %2, %r : tensor<2x3x5xf16>, tensor<2x3x5xf16>, tensor<2x5x4xf16>, tensor<3x4xf16>
}
