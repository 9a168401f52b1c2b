//! Layouts by number, and the prices of moves between them, each found out once.

use super::problem::Access;
use crate::select_operators::plans::moves::{self, Move};
use crate::select_operators::plans::{Machine, arrival, spread};
use ipu_program::layout::{ElementOrder, Layout, MemoryClass, Split};
use ipu_program::types::TensorType;
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

/// Prices of moves.
pub struct Prices<'a> {
    machine: &'a Machine<'a>,
    /// The layouts.
    pub layouts: Layouts,
    quick: HashMap<(LayoutId, LayoutId, u32), u64>,
    exact: HashMap<(LayoutId, LayoutId, u32), Option<Move>>,
    arrivals: HashMap<(LayoutId, u32), LayoutId>,
}

impl<'a> Prices<'a> {
    /// No price known yet.
    pub fn new(machine: &'a Machine<'a>) -> Self {
        Prices {
            machine,
            layouts: Layouts::default(),
            quick: HashMap::new(),
            exact: HashMap::new(),
            arrivals: HashMap::new(),
        }
    }

    /// Whether an operand is there without a move.
    pub fn is_there(access: &Access, from: LayoutId, to: LayoutId) -> bool {
        from == to && !access.renamed && access.view.is_none() && access.from == access.to
    }

    /// Estimated cycles, by sizes and samples.
    pub fn quick(&mut self, number: u32, access: &Access, from: LayoutId, to: LayoutId) -> u64 {
        if Self::is_there(access, from, to) {
            return 0;
        }
        let (machine, layouts) = (self.machine, &self.layouts);
        *self.quick.entry((from, to, number)).or_insert_with(|| {
            let (from, to) = (layouts.get(from), layouts.get(to));
            match &access.view {
                None => moves::exchange(machine, from, to, &access.to),
                Some(view) => moves::viewed(machine, (from, &access.from), view, (to, &access.to)),
            }
        })
    }

    /// The exact price, `None` for what has no lowering.
    pub fn exact(
        &mut self,
        number: u32,
        access: &Access,
        from: LayoutId,
        to: LayoutId,
    ) -> Option<Move> {
        if Self::is_there(access, from, to) {
            return Some(Move::default());
        }
        let (machine, layouts) = (self.machine, &self.layouts);
        *self.exact.entry((from, to, number)).or_insert_with(|| {
            let (from, to) = (layouts.get(from), layouts.get(to));
            let from = (from, &access.from);
            moves::exact(machine, from, access.view.as_ref(), (to, &access.to))
        })
    }

    /// The layout in which an argument arrives of which an operator reads `access` in `to`.
    pub fn arrival(&mut self, number: u32, access: &Access, to: LayoutId) -> LayoutId {
        if let Some(&id) = self.arrivals.get(&(to, number)) {
            return id;
        }
        let (tiles, layout) = (self.machine.tiles, self.layouts.get(to));
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
