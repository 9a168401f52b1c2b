// Every operator of dialect nn, on values whose results can be checked by hand.
func.func @main(%x: tensor<2x4xf32>, %i: tensor<2xi32>) -> (
    tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>,
    tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x1xf32>, tensor<4xf32>, tensor<2x4xf32>,
    tensor<2x4xf32>, tensor<1x2x4xf32>, tensor<4x2xf32>, tensor<2x2xf32>, tensor<3x4xf32>,
    tensor<2x4xf16>, tensor<2x4xf32>, tensor<2xi32>, tensor<1x2x1x2xf32>, tensor<2x2xf32>) {
  %w = nn.parameter "w" : tensor<4x2xf32>
  %b = nn.parameter "b" : tensor<2xf32>
  %ones = nn.constant dense<1.0> : tensor<4xf32>
  %zeros = nn.constant dense<0.0> : tensor<4xf32>
  %half = nn.constant dense<0.5> : tensor<f32>

  // 0, 1: products
  %product = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
  %linear = nn.linear %x, %w bias %b activation relu : (tensor<2x4xf32>, tensor<4x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>

  // 2: ((x + 1) * x - x) / 0.5 between 0 and 8
  %0 = nn.add %x, %ones : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %1 = nn.mul %0, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = nn.sub %1, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = nn.div %2, %half : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %eight = nn.constant dense<8.0> : tensor<f32>
  %4 = nn.min %3, %eight : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %binary = nn.max %4, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>

  // 3: relu(x) through functions that are exact at 0; 4: gelu of zeros and of x
  %5 = nn.relu %x : tensor<2x4xf32>
  %6 = nn.mul %x, %zeros : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %7 = nn.sigmoid %6 : tensor<2x4xf32>
  %8 = nn.tanh %6 : tensor<2x4xf32>
  %9 = nn.exp %8 : tensor<2x4xf32>
  %10 = nn.rsqrt %9 : tensor<2x4xf32>
  %11 = nn.gelu %6 approximate tanh : tensor<2x4xf32>
  %12 = nn.mul %7, %10 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %13 = nn.mul %12, %5 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %unary = nn.add %13, %11 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %gelu = nn.gelu %x : tensor<2x4xf32>

  // 5 to 8: along axes
  %softmax = nn.softmax %6 axis 1 : tensor<2x4xf32>
  %layer = nn.layer_norm %x, %ones, %zeros epsilon 0.3125 : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %sum = nn.reduce sum %x over [1] keep_dims : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %largest = nn.reduce max %x over [0] : (tensor<2x4xf32>) -> tensor<4xf32>

  // 9 to 11: rms_norm, attention, heads
  %rms = nn.rms_norm %x, %ones epsilon 8.5 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %attention = nn.attention %6, %6, %x heads 2 scale 0.5 causal : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %split = nn.split_heads %x heads 2 : (tensor<2x4xf32>) -> tensor<2x2x2xf32>
  %swapped = nn.gather %split, %i : (tensor<2x2x2xf32>, tensor<2xi32>) -> tensor<2x2x2xf32>
  %merged = nn.merge_heads %swapped heads 2 : (tensor<2x2x2xf32>) -> tensor<1x2x4xf32>

  // 12 to 17: moving elements
  %transposed = nn.transpose %x permutation [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
  %slice = nn.slice %x offsets [0, 1] strides [1, 2] : (tensor<2x4xf32>) -> tensor<2x2xf32>
  %row = nn.reshape %ones : (tensor<4xf32>) -> tensor<1x4xf32>
  %joined = nn.concat %x, %row axis 0 : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
  %cast = nn.cast %x : (tensor<2x4xf32>) -> tensor<2x4xf16>
  %broadcast = nn.broadcast %row : (tensor<1x4xf32>) -> tensor<2x4xf32>
  %back = nn.gather %i, %i : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>

  // 18: the window sees both rows, and each second column
  %image = nn.reshape %x : (tensor<2x4xf32>) -> tensor<1x2x4x1xf32>
  %kernel = nn.constant dense<[[[[1.0]], [[10.0]]], [[[100.0]], [[1000.0]]]]> : tensor<2x2x1x1xf32>
  %convolved = nn.conv2d %image, %kernel strides [1, 2] padding [0, 0, 0, 1] dilations [1, 2] : (tensor<1x2x4x1xf32>, tensor<2x2x1x1xf32>) -> tensor<1x1x2x1xf32>
  %line = nn.reshape %convolved : (tensor<1x1x2x1xf32>) -> tensor<1x2xf32>
  %rows = nn.reshape %product : (tensor<2x2xf32>) -> tensor<1x2x1x2xf32>
  %pair = nn.add %rows, %line : (tensor<1x2x1x2xf32>, tensor<1x2xf32>) -> tensor<1x2x1x2xf32>

  // 19: three layers, whose sum is taken
  %start = nn.constant dense<0.0> : tensor<2x2xf32>
  %total:2 = nn.repeat 3 (%acc = %start, %p = %product) : tensor<2x2xf32>, tensor<2x2xf32> {
    %l = nn.parameter "layer.{}" : tensor<2xf32>
    %14 = nn.mul %p, %l : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
    %15 = nn.add %acc, %14 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    nn.yield %15, %p : tensor<2x2xf32>, tensor<2x2xf32>
  }
  return %product, %linear, %binary, %unary, %gelu, %softmax, %layer, %sum, %largest, %rms,
      %attention, %merged, %transposed, %slice, %joined, %cast, %broadcast, %back, %pair, %total#0
      : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>,
        tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x1xf32>, tensor<4xf32>, tensor<2x4xf32>,
        tensor<2x4xf32>, tensor<1x2x4xf32>, tensor<4x2xf32>, tensor<2x2xf32>, tensor<3x4xf32>,
        tensor<2x4xf16>, tensor<2x4xf32>, tensor<2xi32>, tensor<1x2x1x2xf32>, tensor<2x2xf32>
}
