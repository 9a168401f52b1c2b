//! Running workers ahead of each other where nobody can tell.
//!
//! Workers interleave slot by slot. While all of them are inside a repeat body that [`rows`] knows,
//! they only meet in memory, and where they go there is known beforehand: addresses advance by
//! constants. If what one worker stores is apart from what the others load and store, the order
//! between workers does not matter, and each one runs its rows at once. A stretch ends before the
//! first row that could fault or meet another worker; from there on slots count again. So results,
//! faults and clocks are those of the slots.

use std::ops::Range;

use ipu_isa::Opcode;

use crate::code::Issue;
use crate::context::{WORKERS, Worker};
use crate::csr;
use crate::exec::integer::PACKED;
use crate::exec::numeric::Round;
use crate::exec::rows::{Course, Job, STEPS, STREAMS, Step};
use crate::memory::{Memory, PAGE_BYTES};
use crate::tile::{Env, Tile};
use crate::units::{OUTSIDE, Units};

/// Bytes of a bundle, and of an access.
const BYTES: u32 = 8;
/// Fewest rows that are worth the preparation.
const MIN_ROWS: u32 = 2;
/// Most pages of a stream in one stretch.
const MAX_PAGES: u32 = 32;

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// The workers ran ahead.
    Done,
    /// Not now.
    Later,
    /// Not with this body.
    Never,
}

/// A repeat body: four bundles of `ld2xst64pace` and an AMP step in turn.
struct Body {
    first: u32,
    steps: [Step; STEPS],
    phases: [usize; STEPS],
    /// Stride codes of the streams.
    codes: [[u32; STREAMS]; STEPS],
    /// First register of the packed addresses, and the register of strides.
    pointer: u8,
    stride: u8,
    both_sets: bool,
}

impl Body {
    /// The body of a worker, if it is of this kind.
    fn of(worker: &Worker, memory: &Memory) -> Option<Body> {
        let repeat = &worker.repeat;
        if repeat.end != repeat.first + STEPS as u32 * BYTES {
            return None;
        }
        let mut body: Option<Body> = None;
        for j in 0..STEPS {
            let pc = repeat.first + j as u32 * BYTES;
            let issue = memory.code.decoded(&memory.ram, pc)?;
            body.get_or_insert_with(|| Body {
                first: repeat.first,
                steps: Default::default(),
                phases: Default::default(),
                codes: Default::default(),
                pointer: issue.main.r[2],
                stride: issue.main.r[3],
                both_sets: issue.aux.opcode == Opcode::F16v4hihov4amp,
            })
            .add(j, issue)?;
        }
        body
    }

    /// Bundle `j`; nothing if it does not fit.
    fn add(&mut self, j: usize, issue: &Issue) -> Option<()> {
        let (main, aux) = (&issue.main, &issue.aux);
        let amp = match self.both_sets {
            true => Opcode::F16v4hihov4amp,
            false => Opcode::F16v4sisoamp,
        };
        let fits = issue.plain
            && issue.slots == 1
            && main.opcode == Opcode::Ld2xst64pace
            && aux.opcode == amp
            && main.r[2] == self.pointer
            && main.r[3] == self.stride
            // Strides do not change.
            && self.stride != self.pointer
            && self.stride != self.pointer + 1
            && self.pointer < 12
            && [main.r[0], main.r[1], aux.r[0], aux.r[1], aux.r[2]]
                .iter()
                .all(|r| r.is_multiple_of(2));
        let phase = aux.imm as usize;
        if !fits || phase >= STEPS || j > 0 && phase != (self.phases[j - 1] + 1) % STEPS {
            return None;
        }
        self.phases[j] = phase;
        self.steps[j] = Step::new(main.r, aux.r);
        self.codes[j] = [0, 2, 4].map(|shift| main.imm >> shift & 3);
        Some(())
    }

    /// The place of a worker in the body, and the bundles it has left.
    fn place(&self, worker: &Worker) -> Option<(usize, u32)> {
        let at = worker.pc.checked_sub(self.first)?;
        let place = (at / BYTES) as usize;
        let same = worker.repeat.first == self.first
            && worker.repeat.end == self.first + STEPS as u32 * BYTES;
        (same && at.is_multiple_of(BYTES) && place < STEPS).then(|| {
            (
                place,
                STEPS as u32 * worker.repeat.count.min(1 << 20) - place as u32,
            )
        })
    }
}

/// Where the streams of a worker go.
#[derive(Clone, Copy)]
struct Paths {
    place: usize,
    /// The register of strides.
    stride: u32,
    /// First addresses.
    start: [u32; STREAMS],
    /// From there to the access of a step.
    offsets: [[i64; STREAMS]; STEPS],
    /// From row to row.
    advance: [i64; STREAMS],
}

