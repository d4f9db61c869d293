//! Messages: the arguments of a run of a child rank, and how it went.
//!
//! A message owns or shares all arrays that its kernels touch, so that it does not depend on the object that
//! it was made of. What is external there is copied into memories of the message. When it has been received
//! it goes back to its child rank, which makes the next one of it: if that is of the same object, nothing is
//! allocated or looked up.
//!
//! A message of a device of another process can run again as long as its arguments are as they were when it
//! was sent. Its own arrays are: of what its kernels change in place it keeps the original. Arrays that it
//! shares with others are, unless its kernels change them in place, or a message that was sent later writes
//! them, for which there are counters ([`written`]).

use crate::deferred::Deferred;
use crate::error::{Code, Error, Result};
use crate::frame::{self, Frame};
use crate::object::{Array, ComputeObj, Contents, Item, Place};
use crate::replicas::Replica;
use flash_core::Handle;
use flash_core::descriptor::{Access, ArgumentDescriptor, KernelDescriptor, View};
use flash_core::index::{Dim, DimList, IntoDims};
use flash_core::memory::{AnyMemory, AnyType};
use flash_core::runtime::{AnyArgument, AnyArguments};
use smallvec::SmallVec;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Context;
use std::time::Instant;

/// A run of a child rank.
#[derive(Default)]
pub(crate) struct Message {
    /// That of the object that it was made of; 0: of none.
    layout: u64,
    items: SmallVec<[Item; 8]>,
    arrays: SmallVec<[Sent; 4]>,
    /// Per kernel, the number of its arguments, and its dimensions.
    kernels: SmallVec<[(usize, DimList); 1]>,
    /// Bytes of all arrays.
    pub bytes: usize,
    /// The number of its device in the child rank.
    pub replica: usize,
    /// How often it has run again because its device was lost.
    pub again: u32,
    /// When it was sent, if it is long.
    pub sent: Option<Instant>,
    pub outcome: Outcome,
}

/// How it went.
#[derive(Default)]
pub(crate) enum Outcome {
    #[default]
    Nothing,
    Done(Result<()>),
    Running(Handle),
    /// It runs where it is received, or has been begun since.
    Deferred(Arc<Deferred>),
    /// Its device was lost, so it can run again.
    Lost(Error),
}

/// An array of a message.
struct Sent {
    memory: AnyMemory,
    range: Option<Range<usize>>,
    /// It is the message's own, of an external array.
    staged: bool,
    /// As it was in the object.
    of: Array,
    /// Its elements count when the kernels begin.
    read: bool,
    written: bool,
    /// The kernels read elements that were there when they began, and write it.
    in_place: bool,
    /// Its elements when it was sent, if it is the message's own and changed in place.
    original: Option<Vec<u8>>,
    /// [`written`] when it was sent, if others have it, too.
    seen: u64,
}

/// How many messages were sent that write a memory, or calls that did. Several memories have one counter:
/// what has not changed was not written.
fn written(memory: &AnyMemory) -> &'static AtomicU64 {
    static ALL: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
    let hash = (memory.address().addr() as u64 >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54;
    &ALL[hash as usize]
}

/// True if what writes or has written an array for a message, the failsafe without a device, sees the host's
/// memory of it.
#[inline]
fn shares(replica: Option<&Replica>, memory: &AnyMemory) -> bool {
    replica.is_none_or(|replica| replica.shares(memory))
}

/// Another message, or a call, writes a memory.
#[inline]
pub(crate) fn writes(memory: &AnyMemory) {
    written(memory).fetch_add(1, Relaxed);
}

/// Where a receive puts what it gets.
pub(crate) enum Into<'a> {
    Object(&'a ComputeObj),
    /// An address, and how many elements there is room for.
    Array(*mut u8, usize, AnyType),
}

/// The arguments of one kernel.
struct Arguments<'m> {
    items: &'m [Item],
    arrays: &'m [Sent],
}

