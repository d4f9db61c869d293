//! Texts from C, and texts for it.

use crate::error::Failure;
use crate::status::{STATUS_OTHER, STATUS_POINTER, STATUS_TEXT};
use flash_core::descriptor::Attributes;
use serde_json::{Map, Value, json};
use std::ffi::{CStr, CString, c_char};

/// A text that must be there.
///
/// # Safety
/// The pointer is NULL, or to a text that ends with NUL and does not change during the call.
pub unsafe fn required<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    // SAFETY: the caller vouches.
    unsafe { optional(text, what)? }
        .ok_or_else(|| Failure::new(STATUS_POINTER, format!("expected {what}, found NULL")))
}

/// A text, or NULL.
///
/// # Safety
/// As for [`required`].
pub unsafe fn optional<'a>(text: *const c_char, what: &str) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller vouches.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|error| {
        Failure::new(STATUS_TEXT, format!("expected {what} in UTF-8, found other bytes: {error}"))
    })
}

/// The members of an object in JSON; none of NULL.
///
/// # Safety
/// As for [`required`].
pub unsafe fn object(text: *const c_char, what: &str) -> Result<Map<String, Value>, Failure> {
    // SAFETY: the caller vouches.
    let Some(text) = (unsafe { optional(text, what)? }) else { return Ok(Map::new()) };
    let expected = |found: String| {
        Failure::new(
            STATUS_TEXT,
            format!("expected {what} as an object in JSON, `{{\"name\": value, ..}}`, found {found}"),
        )
    };
    match serde_json::from_str(text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(other) => Err(expected(format!("`{other}`"))),
        Err(error) => Err(expected(format!("`{text}`: {error}"))),
    }
}

/// Options: attributes by name.
///
/// # Safety
/// As for [`required`].
pub unsafe fn options(text: *const c_char) -> Result<Attributes, Failure> {
    // SAFETY: the caller vouches.
    let members = unsafe { object(text, "options")? };
    // What no backend knows is refused by the launch, so that a misspelt name is found.
    let list =
        members.into_iter().map(|(key, value)| json!({ "key": key, "value": value, "required": true }));
    serde_json::from_value(list.collect())
        .map_err(|error| Failure::new(crate::status::STATUS_OPTION, format!("options: {error}")))
}

/// A text for C, which ends at its first NUL.
pub fn for_c(text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|error| Failure::new(STATUS_OTHER, format!("a text for C: {error}")))
}
