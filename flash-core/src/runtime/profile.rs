//! What launches took, on request.

use std::sync::{Arc, Mutex};

/// Collects a record of every launch: `rt.options(&profile)`.
#[derive(Clone, Debug, Default)]
pub struct Profile(Arc<Mutex<Vec<LaunchProfile>>>);

/// One launch.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LaunchProfile {
    /// Position of the submission in its pipeline. One that is cut has a launch per part, and per phase.
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
}

impl Profile {
    /// An empty one.
    pub fn new() -> Profile {
        Profile::default()
    }

    /// The launches so far, in the order in which they finished; they are taken out.
    pub fn take(&self) -> Vec<LaunchProfile> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(|e| e.into_inner()))
    }

    pub(super) fn add(&self, launch: LaunchProfile) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).push(launch);
    }
}
