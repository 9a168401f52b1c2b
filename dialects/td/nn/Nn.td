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

def Nn_Tensor : RankedTensorOf<[F16, F32]>;

def Nn_ActivationKind : I32EnumAttr<"Activation", "function applied to a result", [
    I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"Relu", 1, "relu">]> {
  let cppNamespace = "::nn";
  let genSpecializedAttr = 0;
}
def Nn_ActivationAttr : EnumAttr<Nn_Dialect, Nn_ActivationKind, "activation"> {
  let assemblyFormat = "`<` $value `>`";
}

def Nn_ParameterOp : Nn_Op<"parameter"> {
  let summary = "a named weight, read from the weights file";
  let arguments = (ins StrAttr:$key);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$key attr-dict `:` type($result)";
}

def Nn_ConstantOp : Nn_Op<"constant", [AllTypesMatch<["value", "result"]>]> {
  let summary = "a tensor whose values are part of the model";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "attr-dict $value";
}

def Nn_MatmulOp : Nn_Op<"matmul"> {
  let summary = "matrix product over the last two axes, accumulated in f32";
  let description = [{
    `lhs[.., m, k] * rhs[k, n]`, or `rhs[.., k, n]` with the batch axes of `lhs`.
  }];
  let arguments = (ins Nn_Tensor:$lhs, Nn_Tensor:$rhs);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat =
      "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
}

def Nn_LinearOp : Nn_Op<"linear"> {
  let summary = "fused activation(input * weight + bias)";
  let arguments = (ins Nn_Tensor:$input, Nn_Tensor:$weight,
      Optional<Nn_Tensor>:$bias,
      DefaultValuedAttr<Nn_ActivationAttr, "::nn::Activation::None">:$activation);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $weight (`bias` $bias^)? (`activation` custom<Activation>($activation)^)?
    attr-dict `:` functional-type(operands, results)
  }];
}

class Nn_Elementwise<string mnemonic, string what> : Nn_Op<mnemonic> {
  let summary = "elementwise " # what # " with NumPy broadcasting";
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

def Nn_ReluOp : Nn_Op<"relu"> {
  let summary = "elementwise maximum with zero";
  let arguments = (ins Nn_Tensor:$input);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat =
      "$input attr-dict `:` custom<UnaryType>(type($input), type($result))";
}

#endif
