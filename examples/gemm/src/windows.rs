//! Jobs: windows of tiles of the result, so large that what a device needs for one fits its memory.
//!
//! The rule is that of Bardakoff et al., a multi-node matrix product on Hedgehog: a window of H rows and W
//! columns of tiles, with the tiles of d steps of the factors, takes H W + d (H + W) tiles, and the largest
//! window that fits is found by trying all. Large windows are good since each loads its own rows of `a` and
//! columns of `b`.

use std::ops::Range;

/// A part of the result, in tiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Rows of tiles.
    pub rows: Range<usize>,
    /// Columns of tiles.
    pub columns: Range<usize>,
}

/// What windows must fit.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Tiles that the memory of each device has room for.
    pub capacity: u64,
    /// Steps of the factors that a device has at the same time.
    pub depth: usize,
    /// Devices that share the windows.
    pub devices: usize,
}

/// A result that is cut into windows: into equal parts along the rows and along the columns, or parts that
/// differ by one tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Rows and columns of tiles of the result.
    tiles: [usize; 2],
    /// Parts of the rows, and of the columns.
    parts: [usize; 2],
}

/// Tiles that a window of this many rows and columns takes on a device.
pub fn held([rows, columns]: [usize; 2], depth: usize) -> u64 {
    let [rows, columns, depth] = [rows, columns, depth].map(|count| count as u64);
    let factors = depth.saturating_mul(rows.saturating_add(columns));
    rows.saturating_mul(columns).saturating_add(factors)
}

impl Windows {
    /// The largest windows of a result of `tiles` rows and columns of tiles that fit; `None` if not even one
    /// tile does. Before all, as few devices as possible go without a window in the last round. Of equally
    /// large windows the fewest, then those nearest to a square, are taken, then those of fewer rows.
    pub fn largest(tiles: [usize; 2], rule: Rule) -> Option<Windows> {
        let devices = rule.devices.max(1);
        let mut best = None;
        for rows in 1..=tiles[0] {
            for columns in 1..=tiles[1] {
                let windows = Windows { tiles, parts: [rows, columns] };
                let [height, width] = windows.most();
                if held([height, width], rule.depth) > rule.capacity {
                    continue;
                }
                let idle = (devices - rows * columns % devices) % devices;
                let order = (idle, usize::MAX - height * width, rows * columns, height + width, height);
                if best.is_none_or(|(least, _)| order < least) {
                    best = Some((order, windows));
                }
            }
        }
        best.map(|(_, windows)| windows)
    }

    /// Rows and columns of tiles of the largest window.
    pub fn most(&self) -> [usize; 2] {
        [0, 1].map(|axis| self.tiles[axis].div_ceil(self.parts[axis]))
    }

