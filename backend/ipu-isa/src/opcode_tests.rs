//! Keeps `opcode.rs` equal to the table.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::opcode::Opcode;
use crate::table::SOURCE;

fn mnemonics() -> BTreeSet<&'static str> {
    let field = |line: &'static str| {
        line.split_once("mnemonic:\"")?
            .1
            .split_once('"')
            .map(|p| p.0)
    };
    SOURCE.lines().filter_map(field).collect()
}

fn variant(mnemonic: &str) -> String {
    let (first, rest) = mnemonic.split_at(1);
    first.to_uppercase() + rest
}

fn generate() -> String {
    let current = include_str!("opcode.rs");
    let enum_start = current.find("    #[default]\n").unwrap();
    let enum_end = enum_start + current[enum_start..].find("}\n").unwrap();
    let names_head = "const NAMES: &[(&str, Opcode)] = &[\n";
    let names_start = current.find(names_head).unwrap() + names_head.len();
    let names_end = names_start + current[names_start..].find("];\n").unwrap();
    let mut out = current[..enum_start].to_string();
    out.push_str("    #[default]\n");
    for m in mnemonics() {
        writeln!(out, "    {},", variant(m)).unwrap();
    }
    out.push_str(&current[enum_end..names_start]);
    for m in mnemonics() {
        writeln!(out, "    (\"{m}\", Opcode::{}),", variant(m)).unwrap();
    }
    out.push_str(&current[names_end..]);
    out
}

#[test]
fn opcodes_agree_with_the_table() {
    let wanted = generate();
    if std::env::var_os("IPU_ISA_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/opcode.rs");
        std::fs::write(path, &wanted).unwrap();
        return;
    }
    pretty_assertions::assert_eq!(include_str!("opcode.rs"), wanted);
    for (at, opcode) in Opcode::all().enumerate() {
        assert_eq!(opcode as usize, at);
        assert_eq!(Opcode::from_mnemonic(opcode.mnemonic()), Some(opcode));
    }
    assert_eq!(Opcode::from_mnemonic("frobnicate"), None);
}