// SAFETY: items and arrays of a message that nothing changes while it is borrowed.
unsafe impl AnyArguments for Arguments<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.items.len()
    }

    #[inline]
    fn at(&self, position: usize) -> Option<AnyArgument<'_>> {
        Some(match self.items.get(position)? {
            Item::Scalar(element, bytes) => AnyArgument::Scalar(*element, bytes),
            Item::Array(array) => {
                let array = &self.arrays[*array];
                match &array.range {
                    None => AnyArgument::Memory(&array.memory),
                    Some(range) => AnyArgument::Range(&array.memory, range.clone()),
                }
            }
        })
    }
}

/// Dimensions of a launch.
pub(crate) struct Dimensions<'m>(pub &'m [Dim]);

impl IntoDims for Dimensions<'_> {
    #[inline]
    fn push_into(self, dims: &mut DimList) {
        dims.extend(self.0.iter().cloned());
    }

    #[inline]
    fn are(self, known: &[Dim], dims: &mut DimList) -> bool {
        if known == self.0 {
            return true;
        }
        dims.clear();
        self.push_into(dims);
        false
    }
}

impl Message {
    /// True if receiving it waits for nothing.
    pub fn is_finished(&self) -> bool {
        match &self.outcome {
            Outcome::Running(handle) => handle.try_wait().is_some(),
            Outcome::Deferred(deferred) => deferred.is_finished(),
            _ => true,
        }
    }

    /// Takes the arguments of an object, for these kernels on a device; none: for the failsafe. `keep`: what
    /// it takes to run again, too.
    pub fn fill(
        &mut self,
        object: &Contents,
        kernels: &[&KernelDescriptor],
        replica: Option<&Replica>,
        keep: bool,
    ) -> Result<()> {
        (self.again, self.sent) = (0, None);
        if self.layout != object.layout || object.layout == 0 {
            self.layout = 0;
            self.adopt(object, kernels)?;
            self.layout = object.layout;
        }
        for (own, item) in self.items.iter_mut().zip(&object.items) {
            if let (Item::Scalar(_, own), Item::Scalar(_, bytes)) = (own, item) {
                own.copy_from_slice(bytes);
            }
        }
        for sent in &mut self.arrays {
            match sent.of.place {
                Place::External(address) if sent.read && sent.of.bytes() > 0 => {
                    let from: *const u8 = std::ptr::with_exposed_provenance(address);
                    // SAFETY: the caller of `ComputeObj::add_array` vouches for that many bytes, which are
                    // not in the message's own memory.
                    let bytes = unsafe { std::slice::from_raw_parts(from, sent.of.bytes()) };
                    sent.memory.write()?.copy_from_slice(bytes);
                    sent.original = (keep && sent.in_place).then(|| {
                        let mut original = sent.original.take().unwrap_or_default();
                        original.clear();
                        original.extend_from_slice(bytes);
                        original
                    });
                }
                _ => sent.show(replica)?,
            }
            if !sent.staged && sent.written {
                writes(&sent.memory);
            }
        }
        if keep {
            self.arrays.iter_mut().for_each(|sent| sent.seen = written(&sent.memory).load(Relaxed));
        }
        Ok(())
    }

