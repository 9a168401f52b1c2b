// Dialect nn: what a model means. Values are ranked tensors with static shapes.
#ifndef NN_TD
#define NN_TD

include "common/Hooks.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Nn_Dialect : Dialect {
  let name = "nn";
  let summary = "Neural network operations on static tensors";
  let cppNamespace = "::nn";
  let useDefaultAttributePrinterParser = 1;
  let hasCanonicalizer = 1;
}

class Nn_Op<string mnemonic, list<Trait> traits = []>
    : Op<Nn_Dialect, mnemonic, traits # [Pure, RustVerified]>;

// What is computed with.
def Nn_Tensor : RankedTensorOf<[F16, F32]>;
// What is moved as it is: also indices.
def Nn_Data : RankedTensorOf<[F16, F32, I32]>;
def Nn_Indices : RankedTensorOf<[I32]>;

// Words of the syntax.

class Nn_Word<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::nn";
  let genSpecializedAttr = 0;
}
class Nn_WordAttr<EnumInfo word, string mnemonic> : EnumAttr<Nn_Dialect, word, mnemonic> {
  let assemblyFormat = "`<` $value `>`";
}

def Nn_ActivationKind : Nn_Word<"Activation", "function applied to a result", [
    I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"Relu", 1, "relu">]>;
def Nn_ActivationAttr : Nn_WordAttr<Nn_ActivationKind, "activation">;

def Nn_ApproximationKind : Nn_Word<"Approximation", "how gelu is computed", [
    I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"Tanh", 1, "tanh">]>;
def Nn_ApproximationAttr : Nn_WordAttr<Nn_ApproximationKind, "approximation">;

def Nn_ReductionKind : Nn_Word<"Reduction", "how elements combine", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Mean", 1, "mean">,
    I32EnumAttrCase<"Max", 2, "max">]>;
def Nn_ReductionAttr : Nn_WordAttr<Nn_ReductionKind, "reduction">;

// Data of the model.

def Nn_ParameterOp : Nn_Op<"parameter"> {
  let summary = "a named weight, read from the weights file";
  let description = [{
    The tensor of that key in the weights file, which must have this shape; its elements are
    converted to this type.

    Inside `nn.repeat`, `{}` in the key stands for the number of the iteration, from 0. Inside
    several, a key has one `{}` for each of them, outermost first, or none.

    ```mlir
    %w = nn.parameter "fc1.weight" : tensor<64x128xf16>
    ```
  }];
  let arguments = (ins StrAttr:$key);
  let results = (outs Nn_Data:$result);
  let assemblyFormat = "$key attr-dict `:` type($result)";
}

def Nn_ConstantOp : Nn_Op<"constant", [AllTypesMatch<["value", "result"]>]> {
  let summary = "a tensor whose values are part of the model";
  let description = [{
    Integers have a magnitude below 2^24.

    ```mlir
    %half = nn.constant dense<0.5> : tensor<f16>
    %first = nn.constant dense<[0, 1, 2]> : tensor<3xi32>
    ```
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Nn_Data:$result);
  let assemblyFormat = "attr-dict $value";
}

// Linear algebra.

def Nn_MatmulOp : Nn_Op<"matmul"> {
  let summary = "matrix product over the last two axes, accumulated in f32";
  let description = [{
    `lhs[.., m, k] * rhs[k, n]`, or `rhs[.., k, n]` with the batch axes of `lhs`. With `transpose_a`
    the left operand is given as `[.., k, m]`, with `transpose_b` the right one as `[.., n, k]`. The
    result of a product of f16 is f16 or f32.

    ```mlir
    %0 = nn.matmul %x, %w : (tensor<7x200x64xf16>, tensor<64x128xf16>) -> tensor<7x200x128xf16>
    %1 = nn.matmul %q, %k transpose_b : (tensor<8x9x64xf16>, tensor<8x7x64xf16>) -> tensor<8x9x7xf32>
    ```
  }];
  let arguments = (ins Nn_Tensor:$lhs, Nn_Tensor:$rhs, UnitAttr:$transpose_a, UnitAttr:$transpose_b);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs (`transpose_a` $transpose_a^)? (`transpose_b` $transpose_b^)?
    attr-dict `:` functional-type(operands, results)
  }];
}

