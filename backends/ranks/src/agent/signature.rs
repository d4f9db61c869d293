//! What a kernel's code relies on of its arguments: their number, kinds, elements and strides. A launch that
//! came is compared with it, as the controller's word does not count.

use crate::wire::{OwnedLaunch, bad};
use flash_backend::__host::takes_parts;
use flash_backend::Failure;
use flash_backend::abi::{self, Arg, Implementation};
use flash_backend::descriptor::{ArgumentDescriptor, KernelDescriptor, View};

/// The arguments of a kernel.
pub(super) struct Signature {
    dimensions: usize,
    arguments: Vec<ArgumentDescriptor>,
    /// It may get a part of a launch.
    takes_parts: bool,
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
        for (expected, arg) in self.arguments.iter().zip(args) {
            let name = &expected.name;
            fits(expected, arg, dims, phases).map_err(|what| bad(format!("argument `{name}`: {what}")))?;
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
        let own = expected.tile.first().copied().unwrap_or(1);
        if arg.strides.is_null() || !expected.row && arg.row_len != own {
            return Err(format!("rows of {} elements, expected {own} and strides", arg.row_len));
        }
        if !expected.tile.is_empty() && arg.part.is_null() {
            return Err("no part of an array in tiles".into());
        }
        // SAFETY: one per dimension, as `wire::owned` has checked, in the launch that this borrows.
        let strides = unsafe { std::slice::from_raw_parts(arg.strides, dims) };
        let strays = |dim: &usize| strides[*dim] != 0 && !expected.along.contains(dim);
        if let Some(dim) = (0..dims).find(strays) {
            return Err(format!("a stride of {} along dimension {dim}, expected 0", strides[dim]));
        }
        // Kernels know this stride when they are compiled.
        if expected.along.first() == Some(&0) && strides[0] != arg.row_len {
            return Err(format!("a stride of {} along axis 0, expected {}", strides[0], arg.row_len));
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
