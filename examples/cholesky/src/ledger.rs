//! Which step of which tile is next.

use flash_graph::{Cx, Error, Node, Out, Receive};

/// A tile of the lower triangle: its row and its column.
pub type Tile = [usize; 2];

/// A step: it changes one tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A tile on the diagonal becomes its own factor.
    Factor(usize),
    /// A tile becomes its part of the factor, by the factor on the diagonal of its column.
    Solve(Tile),
    /// What column `by` contributes is subtracted from a tile.
    Update { tile: Tile, by: usize },
}

impl Step {
    /// The tile that it changes.
    pub fn tile(self) -> Tile {
        match self {
            Step::Factor(k) => [k, k],
            Step::Solve(tile) | Step::Update { tile, .. } => tile,
        }
    }
}

/// Steps to factor, to solve, to update, and tiles to store.
pub type Outs = (Out<Step>, Out<Step>, Out<Step>, Out<Tile>);

/// What is known of each tile. A tile gets the updates of all columns before its own, one after the other,
/// and then the last step. So one step of a tile is on its way at a time, and the order is fixed.
pub struct Ledger {
    /// Rows of the lower triangle.
    tiles: Vec<Vec<Progress>>,
}

#[derive(Clone, Copy)]
struct Progress {
    /// Nothing is done to it now, and it is there.
    idle: bool,
    /// Columns that have contributed.
    updates: usize,
    done: bool,
}

impl Ledger {
    /// Of a matrix of this many rows of tiles, none of which is there.
    pub fn new(rows: usize) -> Ledger {
        let nothing = Progress { idle: false, updates: 0, done: false };
        Ledger { tiles: (0..rows).map(|i| vec![nothing; i + 1]).collect() }
    }

    /// Emits the next step of a tile, if all that it needs is here.
    fn next(&mut self, [i, j]: Tile, out: &mut Outs) {
        let Progress { idle, updates, done } = self.tiles[i][j];
        let is_done = |i: usize, j: usize| self.tiles[i][j].done;
        if !idle || done {
            return;
        }
        if updates < j {
            if !is_done(i, updates) || !is_done(j, updates) {
                return;
            }
            out.2.emit(Step::Update { tile: [i, j], by: updates });
        } else if i == j {
            out.0.emit(Step::Factor(j));
        } else if is_done(j, j) {
            out.1.emit(Step::Solve([i, j]));
        } else {
            return;
        }
        self.tiles[i][j].idle = false;
    }
}

impl Node for Ledger {
    type Out = Outs;
}

/// A tile is there.
impl Receive<Tile> for Ledger {
    fn receive(&mut self, [i, j]: Tile, out: &mut Outs, _: &mut Cx<'_>) -> Result<(), Error> {
        self.tiles[i][j].idle = true;
        self.next([i, j], out);
        Ok(())
    }
}

/// A step is done.
impl Receive<Step> for Ledger {
    fn receive(&mut self, step: Step, out: &mut Outs, _: &mut Cx<'_>) -> Result<(), Error> {
        let ([i, j], rows) = (step.tile(), self.tiles.len());
        self.tiles[i][j].idle = true;
        if let Step::Update { .. } = step {
            self.tiles[i][j].updates += 1;
            self.next([i, j], out);
            return Ok(());
        }
        self.tiles[i][j].done = true;
        out.3.emit([i, j]);
        // It contributes to the tiles on the right of it, and to those below the one on the diagonal of its
        // row; on the diagonal itself, to the column below.
        match step {
            Step::Factor(k) => (k + 1..rows).for_each(|row| self.next([row, k], out)),
            _ => {
                (j + 1..=i).for_each(|column| self.next([i, column], out));
                (i + 1..rows).for_each(|row| self.next([row, i], out));
            }
        }
        Ok(())
    }
}
