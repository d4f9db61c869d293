//! Checks of the contents of arguments: what the host looks at before a launch under `FLASH_CHECK_BOUNDS`.

use super::{Candidate, Element, KernelDefinition, descriptor_of};
use flash_types::descriptor::KernelDescriptor;
use std::fmt;
use std::ops::Range;

/// A check of what a kernel finds in its arrays and then uses as an index, such as the columns of a sparse
/// matrix. Code for devices cannot report what is wrong there. Made by
/// [`contents_check!`](crate::kernel::contents_check).
///
/// It runs on the host, before each launch of the kernel on any device, in contexts whose setting
/// `check_bounds` is on (`FLASH_CHECK_BOUNDS=1`). What a device has of the arrays that it reads is copied to
/// the host first. A launch that it refuses does not run, and what it should have written is poisoned.
pub struct ContentsCheck {
    kernel: fn() -> KernelDescriptor,
    reads: &'static [&'static str],
    check: fn(&Contents<'_>) -> Result<(), WrongContents>,
}

/// A [`ContentsCheck`] of this program or plugin.
#[doc(hidden)]
pub struct ContentsCheckEntry(pub ContentsCheck);

inventory::collect!(ContentsCheckEntry);

/// What is wrong with an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongContents {
    /// The argument's name.
    pub argument: &'static str,
    /// Where, what was expected, what was found, and what to do.
    pub text: String,
}

impl ContentsCheck {
    /// A check of the launches of a definition, by a function that reads the elements of these arguments.
    /// Each is a `Whole` or a `Window` of the definition.
    pub const fn new<D: KernelDefinition>(
        reads: &'static [&'static str],
        check: fn(&Contents<'_>) -> Result<(), WrongContents>,
    ) -> ContentsCheck {
        ContentsCheck { kernel: descriptor_of::<D>, reads, check }
    }

    /// The check of a kernel, if this program has one.
    pub(crate) fn find(kernel: &KernelDescriptor) -> Option<&'static ContentsCheck> {
        let all = inventory::iter::<ContentsCheckEntry>.into_iter().map(|entry| &entry.0);
        let is_of = |check: &&ContentsCheck| {
            let of = (check.kernel)();
            of.name == kernel.name && of.agrees(kernel)
        };
        all.into_iter().find(is_of)
    }

    /// True if it reads the elements of an argument of this name.
    pub(crate) fn reads(&self, argument: &str) -> bool {
        self.reads.contains(&argument)
    }

    /// The first argument that it reads, to be named where it panics.
    pub(crate) fn first(&self) -> &'static str {
        self.reads.first().copied().unwrap_or("-")
    }

    /// Calls the function.
    pub(crate) fn call(&self, launch: Candidate<'_>) -> Result<(), WrongContents> {
        (self.check)(&Contents { launch, reads: self.reads })
    }
}

impl fmt::Debug for ContentsCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentsCheck({})", (self.kernel)().name)
    }
}

/// Registers a [`ContentsCheck`]: `contents_check! { Definition<'static, f32>, [start, column], function }`.
/// The names are those of the arguments that the function reads.
#[macro_export]
#[doc(hidden)]
macro_rules! __contents_check {
    ($definition:ty, [$($argument:ident),* $(,)?], $check:expr) => {
        $crate::__private::inventory::submit! {
            $crate::kernel::ContentsCheckEntry($crate::kernel::ContentsCheck::new::<$definition>(
                &[$(stringify!($argument)),*],
                $check,
            ))
        }
    };
}

/// A launch, for a [`ContentsCheck`]. Everything here panics with a clear text if a name or a type is wrong;
/// the launch is then refused with that text.
pub struct Contents<'a> {
    launch: Candidate<'a>,
    reads: &'static [&'static str],
}

impl<'a> Contents<'a> {
    /// The half-open range of a dimension's index values, by name.
    #[track_caller]
    pub fn values(&self, dimension: &str) -> Range<u64> {
        self.launch.values(dimension)
    }

    /// The value of a scalar argument.
    #[track_caller]
    pub fn scalar<T: Element>(&self, argument: &str) -> T {
        self.launch.scalar(argument)
    }

    /// The number of elements of an array argument, of which its shape may have fewer.
    #[track_caller]
    pub fn len(&self, argument: &str) -> u64 {
        self.launch.len(argument)
    }

    /// The elements of an argument that the check reads.
    #[track_caller]
    pub fn elements<T: Element>(&self, argument: &str) -> &'a [T] {
        assert!(
            self.reads.contains(&argument),
            "argument `{argument}` is not there for this check: name it in `contents_check!`, beside {:?}",
            self.reads
        );
        self.launch.read_only(argument)
    }
}
