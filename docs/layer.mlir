// relu(x * w + b): the model that the documentation shows at 8 tiles.
func.func @main(%x: tensor<32x32xf16>) -> tensor<32x32xf16> {
  %w = nn.parameter "fc.weight" : tensor<32x32xf16>
  %b = nn.parameter "fc.bias" : tensor<32xf16>
  %0 = nn.matmul %x, %w : (tensor<32x32xf16>, tensor<32x32xf16>) -> tensor<32x32xf16>
  %1 = nn.add %0, %b : (tensor<32x32xf16>, tensor<32xf16>) -> tensor<32x32xf16>
  %2 = nn.relu %1 : tensor<32x32xf16>
  return %2 : tensor<32x32xf16>
}
