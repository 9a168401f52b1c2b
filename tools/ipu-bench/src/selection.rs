//! Operator selection by itself: how long it takes on encoders of known models, and whether its
//! estimates put plans in the order that the simulator does.

use crate::Format;
use crate::workloads::{self, Simulated};
use anyhow::{Context, Result, bail};
use ipu_dialects::context::with_big_stack;
use ipu_passes::pick_finalist::kendall;
use ipu_passes::registry::{Options, stages};
use ipu_passes::select_operators::plans::stream::Streams;
use ipu_passes::select_operators::plans::{Machine, Partials};
use ipu_passes::select_operators::search;
use ipu_passes::session::Session;
use ipu_program::graph::{Activation, OpKind};
use ipu_program::kernels::Kernels;
use ipu_target::Target;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

/// Models that are timed: the attention block of the specification, and two encoders.
pub const MODELS: [&str; 3] = ["siglip-attention", "vit-base", "siglip"];

/// Extents of an encoder.
struct Encoder {
    name: &'static str,
    blocks: u32,
    tokens: u32,
    width: u32,
    heads: u32,
    mlp: u32,
}

const ENCODERS: [Encoder; 2] = [
    Encoder {
        name: MODELS[1],
        blocks: 12,
        tokens: 197,
        width: 768,
        heads: 12,
        mlp: 3072,
    },
    Encoder {
        name: MODELS[2],
        blocks: 27,
        tokens: 729,
        width: 1152,
        heads: 16,
        mlp: 4304,
    },
];

/// Writes operations one after the other.
#[derive(Default)]
struct Writer {
    text: String,
    next: u32,
}

impl Writer {
    fn op(&mut self, text: &str) -> String {
        let name = format!("%v{}", self.next);
        self.next += 1;
        let _ = writeln!(self.text, "  {name} = {text}");
        name
    }

    fn parameter(&mut self, name: &str, ty: &str) -> String {
        self.op(&format!("nn.parameter \"{name}\" : {ty}"))
    }

    /// `x * w + b` of `rows` rows.
    fn linear(&mut self, x: &str, name: &str, [rows, from, to]: [u32; 3]) -> String {
        let (wt, bt) = (matrix(&[from, to]), matrix(&[to]));
        let (xt, yt) = (matrix(&[1, rows, from]), matrix(&[1, rows, to]));
        let w = self.parameter(&format!("{name}.weight"), &wt);
        let b = self.parameter(&format!("{name}.bias"), &bt);
        let y = self.op(&format!("nn.matmul {x}, {w} : ({xt}, {wt}) -> {yt}"));
        self.op(&format!("nn.add {y}, {b} : ({yt}, {bt}) -> {yt}"))
    }

    fn norm(&mut self, x: &str, name: &str, [rows, width]: [u32; 2]) -> String {
        let (xt, vt) = (matrix(&[1, rows, width]), matrix(&[width]));
        let s = self.parameter(&format!("{name}.scale"), &vt);
        let b = self.parameter(&format!("{name}.bias"), &vt);
        let op = format!("nn.layer_norm {x}, {s}, {b} epsilon 1.0e-6");
        self.op(&format!("{op} : ({xt}, {vt}, {vt}) -> {xt}"))
    }

    fn attention(&mut self, [q, k, v]: [&str; 3], [rows, width, heads]: [u32; 3]) -> String {
        let depth = width / heads;
        let (xt, ht) = (matrix(&[1, rows, width]), matrix(&[heads, rows, depth]));
        let split = |w: &mut Writer, x| {
            w.op(&format!(
                "nn.split_heads {x} heads {heads} : ({xt}) -> {ht}"
            ))
        };
        let (q, k, v) = (split(self, q), split(self, k), split(self, v));
        let scale = 1.0 / f64::from(depth).sqrt();
        self.op(&format!(
            "nn.attention {q}, {k}, {v} scale {scale:.8} : ({ht}, {ht}, {ht}) -> {ht}"
        ))
    }
}

fn matrix(shape: &[u32]) -> String {
    let extents: String = shape.iter().map(|n| format!("{n}x")).collect();
    format!("tensor<{extents}f16>")
}

fn function(x: &str, result: &str, w: &Writer, ty: &str) -> String {
    let text = &w.text;
    format!("func.func @main(%x: {x}) -> {ty} {{\n{text}  return {result} : {ty}\n}}\n")
}

