//! Conflict units of memory by table, because every paced access asks for them.

use ipu_target::{MemoryUnit, Target};

/// Within a page of this size the unit only depends on bit 3 of the address.
const PAGE_BITS: u32 = 12;

/// `Target::macro_of` and `Target::exchange_unit` for all of tile memory.
pub(crate) struct Units {
    base: u32,
    macros: Vec<[MemoryUnit; 2]>,
    exchange: Vec<MemoryUnit>,
}

impl Units {
    pub(crate) fn new(target: &Target) -> Units {
        let pages = || (target.memory_base..target.memory_end).step_by(1 << PAGE_BITS);
        Units {
            base: target.memory_base,
            macros: pages()
                .map(|page| [target.macro_of(page), target.macro_of(page + 8)])
                .collect(),
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
