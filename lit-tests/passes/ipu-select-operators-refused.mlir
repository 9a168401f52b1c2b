// RUN: ipu-opt %s --split-input-file --verify-diagnostics --ipu-select-operators=tiles=4

// All operators without a lowering are reported in one run, each at its place.
func.func @main(%x: tensor<2x4xf16>, %y: tensor<4x4xf16>, %v: tensor<4xf16>, %z: tensor<3x2x4xf16>)
    -> (tensor<2x4xf16>, tensor<2x4xf16>, tensor<2x4xf16>, tensor<2x4xf16>, tensor<3x2x4xf16>, tensor<2x4xf16>, tensor<2x4xf16>) {
  %p = nn.parameter "p" : tensor<4x4xf16>
  %full = nn.parameter "full" : tensor<2x4xf16>
  %batch = nn.parameter "batch" : tensor<3x4x4xf16>
  // expected-error@+1 {{'nn.matmul' of tensor<2x4xf16> and tensor<4x4xf16> has no lowering: the right operand must be a parameter or constant of rank 2}}
  %0 = nn.matmul %x, %y : (tensor<2x4xf16>, tensor<4x4xf16>) -> tensor<2x4xf16>
  // expected-error@+1 {{'nn.div' has no lowering to tiles: no kernel for it}}
  %1 = nn.div %x, %full : (tensor<2x4xf16>, tensor<2x4xf16>) -> tensor<2x4xf16>
  // expected-error@+1 {{'nn.add' that broadcasts a computed tensor<4xf16> to tensor<2x4xf16> has no lowering: only parameters and constants are broadcast}}
  %2 = nn.add %x, %v : (tensor<2x4xf16>, tensor<4xf16>) -> tensor<2x4xf16>
  // expected-error@+1 {{'nn.linear' with a bias of tensor<2x4xf16> has no lowering: a bias is one row}}
  %3 = nn.linear %x, %p bias %full : (tensor<2x4xf16>, tensor<4x4xf16>, tensor<2x4xf16>) -> tensor<2x4xf16>
  // expected-error@+1 {{'nn.matmul' of tensor<3x2x4xf16> and tensor<3x4x4xf16> has no lowering}}
  %4 = nn.matmul %z, %batch : (tensor<3x2x4xf16>, tensor<3x4x4xf16>) -> tensor<3x2x4xf16>
  // expected-error@+1 {{'nn.linear' with a computed tensor<4xf16> has no lowering: weight and bias must be parameters or constants}}
  %5 = nn.linear %x, %p bias %v : (tensor<2x4xf16>, tensor<4x4xf16>, tensor<4xf16>) -> tensor<2x4xf16>
  // expected-error@+1 {{'nn.linear' with a computed tensor<4x4xf16> has no lowering}}
  %6 = nn.linear %x, %y : (tensor<2x4xf16>, tensor<4x4xf16>) -> tensor<2x4xf16>
  return %0, %1, %2, %3, %4, %5, %6 : tensor<2x4xf16>, tensor<2x4xf16>, tensor<2x4xf16>, tensor<2x4xf16>, tensor<3x2x4xf16>, tensor<2x4xf16>, tensor<2x4xf16>
}

// -----

// Tensors of f32: arguments, operators, returned parameters; other offenders are still reported.
// expected-error@+1 {{argument of type tensor<2x4xf32>: tiles compute in f16, no lowering for f32}}
func.func @main(%x: tensor<2x4xf32>, %y: tensor<2x4xf16>) -> (tensor<2x4xf32>, tensor<4xf32>, tensor<2x4xf16>) {
  %w = nn.parameter "w" : tensor<4x4xf32>
  // expected-error@+1 {{'nn.parameter' on tensor<4xf32> has no lowering: tiles compute in f16, declare the model's tensors as f16}}
  %b = nn.parameter "b" : tensor<4xf32>
  // expected-error@+1 {{'nn.matmul' on tensor<2x4xf32> has no lowering: tiles compute in f16}}
  %0 = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  // expected-error@+1 {{'nn.add' on tensor<2x4xf32> has no lowering}}
  %1 = nn.add %0, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  // expected-error@+1 {{'nn.div' has no lowering to tiles}}
  %2 = nn.div %y, %y : (tensor<2x4xf16>, tensor<2x4xf16>) -> tensor<2x4xf16>
  return %1, %b, %2 : tensor<2x4xf32>, tensor<4xf32>, tensor<2x4xf16>
}

// -----

// A result of f32 from f16 operands must not become f16 silently.
func.func @main(%x: tensor<2x4xf16>) -> tensor<2x4xf32> {
  %w = nn.parameter "w" : tensor<4x4xf16>
  // expected-error@+1 {{'nn.matmul' on tensor<2x4xf32> has no lowering: tiles compute in f16}}
  %0 = nn.matmul %x, %w : (tensor<2x4xf16>, tensor<4x4xf16>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

// An f32 parameter that nobody uses is no reason to refuse.
func.func @main(%x: tensor<2x4xf16>) -> tensor<2x4xf16> {
  %w = nn.parameter "w" : tensor<4x4xf32>
  %0 = nn.relu %x : tensor<2x4xf16>
  return %0 : tensor<2x4xf16>
}

// -----

// expected-error@+1 {{'func.func' op has no body}}
func.func private @main(tensor<2xf16>) -> tensor<2xf16>
