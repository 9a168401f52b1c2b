//! The speed of the simulator on programs of four kinds.

use std::time::Instant;

use anyhow::{Result, bail};
use ipu_simulator::{Chip, SimError, Stop};
use ipu_target::Target;
use ipu_target::geometry::{Physical, direction, time_to_mux};
use serde::Serialize;

use crate::Format;
use crate::programs::{ELEMENTWISE, GEMM, RECORD, bytes, link, main_section, random_halves, start};

/// One measurement.
#[derive(Clone, Debug, Serialize)]
struct Row {
    program: &'static str,
    tiles: u32,
    threads: usize,
    cycles: u64,
    tile_instructions: u64,
    exchange_items: u64,
    seconds: f64,
    /// Processor time of all threads; less than wall time times threads on a shared machine.
    cpu_seconds: f64,
    tile_instructions_per_second: f64,
    tile_cycles_per_second: f64,
}

/// A program that repeats something forever, loaded and started.
struct Program {
    name: &'static str,
    tiles: u32,
    chip: Chip,
}

/// Makes a program.
type Maker = fn() -> Result<Program>;

/// Runs all measurements and prints them.
pub fn run(format: Format, threads: &[usize], only: Option<&str>, seconds: f64) -> Result<()> {
    let makers: [(&str, Maker); 4] = [
        ("gemm", gemm),
        ("elementwise", elementwise),
        ("exchange", exchange),
        ("idle", idle),
    ];
    let mut rows = Vec::new();
    for (name, make) in makers {
        if only.is_some_and(|o| o != name) {
            continue;
        }
        for &count in threads {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(count).build()?;
            let program = make()?;
            rows.push(pool.install(|| measure(program, count, seconds))?);
        }
    }
    if format == Format::Json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(());
    }
    println!(
        "{:<12} {:>5} {:>7} {:>12} {:>14} {:>8} {:>8} {:>14} {:>14}",
        "program",
        "tiles",
        "threads",
        "cycles",
        "instructions",
        "seconds",
        "cpu",
        "M instr/s",
        "M cycles/s"
    );
    for r in &rows {
        println!(
            "{:<12} {:>5} {:>7} {:>12} {:>14} {:>8.2} {:>8.2} {:>14.1} {:>14.1}",
            r.program,
            r.tiles,
            r.threads,
            r.cycles,
            r.tile_instructions,
            r.seconds,
            r.cpu_seconds,
            r.tile_instructions_per_second / 1e6,
            r.tile_cycles_per_second / 1e6
        );
    }
    Ok(())
}

/// Instructions and exchange items so far; a bundle counts as one.
fn counted(chip: &Chip, tiles: u32) -> Result<(u64, u64)> {
    let (mut instructions, mut items) = (0, 0);
    for tile in 0..tiles {
        let c = chip.counters(tile)?;
        instructions += c.supervisor + c.worker_main + c.aux - c.bundles;
        items += c.sent;
    }
    Ok((instructions, items))
}

/// Processor time of this process so far, 0 where it is unknown.
fn cpu_seconds() -> f64 {
    /// Units of the kernel's text files.
    const TICKS: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 14 and 15, counted after the name in parentheses.
    let fields = text.rsplit(')').next().unwrap_or("").split_whitespace();
    let ticks: f64 = fields
        .skip(11)
        .take(2)
        .filter_map(|f| f.parse::<f64>().ok())
        .sum();
    ticks / TICKS
}

fn measure(mut program: Program, threads: usize, seconds: f64) -> Result<Row> {
    let chip = &mut program.chip;
    let advance = |chip: &mut Chip, cycles| match chip.run(cycles) {
        Err(SimError::MaxCycles { .. }) | Ok(Stop::HostSync { .. } | Stop::InternalSync { .. }) => {
            Ok(())
        }
        Ok(Stop::Halted { .. }) => bail!("{} ended", program.name),
        Err(e) => Err(e.into()),
    };
    // Decoding and touching memory do not count.
    let mut step = 20_000;
    advance(chip, step)?;
    let (first, first_items) = counted(chip, program.tiles)?;
    let (from, begin, cpu) = (chip.cycle(), Instant::now(), cpu_seconds());
    while begin.elapsed().as_secs_f64() < seconds {
        let before = begin.elapsed();
        advance(chip, step)?;
        if (begin.elapsed() - before).as_secs_f64() < seconds / 8.0 {
            step *= 2;
        }
    }
    let elapsed = begin.elapsed().as_secs_f64();
    let (last, last_items) = counted(chip, program.tiles)?;
    let cycles = chip.cycle() - from;
    Ok(Row {
        program: program.name,
        tiles: program.tiles,
        threads,
        cycles,
        tile_instructions: last - first,
        exchange_items: last_items - first_items,
        seconds: elapsed,
        cpu_seconds: cpu_seconds() - cpu,
        tile_instructions_per_second: (last - first) as f64 / elapsed,
        tile_cycles_per_second: (cycles * u64::from(program.tiles)) as f64 / elapsed,
    })
}

