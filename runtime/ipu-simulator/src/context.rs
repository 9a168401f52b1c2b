//! Register state of the seven contexts of a tile.

use ipu_target::Target;

use crate::csr;
use crate::exec::AuxResult;
use crate::exec::numeric::{Fp, from_f16, spread};

/// Workers of a tile.
pub(crate) const WORKERS: usize = 6;
/// General registers of the A file; higher numbers read 0.
const A_REGISTERS: u8 = 8;
/// First M register that cannot be written: the target of `nop`, and the zero register.
const M_WRITABLE: u8 = 14;

/// The two register files. Numbers beyond the general registers hold 0 and stay 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// `$m0` to `$m15`.
    pub m: [u32; 16],
    /// `$a0` to `$a15`.
    pub a: [u32; 16],
}

impl Registers {
    #[inline]
    pub(crate) fn m(&self, r: u8) -> u32 {
        self.m[usize::from(r & 15)]
    }

    #[inline]
    pub(crate) fn set_m(&mut self, r: u8, value: u32) {
        if r < M_WRITABLE {
            self.m[usize::from(r)] = value;
        }
    }

    #[inline]
    pub(crate) fn a(&self, r: u8) -> u32 {
        self.a[usize::from(r & 15)]
    }

    #[inline]
    pub(crate) fn set_a(&mut self, r: u8, value: u32) {
        if r < A_REGISTERS {
            self.a[usize::from(r)] = value;
        }
    }

    /// The pair that starts at `r` as one value; pairs start at even numbers.
    #[inline(always)]
    pub(crate) fn a_pair(&self, r: u8) -> u64 {
        let i = usize::from(r & 14);
        u64::from(self.a[i]) | u64::from(self.a[i + 1]) << 32
    }

    /// The words from any register on as one value.
    #[inline]
    pub(crate) fn a_words(&self, r: u8) -> u64 {
        u64::from(self.a(r)) | u64::from(self.a(r + 1)) << 32
    }

    #[inline(always)]
    pub(crate) fn set_a_pair(&mut self, r: u8, value: u64) {
        if r < A_REGISTERS {
            let i = usize::from(r & 6);
            self.a[i] = value as u32;
            self.a[i + 1] = (value >> 32) as u32;
        }
    }
}

/// The 32 accumulators of a worker: `AACC[16 s + 2 u]` is `even[s][u]`, the next one is odd.
///
/// AMP steps move the odd registers of a set down by two. Instead the pairs of a set form a ring:
/// [`Accumulators::head`] is the place of the first one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Accumulators {
    pub(crate) even: [[f32; 8]; 2],
    /// Pairs of odd registers, from `head` on.
    pub(crate) ring: [[[f32; 2]; 4]; 2],
    /// Place of the first pair of each set, below 4.
    pub(crate) head: [u8; 2],
}

impl Accumulators {
    /// The odd registers of a set in order.
    #[inline]
    pub(crate) fn odd(&self, set: usize) -> [f32; 8] {
        let (ring, head) = (&self.ring[set], usize::from(self.head[set]));
        std::array::from_fn(|u| ring[(head + (u >> 1)) & 3][u & 1])
    }

    /// Replaces the odd registers of a set.
    #[inline]
    pub(crate) fn set_odd(&mut self, set: usize, values: [f32; 8]) {
        self.head[set] = 0;
        self.ring[set] = std::array::from_fn(|i| [values[2 * i], values[2 * i + 1]]);
    }

    /// `AACC[i]`.
    #[inline]
    pub(crate) fn get(&self, i: usize) -> f32 {
        let (set, unit) = (i >> 4 & 1, i >> 1 & 7);
        if i & 1 == 0 {
            self.even[set][unit]
        } else {
            self.odd(set)[unit]
        }
    }

    #[inline]
    pub(crate) fn set(&mut self, i: usize, value: f32) {
        let (set, unit) = (i >> 4 & 1, i >> 1 & 7);
        if i & 1 == 0 {
            self.even[set][unit] = value;
        } else {
            let pair = (usize::from(self.head[set]) + (unit >> 1)) & 3;
            self.ring[set][pair][unit & 1] = value;
        }
    }

