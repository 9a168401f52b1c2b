//! Which superstep an address of a tile's supervisor program belongs to.

use super::{Metadata, StepSummary};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where the supervisor programs of some tiles hold the steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepPlaces {
    /// Runs of tiles: the first one and their number.
    pub tiles: Vec<(u32, u32)>,
    /// Address at which each step starts, then the end of the last one. A step that such a tile
    /// takes no part in starts where the next one does.
    pub starts: Vec<u32>,
}

impl StepPlaces {
    /// Groups tiles, counted from 0, whose steps start at the same addresses.
    pub fn group(tiles: impl IntoIterator<Item = Vec<u32>>) -> Vec<StepPlaces> {
        let mut groups: BTreeMap<Vec<u32>, Vec<(u32, u32)>> = BTreeMap::new();
        for (tile, starts) in (0..).zip(tiles) {
            let runs = groups.entry(starts).or_default();
            match runs.last_mut() {
                Some((first, count)) if *first + *count == tile => *count += 1,
                _ => runs.push((tile, 1)),
            }
        }
        let places = groups
            .into_iter()
            .map(|(starts, tiles)| StepPlaces { tiles, starts });
        places.collect()
    }

    fn has(&self, tile: u32) -> bool {
        let inside = |&(first, count): &(u32, u32)| tile >= first && tile - first < count;
        self.tiles.iter().any(inside)
    }
}

impl Metadata {
    /// Where a tile's supervisor program starts a step, by its number from 0. Steps that the tile
    /// takes no part in start where the next one does.
    pub fn start_of(&self, tile: u32, step: usize) -> Option<u32> {
        let places = self.places.iter().find(|p| p.has(tile))?;
        places.starts.get(step).copied()
    }

    /// The step, with its number, that an address of a tile's supervisor program belongs to.
    pub fn step_at(&self, tile: u32, address: u32) -> Option<(usize, &StepSummary)> {
        let places = self.places.iter().find(|p| p.has(tile))?;
        let number = places.starts.partition_point(|&start| start <= address);
        let number = number.checked_sub(1)?;
        Some((number, self.steps.get(number)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn equal_tiles_share_an_entry() {
        let places = StepPlaces::group([vec![8, 16], vec![8, 16], vec![8, 12], vec![8, 16]]);
        let expected = [
            StepPlaces {
                tiles: vec![(2, 1)],
                starts: vec![8, 12],
            },
            StepPlaces {
                tiles: vec![(0, 2), (3, 1)],
                starts: vec![8, 16],
            },
        ];
        assert_eq!(places, expected);
    }
}
