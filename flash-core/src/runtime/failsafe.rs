//! What runs in the place of a kernel that nothing implements.

use super::plan::Plan;
use crate::abi::Arg;
use crate::descriptor::{Access, View};
use crate::error::Error;
use crate::index::Dim;
use crate::kernel::Element;

/// A failsafe function.
pub(crate) type Failsafe = Box<dyn Fn(&mut HostArgs<'_>) -> Result<(), Error> + Send + Sync>;

/// The arguments of a submission, on the host, by position.
pub struct HostArgs<'a> {
    plan: &'a Plan,
    args: &'a [Arg],
    dims: &'a [Dim],
}

impl<'a> HostArgs<'a> {
    pub(super) fn new(plan: &'a Plan, args: &'a [Arg], dims: &'a [Dim]) -> HostArgs<'a> {
        HostArgs { plan, args, dims }
    }

    /// The dimensions of the launch.
    pub fn dims(&self) -> &[Dim] {
        self.dims
    }

    fn find<T: Element>(&self, i: usize, scalar: bool, write: bool) -> Result<&'a Arg, Error> {
        let descriptor = &self.plan.descriptor;
        let fail = |argument: String, text: String| Error::Argument {
            kernel: descriptor.name.clone(),
            argument,
            text,
        };
        let Some((spec, arg)) = descriptor.arguments.get(i).zip(self.args.get(i)) else {
            let text = format!("the kernel has {} arguments", descriptor.arguments.len());
            return Err(fail(format!("#{i}"), text));
        };
        let asked = std::any::type_name::<T>();
        if spec.element.name != asked {
            return Err(fail(
                spec.name.clone(),
                format!("it is of {}, asked for as {asked}", spec.element.name),
            ));
        }
        if (spec.view == View::Scalar) != scalar {
            let found = if scalar { "an array" } else { "a scalar" };
            return Err(fail(spec.name.clone(), format!("it is {found}")));
        }
        if write && spec.access == Access::Read {
            return Err(fail(spec.name.clone(), "the kernel only reads it".into()));
        }
        Ok(arg)
    }

    /// Argument `i`, a scalar.
    ///
    /// # Errors
    /// [`Error::Argument`] if it is not there, or of another type.
    pub fn scalar<T: Element>(&self, i: usize) -> Result<T, Error> {
        let arg = self.find::<T>(i, true, false)?;
        // SAFETY: a scalar of this type.
        Ok(unsafe { arg.data.cast::<T>().read_unaligned() })
    }

    /// Argument `i`, an array.
    ///
    /// # Errors
    /// As [`scalar`](Self::scalar).
    pub fn read<T: Element>(&self, i: usize) -> Result<&[T], Error> {
        let arg = self.find::<T>(i, false, false)?;
        // SAFETY: the launch holds the array; writing borrows `self` exclusively.
        Ok(unsafe { std::slice::from_raw_parts(arg.data.cast(), arg.len as usize) })
    }

    /// Argument `i`, an array that the kernel writes.
    ///
    /// # Errors
    /// As [`scalar`](Self::scalar), and if the kernel only reads it.
    pub fn write<T: Element>(&mut self, i: usize) -> Result<&mut [T], Error> {
        let arg = self.find::<T>(i, false, true)?;
        // SAFETY: the launch holds the array as a writer, and `self` is borrowed exclusively.
        Ok(unsafe { std::slice::from_raw_parts_mut(arg.data.cast(), arg.len as usize) })
    }
}
