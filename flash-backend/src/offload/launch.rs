//! Properties of a launch that a backend needs before it submits it.

use super::KernelSpec;
use crate::backend::Launch;
use crate::failure::Failure;
use flash_types::Code;
use flash_types::abi::{self, Arg};
use std::ops::Range;

/// The values of a submission's options with these names; numbers from 1.
///
/// # Errors
/// [`Code::Invalid`] for another value, [`Code::Unsupported`] for an unknown option that is marked as
/// required.
#[inline]
pub(super) fn numbers<K, const N: usize>(
    launch: &Launch<'_, K>,
    known: [&str; N],
) -> Result<[Option<u64>; N], Failure> {
    if launch.has_attributes() { numbers_given(launch, known) } else { Ok([None; N]) }
}

#[cold]
fn numbers_given<K, const N: usize>(
    launch: &Launch<'_, K>,
    known: [&str; N],
) -> Result<[Option<u64>; N], Failure> {
    let mut found = [None; N];
    for (key, value, required) in launch.attributes() {
        if let Some(at) = known.iter().position(|name| *name == key) {
            let number = value.parse().ok().filter(|&number: &u64| number > 0);
            found[at] = Some(number.ok_or_else(|| {
                let text = format!("option `{key}`: expected a number from 1, found {value}");
                Failure::new(Code::Invalid, text)
            })?);
        } else if required {
            let text = format!(
                "the option `{key}` is marked as required and this backend does not know it; it knows {}",
                known.join(", ")
            );
            return Err(Failure::new(Code::Unsupported, text));
        }
    }
    Ok(found)
}

/// True for an argument with two buffers.
#[inline]
pub(super) fn two_buffers(arg: &Arg) -> bool {
    arg.kind == abi::ARG_PHASED && arg.flags & abi::ARG_FLAG_STAGED == 0
}

/// The byte offsets of the elements of an argument with two buffers: in the one that is read in a phase, and
/// in the one that is written. `odd`: they have changed places.
pub(super) fn carried(arg: &Arg, odd: bool) -> [u64; 2] {
    // SAFETY: a launch's parts live for the call.
    let part = unsafe { arg.part.as_ref() }.filter(|_| arg.space != abi::SPACE_HOST);
    // An argument that is not cut is complete, from its element 0 on; so is one in the host's memory.
    let origins = part.map_or([0; 2], |part| [part.origin, part.next_origin]);
    let [now, next] = origins.map(|origin| origin.wrapping_neg().wrapping_mul(u64::from(arg.element_size)));
    if odd { [next, now] } else { [now, next] }
}

/// The byte of an argument's buffer at which its element 0 is, in spaces that have handles; negative if the
/// buffer begins after it. Addresses of the host's memory are those of element 0.
#[inline]
pub(super) fn offset(arg: &Arg) -> i64 {
    // SAFETY: a launch's parts live for the call.
    let part = unsafe { arg.part.as_ref() }.filter(|_| arg.space != abi::SPACE_HOST);
    let origin = part.map_or(0, |part| part.origin as i64);
    origin.saturating_neg().saturating_mul(i64::from(arg.element_size))
}

impl KernelSpec {
    /// The index space of a kernel that does not cooperate: the values of each dimension. `alignment`: of the
    /// byte of a buffer at which an argument may begin.
    ///
    /// # Errors
    /// [`Code::Unsupported`] for a launch that only a cooperating kernel can run.
    pub(super) fn plain_space<'a, K>(
        &self,
        launch: &Launch<'a, K>,
        alignment: u64,
    ) -> Result<impl ExactSizeIterator<Item = Range<u64>> + use<'a, K>, Failure> {
        let (space, args) = (launch.space(), launch.args());
        if launch.is_part() {
            return Err(self.not_plain("a part of a launch"));
        }
        if space.phases() != 1 {
            return Err(self.not_plain(&format!("{} phases", space.phases())));
        }
        if args.iter().any(|arg| arg.kind == abi::ARG_REDUCE || two_buffers(arg)) {
            return Err(self.not_plain("accumulators, or two buffers of a phased argument"));
        }
        let offsets = args.iter().map(|arg| if arg.kind == abi::ARG_SCALAR { 0 } else { offset(arg) });
        for (i, offset) in offsets.enumerate() {
            if !u64::try_from(offset).is_ok_and(|offset| offset.is_multiple_of(alignment)) {
                let text = format!(
                    "argument {i} at byte {offset} of a buffer, where the device needs a multiple of {alignment}"
                );
                return Err(self.not_plain(&text));
            }
        }
        space.natural_box().ok_or_else(|| self.not_plain("an order or values that are not natural"))
    }

    /// The error of a launch that only a cooperating kernel can run.
    pub(super) fn not_plain(&self, found: &str) -> Failure {
        let text = format!(
            "{}: a kernel that does not cooperate runs whole launches of one phase, with dimensions counted in steps of 1; found {found}: let it take FLASH_ARGS, and say `cooperating`",
            self.title
        );
        Failure::new(Code::Unsupported, text)
    }
}
