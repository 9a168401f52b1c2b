// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu-select-operators{tiles=4 finalists=1},ipu.candidate(ipu-tile))' | FileCheck %s

// Lookups and what is computed of i32 are host steps: functions of all arguments, whose results
// arrive before each run like arguments. Tokens and mask themselves reach no tile, %x does.
// CHECK-LABEL: tile.program @main
// CHECK-NEXT: tile.host {
func.func @main(%tokens: tensor<4x3xi32>, %mask: tensor<4x3xi32>, %x: tensor<4x3x16xf16>) -> tensor<4x3x16xf16> {
  // CHECK-NEXT: func.func private @host0(%[[T:.*]]: tensor<4x3xi32>, %{{.*}}: tensor<4x3xi32>, %{{.*}}: tensor<4x3x16xf16>) -> tensor<4x3x16xf16> {
  // CHECK-NEXT:   %[[W:.*]] = nn.parameter "words" : tensor<50x16xf16>
  // CHECK-NEXT:   %[[R:.*]] = nn.gather %[[W]], %[[T]]
  // CHECK-NEXT:   return %[[R]]
  %words = nn.parameter "words" : tensor<50x16xf16>
  %0 = nn.gather %words, %tokens : (tensor<50x16xf16>, tensor<4x3xi32>) -> tensor<4x3x16xf16>
  // CHECK: func.func private @host1(%{{.*}}: tensor<4x3xi32>, %[[M:.*]]: tensor<4x3xi32>, %{{.*}}: tensor<4x3x16xf16>) -> tensor<4x3x1xf16> {
  // CHECK-NEXT: %[[S:.*]] = nn.reshape %[[M]]
  // CHECK-NEXT: %[[F:.*]] = nn.cast %[[S]]
  // CHECK-NEXT: return %[[F]]
  %seen = nn.reshape %mask : (tensor<4x3xi32>) -> tensor<4x3x1xi32>
  %factor = nn.cast %seen : (tensor<4x3x1xi32>) -> tensor<4x3x1xf16>
  // CHECK-NOT: input 0
  // CHECK-NOT: input 1
  // CHECK: tile.bind @arg2 to input 2
  // CHECK: tile.bind @gather to host @host0 result 0
  // CHECK: tile.bind @cast to host @host1 result 0
  %1 = nn.add %0, %x : (tensor<4x3x16xf16>, tensor<4x3x16xf16>) -> tensor<4x3x16xf16>
  %2 = nn.mul %1, %factor : (tensor<4x3x16xf16>, tensor<4x3x1xf16>) -> tensor<4x3x16xf16>
  return %2 : tensor<4x3x16xf16>
}
