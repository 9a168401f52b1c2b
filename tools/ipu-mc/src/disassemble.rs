//! Hexadecimal bytes to instructions.

use ipu_isa::disasm::{Item, items};
use ipu_isa::{Arch, Instruction};

use crate::cli::Cli;
use crate::output;

/// Bytes that belong together, with their places in the text.
#[derive(Default)]
struct Run {
    bytes: Vec<u8>,
    places: Vec<(usize, usize)>,
}

/// Reads the bytes. Blanks, commas and brackets separate them; `#`, `//` and `;` begin comments.
/// Brackets mark bytes that are decoded by themselves.
fn read(text: &str, error: &mut dyn FnMut((usize, usize), &str)) -> Vec<Run> {
    let mut runs = vec![Run::default()];
    for (number, line) in text.lines().enumerate() {
        let code = line.split(['#', ';']).next().unwrap_or("");
        let code = code.split("//").next().unwrap_or("");
        let mut at = 0;
        while let Some(c) = code[at..].chars().next() {
            if c == '[' || c == ']' {
                runs.push(Run::default());
            }
            if c.is_whitespace() || matches!(c, ',' | '[' | ']') {
                at += c.len_utf8();
                continue;
            }
            let rest = &code[at..];
            let end = rest.find(|c: char| c.is_whitespace() || matches!(c, ',' | '[' | ']'));
            let token = &rest[..end.unwrap_or(rest.len())];
            let value = match token
                .strip_prefix("0x")
                .or_else(|| token.strip_prefix("0X"))
            {
                Some(hex) => u8::from_str_radix(hex, 16),
                None => token.parse(),
            };
            match (value, runs.last_mut()) {
                (Ok(v), Some(run)) => {
                    run.bytes.push(v);
                    run.places.push((number, at));
                }
                _ => error((number, at), "invalid input token"),
            }
            at += token.len();
        }
    }
    runs
}

fn on(item: &Item, arch: Option<Arch>) -> bool {
    arch.is_none_or(|arch| item.decoded().iter().all(|d| d.format().on(arch)))
}

/// Disassembles the text; false when it holds something other than bytes.
pub fn run(cli: &Cli, name: &str, text: &str, out: &mut String) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let message = |kind: &str, (line, col): (usize, usize), what: &str| {
        let source = lines.get(line).copied().unwrap_or("");
        let blank: String = source
            .get(..col)
            .unwrap_or("")
            .chars()
            .map(|c| if c == '\t' { c } else { ' ' })
            .collect();
        eprintln!(
            "{name}:{}:{}: {kind}: {what}\n{source}\n{blank}^",
            line + 1,
            col + 1
        );
    };
    let mut good = true;
    let runs = read(text, &mut |place, what| {
        good = false;
        message("error", place, what);
    });
    let arch = crate::arch(cli);
    out.push_str("\t.text\n");
    for run in runs {
        let word = |w: &[u8]| u32::from_le_bytes([w[0], w[1], w[2], w[3]]);
        let words: Vec<u32> = run.bytes.chunks_exact(4).map(word).collect();
        let place = |at: usize| run.places.get(4 * at).copied().unwrap_or((0, 0));
        let mut skipped = Vec::new();
        for (at, item) in items(&words) {
            if matches!(item, Item::Undefined(_)) || !on(&item, arch) {
                message("warning", place(at), "invalid instruction encoding");
                continue;
            }
            if let Item::BadBundle(_, _, why) = &item {
                skipped.push((place(at), why.clone()));
            }
            let parts: Vec<String> = match &item {
                Item::Instruction(Instruction::SendPicPair { .. }) => vec![item.to_string()],
                _ => item.decoded().iter().map(ToString::to_string).collect(),
            };
            let own = &words[at..at + item.word_count()];
            output::code(cli, &parts, own, &[], &item.decoded(), out);
        }
        for (place, why) in skipped {
            message(
                "warning",
                place,
                &format!("potentially undefined instruction encoding: {why}"),
            );
        }
        if !run.bytes.len().is_multiple_of(4) {
            let at = run.bytes.len() / 4;
            message("warning", place(at), "invalid instruction encoding");
        }
    }
    good
}
