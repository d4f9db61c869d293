//! A thread that runs functions from a channel, and reports through another that they are done.

use std::sync::mpsc::{self, Receiver, Sender};

type Job = Box<dyn FnOnce() + Send>;

/// The thread. It ends when this is dropped.
pub struct Thread {
    jobs: Sender<Job>,
    done: Receiver<()>,
}

impl Thread {
    pub fn new() -> Thread {
        let (jobs, to_do) = mpsc::channel::<Job>();
        let (tell, done) = mpsc::channel();
        std::thread::spawn(move || {
            for job in to_do {
                job();
                if tell.send(()).is_err() {
                    break;
                }
            }
        });
        Thread { jobs, done }
    }

    /// Sends it a function.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.jobs.send(Box::new(job)).expect("the thread waits for jobs");
    }

    /// Waits until it has run this many more.
    pub fn wait(&self, jobs: usize) {
        (0..jobs).for_each(|_| self.done.recv().expect("the thread answers"));
    }
}