    /// The number of windows.
    pub fn len(&self) -> usize {
        self.parts[0] * self.parts[1]
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How often each tile of `a`, and each of `b`, is loaded: by the windows beside and above each other.
    pub fn loads(&self) -> [usize; 2] {
        [self.parts[1], self.parts[0]]
    }

    /// All of them, row by row.
    pub fn iter(self) -> impl Iterator<Item = Window> + Send {
        let part = move |axis: usize, i: usize| {
            let first = |i: usize| i * self.tiles[axis] / self.parts[axis];
            first(i)..first(i + 1)
        };
        let along = move |row| (0..self.parts[1]).map(move |column| (row, column));
        (0..self.parts[0])
            .flat_map(along)
            .map(move |(row, column)| Window { rows: part(0, row), columns: part(1, column) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(capacity: u64, depth: usize, devices: usize) -> Rule {
        Rule { capacity, depth, devices }
    }

    #[test]
    fn what_fits_is_one_window_and_less_room_makes_more() {
        let of = |capacity| Windows::largest([4, 4], rule(capacity, 2, 1)).map(|windows| windows.most());
        // 16 tiles of the result, and 2 (4 + 4) of the factors.
        assert_eq!(of(32), Some([4, 4]));
        assert_eq!(of(31), Some([2, 4]));
        assert_eq!(of(20), Some([2, 4]));
        assert_eq!(of(19), Some([2, 2]));
        assert_eq!(of(5), Some([1, 1]));
        assert_eq!(of(4), None);
    }

    #[test]
    fn each_device_gets_windows() {
        let of = |tiles, devices| Windows::largest(tiles, rule(u64::MAX, 2, devices)).expect("room");
        assert_eq!((of([4, 4], 4).most(), of([4, 4], 4).len()), ([2, 2], 4));
        assert_eq!(of([1, 6], 3).most(), [1, 2]);
        // No three equal parts of four tiles: two devices have two each, and one has none.
        assert_eq!(of([2, 2], 3).len(), 2);
        assert_eq!(of([1, 1], 4).len(), 1);
    }

    #[test]
    fn great_numbers_do_not_overflow() {
        assert_eq!(held([usize::MAX, usize::MAX], 2), u64::MAX);
        assert_eq!(Windows::largest([3, 3], rule(u64::MAX, usize::MAX, 1)).map(|w| w.len()), Some(1));
        assert_eq!(Windows::largest([3, 3], rule(1 << 40, usize::MAX, 1)), None);
    }

    /// The tiles of all windows of a partition, written out.
    fn written_out(tiles: [usize; 2], [rows, columns]: [usize; 2]) -> Vec<Vec<(usize, usize)>> {
        let part = |of: usize, parts: usize, at: usize| {
            // The number of the part that an index belongs to.
            (0..parts).find(|p| at < (p + 1) * of / parts).expect("a part")
        };
        let mut windows = vec![Vec::new(); rows * columns];
        for i in 0..tiles[0] {
            for j in 0..tiles[1] {
                windows[part(tiles[0], rows, i) * columns + part(tiles[1], columns, j)].push((i, j));
            }
        }
        windows
    }

    proptest! {
        /// A naive search: each partition is written out tile by tile, and what each of its windows takes is
        /// counted.
        #[test]
        fn windows_are_those_of_a_naive_search(
            rows in 1..9usize, columns in 1..9usize, depth in 1..4usize, devices in 1..6usize, capacity in 0..120u64
        ) {
            let tiles = [rows, columns];
            let mut candidates = Vec::new();
            for parts in (1..=rows).flat_map(|r| (1..=columns).map(move |c| [r, c])) {
                let windows = written_out(tiles, parts);
                let distinct = |of: &mut dyn Iterator<Item = usize>| {
                    of.collect::<std::collections::BTreeSet<_>>().len()
                };
                let fits = windows.iter().all(|window| {
                    let of_a = distinct(&mut window.iter().map(|tile| tile.0));
                    let of_b = distinct(&mut window.iter().map(|tile| tile.1));
                    (window.len() + depth * (of_a + of_b)) as u64 <= capacity
                });
                if fits {
                    let largest = windows.iter().map(Vec::len).max().expect("a window");
                    let idle = windows.len().next_multiple_of(devices) - windows.len();
                    candidates.push((idle, std::cmp::Reverse(largest), windows.len()));
                }
            }
            let found = Windows::largest(tiles, rule(capacity, depth, devices));
            prop_assert_eq!(found.is_some(), !candidates.is_empty());
            let Some(found) = found else { return Ok(()) };
            let all: Vec<Vec<_>> = found
                .iter()
                .map(|window| {
                    let columns = window.columns;
                    window.rows.flat_map(|i| columns.clone().map(move |j| (i, j))).collect()
                })
                .collect();
            prop_assert_eq!(&all, &written_out(tiles, found.parts));
            let idle = all.len().next_multiple_of(devices) - all.len();
            let largest = all.iter().map(Vec::len).max().expect("a window");
            let best = candidates.iter().min().expect("one");
            prop_assert_eq!(&(idle, std::cmp::Reverse(largest), all.len()), best);
            prop_assert_eq!(largest, found.most()[0] * found.most()[1]);
        }
    }
}
