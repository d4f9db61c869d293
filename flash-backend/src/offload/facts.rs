//! Facts of a launch by which a text leaves checks out: its program with `FLASH_SURE` is for launches in
//! which all of them hold.
//!
//! `#[kernel(devices)]` writes them as lines of words. A text has no other way to say what it relies on, and
//! a line that is not understood is an error:
//!
//! | line | what holds |
//! |---|---|
//! | `index A 0 2 -1` | along axis 0 of `A`'s shape, all indices of dimension 2, less 1, are in `A`'s part |
//! | `index A 3 - 7` | element number 7 of `A` is there |
//! | `covers A B` | `A` has at least as many elements as `B` |
//! | `divisor N` | the scalar `N`, of 32 or 64 bits, is from 1 to `i32::MAX` |

use super::driver::bytes_of;
use super::launch_words::{LaunchWords, part};
use flash_types::abi::{self, Arg};
use flash_types::descriptor::{ArgumentDescriptor, View};

/// The axis that stands for the number of an element.
const NUMBER: usize = 3;

/// Something that may hold in a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    /// An index is inside an array.
    Index { argument: usize, axis: usize, dimension: Option<usize>, offset: i64 },
    /// An array has at least as many elements as another.
    Covers { argument: usize, other: usize },
    /// A scalar divides any number.
    Divisor { argument: usize },
}

impl Fact {
    /// Reads a line.
    pub fn read(line: &str, arguments: &[ArgumentDescriptor], dimensions: usize) -> Option<Fact> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let named = |name: &str| arguments.iter().position(|argument| argument.name == name);
        match words[..] {
            ["index", name, axis, dimension, offset] => {
                let argument = named(name).filter(|&at| arguments[at].view != View::Scalar)?;
                let axis = axis.parse().ok().filter(|axis| *axis <= NUMBER)?;
                let dimension = match dimension {
                    "-" => None,
                    dimension => Some(dimension.parse().ok().filter(|at| *at < dimensions)?),
                };
                Some(Fact::Index { argument, axis, dimension, offset: offset.parse().ok()? })
            }
            ["covers", name, other] => {
                let array = |name| named(name).filter(|&at| arguments[at].view != View::Scalar);
                Some(Fact::Covers { argument: array(name)?, other: array(other)? })
            }
            ["divisor", name] => {
                let argument = named(name).filter(|&at| arguments[at].view == View::Scalar)?;
                Some(Fact::Divisor { argument })
            }
            _ => None,
        }
    }

    /// Whether it holds in a launch of these arguments, whose indices are those of `words`.
    pub fn holds(self, args: &[Arg], words: &LaunchWords) -> bool {
        match self {
            Fact::Index { argument, axis, dimension, offset } => {
                let (first, last) = match dimension {
                    None => (0, 0),
                    Some(dimension) => match words.indices(dimension) {
                        Some(indices) => indices,
                        None => return false,
                    },
                };
                let (begin, end) = present(&args[argument], axis);
                let at = |index: u64| i128::from(index) + i128::from(offset);
                i128::from(begin) <= at(first) && at(last) < i128::from(end)
            }
            Fact::Covers { argument, other } => {
                let (begin, end) = present(&args[argument], NUMBER);
                begin == 0 && args[other].len <= end
            }
            Fact::Divisor { argument } => {
                let arg = &args[argument];
                // SAFETY: a scalar of the launch.
                let bytes = unsafe { bytes_of(arg) };
                let value = match bytes.len() {
                    4 => bytes.try_into().map_or(0, |bytes| u32::from_ne_bytes(bytes).into()),
                    8 => bytes.try_into().map_or(0, u64::from_ne_bytes),
                    _ => 0,
                };
                (1..=i32::MAX as u64).contains(&value)
            }
        }
    }
}

/// The indices that are present along an axis, or the numbers of elements.
fn present(arg: &Arg, axis: usize) -> (u64, u64) {
    if axis < NUMBER {
        let part = part(arg);
        return (part[axis], part[NUMBER + axis]);
    }
    // SAFETY: a launch's parts live for the call.
    match unsafe { arg.part.as_ref() } {
        None => (0, arg.len),
        Some(part) => {
            let origin = if arg.space == abi::SPACE_HOST { 0 } else { part.origin };
            (origin, super::launch_words::end_of(part))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash_types::descriptor::{Access, ElementType};

    fn arguments() -> [ArgumentDescriptor; 3] {
        let of = |name: &str, view| ArgumentDescriptor {
            name: name.to_owned(),
            view,
            access: Access::Read,
            element: ElementType::of::<u32>(),
            row: false,
            tile: Vec::new(),
            along: Vec::new(),
            stages: None,
            rows: None,
            structure: false,
            reduce: None,
        };
        [of("n", View::Scalar), of("a", View::Whole), of("b", View::Window)]
    }

    #[test]
    fn lines_that_are_not_understood_are_no_facts() {
        let read = |line: &str| Fact::read(line, &arguments(), 2);
        assert_eq!(
            read("index b 1 0 -2"),
            Some(Fact::Index { argument: 2, axis: 1, dimension: Some(0), offset: -2 })
        );
        assert_eq!(
            read("index a 3 - 5"),
            Some(Fact::Index { argument: 1, axis: 3, dimension: None, offset: 5 })
        );
        assert_eq!(read("covers a b"), Some(Fact::Covers { argument: 1, other: 2 }));
        assert_eq!(read("divisor n"), Some(Fact::Divisor { argument: 0 }));
        for line in [
            "",
            "index",
            "index c 0 0 0",
            "index n 0 0 0",
            "index a 4 0 0",
            "index a 0 2 0",
            "index a 0 0 x",
            "index a 0 0 0 0",
            "covers a n",
            "covers a",
            "divisor a",
            "divisor n n",
            "even n",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
