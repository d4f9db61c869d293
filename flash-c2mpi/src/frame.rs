//! Compute objects between processes: their arguments as bytes.
//!
//! A frame is what one process of a job sends to another: the arguments of a message, or why there are none.
//! It is [`MAGIC`], a [`Head`] as postcard writes it, and the elements of the arrays, one after the other.
//!
//! It comes from another process, so nothing in it is trusted: it is read with the number of its bytes known,
//! types are those that this process knows, and what does not fit is an error.

use crate::error::{Code, Error, Result};
use crate::object::{Array, Item, Shape, count};
use flash_core::descriptor::ElementType;
use flash_core::memory::AnyType;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Says which version it is.
const MAGIC: &[u8; 8] = b"FLASHOB1";

/// What is before the elements.
#[derive(Serialize, Deserialize)]
enum Head {
    /// The number of a [`Code`], and the text.
    Failed(u32, String),
    Arguments {
        is_sent: bool,
        /// The type, the shape, and whether it was written.
        arrays: Vec<(Type, Shape, bool)>,
        arguments: Vec<Argument>,
    },
}

#[derive(Serialize, Deserialize)]
enum Argument {
    Scalar(Type, SmallVec<[u8; 16]>),
    /// An array by its number.
    Array(u32),
}

/// The fields of an [`ElementType`], which in its own form leaves some out, as JSON may.
#[derive(Serialize, Deserialize)]
struct Type(String, usize, usize, u32);

impl Type {
    fn of(element: AnyType) -> Type {
        Type(element.name.clone(), element.size, element.align, element.layout)
    }
}

/// An array of a frame.
pub(crate) struct Elements<'a> {
    pub element: AnyType,
    pub shape: Shape,
    pub written: bool,
    pub bytes: &'a [u8],
}

/// What a frame says.
pub(crate) struct Frame<'a> {
    /// It is an object as a program has sent it, so that scalars count, too.
    pub is_sent: bool,
    pub items: SmallVec<[Item; 8]>,
    pub arrays: Vec<Elements<'a>>,
}

/// The frame of a failure.
pub(crate) fn failed(error: &Error) -> Vec<u8> {
    begun(&Head::Failed(error.code as u32, error.text.clone())).unwrap_or_else(|_| MAGIC.to_vec())
}

/// A frame with its head.
fn begun(head: &Head) -> Result<Vec<u8>> {
    postcard::to_extend(head, MAGIC.to_vec()).map_err(|error| Error::new(Code::Other, error.to_string()))
}

/// A frame of these arguments and arrays, of which each is written or not. `append` gives the elements of
/// one, by its number, when those before it are there.
///
/// # Errors
/// [`Code::Memory`]; those of `append`.
pub(crate) fn write<'a>(
    is_sent: bool,
    items: &[Item],
    arrays: impl Iterator<Item = (&'a Array, bool)> + Clone,
    mut append: impl FnMut(usize, &mut Vec<u8>) -> Result<()>,
) -> Result<Vec<u8>> {
    let heads =
        arrays.clone().map(|(array, written)| (Type::of(array.element), array.shape.clone(), written));
    let arguments = items.iter().map(|item| match item {
        Item::Scalar(element, bytes) => Argument::Scalar(Type::of(*element), bytes.clone()),
        Item::Array(array) => Argument::Array(*array as u32),
    });
    let mut to =
        begun(&Head::Arguments { is_sent, arrays: heads.collect(), arguments: arguments.collect() })?;
    let all: usize = arrays.clone().map(|(array, _)| array.bytes()).sum();
    to.try_reserve_exact(all).map_err(|_| no_memory(all))?;
    for (number, (array, _)) in arrays.enumerate() {
        if array.bytes() > 0 {
            append(number, &mut to)?;
        }
    }
    Ok(to)
}

/// The error where memory for some bytes is lacking.
#[cold]
pub(crate) fn no_memory(bytes: usize) -> Error {
    Error::new(Code::Memory, format!("expected memory for {bytes} bytes, found too little"))
}

#[cold]
fn fault(why: impl std::fmt::Display) -> Error {
    Error::new(Code::Other, format!("a compute object of another process: {why}"))
}

