//! Proofs about a launch before it runs: bounds, exclusive elements, no overlap of arguments.

use super::arena::Bump;
use super::facts::{ArgumentFacts, KernelFacts};
use crate::error::Error;
use crate::memory::{ArrayInner, ArrayLayout};
use flash_types::abi::{self, Arg};
use flash_types::descriptor::{Access, View};
use flash_types::index::{Dim, IndexError, Order, item_is_exclusive};
use smallvec::SmallVec;
use std::ops::Range;

pub(super) fn check_size(shape: &[u64], len: u64) -> Result<(), String> {
    match shape.iter().try_fold(1u64, |a, &b| a.checked_mul(b)) {
        Some(product) if product <= len => Ok(()),
        _ => Err(format!(
            "sizes(..) gives the shape {shape:?}, the array has {len} elements: make it longer or the shape smaller"
        )),
    }
}

#[cold]
pub(super) fn argument_error(kernel: &KernelFacts, i: usize, text: String) -> Error {
    Error::Argument {
        kernel: kernel.descriptor.name.clone(),
        argument: kernel.descriptor.arguments.get(i).map_or_else(|| format!("#{i}"), |a| a.name.clone()),
        text: with_names(kernel, text),
    }
}

#[cold]
pub(super) fn index_error(kernel: &KernelFacts, error: IndexError) -> Error {
    let mut text = with_names(kernel, error.to_string());
    if let IndexError::DimCount { .. } = error {
        text.push_str(&format!(" ({})", kernel.descriptor.dimensions.join(", ")));
    }
    Error::Index { kernel: kernel.descriptor.name.clone(), text, source: error }
}

/// The dimensions' names in place of their numbers.
fn with_names(kernel: &KernelFacts, mut text: String) -> String {
    // The highest first: `dimension 1` begins `dimension 10`.
    for (number, name) in kernel.descriptor.dimensions.iter().enumerate().rev() {
        text = text.replace(&format!("dimension {number}"), &format!("dimension `{name}`"));
    }
    text
}

/// The addresses of an argument.
pub(super) fn bytes_of(arg: &Arg) -> Range<usize> {
    let first = arg.data.addr();
    first..first + arg.len as usize * arg.element_size as usize
}

/// True if some byte is in both.
pub(super) fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start.max(b.start) < a.end.min(b.end)
}

/// Refuses two arguments that overlap, at least one of them written. `are_apart`: two of them with these
/// numbers have no element in common, although there are bytes between first and last of both.
#[inline]
pub(super) fn disjoint(
    kernel: &KernelFacts,
    args: &[Arg],
    are_apart: impl Fn(usize, usize) -> bool,
) -> Result<(), Error> {
    let range = |a: &Arg| {
        let start = a.data as usize;
        start..start + a.len as usize * a.element_size as usize
    };
    for (i, a) in args.iter().enumerate() {
        if a.kind == abi::ARG_SCALAR || a.access == abi::ACCESS_READ {
            continue;
        }
        let mine = range(a);
        for (j, b) in args.iter().enumerate() {
            if i == j || b.kind == abi::ARG_SCALAR {
                continue;
            }
            let other = range(b);
            let meet = mine.start < other.end && other.start < mine.end;
            // An empty part overlaps nothing, wherever it lies.
            if meet && !mine.is_empty() && !other.is_empty() && !are_apart(i, j) {
                return Err(overlap_error(kernel, i, j));
            }
        }
    }
    Ok(())
}

#[cold]
fn overlap_error(kernel: &KernelFacts, written: usize, other: usize) -> Error {
    let name = |i: usize| kernel.descriptor.arguments.get(i).map_or("?", |a| a.name.as_str());
    argument_error(
        kernel,
        written,
        format!(
            "it is written and overlaps argument `{}` in memory: pass memories or ranges that are apart",
            name(other)
        ),
    )
}

#[cold]
pub(super) fn outside(value: u64, extent: u64, tile: u64, dimension: usize) -> String {
    let tiles = match tile {
        1 => String::new(),
        _ => format!(", {} tiles of {tile}", extent.div_ceil(tile)),
    };
    format!(
        "dimension {dimension} reaches the value {value}, the array has {extent} elements along it{tiles}: launch fewer work items or pass a longer array"
    )
}

#[cold]
pub(super) fn wrong_rank(axes: usize, row: bool, shape: &[u64]) -> String {
    format!(
        "its index names {axes} axes{}, the array has the shape {shape:?}: pass it in a shape of {} extents, as `memory.view([..])?`, or give its shape with `.sizes(..)`",
        if row { " beside its row" } else { "" },
        axes + usize::from(row),
    )
}

/// An array as the index names it.
pub(super) struct ItemGrid {
    /// Extents of the axes that the index names, in the order of `along`.
    pub extents: SmallVec<[u64; 4]>,
    /// Elements in a row, which is the axis before those; 1 without rows.
    pub row_len: u64,
}

