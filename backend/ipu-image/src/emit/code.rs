//! Tile code: the start code and kernels, assembled and linked, and the supervisor program that
//! calls them step by step.

use super::EmitError;
use super::cache::ObjectCache;
use crate::package::{Symbol, SymbolKind};
use ipu_isa::link::{Image, LinkOptions, Linker};
use ipu_isa::object::Object;
use ipu_isa::{EncodeError, FormatId, encode, table};
use ipu_program::kernels::Kernels;
use ipu_program::tile::{Step, TileProgram};
use ipu_target::Target;
use std::collections::BTreeMap;

/// Sync zone of all tiles of the chip.
pub const ZONE_INTERNAL: i64 = 3;
/// Sync zone at which the host acts.
pub const ZONE_HOST: i64 = 7;

/// The sources of `device/` are part of the tools: compiling a model needs no other program.
const SOURCES: &[(&str, &str)] = &[
    (
        "copy_blocks.S",
        include_str!("../../../../device/copy_blocks.S"),
    ),
    (
        "copy_runs.S",
        include_str!("../../../../device/copy_runs.S"),
    ),
    (
        "combine_softmax.S",
        include_str!("../../../../device/combine_softmax.S"),
    ),
    (
        "elementwise.S",
        include_str!("../../../../device/elementwise.S"),
    ),
    (
        "fill_zero.S",
        include_str!("../../../../device/fill_zero.S"),
    ),
    ("gather.S", include_str!("../../../../device/gather.S")),
    ("gemm.S", include_str!("../../../../device/gemm.S")),
    ("gemm32.S", include_str!("../../../../device/gemm32.S")),
    (
        "pack_weights.S",
        include_str!("../../../../device/pack_weights.S"),
    ),
    (
        "reduce_column.S",
        include_str!("../../../../device/reduce_column.S"),
    ),
    (
        "reduce_halves.S",
        include_str!("../../../../device/reduce_halves.S"),
    ),
    (
        "reduce_partials.S",
        include_str!("../../../../device/reduce_partials.S"),
    ),
    (
        "row_binary.S",
        include_str!("../../../../device/row_binary.S"),
    ),
    ("rowsplit.S", include_str!("../../../../device/rowsplit.S")),
    ("rowwise.S", include_str!("../../../../device/rowwise.S")),
    (
        "rowwise32.S",
        include_str!("../../../../device/rowwise32.S"),
    ),
    ("start.S", include_str!("../../../../device/start.S")),
    (
        "transpose.S",
        include_str!("../../../../device/transpose.S"),
    ),
    ("unary.S", include_str!("../../../../device/unary.S")),
    (
        "zero_columns.S",
        include_str!("../../../../device/zero_columns.S"),
    ),
];

/// Start code and kernels at their addresses.
pub struct Linked {
    /// The image from `load_base` on.
    pub image: Image,
    /// Entry of each kernel.
    pub entries: BTreeMap<String, u32>,
    /// Where the tile's own supervisor program starts.
    pub main: u32,
}

impl Linked {
    /// Code symbols of the package.
    pub fn symbols(&self) -> Vec<Symbol> {
        self.image
            .sections
            .iter()
            .map(|s| Symbol {
                address: s.address,
                name: s.object.clone(),
                bytes: s.size,
                kind: SymbolKind::Code,
                tile: None,
            })
            .chain([Symbol {
                address: self.main,
                name: "main".to_owned(),
                bytes: 0,
                kind: SymbolKind::Code,
                tile: None,
            }])
            .collect()
    }
}

/// The text of a source of `device/`; `None` if there is none of this name.
pub fn kernel_source(file: &str) -> Option<&'static str> {
    SOURCES.iter().find(|s| s.0 == file).map(|s| s.1)
}

/// Assembles one source with defines.
fn assemble(name: &str, file: &str, defines: &[(&str, i64)]) -> Result<Object, EmitError> {
    let Some(text) = kernel_source(file) else {
        return Err(EmitError::Kernel {
            step: "link".to_owned(),
            kernel: name.to_owned(),
        });
    };
    let mut object = ObjectCache::shared()
        .assemble(&format!("device/{file}"), text, defines)
        .map_err(|e| EmitError::Assemble {
            kernel: name.to_owned(),
            text: e.to_string(),
        })?;
    name.clone_into(&mut object.name);
    // Every kernel has the same entry symbol in its source.
    for symbol in &mut object.symbols {
        if symbol.name == "kernel_entry" {
            name.clone_into(&mut symbol.name);
        }
    }
    Ok(object)
}

