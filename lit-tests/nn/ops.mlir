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

// CHECK-LABEL: func.func @transposed
func.func @transposed(%a: tensor<64x200xf16>, %b: tensor<128x64xf16>, %x: tensor<200x64xf16>) {
  // CHECK: nn.matmul %{{.*}}, %{{.*}} transpose_b : (tensor<200x64xf16>, tensor<128x64xf16>) -> tensor<200x128xf16>
  %0 = nn.matmul %x, %b transpose_b : (tensor<200x64xf16>, tensor<128x64xf16>) -> tensor<200x128xf16>
  // CHECK: nn.matmul %{{.*}}, %{{.*}} transpose_a transpose_b : (
  %1 = nn.matmul %a, %b transpose_a transpose_b : (tensor<64x200xf16>, tensor<128x64xf16>) -> tensor<200x128xf32>
  // CHECK: nn.matmul %{{.*}}, %{{.*}} transpose_a : (
  %2 = nn.matmul %a, %a {transpose_a} : (tensor<64x200xf16>, tensor<64x200xf16>) -> tensor<200x200xf16>
  return
}

// CHECK-LABEL: func.func @unary
func.func @unary(%x: tensor<2x3xf16>) {
  // CHECK: nn.gelu %[[X:[^ ]*]] : tensor<2x3xf16>
  %0 = nn.gelu %x approximate none : tensor<2x3xf16>
  // CHECK: nn.gelu %[[X]] approximate tanh : tensor<2x3xf16>
  %1 = nn.gelu %x approximate tanh : tensor<2x3xf16>
  // CHECK: nn.sigmoid %[[X]] : tensor<2x3xf16>
  %2 = nn.sigmoid %x : tensor<2x3xf16>
  // CHECK: nn.tanh %[[X]] : tensor<2x3xf16>
  %3 = nn.tanh %x : tensor<2x3xf16>
  // CHECK: nn.exp %[[X]] : tensor<2x3xf16>
  %4 = nn.exp %x : tensor<2x3xf16>
  // CHECK: nn.rsqrt %[[X]] : tensor<2x3xf16>
  %5 = nn.rsqrt %x : tensor<2x3xf16>
  return
}

// CHECK-LABEL: func.func @axes
func.func @axes(%x: tensor<2x3x4xf16>, %v: tensor<4xf16>) {
  // CHECK: nn.softmax %[[X:.*]] axis 1 : tensor<2x3x4xf16>
  %0 = nn.softmax %x axis 1 : tensor<2x3x4xf16>
  // CHECK: nn.layer_norm %[[X]], %[[V:.*]], %[[V]] : (tensor<2x3x4xf16>, tensor<4xf16>, tensor<4xf16>) -> tensor<2x3x4xf16>
  %1 = nn.layer_norm %x, %v, %v epsilon 1.0e-5 : (tensor<2x3x4xf16>, tensor<4xf16>, tensor<4xf16>) -> tensor<2x3x4xf16>
  // CHECK: nn.layer_norm %[[X]], %[[V]], %[[V]] epsilon 9.99999997E-7 : (
  %2 = nn.layer_norm %x, %v, %v epsilon 1.0e-6 : (tensor<2x3x4xf16>, tensor<4xf16>, tensor<4xf16>) -> tensor<2x3x4xf16>
  // CHECK: nn.rms_norm %[[X]], %[[V]] : (tensor<2x3x4xf16>, tensor<4xf16>) -> tensor<2x3x4xf16>
  %3 = nn.rms_norm %x, %v : (tensor<2x3x4xf16>, tensor<4xf16>) -> tensor<2x3x4xf16>
  // CHECK: nn.rms_norm %[[X]], %[[V]] epsilon 0.000000e+00 : (
  %4 = nn.rms_norm %x, %v epsilon 0.0 : (tensor<2x3x4xf16>, tensor<4xf16>) -> tensor<2x3x4xf16>
  // CHECK: nn.reduce sum %[[X]] over [1] keep_dims : (tensor<2x3x4xf16>) -> tensor<2x1x4xf16>
  %5 = nn.reduce sum %x over [1] keep_dims : (tensor<2x3x4xf16>) -> tensor<2x1x4xf16>
  // CHECK: nn.reduce mean %[[X]] over [0, 2] : (tensor<2x3x4xf16>) -> tensor<3xf16>
  %6 = nn.reduce mean %x over [0, 2] : (tensor<2x3x4xf16>) -> tensor<3xf16>
  // CHECK: nn.reduce max %[[X]] over [0, 1, 2] : (tensor<2x3x4xf16>) -> tensor<f16>
  %7 = nn.reduce max %x over [0, 1, 2] : (tensor<2x3x4xf16>) -> tensor<f16>
  return
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<2x5x12xf16>, %v: tensor<2x5x6xf16>) {
  // CHECK: nn.attention %[[Q:.*]], %[[Q]], %[[V:.*]] scale 5.000000e-01 : (tensor<2x5x12xf16>, tensor<2x5x12xf16>, tensor<2x5x6xf16>) -> tensor<2x5x6xf16>
  %0 = nn.attention %q, %q, %v heads 1 scale 0.5 : (tensor<2x5x12xf16>, tensor<2x5x12xf16>, tensor<2x5x6xf16>) -> tensor<2x5x6xf16>
  // CHECK: nn.attention %[[Q]], %[[Q]], %[[V]] heads 3 scale 5.000000e-01 causal : (
  %1 = nn.attention %q, %q, %v heads 3 scale 0.5 causal : (tensor<2x5x12xf16>, tensor<2x5x12xf16>, tensor<2x5x6xf16>) -> tensor<2x5x6xf16>
  // CHECK: %[[S:.*]] = nn.split_heads %[[Q]] heads 3 : (tensor<2x5x12xf16>) -> tensor<6x5x4xf16>
  %2 = nn.split_heads %q heads 3 : (tensor<2x5x12xf16>) -> tensor<6x5x4xf16>
  // CHECK: nn.merge_heads %[[S]] heads 3 : (tensor<6x5x4xf16>) -> tensor<2x5x12xf16>
  %3 = nn.merge_heads %2 heads 3 : (tensor<6x5x4xf16>) -> tensor<2x5x12xf16>
  return
}

