//! The writer of a submission's arguments, which compares them with those of the last recording.
//!
//! Only it writes arguments and their origins, one after the other, in the arenas of its list.

use super::{Source, SubmissionList};
use crate::kernel::views::Array;
use crate::kernel::{ArgumentWriter, Element};
use crate::memory::ArrayInner;
use flash_types::abi::Arg;

/// Writes the arguments of a submission. Its state stays in registers, which is why it is not just the
/// [`SubmissionList`].
pub(in crate::runtime) struct Writer<'s> {
    /// The next argument, and its origin.
    args: *mut Arg,
    sources: *mut Source,
    /// Number of arguments from here on.
    left: usize,
    comparing: bool,
    differs: bool,
    list: &'s mut SubmissionList,
}

impl SubmissionList {
    /// Takes the arguments of the submission that was begun.
    #[inline(always)]
    pub(in crate::runtime) fn write(&mut self) -> Writer<'_> {
        let (first, comparing) = (self.cursor, self.comparing);
        let left = self.args.len() - first;
        Writer {
            args: self.args[first..].as_mut_ptr(),
            sources: self.sources[first..].as_mut_ptr(),
            left,
            comparing,
            differs: false,
            list: self,
        }
    }
}

impl Writer<'_> {
    /// The next argument.
    #[inline(always)]
    fn next(&mut self) -> (*mut Arg, *mut Source) {
        assert!(self.left > 0, "a definition packs more arguments than it describes");
        let next = (self.args, self.sources);
        self.left -= 1;
        // SAFETY: there was one left, so this is at most the end of both.
        unsafe { (self.args, self.sources) = (self.args.add(1), self.sources.add(1)) };
        next
    }

    /// The next argument is a scalar of these bytes.
    #[inline(always)]
    pub fn scalar_bytes(&mut self, bytes: &[u8]) {
        let (arg, _) = self.next();
        // SAFETY: an argument of the recording. The arena has that much room at `data`: made here, or for
        // the same kind of submission before.
        unsafe {
            if !self.comparing {
                (*arg).data = self.list.bump.alloc(bytes.len()).cast();
                (*arg).len = 1;
            }
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), (*arg).data.cast(), bytes.len());
        }
    }

    /// All arguments are written.
    #[inline(always)]
    pub fn done(self) {
        self.list.differs |= self.differs;
    }
}

impl ArgumentWriter for Writer<'_> {
    #[inline(always)]
    fn scalar<T: Element>(&mut self, value: T) {
        self.scalar_bytes(bytemuck::bytes_of(&value));
    }

    #[inline(always)]
    fn array(&mut self, array: &mut Array<'_>) {
        let (arg, source) = self.next();
        // SAFETY: an argument of the recording.
        let (arg, source) = unsafe { (&mut *arg, &mut *source) };
        // SAFETY: the memory is borrowed, or owned, by the argument.
        let id = unsafe { array.memory.as_ref() }.map_or(0, ArrayInner::id);
        if arg.data != array.data.cast() || arg.len != array.len as u64 || !source.is(array, id) {
            arg.data = array.data.cast();
            arg.len = array.len as u64;
            (source.memory, source.id, source.part) = (array.memory, id, array.part);
            source.seen.set(&array.seen);
            self.differs = true;
        }
        if let Some(owner) = array.owner.take() {
            self.list.own(owner);
        }
    }
}
