//! What is computed, in which tiles and windows: checked before anything runs.

use crate::data::Place;
use crate::windows::{Rule, Windows, held};
use flash::DeviceHandle;
use flash_examples::Refused;
use std::ops::Range;

/// The most tiles along an axis of the matrices, and of the result.
const MOST_TILES: usize = 1 << 20;

/// What a user asks for.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Rows of `a`, its columns, and the columns of `b`.
    pub sizes: [usize; 3],
    /// Rows and columns of a tile.
    pub tile: usize,
    /// Steps of the factors that a device has at the same time: one is computed while the next are loaded.
    pub depth: usize,
    /// For each of those, steps whose tiles the host has ready.
    pub lookahead: usize,
    /// Products that a device computes at the same time; what suits it, if there is none.
    pub replicas: Option<usize>,
    /// Bytes of each device's memory; all, if there is none.
    pub budget: Option<u64>,
    /// The product is added to what `c` has.
    pub adds: bool,
}

/// A product that can be computed.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// As in [`Wish`].
    pub(crate) sizes: [usize; 3],
    /// Rows and columns of a tile.
    pub tile: usize,
    /// Tiles along m, k and n.
    pub tiles: [usize; 3],
    /// The jobs.
    pub windows: Windows,
    /// As in [`Wish`], but not more than there are steps.
    pub depth: usize,
    /// As in [`Wish`], but not more than there are steps.
    pub lookahead: usize,
    /// As in [`Wish`].
    pub(crate) replicas: Option<usize>,
    pub(crate) adds: bool,
    /// Bytes of a tile on a device.
    tile_bytes: u64,
}

impl Plan {
    /// The windows for these devices. An element has `size` bytes.
    ///
    /// # Errors
    /// [`Refused`], with what was expected and found.
    pub fn of(wish: Wish, size: usize, devices: &[&'static DeviceHandle]) -> Result<Plan, Refused> {
        let Wish { sizes, tile, depth, lookahead, replicas, budget, adds } = wish;
        let counts = [
            ("--m", sizes[0]),
            ("--k", sizes[1]),
            ("--n", sizes[2]),
            ("--tile", tile),
            ("--depth", depth),
            ("--lookahead", lookahead),
            ("--replicas", replicas.unwrap_or(1)),
        ];
        if let Some((option, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(Refused(format!("{option}: expected at least 1, found 0")));
        }
        for (option, [rows, columns]) in [
            ("--m and --k", [sizes[0], sizes[1]]),
            ("--k and --n", [sizes[1], sizes[2]]),
            ("--m and --n", [sizes[0], sizes[2]]),
        ] {
            let bytes = rows.checked_mul(columns).and_then(|elements| elements.checked_mul(size));
            if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
                return Err(Refused(format!(
                    "{option}: expected a matrix that an address space has room for, found {rows} by {columns} elements of {size} bytes: take smaller ones"
                )));
            }
        }
        // One that is larger than all matrices is as large as they are.
        let tile = tile.min(sizes.into_iter().max().unwrap_or(1));
        let tiles = sizes.map(|size| size.div_ceil(tile));
        let most = tiles[1].max(tiles[0].saturating_mul(tiles[2]));
        if most > MOST_TILES {
            return Err(Refused(format!(
                "--tile: expected at most {MOST_TILES} tiles of the result and along k, found {most} of {tile} by {tile} elements: take larger tiles"
            )));
        }
        // More steps than there are need no room.
        let (depth, lookahead) = (depth.min(tiles[1]), lookahead.min(tiles[1]));
        // A device's buffers are rounded up to as much.
        let tile_bytes = (tile as u64).saturating_mul(tile as u64).saturating_mul(size as u64);
        let tile_bytes = tile_bytes.checked_next_multiple_of(256).unwrap_or(u64::MAX);
        let room = devices.iter().filter_map(|device| device.memory_budget()).chain(budget).min();
        let capacity = room.map_or(u64::MAX, |room| room / tile_bytes);
        let rule = Rule { capacity, depth, devices: devices.len() };
        let windows = Windows::largest([tiles[0], tiles[2]], rule).ok_or_else(|| {
            let least = held([1, 1], depth);
            Refused(format!(
                "--budget: expected room for a window of at least one tile, with --depth {depth} that is {least} tiles of {tile_bytes} bytes ({} in all), found {} bytes: take smaller tiles, less depth or a greater budget",
                least.saturating_mul(tile_bytes),
                room.unwrap_or(0)
            ))
        })?;
        Ok(Plan { sizes, tile, tiles, windows, depth, lookahead, replicas, adds, tile_bytes })
    }

    /// The range of elements of a tile along an axis: m, k and n.
    pub(crate) fn along(&self, axis: usize, tile: usize) -> Range<u64> {
        (tile * self.tile) as u64..((tile + 1) * self.tile).min(self.sizes[axis]) as u64
    }

    /// Each window has all columns.
    pub(crate) fn spans(&self) -> bool {
        self.windows.most()[1] == self.tiles[2]
    }

    /// The boxes of a tile of the result in `c`, and in the tile.
    pub(crate) fn result(&self, place: &Place) -> ([Range<u64>; 2], [Range<u64>; 2]) {
        let window = &place.job.window;
        let rows = self.along(0, window.rows.start + place.at[0]);
        let columns = self.along(2, window.columns.start + place.at[1]);
        let inside = [0..columns.end - columns.start, 0..rows.end - rows.start];
        ([columns, rows], inside)
    }

    /// Products at the same time: as many as a CPU has threads, and a few for what has a queue.
    pub(crate) fn replicas_on(&self, device: &DeviceHandle) -> usize {
        let info = device.info();
        let suits = if info.runs_functions { info.threads.max(1) as usize } else { 4 };
        self.replicas.unwrap_or(suits)
    }

    /// Bytes that a window takes on a device, at most.
    pub fn held_bytes(&self) -> u64 {
        held(self.windows.most(), self.depth).saturating_mul(self.tile_bytes)
    }

    /// Multiplications and additions.
    pub fn operations(&self) -> f64 {
        2.0 * self.sizes.iter().map(|&size| size as f64).product::<f64>()
    }
}
