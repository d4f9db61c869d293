//! Code that the program gives at run time: a file, or source text.

use super::choose::{Target, none, prepare};
use crate::devices::DeviceHandle;
use crate::devices::attribute;
use crate::devices::catalog::Catalog;
use crate::error::Error;
use flash_types::Code;
use flash_types::abi;
use flash_types::descriptor::{Implementation, KernelDescriptor};
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Endings of shared libraries.
const LIBRARIES: &[&str] = &["dll", "dylib", "so"];

/// The devices that can run the code. A device that the code is not made for is left out.
pub(super) fn user_code(
    code: &Implementation,
    descriptor: &KernelDescriptor,
    devices: &[&'static DeviceHandle],
    catalog: &Catalog,
) -> Result<Vec<Target>, Error> {
    let (mut targets, mut left_out) = (Vec::new(), Vec::new());
    for device in devices {
        // For the first of its targets of which it takes the code.
        let mut reason = None;
        for target in &device.info().targets {
            let implementation = match device.info().runs_functions {
                true => function(target, code, descriptor),
                false => for_target(target, code, descriptor),
            };
            let prepared = implementation.and_then(|made| prepare(device, made, descriptor, catalog));
            match prepared {
                Ok(prepared) => {
                    targets.push(prepared);
                    reason = None;
                    break;
                }
                Err(Error::Backend { code, text }) if code != Code::Unsupported => {
                    return Err(Error::Backend { code, text });
                }
                Err(error) => reason = reason.or(Some(error)),
            }
        }
        left_out.extend(reason.map(|error| (device.id(), error)));
    }
    if !targets.is_empty() {
        return Ok(targets);
    }
    if left_out.len() == 1
        && let Some((_, error)) = left_out.pop()
    {
        return Err(error);
    }
    let reasons = left_out.iter().map(|(device, error)| format!("what was given, for {device}: {error}"));
    Err(none(descriptor, devices, reasons.collect()))
}

/// A function of a shared library, which stays loaded.
fn function(
    target: &str,
    code: &Implementation,
    descriptor: &KernelDescriptor,
) -> Result<&'static abi::Implementation, Error> {
    const COMPILE: &str = "a CPU runs compiled code alone: compile it with `cc -O3 -shared -fPIC` and pass the library, or take a device that compiles kernels";
    let (path, symbol) = match code {
        Implementation::File { path, .. } if path.is_dir() => {
            let text = "expected a shared library, found a directory".to_owned();
            return Err(Error::Library { path: path.clone(), text });
        }
        Implementation::File { path, .. } if !is_library(path) && is_text(path).unwrap_or(true) => {
            return Err(Error::Library {
                path: path.clone(),
                text: format!("this is no shared library, and {COMPILE}"),
            });
        }
        Implementation::File { path, symbol, .. } => (path, symbol),
        Implementation::Source { .. } | Implementation::Named(_) => {
            return Err(Error::Option {
                option: "Implementation::source".into(),
                text: format!("the runtime's device is a CPU, and {COMPILE}"),
            });
        }
    };
    once(format!("{target} {path:?} {symbol} {}", descriptor.name).as_bytes(), || {
        let span = crate::devices::library_function(path, symbol)?;
        Ok(abi::Implementation {
            door: abi::DOOR_SPAN,
            span: Some(span),
            // It is trusted to fit.
            descriptor: abi::Str::new(""),
            ..blank(target, symbol, abi::KIND_EXT_BIN, descriptor)
        })
    })
}

/// For a device of any other kind; its backend reads and checks the code.
fn for_target(
    target: &str,
    code: &Implementation,
    descriptor: &KernelDescriptor,
) -> Result<&'static abi::Implementation, Error> {
    let (kind, payload, entry, cooperating, build_options) = match code {
        Implementation::File { path, .. } if is_library(path) => {
            let text = format!(
                "this is a shared library, which a CPU of this process runs; this device, for {target}, is none"
            );
            return Err(Error::Library { path: path.clone(), text });
        }
        Implementation::File { path, symbol, cooperating, build_options } => {
            let kind = if is_text(path).unwrap_or(true) { abi::KIND_EXT_SRC } else { abi::KIND_EXT_BIN };
            (kind, path.as_os_str().as_encoded_bytes(), symbol, *cooperating, build_options)
        }
        Implementation::Source { text, entry, cooperating, build_options } => {
            (abi::KIND_INT_SRC, text.as_bytes(), entry, *cooperating, build_options)
        }
        Implementation::Named(_) => unreachable!("a name is looked for"),
    };
    let head = format!("{target} {kind} {cooperating} {entry:?} {build_options:?} {} ", descriptor.to_json())
        .into_bytes();
    once(&[&head, payload].concat(), || {
        let attributes = [
            attribute("entry", entry.as_str().into()),
            attribute("cooperating", cooperating.into()),
            attribute("build_options", build_options.as_str().into()),
        ];
        let attributes: &'static [abi::Attr] = Box::leak(Box::new(attributes));
        let payload = payload.to_vec().leak();
        Ok(abi::Implementation {
            attributes: attributes.as_ptr(),
            attribute_count: attributes.len(),
            payload: payload.as_ptr(),
            payload_len: payload.len(),
            ..blank(target, entry, kind, descriptor)
        })
    })
}

fn is_library(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    ending.is_some_and(|ending| LIBRARIES.contains(&&*ending))
}

/// True if a file begins as a text does; `None` if it cannot be read.
fn is_text(path: &Path) -> Option<bool> {
    let mut begin = Vec::new();
    std::fs::File::open(path).ok()?.take(4096).read_to_end(&mut begin).ok()?;
    let is_utf8 = match std::str::from_utf8(&begin) {
        Ok(_) => true,
        // The last character may be cut off.
        Err(error) => error.error_len().is_none(),
    };
    Some(is_utf8 && !begin.contains(&0))
}

/// The implementation of this key, which lives for ever; made at the first use.
fn once(
    key: &[u8],
    make: impl FnOnce() -> Result<abi::Implementation, Error>,
) -> Result<&'static abi::Implementation, Error> {
    static MADE: OnceLock<Mutex<HashMap<Vec<u8>, &'static abi::Implementation>>> = OnceLock::new();
    let mut made = MADE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = made.get(key) {
        return Ok(found);
    }
    let implementation: &'static abi::Implementation = Box::leak(Box::new(make()?));
    made.insert(key.to_vec(), implementation);
    Ok(implementation)
}

/// Without code and attributes.
fn blank(target: &str, name: &str, kind: u32, descriptor: &KernelDescriptor) -> abi::Implementation {
    let text = |text: &str| abi::Str::new(text.to_owned().leak());
    abi::Implementation {
        struct_size: size_of::<abi::Implementation>() as u32,
        door: abi::DOOR_ITEM,
        kind,
        priority: 0,
        kernel: text(&descriptor.name),
        name: text(name),
        target: text(target),
        descriptor: text(&descriptor.to_json()),
        cpu_features: abi::Str::new(""),
        attributes: std::ptr::null(),
        attribute_count: 0,
        share: None,
        span: None,
        payload: std::ptr::null(),
        payload_len: 0,
        definition: abi::Str::new(""),
    }
}
