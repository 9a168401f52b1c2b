// What the dialects share: functions of dialects/src/hooks.rs that C++ calls.
#pragma once

#include "mlir-c/IR.h"
#include "mlir-c/Rewrite.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/CAPI/IR.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"

constexpr int IPU_LAYOUT_WORDS = 19;

extern "C" {
MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(Nn, nn);
MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(Ipu, ipu);
MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(Tile, tile);

bool ipuRustVerify(MlirOperation op);
bool ipuRustVerifyRegions(MlirOperation op);
bool ipuRustCanonicalize(MlirOperation op, MlirRewriterBase rewriter);
/// Checks a layout (words in the order of `Layout`), and against a shape unless rank < 0.
bool ipuRustVerifyLayout(const uint32_t *words, const int64_t *shape, intptr_t rank,
                         MlirStringCallback complain, void *data);
/// Checks the numbers of a plan: family, grid rows, grid columns, grid k, steps, weights.
bool ipuRustVerifyPlan(const uint32_t *numbers, MlirStringCallback complain, void *data);
}

namespace ipu {
template <typename Op>
struct RustVerified : mlir::OpTrait::TraitBase<Op, RustVerified> {
  static llvm::LogicalResult verifyTrait(mlir::Operation *op) {
    return llvm::success(ipuRustVerify(wrap(op)));
  }
};
template <typename Op>
struct RustVerifiedRegions : mlir::OpTrait::TraitBase<Op, RustVerifiedRegions> {
  static llvm::LogicalResult verifyRegionTrait(mlir::Operation *op) {
    return llvm::success(ipuRustVerifyRegions(wrap(op)));
  }
};
} // namespace ipu