impl Paths {
    /// The paths of a worker; `like` are those of another one.
    fn new(body: &Body, worker: &Worker, place: usize, like: Option<&Paths>) -> Paths {
        let r = &worker.registers;
        let (low, high) = (r.m(body.pointer), r.m(body.pointer + 1));
        let start = [
            low & PACKED,
            high & PACKED,
            (low >> 21 | high >> 21 << 11) & PACKED,
        ];
        let stride = r.m(body.stride);
        if let Some(like) = like.filter(|l| l.place == place && l.stride == stride) {
            return Paths { start, ..*like };
        }
        let mut at = [0; STREAMS];
        let mut offsets = [[0; STREAMS]; STEPS];
        for (j, offsets) in offsets.iter_mut().enumerate() {
            *offsets = at;
            for (at, code) in at.iter_mut().zip(body.codes[(place + j) % STEPS]) {
                let step = match code {
                    0 => 1,
                    n => (stride << (32 - 10 * n)) as i32 >> 22,
                };
                *at += i64::from(step) * i64::from(BYTES);
            }
        }
        Paths {
            place,
            stride,
            start,
            offsets,
            advance: at,
        }
    }

    /// All addresses of a stream in some rows, as a range of bytes; nothing if they leave memory.
    fn range(&self, stream: usize, rows: u32, memory: Range<i64>) -> Option<Range<i64>> {
        let offsets = self.offsets.map(|o| o[stream]);
        let least = offsets.into_iter().fold(0, i64::min);
        let greatest = offsets.into_iter().fold(0, i64::max);
        let moved = self.advance[stream] * (i64::from(rows) - 1);
        let start = i64::from(self.start[stream]);
        let range =
            start + least + moved.min(0)..start + greatest + moved.max(0) + i64::from(BYTES);
        (range.start >= memory.start && range.end <= memory.end).then_some(range)
    }

    /// Whether no bundle of some rows meets one macro twice, given the ranges of the streams.
    fn apart(&self, ranges: &[Range<i64>; STREAMS], units: &Units) -> bool {
        // Macros by stream and bit 3 of the address.
        let mut macros = [[0u64; 2]; STREAMS];
        for (macros, range) in macros.iter_mut().zip(ranges) {
            let page = PAGE_BYTES as i64;
            let first = range.start / page * page;
            if range.end - first > i64::from(MAX_PAGES) * page {
                return false;
            }
            for at in (first..range.end).step_by(PAGE_BYTES) {
                for (parity, set) in macros.iter_mut().enumerate() {
                    let id = units.macro_id(at as u32 + BYTES * parity as u32);
                    if id == OUTSIDE || id >= u64::BITS {
                        return false;
                    }
                    *set |= 1 << id;
                }
            }
        }
        self.offsets.iter().all(|offsets| {
            let [x, partials, stored] = [0, 1, 2].map(|s: usize| {
                if self.advance[s] % 16 != 0 {
                    return macros[s][0] | macros[s][1];
                }
                macros[s][((i64::from(self.start[s]) + offsets[s]) >> 3 & 1) as usize]
            });
            x & partials | x & stored | partials & stored == 0
        })
    }

    fn course(&self, body: &Body, base: u32, rows: u32) -> Course {
        Course {
            steps: std::array::from_fn(|j| body.steps[(self.place + j) % STEPS]),
            start: self.start.map(|a| a - base),
            offsets: self.offsets.map(|o| o.map(|offset| offset as u32)),
            advance: self.advance.map(|a| a as u32),
            phase: body.phases[self.place],
            rows,
            whole: self.whole(),
        }
    }

    /// Whether every stream goes from atom to atom, and no load of a row follows a store of the
    /// row to the same place.
    fn whole(&self) -> bool {
        let [_, _, stored] = self.start.map(i64::from);
        (0..STREAMS).all(|s| {
            let next = |j: usize| j as i64 * i64::from(BYTES);
            // The streams keep their distance.
            let distance = i64::from(self.start[s]) - stored;
            let meets = s < 2 && -next(STEPS) < distance && distance < 0;
            self.advance[s] == self.advance[2]
                && !meets
                && (0..STEPS).all(|j| self.offsets[j][s] == next(j))
        })
    }

    /// Moves the packed addresses of a worker.
    fn finish(&self, body: &Body, rows: u32, worker: &mut Worker) {
        let [a0, a1, a2] = [0, 1, 2].map(|s: usize| {
            let moved = i64::from(self.start[s]) + self.advance[s] * i64::from(rows);
            moved as u32 & PACKED
        });
        worker.registers.set_m(body.pointer, a0 | a2 << 21);
        let high = a1 | a2 >> 11 << 21;
        worker.registers.set_m(body.pointer + 1, high);
    }
}

