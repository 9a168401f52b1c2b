//! The language as users' sources write it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::{Duration, Instant};

use ipu_isa::asm::{AsmErrorKind, Assembled, Assembler, Entry, Severity};
use ipu_isa::disasm::{Item, items};
use ipu_isa::object::{
    Binding, RelocKind, RelocTarget, Relocation, SectionFlags, SymbolPlace, Visibility,
};
use ipu_isa::{Arch, Mode};
use serde_json::Value;

fn run(source: &str) -> Assembled {
    let done = Assembler::new().run("l.s", source);
    done.unwrap_or_else(|e| panic!("{e}\n{source}"))
}

fn words(source: &str) -> Vec<u32> {
    let data = run(source).object.sections[0].data.clone();
    let word = |w: &[u8]| u32::from_le_bytes(w.try_into().unwrap());
    data.chunks_exact(4).map(word).collect()
}

fn data(source: &str) -> Vec<u8> {
    let object = run(&format!(".data\n{source}")).object;
    object.section(".data").unwrap().data.clone()
}

fn error(a: &Assembler, source: &str) -> String {
    let e = a.assemble("l.s", source).unwrap_err();
    e.diagnostics[0].kind.to_string()
}

/// A kernel in the way of public ones: register names by preprocessor macros, a macro for each
/// type, vertex state, bundles, `rpt`, local labels, sizes.
const KERNEL: &str = r#"# 1 "kernel.S"
# 40 "kernel.S"
.macro FUNCTION_IS_WORKER name
  .type \name, @function
.endm
.macro STACK_USE amount, symbol:req
  .pushsection ".stack_sizes", "", @progbits
  .long \symbol
  .uleb128 \amount
  .popsection
.endm
.macro INSTANTIATE type, load=ld64step, out:vararg
.section .text.__run_Scale___\type, "ax"
.allow_optimizations
.align 8
.globl __run_Scale___\type
FUNCTION_IS_WORKER __run_Scale___\type
STACK_USE 0, __run_Scale___\type
__run_Scale___\type:
  ld32 $m2, $mvertex_base, $mzero, 0
  ld32 $m3, $mvertex_base, $mzero, 1
  ldz16 $m4, $mvertex_base, $mzero, 2
.ifc "\type","half"
  .set SHIFT, 2
  setzi $a6, -1.0h
.else
  .set SHIFT, 1
  ldconst $a6, 1.0f
.endif
  shr $m4, $m4, SHIFT
  brz $m4, .Lend\@
  \load $a0: 1, $mzero, $m2 +=, 1
  { rpt $m4, ((.Lstop\@ - .Lstart\@) / 8) - 1
    fnop }
.Lstart\@:
  {
    \load $a0:1, $mzero, $m2+=, 1
.ifc "\type","half"
    f16v4mul $a2:3, $a6:B, $a0: 1
.else
    f32v2mul $a2:3, $a6:BL, $a0:1
.endif
  }
  { st64step $a2 : 3, $mzero, $m3+=, 1; mov $a0:1, $azeros }
.Lstop\@:
  .irp reg, \out
  mov $a\reg, $azero
  .endr
.Lend\@:
  exitz $mzero
.size __run_Scale___\type, . - __run_Scale___\type
.endm
INSTANTIATE half, out=0
INSTANTIATE float, ld64step, 0, 1
"#;

#[test]
fn kernels_assemble() {
    let object = run(KERNEL).object;
    let half = object.section(".text.__run_Scale___half").unwrap();
    let float = object.section(".text.__run_Scale___float").unwrap();
    assert_eq!((half.align, float.align), (8, 8));
    for section in [half, float] {
        let word = |w: &[u8]| u32::from_le_bytes(w.try_into().unwrap());
        let words: Vec<u32> = section.data.chunks_exact(4).map(word).collect();
        assert!(items(&words).all(|(_, i)| matches!(i, Item::Instruction(_))));
    }
    let symbol = object.symbol("__run_Scale___half").unwrap();
    assert_eq!(
        (symbol.size, symbol.binding),
        (half.data.len() as u32, Binding::Global)
    );
    let stack = object.section(".stack_sizes").unwrap();
    assert_eq!((stack.data.len(), stack.relocations.len()), (10, 2));
    let e = Assembler::new()
        .assemble("k.s", &KERNEL.replace("fnop }", "fnopp }"))
        .unwrap_err();
    assert!(e.to_string().starts_with("kernel.S:7"), "{e}");
}

