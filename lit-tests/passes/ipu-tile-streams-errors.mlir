// RUN: ipu-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(ipu.candidate(ipu-tile))'

// The weights of a grid of 2 x 2 x 2 tiles, not at home: a part of the rows for each part of the
// contraction, on both row parts.
#x = #ipu.layout<rows 2 x 3 stride 2, columns 2 x 16 stride 1, order panels>
#out = #ipu.layout<rows 4 x 2 stride 1, columns 2 x 16 stride 4, order panels>
ipu.candidate @resident {
  func.func @main(%x: tensor<6x32xf16, #x>) -> tensor<6x32xf16, #out> {
    %w = nn.parameter "w" : tensor<32x32xf16>
    // expected-error@+1 {{'nn.linear' cannot be tiled: the plan has distributed weights, and operands that are not at home in its grid}}
    %0 = nn.linear %x, %w {plan = #ipu.plan<gemm grid 2 x 2 k 2 weights distributed, partials f16, compute 1 cycles, exchange 1 cycles, best of 3, operands [
      <rows 2 x 3 stride 2, columns 2 x 16 stride 1, order panels copies 2 stride 4>,
      <rows 2 x 16 stride 1, columns 2 x 16 stride 4, order weights16 memory interleaved copies 2 stride 2>
    ]>} : (tensor<6x32xf16, #x>, tensor<32x32xf16>) -> tensor<6x32xf16, #out>
    return %0 : tensor<6x32xf16, #out>
  }
}

// -----

// More parts of the contraction than a step has panels.
#x = #ipu.layout<rows 2 x 3 stride 2, columns 4 x 16 stride 4 groups of 2 stride 1, order panels>
#out = #ipu.layout<rows 4 x 2 stride 1, columns 2 x 16 stride 4, order panels>
ipu.candidate @steps {
  func.func @main(%x: tensor<6x32xf16, #x>) -> tensor<6x32xf16, #out> {
    %w = nn.parameter "w" : tensor<32x32xf16>
    // expected-error@+1 {{'nn.linear' cannot be tiled: the plan has 2 parts of the contraction, but its 2 steps have 1 panels of 16 each at most}}
    %0 = nn.linear %x, %w {plan = #ipu.plan<gemm grid 2 x 2 k 2 steps 2 weights distributed, partials f16, compute 1 cycles, exchange 1 cycles, best of 3, operands [
      <rows 2 x 3 stride 2, columns 4 x 16 stride 4 groups of 2 stride 1, order panels>,
      <rows 4 x 16 stride 2 groups of 2 stride 1, columns 2 x 16 stride 4, order weights16>
    ]>} : (tensor<6x32xf16, #x>, tensor<32x32xf16>) -> tensor<6x32xf16, #out>
    return %0 : tensor<6x32xf16, #out>
  }
}
