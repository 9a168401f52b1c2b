// Dialect ipu: decisions (layouts, plans) and the containers of a compilation.
#ifndef IPU_TD
#define IPU_TD

include "common/Hooks.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/TensorEncoding.td"

def Ipu_Dialect : Dialect {
  let name = "ipu";
  let summary = "Plans, layouts, candidates and packages";
  let cppNamespace = "::ipu";
  let useDefaultAttributePrinterParser = 1;
}

class Ipu_Enum<string name, string what, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, what, cases> {
  let cppNamespace = "::ipu";
  let genSpecializedAttr = 0;
}
// The numbers are the positions in the arrays of dialects/src/layout.rs.
def Ipu_ElementOrder : Ipu_Enum<"ElementOrder", "element order", [
    I32EnumAttrCase<"Rows", 0, "rows">, I32EnumAttrCase<"Panels", 1, "panels">,
    I32EnumAttrCase<"Weights8", 2, "weights8">, I32EnumAttrCase<"Weights16", 3, "weights16">]>;
def Ipu_MemoryClass : Ipu_Enum<"MemoryClass", "memory class", [
    I32EnumAttrCase<"Any", 0, "any">, I32EnumAttrCase<"Standard", 1, "standard">,
    I32EnumAttrCase<"Interleaved", 2, "interleaved">]>;
def Ipu_Family : Ipu_Enum<"Family", "kernel family", [
    I32EnumAttrCase<"Gemm", 0, "gemm">, I32EnumAttrCase<"Elementwise", 1, "elementwise">,
    I32EnumAttrCase<"Rowwise", 2, "rowwise">, I32EnumAttrCase<"Reduce", 3, "reduce">,
    I32EnumAttrCase<"Attention", 4, "attention">, I32EnumAttrCase<"View", 5, "view">]>;

def Ipu_Residency : Ipu_Enum<"Residency", "residency of weights", [
    I32EnumAttrCase<"Resident", 0, "resident">, I32EnumAttrCase<"Distributed", 1, "distributed">]>;

def Ipu_LayoutAttr : AttrDef<Ipu_Dialect, "Layout",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "where the elements of a tensor live";
  let description = [{
    Speaks of the matrix view: rows are all axes but the last, columns the last.
    `rows 4 x 50 stride 2` means 4 parts of up to 50 rows, each 2 tiles after the one before; parts
    differ by at most one `unit` (by default a row, a panel of 16 columns, or 16 rows of weights).
    With a `period` the axis is a sequence of pieces of that extent, which share the parts equally.
    With `groups of 8 stride 90` only 8 parts follow each other by the first `stride`, and each 8 are
    90 tiles after the 8 before.
  }];
  let mnemonic = "layout";
  let parameters = (ins
    "uint32_t":$rowParts, "uint32_t":$rowBlock, "uint32_t":$rowStride,
    DefaultValuedParameter<"uint32_t", "0">:$rowUnit,
    DefaultValuedParameter<"uint32_t", "0">:$rowPeriod,
    DefaultValuedParameter<"uint32_t", "0">:$rowGroup,
    DefaultValuedParameter<"uint32_t", "0">:$rowGroupStride,
    "uint32_t":$columnParts, "uint32_t":$columnBlock, "uint32_t":$columnStride,
    DefaultValuedParameter<"uint32_t", "0">:$columnUnit,
    DefaultValuedParameter<"uint32_t", "0">:$columnPeriod,
    DefaultValuedParameter<"uint32_t", "0">:$columnGroup,
    DefaultValuedParameter<"uint32_t", "0">:$columnGroupStride,
    DefaultValuedParameter<"uint32_t", "1">:$copies,
    DefaultValuedParameter<"uint32_t", "0">:$copyStride,
    DefaultValuedParameter<"uint32_t", "0">:$firstTile,
    EnumParameter<Ipu_ElementOrder>:$order,
    DefaultValuedParameter<"::ipu::MemoryClass", "::ipu::MemoryClass::Any">:$memory);
  let assemblyFormat = [{
    `<` `rows` $rowParts `x` $rowBlock `stride` $rowStride (`unit` $rowUnit^)? (`period` $rowPeriod^)?
    (`groups` `of` $rowGroup^)? (`stride` $rowGroupStride^)?
    `,` `columns` $columnParts `x` $columnBlock `stride` $columnStride
    (`unit` $columnUnit^)? (`period` $columnPeriod^)?
    (`groups` `of` $columnGroup^)? (`stride` $columnGroupStride^)?
    `,` `order` $order (`memory` $memory^)?
    (`copies` $copies^)? (`stride` $copyStride^)? (`from` `tile` $firstTile^)? `>`
  }];
  let genVerifyDecl = 1;
}

def Ipu_PlanAttr : AttrDef<Ipu_Dialect, "Plan"> {
  let summary = "how an operation is carried out";
  let description = [{
    The result is divided into `grid` parts of rows and columns, the contraction into `k`. With
    `weights distributed` each element of the weights lives on one tile, and the operator brings
    blocks to all tiles that need them; with `steps` it does so with parts of the contraction one after
    the other, and with the left operand as well.
  }];
  let mnemonic = "plan";
  let parameters = (ins EnumParameter<Ipu_Family>:$family,
    "uint32_t":$gridRows, "uint32_t":$gridColumns,
    DefaultValuedParameter<"uint32_t", "1">:$gridK,
    DefaultValuedParameter<"uint32_t", "1">:$steps,
    DefaultValuedParameter<"::ipu::Residency", "::ipu::Residency::Resident">:$weights,
    "::mlir::Type":$partials,
    "uint64_t":$computeCycles, "uint64_t":$exchangeCycles, "uint32_t":$candidates,
    OptionalArrayRefParameter<"::ipu::LayoutAttr">:$operands);
  let assemblyFormat = [{
    `<` $family `grid` $gridRows `x` $gridColumns (`k` $gridK^)? (`steps` $steps^)?
    (`weights` $weights^)? `,` `partials` $partials
    `,` `compute` $computeCycles `cycles` `,` `exchange` $exchangeCycles `cycles`
    `,` `best` `of` $candidates (`,` `operands` ` ` `[` $operands^ `]`)? `>`
  }];
  let genVerifyDecl = 1;
}

class Ipu_Op<string mnemonic, list<Trait> traits = []>
    : Op<Ipu_Dialect, mnemonic, traits # [RustVerified]>;

def Ipu_CandidateOp : Ipu_Op<"candidate", [Symbol, SymbolTable,
    IsolatedFromAbove, NoTerminator, SingleBlock, NoRegionArguments,
    RustVerifiedRegions]> {
  let summary = "one complete candidate program";
  let arguments = (ins SymbolNameAttr:$sym_name,
      OptionalAttr<I64Attr>:$estimated_cycles,
      OptionalAttr<I64Attr>:$scheduled_cycles,
      OptionalAttr<StrArrayAttr>:$reasons);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name (`estimated` $estimated_cycles^)? (`scheduled` $scheduled_cycles^)?
    (`because` $reasons^)? attr-dict-with-keyword $body
  }];
}

def Ipu_PackageOp : Ipu_Op<"package", [Symbol]> {
  let summary = "an emitted executable";
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$format, ElementsAttr:$blob);
  let assemblyFormat = "$sym_name `format` $format attr-dict `=` $blob";
}

#endif
