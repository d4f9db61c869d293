//! The driver's codes as errors.

use cudarc::driver::sys::{CUresult, cuGetErrorName, cuGetErrorString};
use flash_backend::Code;
use flash_backend::Failure;
use std::ffi::{CStr, c_char};
use std::ptr::null;

/// The error of a call: its code and the code's name.
#[cold]
pub(crate) fn failed(call: &str, result: CUresult) -> Failure {
    let kind = match result {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => Code::OutOfMemory,
        CUresult::CUDA_ERROR_NO_DEVICE
        | CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
        | CUresult::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE
        | CUresult::CUDA_ERROR_SYSTEM_NOT_READY => Code::Unavailable,
        // The program was made for another device. An implementation for this one may exist.
        CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU
        | CUresult::CUDA_ERROR_INVALID_PTX
        | CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
        | CUresult::CUDA_ERROR_INVALID_IMAGE
        | CUresult::CUDA_ERROR_NOT_SUPPORTED => Code::Unsupported,
        result if is_lasting(result) => Code::DeviceLost,
        _ => Code::Invalid,
    };
    let hint = match kind {
        Code::DeviceLost => {
            ": what a kernel did has ended this process's use of the device; compute-sanitizer finds where"
        }
        _ => "",
    };
    let [name, text] = names(result);
    Failure::new(kind, format!("{call}: {name} ({}): {text}{hint}", result as u32))
}

/// True for errors after which every call of the context fails with the same.
pub(crate) fn is_lasting(result: CUresult) -> bool {
    matches!(
        result,
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
            | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
            | CUresult::CUDA_ERROR_ASSERT
            | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
            | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUresult::CUDA_ERROR_INVALID_PC
            | CUresult::CUDA_ERROR_LAUNCH_FAILED
            | CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
            | CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE
            | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
            | CUresult::CUDA_ERROR_DEINITIALIZED
    )
}

/// A code's name, and what it means.
fn names(result: CUresult) -> [String; 2] {
    type Question = unsafe fn(CUresult, *mut *const c_char) -> CUresult;
    [cuGetErrorName as Question, cuGetErrorString].map(|question| {
        let mut text = null();
        // SAFETY: the variable receives a text that lives for ever, or NULL for a code that the driver does
        // not know.
        unsafe {
            let _ = question(result, &mut text);
            if text.is_null() {
                "unknown".into()
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            }
        }
    })
}

/// Turns a call's result into an error with the call's name.
pub(crate) trait Call {
    /// `Ok`, or the error that names the call.
    fn call(self, name: &str) -> Result<(), Failure>;
}

impl Call for CUresult {
    #[inline]
    fn call(self, name: &str) -> Result<(), Failure> {
        if self == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(failed(name, self)) }
    }
}
