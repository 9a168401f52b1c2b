// RUN: ipu-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{'ipu.candidate' op has -1 as estimated_cycles, cycles are not negative}}
ipu.candidate @c0 estimated -1 {
}

// -----

// expected-error@+1 {{'ipu.candidate' op holds 'ipu.candidate': a candidate is one program, not a container}}
ipu.candidate @c0 {
  ipu.candidate @c1 {
  }
}

// -----

// expected-error@+1 {{'ipu.package' op has a blob of type tensor<3xi16>, expected tensor<Nxi8>}}
ipu.package @main format "ipuexe" = dense<[1, 2, 3]> : tensor<3xi16>

// -----

// expected-error@+1 {{layout has 0 as copies, at least 1 is needed}}
#layout = #ipu.layout<rows 1 x 4 stride 0, columns 1 x 4 stride 0, order rows copies 0>

// -----

// expected-error@+1 {{layout has 4096 x 4096 parts in 1 copies, the limit is 1048576}}
#layout = #ipu.layout<rows 4096 x 1 stride 0, columns 4096 x 1 stride 0, order rows>

// -----

// expected-error@+1 {{layout has shards of 65536 x 65536, beyond 32 bits}}
#layout = #ipu.layout<rows 1 x 65536 stride 0, columns 1 x 65536 stride 0, order rows>

// -----

// expected-error@+1 {{layout has tile numbers beyond 32 bits}}
#layout = #ipu.layout<rows 65537 x 4 stride 65537, columns 1 x 4 stride 0, order rows>

// -----

// expected-error@+1 {{layout covers 2 x 3 rows, the tensor has 8}}
func.func private @short(tensor<2x4x16xf16, #ipu.layout<rows 2 x 3 stride 1, columns 1 x 16 stride 0, order rows>>)

// -----

// expected-error@+2 {{failed to parse Ipu_LayoutAttr parameter 'order'}}
// expected-error@+1 {{expected ::ipu::ElementOrder to be one of: rows, panels, weights8, weights16}}
#layout = #ipu.layout<rows 1 x 4 stride 0, columns 1 x 4 stride 0, order columns>

// -----

// expected-error@+1 {{plan has 2 steps with resident weights; steps bring 'weights distributed'}}
#plan = #ipu.plan<gemm grid 2 x 2 k 2 steps 2, partials f16, compute 1 cycles, exchange 1 cycles, best of 1>

// -----

// expected-error@+1 {{plan has 0 as steps, at least 1 is needed}}
#plan = #ipu.plan<gemm grid 2 x 2 steps 0 weights distributed, partials f16, compute 1 cycles, exchange 1 cycles, best of 1>

// -----

// expected-error@+1 {{plan of family 'rowwise' has distributed weights; only 'gemm' has any}}
#plan = #ipu.plan<rowwise grid 2 x 2 weights distributed, partials f16, compute 1 cycles, exchange 1 cycles, best of 1>