    /// Makes memories and dimensions for the arguments of an object.
    #[cold]
    #[inline(never)]
    fn adopt(&mut self, object: &Contents, kernels: &[&KernelDescriptor]) -> Result<()> {
        let expected: usize = kernels.iter().map(|kernel| kernel.arguments.len()).sum();
        if !kernels.is_empty() && expected != object.items.len() {
            let signatures: Vec<String> =
                kernels.iter().map(|kernel| format!("{}{}", kernel.name, kernel.signature())).collect();
            let text = format!(
                "expected the {expected} arguments of {}, found {}",
                signatures.join(", then "),
                object.items.len()
            );
            return Err(Error::new(Code::Kernel, text));
        }
        let mut spare: Vec<Sent> = self.arrays.drain(..).filter(|sent| sent.staged).collect();
        self.items = object.items.clone();
        self.bytes = object.arrays.iter().map(Array::bytes).sum();
        self.kernels.clear();
        let mut first = 0;
        for (number, kernel) in kernels.iter().enumerate() {
            let count = kernel.arguments.len();
            let given = object.dimensions.get(number).filter(|given| !given.is_empty());
            let dimensions = match given {
                Some(given) => given.iter().cloned().collect(),
                None => implied(kernel, &object.items[first..][..count], &object.arrays)?,
            };
            self.kernels.push((count, dimensions));
            first += count;
        }
        for (index, array) in object.arrays.iter().enumerate() {
            let (mut read, mut written) = (kernels.is_empty(), kernels.is_empty());
            let (mut taken, mut anew) = (kernels.is_empty(), false);
            let mut items = object.items.iter();
            for (kernel, (_, dimensions)) in kernels.iter().zip(&self.kernels) {
                let own = kernel.arguments.iter().zip(items.by_ref());
                let own: SmallVec<[&ArgumentDescriptor; 2]> = own
                    .filter_map(|(argument, item)| match item {
                        Item::Array(of) if *of == index => Some(argument),
                        _ => None,
                    })
                    .collect();
                let all = |argument: &&ArgumentDescriptor| covers(argument, &array.shape, dimensions);
                let is_read = own.iter().any(|argument| argument.access != Access::Write);
                written |= own.iter().any(|argument| argument.access != Access::Read);
                // What an earlier kernel has written all of is no longer as it was.
                taken |= is_read && !anew;
                // Elements that a launch leaves out are as they were.
                read |= is_read || !own.iter().all(all);
                anew |= !is_read && own.iter().any(all);
            }
            let (memory, range, staged) = match &array.place {
                Place::External(_) => {
                    let fits = |sent: &Sent| sent.of.element == array.element && sent.of.shape == array.shape;
                    let memory = match spare.iter().position(fits) {
                        Some(at) => spare.swap_remove(at).memory,
                        None => AnyMemory::fixed(array.element, &array.shape)?,
                    };
                    (memory, None, true)
                }
                Place::Unified(memory, range) => (memory.clone(), range.clone(), false),
                Place::Internal { memory, .. } | Place::Owned(memory) => (memory.clone(), None, false),
            };
            self.arrays.push(Sent {
                memory,
                range,
                staged,
                of: array.clone(),
                read,
                written,
                in_place: taken && written,
                original: None,
                seen: 0,
            });
        }
        Ok(())
    }

    /// The kernels' arguments and dimensions, the first one's first.
    pub fn kernels(&self) -> impl Iterator<Item = (impl AnyArguments, Dimensions<'_>)> {
        let mut first = 0;
        self.kernels.iter().map(move |(count, dimensions)| {
            let arguments = Arguments { items: &self.items[first..][..*count], arrays: &self.arrays };
            first += count;
            (arguments, Dimensions(dimensions))
        })
    }

    /// The child rank of an internal buffer, if it has one that is of a child rank.
    pub fn state(object: &Contents) -> impl Iterator<Item = i32> {
        object.arrays.iter().filter_map(|array| match array.place {
            Place::Internal { child, .. } if child != 0 => Some(child),
            _ => None,
        })
    }

    /// The arguments as an object whose arrays are those of the message, on the host.
    pub fn object(&self) -> Result<ComputeObj> {
        let arrays = self.arrays.iter().map(|sent| {
            let place = match &sent.of.place {
                Place::Unified(..) => sent.of.place.clone(),
                _ => {
                    drop(sent.memory.write()?);
                    Place::Owned(sent.memory.clone())
                }
            };
            Ok(Array { place, ..sent.of.clone() })
        });
        let arrays = arrays.collect::<Result<_>>()?;
        Ok(ComputeObj::of(Contents::new(self.items.clone(), arrays, Vec::new())))
    }

    /// As [`is_finished`](Self::is_finished); if not, `context` is told when it is.
    pub fn has_finished(&mut self, context: &mut Context<'_>) -> bool {
        match &mut self.outcome {
            Outcome::Running(handle) => Pin::new(handle).poll(context).is_ready(),
            _ => self.is_finished(),
        }
    }

    /// What its kernels made of its arguments as a frame, by which another process receives it.
    pub fn frame(&self) -> Result<Vec<u8>> {
        let arrays = self.arrays.iter().map(|sent| (&sent.of, sent.written));
        frame::write(false, &self.items, arrays, |array, to| {
            let sent = &self.arrays[array];
            to.extend_from_slice(&sent.memory.read(sent.range())?);
            Ok(())
        })
    }