    /// Moves two partials in at the end of the odd registers of a set; returns those that leave.
    #[inline(always)]
    pub(crate) fn push(&mut self, set: usize, partials: [f32; 2]) -> [f32; 2] {
        let head = usize::from(self.head[set] & 3);
        self.head[set] = ((head + 1) & 3) as u8;
        std::mem::replace(&mut self.ring[set][head], partials)
    }
}

/// The hardware loop of a worker.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repeat {
    /// Repetitions left, 0 outside a body.
    pub(crate) count: u32,
    /// Address of the first bundle.
    pub(crate) first: u32,
    /// Address after the last bundle.
    pub(crate) end: u32,
}

/// Generator state: xoroshiro128aox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prng(pub(crate) [u64; 2]);

impl Prng {
    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        let [s0, s1] = self.0;
        let sx = s0 ^ s1;
        let and = s0 & s1;
        let out = sx ^ (and.rotate_left(1) | and.rotate_left(2));
        self.0 = [s0.rotate_left(55) ^ sx ^ sx << 14, sx.rotate_left(36)];
        out
    }

    /// The effect of writing `$PRNG_SEED`.
    pub(crate) fn seed(value: u32) -> Prng {
        let s0 = u64::from(!value) << 32 | u64::from(value);
        Prng([s0, s0.rotate_left(13)])
    }
}

/// The state of a worker context that lasts from program to program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Worker {
    pub(crate) registers: Registers,
    pub(crate) accumulators: Accumulators,
    pub(crate) pc: u32,
    /// First clock at which it may issue again.
    pub(crate) ready: u64,
    pub(crate) repeat: Repeat,
    pub(crate) prng: Prng,
    pub(crate) fp_status: u32,
    pub(crate) fp_control: u32,
    /// What `fp_control` means.
    pub(crate) fp: Fp,
    pub(crate) tas: u32,
    pub(crate) fp_format: u32,
    pub(crate) fp_scale: u32,
    pub(crate) debug: [u32; 2],
    /// Clock of the first issue of the newest program.
    pub(crate) started: u64,
    /// Clock of the newest exit.
    pub(crate) ended: u64,
}

/// Where the supervisor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum SupervisorState {
    /// Never started.
    #[default]
    Idle,
    /// Executes instructions.
    Running,
    /// Waits for its workers (`sync 2`), from this clock on.
    Local(u64),
    /// Waits until the counted words have arrived (`sync 0`), from this clock on.
    Receive(u64),
    /// Waits for other tiles or the host.
    Sync { zone: u8, arrival: u64 },
    /// Ended by `trap 0`.
    Halted,
}

/// The supervisor context.
#[derive(Clone, Debug)]
pub(crate) struct Supervisor {
    pub(crate) registers: Registers,
    pub(crate) pc: u32,
    pub(crate) state: SupervisorState,
    /// First clock at which it may issue again.
    pub(crate) ready: u64,
    /// First clock at which an instruction may read the M register.
    pub(crate) usable: [u64; 16],
    /// First clock at which a weight load may issue.
    pub(crate) weights_ready: u64,
    /// A `sans 0` awaits its `sync 1`.
    pub(crate) answering: bool,
    csr: Box<[u32; 256]>,
}

impl Supervisor {
    pub(crate) fn new(target: &Target) -> Supervisor {
        let mut csr = Box::new([0; 256]);
        csr[csr::INCOMING_MUX as usize] = target.mux_neutral;
        csr[csr::INCOMING_MUXPAIR as usize] = target.mux_neutral;
        let scratch = target.runtime_state_base + target.worker_scratch_offset;
        for w in 0..WORKERS as u32 {
            csr[(csr::WORKER0_BASE + w) as usize] = scratch + w * target.worker_scratch_bytes;
        }
        Supervisor {
            registers: Registers::default(),
            pc: 0,
            state: SupervisorState::Idle,
            ready: 0,
            usable: [0; 16],
            weights_ready: 0,
            answering: false,
            csr,
        }
    }

