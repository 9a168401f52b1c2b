//! Constant and address expressions with C precedence.

use std::cell::Cell;
use std::rc::Rc;

use half::f16;

use super::cursor::{Cursor, Number};
use super::error::AsmErrorKind;

type Result<T> = std::result::Result<T, AsmErrorKind>;

/// Deepest nesting and largest size of one expression.
const MAX_DEPTH: u32 = 64;
const MAX_NODES: u32 = 512;
/// Steps of one evaluation: names may lead to names.
const MAX_STEPS: u32 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinOp {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Eq,
    Ne,
    Le,
    Ge,
    Lt,
    Gt,
    Shl,
    Shr,
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

type Levels = &'static [&'static [(&'static str, BinOp)]];

/// Binary operators by precedence, weakest first; within a level longer tokens first.
const LEVELS: Levels = &[
    &[("||", BinOp::Or)],
    &[("&&", BinOp::And)],
    &[("|", BinOp::BitOr)],
    &[("^", BinOp::BitXor)],
    &[("&", BinOp::BitAnd)],
    &[("==", BinOp::Eq), ("!=", BinOp::Ne)],
    &[
        ("<=", BinOp::Le),
        (">=", BinOp::Ge),
        ("<", BinOp::Lt),
        (">", BinOp::Gt),
    ],
    &[("<<", BinOp::Shl), (">>", BinOp::Shr)],
    &[("+", BinOp::Add), ("-", BinOp::Sub)],
    &[("*", BinOp::Mul), ("/", BinOp::Div), ("%", BinOp::Rem)],
];

/// The same in the order of GNU assemblers.
const GNU_LEVELS: Levels = &[
    &[("||", BinOp::Or)],
    &[("&&", BinOp::And)],
    &[
        ("==", BinOp::Eq),
        ("!=", BinOp::Ne),
        ("<>", BinOp::Ne),
        ("<=", BinOp::Le),
        (">=", BinOp::Ge),
        ("<", BinOp::Lt),
        (">", BinOp::Gt),
    ],
    &[("+", BinOp::Add), ("-", BinOp::Sub)],
    &[
        ("|", BinOp::BitOr),
        ("^", BinOp::BitXor),
        ("&", BinOp::BitAnd),
    ],
    &[
        ("*", BinOp::Mul),
        ("/", BinOp::Div),
        ("%", BinOp::Rem),
        ("<<", BinOp::Shl),
        (">>", BinOp::Shr),
    ],
];

impl BinOp {
    fn is_comparison(self) -> bool {
        matches!(
            self,
            BinOp::Eq | BinOp::Ne | BinOp::Le | BinOp::Ge | BinOp::Lt | BinOp::Gt
        )
    }

    /// The level and the token in GNU assemblers.
    fn gnu(self) -> (usize, &'static str) {
        let level = |(at, ops): (usize, &&'static [(&'static str, BinOp)])| {
            let found = ops.iter().find(|(_, op)| *op == self)?;
            Some((at, found.0))
        };
        GNU_LEVELS
            .iter()
            .enumerate()
            .find_map(level)
            .unwrap_or((0, ""))
    }
}

impl BinOp {
    /// What `+ x` or `- x` with a constant adds.
    fn term(self, x: &Expr) -> Option<i64> {
        match (self, x) {
            (BinOp::Add, Expr::Int(v)) => Some(*v),
            (BinOp::Sub, Expr::Int(v)) => v.checked_neg(),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnOp {
    Neg,
    Not,
    BitNot,
}

/// A parsed expression. Names known as constants are already replaced.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Int(i64),
    /// An offset in a section.
    Place(usize, u32),
    /// A name that is not defined yet.
    Symbol(Rc<str>),
    Unary(UnOp, Rc<Expr>, u32),
    Binary(BinOp, Rc<Expr>, Rc<Expr>, u32),
}

/// What an address is relative to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Section(usize),
    Symbol(Rc<str>),
}

/// The value of an expression: a number, or an address plus a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) base: Option<Base>,
    pub(crate) offset: i64,
}

impl Value {
    pub(crate) fn int(offset: i64) -> Value {
        Value { base: None, offset }
    }

    pub(crate) fn as_int(&self) -> Option<i64> {
        self.base.is_none().then_some(self.offset)
    }
}

/// Names at the point where an expression stands.
pub(crate) trait Scope {
    /// What a name means here: a constant, a place, or [`Expr::Symbol`].
    fn name(&self, name: &str) -> Expr;
    /// What `1f` or `1b` means here.
    fn numeric(&self, number: u32, forward: bool) -> Result<Expr>;
    /// The current place.
    fn here(&self) -> Expr;
    /// Operators bind and compare as in GNU assemblers.
    fn gnu(&self) -> bool {
        false
    }
    /// Two operators stand without parentheses whose order C and GNU
    /// assemblers see differently.
    fn doubtful(&self, _outer: &'static str, _inner: &'static str) {}
}

impl Expr {
    fn nodes(&self) -> u32 {
        match self {
            Expr::Int(_) | Expr::Place(..) | Expr::Symbol(_) => 1,
            Expr::Unary(_, _, n) | Expr::Binary(_, _, _, n) => *n,
        }
    }

    pub(crate) fn negated(self) -> Result<Expr> {
        Expr::unary(UnOp::Neg, self)
    }

    fn unary(op: UnOp, x: Expr) -> Result<Expr> {
        if let Expr::Int(v) = x {
            return Ok(Expr::Int(apply_unary(op, v)));
        }
        let nodes = x.nodes() + 1;
        Expr::Unary(op, Rc::new(x), nodes).bounded()
    }

    fn binary(op: BinOp, a: Expr, b: Expr) -> Result<Expr> {
        match (&a, &b) {
            (Expr::Int(x), Expr::Int(y)) => return Ok(Expr::Int(apply_binary(op, *x, *y)?)),
            (Expr::Place(s, x), Expr::Place(t, y)) if op == BinOp::Sub && s == t => {
                return Ok(Expr::Int(i64::from(*x) - i64::from(*y)));
            }
            // The constants of `x = x + 4`, however often it stands there, are one.
            (Expr::Binary(inner, x, c, _), Expr::Int(d)) => {
                if let (Some(c), Some(d)) = (inner.term(c), op.term(&Expr::Int(*d)))
                    && let Some(sum) = c.checked_add(d)
                {
                    let nodes = x.nodes() + 2;
                    return Ok(Expr::Binary(
                        BinOp::Add,
                        x.clone(),
                        Rc::new(Expr::Int(sum)),
                        nodes,
                    ));
                }
            }
            _ => {}
        }
        let nodes = a.nodes() + b.nodes() + 1;
        Expr::Binary(op, Rc::new(a), Rc::new(b), nodes).bounded()
    }

    fn bounded(self) -> Result<Expr> {
        if self.nodes() > MAX_NODES {
            return Err(AsmErrorKind::Limit("size of an expression"));
        }
        Ok(self)
    }

    /// Evaluates; `lookup` explains names that were not defined when they were used.
    pub(crate) fn eval(&self, lookup: &dyn Fn(&str) -> Option<Expr>) -> Result<Value> {
        self.eval_at(lookup, 0, &Cell::new(MAX_STEPS))
    }

    fn eval_at(
        &self,
        lookup: &dyn Fn(&str) -> Option<Expr>,
        depth: u32,
        steps: &Cell<u32>,
    ) -> Result<Value> {
        // Names lead to names only through `.set`; the bounds also end cycles.
        let left = steps.get();
        if depth > MAX_DEPTH + MAX_NODES || left == 0 {
            return Err(AsmErrorKind::Limit("depth of an expression"));
        }
        steps.set(left - 1);
        match self {
            Expr::Int(v) => Ok(Value::int(*v)),
            Expr::Place(s, o) => Ok(Value {
                base: Some(Base::Section(*s)),
                offset: i64::from(*o),
            }),
            Expr::Symbol(name) => match lookup(name) {
                Some(e) => e.eval_at(lookup, depth + MAX_DEPTH, steps),
                None => Ok(Value {
                    base: Some(Base::Symbol(name.clone())),
                    offset: 0,
                }),
            },
            Expr::Unary(op, x, _) => {
                let x = x.eval_at(lookup, depth + 1, steps)?;
                let v = x.as_int().ok_or(AsmErrorKind::NotRelocatable)?;
                Ok(Value::int(apply_unary(*op, v)))
            }
            Expr::Binary(op, a, b, _) => {
                let a = a.eval_at(lookup, depth + 1, steps)?;
                let b = b.eval_at(lookup, depth + 1, steps)?;
                combine(*op, a, b)
            }
        }
    }

    /// The first name that is still open, for messages.
    pub(crate) fn first_name(&self) -> String {
        match self {
            Expr::Int(v) => v.to_string(),
            Expr::Place(..) => "an address".to_string(),
            Expr::Symbol(name) => display_name(name),
            Expr::Unary(_, x, _) => x.first_name(),
            Expr::Binary(_, a, b, _) => match **a {
                Expr::Int(_) => b.first_name(),
                _ => a.first_name(),
            },
        }
    }
}

/// Names of numeric labels carry their instance behind this character.
pub(crate) const INSTANCE: char = '\u{1}';

/// A name as its author knows it.
pub(crate) fn display_name(name: &str) -> String {
    match name.split_once(INSTANCE) {
        Some((number, _)) => format!("{number}f"),
        None => name.to_string(),
    }
}

fn combine(op: BinOp, a: Value, b: Value) -> Result<Value> {
    match (op, &a.base, &b.base) {
        (_, None, None) => apply_binary(op, a.offset, b.offset).map(Value::int),
        (BinOp::Add, _, None) => Ok(Value {
            offset: a.offset.wrapping_add(b.offset),
            ..a
        }),
        (BinOp::Add, None, _) => Ok(Value {
            offset: a.offset.wrapping_add(b.offset),
            ..b
        }),
        (BinOp::Sub, _, None) => Ok(Value {
            offset: a.offset.wrapping_sub(b.offset),
            ..a
        }),
        (BinOp::Sub, Some(x), Some(y)) if x == y => Ok(Value::int(a.offset.wrapping_sub(b.offset))),
        (
            BinOp::Eq | BinOp::Ne | BinOp::Le | BinOp::Ge | BinOp::Lt | BinOp::Gt,
            Some(x),
            Some(y),
        ) if x == y => apply_binary(op, a.offset, b.offset).map(Value::int),
        _ => Err(AsmErrorKind::NotRelocatable),
    }
}

fn apply_unary(op: UnOp, v: i64) -> i64 {
    match op {
        UnOp::Neg => v.wrapping_neg(),
        UnOp::Not => i64::from(v == 0),
        UnOp::BitNot => !v,
    }
}

fn apply_binary(op: BinOp, a: i64, b: i64) -> Result<i64> {
    let shift = |f: fn(i64, u32) -> i64, out: i64| {
        u32::try_from(b)
            .ok()
            .filter(|&n| n < 64)
            .map_or(out, |n| f(a, n))
    };
    Ok(match op {
        BinOp::Or => i64::from(a != 0 || b != 0),
        BinOp::And => i64::from(a != 0 && b != 0),
        BinOp::BitOr => a | b,
        BinOp::BitXor => a ^ b,
        BinOp::BitAnd => a & b,
        BinOp::Eq => i64::from(a == b),
        BinOp::Ne => i64::from(a != b),
        BinOp::Le => i64::from(a <= b),
        BinOp::Ge => i64::from(a >= b),
        BinOp::Lt => i64::from(a < b),
        BinOp::Gt => i64::from(a > b),
        BinOp::Shl => shift(|a, n| a << n, 0),
        BinOp::Shr => shift(|a, n| a >> n, if a < 0 { -1 } else { 0 }),
        BinOp::Add => a.wrapping_add(b),
        BinOp::Sub => a.wrapping_sub(b),
        BinOp::Mul => a.wrapping_mul(b),
        BinOp::Div if b == 0 => return Err(AsmErrorKind::DivisionByZero),
        BinOp::Rem if b == 0 => return Err(AsmErrorKind::DivisionByZero),
        BinOp::Div => a.wrapping_div(b),
        BinOp::Rem => a.wrapping_rem(b),
    })
}

/// Reads one expression; stops at the first character that cannot continue it.
pub(crate) fn parse(c: &mut Cursor<'_>, scope: &dyn Scope) -> Result<Expr> {
    let levels = if scope.gnu() { GNU_LEVELS } else { LEVELS };
    level(c, scope, levels, 0, 0).map(|(e, _)| e)
}

fn operator(c: &mut Cursor<'_>, ops: &[(&str, BinOp)]) -> Option<BinOp> {
    c.skip_blanks();
    let rest = c.rest();
    let &(token, op) = ops.iter().find(|(t, _)| rest.starts_with(t))?;
    // `|` is not the start of `||`, `<` not of `<<`.
    let longer = ["||", "&&", "<<", ">>"]
        .iter()
        .any(|l| l.len() > token.len() && rest.starts_with(l));
    if longer {
        return None;
    }
    c.eat(token);
    Some(op)
}

/// An expression and its outermost operator, none for a closed one.
fn level(
    c: &mut Cursor<'_>,
    scope: &dyn Scope,
    levels: Levels,
    at: usize,
    depth: u32,
) -> Result<(Expr, Option<BinOp>)> {
    let Some(ops) = levels.get(at) else {
        return unary(c, scope, depth).map(|e| (e, None));
    };
    let (mut left, mut top) = level(c, scope, levels, at + 1, depth)?;
    while let Some(op) = operator(c, ops) {
        let (right, inner) = level(c, scope, levels, at + 1, depth)?;
        if !scope.gnu() {
            let outer = op.gnu();
            let weaker = top.map(BinOp::gnu).filter(|i| i.0 < outer.0);
            let tied = inner.map(BinOp::gnu).filter(|i| i.0 <= outer.0);
            if let Some(inner) = weaker.or(tied) {
                scope.doubtful(outer.1, inner.1);
            }
        }
        left = Expr::binary(op, left, right)?;
        if scope.gnu() && op.is_comparison() {
            // Truth is -1 there.
            left = left.negated()?;
        }
        top = Some(op);
    }
    Ok((left, top))
}

fn unary(c: &mut Cursor<'_>, scope: &dyn Scope, depth: u32) -> Result<Expr> {
    if depth > MAX_DEPTH {
        return Err(AsmErrorKind::Limit("depth of an expression"));
    }
    if c.eat("-") {
        c.skip_blanks();
        if c.at_number() {
            return match c.number()? {
                Number::Float(v, suffix) => float_bits(-v, suffix),
                n => literal(n, scope)?.negated(),
            };
        }
        return unary(c, scope, depth + 1)?.negated();
    }
    if c.eat("+") {
        return unary(c, scope, depth + 1);
    }
    if c.eat("~") {
        return Expr::unary(UnOp::BitNot, unary(c, scope, depth + 1)?);
    }
    if c.eat("!") {
        return Expr::unary(UnOp::Not, unary(c, scope, depth + 1)?);
    }
    if c.eat("(") {
        let levels = if scope.gnu() { GNU_LEVELS } else { LEVELS };
        let (inner, _) = level(c, scope, levels, 0, depth + 1)?;
        c.expect(")")?;
        return Ok(inner);
    }
    c.skip_blanks();
    if c.at_number() {
        let n = c.number()?;
        return literal(n, scope);
    }
    if c.peek() == Some('"') {
        let name = c.name_or_string()?;
        return Ok(scope.name(&name));
    }
    match c.ident() {
        Some(".") => Ok(scope.here()),
        Some(name) => Ok(scope.name(name)),
        None => Err(AsmErrorKind::expected("an expression", c.rest())),
    }
}

fn literal(n: Number, scope: &dyn Scope) -> Result<Expr> {
    match n {
        Number::Int(v) => Ok(Expr::Int(v)),
        Number::Float(v, suffix) => float_bits(v, suffix),
        Number::Label(n, forward) => scope.numeric(n, forward),
    }
}

fn float_bits(v: f64, suffix: char) -> Result<Expr> {
    match suffix {
        'h' => Ok(Expr::Int(i64::from(f16::from_f64(v).to_bits()))),
        'f' => Ok(Expr::Int(i64::from((v as f32).to_bits()))),
        _ => Err(AsmErrorKind::BareFloat),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Names;

    impl Scope for Names {
        fn name(&self, name: &str) -> Expr {
            match name {
                "R" => Expr::Int(92),
                "a" => Expr::Place(0, 16),
                "b" => Expr::Place(0, 40),
                "c" => Expr::Place(1, 4),
                _ => Expr::Symbol(name.into()),
            }
        }
        fn numeric(&self, n: u32, forward: bool) -> Result<Expr> {
            if forward {
                Ok(Expr::Place(0, n))
            } else {
                Err(AsmErrorKind::BareFloat)
            }
        }
        fn here(&self) -> Expr {
            Expr::Place(0, 100)
        }
    }

    fn eval(text: &str) -> Result<Value> {
        let mut c = Cursor::new(text);
        let e = parse(&mut c, &Names)?;
        c.expect_end()?;
        e.eval(&|name| (name == "later").then_some(Expr::Int(5)))
    }

    #[test]
    fn c_precedence_and_associativity() {
        for (text, value) in [
            ("1 + 2 * 3", 7),
            ("(1 + 2) * 3", 9),
            ("10 - 3 - 2", 5),
            ("1 << 4 | 3 & 2 ^ 1", 16 | ((3 & 2) ^ 1)),
            ("1 << 2 + 1", 8),
            ("7 & 3 == 3", 1),
            ("1 || 0 && 0", 1),
            ("!3 + ~0", -1),
            ("-R / 5 % 7", -18 % 7),
            ("- - 3", 3),
            ("4 >= 4 && 3 < 4 && 1 != 2 && 5 > 4 && 4 <= 4", 1),
            ("-8 >> 1", -4),
            ("1 << 64", 0),
            ("-1 >> 99", -1),
            ("1.0h", 0x3c00),
            ("-1.0h", 0xbc00),
            ("1.0f", 0x3f80_0000),
            ("later * 2", 10),
            ("(b - a) / 8 - 1", 2),
            ("2f - 1f", 1),
            (". - a", 84),
            ("later - 5", 0),
        ] {
            assert_eq!(eval(text), Ok(Value::int(value)), "{text}");
        }
    }

    struct Gnu(std::cell::Cell<u32>, bool);

    impl Scope for Gnu {
        fn name(&self, name: &str) -> Expr {
            Names.name(name)
        }
        fn numeric(&self, n: u32, forward: bool) -> Result<Expr> {
            Names.numeric(n, forward)
        }
        fn here(&self) -> Expr {
            Names.here()
        }
        fn gnu(&self) -> bool {
            self.1
        }
        fn doubtful(&self, _: &'static str, _: &'static str) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn gnu_order_differs_where_it_is_doubtful() {
        for (text, c, gnu) in [
            ("1 << 2 + 1", 8, 5),
            ("3 + 1 << 2", 16, 7),
            ("1 | 2 + 1", 3, 4),
            ("6 & 2 == 2", 0, -1),
            ("1 | 6 & 4", 5, 4),
            ("1 << 2 * 3", 64, 12),
            ("1 + 2 * 3", 7, 7),
            ("10 - 3 - 2", 5, 5),
            ("(1 << 2) + 1", 5, 5),
            ("1 + 1 == 2 && 3 > 2", 1, 1),
            ("16 / 4 * 2", 8, 8),
        ] {
            let run = |on| {
                let scope = Gnu(std::cell::Cell::new(0), on);
                let e = parse(&mut Cursor::new(text), &scope).unwrap();
                (e, scope.0.get())
            };
            let (value, doubts) = run(false);
            assert_eq!(value, Expr::Int(c), "{text}");
            assert_eq!(doubts > 0, c != gnu, "{text}");
            assert_eq!(run(true), (Expr::Int(gnu), 0), "{text}");
        }
    }

    #[test]
    fn addresses_keep_their_base() {
        let section = |s, offset| {
            Ok(Value {
                base: Some(Base::Section(s)),
                offset,
            })
        };
        assert_eq!(eval("a + 4"), section(0, 20));
        assert_eq!(eval("4 + c"), section(1, 8));
        let symbol = Value {
            base: Some(Base::Symbol("ext".into())),
            offset: -4,
        };
        assert_eq!(eval("ext - 4"), Ok(symbol));
        assert_eq!(eval("ext - ext"), Ok(Value::int(0)));
        assert_eq!(eval("a < b"), Ok(Value::int(1)));
        for text in ["a * 2", "a - c", "-ext", "1 - a"] {
            assert_eq!(eval(text), Err(AsmErrorKind::NotRelocatable), "{text}");
        }
    }

    #[test]
    fn errors_are_bounded() {
        assert_eq!(eval("1 / 0"), Err(AsmErrorKind::DivisionByZero));
        assert_eq!(eval("1 % 0"), Err(AsmErrorKind::DivisionByZero));
        assert_eq!(eval("1.0"), Err(AsmErrorKind::BareFloat));
        assert!(matches!(
            eval(&"(".repeat(9999)),
            Err(AsmErrorKind::Limit(_))
        ));
        assert!(matches!(
            eval(&"-".repeat(9999)),
            Err(AsmErrorKind::Limit(_))
        ));
        assert!(matches!(
            eval(&"x+".repeat(9999)),
            Err(AsmErrorKind::Limit(_))
        ));
        assert!(eval("1 +").is_err());
        assert!(eval("(1").is_err());
        assert_eq!(eval("0x8000000000000000 / -1"), Ok(Value::int(i64::MIN)));
        let cycle = Expr::Symbol("x".into());
        let lookup = |_: &str| Some(Expr::Symbol("x".into()));
        assert!(matches!(cycle.eval(&lookup), Err(AsmErrorKind::Limit(_))));
    }
}
