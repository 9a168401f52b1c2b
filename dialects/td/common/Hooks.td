// Traits whose checks are written in Rust (dialects/src/hooks.rs).
#ifndef IPU_COMMON_HOOKS_TD
#define IPU_COMMON_HOOKS_TD

include "mlir/IR/OpBase.td"

// The op is verified by the Rust function of its name.
def RustVerified : NativeOpTrait<"RustVerified"> {
  let cppNamespace = "::ipu";
}

// The same, after the ops in its regions are known to be valid.
def RustVerifiedRegions : NativeOpTrait<"RustVerifiedRegions"> {
  let cppNamespace = "::ipu";
}

#endif
