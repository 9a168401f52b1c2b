// One block of a transformer: 2 sequences of 8 tokens, width 32, two heads.
func.func @main(%x: tensor<2x8x32xf16>) -> tensor<2x8x32xf16> {
  %norm_scale = nn.parameter "norm.scale" : tensor<32xf16>
  %norm_bias = nn.parameter "norm.bias" : tensor<32xf16>
  %norm = nn.layer_norm %x, %norm_scale, %norm_bias : (tensor<2x8x32xf16>, tensor<32xf16>, tensor<32xf16>) -> tensor<2x8x32xf16>
  %q_weight = nn.parameter "q.weight" : tensor<32x32xf16>
  %q = nn.matmul %norm, %q_weight : (tensor<2x8x32xf16>, tensor<32x32xf16>) -> tensor<2x8x32xf16>
  %k_weight = nn.parameter "k.weight" : tensor<32x32xf16>
  %k = nn.matmul %norm, %k_weight : (tensor<2x8x32xf16>, tensor<32x32xf16>) -> tensor<2x8x32xf16>
  %v_weight = nn.parameter "v.weight" : tensor<32x32xf16>
  %v = nn.matmul %norm, %v_weight : (tensor<2x8x32xf16>, tensor<32x32xf16>) -> tensor<2x8x32xf16>
  %attention = nn.attention %q, %k, %v heads 2 scale 0.25 : (tensor<2x8x32xf16>, tensor<2x8x32xf16>, tensor<2x8x32xf16>) -> tensor<2x8x32xf16>
  %out_weight = nn.parameter "out.weight" : tensor<32x32xf16>
  %out = nn.matmul %attention, %out_weight : (tensor<2x8x32xf16>, tensor<32x32xf16>) -> tensor<2x8x32xf16>
  %residual = nn.add %out, %x : (tensor<2x8x32xf16>, tensor<2x8x32xf16>) -> tensor<2x8x32xf16>
  %up_weight = nn.parameter "up.weight" : tensor<32x64xf16>
  %up_bias = nn.parameter "up.bias" : tensor<64xf16>
  %up = nn.matmul %residual, %up_weight : (tensor<2x8x32xf16>, tensor<32x64xf16>) -> tensor<2x8x64xf16>
  %biased = nn.add %up, %up_bias : (tensor<2x8x64xf16>, tensor<64xf16>) -> tensor<2x8x64xf16>
  %gelu = nn.gelu %biased approximate tanh : tensor<2x8x64xf16>
  %down_weight = nn.parameter "down.weight" : tensor<64x32xf16>
  %down = nn.matmul %gelu, %down_weight : (tensor<2x8x64xf16>, tensor<64x32xf16>) -> tensor<2x8x32xf16>
  %sum = nn.add %down, %residual : (tensor<2x8x32xf16>, tensor<2x8x32xf16>) -> tensor<2x8x32xf16>
  return %sum : tensor<2x8x32xf16>
}
