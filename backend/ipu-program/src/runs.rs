//! Records of kernel `copy_runs`: runs of words that each of six workers copies.

use crate::kernels::WORKERS;

/// Words of the table for one run.
pub const RUN_WORDS: usize = 3;

/// Words that the kernel copies in one run at most.
pub const LONGEST: u32 = 0xffff;

/// A piece of memory that moves as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Run {
    /// Byte offset in the source buffer, a multiple of 4.
    pub source: u32,
    /// Byte offset in the destination buffer, a multiple of 4.
    pub destination: u32,
    /// Words of 4 bytes.
    pub words: u32,
}

impl Run {
    /// Bundles that a worker of `device/copy_runs.S` takes for it.
    pub fn bundles(self) -> u32 {
        let Run { words: n, .. } = self;
        let odd = |offset: u32| offset & 4 != 0;
        match (odd(self.source), odd(self.destination)) {
            (false, false) => 14 + 2 * (n / 2 + n % 2),
            (true, true) if n == 0 => 10,
            (true, true) => 18 + 2 * ((n - 1) / 2 + (n - 1) % 2),
            _ => 8 + 2 * n,
        }
    }
}

/// The same copies as runs in an order in which the workers have about the same to do: run i goes
/// to worker i mod 6, and what is longer than a worker's share is cut.
pub fn balanced(runs: &[Run]) -> Vec<Run> {
    let total: u64 = runs.iter().map(|r| u64::from(r.words)).sum();
    // An even number, so that pieces of a run that moves 8 bytes at a time do so too. Below 16
    // words cutting costs more than it gives.
    let share = total.div_ceil(WORKERS.into()).next_multiple_of(2);
    let share = u32::try_from(share.max(16)).map_or(LONGEST - 1, |s| s.min(LONGEST - 1));
    let mut pieces: Vec<Run> = runs.iter().flat_map(|&run| cut(run, share)).collect();
    // The longest first, to and fro over the workers; a last round that is not full goes to the
    // first of them as it is.
    pieces.sort_by(|a, b| b.bundles().cmp(&a.bundles()).then(a.cmp(b)));
    for (round, pieces) in pieces.chunks_exact_mut(WORKERS as usize).enumerate() {
        if round % 2 == 1 {
            pieces.reverse();
        }
    }
    pieces
}

/// Cuts a run into equal pieces of at most `share` words, an even number.
fn cut(run: Run, share: u32) -> impl Iterator<Item = Run> {
    let count = run.words.div_ceil(share).max(1);
    let piece = run.words.div_ceil(count).next_multiple_of(2);
    (0..count).filter_map(move |i| {
        let first = i * piece;
        let words = run.words.saturating_sub(first).min(piece);
        (words > 0).then_some(Run {
            source: run.source + 4 * first,
            destination: run.destination + 4 * first,
            words,
        })
    })
}

/// The bundles of the worker that has most to do: the word `work` of the record.
pub fn work(runs: &[Run]) -> u32 {
    let of = |worker| {
        let own = runs.iter().skip(worker).step_by(WORKERS as usize);
        own.fold(0, |sum: u32, r| sum.saturating_add(r.bundles()))
    };
    (0..WORKERS as usize).map(of).max().unwrap_or(0)
}

/// The words of a step that copies these runs, a list for each tile: word arguments and table,
/// as long on all tiles.
pub fn step_words(tiles: &[Vec<Run>]) -> Vec<u32> {
    let longest = tiles.iter().map(Vec::len).max().unwrap_or(0);
    tiles
        .iter()
        .flat_map(|runs| {
            // Entries beyond the number of runs are not read.
            let padding = (longest - runs.len()) * RUN_WORDS;
            let table = runs.iter().flat_map(|r| [r.source, r.destination, r.words]);
            [runs.len() as u32, work(runs)]
                .into_iter()
                .chain(table)
                .chain(std::iter::repeat_n(0, padding))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Kernels;
    use proptest::prelude::*;

    fn run(source: u32, destination: u32, words: u32) -> Run {
        Run {
            source,
            destination,
            words,
        }
    }

    /// Source and destination of every word, by destination.
    fn copied(runs: &[Run]) -> Vec<(u32, u32)> {
        let words = |r: &Run| {
            let r = *r;
            (0..r.words).map(move |i| (r.destination + 4 * i, r.source + 4 * i))
        };
        let mut all: Vec<_> = runs.iter().flat_map(words).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn one_long_run_is_shared() {
        let pieces = balanced(&[run(4, 12, 601)]);
        assert_eq!(pieces.len(), 6);
        assert!(work(&pieces) <= work(&[run(4, 12, 102)]));
    }

    #[test]
    fn short_runs_stay_whole() {
        let runs = [run(0, 0, 16), run(64, 128, 2)];
        assert_eq!(balanced(&runs), runs);
    }

    #[test]
    fn records_of_a_step_are_equally_long() {
        let words = step_words(&[vec![run(0, 8, 2), run(8, 0, 1)], vec![]]);
        assert_eq!(words, [2, 16, 0, 8, 2, 8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        let kernel = Kernels::builtin().get("copy_runs").unwrap();
        assert_eq!(kernel.record_words(words.len(), 2), Some(8));
        assert!(step_words(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn balancing_moves_the_same_words(lengths in prop::collection::vec((0u32..3, 0u32..400), 0..40)) {
            let mut at = (0, 0);
            let runs: Vec<Run> = lengths.into_iter().map(|(gap, words)| {
                at = (at.0 + 4 * gap, at.1);
                let r = run(at.0, at.1, words);
                at = (at.0 + 4 * words, at.1 + 4 * words);
                r
            }).collect();
            let pieces = balanced(&runs);
            prop_assert_eq!(copied(&pieces), copied(&runs));
            // No worker has more than its share, two pieces of the longest kind aside.
            let total: u32 = pieces.iter().map(|r| r.bundles()).sum();
            let largest = pieces.iter().map(|r| r.bundles()).max().unwrap_or(0);
            prop_assert!(work(&pieces) <= total.div_ceil(WORKERS) + 2 * largest);
        }
    }
}
