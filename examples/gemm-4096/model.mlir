// A product of two matrices of 4096 x 4096; the second is a parameter.
func.func @main(%x: tensor<4096x4096xf16>) -> tensor<4096x4096xf16> {
  %weight = nn.parameter "weight" : tensor<4096x4096xf16>
  %0 = nn.matmul %x, %weight : (tensor<4096x4096xf16>, tensor<4096x4096xf16>) -> tensor<4096x4096xf16>
  return %0 : tensor<4096x4096xf16>
}
