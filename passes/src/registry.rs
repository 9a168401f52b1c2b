//! The passes as MLIR knows them: name, options, anchor, and the thin part that reads IR into
//! plain structs, calls the algorithm and writes IR. Also the compile pipeline, stage by stage.

use crate::place_storage::certificate;
use crate::select_operators::algebra::{self, Numerics, Rules};
use crate::select_operators::plans::stream::Streams;
use crate::select_operators::plans::{Machine, Partials};
use crate::select_operators::search::pin::Pin;
use crate::select_operators::{Finalist, Hint, SelectError, Wanted, operator_cost, select};
use crate::{convert_layouts, layers, phase_exchanges, pick_finalist, place_storage, tile};
use ipu_dialects::diag::{Failed, Span, emit_error, error_at};
use ipu_dialects::explain::{self, Report};
use ipu_dialects::ipu::{self, Candidate};
use ipu_dialects::pass::{Opt, PassCx, PassDef, register};
use ipu_dialects::{graph, ir, tile as tile_ir};
use ipu_image::emit;
use ipu_image::package::Selection;
use ipu_program::kernels::Kernels;
use ipu_program::tile::TileProgram;
use ipu_target::Target;
use melior::ir::operation::OperationLike;
use melior::ir::{Location, OperationRef};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// All passes, in pipeline order.
pub static PASSES: [&PassDef; 10] = [
    &ROLL_LAYERS,
    &UNROLL_LAYERS,
    &SELECT_OPERATORS,
    &TILE,
    &CONVERT_LAYOUTS,
    &PHASE_EXCHANGES,
    &PLACE_STORAGE,
    &VERIFY_EXCHANGE,
    &PICK_FINALIST,
    &EMIT,
];

static ROLL_LAYERS: PassDef = PassDef {
    name: "nn-roll-layers",
    help: "Turn equal consecutive layers into one nn.repeat",
    anchor: Some("builtin.module"),
    options: &[],
    run: run_roll_layers,
};

static UNROLL_LAYERS: PassDef = PassDef {
    name: "nn-unroll-layers",
    help: "Write the iterations of every nn.repeat out, as ipu-select-operators does",
    anchor: Some("builtin.module"),
    options: &[],
    run: run_unroll_layers,
};

static SELECT_OPERATORS: PassDef = PassDef {
    name: "ipu-select-operators",
    help: "Choose operators by an e-graph and a plan for each; leaves finalists as ipu.candidate",
    anchor: Some("builtin.module"),
    options: &[
        Opt::Int("tiles", "tiles that may be used, 1 to 1472", 1472),
        Opt::Str(
            "partials",
            "element type of partial sums: f32, f16 or any",
            "f32",
        ),
        Opt::Int("finalists", "most candidate programs, 1 to 4", 4),
        Opt::Str("function", "function to compile", "main"),
        Opt::Str(
            "hints",
            "demands on plans, by line of the operator: LINE:grid=2x4x1,partials=f16;LINE:...",
            "",
        ),
        Opt::Str(
            "numerics",
            "what equalities may do to floats: strict, reassoc (other order) or fast (other roundings)",
            "reassoc",
        ),
        Opt::Str(
            "rules",
            "file of equalities to use instead of the built-in ones",
            "",
        ),
        Opt::Str(
            "egraph-dump",
            "folder for the saturated e-graph as dot, JSON and text",
            "",
        ),
        Opt::Bool(
            "print-egraph",
            "print the saturated e-graph to standard error",
            false,
        ),
        Opt::Bool(
            "explain",
            "leave the reasons for each plan on the module, for the description in the package",
            false,
        ),
    ],
    run: run_select_operators,
};

static TILE: PassDef = PassDef {
    name: "ipu-tile",
    help: "Turn plans into shards and supersteps",
    anchor: Some("ipu.candidate"),
    options: &[],
    run: run_tile,
};

static CONVERT_LAYOUTS: PassDef = PassDef {
    name: "ipu-convert-layouts",
    help: "Turn rearrangements into copies, packing and exchanges",
    anchor: Some("ipu.candidate"),
    options: &[],
    run: run_convert_layouts,
};

