//! Checked indices of kernels: the setting `check_bounds`.
//!
//! Kernels that cooperate find elements by `FLASH_AT`. With the setting they are compiled with
//! `FLASH_CHECK_BOUNDS`, by which the macro compares each index with its array. The first one outside is
//! noted in the launch's table, behind the details of arrays, and the kernel gets a place there instead of
//! the element. So the table of such a launch can be written, and is read after it.
//!
//! A text with the attribute `checked`, which `#[kernel(devices)]` writes, is always compiled so;
//! `FLASH_CHECK_ALL` tells it of the setting, for which it also checks what it would leave unchecked. It
//! notes faults of its own in the same words: the number of a message, for an array of the number [`OWN`],
//! and the index of the work item, if the text knows it: how many dimensions, and its values.

use super::KernelSpec;
use crate::failure::Failure;
use flash_types::Code;
use flash_types::abi::{self, Arg};
use flash_types::descriptor::ArgumentDescriptor;

/// Words of the table that a fault takes. Behind them is the place for elements that do not exist.
pub const FAULT_WORDS: usize = 16;

/// In the place of an array's number: the fault is one of the text's own.
const OWN: u64 = u64::MAX;

/// Bytes of that place, at least.
const SCRATCH: usize = 512;

impl KernelSpec {
    /// Lets the program check the indices of `FLASH_AT`, if it is compiled here and has such. Before its
    /// [`payload`](KernelSpec::payload) is read.
    pub(super) fn with_checks(&mut self, check_bounds: bool) {
        self.check_bounds = (check_bounds || self.checked) && self.cooperating;
        self.check_all = check_bounds;
    }

    /// The word of the table at which the words of a fault begin. `FLASH_FAULT` of the header.
    pub(super) fn fault_at(&self) -> usize {
        let arrays = self.arrays().count();
        ((super::launch_words::DETAIL + self.descriptor.dimensions.len()) * arrays).next_multiple_of(16)
    }

    /// Bytes of the largest element, and at least [`SCRATCH`].
    pub(super) fn scratch_bytes(&self) -> usize {
        let sizes = self.descriptor.arguments.iter().map(|argument| argument.element.size);
        sizes.chain([SCRATCH]).max().unwrap_or(SCRATCH).next_multiple_of(128)
    }

    /// Adds the words of a fault, and the place behind them, to the details in a table; of a `checked` text
    /// also the strides of the axes of each array.
    pub(super) fn add_fault(&self, args: &[Arg], table: &mut Vec<u64>) {
        table.resize(self.fault_at() + FAULT_WORDS + self.scratch_bytes() / 8, 0);
        for argument in self.arrays().filter(|_| self.checked) {
            table.extend(super::launch_words::axes(&args[argument]));
        }
    }

    /// The error that the words of a fault tell of, which a launch has left in its table.
    ///
    /// # Errors
    /// [`Code::Kernel`] if an index was outside its array.
    pub(super) fn check_fault(&self, words: &[u64; FAULT_WORDS]) -> Result<(), Failure> {
        let [flag, array, index, first, behind, size, ..] = *words;
        let [_, _, number, dimensions, work_item @ ..] = words;
        if flag as u32 == 0 {
            return Ok(());
        }
        if array == OWN {
            let message = usize::try_from(*number).ok().and_then(|number| self.messages.get(number));
            let message = message.map_or("the kernel noted a fault", String::as_str);
            let known = usize::try_from(*dimensions).ok().and_then(|dimensions| work_item.get(..dimensions));
            let place = known.filter(|index| !index.is_empty());
            let place = place.map_or_else(String::new, |index| format!(", at work item {index:?}"));
            return Err(Failure::new(Code::Kernel, format!("{}: {message}{place}", self.title)));
        }
        let argument = self.arrays().nth(usize::try_from(array).unwrap_or(usize::MAX));
        let argument: Option<&ArgumentDescriptor> = argument.and_then(|i| self.descriptor.arguments.get(i));
        let name = argument.map_or_else(String::new, |argument| format!(", argument `{}`", argument.name));
        let units = match argument {
            Some(argument) if argument.element.size as u64 == size => String::new(),
            _ => format!(" (counted in values of {size} bytes)"),
        };
        let text = format!(
            "{}{name}: expected an index from {first} up to, and without, {behind}, the length of what is there, found {}{units}: FLASH_AT of the kernel `{}` touched nothing there",
            self.title, index as i64, self.entry
        );
        Err(Failure::new(Code::Kernel, text))
    }
}

/// The end of an accumulator's elements, of which there is one set per block of work items.
pub(super) fn end_of_accumulators(arg: &Arg, items: u64) -> Option<u64> {
    (arg.kind == abi::ARG_REDUCE).then(|| items.div_ceil(arg.row_len.max(1)).saturating_mul(arg.len))
}
