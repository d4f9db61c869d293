//! The words of a launch for a cooperating kernel: those of `flash_launch`, and its table.
//!
//! `include/flash_device.h` reads them by the same numbers, so both change together: first the words of
//! the head, then those of each axis and each array, then, for a program with `FLASH_GRID`, strides. The
//! table has the details of arrays, if the text may read them, the words of a fault, if indices are
//! checked, and then listed values.
//!
//! [`KernelSpec::tell`] fills [`LaunchWords`] anew for each phase; the vectors are kept, so that most
//! launches allocate nothing. [`LaunchWords::in_runs`] and [`LaunchWords::as_grid`] convert them
//! afterwards. Where a kernel has 32-bit indices, `tell` refuses a launch whose indices need more.

use super::KernelSpec;
use super::bounds::end_of_accumulators;
use crate::failure::Failure;
use flash_types::Code;
use flash_types::abi::{self, Arg};
use flash_types::index::{Axes, Axis, SpaceRef};

/// `flash_axis.kind` of the header.
const CONSTANT: u64 = 0;
const LINE: u64 = 1;
const STEPS: u64 = 2;
const LISTED: u64 = 3;

/// Words of `flash_launch` before the axes.
const HEAD: usize = 5;
/// The word with the number of work items of a thread.
const RUN: usize = 4;
/// Words of an axis, and of an array.
const AXIS: usize = 5;
const ARRAY: usize = 4;
/// Words of an array's box, and the strides of its axes.
const BOX: usize = 8;

/// Words of an array's details, beside one for each dimension: `FLASH_DETAIL` of the header.
pub(super) const DETAIL: usize = 7;

/// The words of a launch: kept, and filled again.
#[derive(Clone, Debug, Default)]
pub struct LaunchWords {
    /// The struct `flash_launch`, word by word.
    pub words: Vec<u64>,
    /// The table: details of arrays, if the kernel may read them, then listed values.
    pub table: Vec<u64>,
    /// Work items of the phase.
    pub items: u64,
    /// Threads for them: the same number, unless several share one, or one has several.
    pub threads: u64,
    /// Work items of a work-group of a kernel with accumulators; 0 without.
    pub block: u64,
    /// A program with `FLASH_CONSECUTIVE` can run it.
    pub consecutive: bool,
    /// The first program can run it, if it is one for boxes or for consecutive values: arrays have the
    /// elements between neighbours along dimension 0 that are the way of their views, and the text's facts
    /// hold.
    pub simple: bool,
    /// Extents of the box for a program with `FLASH_GRID`, after [`as_grid`](LaunchWords::as_grid).
    pub grid: Option<[u64; 3]>,
    /// The beginning of the box, and its number of dimensions.
    begin: [u64; 3],
    dimensions: usize,
    /// If there is a box: for each array that an index names, per dimension; then the boxes of all arrays,
    /// for texts that use them.
    strides: Vec<u64>,
}

impl LaunchWords {
    /// Without any.
    pub(super) const fn new() -> LaunchWords {
        LaunchWords {
            words: Vec::new(),
            table: Vec::new(),
            items: 0,
            threads: 0,
            block: 0,
            consecutive: false,
            simple: false,
            grid: None,
            begin: [0; 3],
            dimensions: 0,
            strides: Vec::new(),
        }
    }

    /// The first and the last index along a dimension, of a box or of consecutive values.
    pub(super) fn indices(&self, dimension: usize) -> Option<(u64, u64)> {
        let (begin, count) = match self.grid {
            Some(extents) => (self.begin[dimension], extents[dimension]),
            None if self.consecutive && dimension == 0 => {
                let [_, _, first, ..] = self.words[..] else { return None };
                (self.words[HEAD + 1].wrapping_add(first), self.items)
            }
            None if self.consecutive => (self.words[HEAD + AXIS * dimension + 1], 1),
            None => return None,
        };
        Some((begin, begin.checked_add(count.checked_sub(1)?)?))
    }

    /// Converts the words for threads with several work items each, of a kernel without accumulators.
    pub fn in_runs(&mut self, run: u64) {
        self.words[RUN] = run;
        self.threads = self.items.div_ceil(run);
    }

    /// Converts the words for a program with `FLASH_GRID`, if there is a box: extents and strides instead of
    /// the words that divide a row.
    pub fn as_grid(&mut self) {
        let axes = self.words[HEAD..].chunks_mut(AXIS).take(self.dimensions).zip(self.begin);
        for ((axis, begin), extent) in axes.zip(self.grid.into_iter().flatten()) {
            (axis[1], axis[4]) = (begin, extent);
        }
        self.words.append(&mut self.strides);
    }
}