def Nn_LinearOp : Nn_Op<"linear"> {
  let summary = "fused activation(input * weight + bias)";
  let description = [{
    A product as in `nn.matmul`, a bias that broadcasts to it, and `none` or `relu` of the sum, with
    one rounding. Made by operator selection; in a model the separate operations mean the same.

    ```mlir
    %0 = nn.linear %x, %w bias %b activation relu
        : (tensor<200x64xf16>, tensor<64x128xf16>, tensor<128xf16>) -> tensor<200x128xf16>
    ```
  }];
  let arguments = (ins Nn_Tensor:$input, Nn_Tensor:$weight,
      Optional<Nn_Tensor>:$bias,
      DefaultValuedAttr<Nn_ActivationAttr, "::nn::Activation::None">:$activation);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $weight (`bias` $bias^)? (`activation` custom<Word>($activation)^)?
    attr-dict `:` functional-type(operands, results)
  }];
}

def Nn_Conv2dOp : Nn_Op<"conv2d"> {
  let summary = "two-dimensional convolution, accumulated in f32";
  let description = [{
    Input `[N, H, W, C]`, weight `[KH, KW, C / groups, F]`, bias `[F]`, result `[N, OH, OW, F]` with
    `OH = (H + padding - dilation * (KH - 1) - 1) / stride + 1`, likewise `OW`. `strides` and
    `dilations` are for H and W; `padding` is zeros before and after H, before and after W. Filters
    `F / groups * g ..` see the channels `C / groups * g ..` of their group g only. The result of f16
    is f16 or f32.

    ```mlir
    %0 = nn.conv2d %x, %w bias %b strides [2, 2] padding [1, 1, 1, 1]
        : (tensor<1x32x32x16xf16>, tensor<3x3x16x64xf16>, tensor<64xf16>) -> tensor<1x16x16x64xf16>
    ```
  }];
  let arguments = (ins Nn_Tensor:$input, Nn_Tensor:$weight, Optional<Nn_Tensor>:$bias,
      DefaultValuedAttr<DenseI64ArrayAttr, "{1, 1}">:$strides,
      DefaultValuedAttr<DenseI64ArrayAttr, "{0, 0, 0, 0}">:$padding,
      DefaultValuedAttr<DenseI64ArrayAttr, "{1, 1}">:$dilations,
      DefaultValuedAttr<I64Attr, "1">:$groups);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $weight (`bias` $bias^)? (`strides` $strides^)? (`padding` $padding^)?
    (`dilations` $dilations^)? (`groups` $groups^)?
    attr-dict `:` functional-type(operands, results)
  }];
}

// Elementwise operations.

class Nn_Elementwise<string mnemonic, string what> : Nn_Op<mnemonic> {
  let summary = "elementwise " # what # " with NumPy broadcasting";
  let description = [{
    Shapes are aligned at their last axes; an axis of extent 1, or one that is absent, is repeated.

    ```mlir
    %0 = nn.}] # mnemonic # [{ %a, %b : (tensor<3x1xf16>, tensor<2x1x4xf16>) -> tensor<2x3x4xf16>
    ```
  }];
  let arguments = (ins Nn_Tensor:$lhs, Nn_Tensor:$rhs);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat =
      "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
}
def Nn_AddOp : Nn_Elementwise<"add", "sum">;
def Nn_SubOp : Nn_Elementwise<"sub", "difference">;
def Nn_MulOp : Nn_Elementwise<"mul", "product">;
def Nn_DivOp : Nn_Elementwise<"div", "quotient">;
def Nn_MaxOp : Nn_Elementwise<"max", "maximum">;
def Nn_MinOp : Nn_Elementwise<"min", "minimum">;

class Nn_Unary<string mnemonic, string what, string formula> : Nn_Op<mnemonic> {
  let summary = "elementwise " # what;
  let description = [{
    `}] # formula # [{`

    ```mlir
    %0 = nn.}] # mnemonic # [{ %x : tensor<200x128xf16>
    ```
  }];
  let arguments = (ins Nn_Tensor:$input);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat =
      "$input attr-dict `:` custom<UnaryType>(type($input), type($result))";
}
def Nn_ReluOp : Nn_Unary<"relu", "maximum with zero", "max(x, 0)">;
def Nn_SigmoidOp : Nn_Unary<"sigmoid", "logistic function", "1 / (1 + exp(-x))">;
def Nn_TanhOp : Nn_Unary<"tanh", "hyperbolic tangent", "tanh(x)">;
def Nn_ExpOp : Nn_Unary<"exp", "exponential", "exp(x)">;
def Nn_RsqrtOp : Nn_Unary<"rsqrt", "reciprocal of the square root", "1 / sqrt(x)">;

