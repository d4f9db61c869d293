//! Partition maps that are functions: their input, their result, their registry by name.

use super::Element;
use flash_types::abi::Arg;
use flash_types::descriptor::{ArgumentDescriptor, ElementType, KernelDescriptor, View};
use flash_types::index::IntoBox;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A function that gives the elements of the arrays that a part of an index space touches. Made by
/// [`partition_map!`](crate::kernel::partition_map), named in a definition as `part_by(y, map = PATH)`.
///
/// Its result must not depend on anything but the candidate.
pub struct PartitionMap {
    name: &'static str,
    boxes: fn(&Candidate<'_>, &mut Boxes),
    cost: Option<fn(&Candidate<'_>) -> u64>,
}

/// A [`PartitionMap`] of this program or plugin.
#[doc(hidden)]
pub struct PartitionMapEntry(pub &'static PartitionMap);

inventory::collect!(PartitionMapEntry);

impl PartitionMap {
    /// A map of this name, which must be unique in the program.
    pub const fn new(name: &'static str, boxes: fn(&Candidate<'_>, &mut Boxes)) -> PartitionMap {
        PartitionMap { name, boxes, cost: None }
    }

    /// With a cost: the work in a candidate subspace, in any unit. Parts then get equal cost (by their
    /// weights), not equal numbers of index values.
    #[must_use]
    pub const fn with_cost(mut self, cost: fn(&Candidate<'_>) -> u64) -> PartitionMap {
        self.cost = Some(cost);
        self
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn boxes(&self, candidate: &Candidate<'_>) -> Boxes {
        let mut boxes = Boxes(Vec::new());
        (self.boxes)(candidate, &mut boxes);
        boxes
    }

    pub(crate) fn cost(&self) -> Option<fn(&Candidate<'_>) -> u64> {
        self.cost
    }

    /// The map of a name, or the available names.
    pub(crate) fn find(name: &str) -> Result<&'static PartitionMap, Vec<&'static str>> {
        let all = || inventory::iter::<PartitionMapEntry>.into_iter().map(|entry| entry.0);
        all().find(|map| map.name == name).ok_or_else(|| all().map(|map| map.name).collect())
    }
}

impl From<&PartitionMap> for String {
    /// Its name, which descriptors use.
    fn from(map: &PartitionMap) -> String {
        map.name.to_owned()
    }
}

impl fmt::Debug for PartitionMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartitionMap({})", self.name)
    }
}

/// Makes a function a [`PartitionMap`] and registers it: `static NAME = "group.name": function;`, or with
/// the work of a candidate, `static NAME = "group.name": function, cost: function;`.
#[macro_export]
#[doc(hidden)]
macro_rules! __partition_map {
    ($(#[$attribute:meta])* $vis:vis static $name:ident = $text:literal: $boxes:expr $(, cost: $cost:expr)?;) => {
        $(#[$attribute])*
        $vis static $name: $crate::kernel::PartitionMap =
            $crate::kernel::PartitionMap::new($text, $boxes)$(.with_cost($cost))?;
        $crate::__private::inventory::submit! { $crate::kernel::PartitionMapEntry(&$name) }
    };
}

/// A part of an index space, and the launch that it belongs to. With barriers it is a part of one phase, if
/// the map asks for a dimension whose values change from phase to phase; otherwise the result holds for all
/// phases. Everything here panics with a clear text if a name or a type is wrong; the launch is then refused
/// with that text.
pub struct Candidate<'a> {
    descriptor: &'a KernelDescriptor,
    values: &'a [Range<u64>],
    args: &'a [Arg],
    shapes: &'a [&'a [u64]],
    /// The dimensions whose ranges were asked for, one bit each.
    asked: AtomicU64,
}

impl<'a> Candidate<'a> {
    /// # Safety
    /// `args` are arguments of a launch of this kernel, with addresses in the host's memory. Scalars, and
    /// arrays that are marked as structure, are present and not written during `'a`. So are those that a
    /// [`ContentsCheck`](super::ContentsCheck) reads, if it gets the candidate.
    pub(crate) unsafe fn new(
        descriptor: &'a KernelDescriptor,
        values: &'a [Range<u64>],
        args: &'a [Arg],
        shapes: &'a [&'a [u64]],
    ) -> Candidate<'a> {
        assert!(args.len() == descriptor.arguments.len() && shapes.len() == args.len());
        Candidate { descriptor, values, args, shapes, asked: AtomicU64::new(0) }
    }

    /// True if the range of a dimension was asked for: only then can the result depend on it.
    pub(crate) fn was_asked_for(&self, dimension: usize) -> bool {
        self.asked.load(Relaxed) & bit(dimension) != 0
    }

