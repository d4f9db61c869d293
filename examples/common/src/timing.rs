//! How long launches took, and how much of it was not spent in kernels.

use std::collections::HashMap;
use std::time::Duration;

use flash::prelude::Profile;

/// Time of a run's kernels and launches.
#[derive(Default)]
pub struct Timing {
    kernel: Duration,
    launches: Duration,
}

impl Timing {
    /// Adds the launches since the last look, which took `wall` together.
    pub fn note(&mut self, profile: &Profile, wall: Duration) {
        let mut by_device: HashMap<String, (u64, u64)> = HashMap::new();
        for launch in profile.take() {
            let (kernel, launches) = by_device.entry(launch.device).or_default();
            *kernel += launch.nanoseconds;
            *launches += launch.wall_nanoseconds;
        }
        // Devices run side by side: the busiest one counts.
        let kernel = by_device.values().map(|(kernel, _)| *kernel).max();
        let launches = by_device.values().map(|(_, launches)| *launches).max();
        self.kernel += Duration::from_nanos(kernel.unwrap_or(0));
        // Launches of a chain may overlap, so that their sum exceeds the host's wait.
        self.launches += Duration::from_nanos(launches.unwrap_or(0)).min(wall);
    }

    /// Launch time beyond the kernels' own, in percent of theirs; nothing if none was measured.
    pub fn overhead_percent(&self) -> Option<f64> {
        let (launches, kernel) = (self.launches.as_secs_f64(), self.kernel.as_secs_f64());
        (kernel > 0.0).then(|| (launches - kernel) / kernel * 100.0)
    }

    /// [`overhead_percent`](Self::overhead_percent) for people.
    pub fn overhead(&self) -> String {
        match self.overhead_percent() {
            Some(percent) => format!("{percent:.3} % of kernel time"),
            None => "not measured".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_is_what_launches_take_beyond_kernels() {
        let mut timing = Timing::default();
        assert_eq!((timing.overhead_percent(), timing.overhead()), (None, "not measured".into()));
        timing.kernel = Duration::from_secs(1);
        timing.launches = Duration::from_millis(1020);
        assert!((timing.overhead_percent().expect("measured") - 2.0).abs() < 1e-9);
        assert_eq!(timing.overhead(), "2.000 % of kernel time");
    }
}
