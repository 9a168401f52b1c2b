// RUN: ipu-opt %s --split-input-file --verify-diagnostics

#rows = #ipu.layout<rows 2 x 2 stride 1, columns 1 x 16 stride 0, order rows>
tile.program @main on 2 tiles {
  tile.host {
    func.func private @host0() -> tensor<4x16xf16> {
      %0 = nn.parameter "w" : tensor<4x16xf16>
      return %0 : tensor<4x16xf16>
    }
  }
  tile.buffer @x : tensor<4x16xf16, #rows> align 32
  // expected-error@+1 {{refers to unknown host function @hots0, did you mean 'host0'?}}
  tile.bind @x to host @hots0 result 0
  // expected-error@+1 {{names result 1 of @host0, which has 1}}
  tile.bind @x to host @host0 result 1
  // expected-error@+1 {{has -1 as result, not a 32-bit number}}
  tile.bind @x to host @host0 result -1
  // expected-error@+1 {{needs exactly one of: input, output, parameter, constant, host}}
  tile.bind @x to input 0 host @host0 result 0
}

// -----

tile.program @main on 2 tiles {
  tile.host {
    // The host looks up and computes of i32, the rest is for tiles.
    // expected-error@+1 {{@a has an 'nn.relu', which the host does not compute}}
    func.func private @a(%x: tensor<4xf16>) -> tensor<4xf16> {
      %0 = nn.relu %x : tensor<4xf16>
      return %0 : tensor<4xf16>
    }
    // expected-error@+1 {{@b has no results}}
    func.func private @b() {
      return
    }
    // expected-error@+1 {{@c has an 'nn.repeat', which the host does not compute}}
    func.func private @c() -> tensor<4xf16> {
      %w = nn.parameter "w" : tensor<4xf16>
      %0 = nn.repeat 3 (%a = %w) : tensor<4xf16> {
        %s = nn.relu %a : tensor<4xf16>
        nn.yield %s : tensor<4xf16>
      }
      return %0 : tensor<4xf16>
    }
  }
}

// -----

tile.program @main on 2 tiles {
  tile.host {
    func.func private @a() -> tensor<4xf16> {
      // expected-error@+1 {{is not supported in a model: use operations of dialect nn}}
      %0 = builtin.unrealized_conversion_cast to tensor<4xf16>
      return %0 : tensor<4xf16>
    }
  }
}
