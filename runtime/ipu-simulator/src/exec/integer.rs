//! Integer, logic and permutation on both pipelines.

use ipu_isa::{Broadcast, Opcode};

use super::{AuxResult, not_implemented};
use crate::code::{MainRun, Op};
use crate::context::Registers;
use crate::fault::Reason;

/// The 21 bits of a packed address.
pub(crate) const PACKED: u32 = 0x1f_ffff;

#[inline]
fn second(op: &Op, registers: &Registers) -> u32 {
    if op.is_imm(2) {
        op.imm
    } else {
        registers.m(op.r[2])
    }
}

/// The executor of a main-pipeline instruction that only touches registers.
pub(crate) fn executor(opcode: Opcode) -> MainRun {
    use Opcode as O;
    macro_rules! direct {
        ($($opcode:ident)*) => {
            match opcode {
                // The opcode is a constant for each, so that the rest folds away.
                $(O::$opcode => |op, registers, _, _| main(op, O::$opcode, registers),)*
                _ => |op, registers, _, _| main(op, op.opcode, registers),
            }
        };
    }
    direct!(Setzi Add Sub And Or Shl Shr Cmpeq Cmpslt Cmpult Movnz Tapack Mul Min Max)
}

#[inline(always)]
fn main(op: &Op, opcode: Opcode, registers: &mut Registers) -> Result<(), Reason> {
    use Opcode as O;
    match opcode {
        O::Setzi => {
            registers.set_m(op.r[0], op.imm);
            return Ok(());
        }
        O::Movnz => {
            if registers.m(op.r[1]) != 0 {
                registers.set_m(op.r[0], registers.m(op.r[2]));
            }
            return Ok(());
        }
        O::Atom => {
            registers.set_m(op.r[0], registers.a(op.r[1]));
            return Ok(());
        }
        O::Tapack => {
            let [a0, a1, a2] = [1, 2, 3].map(|i: usize| registers.m(op.r[i]) & PACKED);
            registers.set_m(op.r[0], a0 | a2 << 21);
            registers.set_m(op.r[0] + 1, a1 | a2 >> 11 << 21);
            return Ok(());
        }
        _ => {}
    }
    // In text order; for `sub` either source may be the immediate.
    let x = if op.is_imm(1) {
        op.imm
    } else {
        registers.m(op.r[1])
    };
    let mut y = second(op, registers);
    if matches!(opcode, O::Shl | O::Shr | O::Shrs) && !op.is_imm(2) {
        y &= 31;
    }
    let value = word(opcode, x, y).ok_or_else(|| not_implemented(opcode))?;
    registers.set_m(op.r[0], value);
    Ok(())
}

/// A 32-bit function of one or two words.
#[inline(always)]
fn word(opcode: Opcode, x: u32, y: u32) -> Option<u32> {
    use Opcode as O;
    let (sx, sy) = (x as i32, y as i32);
    let bytes = |b: [u32; 4]| {
        let [b0, b1, b2, b3] = b.map(|v| v & 255);
        b0 | b1 << 8 | b2 << 16 | b3 << 24
    };
    Some(match opcode {
        O::Abs => sx.wrapping_abs() as u32,
        O::Bitrev8 => u32::from_le_bytes(x.to_le_bytes().map(u8::reverse_bits)),
        O::Clz => x.leading_zeros(),
        O::Cms => (x ^ (sx >> 31) as u32).leading_zeros() - 1,
        O::Popc => x.count_ones(),
        O::Not => !x,
        O::Add => x.wrapping_add(y),
        O::Sub => x.wrapping_sub(y),
        O::Mul => x.wrapping_mul(y),
        O::And => x & y,
        O::Andc => x & !y,
        O::Or => x | y,
        O::Xor => x ^ y,
        O::Xnor => !(x ^ y),
        O::Cmpeq => u32::from(x == y),
        O::Cmpne => u32::from(x != y),
        O::Cmpslt => u32::from(sx < sy),
        O::Cmpult => u32::from(x < y),
        O::Max => sx.max(sy) as u32,
        O::Min => sx.min(sy) as u32,
        // Register counts were cut to five bits; immediates may be larger.
        O::Shl => x.checked_shl(y).unwrap_or(0),
        O::Shr => x.checked_shr(y).unwrap_or(0),
        O::Shrs => (sx >> y.min(31)) as u32,
        O::Roll16 => x >> 16 | y << 16,
        O::Roll8l => x >> 24 | y << 8,
        O::Roll8r => x >> 8 | y << 24,
        O::Sort4x16hi => x >> 16 | y & 0xffff_0000,
        O::Sort4x16lo => x & 0xffff | y << 16,
        O::Shuf8x8hi => bytes([x >> 16, y >> 16, x >> 24, y >> 24]),
        O::Shuf8x8lo => bytes([x, y, x >> 8, y >> 8]),
        O::Sort8x8hi => bytes([x >> 8, x >> 24, y >> 8, y >> 24]),
        O::Sort8x8lo => bytes([x, x >> 16, y, y >> 16]),
        O::Sort8 => bytes([x, x >> 16, x >> 8, x >> 24]),
        O::Swap8 => bytes([x >> 8, x, x >> 24, x >> 16]),
        _ => return None,
    })
}

