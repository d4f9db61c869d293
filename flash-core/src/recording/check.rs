//! Checks of a recording before any of it is used.

use super::{Argument, Elements, Memory, Parts, Recording, RecordingError, Submission};
use crate::error::Error;
use crate::memory::ArrayLayout;
use flash_types::descriptor::{ArgumentDescriptor, KernelDescriptor, View};

type Checked = Result<(), RecordingError>;

impl Recording {
    /// Proves that indices, ranges, sizes and lengths fit each other. Reading a file does so, too.
    ///
    /// # Errors
    /// [`Error::Recording`] with the place.
    pub fn check(&self) -> Result<(), Error> {
        Ok(self.check_all()?)
    }

    pub(super) fn check_all(&self) -> Checked {
        if cfg!(target_endian = "big") {
            let text = "expected a machine with the least significant byte first, as numbers are in a recording; this one has it last";
            return Err(RecordingError::whole(text));
        }
        for (i, kernel) in self.kernels.iter().enumerate() {
            check_kernel(i, kernel)?;
        }
        for (i, memory) in self.memories.iter().enumerate() {
            check_memory(memory).map_err(|text| RecordingError::new(format!("memory {i}"), text))?;
        }
        for (i, submission) in self.submissions.iter().enumerate() {
            self.check_submission(i, submission)?;
        }
        Ok(())
    }

    fn check_submission(&self, i: usize, submission: &Submission) -> Checked {
        let fail = |text: String| Err(RecordingError::new(format!("submission {i}"), text));
        let Some(kernel) = self.kernels.get(submission.kernel as usize) else {
            return fail(format!(
                "it submits kernel {}, expected one of the {} that are listed",
                submission.kernel,
                self.kernels.len()
            ));
        };
        let name = &kernel.name;
        if submission.arguments.len() != kernel.arguments.len() {
            return fail(format!(
                "kernel `{name}` has {} arguments, found {}",
                kernel.arguments.len(),
                submission.arguments.len()
            ));
        }
        for (argument, spec) in submission.arguments.iter().zip(&kernel.arguments) {
            self.check_argument(argument, spec).map_err(|text| {
                RecordingError::new(format!("submission {i} (`{name}`), argument `{}`", spec.name), text)
            })?;
        }
        if submission.dims.len() != kernel.dimensions.len() {
            return fail(format!(
                "kernel `{name}` has {} dimensions ({}), found {}",
                kernel.dimensions.len(),
                kernel.dimensions.join(", "),
                submission.dims.len()
            ));
        }
        for (d, dim) in submission.dims.iter().enumerate() {
            if let Err(error) = dim.check(d) {
                return fail(error.to_string());
            }
        }
        let arrays = kernel.arguments.iter().filter(|a| a.view != View::Scalar).count();
        if submission.sizes.len() > arrays {
            return fail(format!(
                "kernel `{name}` has {arrays} array arguments, found {} shapes in `sizes`",
                submission.sizes.len()
            ));
        }
        match &submission.parts {
            Some(parts) => {
                self.check_parts(submission, kernel, parts).or_else(|text| fail(format!("its parts: {text}")))
            }
            None => Ok(()),
        }
    }

