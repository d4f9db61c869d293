//! The driver's functions, as in `cuda.h`.

mod codes;
mod context;
mod copy;
mod device;
mod graph;
mod launch;
mod memory;
mod module;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use graph::Capture;

use crate::machine::Answer;
use crate::machine::handles::lock;
use crate::machine::settings::settings;
use cudarc::driver::sys::CUresult;
use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::{LazyLock, Mutex};

/// Defines functions of the driver from bodies that return an [`Answer`].
macro_rules! driver {
    ($( $(#[$doc:meta])* fn $name:ident($($argument:ident: $ty:ty),* $(,)?) $body:block )*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $ty),*) -> cudarc::driver::sys::CUresult {
            crate::driver::call(stringify!($name), move || {
                $body
                #[allow(unreachable_code)]
                Ok(())
            })
        }
    )*};
}
use driver;

/// Runs a function of the driver, unless the environment says that it fails.
fn call(name: &str, body: impl FnOnce() -> Answer) -> CUresult {
    match fault(name).map_or_else(body, Err) {
        Ok(()) => CUresult::CUDA_SUCCESS,
        Err(code) => code,
    }
}

/// The code with which this call of a function fails.
fn fault(name: &str) -> Option<CUresult> {
    static CALLS: LazyLock<Mutex<HashMap<String, u32>>> = LazyLock::new(Mutex::default);
    let faults = &settings().faults;
    if faults.is_empty() {
        return None;
    }
    // The name with or without its version.
    let plain = name.split_once("_v").map_or(name, |(plain, _)| plain);
    let mut calls = lock(&CALLS);
    let count = calls.entry(name.to_owned()).or_default();
    *count += 1;
    let wanted =
        faults.iter().find(|(function, nth, _)| (function == plain || function == name) && nth == count)?;
    let code = codes::of_number(wanted.2)?;
    if codes::is_lasting(code)
        && let Ok(context) = context::current()
    {
        context.lose(code);
    }
    Some(code)
}

/// The place of a result. Only callers of the driver make such pointers, and they promise that these are NULL
/// or may be written.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Writes it; NULL is an error.
    fn put(&self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        self.put_if(value);
        Ok(())
    }

    /// Writes it, unless it is NULL.
    fn put_if(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not NULL, so it may be written: the type's promise.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Writes consecutive values. Only where callers promise room for them.
    fn put_all(&self, values: impl IntoIterator<Item = T>) -> Answer {
        for (at, value) in values.into_iter().enumerate() {
            Out(self.0.wrapping_add(at)).put(value)?;
        }
        Ok(())
    }
}

impl Out<c_char> {
    /// Writes a text with its NUL, as far as there is room.
    fn put_text(&self, text: &str, room: i32) -> Answer {
        let Some(most) = usize::try_from(room).ok().and_then(|room| room.checked_sub(1)) else {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        };
        let bytes = text.bytes().take(most).chain([0]);
        self.put_all(bytes.map(|byte| byte as c_char))
    }
}

/// The place of an input. Only callers of the driver make such pointers, and they promise that these are NULL
/// or may be read.
#[repr(transparent)]
pub struct In<T>(*const T);

impl<T: Copy> In<T> {
    fn get(&self) -> Answer<T> {
        if self.0.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: not NULL, so it may be read: the type's promise.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Reads `count` values. Only where callers promise that they exist.
    fn get_all(&self, count: usize) -> Answer<Vec<T>> {
        (0..count).map(|at| In(self.0.wrapping_add(at)).get()).collect()
    }
}

impl In<c_char> {
    fn text(&self) -> Answer<String> {
        if self.0.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: not NULL, and callers promise a text with a NUL.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }
}