// CHECK-LABEL: func.func @moves
func.func @moves(%x: tensor<2x3x4xf16>, %i: tensor<5xi32>) {
  // CHECK: nn.reshape %[[X:[^ ]*]] : (tensor<2x3x4xf16>) -> tensor<6x4xf16>
  %0 = nn.reshape %x : (tensor<2x3x4xf16>) -> tensor<6x4xf16>
  // CHECK: nn.reshape %[[I:.*]] : (tensor<5xi32>) -> tensor<5x1xi32>
  %1 = nn.reshape %i : (tensor<5xi32>) -> tensor<5x1xi32>
  // CHECK: nn.transpose %[[X]] permutation [2, 0, 1] : (tensor<2x3x4xf16>) -> tensor<4x2x3xf16>
  %2 = nn.transpose %x permutation [2, 0, 1] : (tensor<2x3x4xf16>) -> tensor<4x2x3xf16>
  // CHECK: nn.slice %[[X]] offsets [0, 1, 0] : (tensor<2x3x4xf16>) -> tensor<2x2x4xf16>
  %3 = nn.slice %x offsets [0, 1, 0] : (tensor<2x3x4xf16>) -> tensor<2x2x4xf16>
  // CHECK: nn.slice %[[X]] offsets [0, 1, 0] strides [1, 1, 3] : (tensor<2x3x4xf16>) -> tensor<2x2x2xf16>
  %4 = nn.slice %x offsets [0, 1, 0] strides [1, 1, 3] : (tensor<2x3x4xf16>) -> tensor<2x2x2xf16>
  // CHECK: nn.concat %[[X]], %[[X]] axis 2 : (tensor<2x3x4xf16>, tensor<2x3x4xf16>) -> tensor<2x3x8xf16>
  %5 = nn.concat %x, %x axis 2 : (tensor<2x3x4xf16>, tensor<2x3x4xf16>) -> tensor<2x3x8xf16>
  // CHECK: nn.broadcast %[[X]] : (tensor<2x3x4xf16>) -> tensor<7x2x3x4xf16>
  %6 = nn.broadcast %x : (tensor<2x3x4xf16>) -> tensor<7x2x3x4xf16>
  // CHECK: nn.cast %[[X]] : (tensor<2x3x4xf16>) -> tensor<2x3x4xf32>
  %7 = nn.cast %x : (tensor<2x3x4xf16>) -> tensor<2x3x4xf32>
  // CHECK: nn.cast %[[I]] : (tensor<5xi32>) -> tensor<5xf16>
  %8 = nn.cast %i : (tensor<5xi32>) -> tensor<5xf16>
  // CHECK: nn.gather %[[X]], %[[I]] : (tensor<2x3x4xf16>, tensor<5xi32>) -> tensor<5x3x4xf16>
  %9 = nn.gather %x, %i axis 0 : (tensor<2x3x4xf16>, tensor<5xi32>) -> tensor<5x3x4xf16>
  // CHECK: nn.gather %[[X]], %[[I]] axis 1 : (tensor<2x3x4xf16>, tensor<5xi32>) -> tensor<2x5x4xf16>
  %10 = nn.gather %x, %i axis 1 : (tensor<2x3x4xf16>, tensor<5xi32>) -> tensor<2x5x4xf16>
  // CHECK: nn.constant dense<[0, -1, 16777215]> : tensor<3xi32>
  %11 = nn.constant dense<[0, -1, 16777215]> : tensor<3xi32>
  return
}

