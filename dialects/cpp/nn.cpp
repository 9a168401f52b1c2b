// Registration of dialect nn; its meaning is in dialects/src/nn.rs.
#include "hooks.h"

#include "mlir/CAPI/Registration.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/CAPI/Rewrite.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/InliningUtils.h"

#include "NnEnums.h.inc"
#include "NnDialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "NnAttrs.h.inc"
#define GET_OP_CLASSES
#include "NnOps.h.inc"

using namespace mlir;

namespace {
/// Every op of the dialect may be inlined: none has an effect.
struct Inliner : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;
  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final { return true; }
  /// Into the body of a repeat.
  bool isLegalToInline(Region *, Region *, bool, IRMapping &) const final { return true; }
};
/// Hands each op of the dialect to Rust.
struct RustPattern : RewritePattern {
  explicit RustPattern(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const final {
    if (op->getName().getDialectNamespace() != "nn")
      return failure();
    return success(
        ipuRustCanonicalize(wrap(op), wrap(static_cast<RewriterBase *>(&rewriter))));
  }
};
} // namespace

void nn::NnDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "NnAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "NnOps.cpp.inc"
      >();
  addInterfaces<Inliner>();
}

void nn::NnDialect::getCanonicalizationPatterns(RewritePatternSet &patterns) const {
  patterns.add<RustPattern>(getContext());
}

/// One of the words of an enum, `relu`.
template <typename Attr>
static ParseResult parseWord(OpAsmParser &parser, Attr &result) {
  using Kind = decltype(result.getValue());
  StringRef word;
  auto location = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  if (auto kind = nn::symbolizeEnum<Kind>(word)) {
    result = Attr::get(parser.getContext(), *kind);
    return success();
  }
  auto error = parser.emitError(location)
               << "unknown " << Attr::getMnemonic() << " '" << word << "', one of: ";
  for (uint32_t i = 0; !nn::stringifyEnum(Kind(i)).empty(); ++i)
    error << (i ? ", " : "") << nn::stringifyEnum(Kind(i));
  return error;
}
template <typename Attr>
static void printWord(OpAsmPrinter &printer, Operation *, Attr value) {
  printer << nn::stringifyEnum(value.getValue());
}

/// `T` when operand and result have one type, `(T) -> U` otherwise.
static ParseResult parseUnaryType(OpAsmParser &parser, Type &input, Type &result) {
  if (parser.parseOptionalLParen()) {
    if (parser.parseType(input))
      return failure();
    result = input;
    return success();
  }
  return failure(parser.parseType(input) || parser.parseRParen() || parser.parseArrow() ||
                 parser.parseType(result));
}
static void printUnaryType(OpAsmPrinter &printer, Operation *, Type input, Type result) {
  if (input == result)
    printer << input;
  else
    printer << '(' << input << ") -> " << result;
}

/// `(%a = %x, %b = %y) : T, U { .. }` when arguments and results have the types of the operands,
/// `(%a : A = %x) : (T) -> U { .. }` otherwise.
static ParseResult parseCarried(OpAsmParser &parser,
                                SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands,
                                SmallVectorImpl<Type> &types, SmallVectorImpl<Type> &results,
                                Region &body) {
  SmallVector<OpAsmParser::Argument> arguments;
  auto one = [&]() -> ParseResult {
    Type type;
    if (parser.parseArgument(arguments.emplace_back()) ||
        (succeeded(parser.parseOptionalColon()) && parser.parseType(type)) ||
        parser.parseEqual() || parser.parseOperand(operands.emplace_back()))
      return failure();
    arguments.back().type = type;
    return success();
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, one) || parser.parseColon())
    return failure();
  auto location = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalLParen())) {
    if (failed(parser.parseOptionalRParen()) &&
        (parser.parseTypeList(types) || parser.parseRParen()))
      return failure();
    if (parser.parseArrowTypeList(results))
      return failure();
  } else {
    if (parser.parseTypeList(types))
      return failure();
    results.assign(types.begin(), types.end());
  }
  if (types.size() != operands.size())
    return parser.emitError(location)
           << types.size() << " types for " << operands.size() << " carried values";
  for (auto [argument, type] : llvm::zip(arguments, types))
    if (!argument.type)
      argument.type = type;
  return parser.parseRegion(body, arguments, /*enableNameShadowing=*/true);
}
static void printCarried(OpAsmPrinter &printer, Operation *, OperandRange operands, TypeRange types,
                         TypeRange results, Region &body) {
  auto arguments = body.getArguments();
  bool same = types == results && TypeRange(arguments) == types;
  printer << '(';
  llvm::interleaveComma(llvm::zip(arguments, operands), printer, [&](auto pair) {
    printer << std::get<0>(pair);
    if (!same)
      printer << " : " << std::get<0>(pair).getType();
    printer << " = " << std::get<1>(pair);
  });
  printer << ") : ";
  if (same)
    llvm::interleaveComma(types, printer);
  else
    printer.printFunctionalType(types, results);
  printer << ' ';
  printer.printRegion(body, /*printEntryBlockArgs=*/false);
}

#include "NnEnums.cpp.inc"
#include "NnDialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "NnAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "NnOps.cpp.inc"

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Nn, nn, nn::NnDialect)
