func.func @main(%x: tensor<4x400xf16>) -> tensor<4x400xf16> {
  %a = nn.parameter "a.weight" : tensor<400x400xf16>
  %b = nn.parameter "b.weight" : tensor<400x400xf16>
  %0 = nn.matmul %x, %a : (tensor<4x400xf16>, tensor<400x400xf16>) -> tensor<4x400xf16>
  %1 = nn.matmul %0, %b : (tensor<4x400xf16>, tensor<400x400xf16>) -> tensor<4x400xf16>
  return %1 : tensor<4x400xf16>
}
