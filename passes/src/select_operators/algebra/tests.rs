//! Tests of the algebra.

mod basics;
mod build;
mod cases;
mod eval;
mod search;
mod soundness;
