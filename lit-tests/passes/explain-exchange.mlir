// RUN: ipu-opt %s --explain-exchange --pass-pipeline='builtin.module(ipu.candidate(ipu-phase-exchanges{merge=false}))' -o %t 2>&1 | FileCheck %s --check-prefix=TEXT
// RUN: FileCheck %s --check-prefix=IR < %t
// RUN: ipu-opt %s --explain-exchange=json --pass-pipeline='builtin.module(ipu.candidate(ipu-phase-exchanges{merge=false}))' -o /dev/null 2>&1 | FileCheck %s --check-prefix=JSON
// RUN: ipu-opt %s --explain-exchange --pass-pipeline='builtin.module(ipu.candidate(ipu-phase-exchanges{merge=false},ipu-place-storage))' -o /dev/null 2>&1 | FileCheck %s --check-prefix=PLACED

// Tile 0 takes 16 words: 58 events and two a row behind their port (row 0 here). The other two
// exchanges are the same but for buffers and offsets.
// TEXT: exchanges of @c0: 3 phase(s) of {{[0-9]+}} events, 2 scheduled
// TEXT-NEXT: @gather: horizon 74, bound 74 by receiver of tile 0, gap 0
// TEXT-NEXT: 1 transfer(s) in 1 message(s), 16 words delivered, at {{.*}}explain-exchange.mlir:
// TEXT-NEXT: bounds: port 16 of tile {{[01]}}, receiver 74 of tile 0, route 74 of tile 0, pair_lanes {{8|16}} of tile 0
// TEXT-NEXT: 3 control words, {{[0-9]+}} words of rows, {{[0-9]+}} at most on tile {{[01]}}
// TEXT-NEXT: construction: {{.+}}; search ended by: optimal
// TEXT-NEXT: @spread: horizon [[H:[0-9]+]], bound [[B:[0-9]+]] by
// TEXT-NEXT: 1 transfer(s) in 1 message(s), 24 words delivered
// TEXT: @again: horizon [[H]], bound [[B]] by
// TEXT: schedule of @spread, other addresses

// With addresses there is the bound of memory elements: each tile has its words in one.
// PLACED: @gather: horizon 74, bound 74 by receiver of tile 0, gap 0
// PLACED: bounds: {{.*}}, element 16 of tile 0 at 0x{{[0-9a-f]+}}

// Equal ranges for several tiles have become one transfer.
// IR: copy @p to @q [0+0 x 8 -> 1+0 and 2+0 and 3+0]
// IR: {certificate = {{{.*}}binding = "{{[a-z]+}}", bounds = [{events = 8 : i64, resource = "port", tile = 0 : i64}
// IR: copy @p to @r [0+0 x 8 -> 1+32 and 2+32 and 3+32]
// IR: {certificate = {{{.*}}same_as = "spread", transfers = 1 : i64, words = 24 : i64}}

// JSON: [{
// JSON: "candidate": "c0",
// JSON: "scheduled": 2,
// JSON: "exchange": "gather",
// JSON: "transfers": 1,
// JSON-NEXT: "messages": 1,
// JSON-NEXT: "words": 16,
// JSON-NEXT: "horizon": 74,
// JSON-NEXT: "bound": 74,
// JSON-NEXT: "gap": 0,
// JSON-NEXT: "binding_tile": 0,
// JSON-NEXT: "binding_resource": "receiver",
// JSON: "control_words": 3,
// JSON: "construction":
// JSON-NEXT: "search_ended_by": "optimal",
// JSON-NEXT: "same_as": null
// JSON: "same_as": "spread"

#two = #ipu.layout<rows 2 x 2 stride 1, columns 1 x 16 stride 0, order panels>
#first = #ipu.layout<rows 1 x 4 stride 0, columns 1 x 16 stride 0, order panels>
#four = #ipu.layout<rows 4 x 1 stride 1, columns 1 x 16 stride 0, order panels>
#all = #ipu.layout<rows 1 x 4 stride 0, columns 1 x 16 stride 0, order panels copies 4 stride 1>
ipu.candidate @c0 {
  tile.program @main on 4 tiles {
    tile.buffer @x : tensor<4x16xf16, #two> align 32
    tile.buffer @y : tensor<4x16xf16, #first> align 32
    tile.buffer @p : tensor<4x16xf16, #four> align 32
    tile.buffer @q : tensor<4x16xf16, #all> align 32
    tile.buffer @r : tensor<4x16xf16, #all> align 32
    tile.exchange @gather { copy @x to @y [1+0 x 16 -> 0+64] }
    tile.exchange @spread { copy @p to @q [0+0 x 8 -> 1+0 and 2+0, 0+0 x 8 -> 3+0] }
    tile.exchange @again { copy @p to @r [0+0 x 8 -> 1+32, 0+0 x 8 -> 2+32, 0+0 x 8 -> 3+32] }
  }
}
