//! Objects and images survive writing and reading; hostile files are refused.

use proptest::prelude::*;

use super::*;
use crate::asm::Assembler;
use crate::link::{LinkOptions, Linker};
use crate::object::{Binding, Object};

const SOURCE: &str = "
    .globl main, limit
    .weak other
    .section .text.main, \"ax\", @progbits
    .type main, @function
main:
    call $m10, other
    setzi $m0, table + 4
    run $m0, $m1, main
1:  bri 1b
    cmpult $m0, $m1, limit2
    .size main, . - main
    .section .rodata.strings, \"aMS\", @progbits, 1
    .asciz \"abc\"
    .data
    .p2align 3
table: .long 1, main, table
    .short main@16@s3, main@relative@16@s2
    .quad main
    .hidden table
    .section .bss.x, \"aw\", @nobits
    .zero 40
    .set limit, 77
    .local lost
lost:
";

fn object() -> Object {
    Assembler::new().assemble("a.S", SOURCE).unwrap()
}

/// Locals first, as ELF wants them, with relocations to match.
fn sorted(mut object: Object) -> Object {
    use crate::object::RelocTarget;
    let mut order: Vec<usize> = (0..object.symbols.len()).collect();
    order.sort_by_key(|&i| object.symbols[i].binding != Binding::Local);
    for section in &mut object.sections {
        for r in &mut section.relocations {
            if let RelocTarget::Symbol(s) = &mut r.target {
                *s = order.iter().position(|i| i == s).unwrap();
            }
        }
    }
    object.symbols = order.iter().map(|&i| object.symbols[i].clone()).collect();
    object
}

#[test]
fn objects_survive() {
    let object = object();
    let bytes = write_object(&object).unwrap();
    assert_eq!(elf_kind(&bytes), Ok(ElfKind::Object));
    let read = read_object("a.S", &bytes).unwrap();
    pretty_assertions::assert_eq!(read, sorted(object));
    // The bytes depend on nothing else.
    assert_eq!(write_object(&read).unwrap(), bytes);
}

#[test]
fn images_survive() {
    let other = Assembler::new()
        .assemble(
            "b.S",
            ".globl other, limit2\n.set limit2, 5\nother: br $m10",
        )
        .unwrap();
    let options = LinkOptions {
        base: 0x4c010,
        limit: 0x80000,
        relative_base: 0x4c000,
    };
    let mut linker = Linker::new();
    linker.add(object()).add(other);
    let image = linker.link(&["main"], options).unwrap();
    let bytes = write_image(&image, 0x4c010).unwrap();
    assert_eq!(elf_kind(&bytes), Ok(ElfKind::Image));
    let (read, entry) = read_image(&bytes).unwrap();
    assert_eq!(entry, 0x4c010);
    assert_eq!(
        (read.base, &read.bytes, &read.symbols),
        (image.base, &image.bytes, &image.symbols)
    );
    let placed = |i: &crate::link::Image| -> Vec<(String, u32, u32)> {
        let each = i.sections.iter();
        each.map(|s| (s.name.clone(), s.address, s.size)).collect()
    };
    assert_eq!(placed(&read), placed(&image));
    assert!(read_object("x", &bytes).is_err());
    assert!(read_image(&write_object(&object()).unwrap()).is_err());
}

#[test]
fn other_files_are_refused() {
    assert!(matches!(
        read_object("x", b"hello"),
        Err(ElfError::Malformed(_))
    ));
    let mut bytes = write_object(&object()).unwrap();
    bytes[18] = 62;
    assert_eq!(read_object("x", &bytes), Err(ElfError::Machine(62)));
    let mut wide = object();
    wide.sections[1].relocations[0].addend = 1 << 40;
    assert!(matches!(write_object(&wide), Err(ElfError::Range { .. })));
    let mut broken = object();
    broken.sections[1].relocations[0].target = crate::object::RelocTarget::Symbol(99);
    assert!(write_object(&broken).is_err());
}

proptest! {
    #[test]
    fn changed_files_are_read_or_refused(changes in prop::collection::vec((0usize..2000, any::<u8>()), 1..8)) {
        let mut bytes = write_object(&object()).unwrap();
        let length = bytes.len();
        for (at, value) in changes {
            bytes[at % length] = value;
        }
        let _ = read_object("x", &bytes);
        let _ = read_image(&bytes);
    }

    #[test]
    fn shortened_files_are_read_or_refused(length in 0usize..2000) {
        let mut bytes = write_object(&object()).unwrap();
        bytes.truncate(length);
        let _ = read_object("x", &bytes);
    }
}
