// relu(x * w + b): the model that the documentation shows on 8 tiles.
func.func @main(%x: tensor<8x32xf16>) -> tensor<8x64xf16> {
  %w = nn.parameter "fc.weight" : tensor<32x64xf16>
  %b = nn.parameter "fc.bias" : tensor<64xf16>
  %0 = nn.matmul %x, %w : (tensor<8x32xf16>, tensor<32x64xf16>) -> tensor<8x64xf16>
  %1 = nn.add %0, %b : (tensor<8x64xf16>, tensor<64xf16>) -> tensor<8x64xf16>
  %2 = nn.relu %1 : tensor<8x64xf16>
  return %2 : tensor<8x64xf16>
}
