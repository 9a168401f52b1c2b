//! Source text: comments, lines, and the stack of texts being read.

use std::rc::Rc;

use super::error::{AsmErrorKind, Loc};
use super::macros::MAX_LINE;

/// One line of text with its origin.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) text: Rc<str>,
    pub(crate) number: u32,
}

/// Splits a file into lines without comments. Comments are `//`, `#` and
/// `/* */`; columns and line numbers stay. Also gives the errors: an open
/// comment, C preprocessor lines.
pub(crate) fn read(source: &str) -> (Vec<Line>, Vec<(Loc, AsmErrorKind)>) {
    let mut lines = Vec::new();
    let mut errors = Vec::new();
    let mut open: Option<Loc> = None;
    for (at, raw) in source.lines().enumerate() {
        let number = u32::try_from(at + 1).unwrap_or(u32::MAX);
        if open.is_none()
            && let Some(word) = preprocessor(raw)
        {
            let loc = Loc {
                line: number,
                col: 0,
                call: 0,
            };
            errors.push((loc, AsmErrorKind::Preprocessor(word.to_string())));
        }
        let mut text = strip(raw, number, &mut open);
        if text.len() > MAX_LINE {
            let loc = Loc {
                line: number,
                col: 0,
                call: 0,
            };
            errors.push((loc, AsmErrorKind::Limit("length of a line")));
            text.clear();
        }
        lines.push(Line {
            text: text.into(),
            number,
        });
    }
    if let Some(loc) = open {
        errors.push((loc, AsmErrorKind::Unclosed("/*")));
    }
    (lines, errors)
}

fn preprocessor(line: &str) -> Option<&str> {
    const WORDS: &[&str] = &[
        "#define", "#undef", "#include", "#if", "#ifdef", "#ifndef", "#elif", "#else", "#endif",
    ];
    let word = line.split_whitespace().next()?;
    WORDS.contains(&word).then_some(word)
}

/// Replaces comments by blanks; `open` holds the place of a `/*` that is still open.
fn strip(raw: &str, number: u32, open: &mut Option<Loc>) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut chars = raw.char_indices().peekable();
    let mut quote = false;
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|&(_, c)| c);
        if open.is_some() {
            out.push(' ');
            if c == '*' && next == Some('/') {
                chars.next();
                out.push(' ');
                *open = None;
            }
            continue;
        }
        match (c, next) {
            ('\\', Some(escaped)) if quote => {
                chars.next();
                out.extend([c, escaped]);
                continue;
            }
            ('"', _) => quote = !quote,
            ('/', Some('/')) if !quote => break,
            ('#', _) if !quote => break,
            ('/', Some('*')) if !quote => {
                chars.next();
                *open = Some(Loc {
                    line: number,
                    col: at as u32,
                    call: 0,
                });
                out.push_str("  ");
                continue;
            }
            _ => {}
        }
        out.push(c);
    }
    out
}

/// A text being read: the file, a macro body, a repeated block.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) lines: Rc<[Line]>,
    pub(crate) at: usize,
    /// Index of the macro call, 0 for the file.
    pub(crate) call: u32,
    /// Times that the text is read again.
    pub(crate) again: u64,
    /// Conditionals that were open when the text began; `usize::MAX` for the
    /// rest of a line, which belongs to the text below.
    pub(crate) conditions: usize,
    /// A macro body, which `.exitm` leaves.
    pub(crate) is_macro: bool,
}

impl Frame {
    /// The next line, if any.
    pub(crate) fn next(&mut self) -> Option<Line> {
        if self.at == self.lines.len() && self.again > 0 {
            self.again -= 1;
            self.at = 0;
        }
        let line = self.lines.get(self.at).cloned()?;
        self.at += 1;
        Some(line)
    }

    /// Takes the lines up to the directive that closes a block; nested
    /// blocks of the same family stay inside.
    pub(crate) fn take_block(&mut self, open: &[&str], close: &'static str) -> Option<Vec<Line>> {
        let mut depth = 0;
        let start = self.at;
        for (offset, line) in self.lines.get(start..)?.iter().enumerate() {
            let word = line.text.split_whitespace().next().unwrap_or("");
            if open.contains(&word) {
                depth += 1;
            } else if word == close {
                if depth == 0 {
                    let body = self.lines[start..start + offset].to_vec();
                    self.at = start + offset + 1;
                    return Some(body);
                }
                depth -= 1;
            }
        }
        self.at = self.lines.len();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        read(source)
            .0
            .iter()
            .map(|l| l.text.trim_end().to_string())
            .collect()
    }

    #[test]
    fn comments_become_blanks() {
        assert_eq!(
            texts("a // x\n# y\nb # z\nc /* 1 */ d"),
            ["a", "", "b", "c         d"]
        );
        assert_eq!(
            texts("a /* 1\n2 */ b\n.ascii \"#//\\\"#\""),
            ["a", "     b", ".ascii \"#//\\\"#\""]
        );
    }

    #[test]
    fn open_comments_and_preprocessor_lines_are_errors() {
        let errors = read("#define A 1\n# define is fine\n/* open").1;
        assert_eq!(errors.len(), 2);
        assert_eq!(errors[0].1, AsmErrorKind::Preprocessor("#define".into()));
        assert_eq!(
            errors[1],
            (
                Loc {
                    line: 3,
                    col: 0,
                    call: 0
                },
                AsmErrorKind::Unclosed("/*")
            )
        );
    }

    #[test]
    fn frames_repeat_and_take_blocks() {
        let lines: Rc<[Line]> = read(".rept 2\nx\n.rept 3\ny\n.endr\n.endr\nz").0.into();
        let mut f = Frame {
            lines,
            at: 1,
            call: 0,
            again: 1,
            conditions: 0,
            is_macro: false,
        };
        assert_eq!(f.take_block(&[".rept"], ".endr").map(|b| b.len()), Some(4));
        assert_eq!(f.next().map(|l| l.number), Some(7));
        assert_eq!(f.next().map(|l| l.number), Some(1));
        assert!(f.take_block(&[".rept"], ".endm").is_none());
    }
}