/// The box of a phase whose items are counted in steps of 1 along each dimension, dimension 0 first: its
/// beginning and its extents.
fn grid(axes: &Axes, items: u64) -> Option<([u64; 3], [u64; 3])> {
    let (mut begin, mut extents, mut before) = ([0; 3], [1; 3], 1);
    for (dim, axis) in axes.dims.iter().enumerate() {
        match *axis {
            Axis::Constant(value) => begin[dim] = value,
            Axis::Steps { start, step: 1, cell, count } if cell == before => {
                // The outermost one may begin later and have fewer values.
                let whole = count > 0 || (axes.first.is_multiple_of(cell) && items.is_multiple_of(cell));
                let (first, count) = if count > 0 { (0, count) } else { (axes.first / cell, items / cell) };
                (begin[dim], extents[dim]) = (start.wrapping_add(first), whole.then_some(count)?);
                before *= count;
            }
            _ => return None,
        }
    }
    (before == items).then_some((begin, extents))
}

impl KernelSpec {
    /// Bytes of the parameter `flash_launch`.
    pub fn told_bytes(&self) -> usize {
        let (dimensions, arrays) = (self.descriptor.dimensions.len(), self.arrays().count().max(1));
        8 * (HEAD + AXIS * dimensions + ARRAY * arrays + if self.strides { self.grid_words() } else { 0 })
    }

    /// Number of words of a program with `FLASH_GRID` after the others.
    fn grid_words(&self) -> usize {
        let boxes = if self.boxes { BOX * self.arrays().count().max(1) } else { 0 };
        self.stride_words() + boxes
    }

    /// Of these, the strides: an array that no index names has none.
    fn stride_words(&self) -> usize {
        self.descriptor.dimensions.len() * self.indexed().max(1)
    }

    /// Adds these words.
    fn add_grid(&self, args: &[Arg], to: &mut Vec<u64>) {
        to.clear();
        let dimensions = self.descriptor.dimensions.len();
        self.arrays().filter(|at| self.is_indexed(*at)).for_each(|at| strides(&args[at], dimensions, to));
        to.resize(self.stride_words(), 0);
        for argument in self.arrays().filter(|_| self.boxes) {
            let arg = &args[argument];
            to.extend(part(arg));
            to.extend(axes(arg));
        }
        to.resize(self.grid_words(), 0);
    }

    /// Gives up boxes among the parameters, and then `FLASH_GRID`, where these exceed `most`, the device's
    /// limit.
    pub(super) fn limit_grid(&mut self, most: usize) {
        let others = self.parameter_sizes().iter().sum::<usize>();
        self.boxes &= others + 8 * self.grid_words() <= most;
        self.grid &= others + 8 * self.grid_words() <= most;
    }

