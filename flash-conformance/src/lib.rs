//! The conformance suite: what every backend must do, as checks for any of them, whether it is linked in, a
//! plugin, written in C, or the [`Null`] one.
//!
//! ```text
//! flash_conformance::conformance!();                       // in the program: the suite's kernels and `NULL`
//! let report = flash_conformance::run(&flash_core::Context::default(), "MY_ACCEL")?;
//! assert!(report.passed(), "{report}");
//! ```
//!
//! The suite reaches the backend by its runtime key, through the public runtime (`launches.rs`) and through
//! the slots of its vtable (`slots.rs`, `submissions.rs`), each device by itself and the first with every
//! other (`pairs.rs`). A check of what a backend calls unsupported is *skipped*, with the backend's text. One
//! that needs a kernel which the suite has not for the device's targets is *untested*: a report with such a
//! check is incomplete, and has not passed. A backend that runs nothing says so ([`DRY`]): then all but the
//! results is checked.
//!
//! [`run`] stays in the process, which a bad backend may end or stop for ever. The command
//! `flash conformance` runs the [`Suite`] in a child process.

mod kernels;
mod launches;
mod null;
mod pairs;
mod slots;
mod submissions;

pub use kernels::implementation;
pub use null::Null;

use flash_backend::caught;
use flash_backend::{BackendStatic, Instance, notice};
use flash_core::Error;
use flash_core::devices::DeviceHandle;
use flash_core::runtime::{Context, RuntimeObj};
use flash_types::Code;
use pairs::Pair;
use std::fmt;

/// The property of a device that runs nothing: `true`.
pub const DRY: &str = "conformance.dry";

/// The name of the check that launches first.
pub const FIRST_LAUNCH: &str = "every work item runs exactly once, through every door";

/// For what [`conformance!`] writes.
#[doc(hidden)]
pub mod __private {
    pub use flash_backend;
    pub use inventory;
}

static NULL: Instance<Null> = Instance::new();

// SAFETY: the same instance every time. `register_backend!` would put the backend into every program.
unsafe impl BackendStatic for Null {
    fn instance() -> &'static Instance<Null> {
        &NULL
    }
}

/// Links the suite's kernels and the `NULL` backend into the program. Once per program.
#[macro_export]
macro_rules! conformance {
    () => {
        $crate::__private::inventory::submit! {
            $crate::__private::flash_backend::BackendEntry {
                api: $crate::__private::flash_backend::api::<$crate::Null>,
                module: ::core::module_path!(),
            }
        }
        $crate::conformance! { @ 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 }
    };
    (@ $($n:literal)*) => {
        $($crate::__private::inventory::submit! {
            $crate::implementation($n, ::core::module_path!())
        })*
    };
}

/// The results of the suite.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The runtime key.
    pub key: String,
    /// One per check and device.
    pub checks: Vec<Check>,
    /// The devices run nothing: results were not checked.
    pub dry: bool,
}

/// One check of one device.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Check {
    /// The device's id, or those of two.
    pub device: String,
    /// What must hold.
    pub name: String,
    /// Its result.
    pub verdict: Verdict,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "verdict", content = "reason", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Verdict {
    /// It holds.
    Passed,
    /// The backend does not offer this.
    Skipped(String),
    /// The suite has no kernel for the device.
    Untested(String),
    /// It does not hold.
    Failed(String),
}

impl Verdict {
    /// The reason, unless it passed.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Verdict::Passed => None,
            Verdict::Skipped(why) | Verdict::Untested(why) | Verdict::Failed(why) => Some(why),
        }
    }

    /// A word of at most eight letters.
    fn word(&self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Skipped(_) => "skipped",
            Verdict::Untested(_) => "untested",
            Verdict::Failed(_) => "FAILED",
        }
    }
}

impl Check {
    /// A check and its result.
    pub fn new(device: impl Into<String>, name: impl Into<String>, verdict: Verdict) -> Check {
        Check { device: device.into(), name: name.into(), verdict }
    }
}

