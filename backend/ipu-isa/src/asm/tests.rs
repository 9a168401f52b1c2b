//! Directives, spellings, bundles, errors.

use crate::object::{Binding, Object, RelocKind, RelocTarget, SymbolKind, SymbolPlace};

use super::{AsmErrorKind, AsmErrors, Assembler, Limits};

fn object(source: &str) -> Object {
    Assembler::new()
        .assemble("t.S", source)
        .unwrap_or_else(|e| panic!("{e}"))
}

fn words(source: &str) -> Vec<u32> {
    let word = |w: &[u8]| u32::from_le_bytes([w[0], w[1], w[2], w[3]]);
    object(source).sections[0]
        .data
        .chunks(4)
        .map(word)
        .collect()
}

fn data(source: &str) -> Vec<u8> {
    let object = object(&format!(".data\n{source}"));
    object.section(".data").unwrap().data.clone()
}

fn errors(source: &str) -> AsmErrors {
    Assembler::new().assemble("t.S", source).unwrap_err()
}

/// The only error as `line:column: text`.
fn error(source: &str) -> String {
    let e = errors(source);
    assert_eq!(e.diagnostics.len(), 1, "{e}");
    let d = &e.diagnostics[0];
    format!("{}:{}: {}", d.line, d.column, d.kind)
}

/// Both sources give the same words.
fn same(a: &str, b: &str) {
    assert_eq!(words(a), words(b), "{a} / {b}");
}

#[test]
fn spellings() {
    for (spelling, plain) in [
        ("nop", "setzi $m14, 0"),
        ("fnop", "setzi $a13, 0"),
        ("mov $m1, $m2", "or $m1, $m2, 0"),
        ("mov $a1, $a2", "or $a1, $a2, 0"),
        ("mov $m1, $a2", "atom $m1, $a2"),
        ("mov $a0:1, $a2:3", "or64 $a0:1, $a2:3, $azeros"),
        ("mov $m1, $azero", "or $m1, $mzero, 0"),
        ("zero $m1", "or $m1, $mzero, $mzero"),
        ("ld32 $azero, $m0, $m3, $m4", "ld32 $a15, $m0, $m3, $m4"),
        ("setzi $azero, 7", "setzi $a15, 7"),
        ("or $azero, $azero, $azero", "or $a15, $a15, $a15"),
        ("zero $a1", "or $a1, $azero, $azero"),
        ("zero $a2:3", "or64 $a2:3, $azeros, $azeros"),
        ("swap16 $m1, $m2", "roll16 $m1, $m2, $m2"),
        ("swap16 $a1, $a2", "roll16 $a1, $a2, $a2"),
        ("get $a1, $FP_CTL", "uget $a1, 2"),
        ("put $FP_CLR, $a1", "uput 1, $a1"),
        ("put $CCCSLOAD, $m1", "put 80, $m1"),
        ("get $m1, $WSR", "get $m1, 1"),
        ("strap", "put 255, $mzero"),
        ("ldconst $m1, 7", "setzi $m1, 7"),
        (
            "ldconst $m1, 0x12345678",
            "setzi $m1, 0x45678\nor $m1, $m1, 0x12300000",
        ),
        (
            "ldconst $a1, -1",
            "setzi $a1, 0xfffff\nor $a1, $a1, 0xfff00000",
        ),
        ("sub $m1, $m2, 5", "add $m1, $m2, -5"),
        ("ld32 $m1, $m2, 3", "ld32 $m1, $m2, $mzero, 3"),
        ("ld64 $a0:1, $m2, $m3", "ld64 $a0:1, $m2, $mzero, $m3"),
        ("st32 $m1, $m2, 3", "st32 $m1, $m2, $mzero, 3"),
        ("st64 $a0:1, $m2, 3", "st64 $a0:1, $m2, $mzero, 3"),
        (
            "f16v4sisov2amp $a0:1, $a2:3, $a4:5, 0",
            "f16v4sisoamp $a0:1, $a2:3, $a4:5, 0",
        ),
        ("f16v2add $a0, $a1:B, $a2", "f16v2add $a0, $a1:BL, $a2"),
        (
            "f32v2add $a0:1, $a2:BL, $a4:5",
            "f32v2add $a0:1, $a2:B, $a4:5",
        ),
        ("ld128 $aq1, $m0, $azero, 0", "ld128 $a4:7, $m0, $m15, 0"),
        ("setzi $a0, -1.0h", "setzi $a0, 0xbc00"),
        ("or $a0, $a0, 1.0f", "or $a0, $a0, 0x3f800000"),
        ("movz $m1, $m2, $m3", "movnz $m1, $m2, $m3"),
        (
            "ld64step $a0: 1, $mzero, $m0 +=, 1",
            "ld64step $a0:1, $m15, $m0+=, 1",
        ),
    ] {
        same(spelling, plain);
    }
}

