// A round trip prints everything.
// UNSUPPORTED: roundtrip
//
// Large constants are elided in what people read, never in files.
// RUN: ipu-opt %s | FileCheck %s --check-prefix=DUMP
// RUN: ipu-opt %s -o %t && FileCheck %s --check-prefix=WHOLE < %t
// RUN: ipu-opt %s --mlir-elide-elementsattrs-if-larger=32 | FileCheck %s --check-prefix=WHOLE

// DUMP: dense_resource<__elided__> : tensor<17xf32>
// WHOLE: dense<[1.000000e+00, 2.000000e+00
func.func @main() -> tensor<17xf32> {
  %0 = nn.constant dense<[1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15., 16., 17.]> : tensor<17xf32>
  return %0 : tensor<17xf32>
}
