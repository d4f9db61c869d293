//! Scalars that become wider, as fuzzy search ([`Searchable::Fuzzy`](crate::descriptor::Searchable::Fuzzy))
//! allows.
//!
//! *Which types widen.* A number becomes one of another type if **every** value of its type is a value of the
//! other. These are the types between which the standard library has [`From`], and the table below is written
//! with that. An integer keeps its sign or gets room for one; a float has digits for all of an integer's
//! (`f32` for 16 bits, `f64` for 32). `usize` and `isize` are the integers of their size. Plain structs,
//! including `[T; 3]`, never widen. Whether the value of one launch would fit is not considered: the same
//! program must not find another kernel for another number.
//!
//! *Rating.* An implementation that takes the definition's own types comes before any other
//! ([`WideningCost`]). Among the others the one with fewer changed scalars is better; then, the one with
//! fewer that change from integer to float or get a sign; then, the one whose scalars grow by fewer bytes.
//! Only then the order of all searches applies.
//!
//! *Place of the conversion.* Each device has its own implementation, so each has its own [`Widening`]. The
//! recording has the definition's values, and so have partition maps, proofs, caches and files.
//! [`Widening::apply`] makes the implementation's values at the last moment, in a launch's own copy of its
//! arguments. A plan with a widening counts as one that is prepared at every launch, like one with second
//! buffers, so that the paths of exact launches check nothing more. Rejected: conversion when it is recorded,
//! which would tie every recording to a device; and a converting function of the implementation, which
//! devices do not have.

use flash_types::abi::Arg;
use flash_types::descriptor::{ElementType, KernelDescriptor, View};
use smallvec::SmallVec;
use std::cmp::Reverse;

/// The distance of an implementation's arguments from the definition's; the order is that of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WideningCost {
    /// Number of scalars of another type.
    scalars: u32,
    /// Number of those of another kind: unsigned, signed, float.
    kinds: u32,
    /// Number of additional bytes.
    bytes: usize,
}

/// The conversions of a definition's scalars to those of an implementation.
#[derive(Debug, Default)]
pub(crate) struct Widening {
    cost: WideningCost,
    scalars: Box<[Scalar]>,
}

#[derive(Debug)]
struct Scalar {
    argument: usize,
    number: Number,
}

/// A conversion from one type to another.
#[derive(Clone, Copy, Debug)]
struct Number {
    from_size: usize,
    to_size: usize,
    /// From the bytes of a value to those of the converted one, followed by zeros.
    convert: fn(&[u8]) -> u64,
}

impl Widening {
    /// From a definition's arguments to an implementation's; or the argument that does not fit.
    pub fn between(ours: &KernelDescriptor, theirs: &KernelDescriptor) -> Result<Widening, String> {
        let (dims, args) = (ours.dimensions.len(), ours.arguments.len());
        if theirs.dimensions.len() != dims || theirs.arguments.len() != args {
            return Err(format!("it takes {}", theirs.signature()));
        }
        let mut widening = Widening::default();
        let mut scalars = Vec::new();
        for (argument, (our, their)) in ours.arguments.iter().zip(&theirs.arguments).enumerate() {
            let (here, there) = (our.to_string(), their.to_string());
            let name = &our.name;
            if here == there {
                if !our.element.agrees(&their.element) {
                    return Err(format!("`{name}` is of {} here, it takes {}", our.element, their.element));
                }
                continue;
            }
            if our.view != View::Scalar || their.view != View::Scalar {
                return Err(format!("`{name}` is {here} here, it takes {there}: arrays never convert"));
            }
            let Some(number) = number(&our.element, &their.element) else {
                return Err(format!(
                    "`{name}` is {here} here, it takes {there}: a scalar becomes another only if every value stays what it is"
                ));
            };
            widening.cost.scalars += 1;
            widening.cost.kinds += u32::from(here.as_bytes()[0] != there.as_bytes()[0]);
            widening.cost.bytes += their.element.size - our.element.size;
            if plain(&our.element) != plain(&their.element) {
                scalars.push(Scalar { argument, number });
            }
        }
        widening.scalars = scalars.into();
        Ok(widening)
    }

