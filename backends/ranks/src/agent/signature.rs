//! What a kernel's code relies on of its arguments: their number, kinds, elements and strides. A launch that
//! came is compared with it, as the controller's word does not count.

use crate::wire::{OwnedLaunch, Values, bad};
use flash_backend::__host::{takes_parts, takes_strides};
use flash_backend::Failure;
use flash_backend::abi::{self, Arg, Implementation};
use flash_backend::descriptor::{Access, ArgumentDescriptor, KernelDescriptor, View};
use flash_backend::index::SpaceRef;

/// The arguments of a kernel.
pub(super) struct Signature {
    dimensions: usize,
    arguments: Vec<ArgumentDescriptor>,
    /// It may get a part of a launch.
    takes_parts: bool,
    /// It takes any strides.
    takes_strides: bool,
}

impl Signature {
    /// # Errors
    /// A descriptor that cannot be read.
    pub fn of(implementation: &'static Implementation) -> Result<Signature, Failure> {
        // SAFETY: texts of an implementation live as long as it does.
        let text = unsafe { implementation.descriptor.as_str() };
        let descriptor = KernelDescriptor::from_json(text)
            .map_err(|why| bad(format!("a kernel's descriptor that cannot be read: {why}")))?;
        Ok(Signature {
            dimensions: descriptor.dimensions.len(),
            arguments: descriptor.arguments,
            takes_parts: takes_parts(implementation),
            takes_strides: takes_strides(implementation),
        })
    }

    /// # Errors
    /// What does not fit.
    pub fn check(&self, launch: &OwnedLaunch) -> Result<(), Failure> {
        let (dims, args) = (launch.space().ndims as usize, launch.args());
        if (dims, args.len()) != (self.dimensions, self.arguments.len()) {
            return Err(bad(format!(
                "a launch of {dims} dimensions and {} arguments, expected {} and {}",
                args.len(),
                self.dimensions,
                self.arguments.len()
            )));
        }
        let phases = launch.phases.end - launch.phases.start;
        let mut known = None;
        for (expected, arg) in self.arguments.iter().zip(args) {
            let of_it = |what| bad(format!("argument `{}`: {what}", expected.name));
            fits(expected, arg, dims, phases).map_err(of_it)?;
            let is_own = matches!(expected.view, View::Item | View::Phased);
            if !is_own || dims == 0 || launch.space().items == 0 {
                continue;
            }
            // SAFETY: `wire::owned` has checked the space. It has also checked that each dimension has a
            // stride.
            let (space, strides) =
                unsafe { (SpaceRef::new(launch.space()), std::slice::from_raw_parts(arg.strides, dims)) };
            if !self.takes_strides || expected.view == View::Phased {
                is_adjacent(expected, arg, strides).map_err(of_it)?;
            }
            let values = match &mut known {
                Some(values) => values,
                none => none.insert(space.values_of()?),
            };
            match expected.tile.is_empty() {
                false => tiles_fit(expected, arg, strides, values).map_err(of_it)?,
                true if expected.access == Access::Read => {}
                true => are_apart(expected, arg, strides, values).map_err(of_it)?,
            }
        }
        // Where one array is copied from buffer to buffer, all are; those with parts in them cannot be.
        let two =
            args.iter().filter(|arg| arg.kind == abi::ARG_PHASED && arg.flags & abi::ARG_FLAG_STAGED == 0);
        let has = |flag: u64| move |arg: &&Arg| arg.flags & flag != 0;
        let stays = two.clone().filter(has(abi::ARG_FLAG_NEXT_STAYS)).count();
        if stays > 0 && !self.takes_parts {
            return Err(bad(format!(
                "{stays} arrays of which there are other parts, expected all of a launch"
            )));
        }
        let covered = two.clone().filter(has(abi::ARG_FLAG_COVERED)).count();
        if stays > 0 && covered < two.count() {
            return Err(bad(format!("{stays} arrays in parts of two buffers, beside some that are copied")));
        }
        Ok(())
    }
}

