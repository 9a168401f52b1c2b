// The MLP of a SigLIP encoder layer: 729 tokens of width 1152, hidden width 4304, gelu by tanh.
func.func @main(%x: tensor<729x1152xf16>) -> tensor<729x1152xf16> {
  %up_weight = nn.parameter "up.weight" : tensor<1152x4304xf16>
  %up_bias = nn.parameter "up.bias" : tensor<4304xf16>
  %down_weight = nn.parameter "down.weight" : tensor<4304x1152xf16>
  %down_bias = nn.parameter "down.bias" : tensor<1152xf16>
  %0 = nn.matmul %x, %up_weight : (tensor<729x1152xf16>, tensor<1152x4304xf16>) -> tensor<729x4304xf16>
  %1 = nn.add %0, %up_bias : (tensor<729x4304xf16>, tensor<4304xf16>) -> tensor<729x4304xf16>
  %2 = nn.gelu %1 approximate tanh : tensor<729x4304xf16>
  %3 = nn.matmul %2, %down_weight : (tensor<729x4304xf16>, tensor<4304x1152xf16>) -> tensor<729x1152xf16>
  %4 = nn.add %3, %down_bias : (tensor<729x1152xf16>, tensor<1152xf16>) -> tensor<729x1152xf16>
  return %4 : tensor<729x1152xf16>
}