    /// Higher is better.
    pub(super) fn rating(&self) -> Reverse<WideningCost> {
        Reverse(self.cost)
    }

    /// False if all values have the bytes that the implementation takes.
    pub fn converts(&self) -> bool {
        !self.scalars.is_empty()
    }

    /// Converts the definition's arguments to the implementation's. The values are put into `room`, where
    /// they must stay as long as the arguments are used.
    pub fn apply(&self, args: &mut [Arg], room: &mut SmallVec<[u64; 4]>) {
        for Scalar { argument, number } in &self.scalars {
            let arg = &args[*argument];
            // SAFETY: a scalar of a launch of the definition, whose type has that many bytes (`number`).
            let bytes = unsafe { std::slice::from_raw_parts(arg.data.cast::<u8>(), number.from_size) };
            room.push((number.convert)(bytes));
        }
        for (Scalar { argument, number }, value) in self.scalars.iter().zip(room) {
            let arg = &mut args[*argument];
            (arg.data, arg.element_size) = (std::ptr::from_mut(value).cast(), number.to_size as u32);
        }
    }
}

/// The table's name for a type.
fn plain(element: &ElementType) -> &str {
    match (element.name.as_str(), element.size) {
        ("usize", 8) => "u64",
        ("usize", 4) => "u32",
        ("isize", 8) => "i64",
        ("isize", 4) => "i32",
        (name, _) => name,
    }
}