/// The attention block of the specification: three projections without biases, heads apart.
fn attention_block() -> String {
    let (rows, width, heads) = (729, 1152, 16);
    let mut w = Writer::default();
    let (xt, wt) = (matrix(&[1, rows, width]), matrix(&[width, width]));
    let project = |w: &mut Writer, name: &str| {
        let p = w.parameter(name, &wt);
        w.op(&format!("nn.matmul %x, {p} : ({xt}, {wt}) -> {xt}"))
    };
    let (q, k, v) = (
        project(&mut w, "wq"),
        project(&mut w, "wk"),
        project(&mut w, "wv"),
    );
    let o = w.attention([&q, &k, &v], [rows, width, heads]);
    function(&xt, &o, &w, &matrix(&[heads, rows, width / heads]))
}

fn encoder(e: &Encoder) -> String {
    let (rows, width) = (e.tokens, e.width);
    let mut w = Writer::default();
    let xt = matrix(&[1, rows, width]);
    let ht = matrix(&[e.heads, rows, width / e.heads]);
    let ut = matrix(&[1, rows, e.mlp]);
    let mut x = "%x".to_owned();
    for i in 0..e.blocks {
        let n = w.norm(&x, &format!("b{i}.norm1"), [rows, width]);
        let square = [rows, width, width];
        let q = w.linear(&n, &format!("b{i}.q"), square);
        let k = w.linear(&n, &format!("b{i}.k"), square);
        let v = w.linear(&n, &format!("b{i}.v"), square);
        let o = w.attention([&q, &k, &v], [rows, width, e.heads]);
        let o = w.op(&format!(
            "nn.merge_heads {o} heads {} : ({ht}) -> {xt}",
            e.heads
        ));
        let o = w.linear(&o, &format!("b{i}.out"), square);
        x = w.op(&format!("nn.add {x}, {o} : ({xt}, {xt}) -> {xt}"));
        let n = w.norm(&x, &format!("b{i}.norm2"), [rows, width]);
        let u = w.linear(&n, &format!("b{i}.up"), [rows, width, e.mlp]);
        let u = w.op(&format!("nn.gelu {u} approximate tanh : {ut}"));
        let d = w.linear(&u, &format!("b{i}.down"), [rows, e.mlp, width]);
        x = w.op(&format!("nn.add {x}, {d} : ({xt}, {xt}) -> {xt}"));
    }
    function(&xt, &x, &w, &xt)
}

/// One selection.
#[derive(Clone, Debug, Serialize)]
struct Row {
    model: &'static str,
    tiles: u32,
    /// Seconds of `ipu-select-operators` and what is before it, on this machine.
    seconds: f64,
    /// Lines of the first candidate about itself, or why there is none.
    result: String,
}

/// Times selection on the attention block of the specification and on two encoders, or prints them.
///
/// # Errors
/// The pass pipeline does not parse.
pub fn run(format: Format, only: Option<&str>, print: bool, tiles: u32) -> Result<()> {
    let mut models = vec![(MODELS[0], attention_block())];
    models.extend(ENCODERS.iter().map(|e| (e.name, encoder(e))));
    models.retain(|(model, _)| only.is_none_or(|name| name == *model));
    if print {
        models.iter().for_each(|(_, text)| print!("{text}"));
        return Ok(());
    }
    let mut rows = Vec::new();
    for (model, text) in models {
        let options = Options {
            tiles,
            ..Options::default()
        };
        let (_, pipeline) = stages(&options).swap_remove(0);
        let (seconds, result) = with_big_stack(|| -> Result<_> {
            let session = Session::new();
            let mut compilation = session.parse(text.as_bytes(), model)?;
            let start = Instant::now();
            let result = match compilation.run(&pipeline) {
                Ok(()) => {
                    let text = compilation.text();
                    let line = text.lines().find(|l| l.contains("ipu.candidate"));
                    line.unwrap_or_default().trim().to_owned()
                }
                Err(error) => error.to_string(),
            };
            Ok((start.elapsed().as_secs_f64(), result))
        })?;
        rows.push(Row {
            model,
            tiles,
            seconds,
            result,
        });
    }
    match format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&rows)?),
        Format::Text => {
            for r in &rows {
                println!(
                    "{:<18} {:>5} tiles  {:>7.2} s  {}",
                    r.model, r.tiles, r.seconds, r.result
                );
            }
        }
    }
    Ok(())
}

