//! The graph: `c = a b`, or `c = a b + c`, by windows, on the devices of a runtime.
//!
//! A part of the graph for each device takes windows as jobs. The product of a window has as many *steps* as
//! the factors have tiles along k: a step adds the product of a column of tiles of `a`, and a row of tiles of
//! `b`, which together are a *panel*, to all tiles of the window. A [`Ledger`] knows what is there, and says
//! which product is next.
//!
//! Three pools bound the memory. `tiles` are of the host, for the panels of `lookahead * depth` steps. `room`
//! is that of the device for `depth` panels, and `results` for a window. So a device holds at most what
//! [`held`](crate::windows::held) says, and the host as much again, times the look-ahead, beside the
//! matrices.
//!
//! A device that works in the host's memory needs none of it where the windows span the matrix: it computes
//! rows of tiles in place.
//!
//! The products of a tile of the result are added in the order of the steps, so its bits depend on the size
//! of the tiles and on the implementation, and on nothing else.

use crate::data::{Cut, Factor, Job, Panel, Sum, Term};
use crate::ledger::{Ledger, Outs};
use crate::plan::Plan;
use crate::windows::Window;
use flash::kernels::gemm::Gemm;
use flash::kernels::simd::Number;
use flash::prelude::*;
use flash::{DeviceHandle, MemoryView, OnCaller};
use flash_graph::{Cx, Error, Graph, GraphError, Node, NodeRef, Out, Output, Pool, Receive, Route, Run};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The matrices: row by row, the shape is [columns, rows].
#[derive(Clone)]
pub struct Matrices<T> {
    a: FlashMemory<T>,
    b: FlashMemory<T>,
    c: FlashMemory<T>,
}

impl<T> Matrices<T> {
    /// Of the sizes of a plan.
    pub fn new(a: &FlashMemory<T>, b: &FlashMemory<T>, c: &FlashMemory<T>) -> Matrices<T> {
        Matrices { a: a.clone(), b: b.clone(), c: c.clone() }
    }
}

/// What a device has from product to product.
struct Room<T> {
    tiles: Pool<FlashMemory<T>>,
    room: Pool<()>,
    results: Pool<FlashMemory<T>>,
    turns: Pool<()>,
}

/// Products of one plan. Memory for tiles is kept from one to the next.
pub struct Product<T> {
    plan: Plan,
    rt: RuntimeObj,
    rooms: Vec<Room<T>>,
}

impl<T: Number> Product<T> {
    /// Products on the devices of a runtime, for which the plan was made.
    pub fn new(rt: &RuntimeObj, plan: Plan) -> Product<T> {
        let [height, width] = plan.windows.most();
        let (edge, panel) = (plan.tile, height + width);
        let tile = move || FlashMemory::zeroed([edge, edge]);
        let room = |_| Room {
            tiles: Pool::new("tiles of the host", plan.lookahead * plan.depth * panel, tile),
            room: Pool::new("room on the device", plan.depth * panel, || ()),
            results: Pool::new("tiles of the result", height * width, tile),
            turns: Pool::new("jobs", 2, || ()),
        };
        Product { plan, rt: rt.clone(), rooms: rt.devices().iter().map(room).collect() }
    }

    /// The graph of one product, and its output: a datum for each tile of the result that is done.
    pub fn graph(&self, matrices: &Matrices<T>) -> (Graph, Output<()>) {
        let (g, plan) = (Graph::new("gemm"), self.plan);
        let done = g.output("done");
        let mut rooms = self.rooms.iter();
        let jobs = g.source("windows", plan.windows.iter());
        let to_devices = g.for_each_device("jobs", &self.rt, &Route::least_loaded(), |g, rt, from| {
            let part = Part { g, rt: &rt, plan, matrices, room: rooms.next().expect("one for each device") };
            part.build(from, &done);
        });
        g.edge(&jobs.out, &to_devices);
        (g, done)
    }

