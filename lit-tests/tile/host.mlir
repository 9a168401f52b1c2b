// RUN: ipu-opt %s --split-input-file --verify-diagnostics --verify-roundtrip | FileCheck %s
// RUN: ipu-opt %s --split-input-file --verify-diagnostics --mlir-print-op-generic | ipu-opt --split-input-file --verify-diagnostics | FileCheck %s

// What the host computes before the first run stands in functions of the program; buffers are bound
// to their results.

#rows = #ipu.layout<rows 2 x 2 stride 1, columns 1 x 16 stride 0, order rows>
// CHECK-LABEL: tile.program @main on 2 tiles {
// CHECK-NEXT: tile.host {
// CHECK-NEXT: func.func private @host0() -> (tensor<4x16xf16>, tensor<16x4xf16>) {
// CHECK-NEXT:   %0 = nn.parameter "w" : tensor<16x4xf16>
// CHECK-NEXT:   %1 = nn.transpose %0 permutation [1, 0]
// CHECK-NEXT:   return %1, %0
// CHECK: tile.buffer @w.transpose
// CHECK-NEXT: tile.bind @w.transpose to host @host0 result 0
tile.program @main on 2 tiles {
  tile.host {
    func.func private @host0() -> (tensor<4x16xf16>, tensor<16x4xf16>) {
      %0 = nn.parameter "w" : tensor<16x4xf16>
      %1 = nn.transpose %0 permutation [1, 0] : (tensor<16x4xf16>) -> tensor<4x16xf16>
      return %1, %0 : tensor<4x16xf16>, tensor<16x4xf16>
    }
  }
  tile.buffer @w.transpose : tensor<4x16xf16, #rows> align 32
  tile.bind @w.transpose to host @host0 result 0
}