static PHASE_EXCHANGES: PassDef = PassDef {
    name: "ipu-phase-exchanges",
    help: "Merge independent exchanges and schedule each: events of each tile, horizon and lower bound",
    anchor: Some("ipu.candidate"),
    options: &[
        Opt::Bool(
            "merge",
            "let exchanges that do not depend on each other share a phase",
            true,
        ),
        Opt::Int(
            "renumber",
            "least saving, in thousandths of the cycles, for which tiles are transposed within \
             blocks; 1000 for never",
            5,
        ),
    ],
    run: run_phase_exchanges,
};

static PLACE_STORAGE: PassDef = PassDef {
    name: "ipu-place-storage",
    help: "Give every buffer a lifetime and an address; notes candidates that do not fit",
    anchor: Some("ipu.candidate"),
    options: &[],
    run: run_place_storage,
};

static VERIFY_EXCHANGE: PassDef = PassDef {
    name: "ipu-verify-exchange",
    help: "Encode the rows of every exchange and let the independent checker read them",
    anchor: Some("ipu.candidate"),
    options: &[],
    run: run_verify_exchange,
};

static PICK_FINALIST: PassDef = PassDef {
    name: "ipu-pick-finalist",
    help: "Keep the candidate with the fewest scheduled cycles",
    anchor: Some("builtin.module"),
    options: &[],
    run: run_pick_finalist,
};

static EMIT: PassDef = PassDef {
    name: "ipu-emit",
    help: "Emit tile images, check every phase, and leave an ipu.package",
    anchor: Some("builtin.module"),
    options: &[Opt::Str(
        "output",
        "file to write the package to as well",
        "",
    )],
    run: run_emit,
};

/// Where saturated e-graphs are written, for passes whose option `egraph-dump` is not set.
static EGRAPH_DUMP: OnceLock<PathBuf> = OnceLock::new();

/// Writes the saturated e-graphs of all compilations of this process into a folder. The first call
/// counts.
pub fn dump_egraphs(folder: PathBuf) {
    EGRAPH_DUMP.get_or_init(|| folder);
}

/// Puts all passes into MLIR's registry.
pub fn register_all() {
    PASSES.into_iter().for_each(register);
}

/// What a compilation is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Tiles that may be used.
    pub tiles: u32,
    /// `f32`, `f16` or `any`.
    pub partials: String,
    /// Most candidate programs.
    pub finalists: u32,
    /// Function to compile.
    pub function: String,
    /// Demands on plans: `LINE:grid=2x4x1,partials=f16;LINE:...`, none if empty.
    pub hints: String,
    /// Whether the package says why each operator has its plan.
    pub explain: bool,
}

impl Options {
    /// What the result depends on, by name, for the provenance of a package.
    pub fn flags(&self) -> Vec<(String, String)> {
        let tiles = self.tiles.to_string();
        let finalists = self.finalists.to_string();
        let flags = [
            ("function", &self.function),
            ("tiles", &tiles),
            ("partials", &self.partials),
            ("finalists", &finalists),
            ("hints", &self.hints),
        ];
        let given = flags.into_iter().filter(|f| !f.1.is_empty());
        given
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .collect()
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            tiles: 1472,
            partials: "f32".into(),
            finalists: 4,
            function: "main".into(),
            hints: String::new(),
            explain: false,
        }
    }
}

/// The stages of a compilation: name, as in `--compile-to`, and pipeline text.
pub fn stages(options: &Options) -> Vec<(&'static str, String)> {
    let Options {
        tiles,
        partials,
        finalists,
        function,
        hints,
        explain,
    } = options;
    let explain = if *explain { " explain=true" } else { "" };
    let hints = match hints.as_str() {
        "" => String::new(),
        hints => format!(" hints={{{hints}}}"),
    };
    let candidate = |pass: &str| format!("builtin.module(ipu.candidate({pass}))");
    vec![
        (
            "select",
            format!(
                "builtin.module(cse,canonicalize,ipu-select-operators{{tiles={tiles} \
                 partials={partials} finalists={finalists} function={function}{hints}{explain}}})"
            ),
        ),
        ("tile", candidate("ipu-tile")),
        ("layouts", candidate("ipu-convert-layouts")),
        ("phases", candidate("ipu-phase-exchanges")),
        ("storage", candidate("ipu-place-storage")),
        ("pick", "builtin.module(ipu-pick-finalist)".to_owned()),
        ("package", "builtin.module(ipu-emit)".to_owned()),
    ]
}

/// An error at the location that a text names, or at an operation when the text names none.
fn error_near(op: OperationRef<'_, '_>, location: &str, message: &str) -> Failed {
    if location.is_empty() {
        return emit_error(op, message);
    }
    error_at(Span::location(ir::context(op), location), message)
}

