func.func @main(%x: tensor<4x64xf16>) -> tensor<4x64xf16> {
  %w = nn.parameter "fc.weight" : tensor<64x64xf16>
  %0 = nn.matmul %x, %w : (tensor<4x64xf16>, tensor<64x64xf16>) -> tensor<4x64xf16>
  return %0 : tensor<4x64xf16>
}
