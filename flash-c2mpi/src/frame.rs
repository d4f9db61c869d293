//! Compute objects between processes: their arguments as bytes.
//!
//! A frame is what one process of a job sends to another: the arguments of a message, or why there are none.
//! It comes from another process, so nothing in it is trusted: it is read with the number of its bytes known,
//! types are those that this process knows, and what does not fit is an error.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | [`MAGIC`] |
//! | 4 | 0: a result; 1: an object as it was sent; else the number of a [`Code`], and the rest is its text |
//! | 4, 4 | the numbers of arrays and of arguments |
//! | each array | its type, 4: number of axes, 8 each: their extents, 1: whether it was written |
//! | each argument | 4: the number of an array, or [`SCALAR`], its type and bytes |
//! | the rest | the elements of the arrays, one after the other |
//!
//! A type is 2: the length of its name, the name, 4: size, 4: alignment. Numbers are little endian.

use crate::error::{Code, Error, Result};
use crate::object::{Array, Item, Shape, count};
use flash_core::memory::AnyType;
use smallvec::SmallVec;

const MAGIC: &[u8; 8] = b"FLASHOB1";
/// In place of an array's number: a scalar.
const SCALAR: u32 = u32::MAX;
/// Kinds of frames that are no errors, whose numbers begin above.
const RESULT: u32 = 0;
const SENT: u32 = 1_000_000;
/// Of one frame at most: a kernel has fewer.
const MOST: usize = 1024;

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
    let mut to = MAGIC.to_vec();
    to.extend((error.code as u32).to_le_bytes());
    to.extend(error.text.as_bytes());
    to
}

/// A frame of these arguments and arrays, of which each is written or not. `append` gives the elements of
/// one, by its number, when those before it are there.
///
/// # Errors
/// [`Code::Count`] for more arguments than a frame has; [`Code::Memory`]; those of `append`.
pub(crate) fn write<'a>(
    is_sent: bool,
    items: &[Item],
    arrays: impl ExactSizeIterator<Item = (&'a Array, bool)>,
    mut append: impl FnMut(usize, &mut Vec<u8>) -> Result<()>,
) -> Result<Vec<u8>> {
    if items.len() > MOST {
        return Err(Error::new(
            Code::Count,
            format!("expected at most {MOST} arguments, found {}", items.len()),
        ));
    }
    let mut to = MAGIC.to_vec();
    to.extend(if is_sent { SENT } else { RESULT }.to_le_bytes());
    to.extend((arrays.len() as u32).to_le_bytes());
    to.extend((items.len() as u32).to_le_bytes());
    let mut ends = Vec::new();
    for (array, written) in arrays {
        write_type(&mut to, array.element);
        to.extend((array.shape.len() as u32).to_le_bytes());
        array.shape.iter().for_each(|extent| to.extend(extent.to_le_bytes()));
        to.push(u8::from(written));
        ends.push(array.bytes());
    }
    for item in items {
        match item {
            Item::Array(array) => to.extend((*array as u32).to_le_bytes()),
            Item::Scalar(element, bytes) => {
                to.extend(SCALAR.to_le_bytes());
                write_type(&mut to, *element);
                to.extend(bytes.iter());
            }
        }
    }
    let all: usize = ends.iter().sum();
    to.try_reserve_exact(all).map_err(|_| no_memory(all))?;
    for (number, bytes) in ends.into_iter().enumerate() {
        let before = to.len();
        if bytes > 0 {
            append(number, &mut to)?;
        }
        debug_assert_eq!(to.len() - before, bytes, "the elements of array {number}");
    }
    Ok(to)
}

/// The error where memory for some bytes is lacking.
#[cold]
pub(crate) fn no_memory(bytes: usize) -> Error {
    Error::new(Code::Memory, format!("expected memory for {bytes} bytes, found too little"))
}