/// One line, and more where the reason has them.
impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<8} {} {}", self.verdict.word(), self.device, self.name)?;
        match self.verdict.reason() {
            Some(why) => write!(f, ": {}", why.replace('\n', "\n         ")),
            None => Ok(()),
        }
    }
}

impl Report {
    /// One without checks.
    pub fn new(key: impl Into<String>, dry: bool) -> Report {
        Report { key: key.into(), checks: Vec::new(), dry }
    }

    /// True if no check failed, and none is untested.
    pub fn passed(&self) -> bool {
        !self.checks.iter().any(|c| matches!(c.verdict, Verdict::Failed(_) | Verdict::Untested(_)))
    }

    /// The skipped checks, with the reasons.
    pub fn skipped(&self) -> impl Iterator<Item = (&str, &str)> {
        self.checks.iter().filter_map(|c| match &c.verdict {
            Verdict::Skipped(why) => Some((c.name.as_str(), why.as_str())),
            _ => None,
        })
    }

    /// The last line: how many checks have which result.
    pub fn summary(&self) -> String {
        let mut counts = [0; 4];
        for check in &self.checks {
            counts[match check.verdict {
                Verdict::Passed => 0,
                Verdict::Skipped(_) => 1,
                Verdict::Untested(_) => 2,
                Verdict::Failed(_) => 3,
            }] += 1;
        }
        let [passed, skipped, untested, failed] = counts;
        let mut text = format!("{}: {passed} passed, {skipped} skipped, ", self.key);
        if untested > 0 {
            text += &format!("{untested} untested, ");
        }
        text += &format!("{failed} failed");
        if untested > 0 {
            text += "; incomplete: the plugin must bring the kernels that are named above for its target, as \
                     `kernels.c` and `kernels.rs` of the suite have them";
        }
        if self.dry {
            text += &format!("; no result was checked, since the device says `{DRY}`");
        }
        text
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.checks.iter().try_for_each(|check| writeln!(f, "{check}"))?;
        f.write_str(&self.summary())
    }
}

/// Runs the suite in this process, on every device of a runtime key in a context, one after the other, and
/// then on the first together with each other one. It takes a few seconds. A notice names each check before
/// it runs: the last one is what ended, or stopped, the process.
///
/// # Errors
/// [`Error::Key`] if there is no such runtime.
pub fn run(context: &Context, key: &str) -> Result<Report, Error> {
    let suite = Suite::new(context, key)?;
    let mut report = Report::new(key, suite.dry());
    for (number, (device, name)) in suite.checks().enumerate() {
        notice(format_args!("conformance: {device} {name}"));
        let verdict = suite.run(number);
        report.checks.push(Check::new(device, name, verdict));
    }
    Ok(report)
}

/// The checks of a runtime key, in order: the same in every process that sees the same devices.
pub struct Suite {
    subjects: Vec<Subject>,
}