fn named<T: Copy>(names: &[(&str, T)], name: &str) -> Option<T> {
    names.iter().find(|n| n.0 == name).map(|n| n.1)
}

/// The functions of a module.
fn functions<'c, 'a>(module: OperationRef<'c, 'a>) -> Vec<OperationRef<'c, 'a>> {
    let ops = ir::body_ops(module);
    ops.filter(|op| ir::name(*op) == "func.func").collect()
}

fn run_roll_layers(module: OperationRef<'_, '_>, _: &PassCx<'_>) -> Result<(), Failed> {
    for func in functions(module) {
        let (rolled, count) = layers::roll(&graph::read(func)?);
        if count > 0 {
            graph::replace(func, &rolled)?;
        }
    }
    Ok(())
}

fn run_unroll_layers(module: OperationRef<'_, '_>, _: &PassCx<'_>) -> Result<(), Failed> {
    for func in functions(module) {
        let model = graph::read(func)?;
        let unrolled = layers::unroll(&model);
        let unrolled = unrolled.map_err(|e| error_near(func, e.location(), &e.to_string()))?;
        if let Cow::Owned(unrolled) = &unrolled {
            graph::replace(func, unrolled)?;
        }
    }
    Ok(())
}

/// The equalities of a file, `None` without one.
fn read_rules(func: OperationRef<'_, '_>, path: &str) -> Result<Option<Rules>, Failed> {
    if path.is_empty() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(path).map_err(|e| {
        emit_error(
            func,
            format!("ipu-select-operators: option rules: cannot read '{path}': {e}"),
        )
    })?;
    Rules::read(path, &text).map(Some).map_err(|e| {
        error_near(func, &format!("{path}:{}:{}", e.line, e.column), &e.what());
        Failed
    })
}

fn run_select_operators(module: OperationRef<'_, '_>, cx: &PassCx<'_>) -> Result<(), Failed> {
    let target = Target::ipu21();
    let option = |name: &str, low: i64, high: i64| {
        let value = cx.int(name);
        if (low..=high).contains(&value) {
            Ok(value as u32)
        } else {
            Err(cx.error(
                module,
                format!("ipu-select-operators: option {name} is {value}, expected {low} to {high}"),
            ))
        }
    };
    let tiles = option("tiles", 1, i64::from(target.tiles))?;
    let finalists = option("finalists", 1, 4)?;
    let name = cx.str("partials");
    let partials = named(&Partials::NAMES, &name).ok_or_else(|| {
        let why =
            format!("ipu-select-operators: option partials is '{name}', expected f32, f16 or any");
        cx.error(module, why)
    })?;
    let name = cx.str("numerics");
    let Some(numerics) = named(&Numerics::NAMES, &name) else {
        let why = format!(
            "ipu-select-operators: option numerics is '{name}', expected strict, reassoc or fast"
        );
        return Err(cx.error(module, why));
    };
    let function = cx.str("function");
    let functions = functions(module);
    let Some(&func) = functions
        .iter()
        .find(|f| ir::string(**f, "sym_name") == Some(&function))
    else {
        let known: Vec<_> = functions
            .iter()
            .filter_map(|f| ir::string(*f, "sym_name"))
            .collect();
        return Err(cx.error(
            module,
            format!(
                "no function '{function}' to compile, the module has: {}",
                known.join(", ")
            ),
        ));
    };
    let model = graph::read(func)?;
    let hints = read_hints(func, &cx.str("hints"))?;
    let machine = Machine {
        target,
        kernels: Kernels::builtin(),
        tiles,
        partials,
        streams: Streams::None,
    };
    let own = read_rules(func, &cx.str("rules"))?;
    let rules = match &own {
        Some(rules) => rules,
        None => Rules::builtin().map_err(|e| emit_error(func, e.to_string()))?,
    };
    let leave = cx.bool("explain");
    let explained = leave || explain::wanted(Report::Selection).is_some();
    let options = algebra::Options {
        numerics,
        ..algebra::Options::default()
    };
    let wanted = Wanted {
        finalists: finalists as usize,
        hints: &hints,
        explain: explained,
        algebra: &options,
        rules,
    };
    let (found, algebra) = select(&model, &machine, &wanted).map_err(|error| match error {
        SelectError::NoLowering(list) | SelectError::Hints(list) => {
            for refused in &list {
                error_near(func, &refused.location, &refused.message);
            }
            Failed
        }
        other => emit_error(func, other.to_string()),
    })?;
    if let Some(e) = &found.explanation {
        explain::add(Report::Selection, &function, e, e.to_string());
        if leave && let Ok(text) = serde_json::to_string(e) {
            ipu::set_explanation(module, &text);
        }
    }
    if cx.bool("print-egraph") {
        eprint!("{}", algebra.to_text());
    }
    let folder = match cx.str("egraph-dump") {
        folder if folder.is_empty() => EGRAPH_DUMP.get().cloned(),
        folder => Some(folder.into()),
    };
    if let Some(folder) = folder {
        let bound =
            |kind: &_, operands: &[_], result: &_| operator_cost(&machine, kind, operands, result);
        algebra
            .dump(&folder, &model.name, Some(&bound))
            .map_err(|e| emit_error(func, e.to_string()))?;
    }
    let report = algebra.report();
    let context = ir::context(module);
    let at = func.location();
    for (i, finalist) in found.finalists.iter().enumerate() {
        let candidate = Candidate {
            name: format!("c{i}"),
            estimated_cycles: Some(finalist.estimated_cycles),
            scheduled_cycles: None,
            reasons: reasons(finalist, report),
        };
        let body = graph::build(context, &finalist.graph, at)
            .ok_or_else(|| emit_error(func, "the selected operators cannot be written as IR"))?;
        let op = ipu::build_candidate(context, &candidate, [body], at)
            .ok_or_else(|| emit_error(func, "the candidate cannot be written as IR"))?;
        ir::insert_before(func, op);
    }
    for f in functions {
        ir::erase(f);
    }
    Ok(())
}

