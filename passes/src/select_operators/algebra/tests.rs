//! Tests of the algebra.

mod basics;
mod build;
mod cases;
mod eval;
mod identity;
mod search;
mod slices;
mod soundness;
