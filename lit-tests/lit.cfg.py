# FileCheck tests of the tools, run by `cargo test -p ipu-opt --test lit` or by hand:
#   IPU_TOOLS_DIR=target/debug lit -v lit-tests
# IPU_VERIFY_ROUNDTRIP=1 makes every ipu-opt print and reparse its input as well.
import os

import lit.formats

config.name = "ipu"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
llvm = os.environ.get("MLIR_SYS_220_PREFIX", "/usr/lib/llvm-22")
tools = os.environ.get("IPU_TOOLS_DIR", os.path.join(root, "target", "debug"))
config.test_source_root = os.path.join(root, "lit-tests")
config.test_exec_root = os.environ.get("IPU_LIT_OUTPUT", os.path.join(root, "target", "lit"))
config.environment["PATH"] = os.pathsep.join(
    [tools, os.path.join(llvm, "bin"), os.environ.get("PATH", "")]
)
for variable in ["RUST_BACKTRACE"]:
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]

# REQUIRES: ipu-run, and so on for every tool that was built.
if os.path.isdir(tools):
    for name in sorted(os.listdir(tools)):
        if name.startswith("ipu-") and os.access(os.path.join(tools, name), os.X_OK):
            config.available_features.add(name)

if os.environ.get("IPU_VERIFY_ROUNDTRIP"):
    config.available_features.add("roundtrip")
    config.substitutions.append((r"\bipu-opt\b(?!/)", "ipu-opt --verify-roundtrip"))
