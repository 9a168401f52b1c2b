// RUN: ipu-opt %s --ipu-emit | FileCheck %s
// RUN: rm -f %t.ipuexe && ipu-opt %s --ipu-emit=output=%t.ipuexe -o %t.mlir
// The file is the blob of the operation, and emission is deterministic.
// RUN: ipu-opt %s --ipu-emit=output=%t.again.ipuexe -o /dev/null && cmp %t.ipuexe %t.again.ipuexe
// RUN: FileCheck %s --check-prefix=BLOB < %t.mlir
//
// A file that cannot be written is an error, and nothing is left.
// RUN: not ipu-opt %s --ipu-emit=output=%t.none/x.ipuexe -o %t.out 2>&1 | FileCheck %s --check-prefix=WRITE
// RUN: not ls %t.none

// CHECK: ipu.package @main format "ipuexe" = dense_resource<main> : tensor<{{[0-9]+}}xi8>
// The candidate stays for whoever reads on.
// CHECK: ipu.candidate @c0 estimated 5 scheduled 6 {
// BLOB: main: "0x
// WRITE: error: {{.*}}x.ipuexe: No such file or directory
#x = #ipu.layout<rows 2 x 6 stride 1, columns 1 x 16 stride 0, order rows>
ipu.candidate @c0 estimated 5 scheduled 6 {
  tile.program @main on 2 tiles rows 16384 bytes at 0x54000 {
    tile.buffer @x : tensor<12x16xf16, #x> align 32 live 0 to 0 at 0x5c000
    tile.buffer @y : tensor<12x16xf16, #x> align 32 live 0 to 0 at 0x5c100
    tile.bind @x to input 0
    tile.bind @y to output 0
    tile.compute @relu "relu_f16"(@x, @y) {0 to 1: [4, 0]}
  }
}
