//! The check of IR text before MLIR sees it. MLIR's parser recurses on brackets and ends the
//! process on text that nests too deeply; here that is an ordinary located error.

use crate::diag::{Diagnostic, Span};

/// Brackets (and signs of affine expressions) that may be open at once.
pub const MAX_DEPTH: usize = 256;
/// Bytes of a source file.
pub const MAX_BYTES: usize = 256 << 20;
/// Bytes of one word, number or string.
pub const MAX_TOKEN: usize = 64 << 20;
/// First bytes of MLIR bytecode, which has no text to check.
const BYTECODE: &[u8] = b"ML\xefR";

/// Checks size, encoding and nesting. `split`: the text is cut at `// -----` lines, so that
/// each piece nests on its own.
///
/// # Errors
/// The first offence at its line and column: more than [`MAX_BYTES`], invalid UTF-8, a token above
/// [`MAX_TOKEN`], more than [`MAX_DEPTH`] open brackets.
pub fn check_text(text: &[u8], file: &str, split: bool) -> Result<(), Diagnostic> {
    let fail = |at: usize, message: String| {
        let (line, column) = line_column(text, at);
        Err(Diagnostic::error(
            Some(Span {
                file: file.to_owned(),
                line,
                column,
            }),
            message,
        ))
    };
    if text.len() > MAX_BYTES {
        return fail(
            0,
            format!(
                "the file has {} bytes, the limit is {MAX_BYTES}",
                text.len()
            ),
        );
    }
    if text.starts_with(BYTECODE) {
        return Ok(());
    }
    if let Err(e) = std::str::from_utf8(text) {
        return fail(e.valid_up_to(), "the text is not valid UTF-8".into());
    }
    let mut open: Vec<u8> = Vec::new();
    let mut signs = 0;
    let mut i = 0;
    while let Some(&c) = text.get(i) {
        let start = i;
        i += 1;
        match c {
            b'"' => {
                while let Some(&c) = text.get(i) {
                    i += if c == b'\\' { 2 } else { 1 };
                    if c == b'"' || c == b'\n' {
                        break;
                    }
                }
            }
            b'/' if text.get(i) == Some(&b'/') => {
                let rest = &text[start..];
                if split && rest.starts_with(b"// -----") {
                    open.clear();
                }
                i += rest.iter().position(|&c| c == b'\n').unwrap_or(rest.len());
                continue;
            }
            b'-' | b'<' | b'>' if text.get(i) == Some(&b'>') && c == b'-' => i += 1,
            b'<' | b'>' if text.get(i) == Some(&b'=') => i += 1,
            b'-' => signs += 1,
            b'(' | b'[' | b'{' | b'<' => open.push(c),
            b')' | b']' | b'}' | b'>' => {
                let opener = match c {
                    b')' => b'(',
                    b']' => b'[',
                    b'}' => b'{',
                    _ => b'<',
                };
                // Signs like `<` may stand alone: what is not closed ends with its parent.
                if let Some(at) = open.iter().rposition(|&o| o == opener) {
                    open.truncate(at);
                }
            }
            c if is_word(c) => {
                i += text[i..]
                    .iter()
                    .position(|&c| !is_word(c))
                    .unwrap_or(text.len() - i);
            }
            _ => {}
        }
        if c != b'-' && !c.is_ascii_whitespace() {
            signs = 0;
        }
        if open.len() + signs > MAX_DEPTH {
            return fail(
                start,
                format!("the text nests deeper than {MAX_DEPTH} levels"),
            );
        }
        if i - start > MAX_TOKEN {
            return fail(start, format!("a token is longer than {MAX_TOKEN} bytes"));
        }
    }
    Ok(())
}

fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_' || c == b'$' || c == b'.'
}

/// Line and column, from 1, of a byte.
fn line_column(text: &[u8], at: usize) -> (u32, u32) {
    let before = &text[..at];
    let line = before.iter().filter(|&&c| c == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|&&c| c != b'\n').count() + 1;
    (line as u32, column as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(text: &str) -> String {
        check_text(text.as_bytes(), "f", false)
            .err()
            .map(|d| d.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn depth_is_limited_with_a_position() {
        let nested = |n| format!("x\n{}{}", "(".repeat(n), ")".repeat(n));
        assert_eq!(verdict(&nested(256)), "");
        assert_eq!(
            verdict(&nested(257)),
            "f:2:257: error: the text nests deeper than 256 levels"
        );
        assert_eq!(verdict(&"a (".repeat(300)).split(':').nth(2), Some("771"));
        assert!(!verdict(&"- ".repeat(300)).is_empty());
    }

    #[test]
    fn arrows_comparisons_strings_and_comments_do_not_nest() {
        for text in [
            "-> ",
            "a >= b ",
            "a <= b ",
            "\"((\\\"(\" ",
            "// ((((\n",
            "{ a < b } ",
        ] {
            assert_eq!(verdict(&text.repeat(1000)), "", "{text}");
        }
    }

    #[test]
    fn pieces_nest_on_their_own_only_when_split() {
        let text = "((\n// -----\n".repeat(200);
        assert!(check_text(text.as_bytes(), "f", true).is_ok());
        assert!(check_text(text.as_bytes(), "f", false).is_err());
    }

    #[test]
    fn encoding_is_checked() {
        let e = check_text(b"a\nb\xff", "f", false)
            .err()
            .map(|d| d.to_string());
        assert_eq!(
            e.as_deref(),
            Some("f:2:2: error: the text is not valid UTF-8")
        );
        assert!(check_text(b"ML\xefR\xff", "f", false).is_ok());
    }
}