    /// Fills in the words of one phase. `odd`: the buffers of phased arguments have changed places.
    ///
    /// # Errors
    /// [`Code::Invalid`] if the launch's indices do not fit into the 32 bits that the kernel uses, or the
    /// numbers of its dimensions or arguments differ from the definition's.
    pub fn tell(
        &self,
        space: SpaceRef<'_>,
        phase: u64,
        args: &[Arg],
        odd: bool,
        told: &mut LaunchWords,
    ) -> Result<(), Failure> {
        let (dimensions, arguments) = (space.dims().len(), self.descriptor.arguments.len());
        if dimensions != self.descriptor.dimensions.len() || args.len() != arguments {
            return Err(Failure::new(
                Code::Invalid,
                format!(
                    "{}: expected {} dimensions and {arguments} arguments, found {dimensions} and {}",
                    self.title,
                    self.descriptor.dimensions.len(),
                    args.len()
                ),
            ));
        }
        told.words.clear();
        told.table.clear();
        // In the order of `FLASH_DETAIL`.
        for argument in self.arrays().filter(|_| self.details) {
            detail(&args[argument], dimensions, &mut told.table);
        }
        if self.check_bounds {
            self.add_fault(args, &mut told.table);
        }
        let rows = space.phase(phase);
        told.items = rows.end - rows.start;
        told.threads = told.items.saturating_mul(self.threads_per_item);
        told.block = args.iter().filter(|a| a.kind == abi::ARG_REDUCE).map(|a| a.row_len).max().unwrap_or(0);
        let axes = space.axes(phase);
        let first = axes.as_ref().map_or(0, |axes| axes.first);
        let narrow = u64::from(first + told.items <= u64::from(u32::MAX));
        let takes_apart =
            |axis: &Axis| !matches!(axis, Axis::Constant(_) | Axis::Steps { cell: 1, count: 0, .. });
        if self.index32 && narrow == 0 && axes.as_ref().is_none_or(|axes| axes.dims.iter().any(takes_apart)) {
            return Err(self.wide(&format!("has {} work items", first + told.items)));
        }
        told.words.extend([phase, told.items, first, narrow, told.block]);
        if let (Some(run), 0) = (self.items_per_thread, told.block) {
            told.in_runs(run);
        }
        (told.grid, told.dimensions) = (None, dimensions);
        if let Some((begin, extents)) = axes.as_ref().filter(|_| self.grid).and_then(|a| grid(a, told.items))
        {
            (told.begin, told.grid) = (begin, Some(extents));
            self.add_grid(args, &mut told.strides);
        }
        match axes {
            Some(axes) => {
                for (dim, axis) in axes.dims.iter().enumerate() {
                    let words = match axis {
                        // A single item is a line, too.
                        Axis::Constant(value) if dim == 0 && told.items == 1 => {
                            self.fits(*value)?;
                            [LINE, value.wrapping_sub(first), 1, 1, 0]
                        }
                        axis => self.axis(axis, first + told.items, &mut told.table)?,
                    };
                    told.words.extend(words);
                }
            }
            None => self.list(space, rows, told)?,
        }
        let axes = told.words[HEAD..].chunks(AXIS);
        told.consecutive = axes.enumerate().all(|(dim, axis)| match dim {
            0 => axis[0] == LINE && axis[2] == 1,
            _ => axis[0] == CONSTANT,
        });
        told.simple = self.arrays().all(|argument| {
            let unit = self.unit(argument);
            unit.is_none_or(|unit| first_stride(&args[argument], dimensions) == unit)
        });
        told.simple &= self.facts.iter().all(|fact| fact.holds(args, told));
        for argument in self.arrays() {
            let arg = &args[argument];
            let mut words = array(arg, odd);
            if let Some(end) = end_of_accumulators(arg, told.items).filter(|_| self.check_bounds) {
                words[3] = end;
            }
            told.words.extend(words);
        }
        // A kernel without arrays has a struct with one, since C has no empty arrays.
        told.words.resize(self.told_bytes() / 8, 0);
        Ok(())
    }

    /// The words of an axis over `rows` rows.
    fn axis(&self, axis: &Axis, rows: u64, table: &mut Vec<u64>) -> Result<[u64; AXIS], Failure> {
        Ok(match axis {
            Axis::Constant(value) => {
                self.fits(*value)?;
                [CONSTANT, *value, 0, 1, 0]
            }
            Axis::Steps { start, step, cell, count } => {
                let last = match count {
                    0 => (rows - 1) / cell,
                    count => count - 1,
                };
                self.fits(*start)?;
                self.fits(start.wrapping_add(last.wrapping_mul(*step as u64)))?;
                let kind = if *cell == 1 && *count == 0 { LINE } else { STEPS };
                [kind, *start, *step as u64, *cell, *count]
            }
            Axis::Listed { values, cell, count } => {
                values.iter().try_for_each(|&value| self.fits(value))?;
                let start = table.len() as u64;
                table.extend(values);
                [LISTED, start, 0, *cell, *count]
            }
        })
    }

    /// Rows that axes cannot express, listed one by one.
    fn list(
        &self,
        space: SpaceRef<'_>,
        rows: std::ops::Range<u64>,
        told: &mut LaunchWords,
    ) -> Result<(), Failure> {
        let mut values = vec![0; space.dims().len()];
        let start = told.table.len();
        let items = (rows.end - rows.start) as usize;
        told.table.resize(start + items * values.len(), 0);
        for (item, row) in rows.enumerate() {
            space.value(row, &mut values);
            for (dim, &value) in values.iter().enumerate() {
                self.fits(value)?;
                told.table[start + dim * items + item] = value;
            }
        }
        let axis = |dim: usize| [LISTED, (start + dim * items) as u64, 0, 1, 0];
        told.words.extend((0..values.len()).flat_map(axis));
        Ok(())
    }

    /// Refuses an index that does not fit a kernel with 32-bit indices.
    fn fits(&self, index: u64) -> Result<(), Failure> {
        match !self.index32 || index <= u64::from(u32::MAX) {
            true => Ok(()),
            false => Err(self.wide(&format!("reaches {index}"))),
        }
    }

    fn wide(&self, found: &str) -> Failure {
        let text = format!(
            "{}: it uses FLASH_INDEX32, for indices and work items up to {}, and the launch {found}: use FLASH_INDEX, or a smaller space",
            self.title,
            u32::MAX
        );
        Failure::new(Code::Invalid, text)
    }
}