/// Demands on plans: attributes `ipu.plan_hint` of the operators, and those of the option, which
/// names operators by their lines.
fn read_hints(func: OperationRef<'_, '_>, option: &str) -> Result<Vec<Hint>, Failed> {
    let mut hints = Vec::new();
    for op in ir::body_ops(func) {
        if let Some(text) = ir::string(op, "ipu.plan_hint") {
            let pin = Pin::parse(text)
                .map_err(|e| emit_error(op, format!("attribute ipu.plan_hint: {e}")))?;
            hints.push(Hint {
                location: ir::location(op),
                pin,
                source: "attribute ipu.plan_hint".to_owned(),
            });
        }
    }
    for part in option.split(';').filter(|p| !p.trim().is_empty()) {
        let error = |why: String| emit_error(func, format!("option hints: '{part}' {why}"));
        let (line, text) = part
            .trim()
            .split_once(':')
            .ok_or_else(|| error("has no line; expected LINE:grid=RxCxK".to_owned()))?;
        let pin = Pin::parse(text).map_err(|e| error(format!("is no hint: {e}")))?;
        let lines = ir::body_ops(func).map(ir::location);
        let found = lines.into_iter().find(|l| line_of(l) == Some(line));
        let location =
            found.ok_or_else(|| error(format!("names line {line}, where no operator is")))?;
        hints.push(Hint {
            location,
            pin,
            source: format!("option hints, line {line}"),
        });
    }
    Ok(hints)
}

/// The line of a location `file:line:column`.
fn line_of(location: &str) -> Option<&str> {
    location.rsplit(':').nth(1)
}

fn reasons(finalist: &Finalist, report: &algebra::Report) -> Vec<String> {
    let mut reasons = finalist.reasons.clone();
    reasons.push(format!(
        "e-graph of {} nodes in {} classes, {} after {} iterations",
        report.nodes, report.classes, report.stop, report.iterations
    ));
    reasons
}

fn run_tile(candidate: OperationRef<'_, '_>, _: &PassCx<'_>) -> Result<(), Failed> {
    let Some(func) = ir::body_ops(candidate).find(|op| ir::name(*op) == "func.func") else {
        return Err(emit_error(
            candidate,
            "has no function; run ipu-select-operators first",
        ));
    };
    let model = graph::read(func)?;
    let program = tile::tile(&model, Kernels::builtin())
        .map_err(|e| error_near(func, &e.location, &e.to_string()))?;
    write(func, &program, func.location())
}

