// RUN: ipu-opt %s --split-input-file --verify-diagnostics --ipu-select-operators=tiles=4

// All operators without a lowering are reported in one run, each at its place.
func.func @main(%x: tensor<2x4xf16>, %i: tensor<2xi32>, %p: tensor<1x5x5x4xf16>)
    -> (tensor<2x4xf16>, tensor<2x4xf16>, tensor<1x4x4x8xf16>, tensor<1x2x2x8xf16>, tensor<1x3x3x8xf16>, tensor<2x4xf16>, tensor<2x4xf16>, tensor<2x4xf16>) {
  %w = nn.parameter "w" : tensor<4x4xf16>
  %full = nn.parameter "full" : tensor<2x4xf16>
  %k = nn.parameter "k" : tensor<2x2x4x8xf16>
  %y = nn.relu %x : tensor<2x4xf16>
  // expected-error@+1 {{'nn.gather' on computed operands has no lowering to tiles: the host looks up what it has, arguments and parameters by indices of an argument}}
  %0 = nn.gather %y, %i : (tensor<2x4xf16>, tensor<2xi32>) -> tensor<2x4xf16>
  %1 = nn.repeat 3 (%a = %x) : tensor<2x4xf16> {
    %s = nn.relu %a : tensor<2x4xf16>
    nn.yield %s : tensor<2x4xf16>
  }
  // Patches that overlap, that leave a pixel out, with padding.
  // expected-error@+1 {{'nn.conv2d' of tensor<1x5x5x4xf16> by tensor<2x2x4x8xf16> has no lowering: only convolutions whose patches do not overlap}}
  %2 = nn.conv2d %p, %k strides [1, 1] padding [0, 0, 0, 0] dilations [1, 1] groups 1 : (tensor<1x5x5x4xf16>, tensor<2x2x4x8xf16>) -> tensor<1x4x4x8xf16>
  // expected-error@+1 {{'nn.conv2d' of tensor<1x5x5x4xf16> by tensor<2x2x4x8xf16> has no lowering}}
  %3 = nn.conv2d %p, %k strides [2, 2] padding [0, 0, 0, 0] dilations [1, 1] groups 1 : (tensor<1x5x5x4xf16>, tensor<2x2x4x8xf16>) -> tensor<1x2x2x8xf16>
  // expected-error@+1 {{'nn.conv2d' of tensor<1x5x5x4xf16> by tensor<2x2x4x8xf16> has no lowering}}
  %4 = nn.conv2d %p, %k strides [2, 2] padding [1, 0, 1, 0] dilations [1, 1] groups 1 : (tensor<1x5x5x4xf16>, tensor<2x2x4x8xf16>) -> tensor<1x3x3x8xf16>
  // expected-error@+1 {{'nn.linear' with a bias of tensor<2x4xf16> has no lowering: a bias is one row, add other tensors by 'nn.add'}}
  %5 = nn.linear %x, %w bias %full : (tensor<2x4xf16>, tensor<4x4xf16>, tensor<2x4xf16>) -> tensor<2x4xf16>
  // These have one: a product and a quotient of what is computed.
  %6 = nn.matmul %x, %w transpose_b : (tensor<2x4xf16>, tensor<4x4xf16>) -> tensor<2x4xf16>
  %7 = nn.div %6, %x : (tensor<2x4xf16>, tensor<2x4xf16>) -> tensor<2x4xf16>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<2x4xf16>, tensor<2x4xf16>, tensor<1x4x4x8xf16>, tensor<1x2x2x8xf16>, tensor<1x3x3x8xf16>, tensor<2x4xf16>, tensor<2x4xf16>, tensor<2x4xf16>
}

// -----

// A million operators written out.
func.func @main(%x: tensor<2x4xf16>) -> tensor<2x4xf16> {
  // expected-error@+1 {{the iterations of 'nn.repeat' have more than 100000 operators written out}}
  %0 = nn.repeat 1000000 (%a = %x) : tensor<2x4xf16> {
    %s = nn.relu %a : tensor<2x4xf16>
    nn.yield %s : tensor<2x4xf16>
  }
  return %0 : tensor<2x4xf16>
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

// -----

// What only the host reads may be larger than all tiles; what it holds at once is bounded.
func.func @main(%x: tensor<2x4xf16>) -> (tensor<2x4xf16>, tensor<2x4xf16>) {
  %large = nn.parameter "large" : tensor<40000x40000xf16>
  %some = nn.slice %large offsets [7, 9] : (tensor<40000x40000xf16>) -> tensor<2x4xf16>
  %0 = nn.add %x, %some : (tensor<2x4xf16>, tensor<2x4xf16>) -> tensor<2x4xf16>
  %turned = nn.transpose %large permutation [1, 0] : (tensor<40000x40000xf16>) -> tensor<40000x40000xf16>
  // expected-error@+1 {{'nn.slice' is computed by the host of tensors of 3200000008 elements, it holds 2147483648: give parameters as the model reads them}}
  %other = nn.slice %turned offsets [7, 9] : (tensor<40000x40000xf16>) -> tensor<2x4xf16>
  %1 = nn.add %x, %other : (tensor<2x4xf16>, tensor<2x4xf16>) -> tensor<2x4xf16>
  return %0, %1 : tensor<2x4xf16>, tensor<2x4xf16>
}
