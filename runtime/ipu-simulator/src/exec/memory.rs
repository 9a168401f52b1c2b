//! Loads and stores.

use ipu_isa::Opcode;

use super::integer::PACKED;
use super::not_implemented;
use crate::code::{MainRun, Op};
use crate::context::Registers;
use crate::fault::Reason;
use crate::memory::Ram;
use crate::units::Units;

/// The executor of a load or store (not of those that fill the weights).
pub(crate) fn executor(opcode: Opcode) -> MainRun {
    use Opcode as O;
    macro_rules! direct {
        ($($opcode:ident)*) => {
            match opcode {
                // The opcode is a constant for each, so that the rest folds away.
                $(O::$opcode => |op, registers, memory, units| {
                    Access { registers, memory, units }.execute(op, O::$opcode)
                },)*
                _ => |op, registers, memory, units| {
                    Access { registers, memory, units }.execute(op, op.opcode)
                },
            }
        };
    }
    direct!(Ld2xst64pace Ld2x64pace Ldst64pace St64pace Ld32 Ld64 Ld128 Ld32step Ld64step
        Ld128step St32 St64 St32step St64step Ldz16step)
}

/// `ld2xst64pace`, for bundles that are executed as one.
#[inline(always)]
pub(crate) fn ld2xst64pace(
    op: &Op,
    registers: &mut Registers,
    memory: &mut Ram,
    units: &Units,
) -> Result<(), Reason> {
    Access {
        registers,
        memory,
        units,
    }
    .pace(op, Opcode::Ld2xst64pace)
}

/// How a narrow load fills a register, and the size of its access.
#[derive(Clone, Copy)]
enum Load {
    Word,
    Signed16,
    Zero16,
    Signed8,
    Zero8,
    Broadcast16,
    Broadcast8,
}

impl Load {
    #[inline]
    fn bytes(self) -> u32 {
        match self {
            Load::Word => 4,
            Load::Signed16 | Load::Zero16 | Load::Broadcast16 => 2,
            Load::Signed8 | Load::Zero8 | Load::Broadcast8 => 1,
        }
    }

    #[inline]
    fn read(self, memory: &Ram, address: u32) -> Result<u32, Reason> {
        Ok(match self {
            Load::Word => memory.read32(address)?,
            Load::Signed16 => memory.read16(address)? as i16 as u32,
            Load::Zero16 => u32::from(memory.read16(address)?),
            Load::Broadcast16 => u32::from(memory.read16(address)?) * 0x1_0001,
            Load::Signed8 => memory.read8(address)? as i8 as u32,
            Load::Zero8 => u32::from(memory.read8(address)?),
            Load::Broadcast8 => u32::from(memory.read8(address)?) * 0x0101_0101,
        })
    }
}

/// The registers and memory of the executing context.
pub(crate) struct Access<'a> {
    pub(crate) registers: &'a mut Registers,
    pub(crate) memory: &'a mut Ram,
    pub(crate) units: &'a Units,
}

