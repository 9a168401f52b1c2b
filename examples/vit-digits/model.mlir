// A vision transformer for the 8x8 digits: patches of 2x2 pixels, width 64, two blocks of four
// heads. Operands are f16, sums and statistics f32; the weights are f32 in the file.
func.func @main(%images: tensor<200x8x8xf16>) -> tensor<200x10xf16> {
  // Patches: rows and columns of pixels in pairs, pixels of a patch together.
  %0 = nn.reshape %images : (tensor<200x8x8xf16>) -> tensor<200x4x2x4x2xf16>
  %1 = nn.transpose %0 permutation [0, 1, 3, 2, 4] : (tensor<200x4x2x4x2xf16>) -> tensor<200x4x4x2x2xf16>
  %2 = nn.reshape %1 : (tensor<200x4x4x2x2xf16>) -> tensor<200x16x4xf16>
  %patch_embed_weight = nn.parameter "patch_embed.weight" : tensor<4x64xf16>
  %patch_embed_bias = nn.parameter "patch_embed.bias" : tensor<64xf16>
  %3 = nn.matmul %2, %patch_embed_weight : (tensor<200x16x4xf16>, tensor<4x64xf16>) -> tensor<200x16x64xf16>
  %4 = nn.add %3, %patch_embed_bias : (tensor<200x16x64xf16>, tensor<64xf16>) -> tensor<200x16x64xf16>
  %pos_embed = nn.parameter "pos_embed" : tensor<16x64xf16>
  %5 = nn.add %4, %pos_embed : (tensor<200x16x64xf16>, tensor<16x64xf16>) -> tensor<200x16x64xf16>

  // Block 0.
  %blocks_0_norm1_scale = nn.parameter "blocks.0.norm1.scale" : tensor<64xf16>
  %blocks_0_norm1_bias = nn.parameter "blocks.0.norm1.bias" : tensor<64xf16>
  %6 = nn.layer_norm %5, %blocks_0_norm1_scale, %blocks_0_norm1_bias : (tensor<200x16x64xf16>, tensor<64xf16>, tensor<64xf16>) -> tensor<200x16x64xf16>
  %blocks_0_attn_q_weight = nn.parameter "blocks.0.attn.q.weight" : tensor<64x64xf16>
  %blocks_0_attn_q_bias = nn.parameter "blocks.0.attn.q.bias" : tensor<64xf16>
  %7 = nn.matmul %6, %blocks_0_attn_q_weight : (tensor<200x16x64xf16>, tensor<64x64xf16>) -> tensor<200x16x64xf16>
  %8 = nn.add %7, %blocks_0_attn_q_bias : (tensor<200x16x64xf16>, tensor<64xf16>) -> tensor<200x16x64xf16>
  %blocks_0_attn_k_weight = nn.parameter "blocks.0.attn.k.weight" : tensor<64x64xf16>
  %blocks_0_attn_k_bias = nn.parameter "blocks.0.attn.k.bias" : tensor<64xf16>
  %9 = nn.matmul %6, %blocks_0_attn_k_weight : (tensor<200x16x64xf16>, tensor<64x64xf16>) -> tensor<200x16x64xf16>
  %10 = nn.add %9, %blocks_0_attn_k_bias : (tensor<200x16x64xf16>, tensor<64xf16>) -> tensor<200x16x64xf16>
  %blocks_0_attn_v_weight = nn.parameter "blocks.0.attn.v.weight" : tensor<64x64xf16>
  %blocks_0_attn_v_bias = nn.parameter "blocks.0.attn.v.bias" : tensor<64xf16>
  %11 = nn.matmul %6, %blocks_0_attn_v_weight : (tensor<200x16x64xf16>, tensor<64x64xf16>) -> tensor<200x16x64xf16>
  %12 = nn.add %11, %blocks_0_attn_v_bias : (tensor<200x16x64xf16>, tensor<64xf16>) -> tensor<200x16x64xf16>
  %13 = nn.attention %8, %10, %12 heads 4 scale 0.25 : (tensor<200x16x64xf16>, tensor<200x16x64xf16>, tensor<200x16x64xf16>) -> tensor<200x16x64xf16>
  %blocks_0_attn_out_weight = nn.parameter "blocks.0.attn.out.weight" : tensor<64x64xf16>
  %blocks_0_attn_out_bias = nn.parameter "blocks.0.attn.out.bias" : tensor<64xf16>
  %14 = nn.matmul %13, %blocks_0_attn_out_weight : (tensor<200x16x64xf16>, tensor<64x64xf16>) -> tensor<200x16x64xf16>
  %15 = nn.add %14, %blocks_0_attn_out_bias : (tensor<200x16x64xf16>, tensor<64xf16>) -> tensor<200x16x64xf16>
  %16 = nn.add %15, %5 : (tensor<200x16x64xf16>, tensor<200x16x64xf16>) -> tensor<200x16x64xf16>
  %blocks_0_norm2_scale = nn.parameter "blocks.0.norm2.scale" : tensor<64xf16>
  %blocks_0_norm2_bias = nn.parameter "blocks.0.norm2.bias" : tensor<64xf16>
  %17 = nn.layer_norm %16, %blocks_0_norm2_scale, %blocks_0_norm2_bias : (tensor<200x16x64xf16>, tensor<64xf16>, tensor<64xf16>) -> tensor<200x16x64xf16>
  %blocks_0_mlp_fc1_weight = nn.parameter "blocks.0.mlp.fc1.weight" : tensor<64x128xf16>
  %blocks_0_mlp_fc1_bias = nn.parameter "blocks.0.mlp.fc1.bias" : tensor<128xf16>
  %18 = nn.matmul %17, %blocks_0_mlp_fc1_weight : (tensor<200x16x64xf16>, tensor<64x128xf16>) -> tensor<200x16x128xf16>
  %19 = nn.add %18, %blocks_0_mlp_fc1_bias : (tensor<200x16x128xf16>, tensor<128xf16>) -> tensor<200x16x128xf16>
  %20 = nn.gelu %19 : tensor<200x16x128xf16>
  %blocks_0_mlp_fc2_weight = nn.parameter "blocks.0.mlp.fc2.weight" : tensor<128x64xf16>
  %blocks_0_mlp_fc2_bias = nn.parameter "blocks.0.mlp.fc2.bias" : tensor<64xf16>
  %21 = nn.matmul %20, %blocks_0_mlp_fc2_weight : (tensor<200x16x128xf16>, tensor<128x64xf16>) -> tensor<200x16x64xf16>
  %22 = nn.add %21, %blocks_0_mlp_fc2_bias : (tensor<200x16x64xf16>, tensor<64xf16>) -> tensor<200x16x64xf16>
  %23 = nn.add %22, %16 : (tensor<200x16x64xf16>, tensor<200x16x64xf16>) -> tensor<200x16x64xf16>

  // Block 1.
  %blocks_1_norm1_scale = nn.parameter "blocks.1.norm1.scale" : tensor<64xf16>
  %blocks_1_norm1_bias = nn.parameter "blocks.1.norm1.bias" : tensor<64xf16>
  %24 = nn.layer_norm %23, %blocks_1_norm1_scale, %blocks_1_norm1_bias : (tensor<200x16x64xf16>, tensor<64xf16>, tensor<64xf16>) -> tensor<200x16x64xf16>
  %blocks_1_attn_q_weight = nn.parameter "blocks.1.attn.q.weight" : tensor<64x64xf16>
  %blocks_1_attn_q_bias = nn.parameter "blocks.1.attn.q.bias" : tensor<64xf16>
  %25 = nn.matmul %24, %blocks_1_attn_q_weight : (tensor<200x16x64xf16>, tensor<64x64xf16>) -> tensor<200x16x64xf16>
  %26 = nn.add %25, %blocks_1_attn_q_bias : (tensor<200x16x64xf16>, tensor<64xf16>) -> tensor<200x16x64xf16>
  %blocks_1_attn_k_weight = nn.parameter "blocks.1.attn.k.weight" : tensor<64x64xf16>
  %blocks_1_attn_k_bias = nn.parameter "blocks.1.attn.k.bias" : tensor<64xf16>
  %27 = nn.matmul %24, %blocks_1_attn_k_weight : (tensor<200x16x64xf16>, tensor<64x64xf16>) -> tensor<200x16x64xf16>
  %28 = nn.add %27, %blocks_1_attn_k_bias : (tensor<200x16x64xf16>, tensor<64xf16>) -> tensor<200x16x64xf16>
  %blocks_1_attn_v_weight = nn.parameter "blocks.1.attn.v.weight" : tensor<64x64xf16>
  %blocks_1_attn_v_bias = nn.parameter "blocks.1.attn.v.bias" : tensor<64xf16>
  %29 = nn.matmul %24, %blocks_1_attn_v_weight : (tensor<200x16x64xf16>, tensor<64x64xf16>) -> tensor<200x16x64xf16>
  %30 = nn.add %29, %blocks_1_attn_v_bias : (tensor<200x16x64xf16>, tensor<64xf16>) -> tensor<200x16x64xf16>
  %31 = nn.attention %26, %28, %30 heads 4 scale 0.25 : (tensor<200x16x64xf16>, tensor<200x16x64xf16>, tensor<200x16x64xf16>) -> tensor<200x16x64xf16>
  %blocks_1_attn_out_weight = nn.parameter "blocks.1.attn.out.weight" : tensor<64x64xf16>
  %blocks_1_attn_out_bias = nn.parameter "blocks.1.attn.out.bias" : tensor<64xf16>
  %32 = nn.matmul %31, %blocks_1_attn_out_weight : (tensor<200x16x64xf16>, tensor<64x64xf16>) -> tensor<200x16x64xf16>
  %33 = nn.add %32, %blocks_1_attn_out_bias : (tensor<200x16x64xf16>, tensor<64xf16>) -> tensor<200x16x64xf16>
  %34 = nn.add %33, %23 : (tensor<200x16x64xf16>, tensor<200x16x64xf16>) -> tensor<200x16x64xf16>
  %blocks_1_norm2_scale = nn.parameter "blocks.1.norm2.scale" : tensor<64xf16>
  %blocks_1_norm2_bias = nn.parameter "blocks.1.norm2.bias" : tensor<64xf16>
  %35 = nn.layer_norm %34, %blocks_1_norm2_scale, %blocks_1_norm2_bias : (tensor<200x16x64xf16>, tensor<64xf16>, tensor<64xf16>) -> tensor<200x16x64xf16>
  %blocks_1_mlp_fc1_weight = nn.parameter "blocks.1.mlp.fc1.weight" : tensor<64x128xf16>
  %blocks_1_mlp_fc1_bias = nn.parameter "blocks.1.mlp.fc1.bias" : tensor<128xf16>
  %36 = nn.matmul %35, %blocks_1_mlp_fc1_weight : (tensor<200x16x64xf16>, tensor<64x128xf16>) -> tensor<200x16x128xf16>
  %37 = nn.add %36, %blocks_1_mlp_fc1_bias : (tensor<200x16x128xf16>, tensor<128xf16>) -> tensor<200x16x128xf16>
  %38 = nn.gelu %37 : tensor<200x16x128xf16>
  %blocks_1_mlp_fc2_weight = nn.parameter "blocks.1.mlp.fc2.weight" : tensor<128x64xf16>
  %blocks_1_mlp_fc2_bias = nn.parameter "blocks.1.mlp.fc2.bias" : tensor<64xf16>
  %39 = nn.matmul %38, %blocks_1_mlp_fc2_weight : (tensor<200x16x128xf16>, tensor<128x64xf16>) -> tensor<200x16x64xf16>
  %40 = nn.add %39, %blocks_1_mlp_fc2_bias : (tensor<200x16x64xf16>, tensor<64xf16>) -> tensor<200x16x64xf16>
  %41 = nn.add %40, %34 : (tensor<200x16x64xf16>, tensor<200x16x64xf16>) -> tensor<200x16x64xf16>

  // Classifier: the mean of the tokens.
  %norm_scale = nn.parameter "norm.scale" : tensor<64xf16>
  %norm_bias = nn.parameter "norm.bias" : tensor<64xf16>
  %42 = nn.layer_norm %41, %norm_scale, %norm_bias : (tensor<200x16x64xf16>, tensor<64xf16>, tensor<64xf16>) -> tensor<200x16x64xf16>
  %43 = nn.reduce mean %42 over [1] : (tensor<200x16x64xf16>) -> tensor<200x64xf16>
  %head_weight = nn.parameter "head.weight" : tensor<64x10xf16>
  %head_bias = nn.parameter "head.bias" : tensor<10xf16>
  %44 = nn.matmul %43, %head_weight : (tensor<200x64xf16>, tensor<64x10xf16>) -> tensor<200x10xf16>
  %45 = nn.add %44, %head_bias : (tensor<200x10xf16>, tensor<10xf16>) -> tensor<200x10xf16>
  return %45 : tensor<200x10xf16>
}
