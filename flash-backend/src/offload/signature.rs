//! Comparison of launches: results that were computed for one hold for an equal one, too.

use crate::backend::Launch;
use flash_types::abi::space::{BARRIER_LIST, DIM_AFFINE, LOOP_FULL, LOOP_REVERSED};
use flash_types::abi::{self, Arg};

/// The content of a launch in words: its phases, its space, its arguments, with the values of scalars if
/// `SCALARS`, but not the contents of arrays. Options are not included.
#[derive(Debug, Default)]
pub struct Signature<const SCALARS: bool>(Vec<u64>);

impl<const SCALARS: bool> Signature<SCALARS> {
    /// Sets it to that of a launch. `None`: it has lists, which are too long to be compared.
    pub fn set<K>(&mut self, launch: &Launch<'_, K>) -> Option<()> {
        self.0.clear();
        words(launch, SCALARS, &mut |word| {
            self.0.push(word);
            Some(())
        })
    }

    /// True if a launch has it.
    pub fn is_of<K>(&self, launch: &Launch<'_, K>) -> bool {
        let mut own = self.0.iter();
        let same = words(launch, SCALARS, &mut |word| own.next().filter(|own| **own == word).map(|_| ()));
        same.is_some() && own.next().is_none()
    }
}

/// Passes a launch word by word to `say`, as long as that continues. Earlier words determine how many follow.
fn words<K>(launch: &Launch<'_, K>, scalars: bool, say: &mut impl FnMut(u64) -> Option<()>) -> Option<()> {
    let (space, args, phases) = (launch.space(), launch.args(), launch.phases());
    let raw = space.raw();
    say(args.len() as u64)?;
    say(pair(raw.ndims, raw.nloops))?;
    // Most launches differ in the places of their arrays, if at all.
    args.iter().try_for_each(|arg| words_of(arg, scalars, space.dims().len(), say))?;
    [phases.start, phases.end, raw.items, raw.phases, raw.phase_items].into_iter().try_for_each(&mut *say)?;
    for dim in space.dims() {
        (dim.kind == DIM_AFFINE).then_some(())?;
        [dim.start, dim.step as u64, dim.count].into_iter().try_for_each(&mut *say)?;
    }
    for lp in space.loops() {
        (matches!(lp.kind, LOOP_FULL | LOOP_REVERSED) && lp.barrier != BARRIER_LIST).then_some(())?;
        [pair(lp.dim, lp.kind), u64::from(lp.barrier), lp.count].into_iter().try_for_each(&mut *say)?;
    }
    Some(())
}

fn words_of(
    arg: &Arg,
    scalars: bool,
    dimensions: usize,
    say: &mut impl FnMut(u64) -> Option<()>,
) -> Option<()> {
    say(pair(arg.kind, arg.access))?;
    say(pair(arg.space, arg.element_size))?;
    if arg.kind == abi::ARG_SCALAR && !scalars {
        return Some(());
    }
    if arg.kind == abi::ARG_SCALAR {
        // SAFETY: a scalar's bytes live for the call.
        let bytes = unsafe { std::slice::from_raw_parts(arg.data.cast::<u8>(), arg.element_size as usize) };
        return bytes.chunks(8).try_for_each(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            say(u64::from_ne_bytes(word))
        });
    }
    let addresses = [arg.data, arg.next].map(|address| address.addr() as u64);
    addresses.into_iter().try_for_each(&mut *say)?;
    [arg.buffer, arg.len, arg.row_len, arg.flags].into_iter().try_for_each(&mut *say)?;
    say(u64::from(!arg.strides.is_null()) | u64::from(!arg.part.is_null()) << 1)?;
    if !arg.strides.is_null() {
        // SAFETY: a launch's strides are one per dimension and live for the call.
        let strides = unsafe { std::slice::from_raw_parts(arg.strides, dimensions) };
        strides.iter().try_for_each(|&stride| say(stride))?;
    }
    // SAFETY: a launch's parts live for the call.
    if let Some(part) = unsafe { arg.part.as_ref() } {
        part.begin.iter().chain(&part.end).chain(&part.stride).try_for_each(|&word| say(word))?;
        [part.origin, part.next_origin].into_iter().try_for_each(&mut *say)?;
    }
    Some(())
}

