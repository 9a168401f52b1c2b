// Rust passes in MLIR's own registry, and the driver behind `mlir-opt`.
// The other side is dialects/src/{pass,driver,diag}.rs.
#include "hooks.h"

#include "mlir-c/Dialect/Func.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"
#include "mlir/CAPI/Support.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;

extern "C" {
struct IpuOption {
  MlirStringRef name, help, text;
  int32_t kind; // 0 integer, 1 bool, 2 string, 3 list of integers
  int64_t number;
};
struct IpuPass {
  MlirStringRef name, help, anchor; // no anchor: any op
  const IpuOption *options;
  intptr_t optionCount;
  const void *definition; // the Rust PassDef
};
bool ipuRustRunPass(const void *definition, MlirOperation op, const void *pass);
}

static void addDialects(DialectRegistry &registry) {
  for (auto handle : {mlirGetDialectHandle__func__(), mlirGetDialectHandle__nn__(),
                      mlirGetDialectHandle__ipu__(), mlirGetDialectHandle__tile__()})
    mlirDialectHandleInsertDialect(handle, wrap(&registry));
  func::registerInlinerExtension(registry);
}

namespace {
struct RustPass final : Pass {
  RustPass(const IpuPass *def, TypeID id)
      : Pass(id, def->anchor.length ? std::optional<StringRef>(unwrap(def->anchor)) : std::nullopt),
        def(def), id(id) {
    for (auto &o : ArrayRef(def->options, def->optionCount)) {
      auto name = unwrap(o.name);
      auto help = llvm::cl::desc(unwrap(o.help));
      auto &slot = slots.emplace_back();
      if (o.kind == 0)
        slot.number = std::make_unique<Option<int64_t>>(*this, name, help, llvm::cl::init(o.number));
      else if (o.kind == 1)
        slot.flag = std::make_unique<Option<bool>>(*this, name, help, llvm::cl::init(o.number != 0));
      else if (o.kind == 2)
        slot.text = std::make_unique<Option<std::string>>(*this, name, help,
                                                          llvm::cl::init(unwrap(o.text).str()));
      else
        slot.list = std::make_unique<ListOption<int64_t>>(*this, name, help);
    }
  }
  StringRef getName() const override { return unwrap(def->name); }
  StringRef getArgument() const override { return unwrap(def->name); }
  StringRef getDescription() const override { return unwrap(def->help); }
  void getDependentDialects(DialectRegistry &registry) const override { addDialects(registry); }
  bool canScheduleOn(RegisteredOperationName op) const override {
    return !getOpName() || *getOpName() == op.getStringRef();
  }
  std::unique_ptr<Pass> clonePass() const override { return std::make_unique<RustPass>(def, id); }
  void runOnOperation() override {
    if (!ipuRustRunPass(def->definition, wrap(getOperation()), this))
      signalPassFailure();
  }

  struct Slot {
    std::unique_ptr<Option<int64_t>> number;
    std::unique_ptr<Option<bool>> flag;
    std::unique_ptr<Option<std::string>> text;
    std::unique_ptr<ListOption<int64_t>> list;
  };
  const IpuPass *def;
  TypeID id;
  std::vector<Slot> slots;
};
} // namespace

static const RustPass::Slot &slot(const void *pass, intptr_t i) {
  return static_cast<const RustPass *>(pass)->slots[i];
}