impl Frame<'_> {
    /// What bytes of another process say, with the types that this one knows.
    ///
    /// # Errors
    /// That of the message, if it has failed; [`Code::Type`] for types that this process does not know;
    /// [`Code::Other`] for bytes that are no frame.
    pub fn read(bytes: &[u8], known: impl Fn(&ElementType) -> Option<AnyType>) -> Result<Frame<'_>> {
        let body = bytes.strip_prefix(MAGIC).ok_or_else(|| {
            fault(format_args!("expected the first bytes of one, found others in {}", bytes.len()))
        })?;
        let (head, mut left) = postcard::take_from_bytes(body).map_err(fault)?;
        let (is_sent, arrays, arguments) = match head {
            Head::Failed(code, text) => return Err(Error::new(Code::of(code).unwrap_or(Code::Other), text)),
            Head::Arguments { is_sent, arrays, arguments } => (is_sent, arrays, arguments),
        };
        let known = |Type(name, size, align, layout)| {
            let element = ElementType { name, size, align, layout };
            known(&element).ok_or_else(|| {
                let text = format!(
                    "a compute object of another process has the type `{}` of {} bytes, which this one does not know: create it with MPIX_Type_create before",
                    element.name, element.size
                );
                Error::new(Code::Type, text)
            })
        };
        let mut frame = Frame { is_sent, items: SmallVec::new(), arrays: Vec::new() };
        for (element, shape, written) in arrays {
            let element = known(element)?;
            let size = count(element, &shape)? * element.size;
            let (bytes, rest) = left.split_at_checked(size).ok_or_else(|| {
                fault(format_args!("expected {size} bytes of an array, found {}", left.len()))
            })?;
            frame.arrays.push(Elements { element, shape, written, bytes });
            left = rest;
        }
        if !left.is_empty() {
            return Err(fault(format_args!("expected its end, found {} bytes more", left.len())));
        }
        for argument in arguments {
            frame.items.push(match argument {
                Argument::Array(array) if (array as usize) < frame.arrays.len() => {
                    Item::Array(array as usize)
                }
                Argument::Scalar(element, bytes) if bytes.len() == element.1 => {
                    Item::Scalar(known(element)?, bytes)
                }
                _ => {
                    return Err(fault(
                        "expected an array of it, or a scalar of its type's size, found neither",
                    ));
                }
            });
        }
        Ok(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Place;
    use flash_tests::Random;

    fn float() -> AnyType {
        AnyType::new(&ElementType::of::<f32>()).unwrap()
    }

    fn known(element: &ElementType) -> Option<AnyType> {
        Some(float()).filter(|float| ElementType::agrees(float, element))
    }

    fn frame(elements: &[u8]) -> Vec<u8> {
        let array = |shape: &[u64]| Array {
            element: float(),
            shape: Shape::from_slice(shape),
            place: Place::External(0),
        };
        let (full, empty) = (array(&[2, 3]), array(&[0]));
        let scalar = Item::Scalar(float(), SmallVec::from_slice(&1.5f32.to_ne_bytes()));
        let items = [scalar, Item::Array(1), Item::Array(0), Item::Array(1)];
        let append = |array, to: &mut Vec<u8>| {
            assert_eq!(array, 0, "the other one is empty");
            to.extend(elements);
            Ok(())
        };
        write(true, &items, [(&full, true), (&empty, false)].into_iter(), append).unwrap()
    }

    #[test]
    fn a_frame_says_what_was_written() {
        let elements: Vec<u8> = (0..24).collect();
        let bytes = frame(&elements);
        let read = Frame::read(&bytes, known).unwrap();
        assert!(read.is_sent && read.items.len() == 4);
        assert!(
            matches!(&read.items[0], Item::Scalar(of, bytes) if *of == float() && bytes[..] == 1.5f32.to_ne_bytes())
        );
        assert!(matches!(read.items[1..], [Item::Array(1), Item::Array(0), Item::Array(1)]));
        assert_eq!((&read.arrays[0].shape[..], read.arrays[0].bytes), (&[2, 3][..], &elements[..]));
        assert!(read.arrays[0].written && !read.arrays[1].written && read.arrays[1].bytes.is_empty());
        let error = Error::new(Code::Device, "gone");
        assert_eq!(Frame::read(&failed(&error), known).err(), Some(error));
        let error = Frame::read(&bytes, |_| None).err().unwrap();
        assert!(error.code == Code::Type && error.text.contains("MPIX_Type_create"), "{error}");
    }

    /// Whatever another process sends is an error or a frame, and takes no more memory than it has bytes.
    #[test]
    fn bytes_that_are_no_frame_are_errors() {
        let elements = [7; 24];
        let bytes = frame(&elements);
        for length in 0..bytes.len() {
            assert!(Frame::read(&bytes[..length], known).is_err(), "{length}");
        }
        assert!(Frame::read(&[&bytes[..], &[0]].concat(), known).is_err());
        let mut random = Random(5);
        for _ in 0..20_000 {
            let mut bytes = bytes.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len());
                bytes[at] = [0, 1, 127, 255, random.below(256) as u8][random.below(5)];
            }
            if let Ok(frame) = Frame::read(&bytes, known) {
                for array in frame.arrays {
                    assert_eq!(count(array.element, &array.shape).unwrap() * 4, array.bytes.len());
                }
            }
        }
    }
}
