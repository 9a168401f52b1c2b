//! A reading position in one statement, and the literals.

use super::error::AsmErrorKind;

type Result<T> = std::result::Result<T, AsmErrorKind>;

/// A number as written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i64),
    /// Value and suffix: `h`, `f` or a blank for none.
    Float(f64, char),
    /// `1f` or `1b`: number and true for forward.
    Label(u32, bool),
}

#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    pos: usize,
}

pub(crate) fn is_ident_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || c == '.'
}

pub(crate) fn is_ident(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$')
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, pos: 0 }
    }

    pub(crate) fn pos(&self) -> usize {
        self.pos
    }

    pub(crate) fn rest(&self) -> &'a str {
        self.text.get(self.pos..).unwrap_or("")
    }

    pub(crate) fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.pos += rest.len() - rest.trim_start().len();
    }

    pub(crate) fn at_end(&mut self) -> bool {
        self.skip_blanks();
        self.rest().is_empty()
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Takes `token` after blanks, if it stands there.
    pub(crate) fn eat(&mut self, token: &str) -> bool {
        self.skip_blanks();
        let found = self.rest().starts_with(token);
        if found {
            self.pos += token.len();
        }
        found
    }

    pub(crate) fn expect(&mut self, token: &str) -> Result<()> {
        if self.eat(token) {
            Ok(())
        } else {
            Err(AsmErrorKind::expected(&format!("`{token}`"), self.rest()))
        }
    }

    pub(crate) fn expect_end(&mut self) -> Result<()> {
        if self.at_end() {
            Ok(())
        } else {
            Err(AsmErrorKind::expected(
                "the end of the statement",
                self.rest(),
            ))
        }
    }

    pub(crate) fn take_while(&mut self, mut keep: impl FnMut(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.pos += len;
        &rest[..len]
    }

    /// An identifier, possibly with a leading dot.
    pub(crate) fn ident(&mut self) -> Option<&'a str> {
        self.skip_blanks();
        if self.peek().is_some_and(is_ident_start) {
            Some(self.take_while(is_ident))
        } else {
            None
        }
    }

    pub(crate) fn expect_ident(&mut self) -> Result<&'a str> {
        self.ident()
            .ok_or_else(|| AsmErrorKind::expected("a name", self.rest()))
    }

    /// A name or a quoted string.
    pub(crate) fn name_or_string(&mut self) -> Result<String> {
        self.skip_blanks();
        if self.peek() == Some('"') {
            let bytes = self.string()?;
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        let name = self.take_while(|c| is_ident(c) || c == '-');
        if name.is_empty() {
            return Err(AsmErrorKind::expected("a name", self.rest()));
        }
        Ok(name.to_string())
    }

    /// A quoted string with C escapes.
    pub(crate) fn string(&mut self) -> Result<Vec<u8>> {
        self.expect("\"")?;
        let mut out = Vec::new();
        let mut buffer = [0; 4];
        loop {
            match self.next() {
                None => return Err(AsmErrorKind::expected("`\"`", "")),
                Some('"') => return Ok(out),
                Some('\\') => out.push(self.escape()?),
                Some(c) => out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes()),
            }
        }
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.pos += c.len_utf8();
        Some(c)
    }

    fn escape(&mut self) -> Result<u8> {
        Ok(match self.next() {
            Some('n') => b'\n',
            Some('t') => b'\t',
            Some('r') => b'\r',
            Some('\\') => b'\\',
            Some('"') => b'"',
            Some('\'') => b'\'',
            Some('b') => 8,
            Some('f') => 12,
            Some(first @ '0'..='7') => {
                let mut value = first as u32 - '0' as u32;
                for _ in 0..2 {
                    let Some(digit) = self.peek().and_then(|c| c.to_digit(8)) else {
                        break;
                    };
                    self.next();
                    value = value * 8 + digit;
                }
                value as u8
            }
            Some('x') => {
                let digits = self.take_while(|c| c.is_ascii_hexdigit());
                u8::from_str_radix(digits, 16)
                    .map_err(|_| AsmErrorKind::BadNumber(format!("\\x{digits}")))?
            }
            _ => return Err(AsmErrorKind::expected("an escape character", self.rest())),
        })
    }

    /// True when a number or character literal stands here.
    pub(crate) fn at_number(&self) -> bool {
        self.peek().is_some_and(|c| c.is_ascii_digit() || c == '\'')
    }

    pub(crate) fn number(&mut self) -> Result<Number> {
        if self.eat("'") {
            let c = match self.next() {
                Some('\\') => i64::from(self.escape()?),
                Some(c) => i64::from(u32::from(c)),
                None => return Err(AsmErrorKind::expected("a character", "")),
            };
            self.eat("'");
            return Ok(Number::Int(c));
        }
        let rest = self.rest();
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let after = &rest[digits..];
        // `1.5`, `1.`, `1.h`, `1e3`, `1h`; `1.x` is something else.
        let fraction = after.strip_prefix('.').is_some_and(|tail| {
            let end = tail.strip_prefix(['h', 'f']).unwrap_or(tail);
            tail.starts_with(|c: char| c.is_ascii_digit()) || !end.starts_with(is_ident)
        });
        let exponent = after.strip_prefix(['e', 'E']).is_some_and(|tail| {
            let tail = tail.strip_prefix(['+', '-']).unwrap_or(tail);
            tail.starts_with(|c: char| c.is_ascii_digit())
        });
        let half = after
            .strip_prefix('h')
            .is_some_and(|tail| !tail.starts_with(is_ident));
        let is_float = fraction || exponent || half;
        if is_float {
            return self.float(digits);
        }
        let word = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        let bad = || AsmErrorKind::BadNumber(word.to_string());
        let decimal = |s: &str| s.parse::<u32>().map_err(|_| bad());
        if let Some(n) = word.strip_suffix('f').or_else(|| word.strip_suffix('b'))
            && n.chars().all(|c| c.is_ascii_digit())
        {
            return Ok(Number::Label(decimal(n)?, word.ends_with('f')));
        }
        let lower = word.to_ascii_lowercase();
        let (digits, radix) = match lower.as_bytes() {
            [b'0', b'x', ..] => (&lower[2..], 16),
            [b'0', b'b', ..] => (&lower[2..], 2),
            [b'0', b'o', ..] => (&lower[2..], 8),
            [b'0', _, ..] => (&lower[1..], 8),
            _ => (lower.as_str(), 10),
        };
        u64::from_str_radix(digits, radix)
            .map(|v| Number::Int(v as i64))
            .map_err(|_| bad())
    }

    fn float(&mut self, digits: usize) -> Result<Number> {
        let start = self.pos;
        let text = self.rest();
        self.pos += digits;
        if self.rest().starts_with('.') {
            self.pos += 1;
            self.take_while(|c| c.is_ascii_digit());
        }
        if self.rest().starts_with(['e', 'E']) {
            self.pos += 1;
            if self.rest().starts_with(['+', '-']) {
                self.pos += 1;
            }
            self.take_while(|c| c.is_ascii_digit());
        }
        let literal = &text[..self.pos - start];
        let value = literal
            .parse::<f64>()
            .map_err(|_| AsmErrorKind::BadNumber(literal.to_string()))?;
        let suffix = match self.peek() {
            Some(c @ ('h' | 'f')) => {
                self.pos += 1;
                c
            }
            _ => ' ',
        };
        Ok(Number::Float(value, suffix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        let mut c = Cursor::new(text);
        let n = c.number().unwrap();
        assert!(c.at_end(), "{text}");
        n
    }

    #[test]
    fn literals() {
        for (text, value) in [
            ("0", 0),
            ("92", 92),
            ("0x1F", 31),
            ("0b101", 5),
            ("010", 8),
            ("'a'", 97),
            ("'\\n'", 10),
        ] {
            assert_eq!(number(text), Number::Int(value), "{text}");
        }
        assert_eq!(number("0xffffffffffffffff"), Number::Int(-1));
        assert_eq!(number("1f"), Number::Label(1, true));
        assert_eq!(number("0b"), Number::Label(0, false));
        assert_eq!(number("1.5h"), Number::Float(1.5, 'h'));
        assert_eq!(number("2e-1f"), Number::Float(0.2, 'f'));
        assert_eq!(number("2.0"), Number::Float(2.0, ' '));
        assert_eq!(number("2.h"), Number::Float(2.0, 'h'));
        assert_eq!(number("3h"), Number::Float(3.0, 'h'));
        assert_eq!(number("1."), Number::Float(1.0, ' '));
        for text in [
            "0x",
            "9z",
            "08",
            "99999999999999999999",
            "0x1ffffffffffffffff",
        ] {
            assert!(Cursor::new(text).number().is_err(), "{text}");
        }
    }

    #[test]
    fn strings() {
        let read = |text: &str| Cursor::new(text).string();
        assert_eq!(
            read("\"a\\x41\\n\\\"é\""),
            Ok("aA\n\"é".as_bytes().to_vec())
        );
        assert_eq!(read("\"\\0\\1012\\b\""), Ok(vec![0, b'A', b'2', 8]));
        assert!(read("\"open").is_err());
        assert!(read("\"\\q\"").is_err());
        assert!(read("\"\\xfff\"").is_err());
    }
}
