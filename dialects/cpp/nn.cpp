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

/// `relu`
static ParseResult parseActivation(OpAsmParser &parser, nn::ActivationAttr &result) {
  StringRef word;
  auto location = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  auto kind = nn::symbolizeActivation(word);
  if (!kind)
    return parser.emitError(location) << "unknown activation '" << word << "', one of: none, relu";
  result = nn::ActivationAttr::get(parser.getContext(), *kind);
  return success();
}
static void printActivation(OpAsmPrinter &printer, Operation *, nn::ActivationAttr value) {
  printer << nn::stringifyActivation(value.getValue());
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

#include "NnEnums.cpp.inc"
#include "NnDialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "NnAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "NnOps.cpp.inc"

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Nn, nn, nn::NnDialect)
