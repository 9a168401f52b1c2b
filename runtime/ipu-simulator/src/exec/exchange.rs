//! Exchange rows: instructions that advance the row by an exact number of events.

use ipu_isa::Opcode;

use super::not_implemented;
use crate::code::Issue;
use crate::csr;
use crate::fabric::{Link, Stream};
use crate::fault::Reason;

/// Bits of a mux value.
const MUX: u32 = 0x1fff;

/// Executes a row instruction issued at `clock`; returns its events. `base` reads a control
/// register of the supervisor, `pc` is its own address.
pub(crate) fn row(
    issue: &Issue,
    link: &mut Link,
    clock: u64,
    pc: u32,
    base: impl Fn(u32) -> u32,
) -> Result<u64, Reason> {
    use Opcode as O;
    let op = &issue.main;
    let events = u64::from(op.imm) + 1;
    let (control, select) = (op.r[0], op.r[1]);
    let send = |address: u32| Stream {
        address: base(csr::OUTGOING_BASE).wrapping_add(address << 2),
        control,
    };
    let pointer = |word: u32| base(csr::INCOMING_BASE).wrapping_add(word << 2);
    match op.opcode {
        O::Delay => return Ok(events),
        O::Delaypic => {
            match (select, op.imm2) {
                (0, word) => link.set_pointer(clock + events, pointer(word)),
                (_, 0) => {}
                _ => return Err(paired()),
            }
            return Ok(events);
        }
        O::Delayxpic => {
            if select != 0 {
                return Err(paired());
            }
            link.set_mux(clock + events, op.imm2 & MUX);
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
            match select {
                0 => link.set_mux(clock + 1, op.imm2 & MUX),
                2 => link.set_pointer(clock + 1, pointer(op.imm2)),
                _ => return Err(paired()),
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
            if select != 0 || data >> 31 != 0 {
                return Err(paired());
            }
            link.set_mux(clock + 1, data >> 18 & MUX);
            link.set_pointer(clock + 1, pointer(data & 0x3_ffff));
            if control == 0 {
                return Ok(events);
            }
            link.stream = Some(send(op.imm2));
        }
        _ => return Err(not_implemented(op.opcode)),
    }
    if link.stream.is_some_and(|s| s.control & 4 != 0) {
        return Err(paired());
    }
    link.sending_until = clock + events;
    Ok(events)
}

fn paired() -> Reason {
    Reason::NotImplemented("64-bit paired exchange".to_string())
}
