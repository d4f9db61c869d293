//! Results that are forwarded to another process.
//!
//! `MPIX_SendFwd` to an ordinary rank returns when the function was started. What it makes, or why it made
//! nothing, is sent when it has finished: by the thread of this module, which begins with the first such
//! message, sleeps until a function has finished, and looks after transfers as long as there are some, since
//! MPI has nothing to sleep on. Where only the program's main thread may call MPI, `MPIX_SendFwd` waits for the
//! function and begins to send, and later calls look after the transfer.
//!
//! Messages of one tag to one rank are sent in the order in which their functions were sent, and what the
//! program sends itself comes [after](come_after) them. Others overtake those that have not finished.

use crate::error::Result;
use crate::mailbox::Envelope;
use crate::ranks::{Going, Ordinary};
use crate::world::finished;
use flash_backend::notice;
use flash_net_mpi::until;
use smallvec::SmallVec;
use std::convert::Infallible;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

/// A result to come.
pub(crate) struct Forwarded {
    pub envelope: Envelope,
    pub to: Ordinary,
    /// It goes as a compute object, and else as the elements of its one array.
    pub is_object: bool,
}

/// A rank, a tag, and whether it is a compute object: messages that keep their order.
type Row = (u32, i32, bool);

struct Queue {
    waiting: Vec<Forwarded>,
    has_thread: bool,
    /// Of what the thread begins to send just now.
    begins: Option<Row>,
    /// The thread has taken something out that is not over.
    is_sending: bool,
    /// What was begun without the thread.
    going: Vec<Going>,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    waiting: Vec::new(),
    has_thread: false,
    begins: None,
    is_sending: false,
    going: Vec::new(),
});
/// Something came, or has finished.
static CHANGED: Condvar = Condvar::new();
/// Something was sent, or all is over.
static SENT: Condvar = Condvar::new();

static WAKER: LazyLock<Waker> = LazyLock::new(|| Waker::from(Arc::new(Finished)));

/// What a function does that has finished.
struct Finished;

impl Wake for Finished {
    fn wake(self: Arc<Self>) {
        // The thread looks with the lock, and sleeps then.
        drop(lock());
        CHANGED.notify_all();
    }
}

fn lock() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends a result when it is there.
///
/// # Errors
/// Where this waits: with MPI's words.
pub(crate) fn put(forwarded: Forwarded) -> Result<()> {
    if forwarded.to.takes_threads() && has_thread() {
        lock().waiting.push(forwarded);
        CHANGED.notify_all();
        return Ok(());
    }
    let going = forwarded.send()?;
    let mut queue = lock();
    queue.going.retain_mut(goes_on);
    queue.going.push(going);
    Ok(())
}

/// True if there is the thread, which is started now if it was not before.
fn has_thread() -> bool {
    let mut queue = lock();
    if !queue.has_thread {
        let started = std::thread::Builder::new().name("flash-forwards".to_owned()).spawn(serve);
        queue.has_thread = started.is_ok();
    }
    queue.has_thread
}

/// Waits until all results have been sent.
pub(crate) fn finish() {
    wait_while(|queue| queue.is_sending || !queue.waiting.is_empty());
    let mut going = std::mem::take(&mut lock().going);
    let looked: Result<(), Infallible> = until(|| {
        going.retain_mut(goes_on);
        Ok(going.is_empty().then_some(()))
    });
    let Ok(()) = looked;
}

/// Waits until the results were sent that come before a message of the program's own.
pub(crate) fn come_after(to: Ordinary, tag: i32, is_object: bool) {
    let row = (to.rank(), tag, is_object);
    wait_while(|queue| queue.begins == Some(row) || queue.waiting.iter().any(|other| other.row() == row));
}

fn wait_while(holds: impl Fn(&Queue) -> bool) {
    let mut queue = lock();
    while holds(&queue) {
        queue = SENT.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

fn serve() {
    let mut going: Vec<Going> = Vec::new();
    loop {
        if let Some(next) = next(going.is_empty()) {
            match next.send() {
                Ok(sent) => going.push(sent),
                Err(error) => notice(format_args!("a result is not forwarded: {error}")),
            }
            lock().begins = None;
            SENT.notify_all();
        }
        let looked: Result<(), Infallible> = until(|| {
            going.retain_mut(goes_on);
            Ok((going.is_empty() || lock().find().is_some()).then_some(()))
        });
        let Ok(()) = looked;
    }
}

fn goes_on(going: &mut Going) -> bool {
    match going.test() {
        Ok(over) => over.is_none(),
        Err(error) => {
            notice(format_args!("a result is not forwarded: {error}"));
            false
        }
    }
}

/// The next result that is there. With nothing else to do, this sleeps until there is one.
fn next(sleeps: bool) -> Option<Forwarded> {
    let mut queue = lock();
    loop {
        if let Some(at) = queue.find() {
            let next = queue.waiting.remove(at);
            (queue.is_sending, queue.begins) = (true, Some(next.row()));
            return Some(next);
        }
        if !sleeps {
            return None;
        }
        queue.is_sending = false;
        if queue.waiting.is_empty() {
            SENT.notify_all();
        }
        queue = CHANGED.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

impl Queue {
    /// The first that has finished, and none before an earlier one of the same rank, tag and kind. The others
    /// tell when they have.
    fn find(&mut self) -> Option<usize> {
        let mut unfinished: SmallVec<[Row; 8]> = SmallVec::new();
        let context = &mut Context::from_waker(&WAKER);
        self.waiting.iter_mut().position(|forwarded| {
            let row = forwarded.row();
            if unfinished.contains(&row) {
                return false;
            }
            let message = &mut forwarded.envelope.message;
            let is_there = message.as_mut().is_none_or(|message| message.has_finished(context));
            if !is_there {
                unfinished.push(row);
            }
            is_there
        })
    }
}

impl Forwarded {
    fn row(&self) -> Row {
        (self.to.rank(), self.envelope.tag, self.is_object)
    }

    /// Begins to send what its function has made, or why there is nothing.
    fn send(self) -> Result<Going> {
        let Forwarded { mut envelope, to, is_object } = self;
        let Envelope { tag, from: child, message } = &mut envelope;
        let made = match message {
            None => Ok(Vec::new()),
            Some(message) => finished(child, message, |message| match is_object {
                true => message.frame(),
                false => message.elements(),
            }),
        };
        match (made, is_object) {
            (Ok(frame), true) => to.send_object(frame, *tag),
            (Ok(elements), false) => to.send_kept(elements, *tag),
            (Err(error), true) => to.send_object(crate::frame::failed(&error), *tag),
            (Err(error), false) => to.send_failure(&error, *tag),
        }
    }
}
