//! Source text: comments, lines, statements, and the stack of texts being read.

use std::rc::Rc;

use super::error::{AsmErrorKind, Loc};
use super::macros::MAX_LINE;

/// One line of text with its origin.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) text: Rc<str>,
    /// File and number as reported; line markers change them.
    pub(crate) file: u32,
    pub(crate) number: u32,
    /// Position among all lines read, for the text in messages.
    pub(crate) raw: u32,
}

impl Line {
    fn loc(&self) -> Loc {
        Loc {
            file: self.file,
            line: self.number,
            raw: self.raw,
            ..Loc::default()
        }
    }

    /// The same place with other text.
    pub(crate) fn with_text(&self, text: &str) -> Line {
        Line {
            text: text.into(),
            ..self.clone()
        }
    }
}

/// The names of all files and the text of all lines read, for messages.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(crate) files: Vec<String>,
    pub(crate) raw: Vec<Box<str>>,
}

impl Sources {
    pub(crate) fn file(&mut self, name: &str) -> u32 {
        let at = self.files.iter().position(|f| f == name);
        let at = at.unwrap_or_else(|| {
            self.files.push(name.to_string());
            self.files.len() - 1
        });
        at as u32
    }

    /// Splits a text into lines without comments. Comments are `//`, `#` and
    /// `/* */`; columns and line numbers stay, `# 7 "file"` of a C
    /// preprocessor sets them. Also gives the errors: an open comment, C
    /// preprocessor lines.
    pub(crate) fn read(
        &mut self,
        name: &str,
        source: &str,
    ) -> (Vec<Line>, Vec<(Loc, AsmErrorKind)>) {
        let mut lines = Vec::new();
        let mut errors = Vec::new();
        let mut open: Option<Loc> = None;
        let mut file = self.file(name);
        let mut number = 0u32;
        for raw in source.lines() {
            number = number.saturating_add(1);
            let mut line = Line {
                text: "".into(),
                file,
                number,
                raw: u32::try_from(self.raw.len()).unwrap_or(u32::MAX),
            };
            self.raw.push(raw.into());
            if open.is_none() && raw.trim_start().starts_with('#') {
                if let Some((next, name)) = marker(raw) {
                    number = next.saturating_sub(1);
                    if let Some(name) = name {
                        file = self.file(name);
                    }
                } else if let Some(word) = preprocessor(raw) {
                    errors.push((line.loc(), AsmErrorKind::Preprocessor(word.to_string())));
                }
                lines.push(line);
                continue;
            }
            let text = strip(raw, line.loc(), &mut open);
            if text.len() > MAX_LINE {
                errors.push((line.loc(), AsmErrorKind::Limit("length of a line")));
            } else {
                line.text = text.into();
            }
            lines.push(line);
        }
        if let Some(loc) = open {
            errors.push((loc, AsmErrorKind::Unclosed("/*")));
        }
        (lines, errors)
    }
}

/// `# 7 "file" flags` and `#line 7 "file"`: the number of the next line and its file.
fn marker(raw: &str) -> Option<(u32, Option<&str>)> {
    let rest = raw.trim_start().strip_prefix('#')?;
    let rest = rest.strip_prefix("line").unwrap_or(rest);
    let rest = rest.strip_prefix([' ', '\t'])?.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit());
    let (digits, tail) = rest.split_at(end.unwrap_or(rest.len()));
    let number = digits.parse().ok()?;
    let tail = tail.trim_start();
    if tail.is_empty() {
        return Some((number, None));
    }
    let name = tail.strip_prefix('"')?.split('"').next()?;
    Some((number, Some(name)))
}

fn preprocessor(line: &str) -> Option<&str> {
    const WORDS: &[&str] = &[
        "#define", "#undef", "#include", "#if", "#ifdef", "#ifndef", "#elif", "#else", "#endif",
    ];
    let word = line.split_whitespace().next()?;
    WORDS.contains(&word).then_some(word)
}

/// Length of a character literal such as `'a'` or `'\n'` at the start of `text`, or 0.
pub(crate) fn char_literal(text: &str) -> usize {
    let mut chars = text.chars();
    if chars.next() != Some('\'') {
        return 0;
    }
    let length = match chars.next() {
        Some('\\') => 1 + chars.next().map_or(0, char::len_utf8),
        Some(c) => c.len_utf8(),
        None => return 0,
    };
    if chars.next() == Some('\'') {
        length + 2
    } else {
        0
    }
}

