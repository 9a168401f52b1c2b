//! The linker: objects to one image at a fixed address.

use std::collections::HashMap;
use std::fmt::Write as _;

use indexmap::IndexMap;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::Dfs;

use crate::object::{
    Binding, Object, RelocError, RelocTarget, Relocation, Section, SectionFlags, Symbol,
    SymbolPlace,
};

/// Where the image goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkOptions {
    /// Address of the first byte.
    pub base: u32,
    /// First address that the image must not reach.
    pub limit: u32,
    /// What relative relocations subtract: the start of the tile's memory.
    pub relative_base: u32,
}

/// A section in the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedSection {
    /// Name of its object.
    pub object: String,
    /// Name of the section.
    pub name: String,
    /// First address.
    pub address: u32,
    /// Length in bytes.
    pub size: u32,
    /// Required address divisor.
    pub align: u32,
    /// Memory needs.
    pub flags: SectionFlags,
}

/// A linked program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Address of the first byte.
    pub base: u32,
    /// Contents.
    pub bytes: Vec<u8>,
    /// Addresses: global symbols of the kept sections and of absolutes, and
    /// local symbols whose name occurs once.
    pub symbols: IndexMap<String, u32>,
    /// The kept sections by address.
    pub sections: Vec<PlacedSection>,
    /// Loadable sections with contents that nothing needs: object, name, bytes.
    pub dropped: Vec<(String, String, u32)>,
}

impl Image {
    /// The map file: sections by address, each with its symbols, then what was left out.
    pub fn map(&self) -> String {
        let mut out = String::from("   address       size  align  section\n");
        let mut symbols: Vec<(u32, &str)> =
            self.symbols.iter().map(|(n, &a)| (a, n.as_str())).collect();
        symbols.sort_unstable();
        let mut inside = vec![false; symbols.len()];
        for s in &self.sections {
            let _ = writeln!(
                out,
                "{:#010x} {:#10x} {:6}  {} ({})",
                s.address, s.size, s.align, s.name, s.object
            );
            let end = u64::from(s.address) + u64::from(s.size);
            for ((address, name), seen) in symbols.iter().zip(&mut inside) {
                if !*seen && *address >= s.address && u64::from(*address) < end {
                    *seen = true;
                    let _ = writeln!(out, "{address:#010x}                      {name}");
                }
            }
        }
        let mut rest = symbols
            .iter()
            .zip(&inside)
            .filter(|(_, seen)| !**seen)
            .peekable();
        if rest.peek().is_some() {
            out.push_str("\nabsolute\n");
            for ((value, name), _) in rest {
                let _ = writeln!(out, "{value:#010x}                      {name}");
            }
        }
        if !self.dropped.is_empty() {
            out.push_str("\nnot needed\n");
            for (object, name, size) in &self.dropped {
                let _ = writeln!(out, "           {size:#10x}         {name} ({object})");
            }
        }
        out
    }
}

/// Why linking fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// Two definitions of a global name.
    #[error("symbol `{name}` is defined in {first} and in {second}")]
    Duplicate {
        /// The name.
        name: String,
        /// File of the first definition.
        first: String,
        /// File of the second definition.
        second: String,
    },
    /// A name that no object defines.
    #[error("symbol `{name}` is used in {file} ({section}) and not defined in: {searched}")]
    Undefined {
        /// The name.
        name: String,
        /// File of the use.
        file: String,
        /// Section of the use.
        section: String,
        /// All linked files.
        searched: String,
    },
    /// An entry that no object defines, or several as local names.
    #[error("entry `{name}` {problem}")]
    Entry {
        /// The name.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// A needed section that is not loaded.
    #[error("{file}: section {section} is needed but not allocatable")]
    NotLoaded {
        /// Its file.
        file: String,
        /// Its name.
        section: String,
    },
    /// The image is too long.
    #[error("{file}: section {section} would end at {end:#x}, the limit is {limit:#x}")]
    Overflow {
        /// File of the section.
        file: String,
        /// The section.
        section: String,
        /// Its end.
        end: u64,
        /// The limit.
        limit: u32,
    },
    /// An address that is no 32-bit number.
    #[error("symbol `{name}` of {file} has the value {value:#x}, which is not an address")]
    NotAddress {
        /// The name.
        name: String,
        /// Its file.
        file: String,
        /// Its value.
        value: i64,
    },
    /// A malformed object.
    #[error("{file}: {problem}")]
    Object {
        /// The file.
        file: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// A value that does not fit its field.
    #[error("{file}: {section}+{offset:#x}, reference to {symbol}: {error}")]
    Relocation {
        /// File of the use.
        file: String,
        /// Section of the use.
        section: String,
        /// Offset of the use.
        offset: u32,
        /// What is referred to.
        symbol: String,
        /// What is wrong.
        error: RelocError,
    },
}

/// Object position and section position.
type SectionId = (usize, usize);

/// What a name means for the program.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    Number(i64),
    Place(SectionId, u32),
}