#[test]
fn sixteen_bit_immediates_choose_their_format() {
    let word = |text: &str| words(text)[0] >> 24;
    assert_eq!(word("add $m0, $m0, 32767"), 0x22);
    assert_eq!(word("add $m0, $m0, 32768"), 0x20);
    assert_eq!(word("addz $m0, $m0, 1"), 0x20);
    assert_eq!(word("adds $m0, $m0, 1"), 0x22);
    assert_eq!(
        error("addz $m0, $m0, -1"),
        "1:1: operand `imm` is -1, allowed are 0 to 65535"
    );
    assert_eq!(word("or $m0, $m0, 0xfff00000"), 0x42);
    assert_eq!(
        error("or $m0"),
        "1:1: invalid operands; the forms are: or {dst}, {src0}, {src1} | or {dst}, {src0}, {imm}"
    );
    for text in ["add $m0, $m0, 65536", "min $m0, $m0, -32769"] {
        let found = error(text);
        assert!(found.contains("allowed are -32768 to 65535"), "{found}");
    }
    for text in ["and $m0, $m0, 4096", "or $m0, $m0, 1 << 40"] {
        let found = error(text);
        assert!(found.contains("allowed are 0 to 4095"), "{found}");
    }
}

#[test]
fn labels_and_relocations() {
    let o = object("a: nop\n1: bri a\nbri 1b\nbri 1f\nbri ext+8\n1: .L0: setzi $m0, a\n");
    let text = &o.sections[0];
    let at = |offset, target, addend, kind| (offset, target, addend, kind);
    let found: Vec<_> = text
        .relocations
        .iter()
        .map(|r| at(r.offset, r.target, r.addend, r.kind))
        .collect();
    let own = RelocTarget::Section(0);
    assert_eq!(
        found,
        [
            at(4, own, 0, RelocKind::Abs19S2),
            at(8, own, 4, RelocKind::Abs19S2),
            at(12, own, 20, RelocKind::Abs19S2),
            at(16, RelocTarget::Symbol(1), 8, RelocKind::Abs19S2),
            at(20, own, 0, RelocKind::Abs20),
        ]
    );
    let names: Vec<&str> = o.symbols.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["a", "ext"]);
    // A bare target counts words, a constant too.
    same("bri 4", ".set t, 4\nbri t");
    assert_eq!(words("bri 4")[0], 0x4080_0004);
    let mut a = Assembler::new();
    let bytes = a.byte_targets(true).assemble("t.S", "bri 16").unwrap();
    assert_eq!(bytes.sections[0].data, 0x4080_0004u32.to_le_bytes());
    let o = object(
        ".allow_invalid_repeat\ncmpult $m0, $m1, x\nrpt $m0, y\nrunall $m0, $m1, z\ncall $m10, w",
    );
    let kinds: Vec<RelocKind> = o.sections[0].relocations.iter().map(|r| r.kind).collect();
    let wanted = [
        RelocKind::Abs16,
        RelocKind::Abs8,
        RelocKind::Run,
        RelocKind::Abs19S2,
    ];
    assert_eq!(kinds, wanted);
}

