// RUN: ipu-opt %s --verify-roundtrip | FileCheck %s
// RUN: ipu-opt %s --mlir-print-op-generic | ipu-opt | FileCheck %s

// CHECK: ipu.candidate @c0 {
// CHECK-NEXT: }
ipu.candidate @c0 {
}

// CHECK: ipu.candidate @c1 estimated 1200 scheduled 1310 because ["gemm 4 x 2", "relu fused"] {
// CHECK-NEXT: func.func @main
ipu.candidate @c1 estimated 1200 scheduled 1310 because ["gemm 4 x 2", "relu fused"] {
  func.func @main() {
    return
  }
}

// CHECK: func.func @planned
func.func @planned(%x: tensor<8x16xf16>, %w: tensor<16x16xf16>) {
  // CHECK: nn.matmul %{{.*}}, %{{.*}} {plan = #ipu.plan<gemm grid 4 x 1, partials f32, compute 84 cycles, exchange 210 cycles, best of 12, operands [<rows 4 x 2 stride 1, columns 1 x 16 stride 0, order panels>, <rows 1 x 16 stride 0, columns 1 x 16 stride 0, order weights8 memory interleaved copies 4 stride 1>]>} : (
  %0 = nn.matmul %x, %w {plan = #ipu.plan<gemm grid 4 x 1, partials f32, compute 84 cycles, exchange 210 cycles, best of 12, operands [
    <rows 4 x 2 stride 1, columns 1 x 16 stride 0, order panels>,
    <rows 1 x 16 stride 0, columns 1 x 16 stride 0, order weights8 memory interleaved copies 4 stride 1>
  ]>} : (tensor<8x16xf16>, tensor<16x16xf16>) -> tensor<8x16xf16>
  return
}

// CHECK: ipu.package @main format "ipuexe" = dense<[1, 2, 3]> : tensor<3xi8>
ipu.package @main format "ipuexe" = dense<[1, 2, 3]> : tensor<3xi8>
// CHECK: ipu.package @big format "ipuexe" = dense_resource<blob> : tensor<4xi8>
ipu.package @big format "ipuexe" = dense_resource<blob> : tensor<4xi8>

{-#
  dialect_resources: {
    builtin: { blob: "0x0100000001020304" }
  }
#-}