/// Collects objects and links them.
#[derive(Clone, Debug, Default)]
pub struct Linker {
    objects: Vec<Object>,
    absolutes: IndexMap<String, u32>,
    keep_all: bool,
}

/// The global names: meaning, file, and whether the definition is weak.
type Names<'a> = HashMap<&'a str, (Meaning, &'a str, bool)>;

/// Name shown for externally given symbols.
const OUTSIDE: &str = "<given>";

impl Linker {
    /// A linker without objects.
    pub fn new() -> Linker {
        Linker::default()
    }

    /// Adds an object.
    pub fn add(&mut self, object: Object) -> &mut Linker {
        self.objects.push(object);
        self
    }

    /// Defines a global name with a fixed address.
    pub fn define_absolute(&mut self, name: &str, value: u32) -> &mut Linker {
        self.absolutes.insert(name.to_string(), value);
        self
    }

    /// Keeps every loadable section, needed or not.
    pub fn keep_all(&mut self, on: bool) -> &mut Linker {
        self.keep_all = on;
        self
    }

    /// Links what the entries need. Sections are placed executable ones
    /// first, otherwise in the order in which they were added.
    pub fn link(&self, entries: &[&str], options: LinkOptions) -> Result<Image, Vec<LinkError>> {
        let mut errors = Vec::new();
        let names = self.names(&mut errors);
        let kept = self.reachable(entries, &names, &mut errors);
        let placed = self.place(&kept, options, &mut errors);
        if !errors.is_empty() {
            return Err(errors);
        }
        let addresses: HashMap<SectionId, u32> = placed.iter().copied().collect();
        let mut image = Image {
            base: options.base,
            ..Image::default()
        };
        for &(id, address) in &placed {
            self.load(
                id,
                address,
                &addresses,
                &names,
                options,
                &mut image,
                &mut errors,
            );
        }
        for id in self.all_sections() {
            if let Some((object, section)) = self.section(id)
                && section.flags.alloc
                && !section.data.is_empty()
                && !addresses.contains_key(&id)
            {
                let (object, name) = (object.name.clone(), section.name.clone());
                image
                    .dropped
                    .push((object, name, section.data.len() as u32));
            }
        }
        self.symbols(&addresses, &names, &mut image, &mut errors);
        if errors.is_empty() {
            Ok(image)
        } else {
            Err(errors)
        }
    }

    fn section(&self, (object, section): SectionId) -> Option<(&Object, &Section)> {
        let object = self.objects.get(object)?;
        Some((object, object.sections.get(section)?))
    }

    fn all_sections(&self) -> impl Iterator<Item = SectionId> {
        let each = |(o, object): (usize, &Object)| (0..object.sections.len()).map(move |s| (o, s));
        self.objects.iter().enumerate().flat_map(each)
    }

    /// The global names.
    fn names(&self, errors: &mut Vec<LinkError>) -> Names<'_> {
        let mut names: Names<'_> = HashMap::new();
        for (name, &value) in &self.absolutes {
            names.insert(name, (Meaning::Number(i64::from(value)), OUTSIDE, false));
        }
        for (at, object) in self.objects.iter().enumerate() {
            for symbol in object
                .symbols
                .iter()
                .filter(|s| s.binding != Binding::Local)
            {
                let Some(meaning) = meaning(at, symbol) else {
                    continue;
                };
                let weak = symbol.binding == Binding::Weak;
                match names.get(symbol.name.as_str()) {
                    // The first weak one stays, and a global one counts more.
                    Some(_) if weak => {}
                    Some((_, first, false)) => errors.push(LinkError::Duplicate {
                        name: symbol.name.clone(),
                        first: (*first).to_string(),
                        second: object.name.clone(),
                    }),
                    _ => {
                        names.insert(&symbol.name, (meaning, object.name.as_str(), weak));
                    }
                }
            }
        }
        names
    }

    /// What a relocation refers to, with a name for messages.
    fn target(
        &self,
        (object_at, section_at): SectionId,
        relocation: &Relocation,
        names: &Names<'_>,
    ) -> Result<(Meaning, String), LinkError> {
        let Some((object, section)) = self.section((object_at, section_at)) else {
            return Err(bad_object("", "section index out of range"));
        };
        match relocation.target {
            RelocTarget::Section(s) => {
                let Some(target) = object.sections.get(s) else {
                    return Err(bad_object(&object.name, "relocation to a missing section"));
                };
                Ok((Meaning::Place((object_at, s), 0), target.name.clone()))
            }
            RelocTarget::Symbol(s) => {
                let Some(symbol) = object.symbols.get(s) else {
                    return Err(bad_object(&object.name, "relocation to a missing symbol"));
                };
                let weak = symbol.binding == Binding::Weak;
                let own = meaning(object_at, symbol).filter(|_| !weak);
                let found = own
                    .or_else(|| names.get(symbol.name.as_str()).map(|n| n.0))
                    .or(weak.then_some(Meaning::Number(0)));
                found
                    .map(|m| (m, format!("`{}`", symbol.name)))
                    .ok_or_else(|| {
                        let files: Vec<&str> =
                            self.objects.iter().map(|o| o.name.as_str()).collect();
                        LinkError::Undefined {
                            name: symbol.name.clone(),
                            file: object.name.clone(),
                            section: section.name.clone(),
                            searched: files.join(", "),
                        }
                    })
            }
        }
    }

    fn entry(&self, name: &str, names: &Names<'_>) -> Result<Meaning, LinkError> {
        if let Some((meaning, ..)) = names.get(name) {
            return Ok(*meaning);
        }
        let mut found = self
            .objects
            .iter()
            .enumerate()
            .filter_map(|(at, object)| object.symbol(name).and_then(|s| meaning(at, s)));
        let problem = match (found.next(), found.next()) {
            (Some(meaning), None) => return Ok(meaning),
            (None, _) => "is not defined",
            (Some(_), Some(_)) => "is a local symbol of several objects",
        };
        Err(LinkError::Entry {
            name: name.to_string(),
            problem: problem.to_string(),
        })
    }

    /// The sections that the entries need, in placement order.
    fn reachable(
        &self,
        entries: &[&str],
        names: &Names<'_>,
        errors: &mut Vec<LinkError>,
    ) -> Vec<SectionId> {
        let mut graph: DiGraph<SectionId, ()> = DiGraph::new();
        let nodes: HashMap<SectionId, NodeIndex> = self
            .all_sections()
            .map(|id| (id, graph.add_node(id)))
            .collect();
        let root = graph.add_node((usize::MAX, 0));
        for name in entries {
            match self.entry(name, names) {
                Ok(Meaning::Place(id, _)) => {
                    if let Some(&to) = nodes.get(&id) {
                        graph.add_edge(root, to, ());
                    }
                }
                Ok(Meaning::Number(_)) => {}
                Err(e) => errors.push(e),
            }
        }
        for id in self.all_sections() {
            let Some((_, section)) = self.section(id) else {
                continue;
            };
            let retained = section.flags.extra & SectionFlags::RETAIN != 0;
            if (self.keep_all || retained)
                && section.flags.alloc
                && !section.data.is_empty()
                && let Some(&to) = nodes.get(&id)
            {
                graph.add_edge(root, to, ());
            }
            for relocation in &section.relocations {
                // Missing names matter only in sections that stay; `load` reports them.
                if let Ok((Meaning::Place(to, _), _)) = self.target(id, relocation, names)
                    && let (Some(&from), Some(&to)) = (nodes.get(&id), nodes.get(&to))
                {
                    graph.update_edge(from, to, ());
                }
            }
        }
        let mut kept = Vec::new();
        let mut walk = Dfs::new(&graph, root);
        while let Some(node) = walk.next(&graph) {
            if node != root {
                kept.extend(graph.node_weight(node).copied());
            }
        }
        let exec = |id: &SectionId| self.section(*id).is_some_and(|(_, s)| s.flags.exec);
        kept.sort_by_key(|id| (!exec(id), *id));
        kept
    }

    fn place(
        &self,
        kept: &[SectionId],
        options: LinkOptions,
        errors: &mut Vec<LinkError>,
    ) -> Vec<(SectionId, u32)> {
        let mut at = u64::from(options.base);
        let mut placed = Vec::new();
        for &id in kept {
            let Some((object, section)) = self.section(id) else {
                continue;
            };
            let (file, name) = (object.name.clone(), section.name.clone());
            if !section.flags.alloc {
                errors.push(LinkError::NotLoaded {
                    file,
                    section: name,
                });
                continue;
            }
            if !section.align.is_power_of_two() {
                errors.push(bad_object(
                    &file,
                    "a section's alignment is not a power of two",
                ));
                continue;
            }
            let start = at.next_multiple_of(u64::from(section.align));
            let end = start + section.data.len() as u64;
            if end > u64::from(options.limit) {
                let limit = options.limit;
                errors.push(LinkError::Overflow {
                    file,
                    section: name,
                    end,
                    limit,
                });
                break;
            }
            placed.push((id, start as u32));
            at = end;
        }
        placed
    }

    #[allow(clippy::too_many_arguments)] // one step of `link`, with its working set
    fn load(
        &self,
        id: SectionId,
        address: u32,
        addresses: &HashMap<SectionId, u32>,
        names: &Names<'_>,
        options: LinkOptions,
        image: &mut Image,
        errors: &mut Vec<LinkError>,
    ) {
        let Some((object, section)) = self.section(id) else {
            return;
        };
        let mut data = section.data.clone();
        for relocation in &section.relocations {
            let (meaning, symbol) = match self.target(id, relocation, names) {
                Ok(found) => found,
                Err(e) => {
                    errors.push(e);
                    continue;
                }
            };
            let Some(value) = value_of(meaning, addresses) else {
                continue;
            };
            let value = value.wrapping_add(relocation.addend);
            let base = options.relative_base;
            let applied = relocation
                .kind
                .apply(&mut data, relocation.offset, value, base);
            if let Err(error) = applied {
                errors.push(LinkError::Relocation {
                    file: object.name.clone(),
                    section: section.name.clone(),
                    offset: relocation.offset,
                    symbol,
                    error,
                });
            }
        }
        let start = address.saturating_sub(options.base) as usize;
        image.bytes.resize(start, 0);
        let size = data.len() as u32;
        image.bytes.append(&mut data);
        let (object, name) = (object.name.clone(), section.name.clone());
        image.sections.push(PlacedSection {
            object,
            name,
            address,
            size,
            align: section.align,
            flags: section.flags,
        });
    }

    fn symbols(
        &self,
        addresses: &HashMap<SectionId, u32>,
        names: &Names<'_>,
        image: &mut Image,
        errors: &mut Vec<LinkError>,
    ) {
        image
            .symbols
            .extend(self.absolutes.iter().map(|(n, v)| (n.clone(), *v)));
        let mut uses: HashMap<&str, u32> = HashMap::new();
        let all = self.objects.iter().flat_map(|o| &o.symbols);
        for symbol in all.filter(|s| s.place != SymbolPlace::Undefined) {
            *uses.entry(&symbol.name).or_insert(0) += 1;
        }
        for (at, object) in self.objects.iter().enumerate() {
            for symbol in &object.symbols {
                let local = symbol.binding == Binding::Local;
                let chosen = names.get(symbol.name.as_str());
                if symbol.binding == Binding::Weak
                    && chosen.is_none_or(|c| c.1 != object.name.as_str())
                {
                    continue;
                }
                let hidden = names.contains_key(symbol.name.as_str())
                    || uses.get(symbol.name.as_str()) != Some(&1);
                if local && hidden {
                    continue;
                }
                let value = meaning(at, symbol).and_then(|m| value_of(m, addresses));
                let Some(value) = value else { continue };
                match u32::try_from(value) {
                    Ok(v) => {
                        image.symbols.insert(symbol.name.clone(), v);
                    }
                    Err(_) if local => {}
                    Err(_) => errors.push(LinkError::NotAddress {
                        name: symbol.name.clone(),
                        file: object.name.clone(),
                        value,
                    }),
                }
            }
        }
    }
}