    /// The half-open range of a dimension's index values, by name.
    #[track_caller]
    pub fn values(&self, dimension: &str) -> Range<u64> {
        match self.descriptor.dimensions.iter().position(|name| name == dimension) {
            Some(number) => {
                self.asked.fetch_or(bit(number), Relaxed);
                self.values[number].clone()
            }
            None => {
                panic!("no dimension `{dimension}`: the kernel has {}", self.descriptor.dimensions.join(", "))
            }
        }
    }

    /// The value of a scalar argument.
    #[track_caller]
    pub fn scalar<T: Element>(&self, argument: &str) -> T {
        let (number, spec) = self.argument(argument, View::Scalar);
        check_type::<T>(spec);
        // SAFETY: `new`'s caller promised the scalar's bytes; its type is `T`, just checked.
        unsafe { super::views::scalar(&self.args[number]) }
    }

    /// The shape of an array argument, axis 0 first; without one, its length.
    #[track_caller]
    pub fn shape(&self, argument: &str) -> &'a [u64] {
        self.shapes[self.array(argument)]
    }

    /// The number of elements of an array argument, of which its shape may have fewer.
    #[track_caller]
    pub fn len(&self, argument: &str) -> u64 {
        self.args[self.array(argument)].len
    }

    /// The elements of an array argument that is marked `#[structure]`.
    #[track_caller]
    pub fn structure<T: Element>(&self, argument: &str) -> &'a [T] {
        let (number, spec) = self.argument(argument, View::Whole);
        assert!(spec.structure, "argument `{argument}` is not there for maps: mark it `#[structure]`");
        check_type::<T>(spec);
        let arg = &self.args[number];
        // SAFETY: `new`'s caller promised an array of `len` elements that is not written during 'a; their
        // type is `T`, just checked.
        unsafe { super::views::whole((arg.data.cast_const().cast(), arg.len as usize)) }
    }

    /// The elements of a `Whole` or a `Window`, for checks of contents.
    #[track_caller]
    pub(super) fn read_only<T: Element>(&self, argument: &str) -> &'a [T] {
        let number = self.number(argument);
        let spec = &self.descriptor.arguments[number];
        assert!(
            matches!(spec.view, View::Whole | View::Window),
            "argument `{argument}` is neither a `Whole` nor a `Window` but `{spec}`"
        );
        check_type::<T>(spec);
        let arg = &self.args[number];
        // SAFETY: only a `ContentsCheck` comes here, with an argument that it names: `new`'s caller promised
        // an array of `len` elements that is not written during 'a. Their type is `T`, just checked.
        unsafe { super::views::whole((arg.data.cast_const().cast(), arg.len as usize)) }
    }

    #[track_caller]
    fn number(&self, argument: &str) -> usize {
        let arguments = &self.descriptor.arguments;
        arguments.iter().position(|a| a.name == argument).unwrap_or_else(|| {
            let names: Vec<&str> = arguments.iter().map(|a| a.name.as_str()).collect();
            panic!("no argument `{argument}`: the kernel has {}", names.join(", "))
        })
    }

    #[track_caller]
    fn array(&self, argument: &str) -> usize {
        let number = self.number(argument);
        assert!(
            self.descriptor.arguments[number].view != View::Scalar,
            "argument `{argument}` is a scalar: take its value with `scalar`"
        );
        number
    }

    #[track_caller]
    fn argument(&self, name: &str, view: View) -> (usize, &'a ArgumentDescriptor) {
        let number = self.number(name);
        let spec = &self.descriptor.arguments[number];
        let what = if view == View::Scalar { "a scalar" } else { "a `Whole`" };
        assert!(spec.view == view, "argument `{name}` is not {what} but `{spec}`");
        (number, spec)
    }
}

/// The last bit stands for all further dimensions.
fn bit(dimension: usize) -> u64 {
    1 << dimension.min(63)
}

#[track_caller]
fn check_type<T: Element>(spec: &ArgumentDescriptor) {
    assert!(
        spec.element.is::<T>(),
        "argument `{}` is of `{}`, not of `{}`",
        spec.name,
        spec.element,
        ElementType::of::<T>()
    );
}

/// The result of a [`PartitionMap`]. Arguments for which it sets nothing follow their views.
#[derive(Debug)]
pub struct Boxes(Vec<(String, Vec<Range<u64>>)>);

impl Boxes {
    /// The elements of an argument (a `Window`, a `Scatter`, or what a `Phased` reads), or of all arguments
    /// of a group, that the subspace touches: a range per axis of its shape, `[1..3, 0..2]`, axis 0 first, or
    /// `1..3` for axis 0 alone; axes that are not listed are included in full.
    pub fn set(&mut self, argument: &str, axes: impl IntoBox) {
        self.0.push((argument.to_owned(), axes.into_box()));
    }

    /// All elements of an argument.
    pub fn all(&mut self, argument: &str) {
        self.set(argument, []);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &[Range<u64>])> {
        self.0.iter().map(|(name, axes)| (name.as_str(), &axes[..]))
    }
}
