//! Tile memory: regions and the units in which simultaneous accesses conflict.

use crate::Target;

/// The two regions of tile memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Region {
    /// Executable, not interleaved: `memory_base` to `region1_base`.
    Standard,
    /// Interleaved by two, no instruction fetch: `region1_base` to `memory_end`.
    Interleaved,
}

/// A unit of memory that serves one 64-bit access a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryUnit(u32);

impl Target {
    /// The region of a byte address, `None` outside tile memory.
    pub fn region(&self, address: u32) -> Option<Region> {
        if address < self.memory_base || address >= self.memory_end {
            None
        } else if address < self.region1_base {
            Some(Region::Standard)
        } else {
            Some(Region::Interleaved)
        }
    }

    /// The single macro that serves `address`, the unit of conflicts between the accesses of
    /// one worker instruction (bit 3 selects the macro in region 1).
    pub fn macro_of(&self, address: u32) -> MemoryUnit {
        if address >= self.region1_base {
            let pair = (address - self.region1_base) / self.interleaved_element_bytes;
            MemoryUnit(0x8000_0000 | (pair << 1) | ((address >> 3) & 1))
        } else {
            MemoryUnit(address / self.element_bytes)
        }
    }

    /// The unit that exchange placement keeps apart: an element in region 0, a whole
    /// interleaved pair in region 1.
    pub fn exchange_unit(&self, address: u32) -> MemoryUnit {
        if address >= self.region1_base {
            let pair = (address - self.region1_base) / self.interleaved_element_bytes;
            MemoryUnit(0x4000_0000 | pair)
        } else {
            MemoryUnit(address / self.element_bytes)
        }
    }

    /// All exchange units that `[address, address + bytes)` touches.
    pub fn exchange_units(&self, address: u32, bytes: u32) -> ElementSet {
        let mut units = Vec::new();
        let mut at = address;
        let end = address.saturating_add(bytes);
        while at < end {
            units.push(self.exchange_unit(at));
            let (base, size) = if at >= self.region1_base {
                (self.region1_base, self.interleaved_element_bytes)
            } else {
                (0, self.element_bytes)
            };
            at = base + ((at - base) / size + 1) * size;
        }
        ElementSet(units)
    }
}

/// A set of exchange units, in address order.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ElementSet(Vec<MemoryUnit>);

impl ElementSet {
    /// Whether the two sets share a unit.
    pub fn intersects(&self, other: &ElementSet) -> bool {
        self.0.iter().any(|unit| other.0.contains(unit))
    }

    /// Units in address order.
    pub fn iter(&self) -> impl Iterator<Item = MemoryUnit> + '_ {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_parity_selects_the_macro() {
        let t = Target::ipu21();
        assert_ne!(t.macro_of(0x80000), t.macro_of(0x80008));
        assert_eq!(t.macro_of(0x80000), t.macro_of(0x80010));
        assert_ne!(t.macro_of(0x80000), t.macro_of(0x88000));
        assert_eq!(t.macro_of(0x50000), t.macro_of(0x53fff));
    }

    #[test]
    fn exchange_units_cover_the_range() {
        let t = Target::ipu21();
        assert_eq!(t.exchange_units(0x7fff8, 16).iter().count(), 2);
        assert_eq!(t.exchange_units(0x80000, 0x8000).iter().count(), 1);
        assert!(
            t.exchange_units(0x54000, 4)
                .intersects(&t.exchange_units(0x57ffc, 8))
        );
        assert!(
            !t.exchange_units(0x54000, 4)
                .intersects(&t.exchange_units(0x58000, 8))
        );
    }
}
