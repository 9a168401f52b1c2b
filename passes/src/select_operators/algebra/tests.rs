//! Tests of the algebra.

mod basics;
