// RUN: ipu-opt %s --pass-pipeline='builtin.module(func.func(canonicalize,cse))' | FileCheck %s
// RUN: ipu-opt %s --inline | FileCheck %s --check-prefix=INLINE

// CHECK-LABEL: func.func @relu_of_relu(
//  CHECK-NEXT:   %[[R:.*]] = nn.relu %{{.*}}
//  CHECK-NEXT:   return %[[R]]
func.func @relu_of_relu(%x: tensor<4xf16>) -> tensor<4xf16> {
  %0 = nn.relu %x : tensor<4xf16>
  %1 = nn.relu %0 : tensor<4xf16>
  return %1 : tensor<4xf16>
}

// CHECK-LABEL: func.func @max_with_zero(
//  CHECK-NEXT:   %[[R:.*]] = nn.relu %{{.*}}
//  CHECK-NEXT:   return %[[R]]
func.func @max_with_zero(%x: tensor<4xf16>) -> tensor<4xf16> {
  %zero = nn.constant dense<0.0> : tensor<f16>
  %0 = nn.max %zero, %x : (tensor<f16>, tensor<4xf16>) -> tensor<4xf16>
  return %0 : tensor<4xf16>
}

// CHECK-LABEL: func.func @times_one(
//  CHECK-SAME:   %[[X:.*]]: tensor<4xf32>
//  CHECK-NEXT:   return %[[X]]
func.func @times_one(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = nn.constant dense<1.0> : tensor<4xf32>
  %0 = nn.mul %one, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.div %0, %one : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// A factor that broadcasts the other operand stays.
// CHECK-LABEL: func.func @one_that_broadcasts(
//       CHECK:   nn.mul
func.func @one_that_broadcasts(%x: tensor<1xf32>) -> tensor<4xf32> {
  %one = nn.constant dense<1.0> : tensor<4xf32>
  %0 = nn.mul %one, %x : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @same_and_dead(
//  CHECK-NEXT:   %[[W:.*]] = nn.parameter "w"
//  CHECK-NEXT:   %[[R:.*]] = nn.add %[[W]], %[[W]]
//  CHECK-NEXT:   return %[[R]]
func.func @same_and_dead() -> tensor<4xf32> {
  %0 = nn.parameter "w" : tensor<4xf32>
  %1 = nn.parameter "w" : tensor<4xf32>
  %2 = nn.parameter "dead" : tensor<4xf32>
  %3 = nn.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}

// CHECK-LABEL: func.func @reshapes(
//  CHECK-SAME:   %[[X:.*]]: tensor<2x6xf16>
//  CHECK-NEXT:   %[[R:.*]] = nn.reshape %[[X]] : (tensor<2x6xf16>) -> tensor<4x3xf16>
//  CHECK-NEXT:   return %[[X]], %[[R]]
func.func @reshapes(%x: tensor<2x6xf16>) -> (tensor<2x6xf16>, tensor<4x3xf16>) {
  %0 = nn.reshape %x : (tensor<2x6xf16>) -> tensor<12xf16>
  %1 = nn.reshape %0 : (tensor<12xf16>) -> tensor<2x6xf16>
  %2 = nn.reshape %1 : (tensor<2x6xf16>) -> tensor<4x3xf16>
  return %1, %2 : tensor<2x6xf16>, tensor<4x3xf16>
}

// Axis i of the second is axis [2, 0, 1][[1, 0, 2][i]] of the argument.
// CHECK-LABEL: func.func @transposes(
//  CHECK-SAME:   %[[X:.*]]: tensor<2x3x4xf16>
//  CHECK-NEXT:   %[[T:.*]] = nn.transpose %[[X]] permutation [0, 2, 1] : (tensor<2x3x4xf16>) -> tensor<2x4x3xf16>
//  CHECK-NEXT:   return %[[T]], %[[X]], %[[X]]
func.func @transposes(%x: tensor<2x3x4xf16>) -> (tensor<2x4x3xf16>, tensor<2x3x4xf16>, tensor<2x3x4xf16>) {
  %0 = nn.transpose %x permutation [2, 0, 1] : (tensor<2x3x4xf16>) -> tensor<4x2x3xf16>
  %1 = nn.transpose %0 permutation [1, 0, 2] : (tensor<4x2x3xf16>) -> tensor<2x4x3xf16>
  %2 = nn.transpose %0 permutation [1, 2, 0] : (tensor<4x2x3xf16>) -> tensor<2x3x4xf16>
  %3 = nn.transpose %x permutation [0, 1, 2] : (tensor<2x3x4xf16>) -> tensor<2x3x4xf16>
  return %1, %2, %3 : tensor<2x4x3xf16>, tensor<2x3x4xf16>, tensor<2x3x4xf16>
}

// A permutation that moves axes of one extent does move elements.
// CHECK-LABEL: func.func @square(
//  CHECK-NEXT:   nn.transpose
func.func @square(%x: tensor<2x2xf16>) -> tensor<2x2xf16> {
  %0 = nn.transpose %x permutation [1, 0] : (tensor<2x2xf16>) -> tensor<2x2xf16>
  return %0 : tensor<2x2xf16>
}

// CHECK-LABEL: func.func @identities(
//  CHECK-SAME:   %[[X:.*]]: tensor<2x3xf16>
//  CHECK-NEXT:   return %[[X]]
func.func @identities(%x: tensor<2x3xf16>) -> tensor<2x3xf16> {
  %0 = nn.broadcast %x : tensor<2x3xf16>
  %1 = nn.cast %0 : tensor<2x3xf16>
  %2 = nn.slice %1 offsets [0, 0] : tensor<2x3xf16>
  %3 = nn.concat %2 axis 1 : (tensor<2x3xf16>) -> tensor<2x3xf16>
  %4 = nn.reshape %3 : tensor<2x3xf16>
  return %4 : tensor<2x3xf16>
}

// Rounding to f16 is no identity.
// CHECK-LABEL: func.func @rounding(
//  CHECK-NEXT:   nn.cast
//  CHECK-NEXT:   nn.cast
func.func @rounding(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = nn.cast %x : (tensor<2xf32>) -> tensor<2xf16>
  %1 = nn.cast %0 : (tensor<2xf16>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// CHECK-LABEL: func.func @heads(
//  CHECK-SAME:   %[[X:.*]]: tensor<2x5x12xf16>, %[[Y:.*]]: tensor<6x5x4xf16>
//  CHECK-NEXT:   return %[[X]], %[[Y]]
func.func @heads(%x: tensor<2x5x12xf16>, %y: tensor<6x5x4xf16>) -> (tensor<2x5x12xf16>, tensor<6x5x4xf16>) {
  %0 = nn.split_heads %x heads 3 : (tensor<2x5x12xf16>) -> tensor<6x5x4xf16>
  %1 = nn.merge_heads %0 heads 3 : (tensor<6x5x4xf16>) -> tensor<2x5x12xf16>
  %2 = nn.merge_heads %y heads 3 : (tensor<6x5x4xf16>) -> tensor<2x5x12xf16>
  %3 = nn.split_heads %2 heads 3 : (tensor<2x5x12xf16>) -> tensor<6x5x4xf16>
  return %1, %3 : tensor<2x5x12xf16>, tensor<6x5x4xf16>
}

// Leading axes that become one, and other heads.
// CHECK-LABEL: func.func @heads_that_stay(
//  CHECK-NEXT:   nn.split_heads
//  CHECK-NEXT:   nn.merge_heads
//  CHECK-NEXT:   nn.split_heads
//  CHECK-NEXT:   nn.merge_heads
//  CHECK-NEXT:   return
func.func @heads_that_stay(%x: tensor<5x12xf16>, %y: tensor<6x5x4xf16>) -> (tensor<1x5x12xf16>, tensor<3x5x8xf16>) {
  %0 = nn.split_heads %x heads 3 : (tensor<5x12xf16>) -> tensor<3x5x4xf16>
  %1 = nn.merge_heads %0 heads 3 : (tensor<3x5x4xf16>) -> tensor<1x5x12xf16>
  %2 = nn.split_heads %y heads 2 : (tensor<6x5x4xf16>) -> tensor<12x5x2xf16>
  %3 = nn.merge_heads %2 heads 4 : (tensor<12x5x2xf16>) -> tensor<3x5x8xf16>
  return %1, %3 : tensor<1x5x12xf16>, tensor<3x5x8xf16>
}

// Also in bodies; a repeat without users vanishes.
// CHECK-LABEL: func.func @bodies(
//  CHECK-NEXT:   nn.repeat 2
//  CHECK-NEXT:   nn.relu
//  CHECK-NEXT:   nn.yield
//  CHECK-NEXT:   }
//  CHECK-NEXT:   return
func.func @bodies(%x: tensor<4xf16>) -> tensor<4xf16> {
  %0 = nn.repeat 2 (%h = %x) : tensor<4xf16> {
    %1 = nn.relu %h : tensor<4xf16>
    %2 = nn.relu %1 : tensor<4xf16>
    nn.yield %2 : tensor<4xf16>
  }
  %3 = nn.repeat 2 (%h = %x) : tensor<4xf16> {
    nn.yield %h : tensor<4xf16>
  }
  return %0 : tensor<4xf16>
}

// INLINE-LABEL: func.func @caller(
//  INLINE-NEXT:   nn.parameter "v"
//  INLINE-NEXT:   return
func.func @caller() -> tensor<4xf32> {
  %0 = call @callee() : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// INLINE-LABEL: func.func @calling_body(
//  INLINE-NEXT:   nn.repeat
//  INLINE-NEXT:     nn.parameter "v"
//  INLINE-NEXT:     nn.yield
func.func @calling_body(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.repeat 2 (%h = %x) : tensor<4xf32> {
    %1 = func.call @callee() : () -> tensor<4xf32>
    nn.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
func.func private @callee() -> tensor<4xf32> {
  %0 = nn.parameter "v" : tensor<4xf32>
  return %0 : tensor<4xf32>
}
