// RUN: ipu-opt %s --verify-exchange -o /dev/null 2>&1 | FileCheck %s --check-prefix=GOOD
// RUN: ipu-opt %s --verify-exchange=json --pass-pipeline='builtin.module(ipu.candidate(ipu-phase-exchanges,ipu-place-storage))' -o /dev/null 2>&1 | FileCheck %s --check-prefix=JSON
// RUN: sed 's/point 53/point 54/' %s > %t.mlir
// RUN: not ipu-opt %t.mlir --verify-exchange 2>&1 | FileCheck %s --check-prefix=LATE
// RUN: sed 's/mux 17 off/mux 16 off/' %s > %t.mlir
// RUN: not ipu-opt %t.mlir --verify-exchange 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: sed 's/until 74/until 73/' %s > %t.mlir
// RUN: not ipu-opt %t.mlir --verify-exchange 2>&1 | FileCheck %s --check-prefix=SHORT
// RUN: sed 's/ at 0x5c080$//' %s > %t.mlir
// RUN: not ipu-opt %t.mlir --verify-exchange 2>&1 | FileCheck %s --check-prefix=PLACE
// RUN: not ipu-opt %s --verify-exchange --pass-pipeline='func.func(cse)' 2>&1 | FileCheck %s --check-prefix=ANCHOR

// GOOD: exchanges of @c0: 1 phase(s) checked
// GOOD-NEXT: @gather: 2 row(s), 16 words, 74 events: accepted

// JSON: "exchange": "gather",
// JSON-NEXT: "rows": 2,
// JSON-NEXT: "words": 16,
// JSON-NEXT: "events": 74

// LATE: error: {{.*}}exchange 'gather': the checker refuses the encoded rows: exchange row of tile 0:
// OTHER: error: {{.*}}exchange 'gather': the checker refuses the encoded rows: exchange row of tile 0:
// SHORT: error: {{.*}}exchange 'gather': the checker refuses the encoded rows: exchange row of tile 0: returns at event 73
// PLACE: error: {{.*}}exchange 'gather': buffer 'x' has no address; run ipu-place-storage first
// ANCHOR: error: --verify-exchange needs a --pass-pipeline of builtin.module, or none

#two = #ipu.layout<rows 2 x 2 stride 1, columns 1 x 16 stride 0, order panels>
#first = #ipu.layout<rows 1 x 4 stride 0, columns 1 x 16 stride 0, order panels>
ipu.candidate @c0 {
  tile.program @main on 4 tiles rows 16384 bytes at 0x54000 {
    tile.buffer @x : tensor<4x16xf16, #two> align 32 live 0 to 0 at 0x5c080
    tile.buffer @y : tensor<4x16xf16, #first> align 32 live 0 to 0 at 0x5c000
    tile.exchange @gather {
      copy @x to @y [1+0 x 16 -> 0+64]
    } schedule horizon 74 bound 74 by tile 0 {
      tile 0 until 74 [mux 1 from 1, mux 17 off, point 53 @y+64]
      tile 1 until 45 [send 29 @x+0 x 16 direction 1]
    }
  }
}