def Nn_GeluOp : Nn_Op<"gelu"> {
  let summary = "elementwise Gaussian error linear unit";
  let description = [{
    `x * (1 + erf(x / sqrt(2))) / 2`; with `approximate tanh` another function, close to it:
    `x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2`.

    ```mlir
    %0 = nn.gelu %x : tensor<200x128xf16>
    %1 = nn.gelu %x approximate tanh : tensor<200x128xf16>
    ```
  }];
  let arguments = (ins Nn_Tensor:$input,
      DefaultValuedAttr<Nn_ApproximationAttr, "::nn::Approximation::None">:$approximate);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{
    $input (`approximate` custom<Word>($approximate)^)?
    attr-dict `:` custom<UnaryType>(type($input), type($result))
  }];
}

// Operations along axes.

def Nn_SoftmaxOp : Nn_Op<"softmax"> {
  let summary = "softmax along an axis";
  let description = [{
    `exp(x - max) / sum(exp(x - max))` with maximum and sum along the axis.

    ```mlir
    %0 = nn.softmax %x axis 1 : tensor<200x10xf16>
    ```
  }];
  let arguments = (ins Nn_Tensor:$input, I64Attr:$axis);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat =
      "$input `axis` $axis attr-dict `:` custom<UnaryType>(type($input), type($result))";
}

def Nn_LayerNormOp : Nn_Op<"layer_norm"> {
  let summary = "layer normalisation along the last axis";
  let description = [{
    `(x - mean) / sqrt(variance + epsilon) * scale + bias` with mean and variance (that of the whole
    population) along the last axis; `scale` and `bias` are vectors as long as it.

    ```mlir
    %0 = nn.layer_norm %x, %scale, %bias epsilon 1.0e-6
        : (tensor<200x64xf16>, tensor<64xf16>, tensor<64xf16>) -> tensor<200x64xf16>
    ```
  }];
  let arguments = (ins Nn_Tensor:$input, Nn_Tensor:$scale, Nn_Tensor:$bias,
      DefaultValuedAttr<F32Attr, "1.0e-5f">:$epsilon);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $scale `,` $bias (`epsilon` $epsilon^)?
    attr-dict `:` functional-type(operands, results)
  }];
}

def Nn_RmsNormOp : Nn_Op<"rms_norm"> {
  let summary = "normalisation by the root mean square along the last axis";
  let description = [{
    `x / sqrt(mean(x^2) + epsilon) * scale` with the mean along the last axis; `scale` is a vector as
    long as it.

    ```mlir
    %0 = nn.rms_norm %x, %scale : (tensor<200x64xf16>, tensor<64xf16>) -> tensor<200x64xf16>
    ```
  }];
  let arguments = (ins Nn_Tensor:$input, Nn_Tensor:$scale,
      DefaultValuedAttr<F32Attr, "1.0e-5f">:$epsilon);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $scale (`epsilon` $epsilon^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Nn_ReduceOp : Nn_Op<"reduce"> {
  let summary = "sum, mean or maximum over some axes";
  let description = [{
    The axes are given in ascending order; they vanish from the result, or stay with extent 1 with
    `keep_dims`.

    ```mlir
    %0 = nn.reduce sum %x over [1] keep_dims : (tensor<200x10xf16>) -> tensor<200x1xf16>
    %1 = nn.reduce max %x over [0, 1] : (tensor<200x10xf16>) -> tensor<f16>
    ```
  }];
  let arguments = (ins Nn_ReductionAttr:$kind, Nn_Tensor:$input, DenseI64ArrayAttr:$axes,
      UnitAttr:$keep_dims);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{
    custom<Word>($kind) $input `over` $axes (`keep_dims` $keep_dims^)?
    attr-dict `:` custom<UnaryType>(type($input), type($result))
  }];
}

// Attention.

def Nn_AttentionOp : Nn_Op<"attention"> {
  let summary = "scaled dot-product attention, by heads";
  let description = [{
    `softmax(scale * query key^T + mask) value`, with query `[.., Tq, heads * d]`, key
    `[.., Tk, heads * d]` and value `[.., Tk, heads * e]` of equal leading axes, and result
    `[.., Tq, heads * e]`. Each head works on its own columns. With `causal`, query i sees the keys up
    to i + Tk - Tq only; there are then at least as many keys as queries.

    ```mlir
    %0 = nn.attention %q, %k, %v heads 12 scale 0.125 causal
        : (tensor<4x197x768xf16>, tensor<4x197x768xf16>, tensor<4x197x768xf16>) -> tensor<4x197x768xf16>
    ```
  }];
  let arguments = (ins Nn_Tensor:$query, Nn_Tensor:$key, Nn_Tensor:$value,
      DefaultValuedAttr<I64Attr, "1">:$heads, F32Attr:$scale, UnitAttr:$causal);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{
    $query `,` $key `,` $value (`heads` $heads^)? `scale` $scale (`causal` $causal^)?
    attr-dict `:` functional-type(operands, results)
  }];
}

