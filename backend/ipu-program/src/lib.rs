//! The plain structs of a program, from the model graph to the schedule of every tile.
//!
//! Owns: [`graph::Graph`] (what the model means), [`layout::Layout`] (where each element lives,
//! resolved once into shard rectangles), [`plan::Plan`] (how an operator is executed),
//! [`tile::TileProgram`] (what each tile does in which superstep) and the kernel registry
//! [`kernels::Kernels`] read from `device/kernels.ron`.
//!
//! Invariants: one decision has one representation. A plan is one struct from the search to the
//! emitter; cost, lowering, placement and interpreters all read [`layout::Layout::shards`] and
//! [`layout::ShardStorage`].
//!
//! Must not know: MLIR, instruction encodings, devices, how a plan is found.

pub mod graph;
pub mod kernels;
mod law;
pub mod layout;
pub mod plan;
pub mod runs;
pub mod tile;
pub mod types;
pub mod view;
