func.func @main(%x: tensor<4x368xf16>) -> tensor<4x368xf16> {
  %a = nn.parameter "a.weight" : tensor<368x368xf16>
  %b = nn.parameter "b.weight" : tensor<368x368xf16>
  %0 = nn.matmul %x, %a : (tensor<4x368xf16>, tensor<368x368xf16>) -> tensor<4x368xf16>
  %1 = nn.matmul %0, %b : (tensor<4x368xf16>, tensor<368x368xf16>) -> tensor<4x368xf16>
  return %1 : tensor<4x368xf16>
}