/// Executes an aux-pipeline instruction on raw bits.
#[inline]
pub(crate) fn aux(op: &Op, registers: &Registers) -> Result<AuxResult, Reason> {
    use Opcode as O;
    if op.opcode == O::Setzi {
        return Ok(AuxResult::one(op.r[0], op.imm));
    }
    let pair = |i: usize| [registers.a(op.r[i]), registers.a(op.r[i] + 1)];
    let bitwise = |f: fn(u32, u32) -> u32| {
        let ([x0, x1], [y0, y1]) = (pair(1), pair(2));
        Ok(AuxResult::pair(op.r[0], [f(x0, y0), f(x1, y1)]))
    };
    let pick =
        |f: fn([u32; 2], [u32; 2]) -> [u32; 2]| Ok(AuxResult::pair(op.r[0], f(pair(1), pair(2))));
    match op.opcode {
        O::And64 => return bitwise(|x, y| x & y),
        O::Andc64 => return bitwise(|x, y| x & !y),
        O::Or64 => return bitwise(|x, y| x | y),
        O::Not64 => return Ok(AuxResult::pair(op.r[0], pair(1).map(|x| !x))),
        O::Roll32 => return pick(|x, y| [x[1], y[0]]),
        O::Sort4x32hi => return pick(|x, y| [x[1], y[1]]),
        O::Sort4x32lo => return pick(|x, y| [x[0], y[0]]),
        _ => {}
    }
    let x = registers.a(op.r[1]);
    let x = match op.broadcast {
        Broadcast::BL => (x & 0xffff) * 0x1_0001,
        Broadcast::BU => (x >> 16) * 0x1_0001,
        Broadcast::None | Broadcast::B => x,
    };
    let y = if op.is_imm(2) {
        op.imm
    } else {
        registers.a(op.r[2])
    };
    let value = word(op.opcode, x, y).ok_or_else(|| not_implemented(op.opcode))?;
    Ok(AuxResult::one(op.r[0], value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_follow_their_definitions() {
        use Opcode as O;
        let (x, y) = (0x8765_4321, 0xdead_beef);
        let cases = [
            (O::Abs, 0x8000_0000, 0, 0x8000_0000),
            (O::Abs, 0xffff_fffe, 0, 2),
            (O::Bitrev8, 0x0180_0fa0, 0, 0x8001_f005),
            (O::Clz, 0, 0, 32),
            (O::Cms, 0, 0, 31),
            (O::Cms, 0xffff_0000, 0, 15),
            (O::Popc, y, 0, 24),
            (O::Cmpslt, 0xffff_ffff, 0, 1),
            (O::Cmpult, 0xffff_ffff, 0, 0),
            (O::Max, 0xffff_ffff, 3, 3),
            (O::Mul, 0xffff_ffff, 3, 0xffff_fffd),
            (O::Shl, 1, 32, 0),
            (O::Shl, 1, 4095, 0),
            (O::Shr, x, 4, 0x0876_5432),
            (O::Shrs, x, 4, 0xf876_5432),
            (O::Shrs, x, 99, 0xffff_ffff),
            (O::Roll16, x, y, 0xbeef_8765),
            (O::Roll8l, x, y, 0xadbe_ef87),
            (O::Roll8r, x, y, 0xef87_6543),
            (O::Sort4x16hi, x, y, 0xdead_8765),
            (O::Sort4x16lo, x, y, 0xbeef_4321),
            (O::Shuf8x8lo, x, y, 0xbe43_ef21),
            (O::Shuf8x8hi, x, y, 0xde87_ad65),
            (O::Sort8x8lo, x, y, 0xadef_6521),
            (O::Sort8x8hi, x, y, 0xdebe_8743),
            (O::Sort8, x, 0, 0x8743_6521),
            (O::Swap8, x, 0, 0x6587_2143),
        ];
        for (opcode, a, b, want) in cases {
            assert_eq!(word(opcode, a, b), Some(want), "{opcode:?}");
        }
        assert_eq!(word(O::Bri, 0, 0), None);
    }
}
