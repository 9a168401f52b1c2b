//! Macro definitions, call arguments, substitution.

use std::collections::HashMap;
use std::rc::Rc;

use super::cursor::{Cursor, is_ident};
use super::error::AsmErrorKind;
use super::source::{Line, char_literal};

type Result<T> = std::result::Result<T, AsmErrorKind>;

/// Most parameters of a macro.
const MAX_PARAMETERS: usize = 512;
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
    body: Vec<Line>,
    /// Bytes of the body: what reading it once costs.
    pub(crate) bytes: usize,
}

/// Splits at commas outside parentheses, braces and quotes; trims.
pub(crate) fn split_args(text: &str) -> Vec<&str> {
    pieces(text, false, false)
        .into_iter()
        .map(|(start, end)| text[start..end].trim())
        .collect()
}

/// Splits at commas and at blanks, except around operators.
pub(crate) fn split_values(text: &str) -> Vec<&str> {
    pieces(text, true, false)
        .into_iter()
        .map(|(start, end)| text[start..end].trim())
        .collect()
}

fn is_operator(c: char) -> bool {
    "+-*/%&|^<>=!~".contains(c)
}

/// The places of the arguments in `text`. With `blanks`, blanks separate them
/// too, except around operators. With `angles`, `<` at the start of an
/// argument quotes up to its `>`.
fn pieces(text: &str, blanks: bool, angles: bool) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    let (mut depth, mut start, mut quote) = (0i32, 0, false);
    let mut angle = 0u32;
    let mut skip = 0;
    for (at, c) in text.char_indices() {
        if at < skip {
            continue;
        }
        match c {
            '\\' if quote => skip = at + 2,
            '!' if angle > 0 => skip = at + 2,
            '<' if angles && !quote && (angle > 0 || text[start..at].trim().is_empty()) => {
                angle += 1;
            }
            '>' if angle > 0 => angle -= 1,
            _ if angle > 0 => {}
            '"' => quote = !quote,
            _ if quote => {}
            '\'' => skip = at + char_literal(&text[at..]),
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            ',' if depth <= 0 => {
                out.push((start, at));
                start = at + 1;
            }
            _ if blanks && depth <= 0 && c.is_whitespace() => {
                let before = text[start..at].trim();
                let after = text[at..].trim_start();
                let joins = |c: char| c == ',' || (is_operator(c) && !(angles && "%<".contains(c)));
                let quoted = angles && before.starts_with('<') && before.ends_with('>');
                if !before.is_empty()
                    && (quoted || !before.ends_with(is_operator))
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

/// Gives the value of an expression.
pub(crate) type Evaluate<'a> = &'a dyn Fn(&str) -> Result<i64>;

/// What a call needs to know beside its arguments.
pub(crate) struct Call<'a> {
    /// The value of `\@`.
    pub(crate) count: u64,
    /// Under `.altmacro`: evaluates `%expression` arguments.
    pub(crate) alternate: Option<Evaluate<'a>>,
}

impl Macro {
    /// Reads the text behind `.macro`.
    pub(crate) fn parse(text: &str, body: Vec<Line>) -> Result<Macro> {
        let mut c = Cursor::new(text);
        let name = c.expect_ident()?.into();
        let mut parameters: Vec<Parameter> = Vec::new();
        loop {
            c.eat(",");
            if c.at_end() {
                break;
            }
            c.eat("\\");
            let parameter = c.expect_ident()?.to_string();
            let (mut required, mut vararg, mut default) = (false, false, None);
            if parameters.last().is_some_and(|p| p.vararg) {
                return Err(AsmErrorKind::expected(
                    "nothing behind the `vararg` parameter",
                    &parameter,
                ));
            }
            if c.eat(":") {
                match c.ident() {
                    Some("req") => required = true,
                    Some("vararg") => vararg = true,
                    _ => return Err(AsmErrorKind::expected("`req` or `vararg`", c.rest())),
                }
            }
            if c.eat("=") {
                c.skip_blanks();
                let rest = c.rest();
                let (start, end) = pieces(rest, true, false).first().copied().unwrap_or((0, 0));
                default = Some(unquote(rest[start..end].trim()).to_string());
                let mut left = end;
                c.take_while(|ch| {
                    let take = left > 0;
                    left = left.saturating_sub(ch.len_utf8());
                    take
                });
            }
            if parameters.iter().any(|p| p.name == parameter) {
                return Err(AsmErrorKind::Redefined(parameter));
            }
            if parameters.len() == MAX_PARAMETERS {
                return Err(AsmErrorKind::Limit("parameters of a macro"));
            }
            parameters.push(Parameter {
                name: parameter,
                default,
                required,
                vararg,
            });
        }
        let bytes = body.iter().map(|l| l.text.len()).sum();
        Ok(Macro {
            name,
            parameters,
            body,
            bytes,
        })
    }

    fn problem(&self, problem: String) -> AsmErrorKind {
        AsmErrorKind::Macro {
            name: self.name.to_string(),
            problem,
        }
    }

    /// The body with the arguments of one call in place.
    pub(crate) fn expand(&self, text: &str, call: &Call<'_>) -> Result<Rc<[Line]>> {
        let angles = call.alternate.is_some();
        let mut values: Vec<Option<String>> = vec![None; self.parameters.len()];
        for (at, (start, end)) in pieces(text, true, angles).into_iter().enumerate() {
            let arg = text[start..end].trim();
            let named = arg.split_once('=').and_then(|(name, value)| {
                let p = self.parameters.iter().position(|p| p.name == name.trim())?;
                (!value.starts_with('=')).then_some((p, value.trim()))
            });
            match (named, self.parameters.get(at)) {
                (Some((p, value)), _) => values[p] = Some(argument(value, call)?),
                (None, Some(p)) if p.vararg => {
                    values[at] = Some(text[start..].trim().to_string());
                    break;
                }
                (None, Some(_)) => {
                    values[at] = Some(argument(arg, call)?).filter(|_| !arg.is_empty());
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
        if !angles {
            return substitute(&self.body, &bindings, Some(call.count), false);
        }
        // `LOCAL a, b` makes names of this call.
        let mut body = Vec::with_capacity(self.body.len());
        for line in &self.body {
            let text = line.text.trim_start();
            let local = text
                .get(..6)
                .is_some_and(|w| w.eq_ignore_ascii_case("local "));
            if local && bindings.len() < 4096 {
                for name in split_values(&text[6..]) {
                    let unique = format!(".LL{}.{}", call.count, bindings.len());
                    bindings.push((name, unique));
                }
            } else {
                body.push(line.clone());
            }
        }
        substitute(&body, &bindings, Some(call.count), true)
    }
}

/// The text that an argument stands for.
fn argument(text: &str, call: &Call<'_>) -> Result<String> {
    let Some(evaluate) = call.alternate else {
        return Ok(unquote(text).to_string());
    };
    if let Some(expression) = text.strip_prefix('%') {
        return evaluate(expression).map(|v| v.to_string());
    }
    let Some(inner) = text.strip_prefix('<').and_then(|t| t.strip_suffix('>')) else {
        return Ok(unquote(text).to_string());
    };
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        out.extend(if c == '!' { chars.next() } else { Some(c) });
    }
    Ok(out)
}

/// Replaces `\name`, `\()` and, in macros, `\@`; with `alternate` also bare
/// names and the `&` that joins them to text.
pub(crate) fn substitute(
    body: &[Line],
    bindings: &[(&str, String)],
    count: Option<u64>,
    alternate: bool,
) -> Result<Rc<[Line]>> {
    let mut total = 0;
    let bindings = Bindings::new(bindings);
    body.iter()
        .map(|line| {
            if !line.text.contains('\\') && !alternate {
                return Ok(line.clone());
            }
            let mut text = substitute_line(&line.text, &bindings, count);
            if alternate && text.len() <= MAX_LINE {
                text = substitute_bare(&text, &bindings);
            }
            total += text.len();
            if text.len() > MAX_LINE || total > MAX_EXPANSION {
                return Err(AsmErrorKind::Limit("length of an expansion"));
            }
            Ok(line.with_text(&text))
        })
        .collect()
}

/// The values of names; many names are found by hash.
struct Bindings<'a> {
    list: &'a [(&'a str, String)],
    index: HashMap<&'a str, usize>,
}

impl<'a> Bindings<'a> {
    fn new(list: &'a [(&'a str, String)]) -> Bindings<'a> {
        let mut index = HashMap::new();
        if list.len() > 8 {
            for (at, (name, _)) in list.iter().enumerate() {
                index.entry(*name).or_insert(at);
            }
        }
        Bindings { list, index }
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        let at = if self.index.is_empty() {
            self.list.iter().position(|(n, _)| *n == name)
        } else {
            self.index.get(name).copied()
        };
        self.list.get(at?).map(|(_, value)| value.as_str())
    }
}