extern "C" {
int64_t ipuPassInt(const void *pass, intptr_t i) { return *slot(pass, i).number; }
bool ipuPassBool(const void *pass, intptr_t i) { return *slot(pass, i).flag; }
MlirStringRef ipuPassStr(const void *pass, intptr_t i) {
  return wrap(StringRef(slot(pass, i).text->getValue()));
}
void ipuPassInts(const void *pass, intptr_t i, const int64_t **data, intptr_t *length) {
  ArrayRef<int64_t> list = *slot(pass, i).list;
  *data = list.data();
  *length = list.size();
}

/// `def` and all it points to must live for ever.
void ipuRegisterPass(const IpuPass *def) {
  static TypeIDAllocator ids;
  TypeID id = ids.allocate();
  registerPass([def, id] { return std::make_unique<RustPass>(def, id); });
}

void ipuRegisterUpstreamPasses() { registerTransformsPasses(); }

/// Calls `each` for every registered pass and pipeline. MLIR keeps its registry
/// to itself, but offers it to the command line, where it can be read.
void ipuForEachPass(void (*each)(MlirStringRef name, MlirStringRef help, void *data), void *data) {
  auto parser = std::make_unique<PassPipelineCLParser>("", "");
  SmallVector<const PassRegistryEntry *> entries;
  SmallVector<llvm::cl::Option *> options;
  for (auto &[name, option] : llvm::cl::getRegisteredOptions()) {
    if (name == "pass-pipeline")
      options.push_back(option);
    const PassRegistryEntry *entry = PassInfo::lookup(name);
    if (!entry)
      entry = PassPipelineInfo::lookup(name);
    if (!entry)
      continue;
    if (entries.empty())
      options.push_back(option);
    entries.push_back(entry);
  }
  for (auto *option : options)
    option->removeArgument();
  for (auto *entry : entries)
    each(wrap(entry->getPassArgument()), wrap(entry->getPassDescription()), data);
}

void ipuAddDialects(MlirDialectRegistry registry) { addDialects(*unwrap(registry)); }

MlirModule ipuParseModule(MlirContext context, MlirStringRef text, MlirStringRef file) {
  ParserConfig config(unwrap(context));
  auto module = parseSourceString<ModuleOp>(unwrap(text), config, unwrap(file));
  return MlirModule{module.release().getAsOpaquePointer()};
}

void ipuHidePrintedOps(MlirContext context) { unwrap(context)->printOpOnDiagnostic(false); }

/// severity 0 error, 1 warning, 2 remark
void ipuEmit(MlirLocation location, int severity, MlirStringRef message, intptr_t noteCount,
             const MlirLocation *notes, const MlirStringRef *noteTexts) {
  auto d = severity == 0   ? emitError(unwrap(location))
           : severity == 1 ? emitWarning(unwrap(location))
                           : emitRemark(unwrap(location));
  d << unwrap(message);
  for (intptr_t i = 0; i < noteCount; ++i)
    d.attachNote(unwrap(notes[i])) << unwrap(noteTexts[i]);
}

/// The bytes of a dense or resource attribute; false when it has none (elided).
bool ipuElementsBytes(MlirAttribute attribute, const char **data, intptr_t *length) {
  ArrayRef<char> bytes;
  if (auto dense = dyn_cast<DenseElementsAttr>(unwrap(attribute)))
    bytes = dense.getRawData();
  else if (auto array = dyn_cast<DenseArrayAttr>(unwrap(attribute)))
    bytes = array.getRawData();
  else if (auto resource = dyn_cast<DenseResourceElementsAttr>(unwrap(attribute))) {
    auto *blob = resource.getRawHandle().getBlob();
    if (!blob)
      return false;
    bytes = blob->getData();
  } else
    return false;
  *data = bytes.data();
  *length = bytes.size();
  return true;
}

/// A resource attribute that owns a copy of `data`.
MlirAttribute ipuResource(MlirType type, MlirStringRef name, const char *data, intptr_t length) {
  auto blob = HeapAsmResourceBlob::allocateAndCopyWithAlign(ArrayRef(data, length), 16);
  return wrap(Attribute(
      DenseResourceElementsAttr::get(cast<ShapedType>(unwrap(type)), unwrap(name), std::move(blob))));
}

/// `mlir-opt` with our dialects; `accept` sees the input first.
int ipuOptMain(int argc, char **argv, bool (*accept)(MlirStringRef file, MlirStringRef text)) {
  DialectRegistry registry;
  addDialects(registry);
  llvm::cl::opt<std::string> input(llvm::cl::Positional, llvm::cl::desc("<input file>"), llvm::cl::init("-"));
  llvm::cl::opt<std::string> output("o", llvm::cl::desc("Output filename"),
                                    llvm::cl::value_desc("filename"), llvm::cl::init("-"));
  auto help = registerCLIOptions("IPU21 optimizer driver", registry);
  if (!llvm::cl::ParseCommandLineOptions(argc, argv, help, &llvm::errs()))
    return 2;
  auto config = MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects()) {
    llvm::outs() << "Available Dialects: ";
    llvm::interleaveComma(registry.getDialectNames(), llvm::outs());
    llvm::outs() << "\n";
    return 0;
  }
  std::string error;
  auto file = openInputFile(input, &error);
  if (!file) {
    llvm::errs() << "error: " << error << "\n";
    return 1;
  }
  if (!accept(wrap(file->getBufferIdentifier()), wrap(file->getBuffer())))
    return 1;
  auto out = openOutputFile(output, &error);
  if (!out) {
    llvm::errs() << "error: " << error << "\n";
    return 1;
  }
  if (failed(MlirOptMain(out->os(), std::move(file), registry, config)))
    return 1;
  out->keep();
  return 0;
}
}
