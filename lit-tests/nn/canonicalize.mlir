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

// INLINE-LABEL: func.func @caller(
//  INLINE-NEXT:   nn.parameter "v"
//  INLINE-NEXT:   return
func.func @caller() -> tensor<4xf32> {
  %0 = call @callee() : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @callee() -> tensor<4xf32> {
  %0 = nn.parameter "v" : tensor<4xf32>
  return %0 : tensor<4xf32>
}
