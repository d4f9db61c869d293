//! The last launches that were asked for, checked: a controller asks for the same one again and again, and
//! then nothing is decoded, checked or allocated.
//!
//! The same bytes ask for the same launch as long as the numbers in them mean the same. So all is forgotten
//! when a buffer or a kernel goes, or a kernel comes; the controller's memory stays where it is.

use super::device::{Kernel, LocalDevice};
use crate::wire::OwnedLaunch;
use std::sync::Arc;

/// At most so many: a request is compared with each.
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
#[derive(Default)]
pub(super) struct Recent {
    all: Vec<(Vec<u8>, Ready)>,
    /// The one that the next one replaces, once there are [`KEPT`].
    next: usize,
}

impl Recent {
    pub fn find(&self, request: &[u8]) -> Option<Ready> {
        self.all.iter().find(|(of, _)| of == request).map(|(_, ready)| ready.clone())
    }

    /// Adds one that is not among them.
    pub fn add(&mut self, request: &[u8], ready: Ready) {
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
