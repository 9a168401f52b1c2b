// The digits classifier: 8x8 images, two hidden layers with relu, ten logits.
// Operands are f16, sums are f32; the weights are f32 in the file and rounded to nearest even.
func.func @main(%images: tensor<200x64xf16>) -> tensor<200x10xf16> {
  %w1 = nn.parameter "fc1.weight" : tensor<64x128xf16>
  %b1 = nn.parameter "fc1.bias" : tensor<128xf16>
  %0 = nn.matmul %images, %w1 : (tensor<200x64xf16>, tensor<64x128xf16>) -> tensor<200x128xf16>
  %1 = nn.add %0, %b1 : (tensor<200x128xf16>, tensor<128xf16>) -> tensor<200x128xf16>
  %2 = nn.relu %1 : tensor<200x128xf16>

  %w2 = nn.parameter "fc2.weight" : tensor<128x96xf16>
  %b2 = nn.parameter "fc2.bias" : tensor<96xf16>
  %3 = nn.matmul %2, %w2 : (tensor<200x128xf16>, tensor<128x96xf16>) -> tensor<200x96xf16>
  %4 = nn.add %3, %b2 : (tensor<200x96xf16>, tensor<96xf16>) -> tensor<200x96xf16>
  %5 = nn.relu %4 : tensor<200x96xf16>

  %w3 = nn.parameter "head.weight" : tensor<96x10xf16>
  %b3 = nn.parameter "head.bias" : tensor<10xf16>
  %6 = nn.matmul %5, %w3 : (tensor<200x96xf16>, tensor<96x10xf16>) -> tensor<200x10xf16>
  %7 = nn.add %6, %b3 : (tensor<200x10xf16>, tensor<10xf16>) -> tensor<200x10xf16>
  return %7 : tensor<200x10xf16>
}
