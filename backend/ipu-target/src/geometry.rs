//! Tile numbering and exchange geometry: logical to physical ids, route direction, time to mux.
//!
//! Formulas: the chip is two 8-column halves facing each other; a physical id is
//! `row * 64 + column * 4 + sub`. All figures are in events (1 event = 1 tile clock) and were
//! reverse-engineered on C600; checked in tests against the published samples.

/// A physical tile id (11 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Physical(pub u16);

/// The fabric direction of a message: a bit mask, 3 drives both.
pub type Direction = u8;

impl Physical {
    /// The physical tile of a logical one (C600 numbering: pairs walk half-columns).
    pub fn of_logical(logical: u32) -> Physical {
        let (pair, lane) = (logical / 2, logical % 2);
        let (block, along) = (pair / 23, pair % 23);
        let row = if block & 1 == 1 { 22 - along } else { along };
        Physical((row * 64 + block / 2 * 4 + (block & 1) + 2 * lane) as u16)
    }

    /// The logical tile of a physical one, `None` when the chip has no tile of that id.
    pub fn to_logical(self) -> Option<u32> {
        let p = u32::from(self.0);
        let (row, column, sub) = (p >> 6, (p >> 2) & 15, p & 3);
        let block = column * 2 + (sub & 1);
        let along = if block & 1 == 1 {
            22u32.checked_sub(row)?
        } else {
            row
        };
        (row <= 22).then_some((block * 23 + along) * 2 + (sub >> 1))
    }

    /// Row 0 to 22.
    pub fn row(self) -> i32 {
        i32::from(self.0 >> 6)
    }

    fn column(self) -> i32 {
        i32::from(self.0 >> 2 & 15)
    }

    fn half(self) -> i32 {
        self.column() >> 3
    }

    fn folded(self) -> i32 {
        if self.half() == 0 {
            self.column()
        } else {
            15 - self.column()
        }
    }

    fn sub(self) -> i32 {
        i32::from(self.0 & 3)
    }
}

/// Signed route displacement from `s` to `d`; never 0.
fn displacement(s: Physical, d: Physical) -> i32 {
    let w = if d.sub() >= 2 {
        if d.half() == (d.sub() & 1) { 2 } else { 4 }
    } else if d.half() == d.sub() {
        1
    } else {
        5
    };
    6 * (d.folded() - s.folded() - (s.half() ^ (s.sub() & 1))) + w
}

/// The direction bit that a message from `s` must drive to reach `d`.
pub fn direction(s: Physical, d: Physical) -> Direction {
    if displacement(s, d) < 1 { 2 } else { 1 }
}

/// Time to mux: an item issued on `s` at event e can be selected by `d` at event e + T + 1.
pub fn time_to_mux(s: Physical, d: Physical) -> i32 {
    let turn = if s.half() == d.half() {
        (s.column() & 7) + 1
    } else {
        16 - (s.column() & 7)
    };
    8 * s.half() + 3 - d.column() + 4 * s.folded() + turn - 4 * d.folded()
        + 2 * (s.row() - d.row())
        + displacement(s, d).abs()
        - 34
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    /// (source, destination, direction, T) of logical tiles, from the published table.
    const SAMPLES: &[(u32, u32, u8, i32)] = &[
        (0, 1, 1, -28),
        (1, 0, 1, -29),
        (0, 45, 1, -72),
        (46, 0, 2, 19),
        (0, 1286, 1, -23),
        (1286, 0, 2, 7),
        (736, 100, 2, 49),
        (100, 900, 1, -24),
        (1471, 0, 1, -13),
        (735, 736, 2, -29),
        (691, 690, 2, -29),
        (44, 45, 1, -28),
    ];

    #[test]
    fn published_samples() {
        for &(s, d, dir, t) in SAMPLES {
            let (ps, pd) = (Physical::of_logical(s), Physical::of_logical(d));
            assert_eq!(
                (s, d, direction(ps, pd), time_to_mux(ps, pd)),
                (s, d, dir, t)
            );
        }
        assert_eq!(Physical::of_logical(100), Physical(260));
    }

    #[test]
    fn numbering_is_a_bijection() {
        let mut seen = std::collections::BTreeSet::new();
        for l in 0..1472 {
            let p = Physical::of_logical(l);
            assert_eq!(p.to_logical(), Some(l));
            assert!(seen.insert(p));
        }
        let tiles = (0..=u16::MAX).filter(|&p| Physical(p).to_logical().is_some());
        assert_eq!(tiles.count(), 1472);
    }

    #[test]
    fn extremes_match_the_chip() {
        let all: Vec<_> = (0..1472).map(Physical::of_logical).collect();
        let ts = all.iter().flat_map(|&s| {
            all.iter()
                .filter(move |&&d| d != s)
                .map(move |&d| time_to_mux(s, d))
        });
        let (min, max) = ts.fold((i32::MAX, i32::MIN), |(a, b), t| (a.min(t), b.max(t)));
        assert_eq!((min, max), (-78, 112));
    }
}
