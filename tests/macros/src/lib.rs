//! Inputs that the macros refuse, and inputs that they accept: see `tests`.
//!
//! The compiler finds one mistake only where it generates code, as it does for examples of documentation: a
//! written argument before a read one, behind an alias, in a generic definition.
//!
//! ```compile_fail,E0080
//! # use flash_core::{KernelDefinition, kernel::Element, kernel::views::{Item, Read, Write}};
//! type Result<T> = Write<T>;
//!
//! #[derive(KernelDefinition)]
//! #[kernel(name = "copy", dims(x))]
//! struct Copy<'a, T: Element> {
//!     to: Item<'a, Result<T>>,
//!     from: Item<'a, Read<T>>,
//! }
//!
//! let (mut to, from) = ([0.0], [1.0]);
//! let _ = Copy::<f32>::of(&mut to[..], &from[..]);
//! ```
//!
//! In the other order it is right:
//!
//! ```
//! # use flash_core::{KernelDefinition, kernel::Element, kernel::views::{Item, Read, Write}};
//! # type Result<T> = Write<T>;
//! #[derive(KernelDefinition)]
//! #[kernel(name = "copy", dims(x))]
//! struct Copy<'a, T: Element> {
//!     from: Item<'a, Read<T>>,
//!     to: Item<'a, Result<T>>,
//! }
//!
//! let (mut to, from) = ([0.0], [1.0]);
//! let _ = Copy::<f32>::of(&from[..], &mut to[..]);
//! ```
