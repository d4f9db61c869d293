//! Communicators of child ranks: one call for all of them.
//!
//! A parent rank is the root, and no member. What it broadcasts or scatters runs on each child rank; what it
//! gathers or reduces is what they made of that, in the order of the communicator. The messages have a tag of
//! their own, [`TAG`], so that they mix with no others.

use crate::error::{Code, Error, Result};
use crate::mailbox::Wanted;
use crate::table::{Kind, Table};
use crate::world::{Target, World};
use flash_core::memory::AnyType;
use std::sync::Arc;

static COMMS: Table<Vec<i32>> = Table::new(Kind::Comm);

/// The tag of collective messages, which no other message has.
pub(crate) const TAG: i32 = i32::MAX;

/// How elements of child ranks are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Their sum; of whole numbers, modulo the range.
    Sum,
    /// Their product; of whole numbers, modulo the range.
    Product,
    /// The least.
    Min,
    /// The greatest.
    Max,
}

/// A communicator of these child ranks.
///
/// # Errors
/// [`Code::Comm`] if there is none; [`Code::Memory`].
pub fn create(children: &[i32]) -> Result<i32> {
    if children.is_empty() {
        return Err(Error::new(Code::Comm, "expected at least one child rank, found none"));
    }
    COMMS.insert(Arc::new(children.to_vec()))
}

/// The child ranks of a communicator.
///
/// # Errors
/// [`Code::Comm`] if it is none, or freed.
pub fn children(comm: i32) -> Result<Arc<Vec<i32>>> {
    COMMS.get(comm)
}

/// Frees a communicator. Its child ranks stay.
///
/// # Errors
/// As [`children`].
pub fn free(comm: i32) -> Result<()> {
    COMMS.remove(comm).map(drop)
}

impl World {
    /// Receives an array from each child rank, and combines their elements, the first one's first.
    ///
    /// # Errors
    /// As [`World::receive`], of the first that fails; all are received. [`Code::Type`] for a type that is no
    /// number.
    ///
    /// # Safety
    /// There is room for `count` elements at `data`.
    pub unsafe fn reduce(
        &self,
        (data, count, element): (*mut u8, usize, AnyType),
        operation: Operation,
        parent: u32,
        children: &[i32],
    ) -> Result<()> {
        let combine = combiner(element)?;
        let mut total: Option<Vec<u8>> = None;
        let mut failed = None;
        let mut one = vec![0u8; count * element.size];
        for child in children {
            let target = Target::Array(one.as_mut_ptr(), count, element);
            // SAFETY: the vector has that room.
            match unsafe { self.receive(&target, parent, Wanted { child: *child, tag: TAG }) } {
                Err(error) => failed = failed.or(Some(error)),
                Ok(status) if status.bytes != one.len() as u64 => {
                    let text =
                        format!("expected {} bytes of each child rank, found {}", one.len(), status.bytes);
                    failed = failed.or(Some(Error::new(Code::Count, text)));
                }
                Ok(_) => match &mut total {
                    None => total = Some(one.clone()),
                    Some(total) => combine(operation, total, &one),
                },
            }
        }
        match (failed, total) {
            (Some(error), _) => Err(error),
            (None, total) => {
                let total = total.unwrap_or_default();
                // SAFETY: the caller vouches for the room.
                unsafe { std::ptr::copy_nonoverlapping(total.as_ptr(), data, total.len()) };
                Ok(())
            }
        }
    }
}

/// Combines elements, as bytes: the first ones become the result.
pub(crate) type Combine = fn(Operation, &mut [u8], &[u8]);

/// How elements of a type are combined.
///
/// # Errors
/// [`Code::Type`] for a type that is no number.
pub(crate) fn combiner(element: AnyType) -> Result<Combine> {
    macro_rules! of {
        ($($type:ident $add:ident $mul:ident),*) => {
            match &*element.name {
                $(stringify!($type) => |operation, to, from| {
                    const SIZE: usize = size_of::<$type>();
                    let number = |bytes: &[u8]| $type::from_ne_bytes(bytes.try_into().unwrap_or_default());
                    for (to, from) in to.chunks_exact_mut(SIZE).zip(from.chunks_exact(SIZE)) {
                        let (a, b) = (number(to), number(from));
                        let c = match operation {
                            Operation::Sum => a.$add(b),
                            Operation::Product => a.$mul(b),
                            Operation::Min => if b < a { b } else { a },
                            Operation::Max => if b > a { b } else { a },
                        };
                        to.copy_from_slice(&c.to_ne_bytes());
                    }
                },)*
                name => {
                    return Err(Error::new(Code::Type, format!("expected a type of numbers, found `{name}`")));
                }
            }
        };
    }
    use std::ops::{Add, Mul};
    let combine: Combine = of! {
        i8 wrapping_add wrapping_mul, i16 wrapping_add wrapping_mul, i32 wrapping_add wrapping_mul,
        i64 wrapping_add wrapping_mul, u8 wrapping_add wrapping_mul, u16 wrapping_add wrapping_mul,
        u32 wrapping_add wrapping_mul, u64 wrapping_add wrapping_mul, f32 add mul, f64 add mul
    };
    Ok(combine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash_core::descriptor::ElementType;

    #[test]
    fn operations_are_those_of_numbers() {
        let of = |operation, a: &[f32], b: &[f32]| {
            let float = AnyType::new(&ElementType::of::<f32>()).unwrap();
            let bytes = |all: &[f32]| all.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>();
            let mut to = bytes(a);
            combiner(float).unwrap()(operation, &mut to, &bytes(b));
            to.chunks_exact(4).map(|x| f32::from_ne_bytes(x.try_into().unwrap())).collect::<Vec<f32>>()
        };
        assert_eq!(of(Operation::Sum, &[1.0, 2.0], &[3.0, 4.0]), [4.0, 6.0]);
        assert_eq!(of(Operation::Product, &[1.5, 2.0], &[3.0, 4.0]), [4.5, 8.0]);
        assert_eq!(of(Operation::Min, &[1.0, 5.0], &[3.0, 4.0]), [1.0, 4.0]);
        assert_eq!(of(Operation::Max, &[1.0, 5.0], &[3.0, 4.0]), [3.0, 5.0]);
        let byte = AnyType::new(&ElementType::of::<u8>()).unwrap();
        let mut to = [200u8];
        combiner(byte).unwrap()(Operation::Sum, &mut to, &[100]);
        assert_eq!(to, [44]);
        let other = ElementType { name: "a::Struct".into(), size: 4, align: 4, layout: 0 };
        assert_eq!(combiner(AnyType::new(&other).unwrap()).unwrap_err().code, Code::Type);
    }
}
