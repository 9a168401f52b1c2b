//! Layouts by number, and the prices of moves between them, each found out once.

use super::problem::Access;
use crate::select_operators::plans::moves::{self, Move};
use crate::select_operators::plans::{Machine, arrival, spread};
use ipu_program::graph::{Graph, Op};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, Split};
use ipu_program::types::{ElementType, TensorType};
use rayon::prelude::*;
use std::collections::HashMap;

/// A layout in [`Layouts`].
pub type LayoutId = u32;

/// Layouts by number, in order of appearance. Memory classes do not tell layouts apart: places do.
#[derive(Default)]
pub struct Layouts {
    list: Vec<Layout>,
    ids: HashMap<Layout, LayoutId>,
}

impl Layouts {
    /// The number of the places of a layout.
    pub fn id(&mut self, layout: &Layout) -> LayoutId {
        let places = Layout {
            memory: MemoryClass::Any,
            ..layout.clone()
        };
        if let Some(&id) = self.ids.get(&places) {
            return id;
        }
        let id = self.list.len() as LayoutId;
        self.list.push(places.clone());
        self.ids.insert(places, id);
        id
    }

    /// The layout of a number, in whatever memory.
    pub fn get(&self, id: LayoutId) -> &Layout {
        &self.list[id as usize]
    }
}

/// A move whose price is wanted: the number of its access, the layouts from which and to which.
pub type Wanted = (u32, LayoutId, LayoutId);

/// Prices of moves, for all searches of one selection on one machine.
#[derive(Default)]
pub struct Prices {
    /// The layouts.
    pub layouts: Layouts,
    /// Ways in which operands are read, by number.
    accesses: Vec<Access>,
    numbers: HashMap<String, u32>,
    operators: HashMap<String, u32>,
    quick: HashMap<Wanted, u64>,
    exact: HashMap<Wanted, Option<Move>>,
    arrivals: HashMap<(LayoutId, u32), LayoutId>,
    /// Exchanges of partial sums.
    pub(super) sums: HashMap<Sums, Option<Move>>,
}

/// What the exchange of the partial sums of a plan depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sums {
    /// Number of the operator and its types, by [`Prices::operator`].
    pub operator: u32,
    /// Layouts of its operands.
    pub operands: Vec<LayoutId>,
    /// That of its result.
    pub result: LayoutId,
    /// Its grid: rows, columns, contraction.
    pub grid: [u32; 3],
    /// Type of the sums.
    pub partials: ElementType,
}

impl Prices {
    /// The number of an operator and the types of its operands and its result.
    pub fn operator(&mut self, graph: &Graph, op: &Op) -> u32 {
        let types = op.operands.iter().map(|&v| graph.ty(v));
        let key = format!(
            "{:?} {:?} {:?}",
            op.kind,
            types.collect::<Vec<_>>(),
            graph.ty(op.result)
        );
        let next = self.operators.len() as u32;
        *self.operators.entry(key).or_insert(next)
    }

    /// The number of a way in which operands are read.
    pub fn number(&mut self, access: &Access) -> u32 {
        let next = self.accesses.len() as u32;
        let number = *self.numbers.entry(format!("{access:?}")).or_insert(next);
        if number == next {
            self.accesses.push(access.clone());
        }
        number
    }

    /// Whether an operand is there without a move.
    pub fn is_there(&self, (number, from, to): Wanted) -> bool {
        let access = &self.accesses[number as usize];
        from == to && !access.renamed && access.view.is_none() && access.from == access.to
    }

    fn find_quick(&self, machine: &Machine<'_>, (number, from, to): Wanted) -> u64 {
        let access = &self.accesses[number as usize];
        let (from, to) = (self.layouts.get(from), self.layouts.get(to));
        match &access.view {
            None => moves::exchange(machine, from, to, &access.to),
            Some(view) => moves::viewed(machine, (from, &access.from), view, (to, &access.to)),
        }
    }

