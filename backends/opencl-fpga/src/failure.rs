//! OpenCL's codes as errors.

use flash_backend::Code;
use flash_backend::Failure;
use opencl3::error_codes::{self, ClError, error_text};

/// The error of a call.
pub(crate) fn failed(call: &str, code: i32) -> Failure {
    let kind = match code {
        error_codes::CL_MEM_OBJECT_ALLOCATION_FAILURE
        | error_codes::CL_OUT_OF_RESOURCES
        | error_codes::CL_OUT_OF_HOST_MEMORY
        | error_codes::CL_INVALID_BUFFER_SIZE => Code::OutOfMemory,
        error_codes::CL_DEVICE_NOT_AVAILABLE => Code::DeviceLost,
        error_codes::DLOPEN_RUNTIME_LOAD_FAILED => Code::Unavailable,
        // The program was made for another device. An implementation for this one may exist.
        error_codes::DLOPEN_FUNCTION_NOT_AVAILABLE | error_codes::CL_INVALID_BINARY => Code::Unsupported,
        // A failure in a kernel is a negative code of its event.
        _ => Code::Invalid,
    };
    Failure::new(kind, format!("{call}: {} ({code})", error_text(code)))
}

/// Turns a call's result into an error with the call's name.
pub(crate) trait Call<T> {
    /// The value, or the error that names the call.
    fn call(self, name: &str) -> Result<T, Failure>;
}

impl<T> Call<T> for Result<T, i32> {
    fn call(self, name: &str) -> Result<T, Failure> {
        self.map_err(|code| failed(name, code))
    }
}

impl<T> Call<T> for Result<T, ClError> {
    fn call(self, name: &str) -> Result<T, Failure> {
        self.map_err(|error| failed(name, error.0))
    }
}
