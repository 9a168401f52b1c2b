//! Hostile text ends with a located error, soon and in little memory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::{Duration, Instant};

use ipu_isa::asm::Assembler;

/// Far above what any of these takes, far below endless.
const SOON: Duration = Duration::from_secs(20);

/// The first error, as `line: text`.
fn refused(source: &str) -> String {
    let start = Instant::now();
    let e = Assembler::new().assemble("h.s", source).unwrap_err();
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    assert!(e.diagnostics.len() <= 20);
    let d = &e.diagnostics[0];
    assert!(d.line > 0 && d.column > 0 && d.file == "h.s", "{d}");
    format!("{}: {}", d.line, d.kind)
}

#[test]
fn deep_nesting() {
    let text = ".if 1\n".repeat(2000);
    assert_eq!(
        refused(&text),
        "1025: limit exceeded: depth of conditionals"
    );
    let text = format!("{}nop\n{}", ".if 1\n".repeat(2000), ".endif\n".repeat(2000));
    assert_eq!(
        refused(&text),
        "1025: limit exceeded: depth of conditionals"
    );
    let text = format!("setzi $m0, {}1{}", "(".repeat(5000), ")".repeat(5000));
    assert_eq!(refused(&text), "1: limit exceeded: depth of an expression");
    let text = format!("setzi $m0, {}1", "-".repeat(5000));
    assert_eq!(refused(&text), "1: limit exceeded: depth of an expression");
    let text = format!("{}nop\n{}", ".rept 2\n".repeat(100), ".endr\n".repeat(100));
    assert!(refused(&text).ends_with("limit exceeded: depth of macros"));
    let text = ".pushsection .data\n".repeat(1000);
    assert_eq!(refused(&text), "65: limit exceeded: depth of sections");
    assert_eq!(
        refused(&"{ ".repeat(100)),
        "1: another bundle cannot stand in a bundle"
    );
}

#[test]
fn recursive_macros() {
    let once = ".macro m\nm\n.endm\nm\n";
    assert_eq!(refused(once), "2: limit exceeded: depth of macros");
    let twice = ".macro m\nm\nm\n.endm\nm\n";
    assert_eq!(refused(twice), "2: limit exceeded: depth of macros");
    let mutual = ".macro a\nb\n.endm\n.macro b\na\n.endm\na\n";
    assert!(refused(mutual).ends_with("limit exceeded: depth of macros"));
    let growing = ".macro m x\nm \\x\\x\n.endm\nm 12345678\n";
    assert!(refused(growing).contains("limit exceeded"));
    // Wide and not deep: 8 levels of ten calls each.
    let mut wide = ".macro m0\nnop\n.endm\n".to_string();
    for i in 1..9 {
        let call = format!("m{}\n", i - 1);
        wide += &format!(".macro m{i}\n{}.endm\n", call.repeat(10));
    }
    let found = refused(&format!("{wide}m8\n"));
    assert!(found.contains("limit exceeded"), "{found}");
    let defining = ".macro d\n.macro e\nd\n.endm\ne\n.purgem e\n.endm\nd\n";
    assert!(refused(defining).contains("already defined"));
}

#[test]
fn endless_repetition() {
    for body in ["nop", "", "\n\n", "x = 1", ".if 0\n.endif", ".byte 1"] {
        let text = format!(".rept 0xffffffff\n{body}\n.endr\n");
        let found = refused(&text);
        assert!(found.contains("limit exceeded"), "{body}: {found}");
    }
    let text = ".rept 0xffffffff ; .rept 0xffffffff ; .set a, 1 ; .endr ; .endr";
    assert!(refused(text).contains("limit exceeded"));
    assert!(refused(".rept 1 << 40\nnop\n.endr").contains("count is 1099511627776"));
    assert_eq!(refused(".rept 3\nnop\n"), "1: `.rept` is not closed");
    let labels = ".macro m\nl\\@:\n.endm\n.rept 0xffffffff\nm\n.endr\n";
    assert!(refused(labels).contains("limit exceeded"));
}