#[test]
fn conditionals_of_gnu() {
    for (test, wanted) in [
        (".ifeq 0", true),
        (".ifne 0", false),
        (".ifgt 1", true),
        (".ifge 0", true),
        (".iflt 0", false),
        (".ifle 0", true),
        (".ifnotdef x", true),
        (".ifeqs \"a\", \"a\"", true),
        (".ifnes \"a\", \"a\"", false),
        (".ifc 'a', a", true),
        (".IF 1", true),
    ] {
        let text = format!("{test}\n.byte 1\n.else\n.byte 2\n.endif");
        assert_eq!(data(&text), [if wanted { 1 } else { 2 }], "{test}");
    }
}

#[test]
fn repetition() {
    assert_eq!(data(".rept 2 ; .byte 1 ; .endr ; .byte 2"), [1, 1, 2]);
    assert_eq!(data(".irpc c, 123\n.byte \\c\n.endr"), [1, 2, 3]);
    assert_eq!(data(".irp v, 1 2, \"3\"\n.byte \\v\n.endr"), [1, 2, 3]);
    assert_eq!(data(".irp v\n.ifb \\v\n.byte 9\n.endif\n.endr"), [9]);
    assert_eq!(data(".macro m a ; .byte \\a ; .endm ; m 1 ; m 2"), [1, 2]);
    assert_eq!(data(".macro m\n.byte 1\n.endmacro\nm\n.end\nfrob"), [1]);
    assert_eq!(
        data(".altmacro\n.macro m a, b\nLOCAL x\nx: .byte a, b, x - x\n.endm\nm %1+2, <4>\nm 5, 6"),
        [3, 4, 0, 5, 6, 0]
    );
    let none = Assembler::new();
    assert!(error(&none, ".purgem m").contains("is not defined"));
    assert!(error(&none, ".macro m a:vararg, b\n.endm").contains("behind the `vararg`"));
}

#[test]
fn data_and_places() {
    assert_eq!(
        data(".uleb128 0, 127, 128, 624485"),
        [0, 127, 0x80, 1, 0xe5, 0x8e, 0x26]
    );
    assert_eq!(
        data(".sleb128 -2, 64, -123456"),
        [0x7e, 0xc0, 0, 0xc0, 0xbb, 0x78]
    );
    assert_eq!(data(".double 1.0").len(), 8);
    assert_eq!(data(".octa 0x100000000000000000").len(), 16);
    assert_eq!(data(".byte 1\n.org 4, 7\n.byte 2"), [1, 7, 7, 7, 2]);
    assert_eq!(data("a: .byte 1\n. = a + 3\n.byte 2"), [1, 0, 0, 2]);
    assert_eq!(
        data(".balignw 4\n.short 1\n.balignw 8, 0x1234"),
        [1, 0, 0x34, 0x12, 0x34, 0x12, 0x34, 0x12]
    );
    assert_eq!(
        data(".half 1.0h, -0.5, 3h, inf"),
        [0, 0x3c, 0, 0xb8, 0, 0x42, 0, 0x7c]
    );
    assert_eq!(data(".ascii \"a\" \"b\", \"\\101\\0\""), b"abA\0");
    assert_eq!(data(".byte ';', '\"', '#', '{' # c"), b";\"#{");
}

#[test]
fn symbols() {
    let object = run(
        ".weak w\n.hidden h\n.globl h\nh: nop\n.comm c, 12, 8\n.lcomm l, 4\n.type c, @object\n\
         call $m10, w\nsetzi $m0, c\n\"odd name\": bri \"odd name\"\n.equiv e, 3\n.extern q",
    )
    .object;
    let get = |name: &str| object.symbol(name).unwrap();
    assert_eq!(
        (get("w").place, get("w").binding),
        (SymbolPlace::Undefined, Binding::Weak)
    );
    assert_eq!(get("h").visibility, Visibility::Hidden);
    assert_eq!((get("c").size, get("c").binding), (12, Binding::Weak));
    assert_eq!(get("l").binding, Binding::Local);
    assert!(object.symbol("odd name").is_some() && object.symbol("q").is_none());
    let bss = object.section(".bss.c").unwrap();
    assert!(bss.flags.nobits && bss.align == 8);
    let none = Assembler::new();
    assert!(error(&none, ".equ e, 1\n.equiv e, 2").contains("already defined"));
    assert!(error(&none, ".type x, @frob").contains("`function`"));
    assert!(error(&none, ".bss\n.byte 1").contains("@nobits"));
    let flags = run(".section .m,\"aMSR\",@progbits,1\n.section .n,\"0x6\"").object;
    let m = flags.section(".m").unwrap().flags;
    assert_eq!((m.extra, m.entry_bytes), (0x30 | SectionFlags::RETAIN, 1));
    assert!(flags.section(".n").unwrap().flags.exec);
    assert!(error(&none, ".section .m,\"aq\"").contains("section flags"));
    let chain = "foo: .set x, foo\n.rept 1000\n.set x, x + 4\n.set x, x - 1\n.endr\n";
    assert_eq!(words(&format!("{chain}.long x - foo")), [3000]);
    assert_eq!(
        words(&format!("{chain}.long foo - x")),
        [3000u32.wrapping_neg()]
    );
    assert_eq!(
        words("x = q - 2\nx = x - 3\nx = 1 + x\nq = 10\n.long x"),
        [6]
    );
}

