//! Measures the simulator: all tiles run blocks of AMP instructions.
//! `cargo run --release -p ipu-simulator --example speed -- [tiles] [repeats]`

use std::time::Instant;

use ipu_isa::asm::Assembler;
use ipu_isa::link::{LinkOptions, Linker};
use ipu_simulator::Chip;
use ipu_target::Target;

const PROGRAM: &str = "
 .section .text.main,\"ax\"
 .globl main
main:
 setzi $m0, work
 setzi $m1, 0x5c000
 runall $m0, $m1, 1
 sync 2
 trap 0
 .worker
work:
 setzi $m0, 0x80000
 setzi $m1, 0x88008
 setzi $m3, 0x90000
 setzi $m2, REPEATS
outer:
 tapack $m4:5, $m0, $m1, $m3
 nop
 .align 8
 { rpt 250, 3 ; fnop }
 { ld2xst64pace $a0:3, $a4:5, $m4:5+=, $mzero, 0 ; OP $a4:5, $a0:1, $a2:3 FLAG0 }
 { ld2xst64pace $a0:3, $a6:7, $m4:5+=, $mzero, 0 ; OP $a6:7, $a0:1, $a2:3 FLAG1 }
 { ld2xst64pace $a0:3, $a4:5, $m4:5+=, $mzero, 0 ; OP $a4:5, $a0:1, $a2:3 FLAG2 }
 { ld2xst64pace $a0:3, $a6:7, $m4:5+=, $mzero, 0 ; OP $a6:7, $a0:1, $a2:3 FLAG3 }
 brnzdec $m2, outer
 exitz $mzero
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let tiles: u32 = args.next().map_or(Ok(64), |a| a.parse())?;
    let repeats: u32 = args.next().map_or(Ok(20), |a| a.parse())?;
    let amp = |text: &str| {
        (0..4).fold(text.replace("OP", "f16v4hihov4amp"), |t, i| {
            t.replace(&format!("FLAG{i}"), &format!(", {i}"))
        })
    };
    let add = |text: &str| {
        (0..4).fold(text.replace("OP", "f16v4add"), |t, i| {
            t.replace(&format!(" FLAG{i}"), "")
        })
    };
    let nop = |text: &str| {
        let lines = text.lines().map(|l| match l.find("OP") {
            Some(at) => format!("{} fnop }}\n", &l[..at]),
            None => format!("{l}\n"),
        });
        lines.collect::<String>()
    };
    for (name, source) in [
        ("amp", amp(PROGRAM)),
        ("add", add(PROGRAM)),
        ("nop", nop(PROGRAM)),
    ] {
        let source = source.replace("REPEATS", &repeats.to_string());
        let object = Assembler::new().assemble("speed.S", &source)?;
        let options = LinkOptions {
            base: 0x4c010,
            limit: 0x50000,
            relative_base: 0x4c000,
        };
        let image = Linker::new()
            .add(object)
            .link(&["main"], options)
            .map_err(|e| format!("{e:?}"))?;
        let mut chip = Chip::new(Target::ipu21());
        // f16 values around one with full mantissas.
        let data: Vec<u8> = (0..0x18000u32)
            .flat_map(|i| (0x3800 + i.wrapping_mul(2_654_435_761) as u16 % 0x800).to_le_bytes())
            .collect();
        chip.load_shared(0..tiles, 0x80000, &data)?;
        for tile in 0..tiles {
            chip.load(tile, image.base, &image.bytes)?;
            chip.start(tile, image.base)?;
        }
        let begin = Instant::now();
        chip.run(u64::MAX)?;
        let seconds = begin.elapsed().as_secs_f64();
        let mut issues = 0;
        for tile in 0..tiles {
            let c = chip.counters(tile)?;
            issues += c.supervisor + c.worker_main + c.aux - c.bundles;
        }
        println!(
            "{name}: {} clocks, {issues} issues in {seconds:.3} s: {:.1} M/s",
            chip.cycle(),
            issues as f64 / seconds / 1e6
        );
    }
    Ok(())
}
