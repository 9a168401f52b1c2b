//! Control registers and the registers with names.

use crate::table::RegFile;

/// Which control register space an index belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CsrSpace {
    /// Both modes, `get` and `put`.
    Common,
    /// Worker, `get` and `put`.
    Worker,
    /// Worker, `uget` and `uput`.
    WorkerUpper,
    /// Supervisor, `get` and `put`.
    Supervisor,
}

/// A part of a control register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CsrField {
    /// Name.
    pub name: &'static str,
    /// Lowest bit.
    pub low: u8,
    /// Number of bits.
    pub bits: u8,
}

/// A control register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ControlRegister {
    /// Name, written `$NAME`.
    pub name: &'static str,
    /// Space.
    pub space: CsrSpace,
    /// Index in the instruction field.
    pub index: u8,
    /// Known parts.
    pub fields: &'static [CsrField],
}

const fn part(name: &'static str, low: u8, bits: u8) -> CsrField {
    CsrField { name, low, bits }
}

const fn csr(
    name: &'static str,
    space: CsrSpace,
    index: u8,
    fields: &'static [CsrField],
) -> ControlRegister {
    ControlRegister {
        name,
        space,
        index,
        fields,
    }
}

use CsrSpace::{Common, Supervisor, Worker, WorkerUpper};

/// All control registers.
pub const CONTROL_REGISTERS: &[ControlRegister] = &[
    csr("PC", Common, 0, &[]),
    csr(
        "WSR",
        Worker,
        1,
        &[
            part("CTXTID_M1", 0, 3),
            part("ETYPE", 4, 4),
            part("ERPT", 9, 1),
        ],
    ),
    csr("VERTEX_BASE", Worker, 2, &[]),
    csr("WORKER_BASE", Worker, 3, &[]),
    csr("REPEAT_COUNT", Worker, 4, &[part("VALUE", 0, 16)]),
    csr("REPEAT_FIRST", Worker, 5, &[]),
    csr("REPEAT_END", Worker, 6, &[]),
    csr("COUNT_L", Common, 96, &[]),
    csr("COUNT_U", Common, 97, &[]),
    csr("DBG_DATA", Common, 112, &[]),
    csr("DBG_BRK_ID", Common, 113, &[]),
    csr(
        "FP_STS",
        WorkerUpper,
        0,
        &[part("INV", 0, 1), part("DIV0", 1, 1), part("OFLO", 2, 1)],
    ),
    csr(
        "FP_CLR",
        WorkerUpper,
        1,
        &[
            part("INV", 0, 1),
            part("DIV0", 1, 1),
            part("OFLO", 2, 1),
            part("ZAACC", 3, 1),
        ],
    ),
    csr(
        "FP_CTL",
        WorkerUpper,
        2,
        &[
            part("INV", 0, 1),
            part("DIV0", 1, 1),
            part("OFLO", 2, 1),
            part("RND", 16, 3),
            part("ESR", 19, 1),
            part("NANOO", 20, 1),
        ],
    ),
    csr("PRNG_0_0", WorkerUpper, 3, &[]),
    csr("PRNG_0_1", WorkerUpper, 4, &[]),
    csr("PRNG_1_0", WorkerUpper, 5, &[]),
    csr("PRNG_1_1", WorkerUpper, 6, &[]),
    csr("PRNG_SEED", WorkerUpper, 7, &[]),
    csr("TAS", WorkerUpper, 8, &[]),
    csr("FP_NFMT", WorkerUpper, 9, &[]),
    csr("FP_SCL", WorkerUpper, 10, &[]),
    csr(
        "SSR",
        Supervisor,
        1,
        &[
            part("LC", 0, 1),
            part("GC", 1, 1),
            part("ANS", 2, 1),
            part("RAERR", 3, 1),
            part("ETYPE", 4, 4),
            part("PERR", 9, 1),
        ],
    ),
    csr(
        "CR",
        Supervisor,
        2,
        &[
            part("LC_CLR", 0, 1),
            part("LC_SET", 1, 1),
            part("ZCWEI", 2, 1),
        ],
    ),
    csr("TILE_ID", Supervisor, 3, &[]),
    csr(
        "FP_ICTL",
        Supervisor,
        32,
        &[
            part("INV", 0, 1),
            part("DIV0", 1, 1),
            part("OFLO", 2, 1),
            part("RND", 16, 3),
            part("ESR", 19, 1),
            part("NANOO", 20, 1),
        ],
    ),
    csr("WORKER0_BASE", Supervisor, 33, &[]),
    csr("WORKER1_BASE", Supervisor, 34, &[]),
    csr("WORKER2_BASE", Supervisor, 35, &[]),
    csr("WORKER3_BASE", Supervisor, 36, &[]),
    csr("WORKER4_BASE", Supervisor, 37, &[]),
    csr("WORKER5_BASE", Supervisor, 38, &[]),
    csr("FP_INFMT", Supervisor, 49, &[]),
    csr("FP_ISCL", Supervisor, 51, &[]),
    csr("CCCSLOAD", Supervisor, 80, &[]),
    csr("SCOUNT_L", Supervisor, 96, &[]),
    csr("SCOUNT_U", Supervisor, 97, &[]),
    csr(
        "CTXT_STS",
        Supervisor,
        114,
        &[
            part("SU", 0, 2),
            part("W0", 2, 2),
            part("W1", 4, 2),
            part("W2", 6, 2),
            part("W3", 8, 2),
            part("W4", 10, 2),
            part("W5", 12, 2),
            part("ERERR", 27, 3),
            part("EERR", 30, 1),
            part("MERR", 31, 1),
        ],
    ),
    csr("DBG_CTL", Supervisor, 115, &[]),
    csr("ECSR", Supervisor, 115, &[]),
    csr("INCOMING_MUX", Supervisor, 160, &[]),
    csr("INCOMING_MUXPAIR", Supervisor, 161, &[]),
    csr("INCOMING_DELTA", Supervisor, 162, &[]),
    csr("INCOMING_FORMAT", Supervisor, 163, &[]),
    csr("INCOMING_BASE", Supervisor, 164, &[]),
    csr("SINIT", Supervisor, 165, &[]),
    csr("INCOMING_DCOUNT", Supervisor, 166, &[]),
    csr("OUTGOING_BASE", Supervisor, 167, &[]),
    csr("OUTGOING_DELTA", Supervisor, 168, &[]),
    csr("EXCHANGE_CTL", Supervisor, 169, &[]),
    csr("ANS_DCOUNT", Supervisor, 170, &[]),
    csr("EXCHANGE_ADJ", Supervisor, 171, &[]),
];

/// The control register of that name.
pub fn control_register(name: &str) -> Option<&'static ControlRegister> {
    CONTROL_REGISTERS.iter().find(|c| c.name == name)
}

/// Registers with a name instead of a number: name, file, first number, count.
pub const NAMED_REGISTERS: &[(&str, RegFile, u8, u8)] = &[
    ("mzero", RegFile::M, 15, 1),
    ("mworker_base", RegFile::M, 12, 1),
    ("mvertex_base", RegFile::M, 13, 1),
    ("bp", RegFile::M, 8, 1),
    ("fp", RegFile::M, 9, 1),
    ("lr", RegFile::M, 10, 1),
    ("sp", RegFile::M, 11, 1),
    ("azero", RegFile::A, 15, 1),
    ("azeros", RegFile::A, 14, 2),
];
