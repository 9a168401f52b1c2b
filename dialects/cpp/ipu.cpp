// Registration of dialect ipu; its meaning is in dialects/src/{ipu,layout}.rs.
#include "hooks.h"

#include "mlir/CAPI/Registration.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/CAPI/Support.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"

#include "IpuEnums.h.inc"

#include "IpuDialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "IpuAttrs.h.inc"
#define GET_OP_CLASSES
#include "IpuOps.h.inc"

using namespace mlir;

void ipu::IpuDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "IpuAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "IpuOps.cpp.inc"
      >();
}

/// Passes a message of Rust to an MLIR diagnostic.
static LogicalResult report(function_ref<InFlightDiagnostic()> emitError,
                            function_ref<bool(MlirStringCallback, void *)> check) {
  std::string message;
  auto complain = [](MlirStringRef text, void *data) {
    *static_cast<std::string *>(data) += unwrap(text);
  };
  if (check(complain, &message))
    return success();
  return emitError() << message;
}

static std::array<uint32_t, IPU_LAYOUT_WORDS> layoutWords(ipu::LayoutAttr l) {
  return {l.getRowParts(),     l.getRowBlock(),     l.getRowStride(),     l.getRowUnit(),    l.getRowPeriod(),
          l.getRowGroup(),     l.getRowGroupStride(),
          l.getColumnParts(),  l.getColumnBlock(),  l.getColumnStride(),  l.getColumnUnit(), l.getColumnPeriod(),
          l.getColumnGroup(),  l.getColumnGroupStride(),
          l.getCopies(),       l.getCopyStride(),   l.getFirstTile(),
          uint32_t(l.getOrder()), uint32_t(l.getMemory())};
}

LogicalResult ipu::LayoutAttr::verify(function_ref<InFlightDiagnostic()> emitError, uint32_t rowParts,
                                      uint32_t rowBlock, uint32_t rowStride, uint32_t rowUnit,
                                      uint32_t rowPeriod, uint32_t rowGroup, uint32_t rowGroupStride, uint32_t columnParts, uint32_t columnBlock,
                                      uint32_t columnStride, uint32_t columnUnit, uint32_t columnPeriod,
                                      uint32_t columnGroup, uint32_t columnGroupStride, uint32_t copies,
                                      uint32_t copyStride, uint32_t firstTile, ElementOrder order,
                                      MemoryClass memory) {
  uint32_t words[] = {rowParts,   rowBlock,  rowStride,       rowUnit, rowPeriod, rowGroup, rowGroupStride,
                      columnParts, columnBlock, columnStride, columnUnit, columnPeriod, columnGroup, columnGroupStride, copies,
                      copyStride, firstTile, uint32_t(order), uint32_t(memory)};
  return report(emitError, [&](MlirStringCallback complain, void *data) {
    return ipuRustVerifyLayout(words, nullptr, -1, complain, data);
  });
}

LogicalResult ipu::LayoutAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                              function_ref<InFlightDiagnostic()> emitError) const {
  return report(emitError, [&](MlirStringCallback complain, void *data) {
    return ipuRustVerifyLayout(layoutWords(*this).data(), shape.data(), shape.size(), complain, data);
  });
}

LogicalResult ipu::PlanAttr::verify(function_ref<InFlightDiagnostic()> emitError, Family family,
                                    uint32_t gridRows, uint32_t gridColumns, uint32_t gridK, uint32_t steps,
                                    Residency weights, Type, uint64_t, uint64_t, uint32_t,
                                    ArrayRef<LayoutAttr>) {
  return report(emitError, [&](MlirStringCallback complain, void *data) {
    uint32_t numbers[] = {uint32_t(family), gridRows, gridColumns, gridK, steps, uint32_t(weights)};
    return ipuRustVerifyPlan(numbers, complain, data);
  });
}

extern "C" {
MlirAttribute ipuLayoutGet(MlirContext context, const uint32_t *w) {
  return wrap(Attribute(ipu::LayoutAttr::get(unwrap(context), w[0], w[1], w[2], w[3], w[4], w[5], w[6],
                                             w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14], w[15], w[16],
                                             ipu::ElementOrder(w[17]),
                                             ipu::MemoryClass(w[18]))));
}
bool ipuLayoutRead(MlirAttribute attribute, uint32_t *words) {
  auto layout = dyn_cast_or_null<ipu::LayoutAttr>(unwrap(attribute));
  if (layout)
    llvm::copy(layoutWords(layout), words);
  return bool(layout);
}

/// numbers: family, grid rows, grid columns, grid k, steps, weights, compute cycles, exchange cycles,
/// candidates
MlirAttribute ipuPlanGet(MlirType partials, const uint64_t *n, intptr_t operandCount,
                         const MlirAttribute *operands) {
  SmallVector<ipu::LayoutAttr> layouts;
  for (auto operand : ArrayRef(operands, operandCount))
    layouts.push_back(cast<ipu::LayoutAttr>(unwrap(operand)));
  auto type = unwrap(partials);
  return wrap(Attribute(ipu::PlanAttr::get(type.getContext(), ipu::Family(n[0]), n[1], n[2], n[3], n[4],
                                           ipu::Residency(n[5]), type, n[6], n[7], n[8], layouts)));
}
bool ipuPlanRead(MlirAttribute attribute, MlirType *partials, uint64_t *numbers, intptr_t *operandCount) {
  auto p = dyn_cast_or_null<ipu::PlanAttr>(unwrap(attribute));
  if (!p)
    return false;
  *partials = wrap(p.getPartials());
  llvm::copy(std::array<uint64_t, 9>{uint64_t(p.getFamily()), p.getGridRows(), p.getGridColumns(), p.getGridK(),
                                     p.getSteps(), uint64_t(p.getWeights()), p.getComputeCycles(), p.getExchangeCycles(), p.getCandidates()},
             numbers);
  *operandCount = p.getOperands().size();
  return true;
}
MlirAttribute ipuPlanOperand(MlirAttribute plan, intptr_t i) {
  return wrap(Attribute(cast<ipu::PlanAttr>(unwrap(plan)).getOperands()[i]));
}
}

#include "IpuEnums.cpp.inc"

#include "IpuDialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "IpuAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "IpuOps.cpp.inc"

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Ipu, ipu, ipu::IpuDialect)
