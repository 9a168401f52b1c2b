// A block as newer language models have it, in plain operators: RMS norm, an additive mask that is
// given at run time, a gated MLP, skip connections.
func.func @main(%x: tensor<2x8x32xf16>, %mask: tensor<8x8xf16>) -> tensor<2x8x32xf16> {
  %g1 = nn.parameter "norm1" : tensor<32xf16>
  %n1 = nn.rms_norm %x, %g1 epsilon 1.0e-5 : (tensor<2x8x32xf16>, tensor<32xf16>) -> tensor<2x8x32xf16>
  %wq = nn.parameter "wq" : tensor<32x32xf16>
  %wk = nn.parameter "wk" : tensor<32x32xf16>
  %wv = nn.parameter "wv" : tensor<32x32xf16>
  %q = nn.matmul %n1, %wq : (tensor<2x8x32xf16>, tensor<32x32xf16>) -> tensor<2x8x32xf16>
  %k = nn.matmul %n1, %wk : (tensor<2x8x32xf16>, tensor<32x32xf16>) -> tensor<2x8x32xf16>
  %v = nn.matmul %n1, %wv : (tensor<2x8x32xf16>, tensor<32x32xf16>) -> tensor<2x8x32xf16>
  %qh = nn.split_heads %q heads 2 : (tensor<2x8x32xf16>) -> tensor<4x8x16xf16>
  %kh = nn.split_heads %k heads 2 : (tensor<2x8x32xf16>) -> tensor<4x8x16xf16>
  %vh = nn.split_heads %v heads 2 : (tensor<2x8x32xf16>) -> tensor<4x8x16xf16>
  %s = nn.matmul %qh, %kh transpose_b : (tensor<4x8x16xf16>, tensor<4x8x16xf16>) -> tensor<4x8x8xf16>
  %scale = nn.constant dense<2.500000e-01> : tensor<1xf16>
  %scaled = nn.mul %s, %scale : (tensor<4x8x8xf16>, tensor<1xf16>) -> tensor<4x8x8xf16>
  %masked = nn.add %scaled, %mask : (tensor<4x8x8xf16>, tensor<8x8xf16>) -> tensor<4x8x8xf16>
  %p = nn.softmax %masked axis 2 : tensor<4x8x8xf16>
  %o = nn.matmul %p, %vh : (tensor<4x8x8xf16>, tensor<4x8x16xf16>) -> tensor<4x8x16xf16>
  %m = nn.merge_heads %o heads 2 : (tensor<4x8x16xf16>) -> tensor<2x8x32xf16>
  %wo = nn.parameter "wo" : tensor<32x32xf16>
  %a = nn.matmul %m, %wo : (tensor<2x8x32xf16>, tensor<32x32xf16>) -> tensor<2x8x32xf16>
  %r = nn.add %x, %a : (tensor<2x8x32xf16>, tensor<2x8x32xf16>) -> tensor<2x8x32xf16>
  %g2 = nn.parameter "norm2" : tensor<32xf16>
  %n2 = nn.rms_norm %r, %g2 epsilon 1.0e-5 : (tensor<2x8x32xf16>, tensor<32xf16>) -> tensor<2x8x32xf16>
  %wg = nn.parameter "gate" : tensor<32x64xf16>
  %wu = nn.parameter "up" : tensor<32x64xf16>
  %wd = nn.parameter "down" : tensor<64x32xf16>
  %gate = nn.matmul %n2, %wg : (tensor<2x8x32xf16>, tensor<32x64xf16>) -> tensor<2x8x64xf16>
  %up = nn.matmul %n2, %wu : (tensor<2x8x32xf16>, tensor<32x64xf16>) -> tensor<2x8x64xf16>
  %sig = nn.sigmoid %gate : tensor<2x8x64xf16>
  %silu = nn.mul %gate, %sig : (tensor<2x8x64xf16>, tensor<2x8x64xf16>) -> tensor<2x8x64xf16>
  %gated = nn.mul %silu, %up : (tensor<2x8x64xf16>, tensor<2x8x64xf16>) -> tensor<2x8x64xf16>
  %d = nn.matmul %gated, %wd : (tensor<2x8x64xf16>, tensor<64x32xf16>) -> tensor<2x8x32xf16>
  %y = nn.add %r, %d : (tensor<2x8x32xf16>, tensor<2x8x32xf16>) -> tensor<2x8x32xf16>
  return %y : tensor<2x8x32xf16>
}