// CHECK-LABEL: func.func @convolutions
func.func @convolutions(%x: tensor<1x5x6x4xf16>, %w: tensor<3x2x4x8xf16>, %d: tensor<3x2x1x8xf16>, %b: tensor<8xf16>) {
  // CHECK: nn.conv2d %[[X:.*]], %[[W:.*]] : (tensor<1x5x6x4xf16>, tensor<3x2x4x8xf16>) -> tensor<1x3x5x8xf32>
  %0 = nn.conv2d %x, %w strides [1, 1] padding [0, 0, 0, 0] dilations [1, 1] groups 1 : (tensor<1x5x6x4xf16>, tensor<3x2x4x8xf16>) -> tensor<1x3x5x8xf32>
  // CHECK: nn.conv2d %[[X]], %{{.*}} bias %{{.*}} strides [2, 3] padding [1, 2, 0, 1] dilations [2, 1] groups 4 : (tensor<1x5x6x4xf16>, tensor<3x2x1x8xf16>, tensor<8xf16>) -> tensor<1x2x2x8xf16>
  %1 = nn.conv2d %x, %d bias %b strides [2, 3] padding [1, 2, 0, 1] dilations [2, 1] groups 4 : (tensor<1x5x6x4xf16>, tensor<3x2x1x8xf16>, tensor<8xf16>) -> tensor<1x2x2x8xf16>
  return
}

// CHECK-LABEL: func.func @repeat
// CHECK-SAME: (%[[X:.*]]: tensor<2x2xf16>, %[[Y:.*]]: tensor<3xf32>)
func.func @repeat(%x: tensor<2x2xf16>, %y: tensor<3xf32>) -> (tensor<2x2xf16>, tensor<3xf32>) {
  // CHECK: %[[R:.*]]:2 = nn.repeat 12 (%[[A:.*]] = %[[X]], %[[B:.*]] = %[[Y]]) : tensor<2x2xf16>, tensor<3xf32> {
  // CHECK-NEXT: %[[I:.*]] = nn.repeat 3 (%[[C:.*]] = %[[A]]) : tensor<2x2xf16> {
  // CHECK-NEXT:   %[[W:.*]] = nn.parameter "stage.{}.block.{}.weight" : tensor<2x2xf16>
  // CHECK-NEXT:   %[[P:.*]] = nn.matmul %[[C]], %[[W]]
  // CHECK-NEXT:   nn.yield %[[P]] : tensor<2x2xf16>
  // CHECK-NEXT: }
  // CHECK-NEXT: nn.yield %[[I]], %[[B]] : tensor<2x2xf16>, tensor<3xf32>
  // CHECK-NEXT: }
  // CHECK-NEXT: return %[[R]]#0, %[[R]]#1
  %0:2 = nn.repeat 12 (%a = %x, %b = %y) : tensor<2x2xf16>, tensor<3xf32> {
    %1 = nn.repeat 3 (%c = %a) : tensor<2x2xf16> {
      %w = nn.parameter "stage.{}.block.{}.weight" : tensor<2x2xf16>
      %2 = nn.matmul %c, %w : (tensor<2x2xf16>, tensor<2x2xf16>) -> tensor<2x2xf16>
      nn.yield %2 : tensor<2x2xf16>
    }
    nn.yield %1, %b : tensor<2x2xf16>, tensor<3xf32>
  }
  return %0#0, %0#1 : tensor<2x2xf16>, tensor<3xf32>
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

// CHECK-LABEL: func.func @encodings_of_repeats
func.func @encodings_of_repeats(%x: tensor<200x64xf16, #rows>) -> tensor<200x64xf16> {
  // CHECK: nn.repeat 2 (%[[H:.*]] : tensor<200x64xf16, #ipu.layout<rows 2 x 100 {{.*}}>> = %{{.*}}) : (tensor<200x64xf16, #ipu.layout<rows 4 x 50 {{.*}}>>) -> tensor<200x64xf16> {
  // CHECK-NEXT: nn.yield %[[H]] : tensor<200x64xf16, #ipu.layout<rows 2 x 100 {{.*}}>>
  %0 = nn.repeat 2 (%h : tensor<200x64xf16, #panels> = %x) : (tensor<200x64xf16, #rows>) -> tensor<200x64xf16> {
    nn.yield %h : tensor<200x64xf16, #panels>
  }
  return %0 : tensor<200x64xf16>
}
