//! What a device has of its windows, and which product is next.

use crate::data::{Job, Panel, Place, Sum, Term};
use crate::plan::Plan;
use flash::kernels::simd::Number;
use flash_graph::{Cx, Error, Node, Out, Receive};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Tiles to begin, products to compute, panels that are used up, and tiles that are done.
pub type Outs<T> = (Out<Place>, Out<Term<T>>, Out<Arc<Panel<T>>>, Out<Sum<T>>);

/// Each job's panels and tiles. A tile's products are computed one after the other, in the order of the
/// steps; those of different tiles in any order.
pub struct Ledger<T> {
    plan: Plan,
    jobs: BTreeMap<u64, Account<T>>,
}

/// A job.
struct Account<T> {
    /// The panels that are here, from the first one that is not used up.
    panels: BTreeMap<usize, Loaded<T>>,
    /// Each tile of the window, row by row.
    tiles: Vec<Progress<T>>,
    /// Tiles that are not done.
    left: usize,
}

struct Loaded<T> {
    panel: Arc<Panel<T>>,
    /// Products that have not been computed.
    left: usize,
}

/// A tile of the result.
struct Progress<T> {
    /// `None` before its memory is here, and while a product is computed.
    idle: Option<Sum<T>>,
    /// The next step.
    step: usize,
}

impl<T: Number> Ledger<T> {
    /// Of a device that has no job.
    pub fn new(plan: Plan) -> Ledger<T> {
        Ledger { plan, jobs: BTreeMap::new() }
    }

    fn tile(&mut self, place: &Place) -> (&mut Account<T>, usize) {
        let account = self.jobs.get_mut(&place.job.number).expect("a job that is not done");
        let [row, column] = place.at;
        (account, row * place.job.window.columns.len() + column)
    }
}

impl<T> Account<T> {
    fn of(job: &Job) -> Account<T> {
        let count = job.window.rows.len() * job.window.columns.len();
        let tiles = (0..count).map(|_| Progress { idle: None, step: 0 }).collect();
        Account { panels: BTreeMap::new(), tiles, left: count }
    }

    /// Emits a tile's next product, if all that it needs is here.
    fn next(&mut self, tile: usize, out: &mut Outs<T>)
    where
        T: Number,
    {
        let progress = &mut self.tiles[tile];
        let Some(Loaded { panel, .. }) = self.panels.get(&progress.step) else { return };
        if let Some(sum) = progress.idle.take() {
            out.1.emit(Term { sum, panel: panel.clone() });
        }
    }
}

impl<T: Number> Node for Ledger<T> {
    type Out = Outs<T>;
}

impl<T: Number> Receive<Panel<T>> for Ledger<T> {
    fn receive(&mut self, panel: Panel<T>, out: &mut Outs<T>, _: &mut Cx<'_>) -> Result<(), Error> {
        let job = panel.job.clone();
        let account = self.jobs.entry(job.number).or_insert_with(|| {
            for row in 0..job.window.rows.len() {
                for column in 0..job.window.columns.len() {
                    out.0.emit(Place { job: job.clone(), at: [row, column] });
                }
            }
            Account::of(&job)
        });
        let (step, left) = (panel.step, account.tiles.len());
        account.panels.insert(step, Loaded { panel: Arc::new(panel), left });
        (0..account.tiles.len()).for_each(|tile| account.next(tile, out));
        Ok(())
    }
}

impl<T: Number> Receive<Sum<T>> for Ledger<T> {
    fn receive(&mut self, sum: Sum<T>, out: &mut Outs<T>, _: &mut Cx<'_>) -> Result<(), Error> {
        let (account, tile) = self.tile(&sum.place);
        account.tiles[tile].idle = Some(sum);
        account.next(tile, out);
        Ok(())
    }
}

impl<T: Number> Receive<Term<T>> for Ledger<T> {
    fn receive(&mut self, term: Term<T>, out: &mut Outs<T>, _: &mut Cx<'_>) -> Result<(), Error> {
        let Term { sum, panel } = term;
        let (steps, number, step) = (self.plan.tiles[1], panel.job.number, panel.step);
        drop(panel);
        let (account, tile) = self.tile(&sum.place);
        account.tiles[tile].step = step + 1;
        if step + 1 < steps {
            account.tiles[tile].idle = Some(sum);
            account.next(tile, out);
        } else {
            out.3.emit(sum);
            account.left -= 1;
        }
        let loaded = account.panels.get_mut(&step).expect("a panel that is not used up");
        loaded.left -= 1;
        if loaded.left == 0 {
            let used = account.panels.remove(&step);
            used.into_iter().for_each(|loaded| out.2.emit(loaded.panel));
        }
        if account.left == 0 {
            self.jobs.remove(&number);
        }
        Ok(())
    }
}
