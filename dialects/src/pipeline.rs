//! A check of pipeline text that names what MLIR only points at: unknown passes, anchors and
//! options of our passes, with the nearest known name.

use crate::pass;

/// Operations that a pipeline can be nested on.
const ANCHORS: [&str; 4] = ["any", "builtin.module", "func.func", "ipu.candidate"];
/// Names less similar than this are not suggested.
const SIMILAR: f64 = 0.7;

/// `, did you mean 'x'?` for the nearest known name, if one is near.
pub fn did_you_mean<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    let nearest = known
        .into_iter()
        .map(|k| (strsim::jaro_winkler(name, k), k))
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(a.1)));
    match nearest {
        Some((similar, k)) if similar >= SIMILAR => format!(", did you mean '{k}'?"),
        _ => String::new(),
    }
}

/// A pipeline with a pass on every candidate added at its end; `None` when it is not one of
/// `builtin.module`. No pipeline is an empty one.
pub fn with_candidate_pass(text: &str, pass: &str) -> Option<String> {
    let text = text.trim();
    let inner = if text.is_empty() {
        ""
    } else {
        let rest = text.strip_prefix("builtin.module")?.trim_start();
        rest.strip_prefix('(')?.strip_suffix(')')?.trim()
    };
    let comma = if inner.is_empty() { "" } else { "," };
    Some(format!(
        "builtin.module({inner}{comma}ipu.candidate({pass}))"
    ))
}

/// Checks the names in a pipeline. Text that does not parse so far is left to MLIR.
///
/// # Errors
/// The first unknown pass, anchor or option of one of our passes, with the nearest known name.
pub fn check(text: &str) -> Result<(), String> {
    let passes = pass::list();
    let mut rest = text;
    while !rest
        .trim_start_matches(|c: char| c.is_whitespace() || ",)".contains(c))
        .is_empty()
    {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || ",)".contains(c));
        let end = rest.find([',', '(', ')', '{', '}']).unwrap_or(rest.len());
        let (name, after) = (rest[..end].trim(), &rest[end..]);
        if name.is_empty() || after.starts_with('}') {
            return Ok(());
        }
        if let Some(inner) = after.strip_prefix('(') {
            if !ANCHORS.contains(&name) {
                let hint = did_you_mean(name, ANCHORS);
                return Err(format!(
                    "passes cannot be nested on '{name}' in --pass-pipeline{hint}"
                ));
            }
            rest = inner;
            continue;
        }
        if !passes.iter().any(|(known, _)| known == name) {
            if ANCHORS.contains(&name) {
                return Err(format!(
                    "'{name}' in --pass-pipeline needs passes in parentheses"
                ));
            }
            let hint = did_you_mean(name, passes.iter().map(|(k, _)| k.as_str()));
            return Err(format!("unknown pass '{name}' in --pass-pipeline{hint}"));
        }
        rest = after;
        if let Some(inner) = after.strip_prefix('{') {
            let Some(end) = closing_brace(inner) else {
                return Ok(());
            };
            check_options(name, &inner[..end], "--pass-pipeline")?;
            rest = &inner[end + 1..];
        }
    }
    Ok(())
}

/// Checks `--name=options`, the flag of one of our passes; other arguments are left to MLIR.
///
/// # Errors
/// The first unknown option, with the nearest known name.
pub fn check_flag(argument: &str) -> Result<(), String> {
    let Some(rest) = argument.strip_prefix('-') else {
        return Ok(());
    };
    match rest.strip_prefix('-').unwrap_or(rest).split_once('=') {
        Some((name, options)) => check_options(name, options, &format!("--{name}")),
        None => Ok(()),
    }
}

fn check_options(name: &str, text: &str, place: &str) -> Result<(), String> {
    let Some(def) = pass::find(name) else {
        return Ok(());
    };
    let names = || def.options.iter().map(|o| o.name());
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| c == '=' || c.is_whitespace())
            .unwrap_or(rest.len());
        let key = &rest[..end];
        if !names().any(|n| n == key) {
            let hint = did_you_mean(key, names());
            let all = names().collect::<Vec<_>>().join(", ");
            let all = if all.is_empty() { "none".into() } else { all };
            return Err(format!(
                "pass '{name}' has no option '{key}' in {place}{hint} (options: {all})"
            ));
        }
        rest = skip_value(&rest[end..]).trim_start();
    }
    Ok(())
}

/// Skips `=value`, where a value may be `{..}` or quoted.
fn skip_value(text: &str) -> &str {
    let (mut depth, mut quote) = (0, None);
    for (i, c) in text.char_indices() {
        match (c, quote) {
            (c, Some(q)) if c == q => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(c),
            ('{', None) => depth += 1,
            ('}', None) => depth -= 1,
            (c, None) if c.is_whitespace() && depth == 0 => return &text[i..],
            _ => {}
        }
    }
    ""
}

fn closing_brace(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.char_indices().find_map(|(i, c)| match c {
        '{' => {
            depth += 1;
            None
        }
        '}' if depth == 0 => Some(i),
        '}' => {
            depth -= 1;
            None
        }
        _ => None,
    })
}
