// RUN: ipu-opt %s --split-input-file --ipu-pick-finalist | FileCheck %s

// The relu of 4 atoms for each worker takes longer than that of 2, whatever the search estimated;
// the candidate that does not fit is no choice although it is the fastest. Steps of 138 cycles and
// 12 for each atom of a worker: 138 + 24 = 162 in the one that is kept, and the call.
// CHECK-NOT: ipu.candidate @slow
// Both orders are told, and that no pair stands in the same order.
// CHECK: ipu.candidate @fast estimated 900 scheduled [[F:16[2-9]]] because ["why", "estimated slow 10 < fast 900; scheduled fast [[F]] < slow {{[0-9]+}}; Kendall's tau -1.00"] {
// CHECK-NOT: ipu.candidate
#x = #ipu.layout<rows 1 x 12 stride 0, columns 1 x 16 stride 0, order rows>
ipu.candidate @slow estimated 10 {
  tile.program @main on 1 tiles {
    tile.buffer @x : tensor<12x16xf16, #x> align 32
    tile.compute @relu "relu_f16"(@x, @x) {0: [4, 0]}
  }
}
ipu.candidate @fast estimated 900 because ["why"] {
  tile.program @main on 1 tiles {
    tile.buffer @x : tensor<12x16xf16, #x> align 32
    tile.compute @relu "relu_f16"(@x, @x) {0: [2, 0]}
  }
}
ipu.candidate @large attributes {infeasible = "too large"} {
  tile.program @main on 1 tiles {
    tile.buffer @x : tensor<12x16xf16, #x> align 32
    tile.compute @relu "relu_f16"(@x, @x) {0: [1, 0]}
  }
}

// -----

// The first of equals.
// CHECK: ipu.candidate @first scheduled
// CHECK-NOT: ipu.candidate @second
#x = #ipu.layout<rows 1 x 12 stride 0, columns 1 x 16 stride 0, order rows>
ipu.candidate @first {
  tile.program @main on 1 tiles {
    tile.buffer @x : tensor<12x16xf16, #x> align 32
    tile.compute @relu "relu_f16"(@x, @x) {0: [4, 0]}
  }
}
ipu.candidate @second {
  tile.program @main on 1 tiles {
    tile.buffer @x : tensor<12x16xf16, #x> align 32
    tile.compute @relu "relu_f16"(@x, @x) {0: [4, 0]}
  }
}

// -----

// A tile without a step does not wait: two tiles of 2 atoms are as fast as one, an exchange that
// all must enter costs its sync of 150 and its row.
// CHECK: ipu.candidate @local scheduled 16{{[2-9]}} {
// CHECK-NOT: ipu.candidate @remote
#x = #ipu.layout<rows 2 x 12 stride 1, columns 1 x 16 stride 0, order rows>
ipu.candidate @remote {
  tile.program @main on 2 tiles {
    tile.buffer @x : tensor<24x16xf16, #x> align 32
    tile.buffer @y : tensor<24x16xf16, #x> align 32
    tile.exchange @e {
      copy @x to @y [0+0 x 8 -> 1+0]
    } schedule horizon 66 bound 66 by tile 0 {
      tile 0 until 6 []
      tile 1 until 66 []
    }
  }
}
ipu.candidate @local {
  tile.program @main on 2 tiles {
    tile.buffer @x : tensor<24x16xf16, #x> align 32
    tile.compute @relu "relu_f16"(@x, @x) {0 to 1: [2, 0]}
  }
}
