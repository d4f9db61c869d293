//! A background thread of a backend, which copies or waits.

use crate::event::{Completion, Event, UserEvent};
use crate::failure::Failure;
use crate::panics::caught;
use flash_types::Code;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};

type Job = Box<dyn FnOnce() + Send>;

/// A thread that does one job after the other, in the order in which they came. It starts with the first, and
/// ends when the worker is dropped and all is done.
pub struct Worker {
    /// Its name for debuggers.
    name: &'static str,
    /// `None`: no thread could be started.
    jobs: OnceLock<Option<Sender<Job>>>,
}

impl Worker {
    /// A worker whose thread has this name.
    pub const fn new(name: &'static str) -> Worker {
        Worker { name, jobs: OnceLock::new() }
    }

    /// Gives it a job. If no thread can be started, the caller does it.
    pub fn run(&self, job: Job) {
        let jobs = self.jobs.get_or_init(|| {
            let (sender, jobs) = channel::<Job>();
            let each = |job: Job| drop(caught(job));
            let body = move || jobs.into_iter().for_each(each);
            crate::threads::thread(self.name).spawn(body).ok().map(|_| sender)
        });
        match jobs {
            // The thread takes jobs while the sender exists.
            Some(jobs) => drop(jobs.send(job)),
            None => job(),
        }
    }

    /// Gives it work, whose event fires when its function returns.
    pub fn begin(&self, work: impl FnOnce() -> Result<(), Failure> + Send + 'static) -> Event {
        let event = Arc::new(UserEvent::default());
        let fires = event.clone();
        self.run(Box::new(move || {
            let panicked = |panic| {
                let text = format!("the work of a backend's thread panicked: {panic}");
                Err(Failure::new(Code::Panic, text))
            };
            fires.signal(caught(work).unwrap_or_else(panicked));
        }));
        Event::new(Work(event))
    }
}

/// Work of a [`Worker`].
struct Work(Arc<UserEvent>);

impl Completion for Work {
    fn in_queue(&self) -> bool {
        false
    }

    fn ready(&self) -> bool {
        self.0.ready()
    }

    fn wait(&self) -> Result<(), Failure> {
        self.0.wait()
    }

    fn on_ready(&self, callback: Box<dyn FnOnce() + Send>) {
        self.0.on_ready(callback);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn work_goes_on_behind_who_began_it_in_order_and_a_failure_is_its_own() {
        let worker = Worker::new("flash-test");
        let (go, gate) = channel::<()>();
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |number: u32| {
            let order = order.clone();
            move || order.lock().unwrap().push(number)
        };
        let (first, second, last) = (note(1), note(2), note(3));
        let held = worker.begin(move || {
            gate.recv().unwrap();
            first();
            Ok(())
        });
        let panics = worker.begin(|| panic!("on purpose"));
        let fails = worker.begin(move || {
            second();
            Err(Failure::new(Code::DeviceLost, "it is gone"))
        });
        // None of it has happened yet: the caller goes on at once.
        assert!(!held.ready() && !panics.ready() && !fails.ready() && order.lock().unwrap().is_empty());
        fails.on_ready(Box::new(last));
        go.send(()).unwrap();
        assert!(held.wait().is_ok() && held.ready());
        assert_eq!(panics.wait().unwrap_err().code, Code::Panic);
        assert_eq!(fails.wait().unwrap_err().code, Code::DeviceLost);
        // After the callbacks of the earlier work.
        worker.begin(|| Ok(())).wait().unwrap();
        assert_eq!(*order.lock().unwrap(), [1, 2, 3]);
    }
}
