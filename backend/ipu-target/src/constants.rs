//! The constants of the chip, read from `target.ron`.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// How well a constant is known; see the head of `target.ron`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Confidence {
    /// Vendor documents or vendor-published code.
    Documented,
    /// Measured on a card by the owners of the source.
    Measured,
    /// Taken from SDK output and reproduced by public code.
    ReverseEngineered,
    /// Deduced from documented or measured facts.
    Inferred,
    /// Not public: a value chosen for the whole project.
    Chosen,
}

/// One figure of the chip: value, unit, confidence, source.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Constant(pub i64, pub String, pub Confidence, pub String);

#[derive(Deserialize)]
struct TargetFile {
    name: String,
    constants: BTreeMap<String, Constant>,
}

/// A target description that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The text is not RON of the expected shape.
    #[error("target description: {0}")]
    Syntax(#[from] ron::error::SpannedError),
    /// A constant that the compiler needs is absent.
    #[error("target description '{target}': constant '{name}' is missing")]
    Missing {
        /// Name of the target.
        target: String,
        /// Name of the constant.
        name: &'static str,
    },
    /// A constant does not fit its type.
    #[error("target description '{target}': constant '{name}' is {value}, expected 0 to {limit}")]
    Range {
        /// Name of the target.
        target: String,
        /// Name of the constant.
        name: &'static str,
        /// Value found.
        value: i64,
        /// Largest value allowed.
        limit: i64,
    },
}

macro_rules! target {
    ($($(#[$doc:meta])* $field:ident),* $(,)?) => {
        /// The chip, with its constants as plain fields (units in `target.ron`).
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Target {
            /// Name of the target, `ipu21`.
            pub name: String,
            $($(#[$doc])* pub $field: u32,)*
            constants: BTreeMap<String, Constant>,
        }

        impl Target {
            fn build(file: TargetFile) -> Result<Self, TargetError> {
                let get = |name: &'static str| -> Result<u32, TargetError> {
                    let constant = file.constants.get(name).ok_or_else(|| TargetError::Missing {
                        target: file.name.clone(),
                        name,
                    })?;
                    u32::try_from(constant.0).map_err(|_| TargetError::Range {
                        target: file.name.clone(),
                        name,
                        value: constant.0,
                        limit: i64::from(u32::MAX),
                    })
                };
                $(let $field = get(stringify!($field))?;)*
                Ok(Target { name: file.name.clone(), $($field,)* constants: file.constants })
            }
        }
    };
}

target! {
    /// Tiles of a chip.
    tiles,
    /// Rows of supertiles.
    physical_rows,
    /// Columns of supertiles.
    physical_columns,
    /// Tiles of a supertile.
    tiles_per_supertile,
    /// Tile clock in Hz.
    clock_hz,
    /// First byte of tile memory.
    memory_base,
    /// First byte beyond tile memory.
    memory_end,
    /// Bytes of a memory element (one single-ported macro).
    element_bytes,
    /// First byte of region 1: interleaved, not executable.
    region1_base,
    /// Bytes of a pair of interleaved elements.
    interleaved_element_bytes,
    /// First byte that the loader cannot fill.
    loader_end,
    /// First byte of an image; its entry point.
    load_base,
    /// First byte of the window that host packets can name.
    host_window_base,
    /// Bytes of that window.
    host_window_bytes,
    /// First byte of the runtime state.
    runtime_state_base,
    /// Bytes of the runtime state.
    runtime_state_bytes,
    /// Offset of the first worker's private scratch in the runtime state.
    worker_scratch_offset,
    /// Bytes of a worker's private scratch.
    worker_scratch_bytes,
    /// Bytes that instruction fetch may run ahead.
    fetch_lookahead_bytes,
    /// Worker contexts of a tile.
    workers,
    /// Cycles from `runall` to the first worker slot.
    launch_cycles,
    /// Cycles from the last exit to the release of `sync` LOCAL.
    join_cycles,
    /// Cycles of a taken supervisor branch.
    supervisor_branch_cycles,
    /// Cycles of a supervisor call.
    supervisor_call_cycles,
    /// Cycles from a supervisor result to its use.
    supervisor_result_cycles,
    /// Cycles from writing `$CCCSLOAD` to the first weight load.
    cccs_load_cycles,
    /// Cycles of an internal sync.
    internal_sync_cycles,
    /// Cycles that others assume for a phase.
    assumed_phase_cycles,
    /// Events from the mux select to the first write in physical row 0.
    first_write_after_mux,
    /// Events from the last write to the return of the row.
    receive_guard,
    /// Shortest row of a sender after its offset, in events.
    min_sender_row,
    /// Longest message, in words.
    max_message_words,
    /// Mux value that selects nobody.
    mux_neutral,
    /// First mux value of the host ports.
    mux_host_base,
    /// Fewest items of a message of 64-bit items.
    min_wide_items,
    /// Most items of `send`, `sendpic` and `sendpicp`.
    send_max_items,
    /// Most items of `sendoff`.
    sendoff_max_items,
    /// Most events of `delay`.
    delay_max,
    /// Most events of `delaypic`.
    delaypic_max,
    /// Most events of `delayxpic`.
    delayxpic_max,
    /// Alignment of AMP operands in bytes.
    gemm_operand_align,
}

impl Target {
    /// Reads a target description in RON.
    ///
    /// # Errors
    /// The text does not parse, or a constant is missing or negative.
    pub fn from_ron(text: &str) -> Result<Self, TargetError> {
        Target::build(ron::from_str(text)?)
    }

    /// The ipu21 description shipped with the project.
    #[allow(clippy::expect_used)] // the embedded file is checked by a unit test
    pub fn ipu21() -> &'static Target {
        static TARGET: OnceLock<Target> = OnceLock::new();
        TARGET.get_or_init(|| {
            Target::from_ron(include_str!("../target.ron")).expect("embedded target.ron is valid")
        })
    }

    /// All constants by name, with units and sources; flags are here only.
    pub fn constants(&self) -> &BTreeMap<String, Constant> {
        &self.constants
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_description_is_complete() {
        let t = Target::ipu21();
        assert_eq!(
            t.tiles,
            t.physical_rows * t.physical_columns * t.tiles_per_supertile
        );
        assert_eq!(t.memory_end - t.memory_base, 624 * 1024);
        assert!(
            t.constants()
                .values()
                .all(|c| !c.1.is_empty() && !c.3.is_empty())
        );
    }

    #[test]
    fn missing_constant_is_named() {
        let e = Target::from_ron("(name: \"x\", constants: {})").unwrap_err();
        assert_eq!(
            e.to_string(),
            "target description 'x': constant 'tiles' is missing"
        );
    }
}