fn overlap(a: &Range<i64>, b: &Range<i64>) -> bool {
    a.start < b.end && b.start < a.end
}

impl Tile {
    /// Runs all active workers over as many rows as the order between them does not matter for;
    /// the supervisor must not be able to issue, and nobody may look.
    #[inline(never)]
    pub(crate) fn run_ahead(&mut self, limit: u64, env: &Env) -> Ahead {
        let slots = WORKERS as u64;
        let active = self.active;
        let members = (0..WORKERS).filter(|n| active >> n & 1 != 0);
        // The clock of a worker's next slot.
        let first_slot = self.clock % slots;
        let slot = |n: usize| self.clock + (n as u64 + slots - first_slot) % slots;
        let mut body: Option<Body> = None;
        let mut paths: [Option<Paths>; WORKERS] = Default::default();
        let mut like = None;
        let mut rows = ((limit - self.clock) / slots).min(1 << 20) as u32 / STEPS as u32;
        for n in members.clone() {
            let worker = &self.workers[n];
            if worker.repeat.count < MIN_ROWS || worker.ready > slot(n) {
                return Ahead::Later;
            }
            let fp = &worker.fp;
            if fp.round != Round::Nearest
                || fp.round16 != Round::Nearest
                || worker.fp_control & csr::FLAGS != 0
            {
                return Ahead::Never;
            }
            let body = match &mut body {
                Some(body) => body,
                none => match Body::of(worker, &self.memory) {
                    Some(found) => none.insert(found),
                    None => return Ahead::Never,
                },
            };
            let Some((place, left)) = body.place(worker) else {
                return Ahead::Later;
            };
            rows = rows.min(left / STEPS as u32);
            paths[n] = Some(Paths::new(body, worker, place, like.as_ref()));
            like = paths[n];
        }
        let Some(body) = body else {
            return Ahead::Later;
        };
        // Reads beyond the last row touch the first ones of the next worker, so that fewer rows
        // often do where all do not.
        let tries = [
            rows,
            rows.saturating_sub(2),
            rows.saturating_sub(4),
            rows / 2,
        ];
        let rows = tries
            .into_iter()
            .find(|&rows| rows >= MIN_ROWS && self.order_is_free(&paths, rows, env));
        let Some(rows) = rows else {
            return Ahead::Later;
        };
        let base = self.memory.ram.extent().0;
        let job = Job::new(&self.weights, body.both_sets);
        let bundles = STEPS as u64 * u64::from(rows);
        for n in members {
            let Some(path) = &paths[n] else { continue };
            let course = path.course(&body, base, rows);
            let ready = slot(n) + slots * bundles;
            let worker = &mut self.workers[n];
            let mut fp = worker.fp;
            (job.run)(&job, &course, worker, &mut self.memory.ram, &mut fp);
            worker.fp_status |= fp.flags;
            path.finish(&body, rows, worker);
            worker.ready = ready;
            worker.repeat.count -= rows;
            if worker.repeat.count == 0 {
                worker.pc = worker.repeat.end;
            }
            self.bundles += bundles;
            self.amp_bundles += bundles;
        }
        self.clock += slots * bundles;
        Ahead::Done
    }

    /// Whether workers may do some rows in any order: no fault, no code stored, and no store where
    /// another worker loads or stores.
    fn order_is_free(&self, paths: &[Option<Paths>; WORKERS], rows: u32, env: &Env) -> bool {
        let (base, size) = self.memory.ram.extent();
        let memory = i64::from(base)..i64::from(base) + i64::from(size);
        let mut ranges: [Option<[Range<i64>; STREAMS]>; WORKERS] = Default::default();
        for (path, ranges) in paths.iter().zip(&mut ranges) {
            let Some(path) = path else { continue };
            let range = |stream| path.range(stream, rows, memory.clone());
            let (Some(x), Some(partials), Some(stored)) = (range(0), range(1), range(2)) else {
                return false;
            };
            if path.start.iter().any(|a| !a.is_multiple_of(BYTES)) {
                return false;
            }
            *ranges = Some([x, partials, stored]);
        }
        let free = ranges.iter().flatten().enumerate().all(|(n, own)| {
            let others = ranges.iter().flatten().enumerate().filter(|&(m, _)| m != n);
            others.flat_map(|(_, r)| r).all(|r| !overlap(&own[2], r))
        });
        let offset = |at: i64| (at - memory.start) as usize;
        free && paths
            .iter()
            .flatten()
            .zip(ranges.iter().flatten())
            .all(|(path, ranges)| {
                let code = &self.memory.code;
                path.apart(ranges, env.units)
                    && !code.covers(offset(ranges[2].start), offset(ranges[2].end))
            })
    }
}