fn bad_object(file: &str, problem: &'static str) -> LinkError {
    LinkError::Object {
        file: file.to_string(),
        problem,
    }
}

fn meaning(object: usize, symbol: &Symbol) -> Option<Meaning> {
    match symbol.place {
        SymbolPlace::Undefined => None,
        SymbolPlace::Absolute(v) => Some(Meaning::Number(v)),
        SymbolPlace::Section { index, offset } => Some(Meaning::Place((object, index), offset)),
    }
}

/// The address, unless its section was dropped.
fn value_of(meaning: Meaning, addresses: &HashMap<SectionId, u32>) -> Option<i64> {
    match meaning {
        Meaning::Number(v) => Some(v),
        Meaning::Place(id, offset) => addresses
            .get(&id)
            .map(|a| i64::from(*a) + i64::from(offset)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asm::Assembler;

    const OPTIONS: LinkOptions = LinkOptions {
        base: 0x4c000,
        limit: 0x4c100,
        relative_base: 0x4c000,
    };

    fn linker(sources: &[&str]) -> Linker {
        let mut linker = Linker::new();
        for (at, source) in sources.iter().enumerate() {
            let name = format!("{}.S", (b'a' + at as u8) as char);
            linker.add(Assembler::new().assemble(&name, source).unwrap());
        }
        linker
    }

    fn words(image: &Image) -> Vec<u32> {
        let word = |w: &[u8]| u32::from_le_bytes([w[0], w[1], w[2], w[3]]);
        image.bytes.chunks(4).map(word).collect()
    }

    fn messages(linker: &Linker, entries: &[&str], options: LinkOptions) -> Vec<String> {
        linker
            .link(entries, options)
            .unwrap_err()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn links_what_entries_need() {
        let l = linker(&[
            ".globl main\n.section .text.main,\"ax\"\nmain: bri helper\nsetzi $m0, table+4\n\
             .section .text.dead,\"ax\"\ndead: bri nowhere",
            ".globl helper, table\n.section .rodata.t,\"a\"\n.p2align 4\ntable: .long 1, helper\n\
             .section .text.helper,\"ax\"\nnop\nhelper: call $m10, main\nlocal: br $m10",
        ]);
        let image = l.link(&["main"], OPTIONS).unwrap();
        let names: Vec<&str> = image.sections.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, [".text.main", ".text.helper", ".rodata.t"]);
        assert_eq!(
            words(&image),
            [
                0x4080_0000 | (0x4c00c >> 2),
                0x1900_0000 | 0x4c024,
                0x19e0_0000,
                0x18a0_0000 | (0x4c000 >> 2),
                0x43a0_0000,
                0,
                0,
                0,
                1,
                0x4c00c
            ]
        );
        assert_eq!(image.symbols.get("main"), Some(&0x4c000));
        assert_eq!(image.symbols.get("local"), Some(&0x4c010));
        assert_eq!(image.symbols.get("table"), Some(&0x4c020));
        assert_eq!(image.symbols.get("dead"), None);
    }

    #[test]
    fn weak_symbols() {
        let user = ".weak w, gone\nx: .long w, gone\nw: .long 7\n.section .data.w,\"aw\"\n.long w";
        let image = linker(&[user]).link(&["x"], OPTIONS).unwrap();
        assert_eq!(words(&image), [0x4c008, 0, 7]);
        let other = linker(&[user, ".globl w\n.section .data.o,\"aw\"\nw: .long 9"]);
        let image = other.link(&["x"], OPTIONS).unwrap();
        assert_eq!(words(&image), [0x4c00c, 0, 7, 9]);
        assert_eq!(image.symbols.get("w"), Some(&0x4c00c));
        let both = linker(&[user, ".weak w\nw: .long 9"]);
        assert_eq!(words(&both.link(&["x"], OPTIONS).unwrap()), [0x4c008, 0, 7]);
    }

    #[test]
    fn maps_and_kept_sections() {
        let mut l = linker(&[
            ".globl x\n.section .text.x,\"ax\"\nx: br $m10\n.section .data.y,\"aw\"\ny: .long 1\n\
             .section .data.z,\"awR\"\n.p2align 3\n.long 2\n.set w, 3\n.globl w",
        ]);
        assert_eq!(
            l.link(&["x"], OPTIONS).unwrap().map(),
            "   address       size  align  section\n\
             0x0004c000        0x4      4  .text.x (a.S)\n\
             0x0004c000                      x\n\
             0x0004c008        0x4      8  .data.z (a.S)\n\
             \nabsolute\n\
             0x00000003                      w\n\
             \nnot needed\n                  0x4         .data.y (a.S)\n"
        );
        let image = l.keep_all(true).link(&["x"], OPTIONS).unwrap();
        assert_eq!((image.sections.len(), image.dropped.len()), (3, 0));
    }

    #[test]
    fn absolutes_and_run() {
        let mut l = linker(&["e: bri host\nrun $m0, $m1, w\nw: nop\n.long host"]);
        l.define_absolute("host", 0x50000);
        let image = l.link(&["e"], OPTIONS).unwrap();
        assert_eq!(words(&image)[..2], [0x4081_4000, 0x1400_1002]);
        assert_eq!(words(&image)[3], 0x50000);
        assert_eq!(image.symbols.get("host"), Some(&0x50000));
    }

    #[test]
    fn errors_name_the_files() {
        let l = linker(&[".globl x\nx: bri y", ".globl x\nx: nop"]);
        assert_eq!(
            messages(&l, &["x"], OPTIONS),
            ["symbol `x` is defined in a.S and in b.S"]
        );
        let l = linker(&["x: bri y", "z: nop"]);
        assert_eq!(
            messages(&l, &["x"], OPTIONS),
            ["symbol `y` is used in a.S (.text) and not defined in: a.S, b.S"]
        );
        assert_eq!(messages(&l, &["q"], OPTIONS), ["entry `q` is not defined"]);
        let l = linker(&["x: nop", "x: nop"]);
        assert_eq!(
            messages(&l, &["x"], OPTIONS),
            ["entry `x` is a local symbol of several objects"]
        );
        let l = linker(&["x: .long y\n.section .note,\"\"\ny: .long 0"]);
        assert_eq!(
            messages(&l, &["x"], OPTIONS),
            ["a.S: section .note is needed but not allocatable"]
        );
    }

    #[test]
    fn limits_ranges_and_alignment() {
        let l = linker(&["x: .space 0x101"]);
        assert_eq!(
            messages(&l, &["x"], OPTIONS),
            ["a.S: section .text would end at 0x4c101, the limit is 0x4c100"]
        );
        let l = linker(&["x: setzi $m0, x + 0x100000\nbri x + 2\n.byte x"]);
        let found = messages(&l, &["x"], OPTIONS);
        assert_eq!(found.len(), 3);
        assert!(
            found[0].contains("does not fit the 20 bits"),
            "{}",
            found[0]
        );
        assert!(found[1].contains("not a multiple of 4"), "{}", found[1]);
        assert!(
            found[2].starts_with("a.S: .text+0x8, reference to .text:"),
            "{}",
            found[2]
        );
        let l = linker(&[".globl big\n.set big, 1 << 40\nx: nop"]);
        assert!(matches!(
            l.link(&["x"], OPTIONS).unwrap_err()[..],
            [LinkError::NotAddress {
                value: 0x100_0000_0000,
                ..
            }]
        ));
    }

    #[test]
    fn malformed_objects_are_errors() {
        let mut object = Assembler::new().assemble("a.S", "x: bri y").unwrap();
        object.sections[0].relocations[0].target = RelocTarget::Symbol(99);
        let mut l = Linker::new();
        l.add(object.clone());
        assert_eq!(
            messages(&l, &["x"], OPTIONS),
            ["a.S: relocation to a missing symbol"]
        );
        object.sections[0].align = 3;
        let mut l = Linker::new();
        l.add(object);
        assert!(l.link(&["x"], OPTIONS).is_err());
    }
}
