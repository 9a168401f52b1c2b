//! Sets of tiles.

/// A set of logical tiles, a bit each.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TileSet(Vec<u64>);

impl TileSet {
    /// Every tile that a program could name.
    pub fn all() -> Self {
        TileSet(vec![u64::MAX; 1 << 10])
    }

    /// Adds a tile.
    pub fn insert(&mut self, tile: u32) {
        let (word, bit) = (tile as usize / 64, tile % 64);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << bit;
    }

    /// Whether a tile is in the set.
    pub fn contains(&self, tile: u32) -> bool {
        let word = self.0.get(tile as usize / 64);
        word.is_some_and(|w| w & (1 << (tile % 64)) != 0)
    }

    /// Whether the sets have a tile in common.
    pub fn meets(&self, other: &TileSet) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// Adds the tiles of another set.
    pub fn add(&mut self, other: &TileSet) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
    }

    /// The tiles, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let bits = |(i, &w): (usize, &u64)| {
            (0..64)
                .filter(move |b| w & (1 << b) != 0)
                .map(move |b| i as u32 * 64 + b)
        };
        self.0.iter().enumerate().flat_map(bits)
    }
}

impl FromIterator<u32> for TileSet {
    fn from_iter<I: IntoIterator<Item = u32>>(tiles: I) -> Self {
        let mut set = TileSet::default();
        tiles.into_iter().for_each(|t| set.insert(t));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_as_an_ordered_set(a: BTreeSet<u8>, b: BTreeSet<u8>, probe: u8) {
            let of = |s: &BTreeSet<u8>| s.iter().map(|&t| u32::from(t)).collect::<TileSet>();
            let (mut x, y) = (of(&a), of(&b));
            prop_assert_eq!(x.meets(&y), !a.is_disjoint(&b));
            prop_assert_eq!(x.contains(probe.into()), a.contains(&probe));
            x.add(&y);
            let all: Vec<u32> = a.union(&b).map(|&t| u32::from(t)).collect();
            prop_assert_eq!(x.iter().collect::<Vec<_>>(), all);
        }
    }
}