macro_rules! numbers {
    ($($from:ident => $($to:ident)*;)*) => {
        /// The conversion by which every value of a type becomes one of another; `None` if there is none. A
        /// type is a number if its size is that of its name: descriptors may come from files.
        fn number(from: &ElementType, to: &ElementType) -> Option<Number> {
            let number = match (plain(from), plain(to)) {
                $($((stringify!($from), stringify!($to)) => Number {
                    from_size: size_of::<$from>(),
                    to_size: size_of::<$to>(),
                    convert: |bytes| {
                        let value = <$to>::from(bytemuck::pod_read_unaligned::<$from>(bytes));
                        let mut room = 0;
                        bytemuck::bytes_of_mut(&mut room)[..size_of::<$to>()]
                            .copy_from_slice(bytemuck::bytes_of(&value));
                        room
                    },
                },)*)*
                _ => return None,
            };
            (number.from_size == from.size && number.to_size == to.size).then_some(number)
        }
    };
}
// Some map to themselves: `usize` and `isize` are the same numbers by another name.
numbers! {
    u8 => u16 u32 u64 i16 i32 i64 f32 f64;
    u16 => u32 u64 i32 i64 f32 f64;
    u32 => u32 u64 i64 f64;
    u64 => u64;
    i8 => i16 i32 i64 f32 f64;
    i16 => i32 i64 f32 f64;
    i32 => i32 i64 f64;
    i64 => i64;
    f32 => f64;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::views::describe_scalar;
    use flash_types::descriptor::{Access, ArgumentDescriptor, Attributes};

    fn scalars(types: &[ElementType]) -> KernelDescriptor {
        let argument = |(i, element): (usize, &ElementType)| ArgumentDescriptor {
            element: element.clone(),
            ..describe_scalar::<u8>(&format!("s{i}"))
        };
        KernelDescriptor {
            name: "test.widen".into(),
            dimensions: vec!["i".into()],
            arguments: types.iter().enumerate().map(argument).collect(),
            attributes: Attributes::default(),
        }
    }

    fn cost(from: &[ElementType], to: &[ElementType]) -> WideningCost {
        Widening::between(&scalars(from), &scalars(to)).unwrap().cost
    }

    #[test]
    fn fewer_scalars_then_the_same_kind_then_fewer_bytes_cost_less() {
        let (byte, small) = (ElementType::of::<u8>(), ElementType::of::<u16>());
        let (int, long, real) =
            (ElementType::of::<u32>(), ElementType::of::<u64>(), ElementType::of::<f32>());
        let from = [byte.clone(), byte.clone()];
        let costs = [
            cost(&from, &from),
            cost(&from, &[byte.clone(), small.clone()]),
            cost(&from, &[int.clone(), byte.clone()]),
            cost(&from, &[byte.clone(), ElementType::of::<i16>()]),
            cost(&from, &[byte.clone(), real.clone()]),
            cost(&from, &[small.clone(), small.clone()]),
            cost(&from, &[small.clone(), long.clone()]),
            cost(&from, &[small.clone(), real.clone()]),
            cost(&from, &[real.clone(), real]),
        ];
        assert!(costs.is_sorted_by(|a, b| a < b), "{costs:?}");
        assert!(cost(&[ElementType::of::<usize>()], &[long]) > costs[0], "another name is another type");
    }

    #[test]
    fn a_type_whose_size_is_not_that_of_its_name_is_no_number() {
        let honest = [ElementType::of::<u16>(), ElementType::of::<f64>(), ElementType::of::<usize>()];
        for size in [1, 3, 16] {
            for i in 0..honest.len() {
                let mut lying = honest.clone();
                lying[i].size = size;
                for other in [ElementType::of::<u8>(), ElementType::of::<i16>(), ElementType::of::<u64>()] {
                    for (from, to) in [(&lying[i], &other), (&other, &lying[i])] {
                        assert!(number(from, to).is_none(), "{from:?} {to:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_scalar_is_no_array_and_views_are_what_they_are() {
        let ours = scalars(&[ElementType::of::<u8>()]);
        let mut theirs = scalars(&[ElementType::of::<u16>()]);
        theirs.arguments[0].view = View::Whole;
        theirs.arguments[0].access = Access::Read;
        let error = Widening::between(&ours, &theirs).unwrap_err();
        assert_eq!(error, "`s0` is u8 here, it takes Whole<Read<u16>>: arrays never convert");
        let error = Widening::between(&ours, &scalars(&[])).unwrap_err();
        assert_eq!(error, "it takes [1]()");
    }

    #[test]
    fn values_and_sizes_are_those_of_the_wider_types() {
        let from = scalars(&[ElementType::of::<i8>(), ElementType::of::<u64>(), ElementType::of::<f32>()]);
        let to = scalars(&[ElementType::of::<i32>(), ElementType::of::<usize>(), ElementType::of::<f64>()]);
        let widening = Widening::between(&from, &to).unwrap();
        let (mut a, mut b, mut c) = (-7i8, 5u64, f32::NEG_INFINITY);
        let arg = |data: *mut core::ffi::c_void, element_size| Arg {
            kind: flash_types::abi::ARG_SCALAR,
            access: flash_types::abi::ACCESS_READ,
            space: flash_types::abi::SPACE_HOST,
            element_size,
            data: data.cast(),
            next: std::ptr::null_mut(),
            buffer: 0,
            len: 1,
            row_len: 1,
            flags: 0,
            strides: std::ptr::null(),
            part: std::ptr::null(),
        };
        let (pa, pb, pc) = (&raw mut a, &raw mut b, &raw mut c);
        let mut args = [arg(pa.cast(), 1), arg(pb.cast(), 8), arg(pc.cast(), 4)];
        let mut room = SmallVec::new();
        widening.apply(&mut args, &mut room);
        assert_eq!((args.map(|a| a.element_size), room.len()), ([4, 8, 8], 2));
        assert!(std::ptr::eq(args[1].data.cast(), pb), "what has the same bytes stays where it is");
        // SAFETY: arguments of these sizes, in `room`.
        unsafe {
            assert_eq!(args[0].data.cast::<i32>().read_unaligned(), -7);
            assert_eq!(args[2].data.cast::<f64>().read_unaligned(), f64::NEG_INFINITY);
        }
    }
}
