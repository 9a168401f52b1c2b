//! From the events of a row to exchange instructions in symbolic form.
//!
//! An instruction advances the row by a number of events; `delaypic` and `delayxpic` set their
//! control at their end, `sendpic` at its first event plus one. Because a schedule has at most
//! one control an event and none in the first two events of a send, every row can be encoded.

use ipu_program::tile::{BufferId, Event, Row, WIDE};
use ipu_target::Target;
use ipu_target::geometry::Physical;

/// One exchange instruction with a symbolic address. Counts are events, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Nothing for a number of events.
    Delay(u32),
    /// Sets the incoming pointer at its end.
    DelayPointer(u32, BufferId, u32),
    /// Sets the mux at its end (physical tile or the neutral id).
    DelayMux(u32, u32),
    /// Sets the pair's mux at its end (physical tile or the neutral id, as the tile must name it).
    DelayPairMux(u32, u32),
    /// Sets the incoming format at its end.
    DelayFormat(u32, u32),
    /// Starts a stream: count of items, buffer, byte offset, direction with the width of items.
    Send(u32, BufferId, u32, u8),
    /// Continues the stream: count of items, direction with the width of items.
    SendOffset(u32, u8),
    /// Continues the stream and sets the mux at its first event plus one.
    SendMux(u32, u32),
    /// Continues the stream and sets the incoming pointer at its first event plus one.
    SendPointer(u32, BufferId, u32),
    /// Continues the stream and sets the pair's mux at its first event plus one.
    SendPairMux(u32, u32),
    /// Continues the stream and sets the incoming format at its first event plus one.
    SendFormat(u32, u32),
}

impl Instruction {
    /// Events that it advances.
    pub fn events(&self) -> u32 {
        match *self {
            Instruction::Delay(n)
            | Instruction::DelayPointer(n, ..)
            | Instruction::DelayMux(n, _)
            | Instruction::DelayPairMux(n, _)
            | Instruction::DelayFormat(n, _)
            | Instruction::Send(n, ..)
            | Instruction::SendOffset(n, _)
            | Instruction::SendMux(n, _)
            | Instruction::SendPointer(n, ..)
            | Instruction::SendPairMux(n, _)
            | Instruction::SendFormat(n, _) => n,
        }
    }
}

/// A row that cannot be encoded: a scheduler bug, or hand-written events.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("row of tile {tile}: the events at {at} cannot be encoded ({why})")]
pub struct RowError {
    /// Logical tile.
    pub tile: u32,
    /// Event number.
    pub at: u32,
    /// Rule that is broken.
    pub why: &'static str,
}

