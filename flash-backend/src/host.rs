//! The host's interface for plugins: this program's own ([`HOST`]), and that of the program which loaded this
//! copy of the library ([`host_api`]).

use crate::failure::Failure;
use crate::notice;
use flash_types::Code;
use flash_types::abi::{self, Arg, HostApi, Implementation, Share, Span, Str};
use flash_types::index::{DynRuns, SpaceRef};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

/// This program's interface.
pub static HOST: HostApi = HostApi {
    struct_size: size_of::<HostApi>() as u32,
    abi_major: abi::ABI_MAJOR,
    abi_minor: abi::ABI_MINOR,
    reserved: 0,
    error_create: Some(error_create),
    error_code: Some(error_code),
    error_text: Some(error_text),
    error_free: Some(error_free),
    query_failed: Some(query_failed),
    phase_rows: Some(phase_rows),
    run_rows: Some(run_rows),
    get_extension: Some(get_extension),
    notice: Some(notice::receive),
};

struct HostError {
    code: u32,
    text: String,
}

thread_local! {
    static QUERY_FAILURE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The reason why the last query on this thread returned NULL.
pub fn take_query_failure() -> Option<String> {
    QUERY_FAILURE.with(|f| f.borrow_mut().take())
}

unsafe extern "C" fn error_create(code: u32, text: Str) -> *mut abi::Error {
    // SAFETY: the caller's text lives for the call.
    let text = unsafe { text.text() };
    Box::into_raw(Box::new(HostError { code, text })).cast()
}

unsafe extern "C" fn error_code(error: *const abi::Error) -> u32 {
    // SAFETY: made by `error_create`, or NULL.
    unsafe { error.cast::<HostError>().as_ref() }.map_or(0, |e| e.code)
}

unsafe extern "C" fn error_text(error: *const abi::Error) -> Str {
    // SAFETY: made by `error_create`, or NULL.
    unsafe { error.cast::<HostError>().as_ref() }.map_or(Str::new(""), |e| Str::new(&e.text))
}

unsafe extern "C" fn error_free(error: *mut abi::Error) {
    if !error.is_null() {
        // SAFETY: made by `error_create`, freed once.
        drop(unsafe { Box::from_raw(error.cast::<HostError>()) });
    }
}

/// Takes ownership of an error from a vtable.
///
/// # Safety
/// `error` was made by this host's `error_create`, and has no other owner.
#[cold]
pub unsafe fn take_failure(error: *mut abi::Error) -> Failure {
    // SAFETY: the caller vouches.
    let HostError { code, text } = *unsafe { Box::from_raw(error.cast::<HostError>()) };
    Failure::new(Code::of(code), text)
}

unsafe extern "C" fn query_failed(text: Str) {
    // SAFETY: the caller's text lives for the call.
    let text = unsafe { text.text() };
    QUERY_FAILURE.with(|f| *f.borrow_mut() = Some(text));
}

unsafe extern "C" fn phase_rows(space: *const abi::space::Space, phase: u64, begin: *mut u64, end: *mut u64) {
    // SAFETY: the space of a submission, and the caller's variables.
    unsafe {
        let space = SpaceRef::new(&*space);
        let rows = if phase < space.phases() { space.phase(phase) } else { 0..0 };
        (*begin, *end) = (rows.start, rows.end);
    }
}

/// Runs rows of one phase of a CPU implementation on this thread.
///
/// # Safety
/// `implementation` is one for the CPU, `share` and `args` are of a launch of its kernel, and no other call
/// runs these rows.
pub unsafe extern "C" fn run_rows(
    implementation: *const Implementation,
    share: *const Share,
    args: *const Arg,
) -> *mut abi::Error {
    // SAFETY: the caller vouches for all three.
    let (implementation, share) = unsafe { (&*implementation, &*share) };
    if let Some(run) = implementation.share {
        // SAFETY: as above.
        return unsafe { run(share, args) };
    }
    let Some(run) = implementation.span else {
        // SAFETY: the share's host lives for ever.
        return unsafe {
            raise(share.host, abi::ERROR_INVALID, "the implementation has no function for the CPU")
        };
    };
    // SAFETY: the share has `arg_count` arguments.
    let given = unsafe { arguments(args, share.arg_count) };
    if given.iter().any(|a| a.kind == abi::ARG_REDUCE) {
        // SAFETY: as above.
        return unsafe { run_blocks(implementation, run, share, given) };
    }
    // SAFETY: as above.
    unsafe { run_span(implementation, run, share, args) }
}

/// # Safety
/// There are `count` arguments, or none.
unsafe fn arguments<'a>(args: *const Arg, count: u32) -> &'a [Arg] {
    match count {
        0 => &[],
        // SAFETY: the caller vouches.
        _ => unsafe { std::slice::from_raw_parts(args, count as usize) },
    }
}

/// Runs the rows of each block with that block's accumulators.
///
/// # Safety
/// As [`run_rows`].
#[cold]
unsafe fn run_blocks(
    implementation: &Implementation,
    run: abi::SpanFn,
    share: &Share,
    given: &[Arg],
) -> *mut abi::Error {
    // SAFETY: the space lives for the call.
    let first = unsafe { SpaceRef::new(&*share.space) }.phase(share.phase).start;
    let accumulators = || given.iter().filter(|a| a.kind == abi::ARG_REDUCE);
    // Powers of two: rows in one block of the smallest are in one block of each.
    let step = accumulators().map(|a| a.row_len).min().unwrap_or(1).max(1);
    let mut args: SmallVec<[Arg; 8]> = SmallVec::from_slice(given);
    let mut begin = share.begin;
    while begin < share.end {
        let row = begin - first;
        let end = share.end.min((row / step + 1).saturating_mul(step).saturating_add(first));
        for (arg, given) in args.iter_mut().zip(given).filter(|(_, a)| a.kind == abi::ARG_REDUCE) {
            let bytes = row / given.row_len.max(1) * given.len * u64::from(given.element_size);
            // SAFETY: there is an accumulator for every block of the phase.
            arg.data = unsafe { given.data.cast::<u8>().add(bytes as usize).cast() };
        }
        // SAFETY: rows of the share; the caller vouches for the rest.
        let error = unsafe { run_span(implementation, run, &Share { begin, end, ..*share }, args.as_ptr()) };
        if !error.is_null() {
            return error;
        }
        begin = end;
    }
    std::ptr::null_mut()
}

/// Runs the share's rows, run by run.
///
/// # Safety
/// As [`run_rows`].
unsafe fn run_span(
    implementation: &Implementation,
    run: abi::SpanFn,
    share: &Share,
    args: *const Arg,
) -> *mut abi::Error {
    // SAFETY: the space lives for the call.
    let space = unsafe { SpaceRef::new(&*share.space) };
    let mut runs = DynRuns::new(space, share.begin..share.end);
    while let Some(next) = runs.next_run() {
        let span = Span {
            struct_size: size_of::<Span>() as u32,
            dimensions: next.index.len() as u32,
            index: next.index.as_ptr(),
            count: next.count,
            step: next.step,
            dimension: next.dim as u32,
            arg_count: share.arg_count,
            phase: share.phase,
        };
        // SAFETY: a function of the C interface, trusted like any foreign function.
        let code = unsafe { run(&span, args) };
        if code != 0 {
            // SAFETY: the name lives as long as the implementation.
            let name = unsafe { implementation.name.text() };
            let text = format!(
                "the kernel function `{name}` returned {code} in phase {}; 0 is success",
                share.phase
            );
            // SAFETY: the share's host lives for ever.
            return unsafe { raise(share.host, abi::ERROR_KERNEL, &text) };
        }
    }
    std::ptr::null_mut()
}

/// Makes an error of the host that the launch came from, which in a plugin is not this copy of the library.
///
/// # Safety
/// `host` is a host's interface, which lives for ever.
unsafe fn raise(host: *const HostApi, code: u32, text: &str) -> *mut abi::Error {
    // SAFETY: the caller vouches for the host; the text lives for the call.
    match unsafe { (*host).error_create } {
        // SAFETY: as above.
        Some(create) => unsafe { create(code, Str::new(text)) },
        None => std::process::abort(),
    }
}

/// An extension of the host's interface, which a crate above this one has. Submitted to the inventory.
pub struct HostExtension {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: u32,
    /// Its functions, which live for ever.
    pub table: fn() -> *const c_void,
}

inventory::collect!(HostExtension);

unsafe extern "C" fn get_extension(name: Str, version: u32) -> *const c_void {
    // SAFETY: the caller's text lives for the call.
    let name = unsafe { name.as_str() };
    let mut extensions = inventory::iter::<HostExtension>();
    let found = extensions.find(|extension| (extension.name, extension.version) == (name, version));
    found.map_or(std::ptr::null(), |extension| (extension.table)())
}

/// The interface of the host that loaded this copy of the library: its own in the program itself.
static LOADED_BY: AtomicPtr<HostApi> = AtomicPtr::new(std::ptr::null_mut());

/// Sets it, from a plugin's query.
pub(crate) fn loaded_by(host: *const HostApi) {
    LOADED_BY.store(host.cast_mut(), Ordering::Relaxed);
}

#[inline]
pub(crate) fn host_api() -> *const HostApi {
    let host = LOADED_BY.load(Ordering::Relaxed);
    if host.is_null() { &raw const HOST } else { host }
}

/// An interface of the program that loaded this copy of the library, or of the program itself, by name and
/// version. NULL if it has none of that name and version. There are [`abi::RegistryApi`], as `registry`, and
/// [`abi::workers::WorkSourcesApi`], as `workers`, both of version 1.
pub fn host_extension(name: &str, version: u32) -> *const c_void {
    // SAFETY: the host's interface lives for ever, the name for the call.
    unsafe { (*host_api()).get_extension.map_or(std::ptr::null(), |get| get(Str::new(name), version)) }
}

impl Failure {
    /// Takes ownership of an error that the host made, such as a kernel's.
    ///
    /// # Safety
    /// `error` is not NULL, is of the host, and has no other owner.
    #[cold]
    pub unsafe fn of_host(error: *mut abi::Error) -> Failure {
        // SAFETY: the host's interface lives for ever; this takes ownership of the error.
        unsafe {
            let host = &*host_api();
            let code = host.error_code.map_or(abi::ERROR_OTHER, |f| f(error));
            let text = host.error_text.map_or(String::new(), |f| f(error).text());
            if let Some(free) = host.error_free {
                free(error);
            }
            Failure::new(Code::of(code), text)
        }
    }
}
