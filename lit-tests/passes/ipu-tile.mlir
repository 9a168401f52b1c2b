// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu.candidate(ipu-tile))' | FileCheck %s

// 4 rows, 20 deep, 16 wide on 2 tiles of 2 rows each. The argument is in rows, the product wants
// panels: one rearrangement, whatever the number of users.
#rows = #ipu.layout<rows 2 x 2 stride 1, columns 1 x 20 stride 0, order rows>
#out = #ipu.layout<rows 2 x 2 stride 1, columns 1 x 16 stride 0, order panels>

// CHECK-LABEL: ipu.candidate @product estimated 7 {
// CHECK-NEXT: tile.program @main on 2 tiles {
ipu.candidate @product estimated 7 {
  func.func @main(%x: tensor<4x20xf16, #rows>) -> (tensor<4x16xf16, #out>, tensor<4x16xf16, #out>) {
    %w = nn.parameter "enc.fc.weight" : tensor<20x16xf16>
    %v = nn.parameter "other" : tensor<20x16xf16>
    %b = nn.parameter "b" : tensor<16xf16>
    %0 = nn.linear %x, %w bias %b activation relu {plan = #ipu.plan<gemm grid 2 x 1, partials f32, compute 1 cycles, exchange 1 cycles, best of 3, operands [
      <rows 2 x 2 stride 1, columns 1 x 20 stride 0, order panels>,
      <rows 1 x 20 stride 0, columns 1 x 16 stride 0, order weights8 memory interleaved copies 2 stride 1>,
      <rows 1 x 1 stride 0, columns 1 x 16 stride 0, order rows copies 2 stride 1>
    ]>} : (tensor<4x20xf16, #rows>, tensor<20x16xf16>, tensor<16xf16>) -> tensor<4x16xf16, #out>
    %1 = nn.linear %x, %v {plan = #ipu.plan<gemm grid 2 x 1, partials f16, compute 1 cycles, exchange 1 cycles, best of 3, operands [
      <rows 2 x 2 stride 1, columns 1 x 20 stride 0, order panels>,
      <rows 1 x 20 stride 0, columns 1 x 16 stride 0, order weights16 memory interleaved copies 2 stride 1>
    ]>} : (tensor<4x20xf16, #rows>, tensor<20x16xf16>) -> tensor<4x16xf16, #out>
    return %0, %1 : tensor<4x16xf16, #out>, tensor<4x16xf16, #out>
  }
}
// CHECK-NEXT: tile.buffer @arg0 : tensor<4x20xf16, {{.*}} order rows>> align 32
// Kernels read up to 24 bytes beyond the left operand.
// CHECK-NEXT: tile.buffer @arg0.panels : tensor<4x20xf16, {{.*}} order panels>> align 32 tail 24
// CHECK-NEXT: tile.buffer @enc.fc.weight : tensor<20x16xf16, {{.*}} order weights8 memory interleaved copies 2 stride 1>> align 32
// The bias enters the sums and has their precision.
// CHECK-NEXT: tile.buffer @b : tensor<16xf32,
// CHECK-NEXT: tile.buffer @enc.fc : tensor<4x16xf16,
// Sums: 8 columns a row and pass, so 2 rows a line of 16: one line a tile.
// CHECK-NEXT: tile.buffer @enc.fc.acc : tensor<2x16xf32, #ipu.layout<rows 2 x 1 stride 1, columns 1 x 16 stride 0, order rows memory interleaved>> align 32 tail 56
// CHECK-NEXT: tile.buffer @other : tensor<20x16xf16, {{.*}} order weights16 memory interleaved
// Sums in f16 stay in the result, which must then be interleaved.
// CHECK-NEXT: tile.buffer @linear : tensor<4x16xf16, {{.*}} order panels memory interleaved>> align 32 tail 56
// CHECK-NEXT: tile.bind @arg0 to input 0
// CHECK-NEXT: tile.bind @enc.fc.weight to parameter "enc.fc.weight" : tensor<20x16xf16>
// CHECK-NEXT: tile.bind @b to parameter "b" : tensor<16xf16>
// CHECK-NEXT: tile.bind @other to parameter "other" : tensor<20x16xf16>
// Results leave where they are, in the order they have.
// CHECK-NEXT: tile.bind @enc.fc to output 0
// CHECK-NEXT: tile.bind @linear to output 1
// CHECK-NEXT: tile.rearrange @move.arg0 from @arg0 to @arg0.panels
// 2 rows are 0 for each of 6 workers and 2 more; 20 deep is 2 blocks of 16; a panel of 2 rows has
// 64 bytes.
// CHECK-NEXT: tile.compute @enc.fc.gemm "gemm_f32_bias_relu"(@arg0.panels, @enc.fc.weight, @b, @enc.fc.acc, @enc.fc) {0 to 1: [0, 2, 2, 1, 64, 64]}
// CHECK-NEXT: tile.compute @linear.gemm "gemm_f16"(@arg0.panels, @other, @linear) {0 to 1: [0, 2, 2, 1, 64, 64]}