/// The instructions of a row, without the final return.
///
/// # Errors
/// Two controls or two sends at one event, a control in the first two events of a send, an event
/// before 1 or beyond the horizon.
pub fn instructions(target: &Target, row: &Row) -> Result<Vec<Instruction>, RowError> {
    let error = |at, why| RowError {
        tile: row.tile,
        at,
        why,
    };
    let mut sends = Vec::new();
    let mut controls = Vec::new();
    for e in &row.events {
        match *e {
            Event::Send {
                at,
                buffer,
                offset,
                words,
                direction,
            } => {
                let mut items = words;
                if direction & WIDE != 0 {
                    if words % 2 != 0 || offset % 8 != 0 {
                        return Err(error(at, "64-bit items that are no pairs of words"));
                    }
                    items /= 2;
                }
                if items == 0 || u64::from(at) + u64::from(items) > u64::from(row.horizon) {
                    return Err(error(at, "send without words or beyond the horizon"));
                }
                sends.push((at, buffer, offset, items, direction));
            }
            Event::Mux { at, source } => controls.push((at, Control::Mux(mux(target, source)))),
            Event::PairMux { at, source } => {
                // The odd tile of a pair names the source's partner.
                let own = u32::from(Physical::of_logical(row.tile).0) & PAIR_BIT;
                let value = match source {
                    Some(_) => mux(target, source) ^ own,
                    None => target.mux_neutral,
                };
                controls.push((at, Control::PairMux(value)));
            }
            Event::Format { at, value } => controls.push((at, Control::Format(value.into()))),
            Event::Pointer { at, buffer, offset } => {
                controls.push((at, Control::Pointer(buffer, offset)));
            }
        }
    }
    sends.sort_by_key(|s| s.0);
    controls.sort_by_key(|c| c.0);
    for pair in controls.windows(2) {
        if pair[0].0 == pair[1].0 {
            return Err(error(pair[0].0, "two controls at one event"));
        }
    }
    let mut writer = Writer {
        target,
        now: 0,
        out: Vec::new(),
    };
    let mut pending = controls.into_iter().peekable();
    for (at, buffer, offset, items, direction) in sends {
        if at < writer.now {
            return Err(error(at, "two sends at one event"));
        }
        while let Some((e, control)) = pending.next_if(|c| c.0 < at) {
            if e <= writer.now {
                return Err(error(e, "control before its instruction can end"));
            }
            writer.idle_control(e, control);
        }
        if let Some(&(e, _)) = pending.peek()
            && e < at + 2
        {
            return Err(error(e, "control in the first two events of a send"));
        }
        writer.wait_until(at);
        let end = at + items;
        let next = |pending: &mut std::iter::Peekable<std::vec::IntoIter<(u32, Control)>>| {
            pending.peek().map_or(end, |c| (c.0 - 1).min(end))
        };
        let first = (next(&mut pending) - at).min(target.send_max_items);
        writer.push(Instruction::Send(first, buffer, offset, direction));
        while writer.now < end {
            if let Some((_, control)) = pending.next_if(|c| c.0 - 1 == writer.now) {
                let n = (next(&mut pending) - writer.now).clamp(1, target.send_max_items);
                writer.push(match control {
                    Control::Mux(v) => Instruction::SendMux(n, v),
                    Control::Pointer(b, o) => Instruction::SendPointer(n, b, o),
                    Control::PairMux(v) => Instruction::SendPairMux(n, v),
                    Control::Format(v) => Instruction::SendFormat(n, v),
                });
            } else {
                let n = (next(&mut pending) - writer.now).min(target.sendoff_max_items);
                writer.push(Instruction::SendOffset(n, direction));
            }
        }
    }
    for (e, control) in pending {
        if e <= writer.now || e > row.horizon {
            return Err(error(
                e,
                "control before its instruction can end, or beyond the horizon",
            ));
        }
        writer.idle_control(e, control);
    }
    writer.wait_until(row.horizon);
    Ok(writer.out)
}

/// The mux value of a source.
fn mux(target: &Target, source: Option<u32>) -> u32 {
    source.map_or(target.mux_neutral, |l| u32::from(Physical::of_logical(l).0))
}

#[derive(Clone, Copy)]
enum Control {
    Mux(u32),
    Pointer(BufferId, u32),
    PairMux(u32),
    Format(u32),
}

/// The bit in which the physical numbers of a pair differ.
const PAIR_BIT: u32 = 2;

struct Writer<'a> {
    target: &'a Target,
    now: u32,
    out: Vec<Instruction>,
}

impl Writer<'_> {
    fn push(&mut self, i: Instruction) {
        self.now += i.events();
        self.out.push(i);
    }

    fn wait_until(&mut self, event: u32) {
        while self.now < event {
            self.push(Instruction::Delay(
                (event - self.now).min(self.target.delay_max),
            ));
        }
    }

    fn idle_control(&mut self, event: u32, control: Control) {
        let max = match control {
            Control::Mux(_) | Control::PairMux(_) => self.target.delayxpic_max,
            Control::Pointer(..) | Control::Format(_) => self.target.delaypic_max,
        };
        if event - self.now > max {
            self.wait_until(event - max);
        }
        let n = event - self.now;
        self.push(match control {
            Control::Mux(v) => Instruction::DelayMux(n, v),
            Control::Pointer(b, o) => Instruction::DelayPointer(n, b, o),
            Control::PairMux(v) => Instruction::DelayPairMux(n, v),
            Control::Format(v) => Instruction::DelayFormat(n, v),
        });
    }
}
