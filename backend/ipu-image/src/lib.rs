//! From a placed and scheduled tile program to a package: code, rows, images, container.
//!
//! Owns: the memory map of an image, the supervisor program of a tile, the encoding of exchange
//! rows, assembling and linking the kernels of `device/`, the package container, the timeline that
//! adds kernel laws and row horizons to scheduled cycles, and the sum of what a tile holds.
//!
//! Invariants: the same program gives the same bytes; every phase passes the independent checker
//! before a package exists; all tiles of the chip have an image and take part in every sync.
//!
//! Must not know: MLIR, how plans, schedules or addresses were found, devices.

pub mod emit;
pub mod memory;
pub mod package;
pub mod timeline;
