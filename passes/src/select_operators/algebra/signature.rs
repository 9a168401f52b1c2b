//! When two graphs are the same design: the same operators on the same values, however the views
//! between them are written.

use crate::select_operators::views::{Views, is_view};
use ipu_program::graph::{Graph, OpKind, ValueId};
use std::collections::BTreeMap;

/// FNV-1a: the same on every host and in every version.
struct Hash(u64);

impl Hash {
    fn new() -> Self {
        Hash(0xcbf2_9ce4_8422_2325)
    }

    fn text(&mut self, text: &str) {
        for byte in text.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn number(&mut self, n: u64) {
        for byte in n.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// The signature of a graph. Values of constants and names of parameters are part of it, locations
/// are not.
pub fn signature(graph: &Graph) -> u64 {
    let views = Views::of(graph);
    let mut of: BTreeMap<ValueId, u64> = BTreeMap::new();
    for (i, &input) in graph.inputs.iter().enumerate() {
        let mut h = Hash::new();
        h.text("input");
        h.number(i as u64);
        of.insert(input, h.0);
    }
    // A value by what is stored, and how it lies there.
    let value = |of: &BTreeMap<ValueId, u64>, h: &mut Hash, v: ValueId| {
        let viewed = views.viewed(graph, v);
        h.number(of.get(&viewed.base).copied().unwrap_or_default());
        h.text(&graph.ty(v).to_string());
        if viewed.base != v {
            h.number(viewed.strided.offset);
            for axis in viewed.strided.merged() {
                h.number(axis.extent.into());
                h.number(axis.stride);
            }
        }
    };
    for op in &graph.ops {
        if is_view(&op.kind) && views.is_virtual(op.result) {
            continue;
        }
        let mut h = Hash::new();
        match &op.kind {
            OpKind::Constant { values } => {
                h.text("constant");
                values.iter().for_each(|v| h.number(v.to_bits().into()));
            }
            kind => h.text(&format!("{kind:?}")),
        }
        h.text(&graph.ty(op.result).to_string());
        for &v in &op.operands {
            value(&of, &mut h, v);
        }
        of.insert(op.result, h.0);
        for (i, &v) in op.more_results.iter().enumerate() {
            let mut more = Hash(h.0);
            more.number(i as u64 + 1);
            of.insert(v, more.0);
        }
    }
    let mut h = Hash::new();
    for &v in &graph.outputs {
        value(&of, &mut h, v);
    }
    h.0
}
