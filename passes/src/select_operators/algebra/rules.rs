//! Reads the rules from their table, `rules.ron`.

use super::conditions::{self, Condition};
use super::term::{Attr, AttrKind, Payload, Sym, Term};
use egg::{ENodeOrVar, Id, Pattern, RecExpr, Var};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// How much freedom rules have with floating point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Numerics {
    /// The same bits, or fewer roundings.
    Strict,
    /// And operations in another order.
    #[default]
    Reassoc,
    /// And roundings in other places.
    Fast,
}

impl Numerics {
    /// As options name them.
    pub const NAMES: [(&'static str, Numerics); 3] = [
        ("strict", Numerics::Strict),
        ("reassoc", Numerics::Reassoc),
        ("fast", Numerics::Fast),
    ];
}

/// When a rule is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Phase {
    /// Local, to saturation.
    A,
    /// Structural, few iterations.
    B,
    /// Once, as a whole.
    G,
}

/// What a rule does to floating point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Class {
    /// The same bits, or fewer roundings.
    X,
    /// Other order.
    R,
    /// Other roundings.
    Q,
}

impl Class {
    /// The least freedom that allows it.
    pub fn needs(self) -> Numerics {
        match self {
            Class::X => Numerics::Strict,
            Class::R => Numerics::Reassoc,
            Class::Q => Numerics::Fast,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rules: Vec<Row>,
    group: Group,
    disabled: Vec<Disabled>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    table: Vec<u32>,
    phase: Phase,
    numerics: Class,
    #[serde(default)]
    commute: bool,
    #[serde(default)]
    each: Vec<String>,
    from: String,
    to: String,
    #[serde(default)]
    when: Vec<String>,
}

/// The merge of linear operators, which is no rewriting of terms.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name in reports.
    pub name: String,
    /// Rows of the table of equalities.
    pub table: Vec<u32>,
    /// Always [`Phase::G`].
    pub phase: Phase,
    /// What it does to floating point.
    pub numerics: Class,
}

/// Equalities that are known and not used.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disabled {
    /// A name.
    pub name: String,
    /// Rows of the table of equalities.
    pub table: Vec<u32>,
    /// Why not.
    pub reason: String,
}

/// A term of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expr {
    /// A variable.
    Var(Var),
    /// An attribute.
    Attr(Attr),
    /// No bias.
    Absent,
    /// An operator.
    Op(Sym, Vec<Expr>),
    /// A computed attribute, of the right side only: an index in [`conditions::FUNCTIONS`].
    Call(usize, Vec<Var>),
}

/// A side condition with its arguments.
#[derive(Clone, Debug)]
pub struct Guard {
    /// As in the file.
    pub text: String,
    /// The test.
    pub condition: Condition,
    /// The variables.
    pub vars: Vec<Var>,
    /// The number.
    pub number: f64,
}

/// One rule; the variants of `each` and `commute` are its patterns.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its name.
    pub name: Arc<str>,
    /// Rows of the table of equalities.
    pub table: Vec<u32>,
    /// When it is applied.
    pub phase: Phase,
    /// What it does to floating point.
    pub numerics: Class,
    /// Left sides, each with its right side.
    pub sides: Vec<(Pattern<Term>, Expr)>,
    /// All must hold.
    pub guards: Vec<Guard>,
}

/// The table.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The rules, in the order in which they are applied.
    pub rules: Vec<Rule>,
    /// The merge.
    pub group: Group,
    /// What is not used.
    pub disabled: Vec<Disabled>,
}

/// An error in a table of rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {}", self.what())]
pub struct RuleError {
    /// File.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// Rule, where it is known.
    pub rule: Option<String>,
    /// What is wrong.
    pub message: String,
}

impl RuleError {
    /// What is wrong, without the place.
    pub fn what(&self) -> String {
        match &self.rule {
            Some(rule) => format!("rule '{rule}': {}", self.message),
            None => self.message.clone(),
        }
    }
}

impl Rules {
    /// The table that is part of the compiler.
    ///
    /// # Errors
    /// It is wrong; a test excludes that.
    pub fn builtin() -> Result<&'static Rules, RuleError> {
        static RULES: OnceLock<Result<Rules, RuleError>> = OnceLock::new();
        RULES
            .get_or_init(|| Rules::read("rules.ron", include_str!("rules.ron")))
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Reads a table.
    ///
    /// # Errors
    /// The first mistake, with its line and rule.
    pub fn read(file: &str, text: &str) -> Result<Rules, RuleError> {
        let table: File = ron::from_str(text).map_err(|e| RuleError {
            file: file.to_owned(),
            line: e.span.start.line,
            column: e.span.start.col,
            rule: None,
            message: e.code.to_string(),
        })?;
        let mut known: BTreeMap<&str, ()> = BTreeMap::new();
        let mut rules = Vec::with_capacity(table.rules.len());
        for row in &table.rules {
            let (line, column) = place_of(text, &row.name);
            let error = |message| RuleError {
                file: file.to_owned(),
                line,
                column,
                rule: Some(row.name.clone()),
                message,
            };
            if known.insert(&row.name, ()).is_some() {
                return Err(error("there is another rule of this name".to_owned()));
            }
            rules.push(rule(row).map_err(error)?);
        }
        Ok(Rules {
            rules,
            group: table.group,
            disabled: table.disabled,
        })
    }
}