    /// The arguments that a frame of another process has.
    pub fn of_frame(frame: Frame<'_>) -> Result<Message> {
        let arrays = frame.arrays.into_iter().map(|array| {
            let memory = AnyMemory::fixed(array.element, &array.shape)?;
            if !array.bytes.is_empty() {
                memory.write()?.copy_from_slice(array.bytes);
            }
            let of =
                Array { element: array.element, shape: array.shape, place: Place::Owned(memory.clone()) };
            let written = array.written || frame.is_sent;
            Ok(Sent {
                memory,
                range: None,
                staged: false,
                of,
                read: false,
                written,
                in_place: false,
                original: None,
                seen: 0,
            })
        });
        Ok(Message { items: frame.items, arrays: arrays.collect::<Result<_>>()?, ..Message::default() })
    }

    /// Its scalars, with their positions.
    pub fn scalars(&self) -> impl Iterator<Item = (usize, AnyType, &[u8])> {
        self.items.iter().enumerate().filter_map(|(position, item)| match item {
            Item::Scalar(element, bytes) => Some((position, *element, &bytes[..])),
            Item::Array(_) => None,
        })
    }

    /// The failsafe has it: all arrays count as written.
    pub fn all_written(&mut self) {
        self.arrays.iter_mut().for_each(|sent| sent.written = true);
        self.layout = 0;
    }

    /// Bytes of the arrays that its kernels write.
    pub fn written_bytes(&self) -> u64 {
        self.arrays.iter().filter(|sent| sent.written).map(|sent| sent.of.bytes() as u64).sum()
    }

    /// Its run failed: what it has of arrays is no use for another. Unified memory is the program's again,
    /// and not poisoned, since that writes it by its address.
    pub fn discard(&mut self) {
        self.layout = 0;
        let unified = self.arrays.iter().filter(|sent| matches!(sent.of.place, Place::Unified(..)));
        // In use by another message, it is left to that.
        unified.for_each(|sent| drop(sent.memory.write()));
        self.arrays.clear();
    }

