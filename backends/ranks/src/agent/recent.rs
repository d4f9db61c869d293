//! The last launches that were asked for, checked: a controller asks for the same one again and again, and
//! then nothing is decoded, checked or allocated.
//!
//! The same bytes ask for the same launch as long as the numbers in them mean the same. So all is forgotten
//! when a buffer or a kernel goes, or a kernel comes; the controller's memory stays where it is.

use super::device::{Kernel, LocalDevice};
use crate::wire::OwnedLaunch;
use std::sync::Arc;

/// At most this many: a request is compared with each.
const KEPT: usize = 8;
/// A longer request, with lists of indices, costs more to compare than its check is worth.
const LONGEST: usize = 2048;

/// A launch that can be submitted. It holds the kernel, and the buffers of the launch.
#[derive(Clone)]
pub(super) struct Ready {
    pub device: &'static LocalDevice,
    pub kernel: Arc<Kernel>,
    pub launch: Arc<OwnedLaunch>,
}

/// Launches by the bytes that asked for them.
pub(super) struct Recent<L = Ready> {
    all: Vec<(Vec<u8>, L)>,
    /// The one that the next one replaces, once there are [`KEPT`].
    next: usize,
}

impl<L> Default for Recent<L> {
    fn default() -> Self {
        Recent { all: Vec::new(), next: 0 }
    }
}

impl<L: Clone> Recent<L> {
    pub fn find(&self, request: &[u8]) -> Option<L> {
        self.all.iter().find(|(of, _)| of == request).map(|(_, ready)| ready.clone())
    }

    /// Adds one that is not among them.
    pub fn add(&mut self, request: &[u8], ready: L) {
        if request.len() > LONGEST {
            return;
        }
        if self.all.len() < KEPT {
            self.all.push((request.to_vec(), ready));
            return;
        }
        let (of, known) = &mut self.all[self.next];
        of.clear();
        of.extend_from_slice(request);
        *known = ready;
        self.next = (self.next + 1) % KEPT;
    }

    pub fn clear(&mut self) {
        self.all.clear();
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_requests_are_known_until_all_is_forgotten() {
        let mut recent = Recent::default();
        for launch in 0..KEPT as u8 + 3 {
            assert_eq!(recent.find(&[launch, 7]), None);
            recent.add(&[launch, 7], launch);
            assert_eq!(recent.find(&[launch, 7]), Some(launch));
        }
        assert_eq!((recent.find(&[2, 7]), recent.find(&[3, 7])), (None, Some(3)));
        assert_eq!((recent.find(&[3]), recent.find(&[3, 7, 0])), (None, None));
        recent.clear();
        assert_eq!(recent.find(&[5, 7]), None);
        recent.add(&[5, 7], 50);
        assert_eq!(recent.find(&[5, 7]), Some(50));
    }

    #[test]
    fn a_long_request_is_not_kept() {
        let mut recent = Recent::default();
        recent.add(&[0; LONGEST + 1], 1);
        assert_eq!(recent.find(&[0; LONGEST + 1]), None);
    }
}
