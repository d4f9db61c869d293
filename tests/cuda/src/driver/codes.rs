//! Error codes, their names and texts.

use super::{Out, driver};
use cudarc::driver::sys::CUresult;
use std::ffi::{CStr, c_char};

macro_rules! codes {
    ($($code:ident: $text:literal;)*) => {
        /// The codes that this driver can return.
        const CODES: &[(CUresult, &str, &str)] = &[
            $((CUresult::$code, concat!(stringify!($code), "\0"), concat!($text, "\0"))),*
        ];
    };
}

codes! {
    CUDA_SUCCESS: "no error";
    CUDA_ERROR_INVALID_VALUE: "invalid argument";
    CUDA_ERROR_OUT_OF_MEMORY: "out of memory";
    CUDA_ERROR_NOT_INITIALIZED: "initialization error";
    CUDA_ERROR_DEINITIALIZED: "driver shutting down";
    CUDA_ERROR_DEVICE_UNAVAILABLE: "the device is busy or unavailable";
    CUDA_ERROR_NO_DEVICE: "no CUDA-capable device is detected";
    CUDA_ERROR_INVALID_DEVICE: "invalid device ordinal";
    CUDA_ERROR_INVALID_IMAGE: "device kernel image is invalid";
    CUDA_ERROR_INVALID_CONTEXT: "invalid device context";
    CUDA_ERROR_NO_BINARY_FOR_GPU: "no kernel image is available for execution on the device";
    CUDA_ERROR_ECC_UNCORRECTABLE: "uncorrectable ECC error encountered";
    CUDA_ERROR_PEER_ACCESS_UNSUPPORTED: "peer access is not supported between these two devices";
    CUDA_ERROR_INVALID_PTX: "a PTX JIT compilation failed";
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION: "the provided PTX was compiled with an unsupported toolchain";
    CUDA_ERROR_FILE_NOT_FOUND: "file not found";
    CUDA_ERROR_OPERATING_SYSTEM: "OS call failed or operation not supported on this OS";
    CUDA_ERROR_INVALID_HANDLE: "invalid resource handle";
    CUDA_ERROR_ILLEGAL_STATE: "the operation cannot be performed in the present state";
    CUDA_ERROR_NOT_FOUND: "named symbol not found";
    CUDA_ERROR_NOT_READY: "device not ready";
    CUDA_ERROR_ILLEGAL_ADDRESS: "an illegal memory access was encountered";
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: "too many resources requested for launch";
    CUDA_ERROR_LAUNCH_TIMEOUT: "the launch timed out and was terminated";
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED: "peer access is already enabled";
    CUDA_ERROR_PEER_ACCESS_NOT_ENABLED: "peer access has not been enabled";
    CUDA_ERROR_CONTEXT_IS_DESTROYED: "context is destroyed";
    CUDA_ERROR_ASSERT: "device-side assert triggered";
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED: "part or all of the requested memory range is already mapped";
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED: "pointer does not correspond to a registered memory region";
    CUDA_ERROR_HARDWARE_STACK_ERROR: "hardware stack error";
    CUDA_ERROR_ILLEGAL_INSTRUCTION: "an illegal instruction was encountered";
    CUDA_ERROR_MISALIGNED_ADDRESS: "misaligned address";
    CUDA_ERROR_INVALID_ADDRESS_SPACE: "operation not supported on global/shared address space";
    CUDA_ERROR_INVALID_PC: "invalid program counter";
    CUDA_ERROR_LAUNCH_FAILED: "unspecified launch failure";
    CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE: "too many blocks in cooperative launch";
    CUDA_ERROR_NOT_PERMITTED: "operation not permitted";
    CUDA_ERROR_NOT_SUPPORTED: "operation not supported";
    CUDA_ERROR_SYSTEM_NOT_READY: "system not yet initialized";
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: "system has unsupported display driver / cuda driver combination";
    CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE: "forward compatibility was attempted on non supported HW";
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: "operation not permitted when stream is capturing";
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: "operation failed due to a previous error during capture";
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED: "capture was not ended in the same stream as it began";
    CUDA_ERROR_STREAM_CAPTURE_UNJOINED: "capture was not ended because it has streams that were not joined";
    CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE: "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update";
    CUDA_ERROR_UNKNOWN: "unknown error";
}

/// The code of a number.
pub(super) fn of_number(number: u32) -> Option<CUresult> {
    CODES.iter().map(|code| code.0).find(|code| *code as u32 == number)
}

/// True for codes after which a context is unusable.
pub(super) fn is_lasting(code: CUresult) -> bool {
    use CUresult as Code;
    matches!(
        code,
        Code::CUDA_ERROR_ILLEGAL_ADDRESS
            | Code::CUDA_ERROR_LAUNCH_TIMEOUT
            | Code::CUDA_ERROR_ASSERT
            | Code::CUDA_ERROR_HARDWARE_STACK_ERROR
            | Code::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | Code::CUDA_ERROR_MISALIGNED_ADDRESS
            | Code::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | Code::CUDA_ERROR_INVALID_PC
            | Code::CUDA_ERROR_LAUNCH_FAILED
            | Code::CUDA_ERROR_ECC_UNCORRECTABLE
    )
}

fn known(number: u32) -> Result<(&'static CStr, &'static CStr), CUresult> {
    let found =
        CODES.iter().find(|code| code.0 as u32 == number).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    let text = |text: &'static str| CStr::from_bytes_with_nul(text.as_bytes());
    match (text(found.1), text(found.2)) {
        (Ok(name), Ok(text)) => Ok((name, text)),
        _ => Err(CUresult::CUDA_ERROR_UNKNOWN),
    }
}

driver! {
    fn cuGetErrorName(error: u32, text: Out<*const c_char>) {
        text.put_if(std::ptr::null());
        text.put(known(error)?.0.as_ptr())?;
    }

    fn cuGetErrorString(error: u32, text: Out<*const c_char>) {
        text.put_if(std::ptr::null());
        text.put(known(error)?.1.as_ptr())?;
    }
}