#[test]
fn modifiers() {
    let object = run(
        ".long x@abs18@s2, %abs19@s2(x), %abs@21(x+4)\nsetzi $m0, x@abs18@s2\nbri %abs19@s2(x)\n\
         run $m0, $m1, %run(x)\n.long %abs18@s2(16)",
    )
    .object;
    let text = &object.sections[0];
    let kinds: Vec<RelocKind> = text.relocations.iter().map(|r| r.kind).collect();
    use RelocKind::{Abs18S2, Abs19S2, Abs21, Run};
    assert_eq!(kinds, [Abs18S2, Abs19S2, Abs21, Abs18S2, Abs19S2, Run]);
    assert_eq!(text.data[24..], [4, 0, 0, 0]);
    let none = Assembler::new();
    assert!(error(&none, "add $m0, $m0, %abs@21(x)").contains("invalid operands"));
    assert!(error(&none, ".long %frob(x)").contains("an address modifier"));
    assert!(error(&none, ".long %abs18@s2(6)").contains("not a multiple"));
}

#[test]
fn architectures_and_modes() {
    let mut old = Assembler::new();
    old.arch(Arch::Ipu1);
    assert_eq!(
        error(&old, "f8v8hihov4amp $a0:1, $a2:3, $a4:5, 0"),
        "instruction requires: IPU21 architecture"
    );
    assert!(error(&old, "put $FP_ISCL, $m0").contains("IPU21"));
    assert!(old.assemble("l.s", "add $m0, $m1, $m2").is_ok());
    let mut worker = Assembler::new();
    worker.mode(Mode::Worker);
    assert_eq!(
        error(&worker, "sync 1"),
        "instruction requires: Supervisor mode"
    );
    assert!(
        worker
            .assemble("l.s", ".supervisor\nsync SYNCZONE_LOCAL")
            .is_ok()
    );
}

#[test]
fn rules_can_be_switched() {
    let clash = "{ ld64 $a0:1, $m0, 0 ; f32add $a1, $a2, $a3 }";
    let none = Assembler::new();
    assert!(error(&none, clash).contains("both instructions of the bundle write `$a1`"));
    let warned = run(&format!(".warn_on_invalid_bundles\n{clash}"));
    assert_eq!(warned.warnings.len(), 1);
    assert_eq!(warned.warnings[0].severity, Severity::Warning);
    let back = format!(".allow_invalid_bundles\n.error_on_invalid_bundles\n{clash}");
    assert!(error(&none, &back).contains("both instructions"));
    let twice = "ld2x64pace $a0:1, $a0:1, $m0:1+=, $mzero, 0";
    let strict = format!(".error_on_invalid_operands\n{twice}");
    assert_eq!(
        error(&none, &strict),
        "both results of `ld2x64pace` go to `$a0`"
    );
    assert_eq!(run(twice).warnings.len(), 1);
    assert_eq!(words(&format!(".allow_invalid_operands\n{twice}")).len(), 1);
    for (text, count) in [("{ }", 0), ("{ nop ; fnop ; nop ; fnop }", 4)] {
        let wanted = format!("a bundle holds exactly two instructions, this one has {count}");
        assert_eq!(error(&none, text), wanted);
    }
}

#[test]
fn messages_of_the_source() {
    let out = run(".warning \"look\"\n.print \"here\"\n.long 1 << 2 + 1\n.rept 3\n.warning\n.endr");
    let kinds: Vec<(Severity, String)> = out
        .warnings
        .iter()
        .map(|w| (w.severity, w.kind.to_string()))
        .collect();
    assert_eq!(kinds[0], (Severity::Warning, "look".to_string()));
    assert_eq!(kinds[1], (Severity::Note, "here".to_string()));
    assert!(
        kinds[2].1.contains("C and GNU assemblers disagree"),
        "{}",
        kinds[2].1
    );
    assert_eq!(kinds.len(), 4);
    let mut gnu = Assembler::new();
    gnu.gnu_expressions(true);
    let object = gnu.assemble("l.s", ".long 1 << 2 + 1, 1 == 1").unwrap();
    assert_eq!(object.sections[0].data, [5, 0, 0, 0, 255, 255, 255, 255]);
}