/// Replaces comments by blanks; `open` holds the place of a `/*` that is still open.
fn strip(raw: &str, at_line: Loc, open: &mut Option<Loc>) -> String {
    if open.is_none() && !raw.contains(['/', '#']) {
        return raw.to_string();
    }
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
            ('\'', _) if !quote => {
                let length = char_literal(&raw[at..]);
                while chars.peek().is_some_and(|&(next, _)| next < at + length) {
                    chars.next();
                }
                out.push_str(&raw[at..at + length.max(1)]);
                continue;
            }
            ('/', Some('/')) if !quote => break,
            ('#', _) if !quote => break,
            ('/', Some('*')) if !quote => {
                chars.next();
                let col = at as u32;
                *open = Some(Loc { col, ..at_line });
                out.push_str("  ");
                continue;
            }
            _ => {}
        }
        out.push(c);
    }
    out
}

/// A piece of a line: a statement or one brace.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) line: Line,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Statement {
    pub(crate) fn text(&self) -> &str {
        self.line.text.get(self.start..self.end).unwrap_or("")
    }

    /// The first word behind labels, and its place in the line.
    fn word(&self) -> (&str, usize) {
        let mut text = self.text();
        while let Some((label, rest)) = text.split_once(':') {
            if label.trim().is_empty() || label.trim().contains([' ', '\t', '"', ',']) {
                break;
            }
            text = rest;
        }
        let text = text.trim_start();
        let word = text.split_whitespace().next().unwrap_or("");
        (word, self.end - text.len())
    }
}

