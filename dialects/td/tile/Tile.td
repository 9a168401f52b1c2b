// Dialect tile: what each tile does in which superstep. One op a buffer, binding or superstep;
// what differs from tile to tile stands in tables (DenseI32Array), see cpp/tile.cpp.
#ifndef TILE_TD
#define TILE_TD

include "common/Hooks.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let summary = "Programs of tiles, superstep by superstep";
  let description = [{
    Buffers and steps have names like symbols, but are not symbols of MLIR: a step may have the
    name of a buffer, and steps refer to buffers of their own program only.
  }];
  let cppNamespace = "::tile";
}

class Tile_Op<string mnemonic, list<Trait> traits = []>
    : Op<Tile_Dialect, mnemonic, traits # [RustVerified]>;
class Tile_Part<string mnemonic> : Tile_Op<mnemonic, [HasParent<"ProgramOp">]>;

def Tile_ProgramOp : Tile_Op<"program", [IsolatedFromAbove, NoTerminator, SingleBlock,
    NoRegionArguments, RustVerifiedRegions]> {
  let summary = "a whole program; inputs arrive before its first step, outputs leave after its last";
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$tiles,
      OptionalAttr<I64Attr>:$rows_bytes, OptionalAttr<I64Attr>:$rows_address);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `on` $tiles `tiles` (`rows` $rows_bytes^ `bytes` `at` custom<Address>($rows_address))?
    attr-dict-with-keyword $body
  }];
}

def Tile_HostOp : Tile_Op<"host", [HasParent<"ProgramOp">, SymbolTable, IsolatedFromAbove,
    NoTerminator, SingleBlock, NoRegionArguments]> {
  let summary = "functions that the host executes: of parameters and constants before the first run, of the arguments at each run";
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "attr-dict-with-keyword $body";
}

def Tile_BufferOp : Tile_Part<"buffer"> {
  let summary = "storage for one tensor at the same address of each tile of its layout";
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type, I64Attr:$align,
      DefaultValuedAttr<I64Attr, "0">:$tail, OptionalAttr<I64Attr>:$first_step,
      OptionalAttr<I64Attr>:$last_step, OptionalAttr<I64Attr>:$address);
  let assemblyFormat = [{
    $sym_name `:` $type `align` $align (`tail` $tail^)?
    (`live` $first_step^ `to` $last_step)? (`at` custom<Address>($address)^)? attr-dict
  }];
}

def Tile_BindOp : Tile_Part<"bind"> {
  let summary = "a buffer that the host writes or reads";
  let arguments = (ins FlatSymbolRefAttr:$buffer, OptionalAttr<I64Attr>:$input,
      OptionalAttr<I64Attr>:$output, OptionalAttr<StrAttr>:$parameter,
      OptionalAttr<TypeAttr>:$type, OptionalAttr<ElementsAttr>:$value,
      OptionalAttr<FlatSymbolRefAttr>:$host, OptionalAttr<I64Attr>:$result);
  let assemblyFormat = [{
    $buffer `to` (`input` $input^)? (`output` $output^)? (`parameter` $parameter^ `:` $type)?
    (`constant` $value^)? (`host` $host^ `result` $result)? attr-dict
  }];
}

def Tile_ComputeOp : Tile_Part<"compute"> {
  let summary = "one kernel on some tiles, with words for each";
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$kernel,
      TypedArrayAttrBase<FlatSymbolRefAttr, "buffers">:$buffers,
      DenseI32ArrayAttr:$tiles, DenseI32ArrayAttr:$words,
      OptionalAttr<I64Attr>:$table);
  let assemblyFormat = [{
    $sym_name $kernel `` custom<Buffers>($buffers) custom<Calls>($tiles, $words, $table) attr-dict
  }];
}

def Tile_RearrangeOp : Tile_Part<"rearrange"> {
  let summary = "a conversion between layouts that is not lowered yet";
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$source,
      FlatSymbolRefAttr:$destination, OptionalAttr<DenseI64ArrayAttr>:$view);
  let assemblyFormat = [{
    $sym_name `from` $source `to` $destination custom<View>($view) attr-dict
  }];
}

def Tile_ExchangeOp : Tile_Part<"exchange"> {
  let summary = "tiles exchange words; the schedule says when";
  let arguments = (ins SymbolNameAttr:$sym_name,
      TypedArrayAttrBase<FlatSymbolRefAttr, "buffers">:$buffers,
      DenseI32ArrayAttr:$copies, OptionalAttr<DenseI32ArrayAttr>:$schedule,
      OptionalAttr<DictionaryAttr>:$certificate);
  let assemblyFormat = [{
    $sym_name custom<Exchange>($buffers, $copies, $schedule) attr-dict
  }];
}

#endif