/// Details of an array: a row's elements, its part, its strides.
fn detail(arg: &Arg, dimensions: usize, table: &mut Vec<u64>) {
    table.push(arg.row_len);
    table.extend(part(arg));
    strides(arg, dimensions, table);
}

/// Begin and end of an array's part along three axes.
pub(super) fn part(arg: &Arg) -> [u64; 6] {
    // SAFETY: a launch's parts live for the call.
    match unsafe { arg.part.as_ref() } {
        Some(abi::Part { begin: [x, y, z], end: [u, v, w], .. }) => [*x, *y, *z, *u, *v, *w],
        // Without a part it is complete, and has one axis.
        None => [0, 0, 0, arg.len, 1, 1],
    }
}

/// Elements between neighbours along axes 1 and 2 of an array.
pub(super) fn axes(arg: &Arg) -> [u64; 2] {
    // SAFETY: a launch's parts live for the call. Without one the array has one axis.
    unsafe { arg.part.as_ref() }.map_or([arg.len; 2], |part| part.stride)
}

/// Elements between neighbours along dimension 0.
fn first_stride(arg: &Arg, dimensions: usize) -> u64 {
    match arg.strides.is_null() || dimensions == 0 {
        true => 0,
        // SAFETY: a launch's strides are one per dimension and live for the call.
        false => unsafe { *arg.strides },
    }
}

fn strides(arg: &Arg, dimensions: usize, to: &mut Vec<u64>) {
    match arg.strides.is_null() {
        true => to.resize(to.len() + dimensions, 0),
        // SAFETY: a launch's strides are one per dimension and live for the call.
        false => to.extend(unsafe { std::slice::from_raw_parts(arg.strides, dimensions) }),
    }
}

/// The words of an array: the byte offsets of its buffers from its first element, its length, and the end of
/// its present elements.
fn array(arg: &Arg, odd: bool) -> [u64; ARRAY] {
    // SAFETY: a launch's parts live for the call.
    let part = unsafe { arg.part.as_ref() };
    let end = part.map_or(arg.len, end_of);
    let origins = match part {
        Some(part) if arg.space != abi::SPACE_HOST => (part.origin, part.next_origin),
        // Addresses are those of element 0.
        _ => (0, 0),
    };
    let bytes = |elements: u64| elements.wrapping_mul(u64::from(arg.element_size));
    let (origin, next) = (bytes(origins.0), bytes(origins.1));
    match odd && arg.kind == abi::ARG_PHASED && arg.flags & abi::ARG_FLAG_STAGED == 0 {
        false => [origin, next, arg.len, end],
        true => [next, origin, arg.len, end],
    }
}

/// One past the number of a part's last element.
pub(super) fn end_of(part: &abi::Part) -> u64 {
    match part.end.contains(&0) {
        true => 0,
        false => part.end[0] + (part.end[1] - 1) * part.stride[0] + (part.end[2] - 1) * part.stride[1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(start: u64, cell: u64, count: u64) -> Axis {
        Axis::Steps { start, step: 1, cell, count }
    }

    fn of(first: u64, dims: impl IntoIterator<Item = Axis>, items: u64) -> Option<([u64; 3], [u64; 3])> {
        grid(&Axes { first, dims: dims.into_iter().collect() }, items)
    }

    #[test]
    fn a_phase_is_a_box_if_its_items_fill_one_in_natural_order() {
        let line = [steps(3, 1, 0), Axis::Constant(7), Axis::Constant(8)];
        assert_eq!(of(0, line.clone(), 5), Some(([3, 7, 8], [5, 1, 1])));
        // A phase that begins later in its sweep.
        assert_eq!(of(2, line, 5), Some(([5, 7, 8], [5, 1, 1])));
        let planes = |first, items| of(first, [steps(1, 1, 4), steps(2, 4, 3), steps(5, 12, 0)], items);
        assert_eq!(planes(0, 24), Some(([1, 2, 5], [4, 3, 2])));
        assert_eq!(planes(36, 24), Some(([1, 2, 8], [4, 3, 2])));
        assert_eq!(planes(6, 24), None);
        assert_eq!(planes(0, 30), None);
        assert_eq!(of(0, [steps(1, 3, 0), steps(2, 1, 3)], 6), None);
        assert_eq!(of(0, [Axis::Steps { start: 0, step: 2, cell: 1, count: 0 }], 6), None);
        assert_eq!(of(0, [Axis::Listed { values: vec![4, 2], cell: 1, count: 0 }], 2), None);
        assert_eq!(of(0, [Axis::Constant(4), Axis::Constant(2)], 1), Some(([4, 2, 0], [1; 3])));
    }
}
