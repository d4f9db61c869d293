//! The backend's side of kernels that are functions of the host.

use crate::backend::{Device, Launch};
use crate::failure::Failure;
use crate::panics::caught;
use flash_types::Code;
use flash_types::abi::{self, Buffer, Implementation, QueueCall, QueueFn, Str};
use std::ffi::c_void;
use std::ptr::null;

/// The function of an implementation, if it is one.
pub fn queue_function(implementation: &Implementation) -> Option<QueueFn> {
    if implementation.kind != abi::KIND_QUEUE_FN || implementation.payload.is_null() {
        return None;
    }
    // SAFETY: the payload of such an implementation is the address of such a function, and lives for ever.
    Some(unsafe { std::mem::transmute::<*const u8, QueueFn>(implementation.payload) })
}

/// The context with which a function reaches its device.
struct Context<'a, D> {
    device: &'a D,
    failure: Option<Failure>,
}

/// Calls a function for one phase of a launch. Its work is in the device's queue on return.
///
/// # Errors
/// Those of the function.
pub fn call_queue_function<D: Device>(
    device: &D,
    function: QueueFn,
    launch: &Launch<'_, D::Kernel>,
    phase: u64,
) -> Result<(), Failure> {
    let mut context = Context { device, failure: None };
    let (space, args) = (launch.raw_space(), launch.args());
    let call = QueueCall {
        struct_size: size_of::<QueueCall>() as u32,
        arg_count: args.len() as u32,
        space,
        phase,
        args: if args.is_empty() { null() } else { args.as_ptr() },
        context: (&raw mut context).cast(),
        native_handle: Some(native_handle::<D>),
        fail: Some(fail::<D>),
    };
    // SAFETY: space, arguments and context live for the call; the author of the implementation vouches for
    // the function.
    match unsafe { function(&call) } {
        0 => Ok(()),
        code => Err(context.failure.unwrap_or_else(|| {
            Failure::new(Code::Kernel, format!("the function answers with {code}, and says nothing"))
        })),
    }
}

unsafe extern "C" fn native_handle<D: Device>(
    context: *mut c_void,
    kind: Str,
    object: *const Buffer,
    handle: *mut u64,
) -> i32 {
    // SAFETY: the call's own context; the caller's text, buffer and variable.
    let (context, kind, buffer) =
        unsafe { (&mut *context.cast::<Context<'_, D>>(), kind.as_str(), object.as_ref().copied()) };
    let device = context.device;
    match caught(|| device.native_handle(kind, buffer)) {
        Ok(Ok(found)) => {
            // SAFETY: as above.
            unsafe { *handle = found };
            0
        }
        Ok(Err(failure)) => {
            context.failure = Some(failure);
            1
        }
        Err(_) => 1,
    }
}

unsafe extern "C" fn fail<D: Device>(context: *mut c_void, code: u32, text: Str) {
    // SAFETY: the call's own context, and a text that lives for it.
    let (context, text) = unsafe { (&mut *context.cast::<Context<'_, D>>(), text.text()) };
    context.failure = Some(Failure::new(Code::of(code), text));
}
