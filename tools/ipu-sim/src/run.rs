//! Running a program and printing what came out.

use std::fs;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, anyhow, bail};
use ipu_simulator::{Chip, Context, IssueEvent, Observer, Reason, SimError, Stop, registers_text};
use ipu_target::Target;

use crate::cli::Cli;
use crate::data::Contents;
use crate::program::{Program, build};

/// Clocks at which the program was called and ended, on the first tile.
#[derive(Clone, Copy, Debug, Default)]
struct Clocks {
    call: Option<u64>,
    end: Option<u64>,
}

/// Prints issues and notes the clocks of the call.
struct Watcher {
    trace: bool,
    /// Addresses of the call and of its end.
    places: [u32; 2],
    clocks: Arc<Mutex<Clocks>>,
}

impl Observer for Watcher {
    fn issue(&mut self, event: &IssueEvent<'_>) -> ControlFlow<()> {
        if self.trace {
            let context = match event.context {
                Context::Supervisor => "s".to_string(),
                Context::Worker(n) => format!("w{n}"),
            };
            println!(
                "{:>8} {}:{context} {:#07x}  {}",
                event.cycle,
                event.tile,
                event.pc,
                event.text()
            );
        }
        if event.context == Context::Supervisor {
            let mut clocks = self.clocks.lock().unwrap_or_else(PoisonError::into_inner);
            if event.pc == self.places[0] {
                clocks.call.get_or_insert(event.cycle);
            }
            if event.pc == self.places[1] {
                clocks.end.get_or_insert(event.cycle);
            }
        }
        ControlFlow::Continue(())
    }
}

/// Does what the command line asks for.
pub fn run(cli: &Cli) -> Result<()> {
    let program = build(cli)?;
    let mut chip = Chip::new(Target::ipu21());
    chip.poison_launch(cli.poison);
    load(cli, &program, &mut chip)?;
    let clocks = Arc::default();
    if cli.trace || cli.cycles && cli.supervisor {
        let watcher = Watcher {
            trace: cli.trace,
            places: [program.call, program.end],
            clocks: Arc::clone(&clocks),
        };
        let tiles = if cli.trace {
            &cli.tiles.0[..]
        } else {
            &cli.tiles.0[..1]
        };
        chip.observe(tiles.iter().copied(), watcher)?;
    }
    let result = go(cli, &program, &mut chip);
    let clocks = *clocks.lock().unwrap_or_else(PoisonError::into_inner);
    if result.is_ok() {
        print(cli, &chip, clocks)?;
    }
    result
}

fn load(cli: &Cli, program: &Program, chip: &mut Chip) -> Result<()> {
    for &tile in &cli.tiles.0 {
        for (address, bytes) in &program.segments {
            chip.load(tile, *address, bytes)?;
        }
        for load in &cli.load {
            match &load.contents {
                Contents::Bytes(bytes) => chip.load(tile, load.address, bytes)?,
                Contents::File(path) => {
                    let bytes = fs::read(path)
                        .with_context(|| format!("cannot read {}", path.display()))?;
                    chip.load(tile, load.address, &bytes)?;
                }
            }
        }
        for context in contexts(cli) {
            let registers = chip.registers_mut(tile, context)?;
            for setting in &cli.set {
                let file = if setting.in_a {
                    &mut registers.a
                } else {
                    &mut registers.m
                };
                let first = usize::from(setting.first);
                file[first..first + setting.words.len()].copy_from_slice(&setting.words);
            }
        }
        chip.start(tile, program.start)?;
        for place in &cli.breaks {
            let (on, place) = match place.split_once(':') {
                Some((on, place)) => (on.parse()?, place),
                None => (tile, place.as_str()),
            };
            if on == tile {
                let pc = match program.symbols.address(place) {
                    Some(pc) => pc,
                    None => crate::data::address(place)?,
                };
                chip.break_at(tile, pc)?;
            }
        }
        for watch in &cli.watch {
            chip.watch(tile, watch.address, watch.len)?;
        }
    }
    Ok(())
}

/// The contexts that run the program.
fn contexts(cli: &Cli) -> Vec<Context> {
    if cli.supervisor {
        vec![Context::Supervisor]
    } else {
        (0..cli.workers).map(Context::Worker).collect()
    }
}

fn go(cli: &Cli, program: &Program, chip: &mut Chip) -> Result<()> {
    loop {
        match chip.run(cli.max_cycles.saturating_sub(chip.cycle())) {
            Ok(Stop::Halted { .. }) => return Ok(()),
            // The host has nothing to say.
            Ok(Stop::HostSync { .. } | Stop::InternalSync { .. }) => {}
            Err(SimError::MaxCycles { .. }) => bail!(
                "the program did not end within {0} cycles, the limit; --max-cycles={1} gives it more",
                cli.max_cycles,
                cli.max_cycles.saturating_mul(10)
            ),
            Err(error) => {
                let text = chip.report(&error, &program.symbols, |_, _| None);
                let stop = matches!(
                    &error,
                    SimError::Fault(f) if matches!(f.reason, Reason::Break | Reason::Watch { .. })
                );
                if !stop {
                    bail!("{}", text.trim_end());
                }
                print!("{text}");
            }
        }
    }
}

fn print(cli: &Cli, chip: &Chip, clocks: Clocks) -> Result<()> {
    for &tile in &cli.tiles.0 {
        if cli.tiles.0.len() > 1 {
            println!("tile {tile}");
        }
        if cli.cycles {
            println!("cycles {}", cycles(cli, chip, tile, clocks)?);
        }
        if cli.print_registers {
            for context in contexts(cli) {
                let registers = match context {
                    Context::Supervisor => chip.supervisor_registers(tile)?,
                    Context::Worker(n) => chip.worker_registers(tile, n.into())?,
                };
                println!("{context}");
                print!(
                    "{}",
                    registers_text(registers, context != Context::Supervisor)
                );
            }
        }
        if cli.print_accumulators && !cli.supervisor {
            for n in 0..usize::from(cli.workers) {
                println!("accumulators of worker {n}");
                for (row, values) in chip.worker_accumulators(tile, n)?.chunks(8).enumerate() {
                    let texts: Vec<String> = values.iter().map(|v| format!("{v:?}")).collect();
                    println!("{:>4}: {}", 8 * row, texts.join(" "));
                }
            }
        }
        if cli.counters {
            println!("{:#?}", chip.counters(tile)?);
        }
        for dump in &cli.dump {
            let bytes = chip.read(tile, dump.address, dump.len)?;
            match &dump.file {
                Some(path) => fs::write(path, bytes)
                    .with_context(|| format!("cannot write {}", path.display()))?,
                None => println!("{:#x}: {}", dump.address, dump.element.print(&bytes)),
            }
        }
    }
    Ok(())
}

fn cycles(cli: &Cli, chip: &Chip, tile: u32, clocks: Clocks) -> Result<u64> {
    if cli.supervisor {
        return match (clocks.call, clocks.end) {
            (Some(call), Some(end)) => Ok(end - call),
            _ => Err(anyhow!("the program did not return to its caller")),
        };
    }
    let mut first = u64::MAX;
    let mut last = 0;
    for n in 0..usize::from(cli.workers) {
        let (start, exit) = chip.worker_clocks(tile, n)?;
        first = first.min(start);
        last = last.max(exit);
    }
    Ok(last + 6 - first)
}
