//! Kernels of a device that are functions of the host, such as those of a vendor's library.

use super::implementation::{definition_of, descriptor_text};
use super::{Element, KernelDefinition};
use crate::devices::attribute;
use flash_backend::__host::PARTS;
use flash_backend::Failure;
use flash_backend::caught;
use flash_types::Code;
use flash_types::abi::{self, Arg, Buffer, QueueCall, QueueFn, Str};
use flash_types::index::{DynRuns, SpaceRef};
use smallvec::SmallVec;
use std::ops::Range;

/// A kernel of a device that is a function of the host. It puts the work of one phase into the device's
/// queue, by a library of the vendor or its own interface, and returns before that is done.
///
/// [`device_function`] makes an implementation of it, which is registered as `ImplementationEntry`.
///
/// # Safety
/// The work that it puts into the queue does what the definition says: it touches only the arguments'
/// elements, only reads those that are read-only, and uses no other queue than the one whose handle the
/// function asks for.
pub unsafe trait DeviceFunction<D: KernelDefinition> {
    /// The kind of device, such as `cuda`.
    const TARGET: &'static str;

    /// True if it computes parts of a launch, too; otherwise each launch runs on one device.
    const PARTS: bool = false;

    /// Puts the work of one phase into the queue.
    ///
    /// # Errors
    /// Those of the library: the launch fails with the error.
    fn enqueue(call: &DeviceCall<'_>) -> Result<(), Failure>;
}

/// One call of a [`DeviceFunction`].
pub struct DeviceCall<'a> {
    raw: &'a QueueCall,
}

impl<'a> DeviceCall<'a> {
    /// The arguments, in the definition's order.
    pub fn args(&self) -> &'a [Arg] {
        if self.raw.arg_count == 0 {
            return &[];
        }
        // SAFETY: a call has that many arguments, which live as long as it does.
        unsafe { std::slice::from_raw_parts(self.raw.args, self.raw.arg_count as usize) }
    }

    fn space(&self) -> SpaceRef<'a> {
        // SAFETY: the space of a call lives as long as it does.
        unsafe { SpaceRef::new(&*self.raw.space) }
    }

    /// The half-open range of each dimension's values. Not all of them need occur, in the space or in this
    /// phase.
    pub fn dimensions(&self) -> Vec<Range<u64>> {
        let space = self.space();
        (0..space.dims().len()).map(|dim| space.value_range(dim)).collect()
    }

    /// Calls `body` for the work items of this phase, in their order, until it fails: once for each run of
    /// consecutive items along dimension 0, with the index of the first and their number.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn for_each_run(
        &self,
        mut body: impl FnMut(&[u64], u64) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let space = self.space();
        let mut runs = DynRuns::new(space, space.phase(self.raw.phase));
        let mut index: SmallVec<[u64; 4]> = SmallVec::new();
        let (mut first, mut items) = (index.clone(), 0u64);
        let mut add = |index: &SmallVec<[u64; 4]>, count: u64| {
            if items > 0 && index[0] == first[0].wrapping_add(items) && index[1..] == first[1..] {
                items += count;
                return Ok(());
            }
            let (before, count) =
                (std::mem::replace(&mut first, index.clone()), std::mem::replace(&mut items, count));
            if count > 0 { body(&before, count) } else { Ok(()) }
        };
        while let Some(run) = runs.next_run() {
            index.clear();
            index.extend_from_slice(run.index);
            if (run.dim, run.step) == (0, 1) {
                add(&index, run.count)?;
                continue;
            }
            for _ in 0..run.count {
                add(&index, 1)?;
                index[run.dim] = index[run.dim].wrapping_add_signed(run.step);
            }
        }
        if items > 0 { body(&first, items) } else { Ok(()) }
    }

    /// The phase.
    pub fn phase(&self) -> u64 {
        self.raw.phase
    }

    /// A scalar.
    ///
    /// # Errors
    /// [`Code::Invalid`] if the argument is no scalar of that size.
    pub fn scalar<T: Element>(&self, argument: usize) -> Result<T, Failure> {
        match self.args().get(argument) {
            // SAFETY: a scalar's bytes live as long as the call; any bytes are an element of this size.
            Some(arg) if arg.kind == abi::ARG_SCALAR && arg.element_size as usize == size_of::<T>() => unsafe {
                Ok(arg.data.cast::<T>().read_unaligned())
            },
            found => {
                let found = found.map_or("no argument".into(), |arg| {
                    format!("one of kind {} and {} bytes", arg.kind, arg.element_size)
                });
                let text = format!(
                    "argument {argument}: expected a scalar of {} bytes, found {found}",
                    size_of::<T>()
                );
                Err(Failure::new(Code::Invalid, text))
            }
        }
    }

    /// The address on the device of an array's element 0, for devices whose buffers have addresses.
    ///
    /// # Errors
    /// [`Code::Invalid`] if the argument is no array; those of the backend.
    pub fn address(&self, argument: usize) -> Result<u64, Failure> {
        let arg = self.args().get(argument).filter(|arg| arg.kind != abi::ARG_SCALAR);
        let Some(arg) = arg else {
            let text = format!("argument {argument}: expected an array, found none");
            return Err(Failure::new(Code::Invalid, text));
        };
        let buffer = Buffer { space: arg.space, reserved: 0, handle: arg.buffer };
        // SAFETY: an argument's part lives as long as the call.
        let origin = unsafe { arg.part.as_ref() }.map_or(0, |part| part.origin);
        let first = self.handle("buffer", Some(buffer))?;
        Ok(first.wrapping_sub(origin.wrapping_mul(u64::from(arg.element_size))))
    }

    /// The vendor's own handle of the device's `stream`, `context` or `device`; backends document which they
    /// have.
    ///
    /// # Errors
    /// [`Code::Unsupported`] for a kind that the backend does not know.
    pub fn native(&self, kind: &str) -> Result<u64, Failure> {
        self.handle(kind, None)
    }

    fn handle(&self, kind: &str, buffer: Option<Buffer>) -> Result<u64, Failure> {
        let mut handle = 0;
        let object = buffer.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let found = self.raw.native_handle.is_some_and(|native| {
            // SAFETY: the call's own context, a text and a buffer that live for it, and a local variable.
            unsafe {
                native(self.raw.context, Str { ptr: kind.as_ptr(), len: kind.len() }, object, &mut handle)
                    == 0
            }
        });
        match found {
            true => Ok(handle),
            false => Err(Failure::new(
                Code::Unsupported,
                format!("this device has no native handle of kind `{kind}`"),
            )),
        }
    }
}