/// The length of the text up to a `;` or brace outside quotes.
fn statement_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut quote, mut at) = (false, 0);
    while let Some(&c) = bytes.get(at) {
        match c {
            b'\\' if quote => at += 1,
            b'"' => quote = !quote,
            b'\'' if !quote => at += char_literal(text.get(at..).unwrap_or("")).max(1) - 1,
            b';' | b'{' | b'}' if !quote => return at,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// A text being read: a file, a macro body, a repeated block.
#[derive(Debug)]
pub(crate) struct Frame {
    lines: Rc<[Line]>,
    at: usize,
    /// Byte position in line `at`.
    pos: usize,
    /// Index of the macro call, 0 for a file.
    pub(crate) call: u32,
    /// Times that the text is read again.
    pub(crate) again: u64,
    /// Conditionals that were open when the text began.
    pub(crate) conditions: usize,
    /// A macro body, which `.exitm` leaves.
    pub(crate) is_macro: bool,
    /// Lines begun since the count was last taken.
    pub(crate) begun: u64,
}

impl Frame {
    pub(crate) fn new(lines: Rc<[Line]>, call: u32, conditions: usize) -> Frame {
        Frame {
            lines,
            at: 0,
            pos: 0,
            call,
            again: 0,
            conditions,
            is_macro: false,
            begun: 0,
        }
    }

    /// The next statement or brace. `begun` counts the lines passed; after
    /// `budget` of them this gives up, so that empty lines count as well.
    pub(crate) fn next(&mut self, budget: u64) -> Option<Statement> {
        loop {
            if self.at == self.lines.len() && self.again > 0 {
                self.again -= 1;
                (self.at, self.pos) = (0, 0);
            }
            let line = self.lines.get(self.at)?;
            if self.pos == 0 {
                self.begun += 1;
                if self.begun > budget {
                    return None;
                }
            }
            let rest = line.text.get(self.pos..).unwrap_or("");
            let blanks = rest.len() - rest.trim_start_matches([' ', '\t', ';']).len();
            let start = self.pos + blanks;
            let rest = &rest[blanks..];
            if rest.trim_start().is_empty() {
                self.at += 1;
                self.pos = 0;
                continue;
            }
            let length = match rest.as_bytes() {
                [b'{' | b'}', ..] => 1,
                _ => statement_length(rest),
            };
            let end = start + length;
            self.pos = end;
            return Some(Statement {
                line: line.clone(),
                start,
                end,
            });
        }
    }

    /// Takes the statements up to the directive that closes a block; nested
    /// blocks of the same family stay inside.
    pub(crate) fn take_block(&mut self, open: &[&str], close: &[&str]) -> Option<Vec<Line>> {
        let mut body: Vec<Line> = Vec::new();
        let mut depth = 0;
        // The text behind a last repetition belongs to no block.
        let again = std::mem::replace(&mut self.again, 0);
        let (first, from) = (self.at, self.pos);
        let mut found = None;
        while let Some(s) = self.next(u64::MAX) {
            let (word, start) = s.word();
            let is = |names: &[&str]| names.iter().any(|n| word.eq_ignore_ascii_case(n));
            if is(open) {
                depth += 1;
            } else if is(close) {
                if depth == 0 {
                    // The closing line may be the line that the block began on.
                    found = Some((self.at, start));
                    break;
                }
                depth -= 1;
            }
        }
        self.again = again;
        let (last, to) = found?;
        let piece = |at: usize, start: usize, end: usize| {
            let line = self.lines.get(at)?;
            let text = line.text.get(start..end.min(line.text.len()))?;
            if start == 0 && end >= line.text.len() {
                return Some(line.clone());
            }
            Some(line.with_text(&format!("{}{text}", " ".repeat(start))))
        };
        for at in first..=last {
            let start = if at == first { from } else { 0 };
            let end = if at == last { to } else { usize::MAX };
            if let Some(line) = piece(at, start, end)
                && !(at == last && line.text.trim().is_empty())
                && !(at == first && from > 0 && line.text.trim_matches([' ', '\t', ';']).is_empty())
            {
                body.push(line);
            }
        }
        Some(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &str) -> (Vec<Line>, Vec<(Loc, AsmErrorKind)>) {
        Sources::default().read("t.S", source)
    }

    fn texts(source: &str) -> Vec<String> {
        let lines = read(source).0;
        lines.iter().map(|l| l.text.trim_end().into()).collect()
    }

    #[test]
    fn comments_become_blanks() {
        assert_eq!(
            texts("a // x\n# y\nb # z\nc /* 1 */ d"),
            ["a", "", "b", "c         d"]
        );
        assert_eq!(
            texts("a /* 1\n2 */ b\n.ascii \"#//\\\"#\"\n.byte '#', '\"' # \"'"),
            ["a", "     b", ".ascii \"#//\\\"#\"", ".byte '#', '\"'"]
        );
    }

    #[test]
    fn open_comments_and_preprocessor_lines_are_errors() {
        let errors = read("#define A 1\n# define is fine\n/* open").1;
        assert_eq!(errors.len(), 2);
        assert_eq!(errors[0].1, AsmErrorKind::Preprocessor("#define".into()));
        assert_eq!(errors[1].1, AsmErrorKind::Unclosed("/*"));
        assert_eq!(errors[1].0.line, 3);
    }

    #[test]
    fn line_markers_set_the_place() {
        let mut sources = Sources::default();
        let (lines, _) = sources.read("t.S", "a\n# 7 \"u.h\" 1\nb\n#line 3\nc\n# 9 lives");
        let places: Vec<(u32, u32)> = lines.iter().map(|l| (l.file, l.number)).collect();
        assert_eq!(places, [(0, 1), (0, 2), (1, 7), (1, 8), (1, 3), (1, 4)]);
        assert_eq!(sources.files, ["t.S", "u.h"]);
    }

    fn frame(source: &str) -> Frame {
        Frame::new(read(source).0.into(), 0, 0)
    }

    fn rest(f: &mut Frame) -> Vec<String> {
        std::iter::from_fn(|| f.next(u64::MAX).map(|s| s.text().trim().to_string())).collect()
    }

    #[test]
    fn statements_and_braces() {
        let mut f = frame("{ a ; b 1 }; c ';', \"{;}\"\n\n}d");
        let wanted = ["{", "a", "b 1", "}", "c ';', \"{;}\"", "}", "d"];
        assert_eq!(rest(&mut f), wanted);
    }

    #[test]
    fn frames_repeat_and_take_blocks() {
        let take = |source: &str| {
            let mut f = frame(source);
            f.next(9)?;
            let body = f.take_block(&[".rept"], &[".endr"])?;
            let body: Vec<String> = body.iter().map(|l| l.text.trim().into()).collect();
            Some((body, rest(&mut f)))
        };
        let list = |l: &[&str]| l.iter().map(|s| s.to_string()).collect::<Vec<_>>();
        assert_eq!(
            take(".rept 2\nx\n.rept 3\ny\n.endr\nl: .endr\nz"),
            Some((list(&["x", ".rept 3", "y", ".endr", "l:"]), list(&["z"])))
        );
        assert_eq!(
            take(".rept 2 ; x ; y ; .endr ; z"),
            Some((list(&["; x ; y ;"]), list(&["z"])))
        );
        assert_eq!(
            take(".rept 2\nx ; .ENDR\nz"),
            Some((list(&["x ;"]), list(&["z"])))
        );
        assert_eq!(take(".rept 2\nx"), None);
        let mut f = frame("a\nb");
        f.again = 1;
        assert_eq!(rest(&mut f), ["a", "b", "a", "b"]);
    }
}
