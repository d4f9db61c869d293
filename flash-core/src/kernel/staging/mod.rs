//! Staging: the second function of a kernel, which writes its text.
//!
//! `#[kernel(devices)]` makes two functions of one body. The first is the body as it is, for the CPU. In the
//! second every value is an [`Expr`], a piece of text with the type that the value has in the first: `a + b`
//! is `add(a, b)`, which gives `"(a + b)"`; an `if` is [`branch`], which runs the closures of both blocks and
//! puts what they say between braces. So rustc infers the types of both functions in the same way, and a text
//! has no type that the kernel has not. The second runs once per set of types, on the host; what it writes is
//! OpenCL C and CUDA C++ at once, with the macros of `flash_device.h`.
//!
//! The design note, with the subset and what others do, is in `README.md` beside this file.
//!
//! | module | what is in it |
//! |---|---|
//! | `writer` | the text that is being written |
//! | `value` | [`Stage`], from a type to what stands for its values; [`Value`]; [`Expr`] |
//! | `number`, `aggregate` | the types: numbers, tuples, arrays |
//! | `real` | [`Real`]: `f32` and `f64` in generic kernels |
//! | `ops`, `control` | operators and methods, control flow |
//! | `result`, `option` | `Result`s and `Option`s |
//! | `memory`, `shared`, `arguments` | the views of a kernel |
//! | `team` | the team of a kernel |
//! | `implementation` | the finished text as an implementation |

mod aggregate;
mod arguments;
mod barriers;
mod control;
mod facts;
mod implementation;
mod kept;
mod memory;
mod number;
mod ops;
mod option;
mod real;
mod result;
mod shared;
mod team;
mod value;
mod writer;

pub use aggregate::{ArrayValue, array, elements, repeat, structure};
pub use arguments::{About, Content, Device, StagedDefinition, Stages, StagesArray};
pub use control::{
    Steps, branch, break_loop, continue_loop, endless, for_each, for_loop, function, never, range,
    return_value, while_loop,
};
pub use implementation::{StagedCode, Text, TextOptions, staged_implementation, text};
pub use memory::{
    GroupValue, IndexValue, Indexed, OutValue, PhasedValue, SliceValue, Sliced, TileValue, WindowValue,
    index, part, work_item,
};
pub use number::{Bits, Float, Integer, Number};
pub use ops::{
    Cast, FromBits, add, and, bit_and, bit_or, bit_xor, cast, constant, div, eq, ge, gt, le, literal, lt,
    mul, ne, neg, not, or, panics, rem, shl, shr, sub,
};
pub use option::{OptionValue, none, some};
pub use real::Real;
pub use result::{Attempt, ResultValue, attempt, err, ok, settle};
pub use shared::{AccumulatorValue, Combine, ScatterValue};
pub use team::{CellValues, TeamValue, team};
pub use value::{Expr, Marked, Plain, Scalar, Stage, Value, Variable};

/// What stands for the values of a type.
pub type Of<T> = <T as Stage>::Value;
