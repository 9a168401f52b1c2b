//! Exchange rows: instructions that advance the row by an exact number of events.

use ipu_isa::Opcode;

use super::not_implemented;
use crate::code::Issue;
use crate::csr;
use crate::fabric::{Link, PAIRED, Stream};
use crate::fault::Reason;

/// Bits of a mux value.
const MUX: u32 = 0x1fff;

/// Executes a row instruction issued at `clock`; returns its events. `base` reads a control
/// register of the supervisor, `pc` is its own address, `tiles` the size of the chip.
pub(crate) fn row(
    issue: &Issue,
    link: &mut Link,
    clock: u64,
    pc: u32,
    tiles: usize,
    base: impl Fn(u32) -> u32,
) -> Result<u64, Reason> {
    use Opcode as O;
    let op = &issue.main;
    let events = u64::from(op.imm) + 1;
    let (control, select) = (op.r[0], op.r[1]);
    let send = |address: u32| Stream {
        address: base(csr::OUTGOING_BASE).wrapping_add(address << item_shift(control)),
        control,
    };
    let pointer = |word: u32| base(csr::INCOMING_BASE).wrapping_add(word << 2);
    // A control that takes effect at an event: bit 0 of the selector is the paired side.
    let mux = |link: &mut Link, event: u64, paired: bool, value: u32| {
        if paired {
            link.set_pair_mux(event, value & MUX, tiles)
        } else {
            link.set_mux(event, value & MUX);
            Ok(())
        }
    };
    let incoming = |link: &mut Link, event: u64, format: bool, value: u32| {
        if !format {
            link.set_pointer(event, pointer(value));
        } else if value > 2 {
            return Err(Reason::InvalidOperand {
                operand: "incoming format",
                value,
            });
        } else {
            link.set_format(event, value);
        }
        Ok(())
    };
    match op.opcode {
        O::Delay => return Ok(events),
        O::Delaypic => {
            incoming(link, clock + events, select != 0, op.imm2)?;
            return Ok(events);
        }
        O::Delayxpic => {
            mux(link, clock + events, select != 0, op.imm2)?;
            return Ok(events);
        }
        O::Send => link.stream = Some(send(op.imm2)),
        O::Sendoff => {
            if op.imm2 != 0 {
                return Err(Reason::NotImplemented(format!(
                    "sendoff with delta {}",
                    op.imm2
                )));
            }
            link.stream.as_mut().ok_or(Reason::NoStream)?.control = control;
        }
        O::Sendpic => {
            if select < 2 {
                mux(link, clock + 1, select != 0, op.imm2)?;
            } else {
                incoming(link, clock + 1, select != 2, op.imm2)?;
            }
            link.stream.ok_or(Reason::NoStream)?;
        }
        O::Sendpicp => {
            if !pc.is_multiple_of(8) {
                return Err(Reason::Misaligned {
                    address: pc,
                    bytes: 8,
                });
            }
            let data = issue.aux.imm;
            mux(link, clock + 1, data >> 31 != 0, data >> 18)?;
            incoming(link, clock + 1, select != 0, data & 0x3_ffff)?;
            if control == 0 {
                return Ok(events);
            }
            link.stream = Some(send(op.imm2));
        }
        _ => return Err(not_implemented(op.opcode)),
    }
    link.sending_until = clock + events;
    Ok(events)
}

/// Shift from item addresses to bytes.
pub(crate) fn item_shift(control: u8) -> u32 {
    if control & PAIRED != 0 { 3 } else { 2 }
}