class Nn_Heads<string mnemonic> : Nn_Op<mnemonic> {
  let arguments = (ins Nn_Tensor:$input, I64Attr:$heads);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat =
      "$input `heads` $heads attr-dict `:` custom<UnaryType>(type($input), type($result))";
}
def Nn_SplitHeadsOp : Nn_Heads<"split_heads"> {
  let summary = "columns of heads as batches";
  let description = [{
    `[.., T, heads * d]` to `[N * heads, T, d]`, N the product of the leading axes; heads run faster
    than N.

    ```mlir
    %0 = nn.split_heads %x heads 12 : (tensor<4x197x768xf16>) -> tensor<48x197x64xf16>
    ```
  }];
}
def Nn_MergeHeadsOp : Nn_Heads<"merge_heads"> {
  let summary = "batches as columns of heads: the inverse of split_heads";
  let description = [{
    `[N * heads, T, d]` to `[N, T, heads * d]`.

    ```mlir
    %0 = nn.merge_heads %x heads 12 : (tensor<48x197x64xf16>) -> tensor<4x197x768xf16>
    ```
  }];
}

// Moving elements.

class Nn_Move<string mnemonic> : Nn_Op<mnemonic> {
  let arguments = (ins Nn_Data:$input);
  let results = (outs Nn_Data:$result);
  let assemblyFormat = "$input attr-dict `:` custom<UnaryType>(type($input), type($result))";
}
def Nn_ReshapeOp : Nn_Move<"reshape"> {
  let summary = "the same elements in row-major order in another shape";
  let description = [{
    ```mlir
    %0 = nn.reshape %x : (tensor<4x14x14x768xf16>) -> tensor<4x196x768xf16>
    ```
  }];
}
def Nn_BroadcastOp : Nn_Move<"broadcast"> {
  let summary = "NumPy broadcast to the shape of the result";
  let description = [{
    Shapes are aligned at their last axes; axes of extent 1, and new leading ones, are repeated.

    ```mlir
    %0 = nn.broadcast %token : (tensor<1x1x768xf16>) -> tensor<4x1x768xf16>
    ```
  }];
}
def Nn_CastOp : Nn_Move<"cast"> {
  let summary = "conversion to the element type of the result";
  let description = [{
    Rounds to nearest even; what is beyond the range of f16 becomes its largest value. Floats are not
    converted to i32.

    ```mlir
    %0 = nn.cast %x : (tensor<200x10xf16>) -> tensor<200x10xf32>
    ```
  }];
}

def Nn_TransposeOp : Nn_Op<"transpose"> {
  let summary = "permutation of the axes";
  let description = [{
    Axis i of the result is axis `permutation[i]` of the input.

    ```mlir
    %0 = nn.transpose %x permutation [0, 2, 1] : (tensor<4x197x768xf16>) -> tensor<4x768x197xf16>
    ```
  }];
  let arguments = (ins Nn_Data:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs Nn_Data:$result);
  let assemblyFormat = [{
    $input `permutation` $permutation attr-dict `:` custom<UnaryType>(type($input), type($result))
  }];
}