/// The grid of an `Item` or `Phased` argument of `len` elements, and the proof that the index values lie
/// inside. There are items.
pub(super) fn item_grid(
    dims: &[Dim],
    spec: &ArgumentFacts,
    shape: &[u64],
    len: u64,
) -> Result<ItemGrid, String> {
    if spec.tile.len() > spec.along.len() {
        return Err(format!(
            "its tiles have {} axes, and its index names {}: name a dimension for each, as in `#[along(x, y)]`, or make it a `Block`",
            spec.tile.len(),
            spec.along.len()
        ));
    }
    if spec.along.is_empty() && !spec.row {
        // A `Uniform`.
        return match len {
            1 => Ok(ItemGrid { extents: SmallVec::new(), row_len: 1 }),
            _ => Err(format!(
                "it is one element for all work items, the array has {len} elements: pass an array or a range of one element"
            )),
        };
    }
    let largest = |dim: usize| dims[dim].max_value().unwrap_or(0);
    let extent_of = |dim: usize| {
        largest(dim)
            .checked_add(1)
            .ok_or_else(|| format!("dimension {dim} reaches the value 2^64 - 1, which no array has"))
    };
    // Extents of the axes that the index names, and the row's length.
    let mut extents: SmallVec<[u64; 4]> = SmallVec::new();
    let rows = usize::from(spec.row);
    if !shape.is_empty() {
        if shape.len() != spec.along.len() + rows {
            return Err(wrong_rank(spec.along.len(), spec.row, shape));
        }
        extents.extend_from_slice(&shape[rows..]);
    } else if spec.tile.is_empty() {
        for &dim in &spec.along {
            extents.push(extent_of(dim)?);
        }
    } else if spec.along.len() == 1 {
        // The last tile may have fewer elements than the others.
        extents.push(len);
    } else {
        return Err(
            "work items own tiles of it: pass it in a shape, as `memory.view([..])?`, or give its shape with `.sizes(..)`"
                .into(),
        );
    }
    for (axis, (&dim, &extent)) in spec.along.iter().zip(&extents).enumerate() {
        let tile = spec.tile_along(axis);
        if largest(dim) >= extent.div_ceil(tile) {
            return Err(outside(largest(dim), extent, tile, dim));
        }
    }
    let product = extents.iter().try_fold(1u64, |a, &b| a.checked_mul(b));
    let Some(product) = product else {
        return Err(format!("an array of extents {extents:?} has more than 2^64 elements"));
    };
    let row_len = match (spec.row, shape.first()) {
        (false, _) => 1,
        (true, Some(&row)) => row,
        (true, None) => {
            if !len.is_multiple_of(product) {
                return Err(format!(
                    "{product} rows of equal length were expected, the array has {} elements: pass it in a shape, row length first, as `memory.view([..])?`, or give its shape with `.sizes(..)`",
                    len
                ));
            }
            len / product
        }
    };
    match product.checked_mul(row_len) {
        Some(needed) if needed <= len => {}
        needed => {
            return Err(format!(
                "the index reaches {} elements, the array has {}: launch fewer work items or pass a longer array",
                needed.map_or("more than 2^64".to_owned(), |n| n.to_string()),
                len
            ));
        }
    }
    Ok(ItemGrid { extents, row_len })
}

/// What to do with a view that has gaps where none may be.
pub(super) const COPY: &str = "copy its elements to an array of their own first (`pipeline.copy(..)`)";

/// Whether an argument can be a view with gaps. `given`: `sizes(..)` gives it another shape.
pub(super) fn prove_gaps(spec: &ArgumentFacts, layout: &ArrayLayout<'_>, given: bool) -> Result<(), String> {
    let ArrayLayout { extents, strides } = *layout;
    let view = format!("it is a view with gaps, of the shape {extents:?} and the strides {strides:?}");
    if given {
        return Err(format!("{view}, and `sizes(..)` gives it another shape: leave that out"));
    }
    let is_window = spec.view == View::Window && spec.rows.is_none();
    if spec.view != View::Item && !is_window {
        return Err(format!("{view}, and only an `Item` or a `Window` may have gaps: {COPY}"));
    }
    if is_window && strides[0] != 1 {
        return Err(format!(
            "{view}, and the elements of a `Window` have to be adjacent along axis 0: {COPY}"
        ));
    }
    // A work item gets the elements of a row, block or tile as one slice, or as rows of a box.
    let is_adjacent = strides[0] == 1;
    let is_beyond = |axis: usize| {
        let inner = strides[axis - 1];
        strides[axis].is_multiple_of(inner) && strides[axis] / inner >= extents[axis - 1]
    };
    let is_nested = is_adjacent && (1..extents.len()).all(is_beyond);
    if spec.row && !is_adjacent || !spec.tile.is_empty() && !is_nested {
        let what = if spec.row { "rows" } else { "blocks or tiles" };
        return Err(format!("{view}, and the elements of its {what} have to be adjacent: {COPY}"));
    }
    Ok(())
}

