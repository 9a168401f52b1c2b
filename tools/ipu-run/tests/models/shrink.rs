//! A smaller model that fails in the same way: results left out, operators replaced by arguments.

use crate::generate::{Model, Random, array};
use crate::levels::check;
use std::collections::{BTreeMap, BTreeSet};

/// One line of a body: the value, its operation and its type.
#[derive(Clone)]
struct Line {
    name: String,
    text: String,
    ty: String,
}

#[derive(Clone)]
struct Text {
    arguments: Vec<(String, String)>,
    lines: Vec<Line>,
    results: Vec<String>,
}

/// Names of values in a text.
fn names(text: &str) -> Vec<String> {
    text.split('%')
        .skip(1)
        .map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric());
            format!("%{}", &rest[..end.unwrap_or(rest.len())])
        })
        .collect()
}

impl Text {
    fn parse(text: &str) -> Option<Text> {
        let mut lines = text.lines();
        let head = lines.next()?;
        let list = head.split_once('(')?.1.split_once(") -> ")?.0;
        let arguments = list
            .split(", ")
            .filter_map(|a| a.split_once(": "))
            .map(|(name, ty)| (name.to_owned(), ty.to_owned()));
        let mut out = Text {
            arguments: arguments.collect(),
            lines: Vec::new(),
            results: Vec::new(),
        };
        for line in lines {
            if let Some((name, _)) = line.trim().split_once(" = ") {
                let ty = line.rsplit_once(" : ")?.1;
                let ty = ty.rsplit_once("-> ").map_or(ty, |p| p.1);
                out.lines.push(Line {
                    name: name.to_owned(),
                    text: line.to_owned(),
                    ty: ty.to_owned(),
                });
            } else if let Some(list) = line.trim().strip_prefix("return ") {
                out.results = names(list);
            }
        }
        Some(out)
    }

    /// Without what no result needs.
    fn needed(mut self) -> Text {
        let mut used: BTreeSet<String> = self.results.iter().cloned().collect();
        for line in self.lines.iter().rev() {
            if used.contains(&line.name) {
                used.extend(names(&line.text));
            }
        }
        self.lines.retain(|l| used.contains(&l.name));
        self.arguments.retain(|a| used.contains(&a.0));
        self
    }

    fn print(&self) -> String {
        let known: BTreeMap<&str, &str> = self
            .arguments
            .iter()
            .map(|(n, t)| (n.as_str(), t.as_str()))
            .chain(self.lines.iter().map(|l| (l.name.as_str(), l.ty.as_str())))
            .collect();
        let types: Vec<&str> = self.results.iter().map(|r| known[r.as_str()]).collect();
        let types = types.join(", ");
        let arguments: Vec<String> = self
            .arguments
            .iter()
            .map(|(n, t)| format!("{n}: {t}"))
            .collect();
        let body: Vec<&str> = self.lines.iter().map(|l| l.text.as_str()).collect();
        format!(
            "func.func @main({}) -> ({types}) {{\n{}\n  return {} : {types}\n}}\n",
            arguments.join(", "),
            body.join("\n"),
            self.results.join(", ")
        )
    }

    fn model(&self, like: &Model) -> Model {
        let mut random = Random::new(1);
        let shape = |ty: &str| -> Vec<u32> {
            let inner = ty.trim_start_matches("tensor<").trim_end_matches('>');
            inner.split('x').filter_map(|d| d.parse().ok()).collect()
        };
        let inputs = [(); 2].map(|()| {
            let one = |(_, ty): &(String, String)| array(&mut random, &shape(ty), |v| v);
            self.arguments.iter().map(one).collect()
        });
        Model {
            text: self.print(),
            options: like.options.clone(),
            single: like.single,
            weights: like.weights.clone(),
            inputs,
        }
    }
}

/// What kind of failure a message is.
fn kind(message: &str) -> String {
    let word = |w: &str| w.chars().all(|c| c.is_ascii_alphabetic());
    let words = message.split_whitespace().filter(|w| word(w)).take(4);
    words.collect::<Vec<_>>().join(" ")
}

/// The text of a smaller model that fails like `model` with `why`, and how it fails.
pub fn shrink(model: &Model, why: &str) -> (String, String) {
    let wanted = kind(why);
    let mut best = (model.text.clone(), why.to_owned());
    let Some(mut text) = Text::parse(&model.text) else {
        return best;
    };
    let fails = |text: &Text| {
        let checked = std::panic::catch_unwind(|| check(&text.model(model)));
        let message = match checked {
            Ok(Ok(_)) => return None,
            Ok(Err(message)) => message,
            Err(_) => "panicked".to_owned(),
        };
        (kind(&message) == wanted).then_some(message)
    };
    loop {
        let mut smaller = Vec::new();
        for i in 0..text.results.len() {
            let mut t = text.clone();
            t.results.remove(i);
            if !t.results.is_empty() {
                smaller.push(t);
            }
        }
        for line in &text.lines {
            let mut t = text.clone();
            t.results = vec![line.name.clone()];
            smaller.push(t);
            let mut t = text.clone();
            t.lines.retain(|l| l.name != line.name);
            t.arguments.push((line.name.clone(), line.ty.clone()));
            smaller.push(t);
        }
        let size = |t: &Text| (t.lines.len(), t.results.len(), t.arguments.len());
        let found = smaller
            .into_iter()
            .map(Text::needed)
            .filter(|t| size(t) < size(&text))
            .find_map(|t| Some((fails(&t)?, t)));
        let Some((message, t)) = found else {
            return best;
        };
        best = (t.print(), message);
        text = t;
    }
}
