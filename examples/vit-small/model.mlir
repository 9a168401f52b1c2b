// One encoder layer and the attention pooling of the SigLIP family: four tokens of 588 pixels, width
// 144, two heads of 72. Weights and inputs come from an independent program, see README.md.
func.func @main(%patches: tensor<1x4x588xf16>) -> tensor<1x1x144xf16> {
  %embedding_weight = nn.parameter "embedding.weight" : tensor<588x144xf16>
  %embedding_bias = nn.parameter "embedding.bias" : tensor<144xf16>
  %0 = nn.matmul %patches, %embedding_weight : (tensor<1x4x588xf16>, tensor<588x144xf16>) -> tensor<1x4x144xf16>
  %1 = nn.add %0, %embedding_bias : (tensor<1x4x144xf16>, tensor<144xf16>) -> tensor<1x4x144xf16>
  %position = nn.parameter "position" : tensor<4x144xf16>
  %2 = nn.add %1, %position : (tensor<1x4x144xf16>, tensor<4x144xf16>) -> tensor<1x4x144xf16>

  // Encoder layer.
  %encoder_attention_norm_scale = nn.parameter "encoder.attention_norm.scale" : tensor<144xf16>
  %encoder_attention_norm_bias = nn.parameter "encoder.attention_norm.bias" : tensor<144xf16>
  %3 = nn.layer_norm %2, %encoder_attention_norm_scale, %encoder_attention_norm_bias epsilon 1.0e-6 : (tensor<1x4x144xf16>, tensor<144xf16>, tensor<144xf16>) -> tensor<1x4x144xf16>
  %encoder_q_weight = nn.parameter "encoder.q.weight" : tensor<144x144xf16>
  %encoder_q_bias = nn.parameter "encoder.q.bias" : tensor<144xf16>
  %4 = nn.matmul %3, %encoder_q_weight : (tensor<1x4x144xf16>, tensor<144x144xf16>) -> tensor<1x4x144xf16>
  %5 = nn.add %4, %encoder_q_bias : (tensor<1x4x144xf16>, tensor<144xf16>) -> tensor<1x4x144xf16>
  %encoder_k_weight = nn.parameter "encoder.k.weight" : tensor<144x144xf16>
  %encoder_k_bias = nn.parameter "encoder.k.bias" : tensor<144xf16>
  %6 = nn.matmul %3, %encoder_k_weight : (tensor<1x4x144xf16>, tensor<144x144xf16>) -> tensor<1x4x144xf16>
  %7 = nn.add %6, %encoder_k_bias : (tensor<1x4x144xf16>, tensor<144xf16>) -> tensor<1x4x144xf16>
  %encoder_v_weight = nn.parameter "encoder.v.weight" : tensor<144x144xf16>
  %encoder_v_bias = nn.parameter "encoder.v.bias" : tensor<144xf16>
  %8 = nn.matmul %3, %encoder_v_weight : (tensor<1x4x144xf16>, tensor<144x144xf16>) -> tensor<1x4x144xf16>
  %9 = nn.add %8, %encoder_v_bias : (tensor<1x4x144xf16>, tensor<144xf16>) -> tensor<1x4x144xf16>
  %10 = nn.split_heads %5 heads 2 : (tensor<1x4x144xf16>) -> tensor<2x4x72xf16>
  %11 = nn.split_heads %7 heads 2 : (tensor<1x4x144xf16>) -> tensor<2x4x72xf16>
  %12 = nn.split_heads %9 heads 2 : (tensor<1x4x144xf16>) -> tensor<2x4x72xf16>
  %13 = nn.attention %10, %11, %12 scale 0.11785113 : (tensor<2x4x72xf16>, tensor<2x4x72xf16>, tensor<2x4x72xf16>) -> tensor<2x4x72xf16>
  %14 = nn.merge_heads %13 heads 2 : (tensor<2x4x72xf16>) -> tensor<1x4x144xf16>
  %encoder_output_weight = nn.parameter "encoder.output.weight" : tensor<144x144xf16>
  %encoder_output_bias = nn.parameter "encoder.output.bias" : tensor<144xf16>
  %15 = nn.matmul %14, %encoder_output_weight : (tensor<1x4x144xf16>, tensor<144x144xf16>) -> tensor<1x4x144xf16>
  %16 = nn.add %15, %encoder_output_bias : (tensor<1x4x144xf16>, tensor<144xf16>) -> tensor<1x4x144xf16>
  %17 = nn.add %16, %2 : (tensor<1x4x144xf16>, tensor<1x4x144xf16>) -> tensor<1x4x144xf16>
  %encoder_mlp_norm_scale = nn.parameter "encoder.mlp_norm.scale" : tensor<144xf16>
  %encoder_mlp_norm_bias = nn.parameter "encoder.mlp_norm.bias" : tensor<144xf16>
  %18 = nn.layer_norm %17, %encoder_mlp_norm_scale, %encoder_mlp_norm_bias epsilon 1.0e-6 : (tensor<1x4x144xf16>, tensor<144xf16>, tensor<144xf16>) -> tensor<1x4x144xf16>
  %encoder_up_weight = nn.parameter "encoder.up.weight" : tensor<144x288xf16>
  %encoder_up_bias = nn.parameter "encoder.up.bias" : tensor<288xf16>
  %19 = nn.matmul %18, %encoder_up_weight : (tensor<1x4x144xf16>, tensor<144x288xf16>) -> tensor<1x4x288xf16>
  %20 = nn.add %19, %encoder_up_bias : (tensor<1x4x288xf16>, tensor<288xf16>) -> tensor<1x4x288xf16>
  %21 = nn.gelu %20 approximate tanh : tensor<1x4x288xf16>
  %encoder_down_weight = nn.parameter "encoder.down.weight" : tensor<288x144xf16>
  %encoder_down_bias = nn.parameter "encoder.down.bias" : tensor<144xf16>
  %22 = nn.matmul %21, %encoder_down_weight : (tensor<1x4x288xf16>, tensor<288x144xf16>) -> tensor<1x4x144xf16>
  %23 = nn.add %22, %encoder_down_bias : (tensor<1x4x144xf16>, tensor<144xf16>) -> tensor<1x4x144xf16>
  %24 = nn.add %23, %17 : (tensor<1x4x144xf16>, tensor<1x4x144xf16>) -> tensor<1x4x144xf16>
  %encoder_final_norm_scale = nn.parameter "encoder.final_norm.scale" : tensor<144xf16>
  %encoder_final_norm_bias = nn.parameter "encoder.final_norm.bias" : tensor<144xf16>
  %25 = nn.layer_norm %24, %encoder_final_norm_scale, %encoder_final_norm_bias epsilon 1.0e-6 : (tensor<1x4x144xf16>, tensor<144xf16>, tensor<144xf16>) -> tensor<1x4x144xf16>

  // Pooling by the attention of one probe.
  %map_probe = nn.parameter "map.probe" : tensor<1x144xf16>
  %26 = nn.reshape %map_probe : (tensor<1x144xf16>) -> tensor<1x1x144xf16>
  %map_query_weight = nn.parameter "map.query.weight" : tensor<144x144xf16>
  %map_query_bias = nn.parameter "map.query.bias" : tensor<144xf16>
  %27 = nn.matmul %26, %map_query_weight : (tensor<1x1x144xf16>, tensor<144x144xf16>) -> tensor<1x1x144xf16>
  %28 = nn.add %27, %map_query_bias : (tensor<1x1x144xf16>, tensor<144xf16>) -> tensor<1x1x144xf16>
  %map_key_weight = nn.parameter "map.key.weight" : tensor<144x144xf16>
  %map_key_bias = nn.parameter "map.key.bias" : tensor<144xf16>
  %29 = nn.matmul %25, %map_key_weight : (tensor<1x4x144xf16>, tensor<144x144xf16>) -> tensor<1x4x144xf16>
  %30 = nn.add %29, %map_key_bias : (tensor<1x4x144xf16>, tensor<144xf16>) -> tensor<1x4x144xf16>
  %map_value_weight = nn.parameter "map.value.weight" : tensor<144x144xf16>
  %map_value_bias = nn.parameter "map.value.bias" : tensor<144xf16>
  %31 = nn.matmul %25, %map_value_weight : (tensor<1x4x144xf16>, tensor<144x144xf16>) -> tensor<1x4x144xf16>
  %32 = nn.add %31, %map_value_bias : (tensor<1x4x144xf16>, tensor<144xf16>) -> tensor<1x4x144xf16>
  %33 = nn.split_heads %28 heads 2 : (tensor<1x1x144xf16>) -> tensor<2x1x72xf16>
  %34 = nn.split_heads %30 heads 2 : (tensor<1x4x144xf16>) -> tensor<2x4x72xf16>
  %35 = nn.split_heads %32 heads 2 : (tensor<1x4x144xf16>) -> tensor<2x4x72xf16>
  %36 = nn.attention %33, %34, %35 scale 0.11785113 : (tensor<2x1x72xf16>, tensor<2x4x72xf16>, tensor<2x4x72xf16>) -> tensor<2x1x72xf16>
  %37 = nn.merge_heads %36 heads 2 : (tensor<2x1x72xf16>) -> tensor<1x1x144xf16>
  %map_output_weight = nn.parameter "map.output.weight" : tensor<144x144xf16>
  %map_output_bias = nn.parameter "map.output.bias" : tensor<144xf16>
  %38 = nn.matmul %37, %map_output_weight : (tensor<1x1x144xf16>, tensor<144x144xf16>) -> tensor<1x1x144xf16>
  %39 = nn.add %38, %map_output_bias : (tensor<1x1x144xf16>, tensor<144xf16>) -> tensor<1x1x144xf16>
  %map_norm_scale = nn.parameter "map.norm.scale" : tensor<144xf16>
  %map_norm_bias = nn.parameter "map.norm.bias" : tensor<144xf16>
  %40 = nn.layer_norm %39, %map_norm_scale, %map_norm_bias epsilon 1.0e-6 : (tensor<1x1x144xf16>, tensor<144xf16>, tensor<144xf16>) -> tensor<1x1x144xf16>
  %map_up_weight = nn.parameter "map.up.weight" : tensor<144x288xf16>
  %map_up_bias = nn.parameter "map.up.bias" : tensor<288xf16>
  %41 = nn.matmul %40, %map_up_weight : (tensor<1x1x144xf16>, tensor<144x288xf16>) -> tensor<1x1x288xf16>
  %42 = nn.add %41, %map_up_bias : (tensor<1x1x288xf16>, tensor<288xf16>) -> tensor<1x1x288xf16>
  %43 = nn.gelu %42 approximate tanh : tensor<1x1x288xf16>
  %map_down_weight = nn.parameter "map.down.weight" : tensor<288x144xf16>
  %map_down_bias = nn.parameter "map.down.bias" : tensor<144xf16>
  %44 = nn.matmul %43, %map_down_weight : (tensor<1x1x288xf16>, tensor<288x144xf16>) -> tensor<1x1x144xf16>
  %45 = nn.add %44, %map_down_bias : (tensor<1x1x144xf16>, tensor<144xf16>) -> tensor<1x1x144xf16>
  %46 = nn.add %45, %39 : (tensor<1x1x144xf16>, tensor<1x1x144xf16>) -> tensor<1x1x144xf16>
  return %46 : tensor<1x1x144xf16>
}
