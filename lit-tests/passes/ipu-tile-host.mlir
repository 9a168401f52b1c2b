// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu-select-operators{tiles=4 finalists=1},ipu.candidate(ipu-tile))' | FileCheck %s --implicit-check-not=tile.rearrange

// What is computed of parameters alone is computed by the host: functions of the program, whose
// results are bound like parameters. No step moves any of it.
// CHECK-LABEL: tile.program @main
// CHECK-NEXT: tile.host {
func.func @main(%x: tensor<16x32xf16>) -> (tensor<16x24xf16>, tensor<16x24xf16>, tensor<16x48xf16>, tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x32xf16>, tensor<24x32xf16>) {
  // A transposed parameter, by an operation and by the product: one function, one buffer.
  // CHECK-NEXT: func.func private @host0() -> tensor<32x24xf16> {
  // CHECK-NEXT:   %[[W:.*]] = nn.parameter "fc.weight" : tensor<24x32xf16>
  // CHECK-NEXT:   %[[T:.*]] = nn.transpose %[[W]] permutation [1, 0]
  // CHECK-NEXT:   return %[[T]] : tensor<32x24xf16>
  // CHECK-NEXT: }
  %w = nn.parameter "fc.weight" : tensor<24x32xf16>
  %t = nn.transpose %w permutation [1, 0] : (tensor<24x32xf16>) -> tensor<32x24xf16>
  %0 = nn.matmul %x, %t : (tensor<16x32xf16>, tensor<32x24xf16>) -> tensor<16x24xf16>
  %r = nn.relu %x : tensor<16x32xf16>
  %1 = nn.matmul %r, %w transpose_b : (tensor<16x32xf16>, tensor<24x32xf16>) -> tensor<16x24xf16>
  // Two parameters side by side.
  // CHECK-NEXT: func.func private @host1() -> tensor<32x48xf16> {
  // CHECK: nn.concat
  %q = nn.parameter "q.weight" : tensor<32x24xf16>
  %k = nn.parameter "k.weight" : tensor<32x24xf16>
  %qk = nn.concat %q, %k axis 1 : (tensor<32x24xf16>, tensor<32x24xf16>) -> tensor<32x48xf16>
  %2 = nn.matmul %r, %qk : (tensor<16x32xf16>, tensor<32x48xf16>) -> tensor<16x48xf16>
  // A part.
  // CHECK: func.func private @host2() -> tensor<32x16xf16> {
  // CHECK: nn.slice
  %long = nn.parameter "long" : tensor<40x16xf16>
  %part = nn.slice %long offsets [4, 0] : (tensor<40x16xf16>) -> tensor<32x16xf16>
  %3 = nn.matmul %r, %part : (tensor<16x32xf16>, tensor<32x16xf16>) -> tensor<16x16xf16>
  // f32, rounded to f16.
  // CHECK: func.func private @host3() -> tensor<32x16xf16> {
  // CHECK: nn.cast
  %wide = nn.parameter "wide" : tensor<32x16xf32>
  %half = nn.cast %wide : (tensor<32x16xf32>) -> tensor<32x16xf16>
  %4 = nn.matmul %r, %half : (tensor<16x32xf16>, tensor<32x16xf16>) -> tensor<16x16xf16>
  // The sum of two vectors, which broadcasts as it is written.
  // CHECK: func.func private @host4() -> tensor<32xf16> {
  // CHECK: nn.add
  %a = nn.parameter "a" : tensor<32xf16>
  %b = nn.parameter "b" : tensor<32xf16>
  %sum = nn.add %a, %b : (tensor<32xf16>, tensor<32xf16>) -> tensor<32xf16>
  %s = nn.mul %r, %sum : (tensor<16x32xf16>, tensor<32xf16>) -> tensor<16x32xf16>
  // In a shape of another matrix.
  // CHECK: func.func private @host5() -> tensor<16x32xf16> {
  // CHECK: nn.reshape
  %flat = nn.parameter "flat" : tensor<512xf16>
  %grid = nn.reshape %flat : (tensor<512xf16>) -> tensor<16x32xf16>
  %5 = nn.max %s, %grid : (tensor<16x32xf16>, tensor<16x32xf16>) -> tensor<16x32xf16>
  // In a shape of the same matrix: a parameter like any other.
  // CHECK-NOT: func.func
  %cube = nn.parameter "cube" : tensor<2x8x32xf16>
  %flatter = nn.reshape %cube : (tensor<2x8x32xf16>) -> tensor<16x32xf16>
  %6 = nn.min %5, %flatter : (tensor<16x32xf16>, tensor<16x32xf16>) -> tensor<16x32xf16>
  // CHECK: tile.bind @fc.weight.transpose to host @host0 result 0
  // CHECK-DAG: tile.bind @q.weight.concat to host @host1 result 0
  // CHECK-DAG: tile.bind @long.slice to host @host2 result 0
  // CHECK-DAG: tile.bind @wide.cast to host @host3 result 0
  // CHECK-DAG: tile.bind @a.add to host @host4 result 0
  // CHECK-DAG: tile.bind @flat.reshape to host @host5 result 0
  // CHECK-DAG: tile.bind @cube to parameter "cube" : tensor<2x8x32xf16>
  return %0, %1, %2, %3, %4, %6, %w : tensor<16x24xf16>, tensor<16x24xf16>, tensor<16x48xf16>, tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x32xf16>, tensor<24x32xf16>
}