def Nn_SliceOp : Nn_Op<"slice"> {
  let summary = "elements at regular distances";
  let description = [{
    Elements `offsets[i] + j * strides[i]` of each axis i, as many as the result has. `strides` are
    all 1 by default.

    ```mlir
    %0 = nn.slice %x offsets [0, 1, 0] : (tensor<4x197x768xf16>) -> tensor<4x196x768xf16>
    %1 = nn.slice %x offsets [0, 1, 0] strides [1, 2, 1] : (tensor<4x197x768xf16>) -> tensor<4x98x768xf16>
    ```
  }];
  let arguments = (ins Nn_Data:$input, DenseI64ArrayAttr:$offsets,
      OptionalAttr<DenseI64ArrayAttr>:$strides);
  let results = (outs Nn_Data:$result);
  let assemblyFormat = [{
    $input `offsets` $offsets (`strides` $strides^)?
    attr-dict `:` custom<UnaryType>(type($input), type($result))
  }];
}

def Nn_ConcatOp : Nn_Op<"concat"> {
  let summary = "tensors one after the other along an axis";
  let description = [{
    ```mlir
    %0 = nn.concat %token, %patches axis 1
        : (tensor<4x1x768xf16>, tensor<4x196x768xf16>) -> tensor<4x197x768xf16>
    ```
  }];
  let arguments = (ins Variadic<Nn_Data>:$inputs, I64Attr:$axis);
  let results = (outs Nn_Data:$result);
  let assemblyFormat =
      "$inputs `axis` $axis attr-dict `:` functional-type(operands, results)";
}

def Nn_GatherOp : Nn_Op<"gather"> {
  let summary = "rows picked by indices";
  let description = [{
    Rows of the input along an axis, 0 by default; in the result the axes of `indices` stand in the
    place of that axis. An index that is negative or not below its extent is an error of the run.

    ```mlir
    %0 = nn.gather %table, %tokens : (tensor<50257x768xf16>, tensor<4x197xi32>) -> tensor<4x197x768xf16>
    ```
  }];
  let arguments = (ins Nn_Data:$input, Nn_Indices:$indices, DefaultValuedAttr<I64Attr, "0">:$axis);
  let results = (outs Nn_Data:$result);
  let assemblyFormat = [{
    $input `,` $indices (`axis` $axis^)? attr-dict `:` functional-type(operands, results)
  }];
}

// Repetition.

def Nn_RepeatOp : Nn_Op<"repeat", [IsolatedFromAbove, RustVerifiedRegions, SingleBlock]> {
  let summary = "a body that is repeated, with values carried from one iteration to the next";
  let description = [{
    The body `count` times, at least once. Its arguments are the carried values: the inputs in the
    first iteration, what the body yielded in all others; the results are what the last one yields.
    Values from outside enter as carried values only. In keys of parameters `{}` stands for the
    number of the iteration.

    ```mlir
    %y = nn.repeat 12 (%h = %x) : tensor<200x64xf16> {
      %w = nn.parameter "blocks.{}.weight" : tensor<64x64xf16>
      %0 = nn.matmul %h, %w : (tensor<200x64xf16>, tensor<64x64xf16>) -> tensor<200x64xf16>
      nn.yield %0 : tensor<200x64xf16>
    }
    ```

    Types are written once where inputs, arguments and results have the same; where their layouts
    differ, arguments carry their own and the rest follows as a function type:
    `(%h : T = %x) : (U) -> V`.
  }];
  let arguments = (ins I64Attr:$count, Variadic<Nn_Data>:$inputs);
  let results = (outs Variadic<Nn_Data>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $count attr-dict custom<Carried>($inputs, type($inputs), type($results), $body)
  }];
}

def Nn_YieldOp : Nn_Op<"yield", [Terminator, HasParent<"RepeatOp">]> {
  let summary = "what an iteration of nn.repeat carries to the next";
  let description = [{
    ```mlir
    nn.yield %0, %1 : tensor<200x64xf16>, tensor<4xf32>
    ```
  }];
  let arguments = (ins Variadic<Nn_Data>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif
