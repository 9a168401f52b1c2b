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
use super::state::{Policy, Result, State};

impl State<'_> {
    /// What a name that was open means at the end of the file.
    fn lookup(&self, name: &str) -> Option<Expr> {
        match self.labels.get(name) {
            // Another object may replace it.
            Some(_) if self.binding(name) == Some(Binding::Weak) => None,
            Some(&(section, offset)) => Some(Expr::Place(section, offset)),
            None => self
                .constants
                .get(name)
                .cloned()
                .or_else(|| self.section_start(name)),
        }
    }

    /// The name of a section is its first byte, unless a directive wants a symbol so called.
    fn section_start(&self, name: &str) -> Option<Expr> {
        if !name.starts_with('.') || self.binding(name).is_some() {
            return None;
        }
        let index = self.sections.iter().position(|s| s.name == name)?;
        Some(Expr::Place(index, 0))
    }

    fn binding(&self, name: &str) -> Option<Binding> {
        self.attributes.get(name).and_then(|a| a.binding)
    }

    /// Labels and the names that directives speak of.
    fn symbols(&mut self) -> IndexMap<String, Symbol> {
        let mut symbols: IndexMap<String, Symbol> = IndexMap::new();
        for (name, &(index, offset)) in &self.labels {
            let hidden = name.contains(INSTANCE) || name.starts_with(".L");
            if hidden && self.binding(name).is_none() {
                continue;
            }
            let place = SymbolPlace::Section { index, offset };
            symbols.insert(name.clone(), Symbol::new(name, place, Binding::Local));
        }
        for (name, attributes) in std::mem::take(&mut self.attributes) {
            let loc = attributes.loc;
            let mut symbol = match symbols.get(&name) {
                Some(s) => s.clone(),
                None => {
                    let constant = self.constants.get(&name);
                    let value = constant.map(|e| e.eval(&|n| self.lookup(n)));
                    let place = match value {
                        // Nothing is said of a name that is neither here nor wanted elsewhere.
                        None if attributes.binding.is_none() => continue,
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
                    Symbol::new(&name, place, Binding::Local)
                }
            };
            symbol.binding = attributes.binding.unwrap_or(symbol.binding);
            if symbol.place == SymbolPlace::Undefined && symbol.binding == Binding::Local {
                continue;
            }
            symbol.kind = attributes.kind;
            symbol.visibility = attributes.visibility;
            if let Some((size, loc)) = attributes.size {
                let value = size.eval(&|n| self.lookup(n)).map(|v| v.as_int());
                match value {
                    Ok(Some(v)) if u32::try_from(v).is_ok() => symbol.size = v as u32,
                    Ok(_) => self.error_at(loc, AsmErrorKind::NotConstant(size.first_name())),
                    Err(kind) => self.error_at(loc, kind),
                }
            }
            symbols.insert(name, symbol);
        }
        symbols
    }

    pub(super) fn finish(&mut self) -> Object {
        let weak: Vec<String> = self
            .attributes
            .iter()
            .filter(|(_, a)| a.binding == Some(Binding::Weak))
            .map(|(name, _)| name.clone())
            .collect();
        let mut symbols = self.symbols();
        // `symbols` used the attributes up; open values still ask for weak names.
        for name in weak {
            self.attributes.entry(name).or_default().binding = Some(Binding::Weak);
        }
        let mut sections = Vec::new();
        for index in 0..self.sections.len() {
            let relocations = self.fill(index, &mut symbols);
            let Some(build) = self.sections.get_mut(index) else {
                continue;
            };
            let mut errors = Vec::new();
            if self.diagnostics.is_empty() {
                build.check_repeats(&mut |policy, loc, kind| errors.push((policy, loc, kind)));
            }
            if build.flags.nobits && build.data.iter().any(|&b| b != 0) {
                let kind = AsmErrorKind::NoBits(build.name.clone());
                let loc = build.pending.first().map_or(self.loc, |p| p.1);
                errors.push((Policy::Error, loc, kind));
            }
            sections.push(Section {
                name: build.name.clone(),
                flags: build.flags,
                align: build.align,
                data: std::mem::take(&mut build.data),
                relocations,
            });
            for (policy, loc, kind) in errors {
                self.broken(policy, loc, kind);
            }
        }
        Object {
            name: self.name.to_string(),
            sections,
            symbols: symbols.into_values().collect(),
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
        let (decoded, address) = written.resolve(&eval, self.config.byte_targets)?;
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
        kind.apply(data, offset, v, 0)?;
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
            entry.or_insert_with(|| Symbol::new(&name, SymbolPlace::Undefined, Binding::Global));
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
