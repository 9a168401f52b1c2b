//! The saturated e-graph for people and tools: as text like IR, as dot, and as the JSON of
//! egraph-serialize.

use super::Algebra;
use super::export::Choice;
use super::frozen::{ClassId, Content, Frozen, Node};
use ipu_program::graph::{Activation, OpKind, UnaryKind};
use ipu_program::types::TensorType;
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::path::Path;

/// An operator with its attributes, but not the values of a constant.
fn label(content: &Content, types: &[TensorType]) -> String {
    let kind = match content {
        Content::Input(i) => return format!("input {i}"),
        Content::Absent => return "absent".to_owned(),
        Content::Project(i) => return format!("project {i}"),
        Content::Op(kind) => kind,
    };
    let mut text = kind.name().to_owned();
    let mut add = |word: String| text += &format!(" {word}");
    match kind {
        OpKind::Parameter { name } => add(format!("{name:?}")),
        OpKind::Constant { values } => match values.as_slice() {
            [one] => add(format!("{one:?}")),
            all => add(format!("of {} values", all.len())),
        },
        OpKind::Matmul {
            transpose_a,
            transpose_b,
        } => {
            for (set, word) in [(transpose_a, "transpose_a"), (transpose_b, "transpose_b")] {
                if *set {
                    add(word.to_owned());
                }
            }
        }
        OpKind::Linear { activation } => {
            if *activation == Activation::Relu {
                add("relu".to_owned());
            }
        }
        OpKind::Unary(UnaryKind::GeluTanh) => add("tanh".to_owned()),
        OpKind::Softmax { axis } | OpKind::Concat { axis } | OpKind::Gather { axis } => {
            add(format!("axis {axis}"));
        }
        OpKind::LayerNorm { epsilon } | OpKind::RmsNorm { epsilon } => {
            add(format!("epsilon {:?}", epsilon.get()));
        }
        OpKind::Reduce {
            kind,
            axes,
            keep_dims,
        } => {
            add(format!("{} {axes:?}", kind.name()));
            if *keep_dims {
                add("keep_dims".to_owned());
            }
        }
        OpKind::Attention {
            heads,
            scale,
            causal,
        } => {
            add(format!("heads {heads} scale {:?}", scale.get()));
            if *causal {
                add("causal".to_owned());
            }
        }
        OpKind::SplitHeads { heads } | OpKind::MergeHeads { heads } => {
            add(format!("heads {heads}"));
        }
        OpKind::Transpose { permutation } => add(format!("{permutation:?}")),
        OpKind::Slice { offsets, strides } => {
            add(format!("offsets {offsets:?}"));
            if strides.iter().any(|&s| s != 1) {
                add(format!("strides {strides:?}"));
            }
        }
        OpKind::Conv2d { strides, .. } => add(format!("strides {strides:?}")),
        OpKind::Repeat { count, .. } => add(format!("count {count}")),
        OpKind::Reshape | OpKind::Broadcast | OpKind::Cast => {
            if let Some(ty) = types.first() {
                add(format!("to {ty}"));
            }
        }
        OpKind::Binary(_) | OpKind::Unary(_) => {}
    }
    text
}

fn types(frozen: &Frozen, c: ClassId) -> String {
    let all: Vec<String> = frozen
        .class(c)
        .types
        .iter()
        .map(ToString::to_string)
        .collect();
    match all.as_slice() {
        [] => "none".to_owned(),
        [one] => one.clone(),
        many => format!("({})", many.join(", ")),
    }
}

impl Algebra {
    /// The e-graph as text in the form of a function whose values list their alternatives:
    /// operands by class, and behind `//` the rule that made it. `host` marks what the host knows.
    pub fn to_text(&self) -> String {
        let frozen = &self.frozen;
        let list = |classes: &[ClassId]| {
            let names: Vec<String> = classes.iter().map(|c| format!("%{c}")).collect();
            names.join(", ")
        };
        let mut out = format!(
            "egraph @{}({}) {{\n",
            frozen.graph.name,
            list(&frozen.inputs)
        );
        for (c, class) in (0u32..).zip(&frozen.classes) {
            let host = if class.host { "host " } else { "" };
            let line = |node: &Node| {
                let mut line = label(&node.content, &class.types);
                if !node.children.is_empty() {
                    line += &format!(" {}", list(&node.children));
                }
                if let Some(rule) = node.rule {
                    line += &format!("  // {}", frozen.rules[rule as usize]);
                }
                line
            };
            match class.nodes.as_slice() {
                [one] => {
                    let _ = writeln!(out, "  %{c} = {host}{} : {}", line(one), types(frozen, c));
                }
                nodes => {
                    let _ = writeln!(out, "  %{c} = {host}any : {} {{", types(frozen, c));
                    for node in nodes {
                        let _ = writeln!(out, "    {}", line(node));
                    }
                    out += "  }\n";
                }
            }
        }
        let _ = writeln!(out, "  return {}\n}}", list(&frozen.outputs));
        out
    }