#[test]
fn label_differences_are_numbers() {
    let source = "rpt $m0, (2f - 1f) / 8 - 1\n.align 8\n1: { nop ; fnop }\n{ nop ; fnop }\n2:";
    assert_eq!(words(&format!("nop\n{source}"))[1], 0x4300_a001);
    assert_eq!(data("a: .long b - a, 2\nb:"), [8, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(
        error("bri 1b"),
        "1:1: there is no label `1b` in that direction"
    );
    assert_eq!(
        error("bri 1f"),
        "1:1: there is no label `1f` in that direction"
    );
    assert_eq!(
        error("a: add $m0, $m0, a"),
        "1:4: operand `imm` cannot hold an address"
    );
    assert_eq!(error("a: nop\na: nop"), "2:1: `a` is already defined");
}

#[test]
fn bundles() {
    same(
        "{ add $m0, $m1, $m2 ; f32add $a0, $a1, $a2 }",
        "{\n add $m0, $m1, $m2 // c\n f32add $a0, $a1, $a2\n}",
    );
    assert_eq!(words("{ nop ; fnop }"), [0x99e0_0000, 0x9ad0_0000]);
    assert_eq!(words("{nop\nfnop} ; nop").len(), 3);
    same(".allow_optimizations\n{ fnop ; nop }", "{ nop ; fnop }");
    assert!(error("{ fnop ; nop }").contains("is not main"));
    assert_eq!(
        error("{ nop }"),
        "1:1: a bundle holds exactly two instructions, this one has 1"
    );
    assert!(error("{ nop ; fnop ; fnop }").contains("has 3"));
    assert_eq!(error("nop }"), "1:5: `}` without `{`");
    assert_eq!(error("{ nop"), "1:1: `{` is not closed");
    assert!(error("{ { nop ; fnop }").contains("cannot stand in a bundle"));
    assert_eq!(
        error("{ exitz $m0 ; fnop }"),
        "1:1: `exitz` cannot stand in a bundle"
    );
    assert_eq!(
        error("{ .align 8\nnop ; fnop }"),
        "1:3: this directive cannot stand in a bundle"
    );
    assert!(error("{ x: nop ; fnop }").contains("a label"));
    assert!(error("{ ldconst $m0, 1 ; fnop }").contains("`ldconst`"));
    assert_eq!(
        error("{ ld64 $a0:1, $m0, 0 ; f32add $a1, $a2, $a3 }"),
        "1:1: both instructions of the bundle write `$a1`"
    );
    // One wrong instruction is one error.
    assert!(error("{ nop ; fnopp }").contains("did you mean `fnop`?"));
}

#[test]
fn repeat_rules() {
    let body = "{ nop ; fnop }\n";
    assert_eq!(words(&format!("nop\nrpt 3, 0\n{body}")).len(), 4);
    assert_eq!(
        words(&format!("{{ rpt 3, 1 ; fnop }}\n{body}{body}")).len(),
        6
    );
    assert!(error(&format!("rpt 3, 0\n{body}")).starts_with("1:1: the body of `rpt` must start"));
    assert!(error(&format!("nop\n{{ rpt 3, 0 ; fnop }}\n{body}")).starts_with("2:1: the body"));
    assert!(error("nop\nrpt 3, 0\nnop\nnop").starts_with("3:1: only bundles"));
    assert!(error(&format!("nop\nrpt 3, 1\n{body}")).contains("that many bundles"));
    let branch = "x: nop\nrpt 3, 0\n{ bri x ; fnop }";
    assert!(
        error(branch).starts_with("3:1: control and system"),
        "{}",
        error(branch)
    );
    assert!(error(&format!("nop\nrpt 3, 1\n{body}.long 0\n{body}")).contains("that many"));
    words(&format!(".allow_invalid_repeat\nrpt 3, 0\n{body}"));
    // With optimizations a bundled `rpt` at 4 modulo 8 becomes a solo one.
    let source = format!(".allow_optimizations\nnop\n{{ rpt 3, 0 ; fnop }}\n{body}");
    assert_eq!(words(&source)[1], 0x4000_0300);
    assert_eq!(object(&source).sections[0].align, 8);
}

#[test]
fn modes() {
    assert_eq!(
        error(".supervisor\nexitz $m0"),
        "2:1: instruction requires: Worker mode"
    );
    assert_eq!(
        error(".worker\nsync 1"),
        "2:1: instruction requires: Supervisor mode"
    );
    assert!(error(".worker\nput $CCCSLOAD, $m0").contains("Supervisor"));
    assert!(error(".supervisor\nget $m0, $WSR").contains("Worker"));
    words(".supervisor\nadd $m0, $m0, 1\nsync 1\n.worker\nexitz $m0\nget $m0, $COUNT_L");
    words("sync 1\nexitz $m0");
    words(".allow_invalid_execution_mode\n.worker\nsync 1");
}

#[test]
fn sections_and_symbols() {
    let o = object(
        ".globl f, v, late\n.section .text.f,\"ax\",@progbits\nf: nop\n.type f, @function\n.size f, .-f\n.data\n.byte 1\n.previous\nnop\n\
         .pushsection .rodata.x,\"a\"\n.p2align 4\n.long 2\n.popsection\nnop\n\
         .section \"odd-name\",\"aw\",@nobits\n.zero 8\n.set v, 5\n.local g\ng:",
    );
    let names: Vec<(&str, usize, u32)> = o
        .sections
        .iter()
        .map(|s| (s.name.as_str(), s.data.len(), s.align))
        .collect();
    assert_eq!(
        names,
        [
            (".text", 0, 4),
            (".text.f", 12, 4),
            (".data", 1, 1),
            (".rodata.x", 4, 16),
            ("odd-name", 8, 1)
        ]
    );
    let flags = o.section("odd-name").unwrap().flags;
    assert!(flags.alloc && flags.write && flags.nobits && !flags.exec);
    let f = o.symbol("f").unwrap();
    let place = SymbolPlace::Section {
        index: 1,
        offset: 0,
    };
    assert_eq!((f.place, f.binding), (place, Binding::Global));
    assert_eq!((f.kind, f.size), (SymbolKind::Function, 4));
    assert!(error("f: nop\n.data\n.size f, .-f").contains("neither a number"));
    assert_eq!(o.symbol("v").unwrap().place, SymbolPlace::Absolute(5));
    assert_eq!(o.symbol("late").unwrap().place, SymbolPlace::Undefined);
    assert_eq!(o.symbol("g").unwrap().binding, Binding::Local);
    assert!(error(".globl v\nx: nop\n.set v, x - 100").contains("neither a number"));
    assert_eq!(
        error(".popsection"),
        "1:1: `.popsection` without its opening directive"
    );
}

#[test]
fn alignment() {
    let nop = 0x19e0_0000;
    assert_eq!(words("br $m0\n.align 16"), [0x4300_0000, nop, nop, nop]);
    assert_eq!(words("br $m0\n.p2align 3"), [0x4300_0000, nop]);
    assert_eq!(words("br $m0\n.balign 8, 0xff"), [0x4300_0000, u32::MAX]);
    assert_eq!(words("br $m0\n.p2align 4, , 4").len(), 1);
    assert_eq!(
        object(".byte 1\n.align 8").sections[0].data[..5],
        [1, 0, 0, 0, 0]
    );
    assert_eq!(data(".byte 1\n.align 4\n.byte 2"), [1, 0, 0, 0, 2]);
    assert_eq!(error(".align 12"), "1:1: an alignment is a power of two");
    assert_eq!(
        error(".p2align 17"),
        "1:1: alignment is 17, allowed are 0 to 16"
    );
    assert_eq!(
        error(".byte 1\nnop"),
        "2:1: instructions must start at a multiple of 4"
    );
}

#[test]
fn data_directives() {
    assert_eq!(data(".byte 1, -1, 255"), [1, 255, 255]);
    assert_eq!(
        data(".short 0x1234\n.half 1.0, -2.5h, 7"),
        [0x34, 0x12, 0, 0x3c, 0, 0xc1, 7, 0]
    );
    assert_eq!(data(".long 1\n.word -2"), [1, 0, 0, 0, 254, 255, 255, 255]);
    assert_eq!(data(".quad -1"), [255; 8]);
    assert_eq!(data(".float 1.0, 2"), [0, 0, 0x80, 0x3f, 0, 0, 0, 0x40]);
    assert_eq!(
        data(".ascii \"a\\n\"\n.asciz \"b\""),
        [b'a', b'\n', b'b', 0]
    );
    assert_eq!(
        data(".zero 2\n.space 1, 7\n.fill 2, 2, 3"),
        [0, 0, 7, 3, 0, 3, 0]
    );
    assert_eq!(data(".long later\n.set later, 9"), [9, 0, 0, 0]);
    assert_eq!(
        error(".byte 256"),
        "1:1: operand `value` is 256, allowed are -128 to 255"
    );
    assert_eq!(
        error(".zero x"),
        "1:1: the expression is not a constant here (`x`)"
    );
    assert_eq!(
        error(".zero -1"),
        "1:1: size is -1, allowed are 0 to 4294967295"
    );
    assert!(error(".long 1 2").contains("expected the end of the statement, found `2`"));
    let o =
        object(".short x@relative@16@s2\n.short x@16@s3\n.long x@abs18@s2, x@abs@21, x\n.quad x");
    let kinds: Vec<(u32, RelocKind)> = o.sections[0]
        .relocations
        .iter()
        .map(|r| (r.offset, r.kind))
        .collect();
    assert_eq!(
        kinds,
        [
            (0, RelocKind::Relative16S2),
            (2, RelocKind::Abs16S3),
            (4, RelocKind::Abs18S2),
            (8, RelocKind::Abs21),
            (12, RelocKind::Abs32),
            (16, RelocKind::Abs64)
        ]
    );
    assert!(error(".byte x@abs18@s2").contains("size of the datum"));
    assert!(error(".long x@what").contains("an address modifier"));
}

#[test]
fn constants_have_the_value_at_their_use() {
    let source = ".set n, 1\n.byte n\nn = n + 1\n.byte n\n.equ n, n * 5\n.byte n";
    assert_eq!(data(source), [1, 2, 10]);
    let mut a = Assembler::new();
    a.define("R", 92);
    let o = a
        .assemble("t.S", "setzi $m0, R * 32\n.ifdef R\nnop\n.endif")
        .unwrap();
    assert_eq!(o.sections[0].data.len(), 8);
    assert_eq!(error("x: .set x, 1"), "1:4: `x` is already defined");
    assert_eq!(error(".set x, 1\nx: nop"), "2:1: `x` is already defined");
    // A cycle of open names ends.
    assert!(error(".set a, b\n.set b, a\nsetzi $m0, a").contains("limit exceeded"));
    assert_eq!(error(".set y, 1 / 0"), "1:1: division by zero");
}

#[test]
fn conditionals() {
    let pick = |n: i64| {
        let source = format!(
            ".set n, {n}\n.if n == 1\n.byte 1\n.elseif n == 2\n.byte 2\n.else\n.if 0\n.byte 9\n\
             .else\n.byte 3\n.endif\n.endif"
        );
        data(&source)
    };
    assert_eq!((pick(1), pick(2), pick(3)), (vec![1], vec![2], vec![3]));
    assert_eq!(data(".ifndef x\n.byte 1\n.else\n.byte 2\n.endif"), [1]);
    assert_eq!(
        data(".ifc a, a\n.byte 1\n.endif\n.ifnc \"a\", b\n.byte 2\n.endif"),
        [1, 2]
    );
    assert_eq!(
        data(".ifb\n.byte 1\n.endif\n.ifnb x\n.byte 2\n.endif"),
        [1, 2]
    );
    // Skipped text may be anything.
    assert_eq!(
        data(".if 0\n{ frob ; 1+\n.if x\n.else\n.endif\n}\n.endif\n.byte 1"),
        [1]
    );
    assert_eq!(error(".if 1\nnop"), "1:1: `.if` is not closed");
    assert_eq!(
        error(".endif"),
        "1:1: `.endif` without its opening directive"
    );
    assert_eq!(
        error(".if 0\n.else\n.else\n.endif"),
        "3:1: `.else` without its opening directive"
    );
    assert!(error(".if x\nnop\n.endif").contains("not a constant here"));
}

#[test]
fn macros() {
    let source =
        ".macro put2 a, b=7\n.byte \\a\n.byte \\b\n.endm\nput2 1\nput2 2, 3\nput2 b=4, a=5";
    assert_eq!(data(source), [1, 7, 2, 3, 5, 4]);
    let unique = ".macro m\nl\\@: .byte l\\@ - l\\@\n.endm\nm\nm";
    assert_eq!(data(unique), [0, 0]);
    let nested = ".macro outer x\n.macro inner y\n.byte \\x + \\y\n.endm\ninner 1\n.purgem inner\n.endm\nouter 4\nouter 6";
    assert_eq!(data(nested), [5, 7]);
    let early = ".macro m a\n.if \\a\n.exitm\n.endif\n.byte \\a\n.endm\nm 1\nm 0";
    assert_eq!(data(early), [0]);
    assert_eq!(data(".rept 3\n.byte 1\n.endr"), [1, 1, 1]);
    assert_eq!(
        data(".rept 2\n.rept 2\n.byte 1\n.endr\n.byte 2\n.endr"),
        [1, 1, 2, 1, 1, 2]
    );
    assert_eq!(data(".irp x, 1, 2, 3\n.byte \\x\n.endr"), [1, 2, 3]);
    assert_eq!(data(".rept 0\n.byte 1\n.endr"), [0u8; 0]);
    same(
        ".macro half2\nnop\n.endm\n{ half2 ; fnop }",
        "{ nop ; fnop }",
    );
    same(
        ".macro two\nnop\nnop\n.endm\ntwo ; br $m0",
        "nop\nnop\nbr $m0",
    );
    assert_eq!(
        data(".macro b v\n.byte \\v\n.endm\n.if 1 ; b 1 ; .endif"),
        [1]
    );
}

#[test]
fn macro_errors_name_the_call() {
    let e = errors(".macro m\n add $m0, $m1\n.endm\nnop\nm");
    let text = e.to_string();
    assert!(
        text.starts_with("t.S:2:2: error: invalid operands; the forms are: add {dst}"),
        "{text}"
    );
    assert!(
        text.contains("\n add $m0, $m1\n ^\nt.S:5:1: note: in the expansion of `m`"),
        "{text}"
    );
    assert!(error(".macro m\nnop").starts_with("1:1: `.macro` is not closed"));
    assert!(error(".rept 2\nnop").contains("`.rept` is not closed"));
    assert!(error(".endm").contains("`.endm` without"));
    assert!(error(".macro m a:req\n.endm\nm").contains("argument `a` is missing"));
    assert!(error(".macro m\n.endm\n.macro m\n.endm").contains("already defined"));
    assert!(error(".exitm").contains("without"));
    assert_eq!(error(".error \"no way\""), "1:1: no way");
}

#[test]
fn runs_are_bounded() {
    let limit = |source: &str| {
        let e = errors(source);
        assert!(e.truncated, "{e}");
        assert!(e.diagnostics.len() <= 20);
        e.diagnostics[0].kind.to_string()
    };
    assert_eq!(
        limit(".macro m\nm\n.endm\nm"),
        "limit exceeded: depth of macros"
    );
    assert_eq!(
        limit(".macro m\nm\nm\n.endm\nm"),
        "limit exceeded: depth of macros"
    );
    assert_eq!(limit(".rept 0xffffffff\n\n.endr"), "limit exceeded: lines");
    assert_eq!(
        limit(".rept 0xffffffff\nnop\n.endr"),
        "limit exceeded: output bytes"
    );
    assert_eq!(limit(".zero 0xffffffff"), "limit exceeded: output bytes");
    assert_eq!(
        limit(".fill 0xffffffff, 8, 1"),
        "limit exceeded: output bytes"
    );
    let e = errors(&"frob\n".repeat(1000));
    assert!(
        e.truncated && e.diagnostics.len() == 20,
        "{}",
        e.diagnostics.len()
    );
    let grow = format!(".set a, x + x\n{}", ".set a, a + a\n".repeat(40));
    assert!(errors(&grow).diagnostics[0].kind == AsmErrorKind::Limit("size of an expression"));
    let mut a = Assembler::new();
    a.limits(Limits {
        errors: 3,
        ..Limits::default()
    });
    assert_eq!(
        a.assemble("t.S", &"x\n".repeat(9))
            .unwrap_err()
            .diagnostics
            .len(),
        3
    );
}

#[test]
fn errors_are_located_and_several() {
    let e = errors("nop\n  addd $m0, $m1, $m2\n.frob 1\n\tadd $m0, $q1, 2 # c\n#include <x>\n");
    let text: Vec<String> = e.to_string().lines().map(str::to_string).collect();
    assert_eq!(
        text,
        [
            "t.S:2:3: error: unknown instruction `addd`, did you mean `add`?",
            "  addd $m0, $m1, $m2",
            "  ^",
            "t.S:3:1: error: unknown directive `.frob`",
            ".frob 1",
            "^",
            "t.S:4:11: error: unknown register `$q1`",
            "\tadd $m0, $q1, 2 # c",
            "\t         ^",
            "t.S:5:1: error: `#include` is for the C preprocessor, which was not run on this text",
            "#include <x>",
            "^",
        ]
    );
    assert!(error("add $m0, $m1, $m2 $m3").contains("expected `,` or the end of the statement"));
    assert!(error("/* open").contains("`/*` is not closed"));
    assert!(error("setzi $m0, 0x100000").contains("allowed are 0 to 1048575"));
    assert!(error("ld128 $a1:4, $m0, 0").contains("aligned pair or quad"));
    assert!(error(".algin 8").contains("did you mean `.align`?"));
    assert!(error("nop\nsendpicp 0, 0, 0, 0, 1, 2").contains("multiple of 8"));
    assert_eq!(
        words("sendpicp 51, 0, 0, 0, 192, 81992"),
        [0xf660_0000, 0x0301_4048]
    );
    assert_eq!(
        words("sendpicp 51, 0, 0, 0 ; .long 0x03014048"),
        [0xf660_0000, 0x0301_4048]
    );
}
