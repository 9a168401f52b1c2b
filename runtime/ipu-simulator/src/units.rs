//! Conflict units of memory by table, because every paced access asks for them.

use ipu_target::{MemoryUnit, Target};

/// Within a page of this size the unit only depends on bit 3 of the address.
const PAGE_BITS: u32 = 12;

/// The number of no macro.
pub(crate) const OUTSIDE: u32 = u32::MAX;

/// `Target::macro_of` and `Target::exchange_unit` for all of tile memory.
pub(crate) struct Units {
    base: u32,
    macros: Vec<[MemoryUnit; 2]>,
    /// Positions of the macros among all of them.
    ids: Vec<[u32; 2]>,
    exchange: Vec<MemoryUnit>,
}

impl Units {
    pub(crate) fn new(target: &Target) -> Units {
        let pages = || (target.memory_base..target.memory_end).step_by(1 << PAGE_BITS);
        let macros: Vec<[MemoryUnit; 2]> = pages()
            .map(|page| [target.macro_of(page), target.macro_of(page + 8)])
            .collect();
        let mut known = Vec::new();
        let mut id = |unit| {
            let found = known.iter().position(|&k| k == unit);
            found.unwrap_or_else(|| {
                known.push(unit);
                known.len() - 1
            }) as u32
        };
        Units {
            base: target.memory_base,
            ids: macros.iter().map(|m| m.map(&mut id)).collect(),
            macros,
            exchange: pages().map(|page| target.exchange_unit(page)).collect(),
        }
    }

    /// Whether two accesses of one instruction meet in one macro; addresses outside of memory
    /// meet nothing.
    #[inline]
    pub(crate) fn same_macro(&self, a: u32, b: u32) -> bool {
        let unit = |address: u32| {
            let page = address.wrapping_sub(self.base) >> PAGE_BITS;
            let parity = (address >> 3 & 1) as usize;
            self.macros.get(page as usize).map(|m| m[parity])
        };
        matches!((unit(a), unit(b)), (Some(a), Some(b)) if a == b)
    }

    /// A number of the macro of an address, [`OUTSIDE`] for none.
    #[inline(always)]
    pub(crate) fn macro_id(&self, address: u32) -> u32 {
        let page = address.wrapping_sub(self.base) >> PAGE_BITS;
        let parity = (address >> 3 & 1) as usize;
        self.ids.get(page as usize).map_or(OUTSIDE, |m| m[parity])
    }

    /// Whether two accesses meet in one unit of the exchange, as [`Units::same_macro`].
    #[inline]
    pub(crate) fn same_exchange_unit(&self, a: u32, b: u32) -> bool {
        let unit = |address: u32| {
            let page = address.wrapping_sub(self.base) >> PAGE_BITS;
            self.exchange.get(page as usize)
        };
        matches!((unit(a), unit(b)), (Some(a), Some(b)) if a == b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_agree_with_the_target() {
        let target = Target::ipu21();
        let units = Units::new(target);
        let addresses: Vec<u32> = (target.memory_base..target.memory_end)
            .step_by(0x7f8)
            .collect();
        for &a in &addresses {
            for &b in addresses.iter().step_by(7) {
                assert_eq!(
                    units.same_macro(a, b),
                    target.macro_of(a) == target.macro_of(b)
                );
                assert_eq!(
                    units.same_exchange_unit(a, b),
                    target.exchange_unit(a) == target.exchange_unit(b)
                );
            }
        }
        assert!(!units.same_macro(0, 0));
    }
}