fn fits(expected: &ArgumentDescriptor, arg: &Arg, dims: usize, phases: u64) -> Result<(), String> {
    let ArgumentDescriptor { view, access, element, .. } = expected;
    let wanted = (view.code(), access.code(), element.size);
    let found = (arg.kind, arg.access, arg.element_size as usize);
    if found != wanted {
        return Err(format!("kind, access and bytes of an element are {found:?}, expected {wanted:?}"));
    }
    if matches!(view, View::Item | View::Phased) {
        if arg.strides.is_null() || !expected.row && arg.row_len != 1 {
            return Err(format!("rows of {} elements, expected one and strides", arg.row_len));
        }
        // SAFETY: one per dimension, as `wire::owned` has checked, in the launch that this borrows.
        let strides = unsafe { std::slice::from_raw_parts(arg.strides, dims) };
        let strays = |dim: &usize| strides[*dim] != 0 && !expected.along.contains(dim);
        if let Some(dim) = (0..dims).find(strays) {
            return Err(format!("a stride of {} along dimension {dim}, expected 0", strides[dim]));
        }
    }
    if *view == View::Reduce && arg.len != 1 && !expected.reduce.as_ref().is_some_and(|all| all.array) {
        return Err(format!("{} accumulators, expected one", arg.len));
    }
    let is_staged = arg.flags & abi::ARG_FLAG_STAGED != 0;
    if *view == View::Phased && is_staged != expected.stages.is_some() {
        return Err(format!("staged: {is_staged}, expected {}", !is_staged));
    }
    if arg.flags & abi::ARG_FLAG_NEXT_STAYS != 0 && phases > 1 {
        return Err(format!("what it writes stays apart in each of {phases} phases, expected one"));
    }
    let is_aligned = |address: *mut _| {
        let address: *mut std::ffi::c_void = address;
        element.align <= 1 || address.addr().is_multiple_of(element.align)
    };
    // Elsewhere the second one is a handle.
    if !is_aligned(arg.data) || arg.space == abi::SPACE_HOST && !is_aligned(arg.next) {
        return Err(format!("{:p} and {:p}, expected multiples of {}", arg.data, arg.next, element.align));
    }
    Ok(())
}

/// Kernels know the stride along axis 0 when they are compiled, where that is dimension 0, unless they ask.
fn is_adjacent(expected: &ArgumentDescriptor, arg: &Arg, strides: &[u64]) -> Result<(), String> {
    let known = expected.tile.first().copied().unwrap_or(arg.row_len);
    match strides[0] {
        stride if expected.along.first() == Some(&0) && stride != known => {
            Err(format!("a stride of {stride} along axis 0, expected {known}"))
        }
        _ => Ok(()),
    }
}

/// Items with other values of the dimensions that the index of an array names have other elements or rows:
/// neighbours along a dimension are farther apart than all that lies along those of smaller strides.
fn are_apart(
    expected: &ArgumentDescriptor,
    arg: &Arg,
    strides: &[u64],
    values: &[[u64; 2]],
) -> Result<(), String> {
    let mut along: Vec<usize> =
        expected.along.iter().copied().filter(|dim| values[*dim][0] < values[*dim][1]).collect();
    along.sort_unstable_by_key(|dim| strides[*dim]);
    let mut span = arg.row_len;
    for dim in along {
        if strides[dim] < span {
            return Err(format!(
                "a stride of {} along dimension {dim}, expected at least {span}",
                strides[dim]
            ));
        }
        let [first, last] = values[dim];
        span = span.saturating_add((last - first).saturating_mul(strides[dim]));
    }
    Ok(())
}

/// A kernel goes from the first element of a tile on as far as the part goes, which it knows by the index.
/// The first elements are in the part: `wire::owned` has checked that. So the strides have to be those of the
/// part's axes, and the index values have to be in it.
fn tiles_fit(
    expected: &ArgumentDescriptor,
    arg: &Arg,
    strides: &[u64],
    values: &[[u64; 2]],
) -> Result<(), String> {
    // SAFETY: a part is NULL, or lives as long as the launch.
    let Some(part) = (unsafe { arg.part.as_ref() }) else {
        return Err("no part of an array in tiles".into());
    };
    let [row, plane] = part.stride;
    let apart = row >= part.end[0].max(1) && plane.is_multiple_of(row) && plane / row >= part.end[1];
    if !apart {
        return Err(format!("rows and planes over each other: {part:?}"));
    }
    for (axis, &dim) in expected.along.iter().enumerate() {
        let own = expected.tile.get(axis).copied().unwrap_or(1);
        let step = [1, row, plane].get(axis).map(|stride| stride.saturating_mul(own));
        if step.is_some_and(|step| strides[dim] != step)
            || !strides[dim].is_multiple_of(step.unwrap_or(plane))
        {
            return Err(format!("a stride of {} along axis {axis}, expected {step:?}", strides[dim]));
        }
        let [first, last] = values[dim].map(|value| value.checked_mul(own));
        let is_there =
            |at: Option<u64>| at.is_some_and(|at| (part.begin[axis]..part.end[axis]).contains(&at));
        if axis < 2 && !(is_there(first) && is_there(last)) {
            return Err(format!("tiles from {first:?} to {last:?} along axis {axis} of {part:?}"));
        }
    }
    Ok(())
}