#[test]
fn listings_assemble_to_the_same() {
    let mut a = Assembler::new();
    a.listing(true);
    for source in [
        KERNEL,
        "x: bri x\n1: call $m10, 1b\nbri 4\n{ setzi $m0, %abs18@s2(x) ; fnop }\nbri y+8",
        "bri .\nbri .+8\nsetzi $m0, .data\n.long .text, .rodata + 4\n.section .rodata\n.zero 8",
        "\"a \\\"b\\\\\": bri \"a \\\"b\\\\\"\n.data\n.long \"c d\"\n.text\nbri \"c d\"+4",
    ] {
        let first = a.run("l.s", source).unwrap();
        let mut text = String::new();
        for entry in &first.listing {
            text += &match entry {
                Entry::Label(name) => format!("{name}:\n"),
                Entry::Directive { name, arguments } => format!("{name} {arguments}\n"),
                Entry::Code { parts, .. } if parts.len() > 1 => {
                    format!("{{ {} }}\n", parts.join(";"))
                }
                Entry::Code { parts, .. } => format!("{}\n", parts[0]),
            };
        }
        let second = a.run("l.s", &text).unwrap_or_else(|e| panic!("{e}"));
        let contents = |a: &Assembled| -> Vec<_> {
            let sections = a.object.sections.iter();
            let target = |r: &Relocation| match r.target {
                RelocTarget::Section(s) => a.object.sections[s].name.clone(),
                RelocTarget::Symbol(s) => format!("symbol {}", a.object.symbols[s].name),
            };
            let relocation = |r: &Relocation| (target(r), r.offset, r.kind, r.addend);
            sections
                .map(|s| {
                    let relocations: Vec<_> = s.relocations.iter().map(relocation).collect();
                    (s.name.clone(), s.data.clone(), relocations)
                })
                .collect()
        };
        assert_eq!(contents(&first), contents(&second), "{text}");
    }
}

#[test]
fn every_vector_disassembles_and_reads_back() {
    let (mut same, mut zero_high, mut illegal) = (0, 0, 0);
    for line in include_str!("data/isa_vectors.jsonl").lines() {
        let v: Value = serde_json::from_str(line).unwrap();
        let hex = v["bytes"].as_str().unwrap();
        let byte = |i: usize| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..hex.len() / 2).map(byte).collect();
        let word = |w: &[u8]| u32::from_le_bytes(w.try_into().unwrap());
        let words: Vec<u32> = bytes.chunks_exact(4).map(word).collect();
        let all: Vec<_> = items(&words).collect();
        assert_eq!(all.len(), 1, "{hex}");
        let item = &all[0].1;
        let text = item.to_string();
        if let Item::BadBundle(..) = item {
            illegal += 1;
            assert_eq!(text, v["asm"].as_str().unwrap());
            continue;
        }
        let mut a = Assembler::new();
        a.byte_targets(true);
        let source = format!(".allow_invalid_repeat\n{text}");
        let object = a.assemble("v.s", &source).unwrap_or_else(|e| panic!("{e}"));
        if object.sections[0].data == bytes {
            same += 1;
        } else {
            // An `or` with a high immediate of 0 has the same text as one with a low one.
            assert!(text.ends_with(", 0"), "{text}");
            zero_high += 1;
        }
    }
    assert_eq!((same, zero_high, illegal), (1153, 36, 3));
}

#[test]
fn twenty_thousand_lines_are_quick() {
    let mut source = String::from(
        ".macro step from, to, n=1, rest:vararg\n.if \\n > 0\n{ ld64step $a\\from, $mzero, $m0+=, \\n\n\
         f32v2add $a\\to, $a\\to, $a\\from }\n.else\n nop\n.endif\n.ifnb \\rest\n.long \\rest\n.endif\n.endm\n",
    );
    for i in 0..20_000 {
        source += &match i % 5 {
            0 => format!("l{i}: add $m1, $m2, {}\n", i % 30_000),
            1 => "  step 0:1, 2:3, 1\n".to_string(),
            2 => format!("  brz $m1, l{} // back\n", i - 2),
            3 => "  step 4:5, 6:7, 0, 1, 2\n".to_string(),
            _ => format!("  setzi $m3, ({i} << 2 | 1) & 0xffff\n"),
        };
    }
    let start = Instant::now();
    let object = Assembler::new().assemble("big.s", &source).unwrap();
    let took = start.elapsed();
    assert!(object.sections[0].data.len() > 100_000);
    eprintln!("20,000 lines: {took:?}");
    // Tests are not optimised as the tools are, and share the machine.
    assert!(took < Duration::from_secs(4), "{took:?}");
    let truncated = Assembler::new().assemble("big.s", &source[..source.len() - 9]);
    assert!(
        truncated.is_ok()
            || matches!(
                truncated.unwrap_err().diagnostics[0].kind,
                AsmErrorKind::Expected { .. }
            )
    );
}
