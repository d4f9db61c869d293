//! The conformance suite: what every backend must do, as checks for any of them, whether it is linked in, a
//! plugin, written in C, or the [`Null`] one.
//!
//! ```text
//! flash_core::conformance!();                       // in the program: the suite's kernels and `NULL`
//! let report = flash_core::backend::conformance::run(&flash_core::Context::default(), "MY_ACCEL")?;
//! assert!(report.passed(), "{report}");
//! ```
//!
//! The suite reaches the backend by its runtime key, through the public runtime (`launches.rs`) and through
//! the slots of its vtable (`slots.rs`, `submissions.rs`), each device by itself and the first with every
//! other (`pairs.rs`). A check of what a backend calls unsupported is *skipped*, with the backend's text. A
//! backend that runs nothing says so ([`DRY`]): then all but the results is checked.

mod kernels;
mod launches;
mod null;
mod pairs;
mod slots;
mod submissions;

pub use kernels::implementation;
pub use null::Null;

use super::DeviceHandle;
use crate::error::{Code, Error};
use crate::panics::caught;
use crate::runtime::{Context, RuntimeObj};
use pairs::Pair;
use std::fmt;

/// The property of a device that runs nothing: `true`.
pub const DRY: &str = "conformance.dry";

/// Links the suite's kernels and the `NULL` backend into the program. Once per program.
#[macro_export]
macro_rules! conformance {
    () => {
        $crate::__private::inventory::submit! {
            $crate::backend::BackendEntry {
                api: $crate::backend::api::<$crate::backend::conformance::Null>,
                module: ::core::module_path!(),
            }
        }
        $crate::conformance! { @ 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 }
    };
    (@ $($n:literal)*) => {
        $($crate::__private::inventory::submit! {
            $crate::kernel::ImplementationEntry {
                build: $crate::backend::conformance::implementation::<$n>,
                module: ::core::module_path!(),
            }
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
}

/// One check of one device.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Check {
    /// The device's id, or those of two.
    pub device: String,
    /// What must hold.
    pub name: &'static str,
    /// Its result.
    pub verdict: Verdict,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It holds.
    Passed,
    /// The backend does not offer this.
    Skipped(String),
    /// It does not hold.
    Failed(String),
}

impl Report {
    /// True if no check failed.
    pub fn passed(&self) -> bool {
        !self.checks.iter().any(|c| matches!(c.verdict, Verdict::Failed(_)))
    }

    fn add(&mut self, device: String, name: &'static str, check: impl FnOnce() -> Outcome) {
        let verdict = match caught(check) {
            Ok(Ok(())) => Verdict::Passed,
            Ok(Err(Stop::Skip(why))) => Verdict::Skipped(why),
            Ok(Err(Stop::Fail(why))) => Verdict::Failed(why),
            Err(panic) => Verdict::Failed(format!("a panic in the host: {panic}")),
        };
        self.checks.push(Check { device, name, verdict });
    }

    /// The skipped checks, with the reasons.
    pub fn skipped(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.checks.iter().filter_map(|c| match &c.verdict {
            Verdict::Skipped(why) => Some((c.name, why.as_str())),
            _ => None,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut counts = [0; 3];
        for check in &self.checks {
            let (column, verdict, why) = match &check.verdict {
                Verdict::Passed => (0, "passed", ""),
                Verdict::Skipped(why) => (1, "skipped", why.as_str()),
                Verdict::Failed(why) => (2, "FAILED", why.as_str()),
            };
            counts[column] += 1;
            write!(f, "{:<8} {} {}", verdict, check.device, check.name)?;
            writeln!(f, "{}{}", if why.is_empty() { "" } else { ": " }, why.replace('\n', "\n         "))?;
        }
        let [passed, skipped, failed] = counts;
        write!(f, "{}: {passed} passed, {skipped} skipped, {failed} failed", self.key)
    }
}

/// Runs the suite on every device of a runtime key in a context, one after the other, and then on the first
/// together with each other one. It takes a few seconds.
///
/// # Errors
/// [`Error::Key`] if there is no such runtime.
pub fn run(context: &Context, key: &str) -> Result<Report, Error> {
    let mut report = Report { key: key.to_owned(), checks: Vec::new() };
    let subject = |&device: &&'static DeviceHandle| {
        let (runtime, dry) = (context.runtime(device.id())?, slots::is_dry(device));
        Ok(Subject { context: context.clone(), runtime, device, dry })
    };
    let subjects: Vec<Subject> =
        context.runtime(key)?.devices().iter().map(subject).collect::<Result<_, Error>>()?;
    for subject in &subjects {
        for (name, check) in slots::CHECKS.iter().chain(launches::CHECKS) {
            report.add(subject.device.id().to_owned(), name, || check(subject));
        }
    }
    if let Some((first, others)) = subjects.split_first() {
        for second in others {
            for (name, check) in pairs::CHECKS {
                let devices = format!("{} with {}", first.device.id(), second.device.id());
                report.add(devices, name, || check(&Pair { first, second }));
            }
        }
    }
    Ok(report)
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
    Fail(String),
}

type Outcome = Result<(), Stop>;
type CheckFn = fn(&Subject) -> Outcome;

impl From<Error> for Stop {
    /// An operation that the backend does not support, or a kernel that the device cannot run, is skipped;
    /// every other error is a failure.
    fn from(error: Error) -> Stop {
        match &error {
            Error::Backend { code: Code::Unsupported, text } => Stop::Skip(text.clone()),
            Error::NoImplementation(none) => Stop::Skip(none.to_string()),
            Error::Launch(launch) => match &launch.source {
                Error::Backend { code: Code::Unsupported, text } => Stop::Skip(text.clone()),
                Error::NoImplementation(none) => Stop::Skip(none.to_string()),
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
            return Err($crate::backend::conformance::Stop::Fail(format!($($text)+)));
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