/// Assembles and links the kernels that a program calls.
pub fn link_kernels(
    program: &TileProgram,
    target: &Target,
    kernels: &Kernels,
) -> Result<Linked, EmitError> {
    let mut used: BTreeMap<&str, &str> = BTreeMap::new();
    for step in &program.steps {
        if let Step::Compute(c) = step {
            used.entry(&c.kernel).or_insert(&c.name);
        }
    }
    let mut objects = Vec::new();
    for (&name, &step) in &used {
        let kernel = kernels.get(name).ok_or_else(|| EmitError::Kernel {
            step: step.to_owned(),
            kernel: name.to_owned(),
        })?;
        let defines: Vec<_> = kernel
            .defines
            .iter()
            .map(|(k, v)| (k.as_str(), *v))
            .collect();
        objects.push(assemble(name, &kernel.source, &defines)?);
    }
    // The start code jumps to the program behind the kernels: link once to learn where that is.
    let link = |main: u32| -> Result<Image, EmitError> {
        let start = [
            ("MAIN", i64::from(main / 4)),
            (
                "SCRATCH",
                i64::from(target.runtime_state_base + target.worker_scratch_offset),
            ),
            ("SCRATCH_BYTES", i64::from(target.worker_scratch_bytes)),
            ("MUX_NEUTRAL", i64::from(target.mux_neutral)),
        ];
        let mut linker = Linker::new();
        linker.add(assemble("start", "start.S", &start)?);
        for object in &objects {
            linker.add(object.clone());
        }
        let mut entries = vec!["start"];
        entries.extend(used.keys());
        let options = LinkOptions {
            base: target.load_base,
            limit: target.host_window_base,
            relative_base: target.memory_base,
        };
        linker.link(&entries, options).map_err(|errors| {
            EmitError::Link(
                errors
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join("\n"),
            )
        })
    };
    let main = |image: &Image| (image.base + image.bytes.len() as u32).next_multiple_of(8);
    let first = link(target.load_base)?;
    let image = link(main(&first))?;
    let main = main(&image);
    let start = image.symbols.get("start").copied();
    if start != Some(target.load_base) {
        return Err(EmitError::Link(format!(
            "the start code is at {start:#x?}, not at {:#x}",
            target.load_base
        )));
    }
    let entries = used
        .keys()
        .filter_map(|k| image.symbols.get(*k).map(|&a| ((*k).to_owned(), a)))
        .collect();
    Ok(Linked {
        image,
        entries,
        main,
    })
}

/// Encoders of the instructions that a supervisor program and its rows consist of.
pub struct Formats {
    setzi: FormatId,
    put: FormatId,
    call: FormatId,
    sync: FormatId,
    bri: FormatId,
    br: FormatId,
    pub(super) delay: FormatId,
    pub(super) delaypic: FormatId,
    pub(super) delayxpic: FormatId,
    pub(super) send: FormatId,
    pub(super) sendoff: FormatId,
    pub(super) sendpic: FormatId,
}

/// Supervisor CSR indices.
const INCOMING_BASE: i64 = 164;
const INCOMING_DCOUNT: i64 = 166;
const OUTGOING_BASE: i64 = 167;

/// `$m15`, reads 0.
const ZERO: i64 = 15;
/// `$m10`, the link register of kernels and rows.
const LINK: i64 = 10;

impl Formats {
    /// Looks the formats up by name.
    pub fn load() -> Result<Self, EmitError> {
        let find = |name: &str| {
            table()
                .by_name(name)
                .map(|f| f.id)
                .ok_or_else(|| EmitError::Link(format!("the instruction table lacks '{name}'")))
        };
        Ok(Formats {
            setzi: find("setzi_mmmn_zi")?,
            put: find("put_mmmn_zi")?,
            call: find("call_mmmn_zi")?,
            sync: find("sync_zi")?,
            bri: find("bri_mmmn_zi")?,
            br: find("br_mmmn")?,
            delay: find("delay_zi")?,
            delaypic: find("delaypic_zi")?,
            delayxpic: find("delayxpic_zi")?,
            send: find("send_zi")?,
            sendoff: find("sendoff_zi")?,
            sendpic: find("sendpic_zi")?,
        })
    }

    /// Calls a kernel with its argument record in `$m0`.
    pub fn call_kernel(
        &self,
        out: &mut Vec<u32>,
        record: u32,
        entry: u32,
    ) -> Result<(), EncodeError> {
        out.push(encode(self.setzi, &[0, i64::from(record)])?);
        out.push(encode(self.call, &[LINK, i64::from(entry)])?);
        Ok(())
    }

    /// Enters an exchange phase: bases and word count, worker barrier, sync of all tiles, row.
    pub fn exchange(&self, out: &mut Vec<u32>, row: u32) -> Result<(), EncodeError> {
        out.push(encode(self.setzi, &[1, 1])?);
        out.push(encode(self.put, &[INCOMING_BASE, ZERO])?);
        out.push(encode(self.put, &[OUTGOING_BASE, ZERO])?);
        out.push(encode(self.put, &[INCOMING_DCOUNT, 1])?);
        self.sync(out, ZONE_INTERNAL)?;
        out.push(encode(self.call, &[LINK, i64::from(row)])?);
        Ok(())
    }

    /// Waits at a sync.
    pub fn sync(&self, out: &mut Vec<u32>, zone: i64) -> Result<(), EncodeError> {
        out.push(encode(self.sync, &[zone])?);
        Ok(())
    }

    /// Jumps.
    pub fn jump(&self, out: &mut Vec<u32>, to: u32) -> Result<(), EncodeError> {
        out.push(encode(self.bri, &[i64::from(to)])?);
        Ok(())
    }

    /// Returns from a row.
    pub fn ret(&self, out: &mut Vec<u32>) -> Result<(), EncodeError> {
        out.push(encode(self.br, &[LINK])?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel of the registry whose source is not among the embedded ones, or whose defines do
    /// not fit, would show only when a model uses it.
    #[test]
    fn every_kernel_of_the_registry_assembles() {
        for (name, kernel) in &Kernels::builtin().kernels {
            let defines: Vec<_> = kernel
                .defines
                .iter()
                .map(|(k, v)| (k.as_str(), *v))
                .collect();
            let object = assemble(name, &kernel.source, &defines)
                .unwrap_or_else(|e| panic!("kernel '{name}': {e}"));
            assert!(object.symbols.iter().any(|s| s.name == *name), "{name}");
        }
    }
}
