//! Layers that repeat: a stack of equal layers as one `nn.repeat`, and back.
//!
//! [`roll()`] finds equal consecutive layers; [`unroll()`] writes the iterations of every repeat out,
//! which is how they are compiled.

mod roll;
#[cfg(test)]
mod tests;
mod unroll;

pub use roll::roll;
pub use unroll::{MAX_OPS, UnrollError, unroll};