    #[inline]
    pub(crate) fn csr(&self, index: u32) -> u32 {
        self.csr[(index & 255) as usize]
    }

    #[inline]
    pub(crate) fn set_csr(&mut self, index: u32, value: u32) {
        self.csr[(index & 255) as usize] = value;
    }
}

/// The weights shared by the workers, index `4 unit + slot`, with the f16 view unpacked.
#[derive(Clone)]
pub(crate) struct Weights {
    pub(crate) raw: [u64; 64],
    pub(crate) f16: Box<[HalfSlot; 4]>,
}

/// The f16 weights that all units use in one phase.
#[derive(Clone, Copy, Default)]
pub(crate) struct HalfSlot {
    /// `values[k][unit]`.
    pub(crate) values: [[f64; 16]; 4],
    /// Greatest magnitude of each unit and the least that is not zero, as f16 bits.
    ranges: [[u16; 2]; 16],
    /// Bounds of them, possibly wide.
    pub(crate) range: [u16; 2],
    /// Counts replaced units.
    age: u8,
    /// [`spread`] of all values.
    pub(crate) spread: u32,
}

/// Greatest, and least that is not zero (0 for none), of two ranges.
fn union(a: [u16; 2], b: [u16; 2]) -> [u16; 2] {
    let least = a[1].wrapping_sub(1).min(b[1].wrapping_sub(1));
    [a[0].max(b[0]), least.wrapping_add(1)]
}

impl Default for Weights {
    fn default() -> Weights {
        Weights {
            raw: [0; 64],
            f16: Box::default(),
        }
    }
}

impl Weights {
    /// Sets one entry; the index must be below 64.
    pub(crate) fn set(&mut self, index: usize, value: u64) {
        self.raw[index] = value;
        let (slot, unit) = (&mut self.f16[index & 3], index >> 2);
        for (k, row) in slot.values.iter_mut().enumerate() {
            row[unit] = from_f16((value >> (16 * k)) as u16);
        }
        let magnitudes = [0, 16, 32, 48].map(|shift| (value >> shift) as u16 & 0x7fff);
        let (mut greatest, mut least) = (0, u16::MAX);
        for m in magnitudes {
            greatest = greatest.max(m);
            least = least.min(m.wrapping_sub(1));
        }
        let least = least.wrapping_add(1);
        slot.ranges[unit] = [greatest, least];
        // A bound that only grows is good enough until all units may be new.
        slot.age = slot.age.wrapping_add(1);
        if slot.age & 15 == 0 {
            slot.range = [0, 0];
            for range in slot.ranges {
                slot.range = union(slot.range, range);
            }
        } else {
            slot.range = union(slot.range, [greatest, least]);
        }
        let [greatest, least] = slot.range;
        slot.spread = spread(greatest.into(), least.into());
    }
}

impl Worker {
    /// Writes the registers that an aux instruction left.
    #[inline(always)]
    pub(crate) fn write(&mut self, result: &AuxResult) {
        if result.count == 2 {
            let [low, high] = result.values.map(u64::from);
            self.registers.set_a_pair(result.first, low | high << 32);
        } else if result.count > 0 {
            self.registers.set_a(result.first, result.values[0]);
        }
    }

    /// Sets `$FP_CTL` to a legal value.
    pub(crate) fn set_fp_control(&mut self, value: u32) {
        self.fp_control = value;
        self.fp = Fp::of_control(value);
    }

    /// Fills what a launch must not rely on with recognisable NaN.
    pub(crate) fn poison(&mut self) {
        const POISON: u32 = 0x7fd0_dead;
        self.registers.a[..usize::from(A_REGISTERS)].fill(POISON);
        let nan = f32::from_bits(POISON);
        self.accumulators.even = [[nan; 8]; 2];
        self.accumulators.ring = [[[nan; 2]; 4]; 2];
    }
}
