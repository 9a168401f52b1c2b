// RUN: ipu-opt %s --split-input-file --verify-diagnostics --ipu-pick-finalist

// expected-error@+1 {{2 candidate(s), none fits: first reason}}
ipu.candidate @c0 attributes {infeasible = "first reason"} {
}
ipu.candidate @c1 attributes {infeasible = "second reason"} {
}