    fn find_exact(&self, machine: &Machine<'_>, (number, from, to): Wanted) -> Option<Move> {
        let access = &self.accesses[number as usize];
        let (from, to) = (self.layouts.get(from), self.layouts.get(to));
        let from = (from, &access.from);
        moves::exact(machine, from, access.view.as_ref(), (to, &access.to))
    }

    /// Estimated cycles, by sizes and samples.
    pub fn quick(&mut self, machine: &Machine<'_>, wanted: Wanted) -> u64 {
        if self.is_there(wanted) {
            return 0;
        }
        if let Some(&known) = self.quick.get(&wanted) {
            return known;
        }
        let found = self.find_quick(machine, wanted);
        self.quick.insert(wanted, found);
        found
    }

    /// The exact price, `None` for what has no lowering.
    pub fn exact(&mut self, machine: &Machine<'_>, wanted: Wanted) -> Option<Move> {
        if self.is_there(wanted) {
            return Some(Move::default());
        }
        if let Some(&known) = self.exact.get(&wanted) {
            return known;
        }
        let found = self.find_exact(machine, wanted);
        self.exact.insert(wanted, found);
        found
    }

    /// Finds out many estimates, on all cores.
    pub fn prepare_quick(&mut self, machine: &Machine<'_>, mut list: Vec<Wanted>) {
        list.sort_unstable();
        list.dedup();
        list.retain(|w| !self.quick.contains_key(w) && !self.is_there(*w));
        let found = list
            .into_par_iter()
            .map(|w| (w, self.find_quick(machine, w)));
        let found: Vec<_> = found.collect();
        self.quick.extend(found);
    }

    /// Finds out many exact prices, on all cores.
    pub fn prepare_exact(&mut self, machine: &Machine<'_>, mut list: Vec<Wanted>) {
        list.sort_unstable();
        list.dedup();
        list.retain(|w| !self.exact.contains_key(w) && !self.is_there(*w));
        // They differ by orders of magnitude: one at a time for each core.
        let found = list
            .into_par_iter()
            .with_max_len(1)
            .map(|w| (w, self.find_exact(machine, w)));
        let found: Vec<_> = found.collect();
        self.exact.extend(found);
    }

    /// The layout in which an argument arrives of which an operator reads access `number` in `to`.
    pub fn arrival(&mut self, tiles: u32, number: u32, to: LayoutId) -> LayoutId {
        if let Some(&id) = self.arrivals.get(&(to, number)) {
            return id;
        }
        let (access, layout) = (&self.accesses[number as usize], self.layouts.get(to));
        let arrived = match access.view {
            None => arrival(layout, access.from.matrix()),
            Some(_) => view_arrival(tiles, &access.from, &access.to, layout),
        };
        let id = self.layouts.id(&arrived);
        self.arrivals.insert((to, number), id);
        id
    }
}

/// The layout in which an argument arrives of which an operator reads a view in `to`: the pieces of
/// its first axis on the tiles that read them, where both have that axis.
fn view_arrival(tiles: u32, base: &TensorType, ty: &TensorType, to: &Layout) -> Layout {
    let matrix = base.matrix();
    let first = |t: &TensorType| t.shape.first().copied().unwrap_or(1);
    let images = first(base);
    let whole = to.rows.period == 0
        && to.columns.parts == 1
        && images > 1
        && ty.matrix().rows.is_multiple_of(images)
        && to.rows.unit.is_multiple_of(ty.matrix().rows / images);
    if !whole {
        return spread(tiles, matrix, ElementOrder::Rows);
    }
    let unit = matrix.rows / images * (to.rows.unit / (ty.matrix().rows / images));
    Layout {
        rows: Split::even(matrix.rows, to.rows.parts, unit, to.rows.stride),
        columns: Split::whole(matrix.columns),
        copies: 1,
        copy_stride: 0,
        first_tile: to.first_tile,
        order: ElementOrder::Rows,
        memory: MemoryClass::Any,
    }
}
