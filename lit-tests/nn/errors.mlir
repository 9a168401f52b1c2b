// RUN: ipu-opt %s --split-input-file --verify-diagnostics

func.func @contraction(%x: tensor<200x64xf16>, %w: tensor<65x128xf16>) {
  // expected-error@+1 {{'nn.matmul' op contraction sizes differ: lhs is tensor<200x64xf16> (64 columns), rhs is tensor<65x128xf16> (65 rows)}}
  %0 = nn.matmul %x, %w : (tensor<200x64xf16>, tensor<65x128xf16>) -> tensor<200x128xf16>
  return
}

// -----

func.func @rank(%x: tensor<64xf16>, %w: tensor<64x128xf16>) {
  // expected-error@+1 {{'nn.matmul' op needs matrices: lhs is tensor<64xf16>, rhs is tensor<64x128xf16>}}
  %0 = nn.matmul %x, %w : (tensor<64xf16>, tensor<64x128xf16>) -> tensor<128xf16>
  return
}

// -----

func.func @batch(%x: tensor<7x2x4xf16>, %w: tensor<6x4x8xf16>) {
  // expected-error@+1 {{batch axes differ: lhs is tensor<7x2x4xf16>, rhs is tensor<6x4x8xf16>}}
  %0 = nn.matmul %x, %w : (tensor<7x2x4xf16>, tensor<6x4x8xf16>) -> tensor<7x2x8xf16>
  return
}

// -----

func.func @result(%x: tensor<2x4xf16>, %w: tensor<4x8xf16>) {
  // expected-error@+1 {{result is tensor<2x9xf16>, expected the shape 2x8}}
  %0 = nn.matmul %x, %w : (tensor<2x4xf16>, tensor<4x8xf16>) -> tensor<2x9xf16>
  return
}

// -----

func.func @elements(%x: tensor<2x4xf32>, %w: tensor<4x8xf32>) {
  // expected-error@+1 {{result is tensor<2x8xf16>, expected elements of f32}}
  %0 = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf16>
  return
}

// -----

func.func @bias(%x: tensor<2x4xf16>, %w: tensor<4x8xf16>, %b: tensor<7xf16>) {
  // expected-error@+1 {{'nn.linear' op bias is tensor<7xf16>, expected a shape that broadcasts to 2x8}}
  %0 = nn.linear %x, %w bias %b : (tensor<2x4xf16>, tensor<4x8xf16>, tensor<7xf16>) -> tensor<2x8xf16>
  return
}

// -----

func.func @activation(%x: tensor<2x4xf16>, %w: tensor<4x8xf16>) {
  // expected-error@+1 {{unknown activation 'gelu', one of: none, relu}}
  %0 = nn.linear %x, %w activation gelu : (tensor<2x4xf16>, tensor<4x8xf16>) -> tensor<2x8xf16>
  return
}

// -----

func.func @broadcast(%a: tensor<3x2xf32>, %b: tensor<3xf32>) {
  // expected-error@+1 {{'nn.add' op shapes do not broadcast: lhs is tensor<3x2xf32>, rhs is tensor<3xf32>}}
  %0 = nn.add %a, %b : (tensor<3x2xf32>, tensor<3xf32>) -> tensor<3x2xf32>
  return
}

// -----

func.func @mixed(%a: tensor<3xf32>, %b: tensor<3xf16>) {
  // expected-error@+1 {{'nn.mul' op element types differ: lhs is tensor<3xf32>, rhs is tensor<3xf16>}}
  %0 = nn.mul %a, %b : (tensor<3xf32>, tensor<3xf16>) -> tensor<3xf32>
  return
}

// -----

