//! What a backend has to know of a launch before it can put it on its device.

use super::KernelSpec;
use crate::abi::{self, Arg};
use crate::backend::{Failure, Launch};
use crate::error::Code;
use crate::index::SpaceRef;
use smallvec::SmallVec;
use std::ops::Range;

/// The values of a submission's options of which a backend knows these; numbers from 1.
///
/// # Errors
/// [`Code::Invalid`] for another value, [`Code::Unsupported`] for an option that nobody knows here and that is
/// marked as required.
pub fn numbers<K, const N: usize>(
    launch: &Launch<'_, K>,
    known: [&str; N],
) -> Result<[Option<u64>; N], Failure> {
    let mut found = [None; N];
    if !launch.has_attributes() {
        return Ok(found);
    }
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
pub fn two_buffers(arg: &Arg) -> bool {
    arg.kind == abi::ARG_PHASED && arg.flags & abi::ARG_FLAG_STAGED == 0
}

/// The bytes at which the elements of an argument with two buffers begin: in the one that is read in a phase, and
/// in the one that is written. `odd`: they have changed places.
pub fn carried(arg: &Arg, odd: bool) -> [u64; 2] {
    // SAFETY: a launch's parts live for the call.
    let origins = unsafe { arg.part.as_ref() }.map_or([0; 2], |part| [part.origin, part.next_origin]);
    // An argument that is not cut is there in full, from its element 0 on.
    let [now, next] = origins.map(|origin| origin.wrapping_neg().wrapping_mul(u64::from(arg.element_size)));
    if odd { [next, now] } else { [now, next] }
}

impl KernelSpec {
    /// The index space of a kernel that does not cooperate: the values of each dimension. `in_place`: arguments
    /// are where their element 0 would be.
    ///
    /// # Errors
    /// [`Code::Unsupported`] for a launch that only a kernel can run that is told of it.
    pub fn plain_space<K>(
        &self,
        launch: &Launch<'_, K>,
        in_place: bool,
    ) -> Result<SmallVec<[Range<u64>; 4]>, Failure> {
        let (space, args): (SpaceRef<'_>, _) = (launch.space(), launch.args());
        if launch.is_part() {
            return Err(self.not_plain("a part of a launch"));
        }
        if space.phases() != 1 {
            return Err(self.not_plain(&format!("{} phases", space.phases())));
        }
        if args.iter().any(|arg| arg.kind == abi::ARG_REDUCE || two_buffers(arg)) {
            return Err(self.not_plain("accumulators, or two buffers of a phased argument"));
        }
        // SAFETY: a launch's parts live for the call.
        let first = |arg: &Arg| unsafe { arg.part.as_ref() }.map_or(0, |part| part.origin as i64);
        let elsewhere =
            |(_, arg): &(usize, &Arg)| !in_place && arg.kind != abi::ARG_SCALAR && first(arg) != 0;
        if let Some((i, arg)) = args.iter().enumerate().find(elsewhere) {
            let text = format!("argument {i} in a buffer that begins with element {} of it", first(arg));
            return Err(self.not_plain(&text));
        }
        space.natural_box().ok_or_else(|| self.not_plain("an order or values that are not natural"))
    }

    /// The error of a launch that only a cooperating kernel can run.
    pub fn not_plain(&self, found: &str) -> Failure {
        let text = format!(
            "{}: a kernel that does not cooperate runs whole launches of one phase, with up to three dimensions counted in steps of 1; found {found}: let it take FLASH_ARGS, and say `cooperating`",
            self.title
        );
        Failure::new(Code::Unsupported, text)
    }
}
