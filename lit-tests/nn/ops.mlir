// RUN: ipu-opt %s --verify-roundtrip | FileCheck %s
// RUN: ipu-opt %s --mlir-print-op-generic | ipu-opt | FileCheck %s

// CHECK-LABEL: func.func @mlp
func.func @mlp(%x: tensor<200x64xf16>) -> tensor<200x128xf16> {
  // CHECK: %[[W:.*]] = nn.parameter "fc1.weight" : tensor<64x128xf16>
  %w = nn.parameter "fc1.weight" : tensor<64x128xf16>
  // CHECK: %[[B:.*]] = nn.parameter "fc1.bias" : tensor<128xf16>
  %b = nn.parameter "fc1.bias" : tensor<128xf16>
  // CHECK: %[[P:.*]] = nn.matmul %{{.*}}, %[[W]] : (tensor<200x64xf16>, tensor<64x128xf16>) -> tensor<200x128xf16>
  %0 = nn.matmul %x, %w : (tensor<200x64xf16>, tensor<64x128xf16>) -> tensor<200x128xf16>
  // CHECK: %[[S:.*]] = nn.add %[[P]], %[[B]] : (tensor<200x128xf16>, tensor<128xf16>) -> tensor<200x128xf16>
  %1 = nn.add %0, %b : (tensor<200x128xf16>, tensor<128xf16>) -> tensor<200x128xf16>
  // CHECK: nn.relu %[[S]] : tensor<200x128xf16>
  %2 = nn.relu %1 : tensor<200x128xf16>
  return %2 : tensor<200x128xf16>
}

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%a: tensor<3x1xf32>, %b: tensor<2x1x4xf32>) {
  // CHECK: nn.constant dense<5.000000e-01> : tensor<4x8xf16>
  %c = nn.constant dense<0.5> : tensor<4x8xf16>
  // CHECK: nn.sub %{{.*}} : (tensor<3x1xf32>, tensor<2x1x4xf32>) -> tensor<2x3x4xf32>
  %0 = nn.sub %a, %b : (tensor<3x1xf32>, tensor<2x1x4xf32>) -> tensor<2x3x4xf32>
  // CHECK: nn.mul
  %1 = nn.mul %a, %a : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  // CHECK: nn.div
  %2 = nn.div %a, %a : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  // CHECK: nn.max
  %3 = nn.max %a, %a : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  // CHECK: nn.min
  %4 = nn.min %a, %a : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  return
}

// CHECK-LABEL: func.func @products
func.func @products(%x: tensor<7x200x64xf16>, %w: tensor<64x128xf16>, %v: tensor<7x64x128xf16>, %b: tensor<128xf32>) {
  // CHECK: nn.matmul %{{.*}} : (tensor<7x200x64xf16>, tensor<64x128xf16>) -> tensor<7x200x128xf16>
  %0 = nn.matmul %x, %w : (tensor<7x200x64xf16>, tensor<64x128xf16>) -> tensor<7x200x128xf16>
  // CHECK: nn.matmul %{{.*}} : (tensor<7x200x64xf16>, tensor<7x64x128xf16>) -> tensor<7x200x128xf32>
  %1 = nn.matmul %x, %v : (tensor<7x200x64xf16>, tensor<7x64x128xf16>) -> tensor<7x200x128xf32>
  // CHECK: nn.linear %[[X:.*]], %[[W:.*]] : (
  %2 = nn.linear %x, %w : (tensor<7x200x64xf16>, tensor<64x128xf16>) -> tensor<7x200x128xf16>
  // CHECK: nn.linear %[[X]], %[[W]] bias %[[B:.*]] : (
  %3 = nn.linear %x, %w bias %b : (tensor<7x200x64xf16>, tensor<64x128xf16>, tensor<128xf32>) -> tensor<7x200x128xf16>
  // CHECK: nn.linear %[[X]], %[[W]] bias %[[B]] activation relu : (
  %4 = nn.linear %x, %w bias %b activation relu : (tensor<7x200x64xf16>, tensor<64x128xf16>, tensor<128xf32>) -> tensor<7x200x128xf16>
  // CHECK: nn.linear %[[X]], %[[W]] activation relu : (
  %5 = nn.linear %x, %w {activation = #nn.activation<relu>} : (tensor<7x200x64xf16>, tensor<64x128xf16>) -> tensor<7x200x128xf16>
  return
}

// Encodings may differ between operand and result; shapes are compared without them.
// CHECK-LABEL: func.func @encodings
#rows = #ipu.layout<rows 4 x 50 stride 1, columns 1 x 64 stride 0, order rows>
#panels = #ipu.layout<rows 2 x 100 stride 2, columns 1 x 64 stride 0, order panels memory interleaved copies 2 stride 1 from tile 3>
func.func @encodings(%x: tensor<200x64xf16, #rows>) -> tensor<200x64xf16, #panels> {
  // CHECK: nn.relu %{{.*}} : (tensor<200x64xf16, #ipu.layout<rows 4 x 50 stride 1, columns 1 x 64 stride 0, order rows>>) -> tensor<200x64xf16, #ipu.layout<rows 2 x 100 stride 2, columns 1 x 64 stride 0, order panels memory interleaved copies 2 stride 1 from tile 3>>
  %0 = nn.relu %x : (tensor<200x64xf16, #rows>) -> tensor<200x64xf16, #panels>
  return %0 : tensor<200x64xf16, #panels>
}
