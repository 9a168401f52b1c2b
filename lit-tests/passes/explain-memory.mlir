// RUN: ipu-opt %s --explain-memory --pass-pipeline='builtin.module(ipu.candidate(ipu-place-storage))' -o /dev/null 2>&1 | FileCheck %s --check-prefix=TEXT
// RUN: ipu-opt %s --explain-memory=json --pass-pipeline='builtin.module(ipu.candidate(ipu-place-storage))' -o /dev/null 2>&1 | FileCheck %s --check-prefix=JSON
// RUN: ipu-opt %s --memory-map=1 --pass-pipeline='builtin.module(ipu.candidate(ipu-place-storage))' -o /dev/null 2>&1 | FileCheck %s --check-prefix=MAP
// RUN: not ipu-opt %s --explain-memory=xml 2>&1 | FileCheck %s --check-prefix=XML
// RUN: not ipu-opt %s --memory-map 2>&1 | FileCheck %s --check-prefix=TILE

// XML: error: --explain-memory is text or json, not 'xml'
// TILE: error: --memory-map takes the number of a tile: --memory-map=0

// 624 KiB less 16 KiB each of code, host window and rows, the runtime's state, a record of 9 words
// for the product and 4 for relu, and what the loader cannot reach.
// TEXT: memory of @c0: 638976 bytes a tile, {{[0-9]+}} reserved, {{[0-9]+}} for data
// TEXT-NEXT: 16384 bytes at 0x4c000 code of kernels and supervisor
// TEXT-NEXT: 16384 bytes at 0x50000 window of the host
// TEXT-NEXT: 16384 bytes at 0x54000 exchange rows
// TEXT-NEXT: 1760 bytes at 0x58000 state of the runtime
// TEXT-NEXT: 56 bytes at 0x586e0 argument records
// Both tiles hold the same: one class. @x has 6 rows of 32 bytes a tile and 24 behind them.
// TEXT: 2 tile(s) from 0: peak 1168 bytes (0.2 %) in @gemm, 408 in region 0, 760 in region 1; 4 buffers live
// TEXT-NEXT: 512 bytes at 0x80000 @w steps 0 to 1
// TEXT-NEXT: 248 bytes at 0x80200 @acc steps 0 to 0
// TEXT-NEXT: 216 bytes at 0x5c000 @x steps 0 to 0
// TEXT-NEXT: 192 bytes at {{0x[0-9a-f]+}} @y steps 0 to 1

// JSON: "candidate": "c0"
// JSON: "tile_bytes": 638976
// JSON: "first_tile": 0,
// JSON-NEXT: "tiles": 2,
// JSON-NEXT: "peak_bytes": 1168,
// JSON-NEXT: "step": "gemm",

// MAP: memory of tile 1 of @c0
// MAP: 0x58000 to 0x586e0 1760 bytes state of the runtime
// MAP: 0x5c000 to 0x5c0d8 216 bytes @x, steps 0 to 0
// MAP: 0x80000 to 0x80200 512 bytes @w, steps 0 to 1

#x = #ipu.layout<rows 2 x 6 stride 1, columns 1 x 16 stride 0, order panels>
#w = #ipu.layout<rows 1 x 16 stride 0, columns 1 x 16 stride 0, order weights8 memory interleaved copies 2 stride 1>
#acc = #ipu.layout<rows 2 x 3 stride 1, columns 1 x 16 stride 0, order rows memory interleaved>
ipu.candidate @c0 {
  tile.program @main on 2 tiles {
    tile.buffer @x : tensor<12x16xf16, #x> align 32 tail 24
    tile.buffer @w : tensor<16x16xf16, #w> align 32
    tile.buffer @acc : tensor<6x16xf32, #acc> align 32 tail 56
    tile.buffer @y : tensor<12x16xf16, #x> align 32
    tile.buffer @r : tensor<12x16xf16, #x> align 32
    tile.bind @x to input 0
    tile.bind @w to parameter "w" : tensor<16x16xf16>
    tile.bind @r to output 0
    tile.compute @gemm "gemm_f32"(@x, @w, @acc, @y) {0 to 1: [1, 0, 1, 1, 192, 192]}
    tile.compute @relu "relu_f16"(@y, @r) {0 to 1: [4, 0]}
  }
}