/// Replaces an operation by the `tile.program` of a program.
fn write(old: OperationRef<'_, '_>, program: &TileProgram, at: Location<'_>) -> Result<(), Failed> {
    // SAFETY: the location lives as long as the context of the operation.
    let at = unsafe { Location::from_raw(at.to_raw()) };
    let new = tile_ir::build(ir::context(old), program, at)
        .ok_or_else(|| emit_error(old, "the tile program cannot be written as IR"))?;
    ir::replace(old, new);
    Ok(())
}

fn program_op<'c: 'a, 'a>(candidate: OperationRef<'c, 'a>) -> Result<OperationRef<'c, 'a>, Failed> {
    ir::body_ops(candidate)
        .find(|op| ir::name(*op) == "tile.program")
        .ok_or_else(|| emit_error(candidate, "has no tile.program; run ipu-tile first"))
}

/// Reads a tile program; the dialect does not know how many tiles the chip has.
fn read_program(op: OperationRef<'_, '_>) -> Result<TileProgram, Failed> {
    let program = tile_ir::read(op)?;
    let limit = Target::ipu21().tiles;
    if program.tiles > limit {
        return Err(emit_error(
            op,
            format!("is on {} tiles, the chip has {limit}", program.tiles),
        ));
    }
    Ok(program)
}

/// Reads the tile program of a candidate, changes it and writes it back.
fn change(
    candidate: OperationRef<'_, '_>,
    work: impl FnOnce(&mut TileProgram) -> Result<(), (String, String)>,
) -> Result<(), Failed> {
    let op = program_op(candidate)?;
    let mut program = read_program(op)?;
    work(&mut program).map_err(|(location, message)| error_near(op, &location, &message))?;
    write(op, &program, op.location())
}

fn run_convert_layouts(candidate: OperationRef<'_, '_>, _: &PassCx<'_>) -> Result<(), Failed> {
    change(candidate, |program| {
        convert_layouts::convert_layouts(program, Kernels::builtin())
            .map_err(|e| (e.location.clone(), e.to_string()))
    })
}

fn run_phase_exchanges(candidate: OperationRef<'_, '_>, cx: &PassCx<'_>) -> Result<(), Failed> {
    let (target, kernels, merge) = (Target::ipu21(), Kernels::builtin(), cx.bool("merge"));
    let name = ipu::read_candidate(candidate).name;
    let renumber = cx.int("renumber");
    let Some(least) = u32::try_from(renumber).ok().filter(|n| *n <= 1000) else {
        let why = format!("ipu-phase-exchanges: option renumber is {renumber}, expected 0 to 1000");
        return Err(cx.error(candidate, why));
    };
    change(candidate, |program| {
        phase_exchanges::phase_exchanges(program, target, kernels, merge)
            .and_then(|()| phase_exchanges::screen(program, target, kernels, least))
            .map_err(|e| (e.location.clone(), e.to_string()))?;
        report_exchange(&name, program);
        Ok(())
    })
}

/// Leaves what `--explain-exchange` asks for.
fn report_exchange(name: &str, program: &TileProgram) {
    if explain::wanted(Report::Exchange).is_some() {
        let found = phase_exchanges::report::report(program, name);
        explain::add(Report::Exchange, name, &found, found.to_string());
    }
}

fn run_verify_exchange(candidate: OperationRef<'_, '_>, _: &PassCx<'_>) -> Result<(), Failed> {
    // It has no addresses, and the choice between candidates leaves it out.
    if ipu::infeasible(candidate).is_some() {
        return Ok(());
    }
    let op = program_op(candidate)?;
    let program = read_program(op)?;
    let name = ipu::read_candidate(candidate).name;
    let found = phase_exchanges::verify::verify(&program, Target::ipu21(), &name)
        .map_err(|e| error_near(op, &e.location, &e.to_string()))?;
    explain::add(Report::VerifyExchange, &name, &found, found.to_string());
    Ok(())
}

fn run_place_storage(candidate: OperationRef<'_, '_>, _: &PassCx<'_>) -> Result<(), Failed> {
    let op = program_op(candidate)?;
    let mut program = read_program(op)?;
    match place_storage::place_storage(&mut program, Target::ipu21(), Kernels::builtin()) {
        Ok(()) => {
            let name = ipu::read_candidate(candidate).name;
            phase_exchanges::report::add_elements(&mut program, Target::ipu21());
            report_memory(&name, &program);
            report_exchange(&name, &program);
            write(op, &program, op.location())
        }
        // Another candidate may fit: the choice between them reports it.
        Err(error) if error.is_capacity() => {
            ipu::set_infeasible(candidate, &error.to_string());
            Ok(())
        }
        Err(error) => Err(emit_error(op, error.to_string())),
    }
}