// Elementwise on 3 tiles of 2, 2 and 1 rows: each works on its whole shard, 2 rows of 16 columns,
// 64 bytes, 8 atoms of 8 bytes: one for each worker and 2 more.
#third = #ipu.layout<rows 3 x 2 stride 1, columns 1 x 16 stride 0, order panels>
// CHECK-LABEL: ipu.candidate @elementwise {
// CHECK-NEXT: tile.program @f on 3 tiles {
// CHECK: tile.bind @scale to parameter "scale" : tensor<1x16xf16>
// CHECK: tile.bind @constant to constant dense<2.000000e+00> : tensor<f16>
// CHECK: tile.bind @mul_1 to output 0
// CHECK-NEXT: tile.bind @scale_1 to parameter "scale" : tensor<1x16xf16>
// CHECK-NEXT: tile.bind @scale_1 to output 1
// CHECK-NEXT: tile.compute @mul.step "mul_f16"(@arg0, @scale, @mul) {0 to 2: [1, 2]}
// CHECK-NEXT: tile.compute @max.step "max_f16"(@constant, @mul, @max) {0 to 2: [1, 2]}
// CHECK-NEXT: tile.compute @mul_1.step "mul_f16"(@max, @max, @mul_1) {0 to 2: [1, 2]}
ipu.candidate @elementwise {
  func.func @f(%x: tensor<5x16xf16, #third>) -> (tensor<5x16xf16, #third>, tensor<1x16xf16>) {
    %s = nn.parameter "scale" : tensor<1x16xf16>
    %c = nn.constant dense<2.0> : tensor<f16>
    %0 = nn.mul %x, %s {plan = #ipu.plan<elementwise grid 3 x 1, partials f16, compute 1 cycles, exchange 0 cycles, best of 1, operands [<rows 3 x 2 stride 1, columns 1 x 16 stride 0, order panels>, <rows 3 x 2 stride 1, columns 1 x 16 stride 0, order panels>]>} : (tensor<5x16xf16, #third>, tensor<1x16xf16>) -> tensor<5x16xf16, #third>
    %1 = nn.max %c, %0 {plan = #ipu.plan<elementwise grid 3 x 1, partials f16, compute 1 cycles, exchange 0 cycles, best of 1, operands [<rows 3 x 2 stride 1, columns 1 x 16 stride 0, order panels>, <rows 3 x 2 stride 1, columns 1 x 16 stride 0, order panels>]>} : (tensor<f16>, tensor<5x16xf16, #third>) -> tensor<5x16xf16, #third>
    %2 = nn.mul %1, %1 {plan = #ipu.plan<elementwise grid 3 x 1, partials f16, compute 1 cycles, exchange 0 cycles, best of 1, operands [<rows 3 x 2 stride 1, columns 1 x 16 stride 0, order panels>, <rows 3 x 2 stride 1, columns 1 x 16 stride 0, order panels>]>} : (tensor<5x16xf16, #third>, tensor<5x16xf16, #third>) -> tensor<5x16xf16, #third>
    // A returned parameter is bound once more, in rows and in its own type.
    return %2, %s : tensor<5x16xf16, #third>, tensor<1x16xf16>
  }
}
