//! What is recorded with: [`span`], [`instant`] and [`counter`] for programs, the rest for crates that run
//! things, such as `flash-graph` and `flash-tasks`.
//!
//! While no trace is going on, each of these functions returns after one relaxed load.

pub use crate::event::Category;
use crate::event::What;
pub use crate::files::replace;
use crate::recorder::{self, record, record_at};
pub use crate::svg::xml;
use std::marker::PhantomData;
use std::time::Instant;

/// True while a [`Trace`](crate::Trace) is going on.
///
/// ```
/// let trace = flash_trace::Trace::start();
/// assert!(flash_trace::is_on());
/// # drop(trace);
/// ```
#[inline(always)]
pub fn is_on() -> bool {
    recorder::is_on()
}

/// A span on the row of this thread, from now until the guard is dropped. Spans of a thread nest.
///
/// ```
/// let _span = flash_trace::span("reads the file");
/// ```
#[inline]
pub fn span(name: &str) -> Span {
    begin(Category::Program, name, [0; 2])
}

/// A span of some category, and what its numbers are ([`Category`]).
///
/// ```
/// use flash_trace::hooks::{Category, begin};
/// let _batch = begin(Category::Node, "scale", [0, 16]);
/// ```
#[inline]
pub fn begin(category: Category, name: &str, numbers: [u64; 2]) -> Span {
    let on = is_on();
    if on {
        record(|recorder| What::Begin { name: recorder.name(name), category, numbers });
    }
    Span { on, thread: PhantomData }
}

/// A span that lasts until this is dropped: see [`span`].
#[must_use = "the span ends when this is dropped"]
pub struct Span {
    on: bool,
    /// It ends on the thread where it began.
    thread: PhantomData<*const ()>,
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if self.on {
            record(|_| What::End);
        }
    }
}

/// A moment on the row of this thread.
///
/// ```
/// flash_trace::instant("converged");
/// ```
#[inline]
pub fn instant(name: &str) {
    if is_on() {
        record(|recorder| What::Instant { name: recorder.name(name) });
    }
}

/// The value that a counter has from now on.
///
/// ```
/// flash_trace::counter("residual", 0.25);
/// ```
#[inline]
pub fn counter(name: &str, value: f64) {
    if is_on() {
        record(|recorder| What::Counter { name: recorder.name(name), value });
    }
}

/// The number of data that wait from now on in a queue before `taker`, which `key` tells apart from others.
///
/// ```
/// flash_trace::hooks::queue("scale", 7, 16);
/// ```
#[inline]
pub fn queue(taker: &str, key: u64, len: usize) {
    if is_on() {
        record(|recorder| What::Queue { name: recorder.name(taker), key, len: len as u64 });
    }
}

/// Data number `first..first + count` of `key` left from here at a moment, before they could come anywhere,
/// and after this thread's last event. An arrow goes to each place where one of them [comes](data_in). The
/// numbers of a key begin with 0, and grow.
///
/// ```
/// use flash_trace::hooks::{data_in, data_out};
/// use std::time::Instant;
/// data_out("Tile", 7, 0, 16, Instant::now());
/// data_in(7, 3); // on any thread, later
/// ```
#[inline]
pub fn data_out(name: &str, key: u64, first: u64, count: usize, left: Instant) {
    if is_on() {
        let count = count.min(crate::event::MOST_SMALL as usize) as u32;
        record_at(|recorder| {
            let what = What::Out { name: recorder.name(name), key, first, count };
            (recorder.at(left), what)
        });
    }
}

/// Datum number `nth` of `key` has come here: see [`data_out`].
///
/// ```
/// flash_trace::hooks::data_in(7, 3);
/// ```
#[inline]
pub fn data_in(key: u64, nth: u64) {
    if is_on() {
        record(|_| What::In { key, nth });
    }
}

/// Runs `body` on another stack of this thread, such as that of a coroutine. Spans that are open on it when
/// it comes back are suspended, until it is entered again: then they go on. Those of the stack from which it
/// was entered stay open.
///
/// ```
/// let ran = flash_trace::hooks::on_stack(1, || true);
/// assert!(ran);
/// ```
#[inline]
pub fn on_stack<R>(stack: u64, body: impl FnOnce() -> R) -> R {
    /// Leaves it, also when `body` panics.
    struct Leaves(bool);
    impl Drop for Leaves {
        #[inline]
        fn drop(&mut self) {
            if self.0 {
                record(|_| What::Leave);
            }
        }
    }
    let leaves = Leaves(is_on());
    if leaves.0 {
        record(|_| What::Enter { stack });
    }
    body()
}
