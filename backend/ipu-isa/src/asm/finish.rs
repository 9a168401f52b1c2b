//! The end of a run: open values, repeat rules, the symbol table.

use indexmap::IndexMap;

use crate::codec::{COISSUE_BIT, EncodeError};
use crate::object::{
    Binding, Object, RelocKind, RelocTarget, Relocation, Section, Symbol, SymbolPlace,
};

use super::error::AsmErrorKind;
use super::expr::{Base, Expr, INSTANCE, Value, display_name};
use super::sections::Pending;
use super::select::Written;
use super::state::{Result, State};

impl State<'_> {
    /// What a name that was open means at the end of the file.
    fn lookup(&self, name: &str) -> Option<Expr> {
        match self.labels.get(name) {
            Some(&(section, offset)) => Some(Expr::Place(section, offset)),
            None => self.constants.get(name).cloned(),
        }
    }

    pub(super) fn finish(&mut self) -> Object {
        let mut symbols: IndexMap<String, Symbol> = IndexMap::new();
        for (name, &(index, offset)) in &self.labels {
            if name.contains(INSTANCE) || name.starts_with(".L") {
                continue;
            }
            let place = SymbolPlace::Section { index, offset };
            let symbol = Symbol {
                name: name.clone(),
                place,
                binding: Binding::Local,
            };
            symbols.insert(name.clone(), symbol);
        }
        for (name, loc) in std::mem::take(&mut self.globals) {
            let symbol = match symbols.shift_remove(&name) {
                Some(s) => Symbol {
                    binding: Binding::Global,
                    ..s
                },
                None => {
                    let value = self
                        .constants
                        .get(&name)
                        .map(|e| e.eval(&|n| self.lookup(n)));
                    let place = match value {
                        None => SymbolPlace::Undefined,
                        Some(Ok(Value { base: None, offset })) => SymbolPlace::Absolute(offset),
                        Some(Ok(Value {
                            base: Some(Base::Section(index)),
                            offset,
                        })) if u32::try_from(offset).is_ok() => SymbolPlace::Section {
                            index,
                            offset: offset as u32,
                        },
                        Some(_) => {
                            self.error_at(loc, AsmErrorKind::NotRelocatable);
                            continue;
                        }
                    };
                    Symbol {
                        name: name.clone(),
                        place,
                        binding: Binding::Global,
                    }
                }
            };
            symbols.insert(name, symbol);
        }
        let mut sections = Vec::new();
        for index in 0..self.sections.len() {
            let relocations = self.fill(index, &mut symbols);
            let Some(build) = self.sections.get_mut(index) else {
                continue;
            };
            let mut errors = Vec::new();
            if self.diagnostics.is_empty() {
                build.check_repeats(&mut |loc, kind| errors.push((loc, kind)));
            }
            sections.push(Section {
                name: std::mem::take(&mut build.name),
                flags: build.flags,
                align: build.align,
                data: std::mem::take(&mut build.data),
                relocations,
            });
            for (loc, kind) in errors {
                self.error_at(loc, kind);
            }
        }
        let symbols = symbols.into_values().collect();
        Object {
            name: self.file.to_string(),
            sections,
            symbols,
        }
    }

    /// Fills in the open values of a section.
    fn fill(&mut self, index: usize, symbols: &mut IndexMap<String, Symbol>) -> Vec<Relocation> {
        let mut relocations = Vec::new();
        for (offset, loc, pending) in std::mem::take(&mut self.sections[index].pending) {
            let done = match pending {
                Pending::Instruction { written, coissue } => {
                    self.fill_instruction(index, offset, &written, coissue)
                }
                Pending::Data { expr, kind } => self.fill_data(index, offset, &expr, kind),
            };
            let target = done.and_then(|address| match address {
                Some((kind, value)) => relocate(offset, kind, value, symbols).map(Some),
                None => Ok(None),
            });
            match target {
                Ok(relocation) => relocations.extend(relocation),
                Err(kind) => self.error_at(loc, kind),
            }
        }
        relocations
    }

    fn fill_instruction(
        &mut self,
        index: usize,
        offset: u32,
        written: &Written,
        coissue: bool,
    ) -> Result<Option<(RelocKind, Value)>> {
        let eval = |e: &Expr| e.eval(&|name| self.lookup(name));
        let (decoded, address) = written.resolve(&eval, self.byte_targets)?;
        let flag = if coissue { COISSUE_BIT } else { 0 };
        self.sections[index].set_word(offset, decoded.word() | flag);
        Ok(address.map(|a| (a.kind, a.value)))
    }

    fn fill_data(
        &mut self,
        index: usize,
        offset: u32,
        expr: &Expr,
        kind: RelocKind,
    ) -> Result<Option<(RelocKind, Value)>> {
        let value = expr.eval(&|name| self.lookup(name))?;
        let Some(v) = value.as_int() else {
            return Ok(Some((kind, value)));
        };
        if kind == RelocKind::Relative16S2 {
            return Err(AsmErrorKind::NotRelocatable);
        }
        let bits = 8 * kind.bytes() as u32;
        let v = data_value(v, bits)?;

        let data = &mut self.sections[index].data;
        kind.apply(data, offset, v, 0)
            .map_err(|_| AsmErrorKind::NotRelocatable)?;
        Ok(None)
    }
}

/// The bit pattern of a signed or unsigned number of so many bits.
pub(super) fn data_value(value: i64, bits: u32) -> Result<i64> {
    if bits >= 64 {
        return Ok(value);
    }
    let (min, max) = (-(1i64 << (bits - 1)), (1i64 << bits) - 1);
    if !(min..=max).contains(&value) {
        let operand = "value".to_string();
        return Err(EncodeError::OutOfRange {
            operand,
            value,
            min,
            max,
        }
        .into());
    }
    Ok(value & max)
}

fn relocate(
    offset: u32,
    kind: RelocKind,
    value: Value,
    symbols: &mut IndexMap<String, Symbol>,
) -> Result<Relocation> {
    let target = match value.base {
        Some(Base::Section(index)) => RelocTarget::Section(index),
        Some(Base::Symbol(name)) => {
            if name.contains(INSTANCE) {
                return Err(AsmErrorKind::NoNumericLabel(display_name(&name)));
            }
            let entry = symbols.entry(name.to_string());
            let index = entry.index();
            entry.or_insert_with(|| Symbol {
                name: name.to_string(),
                place: SymbolPlace::Undefined,
                binding: Binding::Global,
            });
            RelocTarget::Symbol(index)
        }
        None => return Err(AsmErrorKind::NotRelocatable),
    };
    Ok(Relocation {
        offset,
        kind,
        target,
        addend: value.offset,
    })
}