    /// The boxes are only shown; one that leaves its array means a damaged file.
    fn check_parts(
        &self,
        submission: &Submission,
        kernel: &KernelDescriptor,
        parts: &Parts,
    ) -> Result<(), String> {
        let Some(dim) = submission.dims.get(parts.dimension as usize) else {
            return Err(format!(
                "it is cut along dimension {}, the kernel has {}",
                parts.dimension,
                submission.dims.len()
            ));
        };
        let arguments = kernel.arguments.len();
        if parts.grids.len() != arguments {
            return Err(format!(
                "expected a grid for each of {arguments} arguments, found {}",
                parts.grids.len()
            ));
        }
        for ((spec, argument), grid) in kernel.arguments.iter().zip(&submission.arguments).zip(&parts.grids) {
            let len = match argument {
                Argument::Scalar(_) => 1,
                Argument::Memory(memory) => self.memories[*memory as usize].len,
                Argument::Part { start, end, .. } => end - start,
                Argument::Strided { extents, .. } => extents.iter().product(),
            };
            if grid.iter().try_fold(1u64, |a, &b| a.checked_mul(b)).is_none_or(|all| all > len) {
                return Err(format!("the grid {grid:?} of `{}` has more than its {len} elements", spec.name));
            }
        }
        for part in &parts.subspaces {
            let at = &part.positions;
            if at.start > at.end || at.end > dim.len() {
                return Err(format!("the positions {at:?} are not in 0..{}", dim.len()));
            }
            for touched in [&part.read, &part.written] {
                if touched.len() != arguments {
                    return Err(format!(
                        "expected elements of each of {arguments} arguments, found {}",
                        touched.len()
                    ));
                }
                for ((spec, elements), grid) in kernel.arguments.iter().zip(touched).zip(&parts.grids) {
                    if let Elements::Box { begin, end } = elements
                        && (0..3).any(|a| begin[a] > end[a] || end[a] > grid[a])
                    {
                        return Err(format!(
                            "the box {begin:?} to {end:?} of `{}`, positions {at:?}, does not lie in its grid {grid:?}",
                            spec.name
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    fn check_argument(&self, argument: &Argument, spec: &ArgumentDescriptor) -> Result<(), String> {
        let (index, range) = match argument {
            Argument::Scalar(bytes) => {
                let size = spec.element.size;
                return match spec.view {
                    View::Scalar if bytes.len() == size => Ok(()),
                    View::Scalar => Err(format!(
                        "expected a scalar of {size} bytes ({}), found {}",
                        spec.element.name,
                        bytes.len()
                    )),
                    _ => Err(format!("expected a memory (`{spec}`), found a scalar")),
                };
            }
            Argument::Memory(index) => (*index, None),
            Argument::Part { memory, start, end } => (*memory, Some((*start, *end))),
            Argument::Strided { memory, start, extents, strides } => {
                let span = ArrayLayout { extents, strides }.span();
                let end = span.and_then(|span| start.checked_add(span)).ok_or_else(|| {
                    format!("the strides {strides:?} of the shape {extents:?} are of no view with gaps, in which each index names an element of its own")
                })?;
                (*memory, Some((*start, end)))
            }
        };
        if spec.view == View::Scalar {
            return Err(format!("expected a scalar ({}), found memory {index}", spec.element.name));
        }
        let Some(memory) = self.memories.get(index as usize) else {
            return Err(format!(
                "it is memory {index}, expected one of the {} that are listed",
                self.memories.len()
            ));
        };
        if !memory.element.agrees(&spec.element) {
            return Err(format!(
                "expected elements of {}, found memory {index} with elements of {}",
                spec.element, memory.element
            ));
        }
        match range {
            Some((start, end)) if start > end || end > memory.len => Err(format!(
                "the range {start}..{end} does not lie in memory {index} of {} elements",
                memory.len
            )),
            _ => Ok(()),
        }
    }
}

fn check_kernel(i: usize, kernel: &KernelDescriptor) -> Checked {
    kernel.check().map_err(|(argument, text)| {
        RecordingError::new(format!("kernel {i} (`{}`), argument `{argument}`", kernel.name), text)
    })
}

fn check_memory(memory: &Memory) -> Result<(), String> {
    memory.element.check()?;
    let Memory { element, len, shape, data } = memory;
    let bytes = usize::try_from(*len).ok().and_then(|len| len.checked_mul(element.size));
    let Some(bytes) = bytes.filter(|bytes| isize::try_from(*bytes).is_ok()) else {
        return Err(format!("{len} elements of {element} are more than memory has bytes"));
    };
    if !shape.is_empty() && shape.iter().try_fold(1u64, |a, &b| a.checked_mul(b)) != Some(*len) {
        return Err(format!("the shape {shape:?} does not have {len} elements"));
    }
    match data {
        Some(data) if data.len() != bytes => Err(format!(
            "expected {bytes} bytes of contents ({len} elements of {element}), found {}",
            data.len()
        )),
        _ => Ok(()),
    }
}