/// Leaves what `--explain-memory` and `--memory-map` ask for.
fn report_memory(name: &str, program: &TileProgram) {
    let target = Target::ipu21();
    if explain::wanted(Report::Memory).is_some() {
        let found = certificate::certificate(program, target, name);
        explain::add(Report::Memory, name, &found, found.to_string());
    }
    if let Some(how) = explain::wanted(Report::MemoryMap) {
        let map = certificate::memory_map(program, target, how.tile);
        let text = certificate::memory_map_text(name, how.tile, &map);
        explain::add(Report::MemoryMap, name, &map, text);
    }
}

fn run_pick_finalist(module: OperationRef<'_, '_>, _: &PassCx<'_>) -> Result<(), Failed> {
    let list = ipu::candidates(module);
    let mut programs = Vec::new();
    for &op in &list {
        if ipu::infeasible(op).is_none() {
            let program = read_program(program_op(op)?)?;
            if let Some(step) = pick_finalist::unscheduled(&program) {
                let why =
                    format!("exchange '{step}' has no schedule; run ipu-phase-exchanges first");
                return Err(emit_error(op, why));
            }
            programs.push((op, program));
        }
    }
    if programs.is_empty() {
        let Some(&first) = list.first() else {
            return Err(emit_error(
                module,
                "has no ipu.candidate; run ipu-select-operators first",
            ));
        };
        let why = ipu::infeasible(first).unwrap_or_default();
        return Err(emit_error(
            first,
            format!("{} candidate(s), none fits: {why}", list.len()),
        ));
    }
    let cycles = pick_finalist::scheduled(
        programs.iter().map(|p| &p.1),
        Target::ipu21(),
        Kernels::builtin(),
    );
    let best = pick_finalist::best(&cycles)
        .and_then(|i| programs.get(i))
        .map(|p| p.0);
    for ((op, _), &n) in programs.iter().zip(&cycles) {
        ipu::set_scheduled_cycles(*op, n);
    }
    let ranked: Vec<pick_finalist::Ranked> = programs
        .iter()
        .zip(&cycles)
        .filter_map(|((op, _), &scheduled)| {
            let candidate = ipu::read_candidate(*op);
            Some(pick_finalist::Ranked {
                name: candidate.name,
                estimated: candidate.estimated_cycles?,
                scheduled,
            })
        })
        .collect();
    if let (Some(best), true) = (best, ranked.len() > 1) {
        ipu::add_reason(best, &pick_finalist::ranking(&ranked));
    }
    for op in list {
        if best != Some(op) {
            ir::erase(op);
        }
    }
    Ok(())
}

fn run_emit(module: OperationRef<'_, '_>, cx: &PassCx<'_>) -> Result<(), Failed> {
    let list = ipu::candidates(module);
    let &[candidate] = &list[..] else {
        return Err(emit_error(
            module,
            format!(
                "has {} candidates, emission takes one; run ipu-pick-finalist first",
                list.len()
            ),
        ));
    };
    let op = program_op(candidate)?;
    let program = read_program(op)?;
    let about = ipu::read_candidate(candidate);
    let mut package = emit::emit(
        &program,
        Target::ipu21(),
        Kernels::builtin(),
        about.estimated_cycles.unwrap_or(0),
    )
    .map_err(|e| emit_error(op, e.to_string()))?;
    package.description.selection = Selection {
        candidate: about.name,
        reasons: about.reasons,
        explanation: ipu::explanation(module).unwrap_or_default(),
    };
    // The last word on memory: whatever stood between placement and here.
    place_storage::verify(&program, Target::ipu21(), Kernels::builtin())
        .map_err(|v| emit_error(op, format!("'{}': {}", v.subject, v.what)))?;
    let bytes = package
        .to_bytes()
        .map_err(|e| emit_error(op, e.to_string()))?;
    let output = cx.str("output");
    if !output.is_empty() {
        package
            .write_atomic(Path::new(&output))
            .map_err(|e| emit_error(op, e.to_string()))?;
    }
    let package = ipu::Package {
        name: program.name,
        format: "ipuexe".into(),
        bytes,
    };
    let built = ipu::build_package(ir::context(module), &package, candidate.location())
        .ok_or_else(|| emit_error(op, "the package cannot be written as IR"))?;
    ir::insert_before(candidate, built);
    Ok(())
}
