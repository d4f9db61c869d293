//! Kernels of a device that are functions of the host's, such as those of a vendor's library.

use super::implementation::descriptor_of;
use super::shim::panic_text;
use super::{Element, KernelDefinition, attribute};
use crate::abi::{self, Arg, Buffer, QueueCall, QueueFn, Str};
use crate::backend::Failure;
use crate::error::Code;
use crate::index::SpaceRef;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A kernel of a device that is a function of the host's: it puts the work of one phase into the device's queue, by a
/// library of the vendor's or its own interface, and returns before that is done. Launches are whole.
///
/// [`device_function`] makes an implementation of it, which is registered as `ImplementationEntry`.
///
/// # Safety
/// What it puts into the queue does what the definition says: it touches the arguments' elements and nothing else, reads
/// those that are only read, and is in no other queue than the one whose handle it asks for.
pub unsafe trait DeviceFunction<D: KernelDefinition> {
    /// The kind of device, such as `cuda`.
    const TARGET: &'static str;

    /// Puts the work of one phase into the queue.
    ///
    /// # Errors
    /// Those of the library: the launch fails with it.
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
        // SAFETY: a call has so many arguments, which live as long as it does.
        unsafe { std::slice::from_raw_parts(self.raw.args, self.raw.arg_count as usize) }
    }

    /// The half-open range of each dimension's values.
    pub fn dimensions(&self) -> Vec<Range<u64>> {
        // SAFETY: the space of a call lives as long as it does.
        let space = unsafe { SpaceRef::new(&*self.raw.space) };
        (0..space.dims().len()).map(|dim| space.value_range(dim)).collect()
    }

    /// The phase.
    pub fn phase(&self) -> u64 {
        self.raw.phase
    }

    /// A scalar.
    ///
    /// # Errors
    /// [`Code::Invalid`] if the argument is no scalar of so many bytes.
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

    /// The address on the device of an array's element 0: of devices whose buffers have addresses.
    ///
    /// # Errors
    /// [`Code::Invalid`] if the argument is no array; the backend's.
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

    /// The vendor's own handle of the device's `stream`, `context` or `device`; backends say which they have.
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
            // SAFETY: the call's own context, a text and a buffer that live for it, and a variable of ours.
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

/// The function behind the trait.
unsafe extern "C" fn queue_fn<D: KernelDefinition, I: DeviceFunction<D>>(call: *const QueueCall) -> i32 {
    // SAFETY: the backend's call lives until this returns.
    let raw = unsafe { &*call };
    let failure = match catch_unwind(AssertUnwindSafe(|| I::enqueue(&DeviceCall { raw }))) {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::new(Code::Kernel, format!("the function panicked: {}", panic_text(&*panic))),
    };
    if let Some(fail) = raw.fail {
        let text = Str { ptr: failure.text.as_ptr(), len: failure.text.len() };
        // SAFETY: the call's own context, and a text that lives for it.
        unsafe { fail(raw.context, failure.code.raw(), text) };
    }
    1
}

/// Describes a function as an implementation of `D`. What it allocates lives for ever: there is one per function and
/// element type.
pub fn device_function<D: KernelDefinition, I: DeviceFunction<D>>(
    name: &'static str,
    priority: i32,
    attributes: &[(&'static str, &'static str)],
) -> &'static abi::Implementation {
    let descriptor = descriptor_of::<D>();
    let attributes = attributes.iter().map(|(key, value)| attribute(key, (*value).into()));
    let attributes = attributes.collect::<Vec<_>>().leak();
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
    }))
}
