//! What the macros refuse, and what they must accept: see `tests`.
//!
//! One mistake the compiler finds only where it generates code, which it does for examples of documentation: what is
//! written stands before what is read, behind an alias, in a definition that is generic.
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
//! The other way round it is right:
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
