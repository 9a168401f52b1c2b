// The attention block of a SigLIP encoder: three projections of 729 tokens of width 1152, 16 heads
// of 72, softmax, and the product with the values. Heads stay separate.
func.func @main(%x: tensor<1x729x1152xf16>) -> tensor<16x729x72xf16> {
  %wq = nn.parameter "wq" : tensor<1152x1152xf16>
  %wk = nn.parameter "wk" : tensor<1152x1152xf16>
  %wv = nn.parameter "wv" : tensor<1152x1152xf16>
  %q = nn.matmul %x, %wq : (tensor<1x729x1152xf16>, tensor<1152x1152xf16>) -> tensor<1x729x1152xf16>
  %k = nn.matmul %x, %wk : (tensor<1x729x1152xf16>, tensor<1152x1152xf16>) -> tensor<1x729x1152xf16>
  %v = nn.matmul %x, %wv : (tensor<1x729x1152xf16>, tensor<1152x1152xf16>) -> tensor<1x729x1152xf16>
  %qh = nn.split_heads %q heads 16 : (tensor<1x729x1152xf16>) -> tensor<16x729x72xf16>
  %kh = nn.split_heads %k heads 16 : (tensor<1x729x1152xf16>) -> tensor<16x729x72xf16>
  %vh = nn.split_heads %v heads 16 : (tensor<1x729x1152xf16>) -> tensor<16x729x72xf16>
  %o = nn.attention %qh, %kh, %vh scale 0.11785113 : (tensor<16x729x72xf16>, tensor<16x729x72xf16>, tensor<16x729x72xf16>) -> tensor<16x729x72xf16>
  return %o : tensor<16x729x72xf16>
}