impl Frame<'_> {
    /// What bytes of another process say; types are found by name, size and alignment.
    ///
    /// # Errors
    /// That of the message, if it has failed; [`Code::Type`] for types that this process does not know;
    /// [`Code::Other`] for bytes that are no frame.
    pub fn read(bytes: &[u8], known: impl Fn(&str, usize, usize) -> Option<AnyType>) -> Result<Frame<'_>> {
        let mut from = Reader { left: bytes, all: bytes.len() };
        if from.take(MAGIC.len())? != MAGIC {
            return Err(from.fault("the first bytes of one"));
        }
        let is_sent = match from.number()? {
            RESULT => false,
            SENT => true,
            code => {
                let text = String::from_utf8_lossy(from.left).into_owned();
                return Err(Error::new(Code::of(code).unwrap_or(Code::Other), text));
            }
        };
        let (arrays, items) = (from.count(MOST)?, from.count(MOST)?);
        let mut heads = Vec::new();
        for _ in 0..arrays {
            let element = from.element(&known)?;
            let mut shape = Shape::new();
            for _ in 0..from.count(16)? {
                shape.push(from.long()?);
            }
            let len = count(element, &shape)?;
            heads.push((element, shape, from.take(1)?[0] != 0, len * element.size));
        }
        let mut read = SmallVec::new();
        for _ in 0..items {
            read.push(match from.number()? {
                SCALAR => {
                    let element = from.element(&known)?;
                    Item::Scalar(element, SmallVec::from_slice(from.take(element.size)?))
                }
                array if (array as usize) < arrays => Item::Array(array as usize),
                _ => return Err(from.fault("the number of an array")),
            });
        }
        let arrays = heads.into_iter().map(|(element, shape, written, bytes)| {
            Ok(Elements { element, shape, written, bytes: from.take(bytes)? })
        });
        let arrays = arrays.collect::<Result<_>>()?;
        match from.left {
            [] => Ok(Frame { is_sent, items: read, arrays }),
            _ => Err(from.fault("its end")),
        }
    }
}

fn write_type(to: &mut Vec<u8>, element: AnyType) {
    let name = &element.name.as_bytes()[..element.name.len().min(usize::from(u16::MAX))];
    to.extend((name.len() as u16).to_le_bytes());
    to.extend(name);
    to.extend((element.size as u32).to_le_bytes());
    to.extend((element.align as u32).to_le_bytes());
}

/// The bytes of a frame that were not read.
struct Reader<'a> {
    left: &'a [u8],
    all: usize,
}

impl<'a> Reader<'a> {
    #[cold]
    fn fault(&self, expected: &str) -> Error {
        let text = format!(
            "a compute object of another process: expected {expected} at byte {} of {}, found something else",
            self.all - self.left.len(),
            self.all
        );
        Error::new(Code::Other, text)
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let (taken, left) =
            self.left.split_at_checked(bytes).ok_or_else(|| self.fault(&format!("{bytes} bytes")))?;
        self.left = left;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().unwrap_or_default()))
    }

    fn long(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().unwrap_or_default()))
    }

    fn count(&mut self, most: usize) -> Result<usize> {
        let before = Reader { ..*self };
        match self.number()? as usize {
            count if count <= most => Ok(count),
            _ => Err(before.fault(&format!("a number up to {most}"))),
        }
    }

    fn element(&mut self, known: impl Fn(&str, usize, usize) -> Option<AnyType>) -> Result<AnyType> {
        let length = u16::from_le_bytes(self.take(2)?.try_into().unwrap_or_default());
        let name = String::from_utf8_lossy(self.take(length.into())?);
        let (size, align) = (self.number()? as usize, self.number()? as usize);
        known(&name, size, align).ok_or_else(|| {
            let text = format!(
                "a compute object of another process has the type `{name}` of {size} bytes, which this one does not know: create it with MPIX_Type_create before"
            );
            Error::new(Code::Type, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Place;
    use flash_core::descriptor::ElementType;
    use flash_tests::Random;

    fn float() -> AnyType {
        AnyType::new(&ElementType::of::<f32>()).unwrap()
    }

    fn known(name: &str, size: usize, align: usize) -> Option<AnyType> {
        let float = float();
        (name == float.name && size == float.size && align == float.align).then_some(float)
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
        let error = Frame::read(&bytes, |_, _, _| None).err().unwrap();
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