    /// Computes the product. `watch` gets the run, and an output with a datum for each tile that is done.
    ///
    /// # Errors
    /// Those of the devices.
    pub fn run(
        &self,
        matrices: &Matrices<T>,
        watch: impl FnOnce(&Run, &Output<()>),
    ) -> Result<(), GraphError> {
        let (g, done) = self.graph(matrices);
        let run = g.start()?;
        watch(&run, &done);
        run.wait()
    }
}

/// The part of the graph for a device, while it is built.
struct Part<'a, T> {
    g: &'a Graph,
    rt: &'a RuntimeObj,
    plan: Plan,
    matrices: &'a Matrices<T>,
    room: &'a Room<T>,
}

impl<T: Number> Part<'_, T> {
    fn build(self, from: &Out<Window>, done: &Output<()>) {
        match self.rt.devices()[0].info().host_memory && self.plan.spans() {
            true => self.build_in_place(from, done),
            false => self.build_by_tiles(from, done),
        }
    }

    /// A launch adds a step to a row of tiles of the result.
    fn build_in_place(self, from: &Out<Window>, done: &Output<()>) {
        let Part { g, rt, plan, matrices, .. } = self;
        let rows = g.each("rows", |window: Window, out: &mut Out<usize>, _: &mut Cx<'_>| {
            window.rows.for_each(|row| out.emit(row));
            Ok(())
        });
        g.edge(from, &rows);

        // One after the other, each by all threads, unless more at the same time are asked for.
        let at_once = plan.replicas.unwrap_or(1);
        let with = if at_once > 1 { rt.options(OnCaller) } else { rt.clone() };
        let (of, [_, steps, columns]) = (matrices.clone(), plan.tiles);
        let [m, k, n] = plan.sizes.map(|size| size as u64);
        let multiply = g.each("multiply", move |row: usize, out: &mut Out<()>, _: &mut Cx<'_>| {
            let rows = plan.along(0, row);
            for step in 0..steps {
                let depth = plan.along(1, step);
                let a = rectangle(&of.a, [m, k], [&rows, &depth])?;
                let b = rectangle(&of.b, [k, n], [&depth, &(0..n)])?;
                let c = rectangle(&of.c, [m, n], [&rows, &(0..n)])?;
                let beta = if step > 0 || plan.adds { T::ONE } else { T::ZERO };
                let product = Gemm::of(T::ONE, beta, n, depth.end - depth.start, 0, 0, k, n, n, a, b, c);
                with.submit(product).exec([rows.end - rows.start])?;
            }
            (0..columns).for_each(|_| out.emit(()));
            Ok(())
        });
        let multiply = multiply.replicas(at_once);
        g.edge(&rows.out, &multiply);
        g.edge(&multiply.out, done);
    }

    fn build_by_tiles(self, from: &Out<Window>, done: &Output<()>) {
        let Part { g, rt, plan, matrices, room } = self;
        let device: &'static DeviceHandle = rt.devices()[0];
        // Launches are pieces of parallel work already.
        let rt = &rt.options(OnCaller);
        let [height, width] = plan.windows.most();

        let needs = self.needs();
        g.edge(from, &needs);
        let tiles = room.tiles.clone();
        let take = g.each("take tile", move |(job, step, factor), out: &mut Out<Cut<T>>, cx: &mut Cx<'_>| {
            out.emit(Cut { job, step, factor, tile: tiles.take(cx) });
            Ok(())
        });
        let take = take.takes(&room.tiles, 1).inbox(height + width);
        g.edge(&needs.out, &take);

        let (of, with) = (matrices.clone(), rt.clone());
        let cut = g.launch("cut", plan.replicas_on(device), move |cut: &Cut<T>| {
            let Window { rows, columns } = &cut.job.window;
            let depth = plan.along(1, cut.step);
            let (from, [across, down]) = match cut.factor {
                Factor::A(row) => (&of.a, [depth, plan.along(0, rows.start + row)]),
                Factor::B(column) => (&of.b, [plan.along(2, columns.start + column), depth]),
            };
            let to = [0..across.end - across.start, 0..down.end - down.start];
            Ok(with.pipeline().copy_box(from.clone(), [across, down], (*cut.tile).clone(), to))
        });
        g.edge(&take.out, &cut);

        let steps = plan.tiles[1];
        let panels = g.node("panels", move |_| Panels { begun: BTreeMap::new(), next: (0, 0), steps });
        g.edge(&cut.out, &panels);

        let on_device = room.room.clone();
        let admit = g.each("admit panel", move |mut panel: Panel<T>, out: &mut Out<_>, cx: &mut Cx<'_>| {
            panel.room = (0..panel.a.len() + panel.b.len()).map(|_| on_device.take(cx)).collect();
            out.emit(panel);
            Ok(())
        });
        let admit = admit.takes(&room.room, height + width);
        g.edge(&panels.out, &admit);

        let with = rt.clone();
        let load = g.launch("load panel", plan.depth, move |panel: &Panel<T>| {
            let tiles = panel.a.iter().chain(&panel.b);
            Ok(tiles.fold(with.pipeline(), |all, tile| all.prefetch((**tile).clone(), device)))
        });
        g.edge(&admit.out, &load);

        let ledger = g.node("ledger", move |_| Ledger::new(plan)).unbounded().priority(1);
        g.edge(&load.out, &ledger);

        let results = room.results.clone();
        let begin = g.each("begin tile", move |place, out: &mut Out<Sum<T>>, cx: &mut Cx<'_>| {
            out.emit(Sum { place, c: results.take(cx) });
            Ok(())
        });
        let begin = begin.takes(&room.results, 1);
        let outs: &Outs<T> = &ledger.out;
        g.edge(&outs.0, &begin);
        match plan.adds {
            false => g.edge(&begin.out, &ledger),
            true => {
                let (of, with) = (matrices.c.clone(), rt.clone());
                let fetch = g.launch("fetch tile", plan.replicas_on(device), move |sum: &Sum<T>| {
                    let (from, to) = plan.result(&sum.place);
                    Ok(with.pipeline().copy_box(of.clone(), from, (*sum.c).clone(), to))
                });
                g.edge(&begin.out, &fetch);
                g.edge(&fetch.out, &ledger);
            }
        }

        let with = rt.clone();
        let multiply = g.launch("multiply", plan.replicas_on(device), move |term: &Term<T>| {
            let ([i, j], step) = (term.sum.place.at, term.panel.step);
            let (_, [columns, rows]) = plan.result(&term.sum.place);
            let (depth, edge) = (plan.along(1, step), plan.tile as u64);
            let beta = if step > 0 || plan.adds { T::ONE } else { T::ZERO };
            let [a, b, c] = [&term.panel.a[i], &term.panel.b[j], &term.sum.c].map(|tile| (**tile).clone());
            let product =
                Gemm::of(T::ONE, beta, columns.end, depth.end - depth.start, 0, 0, edge, edge, edge, a, b, c);
            Ok(with.submit(product).defer([rows.end]))
        });
        g.edge(&outs.1, &multiply);
        g.edge(&multiply.out, &ledger);

        let with = rt.clone();
        let unload = g.launch("unload panel", plan.depth, move |panel: &Arc<Panel<T>>| {
            let tiles = panel.a.iter().chain(&panel.b);
            Ok(tiles.fold(with.pipeline(), |all, tile| all.evict((**tile).clone(), device)))
        });
        g.edge(&outs.2, &unload);
        let unloaded = g.each("free panel", |_: Arc<Panel<T>>, _: &mut (), _: &mut Cx<'_>| Ok(()));
        g.edge(&unload.out, &unloaded);

        let (of, with) = (matrices.c.clone(), rt.clone());
        let store = g.launch("store tile", plan.replicas_on(device), move |sum: &Sum<T>| {
            let (to, from) = plan.result(&sum.place);
            let tile = &*sum.c;
            // To the host first: a copy is made where its source is.
            let store = with.pipeline().evict(tile.clone(), device);
            Ok(store.copy_box(tile.clone(), from, of.clone(), to))
        });
        g.edge(&outs.3, &store);
        let free: NodeRef<_> = g.map("free tile", |_: Sum<T>| ());
        g.edge(&store.out, &free);
        g.edge(&free.out, done);
    }

    /// A node that takes windows, and emits which tiles of the factors they need, in order.
    fn needs(&self) -> NodeRef<impl Receive<Window, Out = Out<(Arc<Job>, usize, Factor)>> + use<T>> {
        let (steps, turns, mut number) = (self.plan.tiles[1], self.room.turns.clone(), 0);
        let needs = self.g.each("job", move |window: Window, out: &mut Out<_>, cx: &mut Cx<'_>| {
            let (rows, columns) = (window.rows.len(), window.columns.len());
            let job = Arc::new(Job { number, window, _turn: turns.take(cx) });
            number += 1;
            for step in 0..steps {
                // In turns: the first product needs one of each.
                for i in 0..rows.max(columns) {
                    let a = (i < rows).then_some(Factor::A(i));
                    let b = (i < columns).then_some(Factor::B(i));
                    a.into_iter().chain(b).for_each(|factor| out.emit((job.clone(), step, factor)));
                }
            }
            Ok(())
        });
        needs.takes(&self.room.turns, 1).inbox(1)
    }
}

