//! Exchange rows as events on their timeline.
//!
//! Event 0 is the first instruction of the row; an exchange instruction takes its count of events
//! (the field plus one), any other one event.

use ipu_isa::Instruction;

/// Where a row stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timeline {
    event: u64,
}

/// Bits of `sctl`.
fn directions(sctl: i64) -> &'static str {
    match sctl & 3 {
        0 => "to nobody",
        1 => "in direction 1",
        2 => "in direction 2",
        _ => "in both directions",
    }
}

/// The items of a send and the byte address of its address field.
fn items(count: i64, sctl: i64, address: Option<i64>) -> String {
    let (unit, bytes) = if sctl & 4 != 0 {
        ("64-bit item", 8)
    } else {
        ("word", 4)
    };
    let plural = if count == 1 { "" } else { "s" };
    let from = address.map_or(" of the stream".to_string(), |a| {
        format!(" from {:#x}", a * bytes)
    });
    format!("send {count} {unit}{plural}{from} {}", directions(sctl))
}

/// What `sendpic` and its kin set.
fn control(select: i64, value: i64) -> String {
    if select & 2 == 0 {
        format!("mux = {value:#x}")
    } else {
        format!("pointer = {:#x}", value * 4)
    }
}

impl Timeline {
    /// What an instruction does, with its events; moves behind it.
    pub fn step(&mut self, instruction: &Instruction) -> String {
        let first = self.event;
        let (head, second) = match instruction {
            Instruction::Single(d) | Instruction::Bundle(d, _) => (d, None),
            Instruction::SendPicPair { head, xpic, pic } => (head, Some((*xpic, *pic))),
        };
        let get = |name: &str| head.named(name).unwrap_or(0);
        let count = get("count") + 1;
        let mnemonic = head.format().mnemonic.as_str();
        let events = match mnemonic {
            "delay" | "delaypic" | "delayxpic" | "send" | "sendoff" | "sendpic" | "sendpicp" => {
                count as u64
            }
            _ => 1,
        };
        self.event += events;
        let last = self.event - 1;
        let what = match mnemonic {
            "delay" => "wait".to_string(),
            "delaypic" => format!("pointer = {:#x} at {last}", get("value") * 4),
            "delayxpic" => format!("mux = {:#x} at {last}", get("value")),
            "send" => items(count, get("sctl"), Some(get("addr"))),
            "sendoff" => items(count, get("sctl"), None),
            "sendpic" => {
                let set = control(get("sel"), get("value"));
                format!("send {count} of the stream, {set} at {first}")
            }
            "sendpicp" => {
                let (xpic, pic) = second.unwrap_or((0, 0));
                let set = if get("picsel") == 0 {
                    format!("mux = {xpic:#x}")
                } else {
                    format!("pointer = {:#x}", i64::from(pic) * 4)
                };
                let sent = items(count, get("sctl"), Some(get("addr")));
                format!("{sent}, {set} at {first}")
            }
            "br" => "end of the row".to_string(),
            other => other.to_string(),
        };
        if events == 1 {
            format!("event {first}: {what}")
        } else {
            format!("events {first} to {last}: {what}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipu_isa::asm::Assembler;
    use ipu_isa::disasm::{Item, items};

    #[test]
    fn events_add_up() {
        let source = "delayxpic 9, 0, 0x12\ndelaypic 51, 0, 0x16000\nsend 15, 0x16000, 3\n\
                      sendoff 63, 0, 7\nsendpic 0, 2, 5\nsendpic 1, 0, 0x640\ndelay 4\nbr $m10";
        let object = Assembler::new().assemble("r.s", source).unwrap();
        let data = object.sections[0].data.chunks_exact(4);
        let words: Vec<u32> = data
            .map(|w| u32::from_le_bytes(w.try_into().unwrap()))
            .collect();
        let mut line = Timeline::default();
        let mut found = Vec::new();
        for (_, item) in items(&words) {
            match item {
                Item::Instruction(i) => found.push(line.step(&i)),
                other => panic!("{other}"),
            }
        }
        let wanted = [
            "events 0 to 9: mux = 0x12 at 9",
            "events 10 to 61: pointer = 0x58000 at 61",
            "events 62 to 77: send 16 words from 0x58000 in both directions",
            "events 78 to 141: send 64 64-bit items of the stream in both directions",
            "event 142: send 1 of the stream, pointer = 0x14 at 142",
            "events 143 to 144: send 2 of the stream, mux = 0x640 at 143",
            "events 145 to 149: wait",
            "event 150: end of the row",
        ];
        assert_eq!(found, wanted);
    }
}
