// RUN: ipu-opt %s --pass-pipeline='builtin.module(ipu.candidate(ipu-phase-exchanges{merge=false}))' | FileCheck %s

#two = #ipu.layout<rows 2 x 2 stride 1, columns 1 x 16 stride 0, order panels>
#first = #ipu.layout<rows 1 x 4 stride 0, columns 1 x 16 stride 0, order panels>
#four = #ipu.layout<rows 4 x 1 stride 1, columns 1 x 16 stride 0, order panels>
#fourth = #ipu.layout<rows 1 x 4 stride 0, columns 1 x 16 stride 0, order panels copies 4 stride 1>

ipu.candidate @c0 {
  tile.program @main on 4 tiles {
    tile.buffer @x : tensor<4x16xf16, #two> align 32
    tile.buffer @y : tensor<4x16xf16, #first> align 32
    tile.buffer @p : tensor<4x16xf16, #four> align 32
    tile.buffer @q : tensor<4x16xf16, #fourth> align 32

    // 16 words for tile 0. Its mux can select tile 1 at event 1 at the earliest; the first word is
    // written 52 events later (tile 0 is in physical row 0), at 53, where the pointer must be set;
    // the last one at 68; the row may return 5 events after the one that follows it, at 74. No
    // schedule is shorter: the bound is the horizon. After 64 events of words the mux is off.
    // CHECK: tile.exchange @gather {
    // CHECK-NEXT:   copy @x to @y [1+0 x 16 -> 0+64]
    // CHECK-NEXT: } schedule horizon 74 bound 74 by tile 0 {
    // CHECK-NEXT:   tile 0 until 74 [mux 1 from 1, mux 17 off, point 53 @y+64]
    // CHECK-NEXT:   tile 1 until {{[0-9]+}} [send {{[0-9]+}} @x+0 x 16 direction {{[123]}}]
    // CHECK-NEXT: }
    tile.exchange @gather {
      copy @x to @y [1+0 x 16 -> 0+64]
    }

    // A word for each of three tiles from the fourth, one send; no receiver is kept waiting by
    // another.
    // CHECK: tile.exchange @spread {
    // CHECK: } schedule horizon 69 bound 68 by tile {{[1-3]}} {
    // CHECK-NEXT:   tile 0 until {{[0-9]+}} [send {{[0-9]+}} @p+0 x 8 direction {{[123]}}]
    // CHECK-NEXT:   tile 1 until {{[0-9]+}} [mux {{[0-9]+}} from 0, mux {{[0-9]+}} off, point {{[0-9]+}} @q+0]
    // CHECK-NEXT:   tile 2 until {{[0-9]+}} [mux {{[0-9]+}} from 0, mux {{[0-9]+}} off, point {{[0-9]+}} @q+0]
    // CHECK-NEXT:   tile 3 until {{[0-9]+}} [mux {{[0-9]+}} from 0, mux {{[0-9]+}} off, point {{[0-9]+}} @q+0]
    // CHECK-NEXT: }
    tile.exchange @spread {
      copy @p to @q [0+0 x 8 -> 1+0 and 2+0 and 3+0]
    }

    // A schedule that is there already is replaced by a good one.
    // CHECK: tile.exchange @again {
    // CHECK: } schedule horizon 74 bound 74 by tile 0 {
    tile.exchange @again {
      copy @x to @y [1+0 x 16 -> 0+64]
    } schedule horizon 900 bound 1 by tile 1 {
      tile 0 until 900 []
      tile 1 until 5 []
    }
  }
}
