//! Exchange rows to words.

use super::EmitError;
use super::code::Formats;
use ipu_exchange::row::{Instruction, RowError, instructions};
use ipu_isa::{EncodeError, encode};
use ipu_program::tile::{BufferId, Row, WIDE};
use ipu_target::Target;

/// Why a row has no words.
pub enum RowFailure {
    /// Its events break a rule.
    Row(RowError),
    /// A field does not hold its value.
    Encode(EncodeError),
    /// A buffer has no address.
    Emit(EmitError),
}

impl RowFailure {
    /// The error of emission, with the step's symbol.
    pub fn into_emit(self, step: &str) -> EmitError {
        match self {
            RowFailure::Row(error) => EmitError::Row {
                step: step.to_owned(),
                error,
            },
            RowFailure::Encode(error) => EmitError::Encode(error),
            RowFailure::Emit(error) => error,
        }
    }
}

impl From<EncodeError> for RowFailure {
    fn from(error: EncodeError) -> Self {
        RowFailure::Encode(error)
    }
}

/// Selectors of `sendpic`; 0 is the mux.
const SELECT_PAIR_MUX: i64 = 1;
const SELECT_POINTER: i64 = 2;
const SELECT_FORMAT: i64 = 3;

/// The words of a row, with its return. Counts in the encoding are one less than events; word
/// addresses are byte addresses over 4.
pub fn encode_row(
    formats: &Formats,
    target: &Target,
    row: &Row,
    address: &dyn Fn(BufferId) -> Result<u32, EmitError>,
) -> Result<Vec<u32>, RowFailure> {
    let word = |b: BufferId, offset: u32| {
        address(b)
            .map(|a| i64::from((a + offset) / 4))
            .map_err(RowFailure::Emit)
    };
    let count = |events: u32| i64::from(events) - 1;
    let list = instructions(target, row).map_err(RowFailure::Row)?;
    let mut out = Vec::with_capacity(list.len() + 1);
    for i in list {
        out.push(match i {
            Instruction::Delay(n) => encode(formats.delay, &[count(n)])?,
            Instruction::DelayPointer(n, b, o) => {
                encode(formats.delaypic, &[count(n), 0, word(b, o)?])?
            }
            Instruction::DelayMux(n, mux) => {
                encode(formats.delayxpic, &[count(n), 0, i64::from(mux)])?
            }
            Instruction::DelayPairMux(n, mux) => {
                encode(formats.delayxpic, &[count(n), 1, i64::from(mux)])?
            }
            Instruction::DelayFormat(n, value) => {
                encode(formats.delaypic, &[count(n), 1, i64::from(value)])?
            }
            Instruction::Send(n, b, o, direction) => {
                // Addresses count items.
                let words = if direction & WIDE == 0 { 1 } else { 2 };
                let item = word(b, o)? / words;
                encode(formats.send, &[count(n), item, i64::from(direction)])?
            }
            Instruction::SendOffset(n, direction) => {
                encode(formats.sendoff, &[count(n), 0, i64::from(direction)])?
            }
            Instruction::SendMux(n, mux) => {
                encode(formats.sendpic, &[count(n), 0, i64::from(mux)])?
            }
            Instruction::SendPointer(n, b, o) => {
                encode(formats.sendpic, &[count(n), SELECT_POINTER, word(b, o)?])?
            }
            Instruction::SendPairMux(n, mux) => encode(
                formats.sendpic,
                &[count(n), SELECT_PAIR_MUX, i64::from(mux)],
            )?,
            Instruction::SendFormat(n, value) => encode(
                formats.sendpic,
                &[count(n), SELECT_FORMAT, i64::from(value)],
            )?,
        });
    }
    formats.ret(&mut out)?;
    Ok(out)
}

/// Encodes rows of phases that belong to no program, with byte addresses for offsets.
pub struct RowEncoder(Formats);

impl RowEncoder {
    /// Looks up the instructions.
    ///
    /// # Errors
    /// The instruction table lacks one.
    pub fn new() -> Result<Self, EmitError> {
        Formats::load().map(RowEncoder)
    }

    /// The words of a row, with its return.
    ///
    /// # Errors
    /// Events that break a rule, or values that their fields do not hold; `step` names the phase
    /// in the message.
    pub fn encode(&self, target: &Target, row: &Row, step: &str) -> Result<Vec<u32>, EmitError> {
        encode_row(&self.0, target, row, &|_| Ok(0)).map_err(|e| e.into_emit(step))
    }
}
