//! Macro definitions, call arguments, substitution.

use std::rc::Rc;

use super::cursor::{Cursor, is_ident};
use super::error::AsmErrorKind;
use super::source::Line;

type Result<T> = std::result::Result<T, AsmErrorKind>;

/// Longest line that substitution may give.
pub(crate) const MAX_LINE: usize = 1 << 14;
/// Most bytes that one expansion may give.
pub(crate) const MAX_EXPANSION: usize = 4 << 20;

#[derive(Debug)]
pub(crate) struct Parameter {
    name: String,
    default: Option<String>,
    required: bool,
    vararg: bool,
}

#[derive(Debug)]
pub(crate) struct Macro {
    pub(crate) name: Rc<str>,
    parameters: Vec<Parameter>,
    pub(crate) body: Vec<Line>,
}

/// Splits at commas outside parentheses, braces and quotes; trims.
pub(crate) fn split_args(text: &str) -> Vec<&str> {
    pieces(text, false)
        .into_iter()
        .map(|(start, end)| text[start..end].trim())
        .collect()
}

fn is_operator(c: char) -> bool {
    "+-*/%&|^<>=!~".contains(c)
}

/// The places of the arguments in `text`. With `blanks`, blanks separate them
/// too, except around operators.
fn pieces(text: &str, blanks: bool) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    let (mut depth, mut start, mut quote) = (0i32, 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' => quote = !quote,
            _ if quote => {}
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            ',' if depth <= 0 => {
                out.push((start, at));
                start = at + 1;
            }
            _ if blanks && depth <= 0 && c.is_whitespace() => {
                let before = text[start..at].trim();
                let after = text[at..].trim_start();
                let joins = |c: char| c == ',' || is_operator(c);
                if !before.is_empty()
                    && !before.ends_with(is_operator)
                    && !after.is_empty()
                    && !after.starts_with(joins)
                {
                    out.push((start, at));
                    start = at + c.len_utf8();
                }
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() || !out.is_empty() {
        out.push((start, text.len()));
    }
    out
}

fn unquote(text: &str) -> &str {
    text.strip_prefix('"')
        .and_then(|t| t.strip_suffix('"'))
        .unwrap_or(text)
}

impl Macro {
    /// Reads the text behind `.macro`.
    pub(crate) fn parse(text: &str, body: Vec<Line>) -> Result<Macro> {
        let mut c = Cursor::new(text);
        let name = c.expect_ident()?.into();
        c.eat(",");
        let rest = c.rest();
        let mut parameters: Vec<Parameter> = Vec::new();
        let list = split_args(rest);
        // Without commas the parameters stand between blanks.
        let list: Vec<&str> = if list.len() == 1 {
            rest.split_whitespace().collect()
        } else {
            list
        };
        for item in list {
            let mut c = Cursor::new(item);
            let parameter = c.expect_ident()?.to_string();
            let (mut required, mut vararg, mut default) = (false, false, None);
            if c.eat(":") {
                match c.ident() {
                    Some("req") => required = true,
                    Some("vararg") => vararg = true,
                    _ => return Err(AsmErrorKind::expected("`req` or `vararg`", item)),
                }
            }
            if c.eat("=") {
                default = Some(unquote(c.rest().trim()).to_string());
            } else {
                c.expect_end()?;
            }
            if parameters.iter().any(|p| p.name == parameter) {
                return Err(AsmErrorKind::Redefined(parameter));
            }
            parameters.push(Parameter {
                name: parameter,
                default,
                required,
                vararg,
            });
        }
        Ok(Macro {
            name,
            parameters,
            body,
        })
    }

    fn problem(&self, problem: String) -> AsmErrorKind {
        AsmErrorKind::Macro {
            name: self.name.to_string(),
            problem,
        }
    }

    /// The body with the arguments of one call in place. `count` is `\@`.
    pub(crate) fn expand(&self, text: &str, count: u64) -> Result<Rc<[Line]>> {
        let mut values: Vec<Option<String>> = vec![None; self.parameters.len()];
        for (at, (start, end)) in pieces(text, true).into_iter().enumerate() {
            let arg = text[start..end].trim();
            let named = arg.split_once('=').and_then(|(name, value)| {
                let p = self.parameters.iter().position(|p| p.name == name.trim())?;
                (!value.starts_with('=')).then_some((p, value.trim()))
            });
            match (named, self.parameters.get(at)) {
                (Some((p, value)), _) => values[p] = Some(unquote(value).to_string()),
                (None, Some(p)) if p.vararg => {
                    values[at] = Some(text[start..].trim().to_string());
                    break;
                }
                (None, Some(_)) => {
                    values[at] = Some(unquote(arg).to_string()).filter(|v| !v.is_empty());
                }
                (None, None) => {
                    let n = self.parameters.len();
                    return Err(self.problem(format!("takes at most {n} arguments")));
                }
            }
        }
        let mut bindings = Vec::new();
        for (p, value) in self.parameters.iter().zip(values) {
            if p.required && value.is_none() {
                return Err(self.problem(format!("argument `{}` is missing", p.name)));
            }
            let value = value.or_else(|| p.default.clone()).unwrap_or_default();
            bindings.push((p.name.as_str(), value));
        }
        let bindings: Vec<(&str, &str)> = bindings.iter().map(|(n, v)| (*n, v.as_str())).collect();
        substitute(&self.body, &bindings, Some(count))
    }
}

/// Replaces `\name`, `\()` and, in macros, `\@`.
pub(crate) fn substitute(
    body: &[Line],
    bindings: &[(&str, &str)],
    count: Option<u64>,
) -> Result<Rc<[Line]>> {
    let mut total = 0;
    body.iter()
        .map(|line| {
            if !line.text.contains('\\') {
                return Ok(line.clone());
            }
            let text = substitute_line(&line.text, bindings, count);
            total += text.len();
            if text.len() > MAX_LINE || total > MAX_EXPANSION {
                return Err(AsmErrorKind::Limit("length of an expansion"));
            }
            Ok(Line {
                text: text.into(),
                number: line.number,
            })
        })
        .collect()
}

fn substitute_line(text: &str, bindings: &[(&str, &str)], count: Option<u64>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        if let Some(tail) = after.strip_prefix("()") {
            rest = tail;
            continue;
        }
        if let (Some(tail), Some(n)) = (after.strip_prefix('@'), count) {
            out.push_str(&n.to_string());
            rest = tail;
            continue;
        }
        let len = after
            .find(|c: char| !is_ident(c) || c == '.')
            .unwrap_or(after.len());
        match bindings.iter().find(|(name, _)| *name == &after[..len]) {
            Some((_, value)) => {
                out.push_str(value);
                rest = &after[len..];
            }
            None => {
                out.push('\\');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(head: &str, body: &str, call: &str) -> Result<String> {
        let m = Macro::parse(
            head,
            vec![Line {
                text: body.into(),
                number: 1,
            }],
        )?;
        m.expand(call, 7).map(|lines| lines[0].text.to_string())
    }

    #[test]
    fn arguments() {
        let body = "\\a|\\b|\\@|\\c\\()x";
        assert_eq!(
            expand("m a, b=2, c", body, "1, , $m0").as_deref(),
            Ok("1|2|7|$m0x")
        );
        assert_eq!(
            expand("m a b c", body, "(1,2), \"x,y\"").as_deref(),
            Ok("(1,2)|x,y|7|x")
        );
        assert_eq!(
            expand("m a, b, c", body, "c=3, b = 1+1").as_deref(),
            Ok("|1+1|7|3x")
        );
        assert_eq!(
            expand("m a:vararg", "\\a", "1, 2, 3").as_deref(),
            Ok("1, 2, 3")
        );
        assert_eq!(
            expand("m a:vararg", "\\a", "1 2,  3").as_deref(),
            Ok("1 2,  3")
        );
        let list = "\\a|\\b|\\c";
        assert_eq!(
            expand("m a b c", list, "half  1 + 2 (x, y)").as_deref(),
            Ok("half|1 + 2|(x, y)")
        );
        assert_eq!(
            expand("m a b c", list, "1 , -2 \"x y\"").as_deref(),
            Ok("1|-2|x y")
        );
        assert_eq!(expand("m", "\\z", "").as_deref(), Ok("\\z"));
    }

    #[test]
    fn wrong_calls_and_definitions() {
        assert!(expand("m a:req", "", "").is_err());
        assert!(expand("m a", "", "1, 2").is_err());
        assert!(expand("m a, a", "", "").is_err());
        assert!(expand("m a:what", "", "").is_err());
        assert!(expand("", "", "").is_err());
        let long = "x".repeat(MAX_LINE);
        assert!(expand("m a", "\\a\\a", &long).is_err());
    }
}