fn substitute_line(text: &str, bindings: &Bindings<'_>, count: Option<u64>) -> String {
    let mut out = String::with_capacity(text.len() + 16);
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
        match bindings.get(&after[..len]) {
            Some(value) => {
                out.push_str(value);
                rest = &after[len..];
            }
            None => {
                out.push('\\');
                rest = after;
            }
        }
        if out.len() > MAX_LINE {
            return out;
        }
    }
    out.push_str(rest);
    out
}

fn substitute_bare(text: &str, bindings: &Bindings<'_>) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find(is_ident) {
        let tail = &rest[at..];
        let len = tail.find(|c: char| !is_ident(c)).unwrap_or(tail.len());
        let Some(value) = bindings.get(&tail[..len]) else {
            out.push_str(&rest[..at + len]);
            rest = &tail[len..];
            continue;
        };
        let before = &rest[..at];
        out.push_str(before.strip_suffix('&').unwrap_or(before));
        out.push_str(value);
        rest = &tail[len..];
        if !rest.starts_with("&&") {
            rest = rest.strip_prefix('&').unwrap_or(rest);
        }
        if out.len() > MAX_LINE {
            return out;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(head: &str, body: &str, call: &str) -> Result<String> {
        let m = Macro::parse(head, vec![line(body)])?;
        let call_of = Call {
            count: 7,
            alternate: None,
        };
        m.expand(call, &call_of)
            .map(|lines| lines[0].text.to_string())
    }

    fn line(text: &str) -> Line {
        Line {
            text: text.into(),
            file: 0,
            number: 1,
            raw: 0,
        }
    }

    fn alternate(head: &str, body: &[&str], call: &str) -> Result<Vec<String>> {
        let m = Macro::parse(head, body.iter().map(|l| line(l)).collect())?;
        let call_of = Call {
            count: 7,
            alternate: Some(&|text| Ok(text.trim().len() as i64)),
        };
        let lines = m.expand(call, &call_of)?;
        Ok(lines.iter().map(|l| l.text.to_string()).collect())
    }

    #[test]
    fn alternate_mode() {
        assert_eq!(
            alternate("m a b", &["x a, &b&_t, \\a, ab"], "<1, !>2> %(3+4)").unwrap(),
            ["x 1, >2, 5_t, 1, >2, ab"]
        );
        assert_eq!(
            alternate("m", &["LOCAL l", "l: bri l"], "").unwrap(),
            [".LL7.0: bri .LL7.0"]
        );
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
        // Commas and blanks may mix in definitions.
        assert_eq!(
            expand("m a b=1 + 2, c=\"x y\" d:vararg", "\\a|\\b|\\c|\\d", "5").as_deref(),
            Ok("5|1 + 2|x y|")
        );
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