#[test]
fn huge_places() {
    for (text, what) in [
        (".align 1 << 40", "alignment is 1099511627776"),
        (".p2align 63", "alignment is 63"),
        (".align 3", "an alignment is a power of two"),
        (".org 0xffffffff", "limit exceeded: output bytes"),
        (". = . + 0x70000000", "limit exceeded: output bytes"),
        (".zero 0xffffffff", "limit exceeded: output bytes"),
        (".fill 0xffffffff, 8, 1", "limit exceeded: output bytes"),
        (".comm x, 0xffffffff", "limit exceeded: output bytes"),
        (".space 1 << 50", "size is"),
    ] {
        let found = refused(text);
        assert!(found.contains(what), "{text}: {found}");
    }
    let text = ".rept 0xffff\n.byte 1\n.align 0x10000\n.endr";
    assert!(refused(text).contains("limit exceeded: output bytes"));
}

#[test]
fn circular_constants() {
    for text in [
        ".set a, a\nsetzi $m0, a",
        ".set a, b\n.set b, a\nsetzi $m0, a",
        ".set a, b + b\n.set b, a + a\nsetzi $m0, a\n.long a, a, a",
        ".set a, b - 1\n.set b, c * 2\n.set c, a | 1\n.size a, b\n.long c",
        "a = a + 1\n.if a\n.endif",
    ] {
        let found = refused(text);
        assert!(
            found.contains("limit exceeded")
                || found.contains("not a constant")
                || found.contains("neither a number"),
            "{text}: {found}"
        );
    }
    let grow = format!(".set a, x + x\n{}", ".set a, a + a\n".repeat(60));
    assert!(refused(&grow).contains("size of an expression"));
}

#[test]
fn long_text() {
    let line = format!("setzi $m0, {}1", "1 + ".repeat(10_000));
    assert_eq!(refused(&line), "1: limit exceeded: length of a line");
    let names: Vec<String> = (0..2000).map(|i| format!("p{i}")).collect();
    let many = format!(".macro m {}\n.endm\n", names.join(","));
    assert_eq!(refused(&many), "1: limit exceeded: parameters of a macro");
    let uses = "\\p1\\p400".repeat(1000);
    let head = format!(".macro m {}\n", names[..500].join(","));
    let costly = format!(
        "{head}{}.endm\n.rept 100000\nm\n.endr",
        format!(".ifb {uses}\n.endif\n").repeat(300)
    );
    assert!(refused(&costly).contains("limit exceeded"));
    let empty = "\n".repeat(5_000_000);
    assert_eq!(refused(&empty), "4194305: limit exceeded: lines");
    let doubling = ".macro m n\n.if \\n\nm \\n-1\nm \\n-1\n.endif\n.endm\nm 60\n";
    assert!(refused(doubling).contains("limit exceeded"));
    let sections: String = (0..5000)
        .map(|i| format!(".section .s{i},\"a\"\n"))
        .collect();
    assert_eq!(refused(&sections), "4096: limit exceeded: sections");
    assert!(refused(&"frob\n".repeat(1_000_000)).contains("unknown instruction"));
    assert!(refused(".ascii \"unclosed").contains("expected"));
    assert!(refused("/* open").contains("`/*` is not closed"));
}

#[test]
fn including_itself() {
    let folder = std::env::temp_dir().join(format!("ipu-hostile-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("self.s");
    std::fs::write(&file, ".include \"self.s\"\n.include \"self.s\"\n").unwrap();
    let start = Instant::now();
    let mut a = Assembler::new();
    let e = a
        .include_path(&folder)
        .assemble("h.s", ".include \"self.s\"\n")
        .unwrap_err();
    assert!(start.elapsed() < SOON);
    assert!(
        e.to_string().contains("self.s:1:1: error: limit exceeded"),
        "{e}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
}
