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
  // expected-error@+1 {{'nn.linear' op bias is tensor<7xf16>, which does not broadcast to the result tensor<2x8xf16>}}
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
  // expected-error@+1 {{element types differ: lhs is tensor<3xf32>, rhs is tensor<3xf16>, result is tensor<3xf32>}}
  %0 = nn.mul %a, %b : (tensor<3xf32>, tensor<3xf16>) -> tensor<3xf32>
  return
}

// -----

func.func @relu(%a: tensor<3xf32>) {
  // expected-error@+1 {{'nn.relu' op types differ: input is tensor<3xf32>, result is tensor<4xf32>}}
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
  // expected-error@+1 {{'nn.parameter' op result #0 must be ranked tensor of 16-bit float or 32-bit float values, but got 'tensor<2xi32>'}}
  %0 = nn.parameter "w" : tensor<2xi32>
  return
}

// -----

func.func @key() {
  // expected-error@+1 {{'nn.parameter' op has an empty key}}
  %0 = nn.parameter "" : tensor<2xf32>
  return
}

// -----

// expected-note@+2 {{Available dialects: builtin, func, ipu, nn, tile}}
// expected-error@+1 {{Dialect `arith' not found for custom op 'arith.constant'}}
%0 = arith.constant 1 : i32
