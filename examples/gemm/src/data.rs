//! What goes along the edges of the graph.

use crate::windows::Window;
use flash::prelude::*;
use flash_graph::Pooled;
use std::sync::Arc;

/// A tile in memory.
pub type Tile<T> = Pooled<FlashMemory<T>>;

/// A window that a device works at.
pub struct Job {
    /// In the order in which the device got them.
    pub number: u64,
    pub window: Window,
    /// One of few: returns when all of the window is stored.
    pub _turn: Pooled<()>,
}

/// A factor, and the row or the column of its tiles in the window.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Factor {
    A(usize),
    B(usize),
}

/// A tile of a factor, for a step of a job.
pub struct Cut<T> {
    pub job: Arc<Job>,
    pub step: usize,
    pub factor: Factor,
    pub tile: Tile<T>,
}

/// The tiles of the factors for a step of a job: as many of `a` as the window has rows, and of `b` as it has
/// columns.
pub struct Panel<T> {
    pub job: Arc<Job>,
    pub step: usize,
    pub a: Vec<Tile<T>>,
    pub b: Vec<Tile<T>>,
    /// On the device.
    pub room: Vec<Pooled<()>>,
}

/// A tile of the result, by its row and its column in the window.
pub struct Place {
    pub job: Arc<Job>,
    pub at: [usize; 2],
}

/// A tile of the result with its memory.
pub struct Sum<T> {
    pub place: Place,
    pub c: Tile<T>,
}

/// The next product of a tile of the result.
pub struct Term<T> {
    pub sum: Sum<T>,
    pub panel: Arc<Panel<T>>,
}
