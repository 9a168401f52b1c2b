//! What instructions do. `numeric` rounds; the others execute one family each and are reached
//! through the unit of the decoded instruction.

pub(crate) mod accumulator;
pub(crate) mod amp;
pub(crate) mod control;
pub(crate) mod exchange;
pub(crate) mod float;
pub(crate) mod integer;
pub(crate) mod memory;
pub(crate) mod numeric;
pub(crate) mod rows;
pub(crate) mod slic;

use ipu_isa::Opcode;

use crate::context::Worker;
use crate::csr;
use crate::fault::Reason;

/// The fault of an instruction outside the model.
pub(crate) fn not_implemented(opcode: Opcode) -> Reason {
    Reason::NotImplemented(opcode.mnemonic().to_string())
}

/// What an aux instruction leaves for the end of the bundle: registers from `first` on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AuxResult {
    pub(crate) first: u8,
    pub(crate) count: u8,
    pub(crate) values: [u32; 2],
    /// Issue slots when they depend on the operands, else 0.
    pub(crate) slots: u8,
}

impl AuxResult {
    #[inline]
    pub(crate) fn one(first: u8, value: u32) -> AuxResult {
        AuxResult {
            first,
            count: 1,
            values: [value, 0],
            slots: 0,
        }
    }

    #[inline]
    pub(crate) fn pair(first: u8, values: [u32; 2]) -> AuxResult {
        AuxResult {
            first,
            count: 2,
            values,
            slots: 0,
        }
    }
}

/// Sticky flags of an aux instruction, and the trap if one is enabled.
#[inline]
pub(crate) fn settle(worker: &mut Worker, fp: &numeric::Fp) -> Result<(), Reason> {
    if fp.round16 == numeric::Round::Stochastic {
        worker.prng = fp.prng;
    }
    if fp.flags == 0 {
        return Ok(());
    }
    worker.fp_status |= fp.flags;
    if worker.fp_control & fp.flags & csr::FLAGS != 0 {
        return Err(Reason::FloatTrap(worker.fp_status));
    }
    Ok(())
}