/// A check with its device or devices.
enum Step<'a> {
    One(&'a Subject, &'static (&'static str, CheckFn)),
    Two(Pair<'a>, &'static (&'static str, pairs::PairFn)),
}

impl Suite {
    /// Those of a runtime key in a context.
    ///
    /// # Errors
    /// [`Error::Key`] if there is no such runtime.
    pub fn new(context: &Context, key: &str) -> Result<Suite, Error> {
        let subject = |&device: &&'static DeviceHandle| {
            let (runtime, dry) = (context.runtime(device.id())?, slots::is_dry(device));
            Ok(Subject { context: context.clone(), runtime, device, dry })
        };
        let subjects = context.runtime(key)?.devices().iter().map(subject).collect::<Result<_, Error>>()?;
        Ok(Suite { subjects })
    }

    /// True if a device says that it runs nothing ([`DRY`]).
    pub fn dry(&self) -> bool {
        self.subjects.iter().any(|subject| subject.dry)
    }

    fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        let all = || slots::CHECKS.iter().chain(launches::CHECKS);
        let ones =
            self.subjects.iter().flat_map(move |subject| all().map(move |check| Step::One(subject, check)));
        let first = self.subjects.first();
        let twos = self.subjects.iter().skip(1).flat_map(move |second| {
            first.into_iter().flat_map(move |first| {
                pairs::CHECKS.iter().map(move |check| Step::Two(Pair { first, second }, check))
            })
        });
        ones.chain(twos)
    }

    /// The device, or both devices, and the name of each check.
    pub fn checks(&self) -> impl Iterator<Item = (String, &'static str)> {
        self.steps().map(|step| match step {
            Step::One(subject, (name, _)) => (subject.device.id().to_owned(), *name),
            Step::Two(pair, (name, _)) => {
                (format!("{} with {}", pair.first.device.id(), pair.second.device.id()), *name)
            }
        })
    }

    /// Runs the check of a number.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn run(&self, number: usize) -> Verdict {
        let step = self.steps().nth(number).expect("a number of a check");
        let (subject, outcome) = match step {
            Step::One(subject, (_, check)) => (subject, caught(|| check(subject))),
            Step::Two(pair, (_, check)) => (pair.first, caught(|| check(&pair))),
        };
        match outcome {
            Ok(Ok(())) => Verdict::Passed,
            Ok(Err(Stop::Skip(why))) => Verdict::Skipped(why),
            // A kernel that is there and that the device cannot run is a feature that it lacks.
            Ok(Err(Stop::NoKernel(kernel, why))) if subject.has_kernel(&kernel) => Verdict::Skipped(why),
            Ok(Err(Stop::NoKernel(kernel, _))) => {
                Verdict::Untested(format!("the suite has no kernel `{kernel}` for {}", subject.targets()))
            }
            Ok(Err(Stop::Fail(why))) => Verdict::Failed(why),
            Err(panic) => Verdict::Failed(format!("a panic in the host: {panic}")),
        }
    }
}

/// The device under test.
struct Subject {
    context: Context,
    runtime: RuntimeObj,
    device: &'static DeviceHandle,
    /// It runs nothing: results are not checked.
    dry: bool,
}

/// Why a check ended early.
enum Stop {
    Skip(String),
    /// No implementation of this kernel can run, and why.
    NoKernel(String, String),
    Fail(String),
}

type Outcome = Result<(), Stop>;
type CheckFn = fn(&Subject) -> Outcome;

impl From<Error> for Stop {
    /// An operation that the backend does not support is skipped; every error but that, and the want of a
    /// kernel, is a failure.
    fn from(error: Error) -> Stop {
        match &error {
            Error::Backend { code: Code::Unsupported, text, .. } => Stop::Skip(text.clone()),
            Error::NoImplementation(none) => Stop::NoKernel(none.kernel().to_owned(), none.to_string()),
            Error::Launch(launch) => match launch.cause() {
                Error::Backend { code: Code::Unsupported, text, .. } => Stop::Skip(text.clone()),
                Error::NoImplementation(none) => Stop::NoKernel(none.kernel().to_owned(), none.to_string()),
                _ => Stop::Fail(error.to_string()),
            },
            _ => Stop::Fail(error.to_string()),
        }
    }
}

/// Fails unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::Stop::Fail(format!($($text)+)));
        }
    };
}
use ensure;

impl Subject {
    /// Compares results, where there are any.
    fn same<T: PartialEq + fmt::Debug>(&self, what: &str, found: &[T], expected: &[T]) -> Outcome {
        if self.dry {
            return Ok(());
        }
        ensure!(
            found.len() == expected.len(),
            "{what}: expected {} elements, found {}",
            expected.len(),
            found.len()
        );
        match found.iter().zip(expected).position(|(a, b)| a != b) {
            None => Ok(()),
            Some(i) => Err(Stop::Fail(format!(
                "{what}, element {i}: expected {:?}, found {:?}",
                expected[i], found[i]
            ))),
        }
    }
}