    /// Why its arguments are not as they were when it was sent, if they are not. It had [`fill`](Self::fill)
    /// keep what it takes.
    pub fn cannot_run_again(&self) -> Option<&'static str> {
        for sent in &self.arrays {
            if sent.in_place && sent.original.is_none() && sent.of.bytes() > 0 {
                return Some(
                    "it changes an array in place that is not a copy of its own: unified memory, a buffer, or what an empty object received",
                );
            }
            if !sent.staged && sent.seen != written(&sent.memory).load(Relaxed) {
                return Some("what was sent later writes an array that both have");
            }
        }
        None
    }

    /// Tells a device that the host may have written its arrays.
    pub fn show(&self, replica: &Replica) -> Result<()> {
        self.arrays.iter().try_for_each(|sent| sent.show(Some(replica)))
    }

    /// True if others may have one of its arrays, too.
    pub fn has_shared_arrays(&self) -> bool {
        self.arrays.iter().any(|sent| !sent.staged)
    }

    /// What its kernels change in place is as it was.
    pub fn restore(&mut self) -> Result<()> {
        for sent in &self.arrays {
            if let Some(original) = &sent.original {
                sent.memory.write()?.copy_from_slice(original);
            }
        }
        Ok(())
    }

    /// Writes what the kernels wrote to where a receive wants it. Returns the number of bytes.
    pub fn deliver(&mut self, into: &Into<'_>, by: Option<&Replica>) -> Result<u64> {
        match into {
            Into::Object(object) => {
                let contents = object.read()?;
                if contents.items.is_empty() {
                    drop(contents);
                    return self.give(object);
                }
                self.write_to(&contents, by)
            }
            Into::Array(data, count, element) => self.write_array(*data, *count, *element),
        }
    }

    fn write_to(&self, contents: &Contents, by: Option<&Replica>) -> Result<u64> {
        let mut bytes = 0;
        if contents.layout == self.layout {
            for (sent, array) in self.arrays.iter().zip(&contents.arrays) {
                bytes += sent.write_to(array, by)?;
            }
            return Ok(bytes);
        }
        if contents.items.len() != self.items.len() {
            let text = format!(
                "expected an empty compute object, or one with {} arguments as was sent, found {}",
                self.items.len(),
                contents.items.len()
            );
            return Err(Error::new(Code::Count, text));
        }
        let pairs = || self.items.iter().zip(&contents.items).enumerate();
        let arrays = pairs().filter_map(|(position, (sent, item))| match sent {
            Item::Array(at) if self.arrays[*at].written => Some((position, &self.arrays[*at], item)),
            _ => None,
        });
        // All of it is checked before anything is written.
        let mut checked: SmallVec<[(&Sent, &Array); 4]> = SmallVec::new();
        for (position, sent, item) in arrays {
            match item {
                Item::Array(at)
                    if contents.arrays[*at].element.agrees(sent.of.element)
                        && contents.arrays[*at].len() == sent.of.len() =>
                {
                    checked.push((sent, &contents.arrays[*at]));
                }
                other => {
                    let found = match other {
                        Item::Scalar(element, _) => format!("a scalar `{}`", element.name),
                        Item::Array(at) => {
                            let array = &contents.arrays[*at];
                            format!("{} of `{}`", array.len(), array.element.name)
                        }
                    };
                    let text = format!(
                        "argument {position}: expected an array of {} of `{}`, as was sent, found {found}",
                        sent.of.len(),
                        sent.of.element.name
                    );
                    return Err(Error::new(Code::Type, text));
                }
            }
        }
        for (sent, array) in checked {
            bytes += sent.write_to(array, by)?;
        }
        Ok(bytes)
    }

    /// Gives its arguments to an object that is empty.
    #[cold]
    fn give(&mut self, object: &ComputeObj) -> Result<u64> {
        let given = self.object_given();
        let bytes = self.written_bytes();
        *object.write()? = given;
        self.arrays.clear();
        self.layout = 0;
        Ok(bytes)
    }

    fn object_given(&self) -> Contents {
        let arrays = self.arrays.iter().map(|sent| {
            let place = match &sent.of.place {
                Place::External(_) => Place::Owned(sent.memory.clone()),
                other => other.clone(),
            };
            Array { place, ..sent.of.clone() }
        });
        Contents::new(self.items.clone(), arrays.collect(), Vec::new())
    }

    /// The one array that its kernel wrote.
    fn written_array(&self) -> Result<&Sent> {
        let mut written = self.arrays.iter().filter(|sent| sent.written);
        match (written.next(), written.next()) {
            (Some(sent), None) => Ok(sent),
            _ => {
                let text = format!(
                    "expected a message with one array that its kernel writes, found {}: receive it into a compute object",
                    self.arrays.iter().filter(|sent| sent.written).count()
                );
                Err(Error::new(Code::Type, text))
            }
        }
    }

    /// The bytes of the one array that its kernel wrote.
    pub fn elements(&self) -> Result<Vec<u8>> {
        let sent = self.written_array()?;
        Ok(sent.memory.read(sent.range())?.to_vec())
    }

    /// Writes the one array that its kernel wrote.
    fn write_array(&self, data: *mut u8, count: usize, element: AnyType) -> Result<u64> {
        let sent = self.written_array()?;
        let is_bytes = element.name == "u8";
        if !sent.of.element.agrees(element) && !is_bytes {
            let text = format!(
                "expected the type `{}`, as was sent, found `{}`",
                sent.of.element.name, element.name
            );
            return Err(Error::new(Code::Type, text));
        }
        let (room, bytes) = (count.saturating_mul(element.size), sent.of.bytes());
        if room < bytes {
            let text = format!("expected room for {bytes} bytes, found {room}");
            return Err(Error::new(Code::Count, text));
        }
        if bytes > 0 {
            sent.copy_to(data)?;
        }
        Ok(bytes as u64)
    }
}

impl Sent {
    fn range(&self) -> Range<usize> {
        self.range.clone().unwrap_or(0..self.memory.len())
    }