/// Line and column of the last rule of a name: of two, the second is the mistake.
fn place_of(text: &str, name: &str) -> (usize, usize) {
    let wanted = format!("name: \"{name}\"");
    let places = text.lines().zip(1..).filter_map(|(line, number)| {
        let at = line.find(&wanted)?;
        Some((number, line[..at].chars().count() + 1))
    });
    places.last().unwrap_or((1, 1))
}

fn rule(row: &Row) -> Result<Rule, String> {
    if row.phase == Phase::G {
        return Err("phase G is for the merge alone".to_owned());
    }
    let texts = match row.each.as_slice() {
        [] => vec![(row.from.clone(), row.to.clone())],
        each => each
            .iter()
            .map(|t| (row.from.replace('$', t), row.to.replace('$', t)))
            .collect(),
    };
    let mut sides: Vec<(Expr, Expr)> = Vec::new();
    for (from, to) in texts {
        let (from, to) = (
            parse(&from, false).map_err(|e| format!("from: {e}"))?,
            parse(&to, true).map_err(|e| format!("to: {e}"))?,
        );
        if !matches!(from, Expr::Op(..)) {
            return Err("from: must be an operator".to_owned());
        }
        let mut bound = Vec::new();
        vars(&from, &mut bound);
        let mut used = Vec::new();
        vars(&to, &mut used);
        if let Some(v) = used.iter().find(|v| !bound.contains(v)) {
            return Err(format!("to: {v} is not bound by from"));
        }
        let orders = if row.commute {
            commuted(&from)
        } else {
            vec![from]
        };
        for from in orders {
            if !sides.iter().any(|(f, t)| *f == from && *t == to) {
                sides.push((from, to.clone()));
            }
        }
    }
    let mut bound = Vec::new();
    for (from, _) in &sides {
        vars(from, &mut bound);
    }
    let mut guards = Vec::new();
    for text in &row.when {
        let guard = guard(text).map_err(|e| format!("when: {e}"))?;
        if let Some(v) = guard.vars.iter().find(|v| !bound.contains(v)) {
            return Err(format!("when: {text}: {v} is not bound by from"));
        }
        guards.push(guard);
    }
    Ok(Rule {
        name: row.name.as_str().into(),
        table: row.table.clone(),
        phase: row.phase,
        numerics: row.numerics,
        sides: sides
            .into_iter()
            .map(|(from, to)| (pattern(&from), to))
            .collect(),
        guards,
    })
}

fn vars(expr: &Expr, out: &mut Vec<Var>) {
    match expr {
        Expr::Var(v) => out.push(*v),
        Expr::Op(_, children) => children.iter().for_each(|c| vars(c, out)),
        Expr::Call(_, args) => out.extend(args),
        Expr::Attr(_) | Expr::Absent => {}
    }
}

/// All orders of the operands of commutative operators.
fn commuted(expr: &Expr) -> Vec<Expr> {
    use ipu_program::graph::BinaryKind::{Add, Max, Min, Mul};
    let Expr::Op(sym, children) = expr else {
        return vec![expr.clone()];
    };
    let mut lists: Vec<Vec<Expr>> = vec![Vec::new()];
    for child in children {
        let forms = commuted(child);
        lists = lists
            .iter()
            .flat_map(|l| {
                forms.iter().map(|f| {
                    let mut l = l.clone();
                    l.push(f.clone());
                    l
                })
            })
            .collect();
    }
    let mut out: Vec<Expr> = Vec::new();
    for mut list in lists {
        let first = Expr::Op(*sym, list.clone());
        list.reverse();
        let second = Expr::Op(*sym, list);
        let both = matches!(sym, Sym::Binary(Add | Mul | Max | Min));
        for form in [Some(first), both.then_some(second)].into_iter().flatten() {
            if !out.contains(&form) {
                out.push(form);
            }
        }
    }
    out
}

fn pattern(expr: &Expr) -> Pattern<Term> {
    fn add(expr: &Expr, ast: &mut RecExpr<ENodeOrVar<Term>>) -> Id {
        let term = match expr {
            Expr::Var(v) => return ast.add(ENodeOrVar::Var(*v)),
            Expr::Attr(attr) => Term::attr(attr.clone()),
            Expr::Op(sym, children) => {
                let children = children.iter().map(|c| add(c, ast)).collect();
                Term::new(*sym, children)
            }
            // Left sides have no calls: `parse` refuses them.
            Expr::Absent | Expr::Call(..) => Term::new(Sym::Absent, Vec::new()),
        };
        debug_assert!(!matches!(term.payload, Payload::Index(_)));
        ast.add(ENodeOrVar::ENode(term))
    }
    let mut ast = RecExpr::default();
    add(expr, &mut ast);
    Pattern::new(ast)
}