    /// The e-graph in the language of Graphviz: a box for each class, the nodes of the first
    /// variant filled if it is given.
    fn to_dot(&self, chosen: &Choice) -> String {
        let frozen = &self.frozen;
        let mut out = String::from("digraph egraph {\n  compound=true\n  node [shape=box]\n");
        for (c, class) in (0u32..).zip(&frozen.classes) {
            let _ = writeln!(out, "  subgraph cluster_{c} {{\n    style=dotted");
            let _ = writeln!(out, "    label=\"%{c}: {}\"", types(frozen, c));
            for (n, node) in class.nodes.iter().enumerate() {
                let text = label(&node.content, &class.types);
                let text = text.replace('\\', "\\\\").replace('"', "\\\"");
                let fill = if chosen.get(&c) == Some(&n) {
                    ", style=filled"
                } else {
                    ""
                };
                let _ = writeln!(out, "    n{c}_{n} [label=\"{text}\"{fill}]");
            }
            out += "  }\n";
        }
        for (c, class) in frozen.classes.iter().enumerate() {
            for (n, node) in class.nodes.iter().enumerate() {
                for d in &node.children {
                    let _ = writeln!(out, "  n{c}_{n} -> n{d}_0 [lhead=cluster_{d}]");
                }
            }
        }
        out += "}\n";
        out
    }

    /// The e-graph in the format of egraph-serialize; costs are those of the bound, 0 where none is
    /// given.
    fn to_json(&self, costs: &dyn Fn(ClassId, usize) -> u64) -> Value {
        let frozen = &self.frozen;
        let mut nodes = Map::new();
        let mut data = Map::new();
        for (c, class) in (0u32..).zip(&frozen.classes) {
            for (n, node) in class.nodes.iter().enumerate() {
                let children: Vec<String> =
                    node.children.iter().map(|d| format!("{d}.0")).collect();
                nodes.insert(
                    format!("{c}.{n}"),
                    json!({
                        "op": label(&node.content, &class.types),
                        "children": children,
                        "eclass": c.to_string(),
                        "cost": costs(c, n),
                        "subsumed": false,
                    }),
                );
            }
            data.insert(c.to_string(), json!({ "type": types(frozen, c) }));
        }
        let roots: Vec<String> = frozen.outputs.iter().map(ToString::to_string).collect();
        json!({ "nodes": nodes, "root_eclasses": roots, "class_data": data })
    }

    /// Writes `NAME.dot`, `NAME.egraph.json` and `NAME.txt` into a folder, which is made if it is
    /// missing. Under a bound, nodes have costs and those of the first variant are coloured.
    ///
    /// # Errors
    /// A file cannot be written: with its path.
    pub fn dump(
        &self,
        folder: &Path,
        name: &str,
        bound: Option<&super::LowerBound<'_>>,
    ) -> Result<(), DumpError> {
        let mut variants = bound.map(|b| self.variants(b));
        let first = variants.as_mut().and_then(|v| v.first_choice());
        let costs = |c: ClassId, n: usize| variants.as_ref().map_or(0, |v| v.cycles(c, n));
        let json = serde_json::to_string_pretty(&self.to_json(&costs)).unwrap_or_default();
        // Names of functions may have characters that paths may not.
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let name: String = name
            .chars()
            .map(|c| if plain(c) { c } else { '_' })
            .collect();
        let write = |path: &Path, text: &str| {
            std::fs::write(path, text).map_err(|error| DumpError {
                path: path.display().to_string(),
                error,
            })
        };
        std::fs::create_dir_all(folder).map_err(|error| DumpError {
            path: folder.display().to_string(),
            error,
        })?;
        let dot = self.to_dot(&first.unwrap_or_default());
        write(&folder.join(format!("{name}.dot")), &dot)?;
        write(&folder.join(format!("{name}.egraph.json")), &(json + "\n"))?;
        write(&folder.join(format!("{name}.txt")), &self.to_text())
    }
}

/// A dump that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {error}")]
pub struct DumpError {
    /// File or folder.
    pub path: String,
    /// Why.
    pub error: std::io::Error,
}