func.func @relu(%a: tensor<3xf32>) {
  // expected-error@+1 {{'nn.relu' op result is tensor<4xf32>, expected the shape 3}}
  %0 = nn.relu %a : (tensor<3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @dynamic(%a: tensor<2x?xf32>) {
  // expected-error@+1 {{'nn.relu' op input is tensor<2x?xf32>: axis 1 is dynamic, give its extent}}
  %0 = nn.relu %a : tensor<2x?xf32>
  return
}

// -----

func.func @empty() {
  // expected-error@+1 {{'nn.parameter' op result is tensor<2x0xf32>: axis 1 is empty}}
  %0 = nn.parameter "w" : tensor<2x0xf32>
  return
}

// -----

func.func @huge() {
  // expected-error@+1 {{it has more than 4294967295 elements, the limit of one tensor}}
  %0 = nn.parameter "w" : tensor<99999999999x99999999999xf16>
  return
}

// -----

func.func @integers() {
  // expected-error@+1 {{'nn.parameter' op result #0 must be ranked tensor of 16-bit float or 32-bit float or 32-bit signless integer values, but got 'tensor<2xi64>'}}
  %0 = nn.parameter "w" : tensor<2xi64>
  return
}

// -----

func.func @key() {
  // expected-error@+1 {{'nn.parameter' op has an empty key}}
  %0 = nn.parameter "" : tensor<2xf32>
  return
}

// -----

func.func @transposed(%x: tensor<4x2xf16>, %w: tensor<8x5xf16>) {
  // expected-error@+1 {{'nn.matmul' op contraction sizes differ: lhs is tensor<4x2xf16> (4 rows), rhs is tensor<8x5xf16> (5 columns)}}
  %0 = nn.matmul %x, %w transpose_a transpose_b : (tensor<4x2xf16>, tensor<8x5xf16>) -> tensor<2x8xf16>
  return
}

// -----

func.func @product_of_integers(%x: tensor<4x2xi32>, %w: tensor<2x5xf16>) {
  // expected-error@+1 {{'nn.matmul' op operand #0 must be ranked tensor of 16-bit float or 32-bit float values, but got 'tensor<4x2xi32>'}}
  %0 = nn.matmul %x, %w : (tensor<4x2xi32>, tensor<2x5xf16>) -> tensor<4x5xf16>
  return
}

// -----

func.func @approximation(%x: tensor<2xf16>) {
  // expected-error@+1 {{unknown approximation 'erf', one of: none, tanh}}
  %0 = nn.gelu %x approximate erf : tensor<2xf16>
  return
}

// -----

func.func @softmax_axis(%x: tensor<2x3xf16>) {
  // expected-error@+1 {{'nn.softmax' op axis is 2, expected 0 to 1: input is tensor<2x3xf16>}}
  %0 = nn.softmax %x axis 2 : tensor<2x3xf16>
  return
}

// -----

func.func @softmax_negative_axis(%x: tensor<2x3xf16>) {
  // expected-error@+1 {{'nn.softmax' op axis is -1, expected 0 to 4294967295}}
  %0 = nn.softmax %x axis -1 : tensor<2x3xf16>
  return
}

// -----

func.func @softmax_of_scalar(%x: tensor<f16>) {
  // expected-error@+1 {{'nn.softmax' op axis is 0, expected none: input is tensor<f16>}}
  %0 = nn.softmax %x axis 0 : tensor<f16>
  return
}

// -----

func.func @layer_norm_scale(%x: tensor<2x3xf16>, %s: tensor<2xf16>, %b: tensor<3xf16>) {
  // expected-error@+1 {{'nn.layer_norm' op scale is tensor<2xf16>, expected the shape 3}}
  %0 = nn.layer_norm %x, %s, %b : (tensor<2x3xf16>, tensor<2xf16>, tensor<3xf16>) -> tensor<2x3xf16>
  return
}

// -----

func.func @layer_norm_bias(%x: tensor<2x3xf16>, %s: tensor<3xf16>, %b: tensor<1x3xf16>) {
  // expected-error@+1 {{'nn.layer_norm' op bias is tensor<1x3xf16>, expected the shape 3}}
  %0 = nn.layer_norm %x, %s, %b : (tensor<2x3xf16>, tensor<3xf16>, tensor<1x3xf16>) -> tensor<2x3xf16>
  return
}

// -----

func.func @rms_norm_epsilon(%x: tensor<2x3xf16>, %s: tensor<3xf16>) {
  // expected-error@+1 {{'nn.rms_norm' op epsilon is -1, expected a finite number, not negative}}
  %0 = nn.rms_norm %x, %s epsilon -1.0 : (tensor<2x3xf16>, tensor<3xf16>) -> tensor<2x3xf16>
  return
}

// -----

func.func @rms_norm_elements(%x: tensor<2x3xf16>, %s: tensor<3xf32>) {
  // expected-error@+1 {{'nn.rms_norm' op element types differ: input is tensor<2x3xf16>, scale is tensor<3xf32>}}
  %0 = nn.rms_norm %x, %s : (tensor<2x3xf16>, tensor<3xf32>) -> tensor<2x3xf16>
  return
}

// -----

func.func @rms_norm_of_scalar(%x: tensor<f16>, %s: tensor<f16>) {
  // expected-error@+1 {{'nn.rms_norm' op input is tensor<f16>, expected at least 1 axis}}
  %0 = nn.rms_norm %x, %s : (tensor<f16>, tensor<f16>) -> tensor<f16>
  return
}

// -----

func.func @reduction(%x: tensor<2x3xf16>) {
  // expected-error@+1 {{unknown reduction 'min', one of: sum, mean, max}}
  %0 = nn.reduce min %x over [0] : (tensor<2x3xf16>) -> tensor<3xf16>
  return
}

// -----

func.func @reduce_axes(%x: tensor<2x3xf16>) {
  // expected-error@+1 {{'nn.reduce' op axes is [1, 1], expected at least one axis, ascending, each once}}
  %0 = nn.reduce sum %x over [1, 1] : (tensor<2x3xf16>) -> tensor<2xf16>
  return
}

// -----

func.func @reduce_no_axis(%x: tensor<2x3xf16>) {
  // expected-error@+1 {{'nn.reduce' op axes is [], expected at least one axis, ascending, each once}}
  %0 = nn.reduce sum %x over [] : tensor<2x3xf16>
  return
}

// -----

func.func @reduce_axis(%x: tensor<2x3xf16>) {
  // expected-error@+1 {{'nn.reduce' op axes[1] is 2, expected 0 to 1: input is tensor<2x3xf16>}}
  %0 = nn.reduce sum %x over [0, 2] : (tensor<2x3xf16>) -> tensor<3xf16>
  return
}

// -----

func.func @reduce_negative_axis(%x: tensor<2x3xf16>) {
  // expected-error@+1 {{'nn.reduce' op axes[0] is -2, expected 0 to 4294967295}}
  %0 = nn.reduce sum %x over [-2] : (tensor<2x3xf16>) -> tensor<3xf16>
  return
}

// -----

func.func @reduce_result(%x: tensor<2x3xf16>) {
  // expected-error@+1 {{'nn.reduce' op result is tensor<3xf16>, expected the shape 1x3}}
  %0 = nn.reduce sum %x over [0] keep_dims : (tensor<2x3xf16>) -> tensor<3xf16>
  return
}

// -----

func.func @attention_heads(%q: tensor<5x12xf16>, %k: tensor<7x12xf16>, %v: tensor<7x6xf16>) {
  // expected-error@+1 {{'nn.attention' op heads is 4, expected a divisor of 6: value is tensor<7x6xf16>}}
  %0 = nn.attention %q, %k, %v heads 4 scale 1.0 : (tensor<5x12xf16>, tensor<7x12xf16>, tensor<7x6xf16>) -> tensor<5x6xf16>
  return
}

// -----

func.func @attention_no_heads(%q: tensor<5x12xf16>, %k: tensor<7x12xf16>, %v: tensor<7x6xf16>) {
  // expected-error@+1 {{'nn.attention' op heads is 0, expected a divisor of 12: query is tensor<5x12xf16>}}
  %0 = nn.attention %q, %k, %v heads 0 scale 1.0 : (tensor<5x12xf16>, tensor<7x12xf16>, tensor<7x6xf16>) -> tensor<5x6xf16>
  return
}

// -----

func.func @attention_scale(%q: tensor<5x12xf16>, %k: tensor<7x12xf16>, %v: tensor<7x6xf16>) {
  // expected-error@+1 {{'nn.attention' op scale is inf, expected a finite number}}
  %0 = nn.attention %q, %k, %v scale 0x7F800000 : (tensor<5x12xf16>, tensor<7x12xf16>, tensor<7x6xf16>) -> tensor<5x6xf16>
  return
}

// -----

func.func @attention_causal(%q: tensor<5x12xf16>, %k: tensor<7x12xf16>, %v: tensor<7x6xf16>) {
  // expected-error@+1 {{'nn.attention' op query is tensor<7x12xf16>, expected at most 5 queries when causal}}
  %0 = nn.attention %k, %q, %q scale 1.0 causal : (tensor<7x12xf16>, tensor<5x12xf16>, tensor<5x12xf16>) -> tensor<7x12xf16>
  return
}

// -----

func.func @attention_keys(%q: tensor<5x12xf16>, %k: tensor<7x12xf16>, %v: tensor<7x6xf16>) {
  // expected-error@+1 {{'nn.attention' op numbers of keys and values differ: key is tensor<7x12xf16>, value is tensor<5x12xf16>}}
  %0 = nn.attention %q, %k, %q scale 1.0 : (tensor<5x12xf16>, tensor<7x12xf16>, tensor<5x12xf16>) -> tensor<5x12xf16>
  return
}

// -----

func.func @attention_depth(%q: tensor<5x12xf16>, %k: tensor<7x12xf16>, %v: tensor<7x6xf16>) {
  // expected-error@+1 {{'nn.attention' op last axes differ: query is tensor<5x12xf16>, key is tensor<7x6xf16>}}
  %0 = nn.attention %q, %v, %v scale 1.0 : (tensor<5x12xf16>, tensor<7x6xf16>, tensor<7x6xf16>) -> tensor<5x6xf16>
  return
}

// -----

func.func @attention_batch(%q: tensor<1x5x12xf16>, %k: tensor<5x12xf16>) {
  // expected-error@+1 {{'nn.attention' op leading axes differ: query is tensor<1x5x12xf16>, key is tensor<5x12xf16>}}
  %0 = nn.attention %q, %k, %k scale 1.0 : (tensor<1x5x12xf16>, tensor<5x12xf16>, tensor<5x12xf16>) -> tensor<1x5x12xf16>
  return
}

// -----

func.func @attention_rank(%q: tensor<12xf16>) {
  // expected-error@+1 {{'nn.attention' op query is tensor<12xf16>, expected at least 2 axes}}
  %0 = nn.attention %q, %q, %q scale 1.0 : (tensor<12xf16>, tensor<12xf16>, tensor<12xf16>) -> tensor<12xf16>
  return
}

// -----

func.func @split(%x: tensor<5x12xf16>) {
  // expected-error@+1 {{'nn.split_heads' op heads is 5, expected a divisor of 12: input is tensor<5x12xf16>}}
  %0 = nn.split_heads %x heads 5 : (tensor<5x12xf16>) -> tensor<5x5x2xf16>
  return
}

// -----

func.func @split_rank(%x: tensor<12xf16>) {
  // expected-error@+1 {{'nn.split_heads' op input is tensor<12xf16>, expected at least 2 axes}}
  %0 = nn.split_heads %x heads 3 : (tensor<12xf16>) -> tensor<3x1x4xf16>
  return
}

// -----

func.func @split_result(%x: tensor<5x12xf16>) {
  // expected-error@+1 {{'nn.split_heads' op result is tensor<5x3x4xf16>, expected the shape 3x5x4}}
  %0 = nn.split_heads %x heads 3 : (tensor<5x12xf16>) -> tensor<5x3x4xf16>
  return
}

// -----

func.func @merge(%x: tensor<6x5x4xf16>) {
  // expected-error@+1 {{'nn.merge_heads' op heads is 4, expected a divisor of 6: input is tensor<6x5x4xf16>}}
  %0 = nn.merge_heads %x heads 4 : (tensor<6x5x4xf16>) -> tensor<1x5x16xf16>
  return
}

// -----

func.func @merge_rank(%x: tensor<5x4xf16>) {
  // expected-error@+1 {{'nn.merge_heads' op input is tensor<5x4xf16>, expected 3 axes}}
  %0 = nn.merge_heads %x heads 1 : tensor<5x4xf16>
  return
}

// -----

func.func @reshape(%x: tensor<2x6xf16>) {
  // expected-error@+1 {{'nn.reshape' op result is tensor<13xf16>, expected the 12 elements of the input tensor<2x6xf16>}}
  %0 = nn.reshape %x : (tensor<2x6xf16>) -> tensor<13xf16>
  return
}

// -----

func.func @reshape_elements(%x: tensor<2x6xf16>) {
  // expected-error@+1 {{'nn.reshape' op result is tensor<12xf32>, expected elements of f16}}
  %0 = nn.reshape %x : (tensor<2x6xf16>) -> tensor<12xf32>
  return
}

// -----

func.func @broadcast_to(%x: tensor<3x1xf16>) {
  // expected-error@+1 {{'nn.broadcast' op result is tensor<2x2xf16>, expected a shape that the input tensor<3x1xf16> broadcasts to}}
  %0 = nn.broadcast %x : (tensor<3x1xf16>) -> tensor<2x2xf16>
  return
}

// -----

func.func @cast_to_indices(%x: tensor<3xf16>) {
  // expected-error@+1 {{'nn.cast' op result is tensor<3xi32>, expected elements of f16 or f32}}
  %0 = nn.cast %x : (tensor<3xf16>) -> tensor<3xi32>
  return
}

// -----

func.func @cast_shape(%x: tensor<3xf16>) {
  // expected-error@+1 {{'nn.cast' op result is tensor<4xf32>, expected the shape 3}}
  %0 = nn.cast %x : (tensor<3xf16>) -> tensor<4xf32>
  return
}

// -----

func.func @permutation_length(%x: tensor<2x3xf16>) {
  // expected-error@+1 {{'nn.transpose' op permutation is [0], expected 2 numbers: input is tensor<2x3xf16>}}
  %0 = nn.transpose %x permutation [0] : tensor<2x3xf16>
  return
}

// -----

func.func @permutation_twice(%x: tensor<2x3xf16>) {
  // expected-error@+1 {{'nn.transpose' op permutation is [1, 1], expected axis 1 once}}
  %0 = nn.transpose %x permutation [1, 1] : (tensor<2x3xf16>) -> tensor<3x3xf16>
  return
}

// -----

func.func @permutation_axis(%x: tensor<2x3xf16>) {
  // expected-error@+1 {{'nn.transpose' op permutation[1] is 2, expected 0 to 1: input is tensor<2x3xf16>}}
  %0 = nn.transpose %x permutation [0, 2] : tensor<2x3xf16>
  return
}

// -----

func.func @permutation_huge(%x: tensor<2x3xf16>) {
  // expected-error@+1 {{'nn.transpose' op permutation[0] is 4294967296, expected 0 to 4294967295}}
  %0 = nn.transpose %x permutation [4294967296, 0] : tensor<2x3xf16>
  return
}

// -----

func.func @permutation_result(%x: tensor<2x3xf16>) {
  // expected-error@+1 {{'nn.transpose' op result is tensor<2x3xf16>, expected the shape 3x2}}
  %0 = nn.transpose %x permutation [1, 0] : tensor<2x3xf16>
  return
}

// -----

func.func @slice_end(%x: tensor<2x8xf16>) {
  // expected-error@+1 {{'nn.slice' op result is tensor<1x4xf16>, expected less along axis 1: element 9 of the input tensor<2x8xf16> is read}}
  %0 = nn.slice %x offsets [1, 0] strides [1, 3] : (tensor<2x8xf16>) -> tensor<1x4xf16>
  return
}

// -----

func.func @slice_offset(%x: tensor<8xf16>) {
  // expected-error@+1 {{'nn.slice' op offsets[0] is -1, expected 0 to 4294967295}}
  %0 = nn.slice %x offsets [-1] : (tensor<8xf16>) -> tensor<1xf16>
  return
}

// -----

func.func @slice_stride(%x: tensor<8xf16>) {
  // expected-error@+1 {{'nn.slice' op strides[0] is 0, expected at least 1}}
  %0 = nn.slice %x offsets [0] strides [0] : tensor<8xf16>
  return
}

// -----

func.func @slice_offsets(%x: tensor<2x8xf16>) {
  // expected-error@+1 {{'nn.slice' op offsets is [0], expected 2 numbers: input is tensor<2x8xf16>}}
  %0 = nn.slice %x offsets [0] : tensor<2x8xf16>
  return
}

// -----

func.func @slice_strides(%x: tensor<2x8xf16>) {
  // expected-error@+1 {{'nn.slice' op strides is [1], expected 2 numbers: input is tensor<2x8xf16>}}
  %0 = nn.slice %x offsets [0, 0] strides [1] : tensor<2x8xf16>
  return
}

// -----

func.func @slice_rank(%x: tensor<2x8xf16>) {
  // expected-error@+1 {{'nn.slice' op result is tensor<8xf16>, expected 2 axes like the input}}
  %0 = nn.slice %x offsets [0, 0] : (tensor<2x8xf16>) -> tensor<8xf16>
  return
}

// -----

func.func @concat_axis(%x: tensor<2xf16>) {
  // expected-error@+1 {{'nn.concat' op axis is 1, expected 0 to 0: inputs[0] is tensor<2xf16>}}
  %0 = nn.concat %x, %x axis 1 : (tensor<2xf16>, tensor<2xf16>) -> tensor<4xf16>
  return
}

// -----

func.func @concat_shapes(%x: tensor<2x1xf16>, %y: tensor<3x3xf16>) {
  // expected-error@+1 {{'nn.concat' op axes that are not joined differ: inputs[0] is tensor<2x1xf16>, inputs[1] is tensor<3x3xf16>}}
  %0 = nn.concat %x, %y axis 1 : (tensor<2x1xf16>, tensor<3x3xf16>) -> tensor<2x4xf16>
  return
}

// -----

func.func @concat_elements(%x: tensor<2xf16>, %y: tensor<2xi32>) {
  // expected-error@+1 {{'nn.concat' op element types differ: inputs[0] is tensor<2xf16>, inputs[1] is tensor<2xi32>}}
  %0 = nn.concat %x, %y axis 0 : (tensor<2xf16>, tensor<2xi32>) -> tensor<4xf16>
  return
}

// -----

func.func @concat_nothing() {
  // expected-error@+1 {{'nn.concat' op takes at least 1 operands, found 0}}
  %0 = "nn.concat"() {axis = 0 : i64} : () -> tensor<4xf16>
  return
}

// -----

func.func @gather_indices(%x: tensor<9xf16>) {
  // expected-error@+1 {{'nn.gather' op operand #1 must be ranked tensor of 32-bit signless integer values, but got 'tensor<9xf16>'}}
  %0 = nn.gather %x, %x : (tensor<9xf16>, tensor<9xf16>) -> tensor<9xf16>
  return
}

// -----

func.func @gather_axis(%x: tensor<9xf16>, %i: tensor<2xi32>) {
  // expected-error@+1 {{'nn.gather' op axis is 1, expected 0 to 0: input is tensor<9xf16>}}
  %0 = nn.gather %x, %i axis 1 : (tensor<9xf16>, tensor<2xi32>) -> tensor<9x2xf16>
  return
}

// -----

func.func @gather_rows(%x: tensor<16777217xf16>, %i: tensor<2xi32>) {
  // expected-error@+1 {{'nn.gather' op input is tensor<16777217xf16>, expected at most 16777216 rows along axis 0}}
  %0 = nn.gather %x, %i : (tensor<16777217xf16>, tensor<2xi32>) -> tensor<2xf16>
  return
}

// -----

func.func @gather_result(%x: tensor<9x4xf16>, %i: tensor<2x3xi32>) {
  // expected-error@+1 {{'nn.gather' op result is tensor<2x4xf16>, expected the shape 2x3x4}}
  %0 = nn.gather %x, %i : (tensor<9x4xf16>, tensor<2x3xi32>) -> tensor<2x4xf16>
  return
}

// -----

func.func @integer_constant() {
  // expected-error@+1 {{'nn.constant' op has the value 16777216: integers need a magnitude below 16777216}}
  %0 = nn.constant dense<[1, 16777216]> : tensor<2xi32>
  return
}

// -----

func.func @conv_input(%x: tensor<5x6x4xf16>, %w: tensor<3x2x4x8xf16>) {
  // expected-error@+1 {{'nn.conv2d' op input is tensor<5x6x4xf16>, expected the axes N, H, W, C}}
  %0 = nn.conv2d %x, %w : (tensor<5x6x4xf16>, tensor<3x2x4x8xf16>) -> tensor<3x5x8xf16>
  return
}

// -----

func.func @conv_weight(%x: tensor<1x5x6x4xf16>, %w: tensor<3x2x8xf16>) {
  // expected-error@+1 {{'nn.conv2d' op weight is tensor<3x2x8xf16>, expected the axes KH, KW, C / groups, F}}
  %0 = nn.conv2d %x, %w : (tensor<1x5x6x4xf16>, tensor<3x2x8xf16>) -> tensor<1x3x5x8xf16>
  return
}

// -----

func.func @conv_channels(%x: tensor<1x5x6x4xf16>, %w: tensor<3x2x5x8xf16>) {
  // expected-error@+1 {{'nn.conv2d' op weight is tensor<3x2x5x8xf16>, expected 4 as axis 2: 4 channels in 1 groups}}
  %0 = nn.conv2d %x, %w : (tensor<1x5x6x4xf16>, tensor<3x2x5x8xf16>) -> tensor<1x3x5x8xf16>
  return
}

// -----

func.func @conv_groups(%x: tensor<1x5x6x4xf16>, %w: tensor<3x2x4x8xf16>) {
  // expected-error@+1 {{'nn.conv2d' op groups is 3, expected a divisor of the 4 channels and of the 8 filters}}
  %0 = nn.conv2d %x, %w groups 3 : (tensor<1x5x6x4xf16>, tensor<3x2x4x8xf16>) -> tensor<1x3x5x8xf16>
  return
}

// -----

func.func @conv_strides(%x: tensor<1x5x6x4xf16>, %w: tensor<3x2x4x8xf16>) {
  // expected-error@+1 {{'nn.conv2d' op strides[1] is 0, expected at least 1}}
  %0 = nn.conv2d %x, %w strides [1, 0] : (tensor<1x5x6x4xf16>, tensor<3x2x4x8xf16>) -> tensor<1x3x5x8xf16>
  return
}

// -----

func.func @conv_stride_count(%x: tensor<1x5x6x4xf16>, %w: tensor<3x2x4x8xf16>) {
  // expected-error@+1 {{'nn.conv2d' op strides is [1], expected 2 numbers}}
  %0 = nn.conv2d %x, %w strides [1] : (tensor<1x5x6x4xf16>, tensor<3x2x4x8xf16>) -> tensor<1x3x5x8xf16>
  return
}

// -----

func.func @conv_padding(%x: tensor<1x5x6x4xf16>, %w: tensor<3x2x4x8xf16>) {
  // expected-error@+1 {{'nn.conv2d' op padding[2] is -1, expected 0 to 4294967295}}
  %0 = nn.conv2d %x, %w padding [0, 0, -1, 0] : (tensor<1x5x6x4xf16>, tensor<3x2x4x8xf16>) -> tensor<1x3x5x8xf16>
  return
}

// -----

func.func @conv_dilations(%x: tensor<1x5x6x4xf16>, %w: tensor<3x2x4x8xf16>) {
  // expected-error@+1 {{'nn.conv2d' op dilations[0] is 0, expected at least 1}}
  %0 = nn.conv2d %x, %w dilations [0, 1] : (tensor<1x5x6x4xf16>, tensor<3x2x4x8xf16>) -> tensor<1x3x5x8xf16>
  return
}

// -----

func.func @conv_window(%x: tensor<1x5x6x4xf16>, %w: tensor<3x2x4x8xf16>) {
  // expected-error@+1 {{'nn.conv2d' op input is tensor<1x5x6x4xf16>, expected a height of at least 7 with padding, that of the window}}
  %0 = nn.conv2d %x, %w dilations [3, 1] : (tensor<1x5x6x4xf16>, tensor<3x2x4x8xf16>) -> tensor<1x3x5x8xf16>
  return
}

// -----

func.func @conv_bias(%x: tensor<1x5x6x4xf16>, %w: tensor<3x2x4x8xf16>, %b: tensor<7xf16>) {
  // expected-error@+1 {{'nn.conv2d' op bias is tensor<7xf16>, expected the shape 8}}
  %0 = nn.conv2d %x, %w bias %b : (tensor<1x5x6x4xf16>, tensor<3x2x4x8xf16>, tensor<7xf16>) -> tensor<1x3x5x8xf16>
  return
}

// -----

func.func @conv_result(%x: tensor<1x5x6x4xf16>, %w: tensor<3x2x4x8xf16>) {
  // expected-error@+1 {{'nn.conv2d' op result is tensor<1x3x4x8xf16>, expected the shape 1x3x5x8}}
  %0 = nn.conv2d %x, %w : (tensor<1x5x6x4xf16>, tensor<3x2x4x8xf16>) -> tensor<1x3x4x8xf16>
  return
}

// -----

func.func @key_outside() {
  // expected-error@+1 {{'nn.parameter' op key is "h.{}.w", but {} stands for the iteration of an nn.repeat and there is none around it}}
  %0 = nn.parameter "h.{}.w" : tensor<2xf32>
  return
}

// -----

func.func @count(%x: tensor<2xf16>) {
  // expected-error@+1 {{'nn.repeat' op count is 0, expected at least 1}}
  %0 = nn.repeat 0 (%a = %x) : tensor<2xf16> {
    nn.yield %a : tensor<2xf16>
  }
  return
}

// -----

func.func @negative_count(%x: tensor<2xf16>) {
  // expected-error@+1 {{'nn.repeat' op count is -1, expected 0 to 4294967295}}
  %0 = nn.repeat -1 (%a = %x) : tensor<2xf16> {
    nn.yield %a : tensor<2xf16>
  }
  return
}

// -----

func.func @carries_nothing(%x: tensor<2xf16>) {
  // expected-error@+1 {{'nn.repeat' op takes at least 1 operands, found 0}}
  nn.repeat 2 () : () -> () {
    nn.yield
  }
  return
}

// -----

func.func @yields_too_little(%x: tensor<2xf16>) {
  // expected-error@+1 {{'nn.repeat' op number of values yielded by the body is 0, expected 1, one for each input}}
  %0 = nn.repeat 2 (%a = %x) : tensor<2xf16> {
    nn.yield
  }
  return
}

// -----

func.func @yields_other(%x: tensor<2xf16>) {
  // expected-error@+1 {{'nn.repeat' op yielded 0 is tensor<1xf16>, expected tensor<2xf16> like inputs[0]}}
  %0 = nn.repeat 2 (%a = %x) : tensor<2xf16> {
    %1 = nn.reduce sum %a over [0] keep_dims : (tensor<2xf16>) -> tensor<1xf16>
    nn.yield %1 : tensor<1xf16>
  }
  return
}

// -----

func.func @results_other(%x: tensor<2xf16>) {
  // expected-error@+1 {{'nn.repeat' op has 1 results, found 2}}
  %0:2 = nn.repeat 2 (%a = %x) : (tensor<2xf16>) -> (tensor<2xf16>, tensor<2xf16>) {
    nn.yield %a : tensor<2xf16>
  }
  return
}

// -----

func.func @argument_other(%x: tensor<2xf16>) {
  // expected-error@+1 {{'nn.repeat' op argument 0 is tensor<1xf16>, expected tensor<2xf16> like inputs[0]}}
  %0 = nn.repeat 2 (%a : tensor<1xf16> = %x) : (tensor<2xf16>) -> tensor<2xf16> {
    %1 = nn.broadcast %a : (tensor<1xf16>) -> tensor<2xf16>
    nn.yield %1 : tensor<2xf16>
  }
  return
}

// -----

func.func @types_missing(%x: tensor<2xf16>) {
  // expected-error@+1 {{1 types for 2 carried values}}
  %0:2 = nn.repeat 2 (%a = %x, %b = %x) : tensor<2xf16> {
    nn.yield %a : tensor<2xf16>
  }
  return
}

// -----

func.func @captures(%x: tensor<2xf16>) {
  %0 = nn.repeat 2 (%a = %x) : tensor<2xf16> {
  // expected-error@+1 {{use of undeclared SSA value name}}
    nn.yield %x : tensor<2xf16>
  }
  return
}

// -----

func.func @does_not_end(%x: tensor<2xf16>) {
  %0 = nn.repeat 2 (%a = %x) : tensor<2xf16> {
  // expected-error@+1 {{'func.return' op expects parent op 'func.func'}}
    func.return
  }
  return
}

// -----

func.func @dynamic_carried(%x: tensor<?xf16>) {
  // expected-error@+1 {{'nn.repeat' op inputs[0] is tensor<?xf16>: axis 0 is dynamic, give its extent}}
  %0 = nn.repeat 2 (%a = %x) : tensor<?xf16> {
    nn.yield %a : tensor<?xf16>
  }
  return
}

// -----

func.func @key_in_two(%x: tensor<2xf16>) {
  %0 = nn.repeat 2 (%a = %x) : tensor<2xf16> {
    %1 = nn.repeat 2 (%b = %a) : tensor<2xf16> {
  // expected-error@+1 {{'nn.parameter' op key is "h.{}.w" with 1 {} inside 2 nested nn.repeat, expected 2, outermost first, or none}}
      %w = nn.parameter "h.{}.w" : tensor<2xf16>
      nn.yield %w : tensor<2xf16>
    }
    nn.yield %1 : tensor<2xf16>
  }
  return
}

// -----

func.func @yield() {
  // expected-error@+1 {{'nn.yield' op expects parent op 'nn.repeat'}}
  nn.yield
}

// -----

// expected-note@+2 {{Available dialects: builtin, func, ipu, nn, tile}}
// expected-error@+1 {{Dialect `arith' not found for custom op 'arith.constant'}}
%0 = arith.constant 1 : i32
