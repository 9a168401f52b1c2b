func.func @main(%x: tensor<4x1024xf16>) -> tensor<4x1024xf16> {
  %w = nn.parameter "fc.weight" : tensor<1024x1024xf16>
  %0 = nn.matmul %x, %w : (tensor<4x1024xf16>, tensor<1024x1024xf16>) -> tensor<4x1024xf16>
  return %0 : tensor<4x1024xf16>
}