/// A pinned plan.
#[derive(Clone, Debug, Serialize)]
struct Pinned {
    hint: String,
    estimated: u64,
    simulated: u64,
}

/// Pins plans of the first product of a workload one after the other and compares the order of the
/// estimates with that of the simulated cycles.
///
/// # Errors
/// The workload does not compile or run, or the correlation is below 0.8.
pub fn rank(format: Format, name: &str, tiles: u32, plans: usize) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let folder = root.unwrap_or(Path::new(".")).join("examples").join(name);
    let path = folder.join("model.mlir");
    let hints = with_big_stack(|| hints(&path, tiles))?;
    let mut rows = Vec::new();
    // As many as wanted, evenly over the estimated compute cycles.
    let wanted = plans.min(hints.len());
    for hint in (0..wanted).filter_map(|i| hints.get(i * hints.len() / wanted)) {
        let options = Options {
            tiles,
            hints: hint.clone(),
            ..Options::default()
        };
        let package = with_big_stack(|| workloads::compile(&path, &options));
        // A plan may be one that does not fit the whole model.
        let Ok(package) = package else { continue };
        let Simulated { estimated, cycles } = workloads::simulate(name, &package, &folder)?;
        rows.push(Pinned {
            hint: hint.clone(),
            estimated,
            simulated: cycles,
        });
    }
    let pairs: Vec<(u64, u64)> = rows.iter().map(|r| (r.estimated, r.simulated)).collect();
    let tau = correlation(&pairs).context("no two estimates differ by more than 2 %")?;
    match format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&rows)?),
        Format::Text => {
            for r in &rows {
                println!("{:<40} {:>12} {:>12}", r.hint, r.estimated, r.simulated);
            }
            println!("Kendall's tau of {} plans: {tau:.3}", rows.len());
        }
    }
    if tau < 0.8 {
        bail!("Kendall's tau is {tau:.3}, expected 0.8 or more");
    }
    Ok(())
}

/// Kendall's tau over the pairs whose estimates differ by more than 2 %.
fn correlation(list: &[(u64, u64)]) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0u32);
    for (i, &a) in list.iter().enumerate() {
        for &b in &list[i + 1..] {
            if a.0.abs_diff(b.0) * 50 > a.0.min(b.0)
                && let Some(tau) = kendall(&[a, b])
            {
                sum += tau;
                count += 1;
            }
        }
    }
    (count > 0).then(|| sum / f64::from(count))
}

/// A hint for every plan of the first product with a parameter, by compute cycles.
fn hints(path: &Path, tiles: u32) -> Result<Vec<String>> {
    let file = path.display().to_string();
    let text = std::fs::read(path).with_context(|| file.clone())?;
    let session = Session::new();
    let graph = session.parse(&text, &file)?.graph("main")?;
    let host = |v| {
        graph
            .definition(v)
            .is_some_and(|op| matches!(op.kind, OpKind::Parameter { .. }))
    };
    let product = graph
        .ops
        .iter()
        .find(|op| {
            matches!(op.kind, OpKind::Matmul { .. })
                && op.operands.get(1).copied().is_some_and(host)
        })
        .context("the model has no product with a parameter")?;
    let line = product.location.rsplit(':').nth(1).context("no line")?;
    let machine = Machine {
        target: Target::ipu21(),
        kernels: Kernels::builtin(),
        tiles,
        partials: Partials::Any,
        streams: Streams::None,
    };
    let types: Vec<_> = product
        .operands
        .iter()
        .map(|&v| graph.ty(v).clone())
        .collect();
    let mut found = BTreeMap::new();
    for c in search::linear(&machine, &types, types[0].element, Activation::None) {
        let p = &c.plan;
        let grid = [p.grid_rows, p.grid_columns, p.grid_k];
        found.entry(grid).or_insert(p.compute_cycles);
    }
    let mut list: Vec<_> = found
        .into_iter()
        .map(|(grid, cycles)| (cycles, grid))
        .collect();
    list.sort_unstable();
    let hint = |(_, [r, c, k]): (u64, [u32; 3])| format!("{line}:grid={r}x{c}x{k}");
    Ok(list.into_iter().map(hint).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_estimates_are_no_pair() {
        assert_eq!(correlation(&[(1000, 5), (1010, 4)]), None);
        assert_eq!(correlation(&[(1000, 5), (1030, 6), (1010, 1)]), Some(1.0));
        assert_eq!(correlation(&[(1000, 5), (1030, 4)]), Some(-1.0));
    }
}
