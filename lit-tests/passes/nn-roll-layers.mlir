// RUN: ipu-opt %s --nn-roll-layers | FileCheck %s
// RUN: ipu-opt %s --nn-roll-layers --nn-unroll-layers | FileCheck %s --check-prefix=BACK

// Three equal layers whose parameters are numbered from 0 on. The mask that all of them read is
// carried along.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf16>, %[[M:.*]]: tensor<4x8xf16>)
// CHECK-NEXT: %[[R:.*]]:2 = nn.repeat 3 (%[[A:.*]] = %[[X]], %[[N:.*]] = %[[M]]) : tensor<4x8xf16>, tensor<4x8xf16> {
// CHECK-NEXT:   %[[W:.*]] = nn.parameter "layers.{}.fc1.weight" : tensor<8x8xf16>
// CHECK-NEXT:   %[[P:.*]] = nn.matmul %[[A]], %[[W]]
// CHECK-NEXT:   %[[Q:.*]] = nn.relu %[[P]]
// CHECK-NEXT:   %[[S:.*]] = nn.add %[[Q]], %[[N]]
// CHECK-NEXT:   nn.yield %[[S]], %[[N]]
// CHECK-NEXT: }
// CHECK-NEXT: %[[E:.*]] = nn.exp %[[R]]#0
// CHECK-NEXT: return %[[E]]
// BACK-LABEL: func.func @main
// BACK-COUNT-3: nn.matmul
// BACK: nn.exp
func.func @main(%x: tensor<4x8xf16>, %mask: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %w0 = nn.parameter "layers.0.fc1.weight" : tensor<8x8xf16>
  %0 = nn.matmul %x, %w0 : (tensor<4x8xf16>, tensor<8x8xf16>) -> tensor<4x8xf16>
  %1 = nn.relu %0 : tensor<4x8xf16>
  %2 = nn.add %1, %mask : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
  %w1 = nn.parameter "layers.1.fc1.weight" : tensor<8x8xf16>
  %3 = nn.matmul %2, %w1 : (tensor<4x8xf16>, tensor<8x8xf16>) -> tensor<4x8xf16>
  %4 = nn.relu %3 : tensor<4x8xf16>
  %5 = nn.add %4, %mask : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
  %w2 = nn.parameter "layers.2.fc1.weight" : tensor<8x8xf16>
  %6 = nn.matmul %5, %w2 : (tensor<4x8xf16>, tensor<8x8xf16>) -> tensor<4x8xf16>
  %7 = nn.relu %6 : tensor<4x8xf16>
  %8 = nn.add %7, %mask : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
  %9 = nn.exp %8 : tensor<4x8xf16>
  return %9 : tensor<4x8xf16>
}

// Parameters of other names stay layers of their own.
// CHECK-LABEL: func.func @other
// CHECK-NOT: nn.repeat
func.func @other(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %w0 = nn.parameter "first" : tensor<8x8xf16>
  %0 = nn.matmul %x, %w0 : (tensor<4x8xf16>, tensor<8x8xf16>) -> tensor<4x8xf16>
  %w1 = nn.parameter "second" : tensor<8x8xf16>
  %1 = nn.matmul %0, %w1 : (tensor<4x8xf16>, tensor<8x8xf16>) -> tensor<4x8xf16>
  return %1 : tensor<4x8xf16>
}