/// An S-expression.
enum Text<'a> {
    Word(&'a str),
    List(Vec<Text<'a>>),
}

fn text(source: &str) -> Result<Text<'_>, String> {
    let mut stack: Vec<Vec<Text<'_>>> = vec![Vec::new()];
    let mut rest = source.trim_start();
    while let Some(c) = rest.chars().next() {
        let end = match c {
            '(' => {
                stack.push(Vec::new());
                1
            }
            ')' => {
                let list = stack.pop().unwrap_or_default();
                let Some(outer) = stack.last_mut() else {
                    return Err("')' without '('".to_owned());
                };
                outer.push(Text::List(list));
                1
            }
            _ => {
                let end = rest
                    .find(|c: char| c.is_whitespace() || c == '(' || c == ')')
                    .unwrap_or(rest.len());
                if let Some(list) = stack.last_mut() {
                    list.push(Text::Word(&rest[..end]));
                }
                end
            }
        };
        rest = rest[end..].trim_start();
    }
    match (stack.pop(), stack.is_empty()) {
        (Some(mut list), true) if list.len() == 1 => Ok(list.remove(0)),
        (_, true) => Err("must be one term".to_owned()),
        _ => Err("'(' without ')'".to_owned()),
    }
}

fn variable(word: &str) -> Result<Var, String> {
    word.parse()
        .map_err(|_| format!("'{word}' is not a variable"))
}

fn parse(source: &str, right: bool) -> Result<Expr, String> {
    operand(&text(source)?, right)
}

fn operand(text: &Text<'_>, right: bool) -> Result<Expr, String> {
    match text {
        Text::Word("absent") => Ok(Expr::Absent),
        Text::Word(word) if word.starts_with('?') => variable(word).map(Expr::Var),
        Text::Word(word) => Err(format!("'{word}' is neither a variable nor a term")),
        Text::List(list) => {
            let [Text::Word(name), children @ ..] = list.as_slice() else {
                return Err("a term begins with a symbol".to_owned());
            };
            let Some(&(_, sym)) = Sym::NAMED.iter().find(|(n, _)| n == name) else {
                return Err(format!("no symbol '{name}'"));
            };
            let kinds = sym.attributes();
            let expected = sym.operands().map(|n| n + kinds.len());
            if expected.is_some_and(|n| n != children.len()) || children.len() < kinds.len() {
                return Err(format!(
                    "'{name}' takes {} children, found {}",
                    expected.map_or_else(|| format!("{} or more", kinds.len()), |n| n.to_string()),
                    children.len()
                ));
            }
            let children: Result<Vec<Expr>, String> = children
                .iter()
                .enumerate()
                .map(|(i, c)| match kinds.get(i) {
                    Some(&kind) => attribute(c, kind, right),
                    None => operand(c, right),
                })
                .collect();
            Ok(Expr::Op(sym, children?))
        }
    }
}

fn attribute(text: &Text<'_>, kind: AttrKind, right: bool) -> Result<Expr, String> {
    match text {
        Text::Word(word) if word.starts_with('?') => variable(word).map(Expr::Var),
        Text::Word(word) => Attr::parse(kind, word)
            .map(Expr::Attr)
            .ok_or_else(|| format!("'{word}' is not an attribute of kind {kind:?}")),
        Text::List(_) if !right => Err("only the right side computes attributes".to_owned()),
        Text::List(list) => {
            let [Text::Word(name), args @ ..] = list.as_slice() else {
                return Err("a function begins with its name".to_owned());
            };
            let Some(function) = conditions::FUNCTIONS.iter().position(|(n, ..)| n == name) else {
                return Err(format!("no function '{name}' of attributes"));
            };
            let args = variables(name, args, conditions::FUNCTIONS[function].1)?;
            Ok(Expr::Call(function, args))
        }
    }
}

fn variables(name: &str, args: &[Text<'_>], count: usize) -> Result<Vec<Var>, String> {
    if args.len() != count {
        return Err(format!(
            "'{name}' takes {count} variables, found {}",
            args.len()
        ));
    }
    args.iter()
        .map(|a| match a {
            Text::Word(word) => variable(word),
            Text::List(_) => Err(format!("'{name}' takes variables")),
        })
        .collect()
}

fn guard(source: &str) -> Result<Guard, String> {
    let Text::List(list) = text(source)? else {
        return Err(format!("'{source}' is not a condition"));
    };
    let [Text::Word(name), args @ ..] = list.as_slice() else {
        return Err("a condition begins with its name".to_owned());
    };
    let Some(&(_, count, numbers, condition)) =
        conditions::CONDITIONS.iter().find(|(n, ..)| n == name)
    else {
        return Err(format!("no condition '{name}'"));
    };
    let (args, number) = match (numbers, args) {
        (false, args) => (args, 0.0),
        (true, [args @ .., Text::Word(word)]) => {
            let number = word.parse().map_err(|_| format!("'{word}' is no number"))?;
            (args, number)
        }
        (true, _) => return Err(format!("'{name}' ends with a number")),
    };
    Ok(Guard {
        text: source.to_owned(),
        condition,
        vars: variables(name, args, count)?,
        number,
    })
}