/// Calls a kernel forever.
const CALLS: &str = "again: setzi $m0, RECORD\n call $m10, kernel_entry\n bri again";

fn kernel(
    name: &'static str,
    source: &str,
    defines: &[(&str, i64)],
    record: &[u32],
    data: &[(u32, usize)],
) -> Result<Program> {
    const TILES: u32 = 64;
    let main = main_section(&CALLS.replace("RECORD", &RECORD.to_string()));
    let image = link(&[("main.S", &main, &[]), ("kernel.S", source, defines)])?;
    let mut chip = Chip::new(Target::ipu21());
    for tile in 0..TILES {
        chip.load(tile, RECORD, &bytes(record))?;
        for &(address, halves) in data {
            chip.load(tile, address, &random_halves(halves, tile ^ address))?;
        }
    }
    start(&mut chip, &image, 0..TILES)?;
    Ok(Program {
        name,
        tiles: TILES,
        chip,
    })
}

/// 150 x 128 times 128 x 64 on every tile.
fn gemm() -> Result<Program> {
    let (m, k, n) = (150, 128, 64);
    let (a, weights, out) = (0x60000, 0x80000, 0x90000);
    let record = [
        a,
        weights,
        out,
        m / 6,
        m % 6,
        k / 16,
        n / 16,
        m * 32,
        m * 32,
    ];
    kernel(
        "gemm",
        GEMM,
        &[("PARTIALS_F32", 0), ("BIAS", 0), ("RELU", 0)],
        &record,
        &[(a, (m * k) as usize), (weights, (k * n) as usize)],
    )
}

/// Sums of 8192 f16 on every tile.
fn elementwise() -> Result<Program> {
    let (a, b, out, count) = (0x60000, 0x80000, 0x90000, 8192);
    let atoms = count / 4;
    kernel(
        "elementwise",
        ELEMENTWISE,
        &[("OP", 0)],
        &[a, b, out, atoms / 6, atoms % 6],
        &[(a, count as usize), (b, count as usize)],
    )
}

/// 32 tiles send 4096 words to 32 others in every phase.
fn exchange() -> Result<Program> {
    const TILES: u32 = 64;
    const WORDS: i64 = 4096;
    /// First event of the senders: the least time to the mux is above −120.
    const SEND: i64 = 120;
    let target = Target::ipu21();
    let mut chip = Chip::new(target);
    for tile in 0..TILES / 2 {
        let (source, receiver) = (
            Physical::of_logical(tile),
            Physical::of_logical(tile + TILES / 2),
        );
        let sender = format!(
            "delay {}\n send 63, {}, {}\n sendoff {}, 0, {}\n",
            SEND - 1,
            0x60000 / 4,
            direction(source, receiver),
            WORDS - 65,
            direction(source, receiver)
        );
        let mux = SEND + i64::from(time_to_mux(source, receiver)) + 1;
        let to_write = 52 + 2 * receiver.row() as i64;
        let listener = format!(
            "delayxpic {}, 0, {}\n delaypic {}, 0, {}\n delayxpic {}, 0, 0x640\n delay {}\n",
            mux - 1,
            source.0,
            to_write - 1,
            0x60000 / 4,
            WORDS - to_write - 1,
            to_write + 4
        );
        for (number, row) in [(tile, sender), (tile + TILES / 2, listener)] {
            let main = main_section(&format!(
                "again: sync 3\n call $m10, row\n bri again\n .p2align 3\n row: {row}\n br $m10"
            ));
            let image = link(&[("main.S", &main, &[])])?;
            chip.load(number, 0x60000, &random_halves(2 * WORDS as usize, number))?;
            start(&mut chip, &image, std::iter::once(number))?;
        }
    }
    Ok(Program {
        name: "exchange",
        tiles: TILES,
        chip,
    })
}

/// One tile counts, all others wait for it.
fn idle() -> Result<Program> {
    let target = Target::ipu21();
    let mut chip = Chip::new(target);
    let waiting = link(&[("main.S", &main_section("again: sync 3\n bri again"), &[])])?;
    let busy =
        main_section("again: setzi $m0, 10000\n count: brnzdec $m0, count\n sync 3\n bri again");
    let busy = link(&[("main.S", &busy, &[])])?;
    start(&mut chip, &waiting, 1..target.tiles)?;
    start(&mut chip, &busy, std::iter::once(0))?;
    Ok(Program {
        name: "idle",
        tiles: target.tiles,
        chip,
    })
}
