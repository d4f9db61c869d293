//! Checks of launches that settings ask for. `FLASH_CHECK_BOUNDS=1`: of what a kernel indexes with, before it
//! runs. `FLASH_CHECK_WRITES=1`: that a kernel writes every element that it promised to write, and stores
//! each of a `Scatter` once.

use super::facts::{ArgumentFacts, KernelFacts};
use crate::error::Error;
use crate::kernel::{Candidate, ContentsCheck, WrongContents};
use crate::memory::ArrayLayout;
use crate::nested::KernelMark;
use flash_backend::caught;
use flash_types::abi::Arg;
use flash_types::index::{Dim, DynRuns, Order, value_range};
use smallvec::SmallVec;
use std::ops::Range;

/// Checks the contents of a launch's arguments.
///
/// # Safety
/// `args` are arguments of a launch of this kernel, with addresses in the host's memory. Scalars, and arrays
/// that the check reads, are present there and not written meanwhile.
pub(super) unsafe fn check_contents(
    check: &ContentsCheck,
    kernel: &KernelFacts,
    dims: &[Dim],
    args: &[Arg],
    layouts: &[ArrayLayout<'_>],
) -> Result<(), Error> {
    let values: SmallVec<[Range<u64>; 4]> = dims.iter().map(|dim| value_range(dim).0).collect();
    let shapes: SmallVec<[&[u64]; 8]> = layouts.iter().map(|layout| layout.extents).collect();
    // SAFETY: the caller vouches.
    let launch = unsafe { Candidate::new(&kernel.descriptor, &values, args, &shapes) };
    let marked = || {
        // The launch holds its memories already: a guard taken here would wait for itself.
        let _mark = KernelMark::set();
        check.call(launch)
    };
    let name = || kernel.descriptor.name.clone();
    match caught(marked) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(WrongContents { argument, text })) => Err(Error::argument(name(), argument, text)),
        Err(panic) => {
            let text = format!("the check of its contents panicked: {panic}");
            Err(Error::argument(name(), check.first(), text))
        }
    }
}

/// A byte that is rare in data.
const PATTERN: u8 = 0xa5;

/// The elements of write-only arguments in the launch's range, filled with a pattern.
pub(super) struct WriteCheck {
    /// Per argument, the runs of elements that some work item owns.
    promised: Vec<(usize, Vec<Range<u64>>)>,
}

/// The runs of elements of a work item whose first is `first`: a row, or the rows of a tile.
fn owned(spec: &ArgumentFacts, arg: &Arg, first: u64) -> impl Iterator<Item = Range<u64>> {
    // SAFETY: a part lives as long as the launch.
    let part = unsafe { arg.part.as_ref() }.filter(|_| !spec.tile.is_empty());
    let (rows, columns, pitch) = match part {
        Some(part) => {
            let [row, plane] = part.stride;
            let (x, y) = (first % row, first % plane / row);
            let rows = spec.tile_along(1).min(part.end[1] - y);
            (rows, spec.tile_along(0).min(part.end[0] - x), row)
        }
        None => (1, arg.row_len, 0),
    };
    (0..rows).map(move |y| first + y * pitch..first + y * pitch + columns)
}

/// Numbers for the elements of `Scatter`s, by which a kernel on the host's memory finds two stores of the
/// same one. They live as long as the launch.
pub(super) fn number_stores(kernel: &KernelFacts, args: &mut [Arg]) -> Vec<Vec<u32>> {
    let of_one = |(spec, arg): (&ArgumentFacts, &mut Arg)| {
        // Pages that no store touches are never there.
        let mut numbers = spec.is_scatter().then(|| vec![0; arg.len as usize])?;
        arg.next = numbers.as_mut_ptr().cast();
        Some(numbers)
    };
    kernel.arguments.iter().zip(args).filter_map(of_one).collect()
}

impl WriteCheck {
    pub fn begin(kernel: &KernelFacts, order: &Order, args: &[Arg]) -> WriteCheck {
        let mut promised = Vec::new();
        for (i, (spec, arg)) in kernel.arguments.iter().zip(args).enumerate() {
            if !spec.is_promised() || order.items() == 0 {
                continue;
            }
            // SAFETY: a proved argument has a stride per dimension.
            let strides =
                unsafe { std::slice::from_raw_parts(arg.strides, kernel.descriptor.dimensions.len()) };
            let mut elements = Vec::new();
            let view = order.view();
            let mut runs = DynRuns::new(view.get(), 0..order.items());
            while let Some(run) = runs.next_run() {
                let first: u64 = run.index.iter().zip(strides).map(|(v, s)| v * s).sum();
                let step = (run.step as u64).wrapping_mul(strides[run.dim]);
                elements.extend((0..run.count).map(|k| first.wrapping_add(k.wrapping_mul(step))));
            }
            elements.sort_unstable();
            elements.dedup();
            let runs: Vec<Range<u64>> =
                elements.into_iter().flat_map(|first| owned(spec, arg, first)).collect();
            let size = spec.element_size as usize;
            for run in &runs {
                // SAFETY: the index was proved to lie inside the array, which the launch holds.
                unsafe {
                    let at = arg.data.cast::<u8>().add(run.start as usize * size);
                    std::ptr::write_bytes(at, PATTERN, size * (run.end - run.start) as usize);
                }
            }
            promised.push((i, runs));
        }
        WriteCheck { promised }
    }

    pub fn end(self, kernel: &KernelFacts, args: &[Arg]) -> Result<(), Error> {
        for (i, runs) in self.promised {
            let (arg, size) = (&args[i], kernel.arguments[i].element_size as usize);
            let left = |mut run: Range<u64>| {
                run.find(|&e| {
                    // SAFETY: as in `begin`.
                    let bytes = unsafe {
                        std::slice::from_raw_parts(arg.data.cast::<u8>().add(e as usize * size), size)
                    };
                    size > 0 && bytes.iter().all(|&b| b == PATTERN)
                })
            };
            if let Some(element) = runs.into_iter().find_map(left) {
                return Err(Error::Argument {
                    kernel: kernel.descriptor.name.clone(),
                    argument: kernel.descriptor.arguments[i].name.clone(),
                    text: format!(
                        "FLASH_CHECK_WRITES: the definition promises to write every element, element {element} was left as it was: declare `ReadWrite`, or write it"
                    ),
                });
            }
        }
        Ok(())
    }
}
