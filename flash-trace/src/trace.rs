//! A trace from its start to its end, and what was recorded.

use crate::event::What;
use crate::files::replace;
use crate::recorder::{Session, lock, record_at};
use crate::rows::Timeline;
use crate::{paraver, perfetto, svg};
use flash_core::Profile;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Events that a thread records at most, unless the trace was started with another [bound](Trace::bounded):
/// 32 MiB of them.
pub const EVENTS: usize = 1 << 20;

/// Records what all threads of the process do, from its start until it [ends](Self::end) or is dropped.
///
/// Several may go on at the same time: each has what happens between its own start and end.
///
/// ```
/// let trace = flash_trace::Trace::start();
/// flash_trace::span("the whole run");
/// trace.end().perfetto(std::io::sink())?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "a trace ends when it is dropped, and what it recorded is lost"]
pub struct Trace {
    session: Arc<Session>,
    from: u64,
}

impl Trace {
    /// Starts one.
    pub fn start() -> Trace {
        Trace::bounded(EVENTS)
    }

    /// Starts one in which a thread records this many events at most, of 32 bytes each, and all threads 16
    /// times as many. A span is two events. Of traces that overlap the bound of the first holds.
    ///
    /// ```
    /// let trace = flash_trace::Trace::bounded(10);
    /// (0..1000).for_each(|_| flash_trace::instant("tick"));
    /// assert!(trace.end().dropped() >= 990);
    /// ```
    pub fn bounded(events: usize) -> Trace {
        let session = Session::join(events);
        let from = session.now();
        Trace { session, from }
    }

    /// A profile for [options of a runtime](flash_core::RuntimeObj::options): each launch that it records
    /// gets a span on the row of its device. Launches with a profile are waited for one by one.
    ///
    /// ```
    /// # let rt = flash_core::get_runtime("ALL_CPU");
    /// # let Ok(rt) = rt else { return };
    /// let trace = flash_trace::Trace::start();
    /// let rt = rt.options(&trace.profile());
    /// ```
    pub fn profile(&self) -> Profile {
        Profile::to(|launch| {
            if !crate::is_on() {
                return;
            }
            record_at(|recorder| {
                let (kernel, device) = (recorder.name(&launch.kernel), recorder.name(&launch.device));
                let on_device = launch.nanoseconds.try_into().unwrap_or(u32::MAX);
                let what = What::Launch { kernel, device, wall: launch.wall_nanoseconds, on_device };
                (recorder.at(launch.start), what)
            });
        })
    }

    /// Ends it.
    pub fn end(self) -> Recording {
        let (session, to) = (self.session.clone(), self.session.now());
        let recording = Recording { session, from: self.from, to, timeline: OnceLock::new() };
        drop(self);
        let dropped = recording.dropped();
        if dropped > 0 {
            flash_backend::notice(format_args!(
                "a trace has no room for {dropped} events: it ends early on some rows; end it sooner, or start \
                 it with a greater bound"
            ));
        }
        recording
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.session.leave();
    }
}

/// What a [`Trace`] has recorded.
pub struct Recording {
    session: Arc<Session>,
    from: u64,
    to: u64,
    /// Worked out once, so that all files show the same: a thread may be recording its last event.
    timeline: OnceLock<Timeline>,
}

impl Recording {
    /// Events that were not recorded, because a bound of memory was reached. They are the last ones of their
    /// threads. The files say so, too.
    pub fn dropped(&self) -> u64 {
        lock(&self.session.threads).iter().map(|thread| thread.dropped()).sum()
    }

    /// Writes it in the JSON format that Perfetto (<https://ui.perfetto.dev>) and `chrome://tracing` read.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn perfetto(&self, to: impl Write) -> io::Result<()> {
        perfetto::write(self.timeline(), to)
    }

    /// As [`perfetto`](Self::perfetto), into a file that takes its place when it is whole.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("flash-trace-json-{}", std::process::id()));
    /// let trace = flash_trace::Trace::start();
    /// trace.end().write_perfetto(&path)?;
    /// assert!(std::fs::read_to_string(&path)?.starts_with("{"));
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_perfetto(&self, path: impl AsRef<Path>) -> io::Result<()> {
        replace(path.as_ref(), |file| self.perfetto(file))
    }

    /// Writes three files for Paraver: the trace at `path`, whose name should end in `.prv`, and, beside it,
    /// what its numbers mean (`.pcf`) and the names of its rows (`.row`).
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("flash-trace-{}.prv", std::process::id()));
    /// let trace = flash_trace::Trace::start();
    /// trace.end().write_paraver(&path)?;
    /// assert!(std::fs::read_to_string(&path)?.starts_with("#Paraver ("));
    /// # ["prv", "pcf", "row"].map(|extension|
    /// std::fs::remove_file(path.with_extension(extension)).unwrap());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_paraver(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let (path, timeline) = (path.as_ref(), self.timeline());
        replace(&path.with_extension("row"), |file| paraver::write_rows(timeline, file))?;
        replace(&path.with_extension("pcf"), |file| paraver::write_meanings(timeline, file))?;
        replace(path, |file| paraver::write_records(timeline, file))
    }

    /// Writes a picture of all of it, as SVG: for pages, and for a first look.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn svg(&self, mut to: impl Write) -> io::Result<()> {
        svg::write(self.timeline(), &mut to)
    }

    /// As [`svg`](Self::svg), into a file that takes its place when it is whole.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("flash-trace-{}.svg", std::process::id()));
    /// let trace = flash_trace::Trace::start();
    /// trace.end().write_svg(&path)?;
    /// assert!(std::fs::read_to_string(&path)?.starts_with("<svg "));
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_svg(&self, path: impl AsRef<Path>) -> io::Result<()> {
        replace(path.as_ref(), |file| self.svg(file))
    }

    fn timeline(&self) -> &Timeline {
        self.timeline.get_or_init(|| {
            let threads = lock(&self.session.threads).clone();
            Timeline::new(&threads, self.session.names(), self.from..=self.to)
        })
    }
}
