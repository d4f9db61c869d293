//! Times of launches, on request.

use flash_backend::caught;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// Collects a record of every launch: `rt.options(&profile)`.
#[derive(Clone, Debug, Default)]
pub struct Profile(Arc<Records>);

#[derive(Default)]
struct Records {
    kept: Mutex<Vec<LaunchProfile>>,
    /// What gets them instead.
    to: Option<Box<dyn Fn(LaunchProfile) + Send + Sync>>,
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("kept", &self.kept).finish_non_exhaustive()
    }
}

/// One launch.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct LaunchProfile {
    /// Position of the submission in its pipeline. One that is cut has a record per part, for all of its
    /// phases.
    pub submission: usize,
    /// The kernel.
    pub kernel: String,
    /// The implementation.
    pub implementation: String,
    /// The device's id.
    pub device: String,
    /// Phases.
    pub phases: u64,
    /// Work items.
    pub items: u64,
    /// Time of the kernel on the device, in nanoseconds.
    pub nanoseconds: u64,
    /// Time of the launch as the host sees it, from submission to completion, in nanoseconds.
    pub wall_nanoseconds: u64,
    /// When it was submitted.
    #[serde(skip)]
    pub start: Instant,
}

impl Profile {
    /// An empty one.
    pub fn new() -> Profile {
        Profile::default()
    }

    /// One that hands each record to a function, on the thread on which the launch is complete, and keeps
    /// none. If the function panics, that record is lost.
    ///
    /// ```
    /// let profile = flash_core::Profile::to(|launch| println!("{} on {}", launch.kernel, launch.device));
    /// assert!(profile.take().is_empty());
    /// ```
    pub fn to(record: impl Fn(LaunchProfile) + Send + Sync + 'static) -> Profile {
        Profile(Arc::new(Records { kept: Mutex::default(), to: Some(Box::new(record)) }))
    }

    /// The launches so far, in the order in which they finished; they are taken out.
    pub fn take(&self) -> Vec<LaunchProfile> {
        std::mem::take(&mut *self.kept())
    }

    pub(super) fn add(&self, launch: LaunchProfile) {
        match &self.0.to {
            None => self.kept().push(launch),
            // The launch has run, whatever becomes of its record.
            Some(to) => _ = caught(|| to(launch)),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<LaunchProfile>> {
        self.0.kept.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Launches of one phase each. They become one record per part and device, when the last handle to this is
/// dropped.
pub(super) struct PhaseTimes {
    to: Profile,
    /// Each with the number of its part.
    launches: Mutex<Vec<(usize, LaunchProfile)>>,
}

impl PhaseTimes {
    pub fn new(to: Profile) -> Arc<PhaseTimes> {
        Arc::new(PhaseTimes { to, launches: Mutex::default() })
    }

    /// Adds the record of one launch.
    pub fn add(&self, part: usize, launch: LaunchProfile) {
        let mut launches = self.launches.lock().unwrap_or_else(|e| e.into_inner());
        let same =
            |(number, known): &&mut (usize, LaunchProfile)| *number == part && known.device == launch.device;
        let Some((_, all)) = launches.iter_mut().find(same) else { return launches.push((part, launch)) };
        all.phases += launch.phases;
        all.items += launch.items;
        all.nanoseconds += launch.nanoseconds;
        all.wall_nanoseconds += launch.wall_nanoseconds;
    }
}

impl Drop for PhaseTimes {
    fn drop(&mut self) {
        let launches = std::mem::take(self.launches.get_mut().unwrap_or_else(|e| e.into_inner()));
        launches.into_iter().for_each(|(_, launch)| self.to.add(launch));
    }
}
