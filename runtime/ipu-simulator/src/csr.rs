//! Numbers and bits of the control and status registers.

/// Lower space, both kinds of context: program counter.
pub(crate) const PC: u32 = 0;
/// Worker status; the context number in bits 2:0.
pub(crate) const WSR: u32 = 1;
/// Worker: vertex base.
pub(crate) const VERTEX_BASE: u32 = 2;
/// Worker: base of its private scratch.
pub(crate) const WORKER_BASE: u32 = 3;
/// Worker: repetitions left.
pub(crate) const REPEAT_COUNT: u32 = 4;
/// Worker: first bundle of the body.
pub(crate) const REPEAT_FIRST: u32 = 5;
/// Worker: last bundle of the body.
pub(crate) const REPEAT_END: u32 = 6;
/// Cycle counter, low half.
pub(crate) const COUNT_L: u32 = 96;
/// Cycle counter, high half.
pub(crate) const COUNT_U: u32 = 97;
/// Debug scratch.
pub(crate) const DBG_DATA: u32 = 112;

/// Supervisor status; consensus of the workers in bit 0.
pub(crate) const SSR: u32 = 1;
/// Supervisor control: bit 0 clears, bit 1 sets the consensus, bit 2 zeroes the weights.
pub(crate) const CR: u32 = 2;
/// Physical tile number.
pub(crate) const TILE_ID: u32 = 3;
/// Launch value of `FP_CTL`.
pub(crate) const FP_ICTL: u32 = 32;
/// First of six: scratch base of a worker.
pub(crate) const WORKER0_BASE: u32 = 33;
/// Last of six.
pub(crate) const WORKER5_BASE: u32 = 38;
/// Launch value of `FP_NFMT`.
pub(crate) const FP_INFMT: u32 = 49;
/// Launch value of `FP_SCL`.
pub(crate) const FP_ISCL: u32 = 51;
/// Address of the next weight.
pub(crate) const CCCSLOAD: u32 = 80;
/// Context states, two bits each.
pub(crate) const CTXT_STS: u32 = 114;
/// Source of incoming words.
pub(crate) const INCOMING_MUX: u32 = 160;
/// Source of the partner's words.
pub(crate) const INCOMING_MUXPAIR: u32 = 161;
/// Unknown step of the incoming pointer.
pub(crate) const INCOMING_DELTA: u32 = 162;
/// Format of incoming items.
pub(crate) const INCOMING_FORMAT: u32 = 163;
/// Byte address added to incoming pointers.
pub(crate) const INCOMING_BASE: u32 = 164;
/// Words that `sync 0` still waits for.
pub(crate) const INCOMING_DCOUNT: u32 = 166;
/// Writing it is `strap`.
pub(crate) const STRAP: u32 = 255;
/// The last exchange register.
pub(crate) const EXCHANGE_LAST: u32 = 171;
/// Byte address added to outgoing addresses.
pub(crate) const OUTGOING_BASE: u32 = 167;
/// Unknown step of the outgoing pointer.
pub(crate) const OUTGOING_DELTA: u32 = 168;

/// Upper worker space: sticky flags.
pub(crate) const FP_STS: u32 = 0;
/// Clears flags; bit 3 zeroes the accumulators.
pub(crate) const FP_CLR: u32 = 1;
/// Traps and rounding.
pub(crate) const FP_CTL: u32 = 2;
/// First of four words of generator state.
pub(crate) const PRNG_FIRST: u32 = 3;
/// The last of them.
pub(crate) const PRNG_LAST: u32 = 6;
/// Seeds the generator.
pub(crate) const PRNG_SEED: u32 = 7;
/// Scalar operand of `axpy` and `mix`.
pub(crate) const TAS: u32 = 8;
/// f8 formats.
pub(crate) const FP_NFMT: u32 = 9;
/// f8 scale.
pub(crate) const FP_SCL: u32 = 10;

/// Invalid operation.
pub(crate) const FLAG_INVALID: u32 = 1;
/// Division by zero.
pub(crate) const FLAG_DIV0: u32 = 2;
/// Overflow.
pub(crate) const FLAG_OVERFLOW: u32 = 4;
/// All flags.
pub(crate) const FLAGS: u32 = 7;
/// `FP_CLR`: zero the accumulators.
pub(crate) const CLEAR_ACCUMULATORS: u32 = 8;
