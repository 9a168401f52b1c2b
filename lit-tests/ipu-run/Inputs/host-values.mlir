// Values that the host knows before the run, in every way that they are computed and read.
func.func @main(%x: tensor<8x32xf16>) -> (tensor<8x24xf16>, tensor<8x48xf16>, tensor<8x16xf16>, tensor<8x32xf16>, tensor<8x24xf16>, tensor<32x24xf16>) {
  // A transposed weight, by an operation and by the product itself: one value.
  %w = nn.parameter "fc.weight" : tensor<24x32xf16>
  %t = nn.transpose %w permutation [1, 0] : (tensor<24x32xf16>) -> tensor<32x24xf16>
  %0 = nn.matmul %x, %t : (tensor<8x32xf16>, tensor<32x24xf16>) -> tensor<8x24xf16>
  %1 = nn.matmul %x, %w transpose_b : (tensor<8x32xf16>, tensor<24x32xf16>) -> tensor<8x24xf16>
  // Merged weights.
  %q = nn.parameter "q.weight" : tensor<32x24xf16>
  %k = nn.parameter "k.weight" : tensor<32x24xf16>
  %qk = nn.concat %q, %k axis 1 : (tensor<32x24xf16>, tensor<32x24xf16>) -> tensor<32x48xf16>
  %2 = nn.matmul %x, %qk : (tensor<8x32xf16>, tensor<32x48xf16>) -> tensor<8x48xf16>
  // A part of a weight in f32.
  %wide = nn.parameter "wide" : tensor<40x16xf32>
  %part = nn.slice %wide offsets [4, 0] : (tensor<40x16xf32>) -> tensor<32x16xf32>
  %half = nn.cast %part : (tensor<32x16xf32>) -> tensor<32x16xf16>
  %3 = nn.matmul %x, %half : (tensor<8x32xf16>, tensor<32x16xf16>) -> tensor<8x16xf16>
  // A sum, and a parameter in a shape of another matrix.
  %a = nn.parameter "a" : tensor<32xf16>
  %b = nn.parameter "b" : tensor<32xf16>
  %sum = nn.add %a, %b : (tensor<32xf16>, tensor<32xf16>) -> tensor<32xf16>
  %4 = nn.add %x, %sum : (tensor<8x32xf16>, tensor<32xf16>) -> tensor<8x32xf16>
  %flat = nn.parameter "flat" : tensor<256xf16>
  %grid = nn.reshape %flat : (tensor<256xf16>) -> tensor<8x32xf16>
  %5 = nn.mul %4, %grid : (tensor<8x32xf16>, tensor<8x32xf16>) -> tensor<8x32xf16>
  // A result that is one itself.
  return %0, %2, %3, %5, %1, %t : tensor<8x24xf16>, tensor<8x48xf16>, tensor<8x16xf16>, tensor<8x32xf16>, tensor<8x24xf16>, tensor<32x24xf16>
}