fn pair(a: u32, b: u32) -> u64 {
    u64::from(a) << 32 | u64::from(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash_types::abi::{Part, Submission};
    use flash_types::index::{Dim, Group, Order, OrderTraits, count_by};
    use std::ptr::{null, null_mut};

    /// A launch over an order, of a scalar and two arrays.
    fn with<R>(order: &Order, args: &[Arg], phases: u64, body: impl FnOnce(&Launch<'_, ()>) -> R) -> R {
        let view = order.view();
        let raw = Submission {
            struct_size: size_of::<Submission>() as u32,
            flags: 0,
            kernel: null_mut(),
            space: view.get().raw(),
            args: args.as_ptr(),
            arg_count: args.len() as u32,
            wait_count: 0,
            waits: null(),
            signal: null_mut(),
            nanoseconds: null_mut(),
            attributes: null(),
            attribute_count: 0,
            phase_begin: 0,
            phase_end: phases,
            stop: null(),
            like: 0,
        };
        body(&Launch { raw: &raw, kernel: &() })
    }

    fn arg(kind: u32, data: *const u64) -> Arg {
        Arg {
            kind,
            access: abi::ACCESS_READ,
            space: 0,
            element_size: 8,
            data: data.cast_mut().cast(),
            next: null_mut(),
            buffer: 0,
            len: 7,
            row_len: 1,
            flags: 0,
            strides: null(),
            part: null(),
        }
    }

    #[test]
    fn a_launch_has_its_own_and_whatever_it_says_changes_it() {
        type Change<'c> = &'c dyn Fn(&mut [Arg; 3]);
        let natural = OrderTraits::default();
        let order = |dims: &[Dim], traits: &OrderTraits<'_>| Order::new(dims, traits).unwrap();
        let square = order(&[Dim::from(4), Dim::from(3)], &natural);
        let (values, array) = ([1u64, 1, 2], [0u64; 7]);
        let (strides, others) = ([1u64, 4], [1u64, 3]);
        let part = Part { begin: [0; 3], end: [7, 1, 1], stride: [7; 2], origin: 0, next_origin: 0 };
        let mut second = arg(abi::ARG_ITEM, array.as_ptr());
        (second.strides, second.part) = (strides.as_ptr(), &raw const part);
        let args = [arg(abi::ARG_SCALAR, &raw const values[0]), arg(abi::ARG_ITEM, array.as_ptr()), second];
        let mut own = Signature::<true>::default();
        assert!(!with(&square, &args, 1, |launch| own.is_of(launch)));
        with(&square, &args, 1, |launch| own.set(launch)).unwrap();
        assert!(with(&square, &args, 1, |launch| own.is_of(launch)));
        // The same at another place: a value, strides, a part, and a space.
        let (again, same_part, same_strides) =
            (order(&[Dim::from(4), Dim::from(3)], &natural), part, strides);
        let mut same = args;
        same[0].data = (&raw const values[1]).cast_mut().cast();
        (same[2].part, same[2].strides) = (&raw const same_part, same_strides.as_ptr());
        assert!(with(&again, &same, 1, |launch| own.is_of(launch)));
        let is_of = |order: &Order, change: Change<'_>| {
            let mut args = args;
            change(&mut args);
            with(order, &args, 1, |launch| own.is_of(launch))
        };
        let address = (&raw const array[1]).cast_mut().cast();
        let (far, cut) = (Part { next_origin: 1, ..part }, Part { end: [6, 1, 1], ..part });
        let changes: [Change<'_>; 16] = [
            &|args| args[0].data = (&raw const values[2]).cast_mut().cast(),
            &|args| args[0].element_size = 4,
            &|args| args[1].kind = abi::ARG_WHOLE,
            &|args| args[1].access = abi::ACCESS_WRITE,
            &|args| args[1].space = 1,
            &|args| args[1].element_size = 4,
            &|args| args[1].data = address,
            &|args| args[1].next = address,
            &|args| args[1].buffer = 1,
            &|args| args[1].len = 6,
            &|args| args[1].row_len = 2,
            &|args| args[1].flags = 1,
            &|args| args[1].part = &raw const part,
            &|args| args[2].strides = others.as_ptr(),
            &|args| args[2].part = &raw const far,
            &|args| args[2].part = &raw const cut,
        ];
        for (number, change) in changes.iter().enumerate() {
            assert!(!is_of(&square, change), "change {number}");
        }
        let column = OrderTraits { sort: &[0], group: None };
        for other in [
            order(&[Dim::from(4), Dim::from(2)], &natural),
            order(&[Dim::from(3), Dim::from(4)], &natural),
            order(&[Dim::from(1..5), Dim::from(3)], &natural),
            order(&[Dim::from(4), Dim::from(3)], &column),
            order(&[Dim::from(4), Dim::from(3)], &OrderTraits { sort: &[], group: Some(Group::Dims(&[1])) }),
        ] {
            assert!(!is_of(&other, &|_| ()), "{other:?}");
        }
        let mut any = Signature::<false>::default();
        with(&square, &args, 1, |launch| any.set(launch)).unwrap();
        for (number, change) in changes.iter().enumerate() {
            let mut args = args;
            change(&mut args);
            // The first gives the scalar another value.
            assert_eq!(with(&square, &args, 1, |launch| any.is_of(launch)), number == 0, "change {number}");
        }
        assert!(!with(&square, &args, 0, |launch| own.is_of(launch)));
        assert!(!with(&square, &args[..2], 1, |launch| own.is_of(launch)));
    }

    #[test]
    fn one_with_lists_is_like_no_other() {
        let listed = Order::new(&[count_by([5u64, 1, 3])], &OrderTraits::default()).unwrap();
        let mut own = Signature::<true>::default();
        assert_eq!(with(&listed, &[], 1, |launch| own.set(launch)), None);
        assert!(!with(&listed, &[], 1, |launch| own.is_of(launch)));
    }
}
