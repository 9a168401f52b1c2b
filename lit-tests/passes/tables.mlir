// Tables behind the words of argument records, from the text to the chip.
//
// REQUIRES: ipu-run
// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu.candidate(ipu-place-storage),ipu-emit{output=%t.ipuexe})' -o %t.mlir
// RUN: FileCheck %s --check-prefix=PLACED < %t.mlir
// DEFINE: %{input} = "--input=4x16xf16=0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63"
// RUN: ipu-run %t.ipuexe --quiet --output=- %{input} | FileCheck %s
//
// Long records move the data: the same program with a long table that nobody reads.
// RUN: python3 -c "import sys; print(sys.stdin.read().replace('9, 9, 9]', '9, ' * 5000 + '9]'), end='')" < %s > %t.long.mlir
// RUN: ipu-opt %t.long.mlir --pass-pipeline='builtin.module(ipu.candidate(ipu-place-storage),ipu-emit{output=%t.long.ipuexe})' -o %t.long.out
// RUN: FileCheck %s --check-prefix=LONG < %t.long.out
// RUN: ipu-run %t.long.ipuexe --quiet --output=- %{input} | FileCheck %s

// PLACED: tile.buffer @x : {{.*}} at 0x5c000
// PLACED: tile.compute @runs "copy_runs"(@x, @y) {
// PLACED-NEXT: 0: [2, 22] table [0, 32, 8, 32, 0, 8],
// PLACED-NEXT: 1: [1, 30] table [0, 0, 16, 0, 0, 0]
// LONG: tile.buffer @x : {{.*}} at 0x60000
// CHECK: [31 30 29 28 27 26 25 24 23 22 21 20 19 18 17 16]
// CHECK-SAME: [0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0]
// CHECK-SAME: [32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47]
// CHECK-SAME: [0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0]
#x = #ipu.layout<rows 2 x 2 stride 1, columns 1 x 16 stride 0, order rows>
ipu.candidate @c0 {
  tile.program @main on 2 tiles {
    tile.buffer @x : tensor<4x16xf16, #x> align 32
    tile.buffer @y : tensor<4x16xf16, #x> align 32
    tile.buffer @z : tensor<4x16xf16, #x> align 32
    tile.bind @x to input 0
    tile.bind @z to output 0
    // The rows change places; as it is.
    tile.compute @runs "copy_runs"(@x, @y) {0: [2, 22] table [0, 32, 8, 32, 0, 8], 1: [1, 30] table [0, 0, 16, 0, 0, 0]}
    tile.compute @clear "fill_zero"(@z) {0 to 1: [1, 2]}
    // The first row: from its end; as it is.
    tile.compute @gather "gather_f16"(@y, @z) {0: [8, 0] table [917519, 786445, 655371, 524297, 393223, 262149, 131075, 1], 1: [8, 0] table [65536, 196610, 327684, 458758, 589832, 720906, 851980, 983054]}
    tile.compute @nothing "copy_runs"(@x, @y) {0 to 1: [0, 0] table [9, 9, 9]}
  }
}
