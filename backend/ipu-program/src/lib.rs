//! The plain structs of a program, from the model graph to the schedule of every tile.
//!
//! Owns: [`graph::Graph`] (what the model means), [`host`] (which values of it the host knows before a
//! run, and the functions that compute them), [`infer`] (which operands an operator takes and
//! the type of its result), [`layout::Layout`] (where each element lives, resolved once into shard
//! rectangles), [`plan::Plan`] (how an operator is executed), [`strided::Strided`] (a value as
//! another in a different order), [`tile::TileProgram`] (what each tile does in which superstep),
//! [`view::Walk`] (what a rearrangement moves, checked), [`runs`] (the tables of `copy_runs`) and
//! the kernel registry [`kernels::Kernels`] with its cycle laws, read from `device/kernels.ron`.
//!
//! Invariants: one decision has one representation. A plan is one struct from the search to the
//! emitter; cost, lowering, placement and interpreters all read [`layout::Layout::shards`] and
//! [`layout::ShardStorage`]. Shapes are in elements, offsets of tile programs in bytes, transfers in
//! words of 4 bytes, times in tile cycles.
//!
//! Must not know: MLIR, instruction encodings, devices, how a plan is found.

pub mod graph;
pub mod host;
pub mod infer;
pub mod kernels;
mod law;
pub mod layout;
pub mod plan;
pub mod runs;
pub mod strided;
pub mod tile;
pub mod types;
pub mod view;