impl Access<'_> {
    /// Operand `i`, an M register or the immediate.
    #[inline]
    fn value(&self, op: &Op, i: usize) -> u32 {
        if op.is_imm(i) {
            op.imm
        } else {
            self.registers.m(op.r[i & 3])
        }
    }

    /// Executes a load or store (not those that fill the weights).
    #[inline(always)]
    fn execute(&mut self, op: &Op, opcode: Opcode) -> Result<(), Reason> {
        use Opcode as O;
        match opcode {
            O::Ld32 => self.load(op, Load::Word, false),
            O::Lds16 => self.load(op, Load::Signed16, false),
            O::Lds8 => self.load(op, Load::Signed8, false),
            O::Ldz16 => self.load(op, Load::Zero16, false),
            O::Ldz8 => self.load(op, Load::Zero8, false),
            O::Ldb16 => self.load(op, Load::Broadcast16, false),
            O::Ldb8 => self.load(op, Load::Broadcast8, false),
            O::Ld32step => self.load(op, Load::Word, true),
            O::Lds16step => self.load(op, Load::Signed16, true),
            O::Lds8step => self.load(op, Load::Signed8, true),
            O::Ldz16step => self.load(op, Load::Zero16, true),
            O::Ldz8step => self.load(op, Load::Zero8, true),
            O::Ldb16step => self.load(op, Load::Broadcast16, true),
            O::Ldb8step => self.load(op, Load::Broadcast8, true),
            O::Ld64 | O::Ld64step => {
                let address = self.address(op, 8, opcode == O::Ld64step);
                let value = self.memory.read64(address)?;
                self.registers.set_a_pair(op.r[0], value);
                Ok(())
            }
            O::Ld128 | O::Ld128step => {
                let address = self.address(op, 16, opcode == O::Ld128step);
                let [low, high] = self.memory.read128(address)?;
                self.registers.set_a_pair(op.r[0], low);
                self.registers.set_a_pair(op.r[0] + 2, high);
                Ok(())
            }
            O::St32 | O::St32step => {
                let value = if op.first_in_a() {
                    self.registers.a(op.r[0])
                } else {
                    self.registers.m(op.r[0])
                };
                let address = self.address(op, 4, opcode == O::St32step);
                self.memory.write32(address, value)
            }
            O::St64 | O::St64step => {
                let value = self.registers.a_pair(op.r[0]);
                let address = self.address(op, 8, opcode == O::St64step);
                self.memory.write64(address, value)
            }
            O::Stm32 => {
                let offset = self.registers.m(op.r[2]).wrapping_mul(4);
                let address = self.registers.m(op.r[1]).wrapping_add(offset);
                self.memory.write32(address, self.registers.m(op.r[0]))
            }
            O::Stm32step => {
                let address = self.registers.m(op.r[1]);
                let step = self.registers.m(op.r[2]).wrapping_mul(4);
                let value = self.registers.m(op.r[0]);
                self.registers.set_m(op.r[1], address.wrapping_add(step));
                self.memory.write32(address, value)
            }
            O::Ld64a32 | O::Ldd16a32 | O::Ldd16a64 | O::Ldd16b16 | O::Ldd16v2a32 => {
                self.indirect(op)
            }
            O::Ld2x64pace
            | O::Ldst64pace
            | O::Ld2xst64pace
            | O::St64pace
            | O::Ld64a32pace
            | O::Ld64b16pace => self.pace(op, opcode),

            O::Ldb16b16 => self.two_indirect(op),
            _ => Err(not_implemented(opcode)),
        }
    }

    /// The effective address; step forms advance their delta register.
    #[inline(always)]
    fn address(&mut self, op: &Op, bytes: u32, step: bool) -> u32 {
        let (base, delta) = (self.registers.m(op.r[1]), self.registers.m(op.r[2]));
        let scaled = self.value(op, 3).wrapping_mul(bytes);
        let address = base.wrapping_add(delta);
        if step {
            self.registers.set_m(op.r[2], delta.wrapping_add(scaled));
            address
        } else {
            address.wrapping_add(scaled)
        }
    }

    #[inline(always)]
    fn load(&mut self, op: &Op, load: Load, step: bool) -> Result<(), Reason> {
        let in_a = op.first_in_a();
        if step && !in_a && op.r[0] == op.r[2] && op.r[0] < 14 {
            return Err(Reason::DoubleDestination(format!("$m{}", op.r[0])));
        }
        let address = self.address(op, load.bytes(), step);
        let value = load.read(self.memory, address)?;
        if in_a {
            self.registers.set_a(op.r[0], value);
        } else {
            self.registers.set_m(op.r[0], value);
        }
        Ok(())
    }

    /// Faults when two accesses of one instruction meet in one macro.
    #[inline(always)]
    fn apart(&self, first: u32, second: u32) -> Result<(), Reason> {
        if self.units.macro_id(first) == self.units.macro_id(second)
            && self.units.same_macro(first, second)
        {
            return Err(Reason::ElementConflict { first, second });
        }
        Ok(())
    }

    /// Loads through a delta register that the same instruction replaces from memory.
    fn indirect(&mut self, op: &Op) -> Result<(), Reason> {
        use Opcode as O;
        let address = self.registers.m(op.r[1]);
        let delta = self.registers.m(op.r[3]);
        let offset = if op.opcode == O::Ldd16v2a32 {
            delta >> 16
        } else {
            delta & 0xffff
        };
        let data = self.registers.m(op.r[2]).wrapping_add(offset);
        self.apart(address, data)?;
        let (next, step) = match op.opcode {
            O::Ld64a32 => {
                let wide = self.memory.read64(address)?;
                let narrow = self.memory.read32(data)?;
                self.registers.set_a_pair(op.r[0] + 2, wide);
                self.registers.set_a(op.r[0] + 1, narrow);
                self.registers.set_m(op.r[1], address.wrapping_add(8));
                return Ok(());
            }
            O::Ldd16v2a32 => (self.memory.read32(address)?, 4),
            _ => (u32::from(self.memory.read16(address)?), 2),
        };
        if op.opcode == O::Ldd16a64 {
            let value = self.memory.read64(data)?;
            self.registers.set_a_pair(op.r[0], value);
        } else {
            let load = if op.opcode == O::Ldd16b16 {
                Load::Broadcast16
            } else {
                Load::Word
            };
            let value = load.read(self.memory, data)?;
            self.registers.set_a(op.r[0], value);
        }
        self.registers.set_m(op.r[1], address.wrapping_add(step));
        self.registers.set_m(op.r[3], next);
        Ok(())
    }

    /// Two broadcast loads through two packed deltas: the lower one moves on by one half, the
    /// upper one by the next four bits of another register, in halves.
    fn two_indirect(&mut self, op: &Op) -> Result<(), Reason> {
        let (base, deltas) = (self.registers.m(op.r[1]), self.registers.m(op.r[2]));
        let steps = self.registers.m(op.r[3]);
        let (low, high) = (deltas & 0xffff, deltas >> 16);
        let addresses = [base.wrapping_add(low), base.wrapping_add(high)];
        self.apart(addresses[0], addresses[1])?;
        let values = [
            Load::Broadcast16.read(self.memory, addresses[0])?,
            Load::Broadcast16.read(self.memory, addresses[1])?,
        ];
        self.registers.set_a(op.r[0], values[0]);
        self.registers.set_a(op.r[0] + 1, values[1]);
        let next = [low + 2, high + 2 * (steps & 15)].map(|d| d & 0xffff);
        self.registers.set_m(op.r[2], next[0] | next[1] << 16);
        self.registers.set_m(op.r[3], steps >> 4);
        Ok(())
    }

    /// Loads and stores through packed addresses that advance by selected strides.
    #[inline(always)]
    fn pace(&mut self, op: &Op, opcode: Opcode) -> Result<(), Reason> {
        use Opcode as O;
        // `st64pace src, addr, stride`; all others have one more register in front.
        let at = if opcode == O::St64pace { 1 } else { 2 };
        let (pointer, stride) = (op.r[at], self.registers.m(op.r[at + 1]));
        let (low, high) = (self.registers.m(pointer), self.registers.m(pointer + 1));
        let mut pack = [
            low & PACKED,
            high & PACKED,
            (low >> 21 | high >> 21 << 11) & PACKED,
        ];
        let mut select = op.imm;
        let mut advance = |address: &mut u32, unit: u32| {
            let used = *address;
            let code = select & 3;
            select >>= 2;
            let step = match code {
                0 => 1,
                n => (stride << (32 - 10 * n)) as i32 >> 22,
            };
            *address = used.wrapping_add((step as u32).wrapping_mul(unit)) & PACKED;
            used
        };
        match opcode {
            O::Ld2xst64pace => {
                let a0 = advance(&mut pack[0], 8);
                let a1 = advance(&mut pack[1], 8);
                let a2 = advance(&mut pack[2], 8);
                let [i0, i1, i2] = [a0, a1, a2].map(|a| self.units.macro_id(a));
                if i0 == i1 || i0 == i2 || i1 == i2 {
                    self.apart(a0, a1)?;
                    self.apart(a0, a2)?;
                    self.apart(a1, a2)?;
                }
                let source = self.registers.a_pair(op.r[1]);
                let (v0, v1) = (self.memory.read64(a0)?, self.memory.read64(a1)?);
                self.memory.write64(a2, source)?;
                self.registers.set_a_pair(op.r[0], v0);
                self.registers.set_a_pair(op.r[0] + 2, v1);
            }
            O::Ldst64pace => {
                let a0 = advance(&mut pack[0], 8);
                let a2 = advance(&mut pack[2], 8);
                self.apart(a0, a2)?;
                let source = self.registers.a_pair(op.r[1]);
                let value = self.memory.read64(a0)?;
                self.memory.write64(a2, source)?;
                self.registers.set_a_pair(op.r[0], value);
            }
            O::St64pace => {
                let a2 = advance(&mut pack[2], 8);
                let source = self.registers.a_pair(op.r[0]);
                self.memory.write64(a2, source)?;
            }
            O::Ld2x64pace => {
                if op.r[0] == op.r[1] {
                    return Err(Reason::DoubleDestination(format!("$a{}", op.r[0])));
                }
                let a0 = advance(&mut pack[0], 8);
                let a1 = advance(&mut pack[1], 8);
                self.apart(a0, a1)?;
                let (v0, v1) = (self.memory.read64(a0)?, self.memory.read64(a1)?);
                self.registers.set_a_pair(op.r[0], v0);
                self.registers.set_a_pair(op.r[1], v1);
            }
            _ => {
                let load = if opcode == O::Ld64a32pace {
                    Load::Word
                } else {
                    Load::Broadcast16
                };
                if op.r[1] & !1 == op.r[0] {
                    return Err(Reason::DoubleDestination(format!("$a{}", op.r[1])));
                }
                let a0 = advance(&mut pack[0], 8);
                let a1 = advance(&mut pack[1], load.bytes());
                self.apart(a0, a1)?;
                let (v0, v1) = (self.memory.read64(a0)?, load.read(self.memory, a1)?);
                self.registers.set_a_pair(op.r[0], v0);
                self.registers.set_a(op.r[1], v1);
            }
        }
        let [a0, a1, a2] = pack;
        self.registers.set_m(pointer, a0 | a2 << 21);
        self.registers.set_m(pointer + 1, a1 | a2 >> 11 << 21);
        Ok(())
    }
}