/// The C function of a [`DeviceFunction`].
unsafe extern "C" fn queue_fn<D: KernelDefinition, I: DeviceFunction<D>>(call: *const QueueCall) -> i32 {
    // SAFETY: the backend's call lives until this returns.
    let raw = unsafe { &*call };
    let failure = match caught(|| I::enqueue(&DeviceCall { raw })) {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::new(Code::Kernel, format!("the function panicked: {panic}")),
    };
    if let Some(fail) = raw.fail {
        let text = Str { ptr: failure.text.as_ptr(), len: failure.text.len() };
        // SAFETY: the call's own context, and a text that lives for it.
        unsafe { fail(raw.context, failure.code.raw(), text) };
    }
    1
}

/// Describes a function as an implementation of `D`. What it allocates lives for ever: there is one per
/// function and element type.
pub fn device_function<D: KernelDefinition, I: DeviceFunction<D>>(
    name: &'static str,
    priority: i32,
    attributes: &[(&'static str, &'static str)],
) -> &'static abi::Implementation {
    let descriptor = descriptor_text::<D>();
    let attributes = attributes.iter().map(|(key, value)| attribute(key, (*value).into()));
    let parts = I::PARTS.then(|| attribute(PARTS, true.into()));
    let attributes = attributes.chain(parts).collect::<Vec<_>>().leak();
    let function: QueueFn = queue_fn::<D, I>;
    Box::leak(Box::new(abi::Implementation {
        struct_size: size_of::<abi::Implementation>() as u32,
        door: abi::DOOR_WHOLE,
        kind: abi::KIND_QUEUE_FN,
        priority,
        kernel: Str::new(D::NAME),
        name: Str::new(name),
        target: Str::new(I::TARGET),
        descriptor: Str::new(descriptor),
        cpu_features: Str::new(""),
        attributes: attributes.as_ptr(),
        attribute_count: attributes.len(),
        share: None,
        span: None,
        payload: function as *const u8,
        payload_len: 0,
        definition: Str::new(definition_of::<D>()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flash_types::index::{Dim, Order, OrderTraits, count_by};

    /// The runs of each phase: the index of the first item, and the number of items.
    fn runs(dims: &[Dim], traits: &OrderTraits<'_>) -> Vec<Vec<(Vec<u64>, u64)>> {
        let order = Order::new(dims, traits).unwrap();
        let view = order.view();
        let space = view.get();
        let of = |phase| {
            let raw = QueueCall {
                struct_size: size_of::<QueueCall>() as u32,
                arg_count: 0,
                space: space.raw(),
                phase,
                args: std::ptr::null(),
                context: std::ptr::null_mut(),
                native_handle: None,
                fail: None,
            };
            let mut runs = Vec::new();
            let call = DeviceCall { raw: &raw };
            call.for_each_run(|first, count| {
                runs.push((first.to_vec(), count));
                Ok(())
            })
            .unwrap();
            runs
        };
        (0..space.phases()).map(of).collect()
    }

    #[test]
    fn items_that_follow_one_another_are_one_run() {
        let none = OrderTraits::default();
        assert_eq!(runs(&[Dim::from(3..40)], &none), [[(vec![3], 37)]]);
        assert_eq!(runs(&[count_by([1, 2, 3, 30, 7])], &none), [[(vec![1], 3), (vec![30], 1), (vec![7], 1)]]);
        assert_eq!(
            runs(&[Dim::from((2..9).step_by(3))], &none),
            [[(vec![2], 1), (vec![5], 1), (vec![8], 1)]]
        );
        let rows = OrderTraits { sort: &[0], group: None };
        assert_eq!(runs(&[Dim::from(5..7)], &rows), [[(vec![5], 1)], [(vec![6], 1)]]);
        assert_eq!(runs(&[Dim::from(0), Dim::from(3)], &none), [[]; 0]);
        assert_eq!(runs(&[Dim::from(2..5), Dim::from(0..2)], &none), [[(vec![2, 0], 3), (vec![2, 1], 3)]]);
    }
}
