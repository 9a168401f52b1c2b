//! Scheduling of exchange phases, and, apart from it, the checker of encoded rows.
//!
//! Owns: [`schedule`] (transfers to timed events of every tile, with a lower bound as
//! certificate), [`row`] (events to exchange instructions in symbolic form) and [`check`] (an
//! independent reading of encoded rows: every word delivered once, nothing stray, no element
//! conflict).
//!
//! Invariants: a schedule obeys the legality rules of the chip (send and mux windows disjoint on
//! each tile, one control an event, no control in the first two events of a send, every row ends
//! with a neutral mux). `check` shares no code with `schedule` and `row`.
//!
//! Must not know: MLIR, operators, how buffers got their addresses.

pub mod check;
pub mod row;
pub mod schedule;