    /// Tells a device that the program may have written it since devices had it.
    fn show(&self, replica: Option<&Replica>) -> Result<()> {
        let is_of_program = matches!(self.of.place, Place::Unified(..) | Place::Owned(_));
        if is_of_program && !shares(replica, &self.memory) {
            drop(self.memory.write()?);
        }
        Ok(())
    }

    /// Copies its elements to an address of the program's that has room for them.
    fn copy_to(&self, to: *mut u8) -> Result<()> {
        let bytes = self.memory.read(self.range())?;
        if to.addr() != bytes.as_ptr().addr() {
            // SAFETY: the program vouches for the room; an address inside this very memory is of the same
            // array, which `copy` allows.
            unsafe { std::ptr::copy(bytes.as_ptr(), to, bytes.len()) };
        }
        Ok(())
    }

    /// Writes its elements, if a kernel wrote them, to an array of as many. Returns the number of bytes.
    fn write_to(&self, array: &Array, by: Option<&Replica>) -> Result<u64> {
        if !self.written {
            return Ok(0);
        }
        let bytes = self.of.bytes() as u64;
        match &array.place {
            Place::External(address) => {
                if bytes > 0 {
                    self.copy_to(std::ptr::with_exposed_provenance_mut(*address))?;
                }
            }
            Place::Unified(memory, range) if memory.address() == self.memory.address() => {
                if *range != self.range {
                    self.copy_to(at(memory, range))?;
                } else if !shares(by, &self.memory) {
                    drop(self.memory.read(self.range())?);
                }
            }
            Place::Unified(memory, range) => {
                writes(memory);
                drop(memory.write()?);
                self.copy_to(at(memory, range))?;
            }
            Place::Internal { memory, .. } | Place::Owned(memory) => {
                if memory.address() != self.memory.address() {
                    writes(memory);
                    let from = self.memory.read(self.range())?;
                    memory.write()?.copy_from_slice(&from);
                }
            }
        }
        Ok(bytes)
    }
}

/// Where a range of a unified memory begins.
fn at(memory: &AnyMemory, range: &Option<Range<usize>>) -> *mut u8 {
    let first = range.as_ref().map_or(0, |range| range.start);
    memory.address().wrapping_add(first * memory.element().size)
}

/// True if a launch with these dimensions writes all of an array that it writes item by item, or accumulates.
fn covers(argument: &ArgumentDescriptor, shape: &[u64], dimensions: &[Dim]) -> bool {
    match argument.view {
        View::Reduce => true,
        View::Item | View::Phased => {
            let axes = shape.get(usize::from(argument.row)..).unwrap_or_default();
            let counts = argument.along.iter().map(|along| match dimensions.get(*along) {
                Some(Dim::Count(count)) => Some(*count),
                _ => None,
            });
            let items =
                axes.iter().enumerate().map(|(axis, extent)| Some(argument.items_along(axis, *extent)));
            axes.len() == argument.along.len() && counts.eq(items)
        }
        _ => false,
    }
}

/// The dimensions that follow from the arrays: each is as long as an array that it indexes item by item.
fn implied(kernel: &KernelDescriptor, items: &[Item], arrays: &[Array]) -> Result<DimList> {
    let extent = |dimension: usize| {
        kernel.arguments.iter().zip(items).find_map(|(argument, item)| {
            let Item::Array(array) = item else { return None };
            let axis = argument.along.iter().position(|along| *along == dimension)?;
            let along_items = matches!(argument.view, View::Item | View::Phased);
            let shape = &arrays[*array].shape;
            let extent = shape.get(axis + usize::from(argument.row)).filter(|_| along_items)?;
            Some(argument.items_along(axis, *extent))
        })
    };
    let all = kernel.dimensions.iter().enumerate();
    all.map(|(number, name)| {
        extent(number).map(Dim::Count).ok_or_else(|| {
            let text = format!(
                "expected the range of dimension `{name}` of {}, which follows from no array: set it (MPIX_ComputeObj_range)",
                kernel.name
            );
            Error::new(Code::Kernel, text)
        })
    })
    .collect()
}
