//! Overrides of a claim, as MPI's infos.

use super::status::call;
use super::types::MPIX_Info;
use super::{id_of, place, text};
use crate::attributes::Overrides;
use crate::error::{Code, Error, Result};
use crate::table::{Kind, Table};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::sync::{Arc, Mutex, PoisonError};

static INFOS: Table<Info> = Table::new(Kind::Info);

#[derive(Default)]
struct Info(Mutex<(Overrides, BTreeMap<String, String>)>);

/// The overrides of an info; none of NULL.
pub(super) fn overrides(info: MPIX_Info) -> Result<Overrides> {
    match info.is_null() {
        true => Ok(Overrides::default()),
        false => {
            let info = INFOS.get(id_of(info))?;
            Ok(info.0.lock().unwrap_or_else(PoisonError::into_inner).0.clone())
        }
    }
}

/// Creates an info without keys, to be freed with `MPIX_Info_free`.
///
/// Errors: `MPIX_ERR_ARG` for NULL; `MPIX_ERR_NO_MEM`.
///
/// # Safety
/// `info` is a place for an info.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Info_create(info: *mut MPIX_Info) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        let info = unsafe { place(info, "info")? };
        *info = std::ptr::without_provenance_mut(INFOS.insert(Arc::default())? as usize);
        Ok(())
    })
}

/// Sets a key: an attribute (`vid`, `pid`, `ss_vid`, `ss_pid`, `sw_vid`, `sw_pid`, `sw_fid`, `sw_clid`,
/// `sw_verid`), `func_repl`, `platform_id`, or `key`, a runtime key. It takes the place of what the
/// configuration says of a function, for the claims that get this info.
///
/// Errors: `MPIX_ERR_INFO` for a key that is none, or a value that does not fit; `MPIX_ERR_ARG` for NULL.
///
/// # Safety
/// Texts end with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Info_set(info: MPIX_Info, key: *const c_char, value: *const c_char) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        let (key, value) = unsafe { (text(key, "a key")?, text(value, "a value")?) };
        let info = INFOS.get(id_of(info))?;
        let mut info = info.0.lock().unwrap_or_else(PoisonError::into_inner);
        info.0.set(key, value)?;
        info.1.insert(key.to_owned(), value.to_owned());
        Ok(())
    })
}

/// The value of a key: `flag` becomes 1, and `value`, which has room for `length` bytes and a NUL, gets it,
/// cut to fit; or `flag` becomes 0 if it is not set.
///
/// Errors: `MPIX_ERR_INFO`; `MPIX_ERR_ARG` for NULL.
///
/// # Safety
/// `key` ends with NUL; `value` has that room; `flag` is a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Info_get(
    info: MPIX_Info,
    key: *const c_char,
    length: c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        let (key, flag) = unsafe { (text(key, "a key")?, place(flag, "flag")?) };
        let info = INFOS.get(id_of(info))?;
        let info = info.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = info.1.get(key);
        *flag = c_int::from(found.is_some());
        let Some(found) = found else { return Ok(()) };
        let Ok(room) = usize::try_from(length) else {
            return Err(Error::new(
                Code::Argument,
                format!("expected room for a value, found {length} bytes"),
            ));
        };
        if value.is_null() {
            return Err(super::null("value"));
        }
        let count = found.len().min(room);
        // SAFETY: the caller vouches for the room, and a NUL.
        unsafe {
            std::ptr::copy_nonoverlapping(found.as_ptr().cast(), value, count);
            *value.add(count) = 0;
        }
        Ok(())
    })
}

/// Frees an info, and sets it to NULL. One that is NULL stays so.
///
/// Errors: `MPIX_ERR_INFO` for what is none, or freed already.
///
/// # Safety
/// `info` points to an info.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Info_free(info: *mut MPIX_Info) -> c_int {
    call(|| {
        // SAFETY: the caller vouches.
        let info = unsafe { place(info, "info")? };
        if !info.is_null() {
            INFOS.remove(id_of(*info))?;
            *info = std::ptr::null_mut();
        }
        Ok(())
    })
}