/// Strides of an item argument, and the proof that its elements lie inside and are exclusive. True if
/// the launch covers the whole array.
pub(super) fn prove_item(
    order: &Order,
    dims: &[Dim],
    spec: &ArgumentFacts,
    layout: &ArrayLayout<'_>,
    arg: &mut Arg,
    bump: &mut Bump,
) -> Result<bool, String> {
    let place: *mut u64 = bump.alloc(dims.len() * size_of::<u64>()).cast();
    arg.strides = place;
    // SAFETY: the arena gave room for one stride per dimension, aligned to 16 bytes.
    let strides = unsafe { std::slice::from_raw_parts_mut(place, dims.len()) };
    strides.fill(0);
    if order.items() == 0 {
        return Ok(false);
    }
    let ItemGrid { extents, row_len } = item_grid(dims, spec, layout.extents, arg.len)?;
    arg.row_len = row_len;
    let product: u64 = extents.iter().product();
    let mut adjacent = row_len;
    for (axis, (&dim, &extent)) in spec.along.iter().zip(&extents).enumerate() {
        let stride = layout.strides.get(axis + usize::from(spec.row)).copied().unwrap_or(adjacent);
        // Of an axis with one tile, which may be larger, no stride is used.
        strides[dim] = stride.saturating_mul(spec.tile_along(axis));
        adjacent *= extent;
    }
    let covers = |axis: usize, extent: u64| {
        let dim = &dims[spec.along[axis]];
        dim.distinct() && dim.len() == extent.div_ceil(spec.tile_along(axis))
    };
    let all = product * row_len == arg.len
        && extents.iter().enumerate().all(|(axis, &extent)| covers(axis, extent));
    if spec.access != Access::Read {
        item_is_exclusive(order, dims, &spec.along).map_err(|failure| failure.to_string())?;
    }
    if spec.view == View::Phased {
        prove_phased(order, dims, spec, arg, all)?;
    }
    Ok(all)
}

/// The argument that says where the rows of another one begin.
pub(super) struct RowStarts<'a> {
    pub len: u64,
    /// If it is all of a memory.
    pub memory: Option<&'a ArrayInner>,
}

/// Proves that the rows that a launch names exist, lie inside an array of this shape and length and, where it
/// is written, that each is of one work item alone.
pub(super) fn prove_ragged(
    order: &Order,
    dims: &[Dim],
    spec: &ArgumentFacts,
    starts: &RowStarts<'_>,
    (shape, len): (&[u64], u64),
) -> Result<(), String> {
    let Some(end) = starts.memory.and_then(ArrayInner::end_of_rows) else {
        return Err("where its rows begin is said by an array that may change, or of which nothing is known: pass `&RowOffsets`, which are known not to decrease (`RowOffsets::new(..)`)".into());
    };
    if shape.len() > 1 {
        return Err(format!(
            "its rows follow one another, the array has the shape {shape:?}: pass its elements without a shape, as `memory.range(..)?`"
        ));
    }
    if end > len {
        return Err(format!(
            "its rows end at element {end}, the array has {len} elements: pass a longer array, or other offsets"
        ));
    }
    let (rows, dim) = (starts.len - 1, spec.along[0]);
    if order.items() == 0 {
        return Ok(());
    }
    if let Some(largest) = dims[dim].max_value().filter(|largest| *largest >= rows) {
        return Err(format!(
            "dimension {dim} reaches the value {largest}, its offsets are of {rows} rows: launch fewer work items or pass more offsets"
        ));
    }
    if spec.access != Access::Read {
        item_is_exclusive(order, dims, &spec.along).map_err(|failure| failure.to_string())?;
    }
    Ok(())
}

/// A single accumulator is one element.
pub(super) fn prove_reduce(spec: &ArgumentFacts, arg: &Arg) -> Result<(), String> {
    if spec.single && arg.len != 1 {
        return Err(format!(
            "it is a single accumulator, the array has {} elements: pass an array or a range of one element, or declare `[T]` in the place of `T` for an array of accumulators",
            arg.len
        ));
    }
    Ok(())
}

fn prove_phased(
    order: &Order,
    dims: &[Dim],
    spec: &ArgumentFacts,
    arg: &mut Arg,
    all: bool,
) -> Result<(), String> {
    let Some((dim, uses)) = &spec.stages else {
        if all && spec.along.iter().all(|&dim| order.every_phase_spans(dim)) {
            arg.flags |= abi::ARG_FLAG_COVERED;
        }
        return Ok(());
    };
    arg.flags |= abi::ARG_FLAG_STAGED;
    arg.next = arg.data;
    if !order.constant_within_phases(*dim) {
        return Err(format!(
            "its use is declared per value of dimension {dim}, which changes inside a phase: add a barrier there (group_by)"
        ));
    }
    match dims[*dim].max_value() {
        Some(largest) if largest >= uses.len() as u64 => Err(format!(
            "its use is declared for the values 0 to {} of dimension {dim}, the launch reaches {largest}",
            uses.len() - 1
        )),
        _ => Ok(()),
    }
}
