//! A thread that waits for launches on behalf of others.

use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

/// Waits for something, and does what is to be done then.
type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs that wait, one after the other, on a thread of its own: functions that the driver calls back may not call
/// it, and are not called when the device is lost.
#[derive(Default)]
pub(crate) struct Waiter(OnceLock<Option<Sender<Job>>>);

impl Waiter {
    /// Runs a job, in the order of the calls: launches end in that order.
    pub fn when(&self, job: Job) {
        let sender = self.0.get_or_init(|| {
            let (sender, jobs) = channel::<Job>();
            let body = move || jobs.into_iter().for_each(|job| job());
            std::thread::Builder::new().name("flash-cuda".into()).spawn(body).ok().map(|_| sender)
        });
        match sender {
            // The thread lives as long as the sender, for ever.
            Some(sender) => drop(sender.send(job)),
            // No thread can be had: the caller waits.
            None => job(),
        }
    }
}