/// The elements from the first to the last of a part of a matrix, which is of these rows and columns.
///
/// # Errors
/// If the matrix is of other ones: before a launch, so that nothing is lost.
fn rectangle<T: Number>(
    matrix: &FlashMemory<T>,
    of: [u64; 2],
    [rows, columns]: [&Range<u64>; 2],
) -> Result<MemoryView<'static, T>, Error> {
    let [height, leading] = of;
    if matrix.shape() != [leading, height] {
        let found = matrix.shape();
        return Err(format!("expected a matrix of the shape [{leading}, {height}], found {found:?}").into());
    }
    let first = rows.start * leading + columns.start;
    let end = (rows.end - 1) * leading + columns.end;
    Ok(matrix.clone().into_range(first as usize..end as usize)?)
}

/// Puts tiles together to panels, in the order of jobs and steps.
struct Panels<T> {
    begun: BTreeMap<(u64, usize), Vec<Cut<T>>>,
    next: (u64, usize),
    steps: usize,
}

impl<T: Number> Node for Panels<T> {
    type Out = Out<Panel<T>>;
}

impl<T: Number> Receive<Cut<T>> for Panels<T> {
    fn receive(&mut self, cut: Cut<T>, out: &mut Out<Panel<T>>, _: &mut Cx<'_>) -> Result<(), Error> {
        self.begun.entry((cut.job.number, cut.step)).or_default().push(cut);
        while let Some(first) = self.begun.first_entry() {
            let Window { rows, columns } = &first.get()[0].job.window;
            if *first.key() != self.next || first.get().len() < rows.len() + columns.len() {
                break;
            }
            let mut cuts = first.remove();
            cuts.sort_by_key(|cut| cut.factor);
            let (job, step) = (cuts[0].job.clone(), cuts[0].step);
            let rows = job.window.rows.len();
            let mut tiles = cuts.into_iter().map(|cut| cut.tile);
            let a = tiles.by_ref().take(rows).collect();
            out.emit(Panel { job, step, a, b: tiles.collect(), room: Vec::new() });
            self.next = match self.next {
                (job, step) if step + 1 < self.steps => (job, step + 1),
                (job, _) => (job + 1, 0),
            };
        }
        Ok(())
    }
}
