//! Results that are forwarded to another process.
//!
//! `MPIX_SendFwd` to an ordinary rank returns when the function was started. What it makes, or why it made
//! nothing, is sent when it has finished: by the thread of this module, which begins with the first such
//! message, sleeps until a function has finished, and looks after transfers as long as there are some, since
//! MPI has nothing to sleep on. `MPIX_SendFwd` itself waits for the function, and begins to send, where such
//! a thread may not call MPI, and of a message with arrays that others have, too: what these are when a
//! function ends can be read only before another message changes them.
//!
//! Messages of one tag to one rank are sent in the order in which their functions were sent, and what the
//! program sends itself comes [after](come_after) them. Others overtake those that have not finished.

use crate::error::{Code, Error, Result};
use crate::mailbox::Envelope;
use crate::ranks::{Going, Ordinary};
use crate::world::finished;
use flash_backend::{caught, notice};
use flash_net_mpi::until;
use smallvec::SmallVec;
use std::cell::Cell;
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
    /// What was begun by calls. The thread looks after it, if there is one, else later calls.
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
    let has_thread = forwarded.to.takes_own_thread() && has_thread();
    let is_shared = forwarded.envelope.message.as_ref().is_some_and(|message| message.has_shared_arrays());
    if has_thread && !is_shared {
        lock().waiting.push(forwarded);
        CHANGED.notify_all();
        return Ok(());
    }
    wait_for(forwarded.row());
    let going = forwarded.send()?;
    let mut queue = lock();
    if !has_thread {
        queue.going.retain_mut(goes_on);
    }
    queue.going.push(going);
    CHANGED.notify_all();
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
    if lock().has_thread {
        return wait_while(|queue| queue.is_sending || !(queue.waiting.is_empty() && queue.going.is_empty()));
    }
    let mut going = std::mem::take(&mut lock().going);
    let looked: Result<(), Infallible> = until(|| {
        going.retain_mut(goes_on);
        Ok(going.is_empty().then_some(()))
    });
    let Ok(()) = looked;
}

/// Waits until the results were sent that come before a message of the program's own.
pub(crate) fn come_after(to: Ordinary, tag: i32, is_object: bool) {
    wait_for((to.rank(), tag, is_object));
}

fn wait_for(row: Row) {
    // A failsafe may run on the thread.
    if !IS_THREAD.get() {
        wait_while(|queue| queue.begins == Some(row) || queue.waiting.iter().any(|other| other.row() == row));
    }
}

fn wait_while(holds: impl Fn(&Queue) -> bool) {
    let mut queue = lock();
    while holds(&queue) {
        queue = SENT.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

thread_local! {
    /// True on the thread of this module.
    static IS_THREAD: Cell<bool> = const { Cell::new(false) };
}

fn serve() {
    IS_THREAD.set(true);
    let mut going: Vec<Going> = Vec::new();
    loop {
        if let Some(next) = next(&mut going) {
            let sent = caught(|| next.send()).unwrap_or_else(|text| Err(Error::new(Code::Panic, text)));
            match sent {
                Ok(sent) => going.push(sent),
                Err(error) => notice(format_args!("a result is not forwarded: {error}")),
            }
            lock().begins = None;
            SENT.notify_all();
        }
        let looked: Result<(), Infallible> = until(|| {
            going.retain_mut(goes_on);
            let mut queue = lock();
            let is_more = !queue.going.is_empty() || queue.find().is_some();
            Ok((going.is_empty() || is_more).then_some(()))
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

/// The next result that is there, and what calls have begun. With nothing to do, this sleeps.
fn next(going: &mut Vec<Going>) -> Option<Forwarded> {
    let mut queue = lock();
    loop {
        going.append(&mut queue.going);
        queue.is_sending = !going.is_empty();
        if let Some(at) = queue.find() {
            let next = queue.waiting.remove(at);
            (queue.is_sending, queue.begins) = (true, Some(next.row()));
            return Some(next);
        }
        if !going.is_empty() {
            return None;
        }
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
        let begun = match made {
            Ok(frame) if is_object => to.send_object(frame, *tag),
            Ok(elements) => to.send_kept(elements, *tag),
            Err(error) => Err(error),
        };
        // What cannot be sent has its place in the order all the same.
        begun.or_else(|error| match is_object {
            true => to.send_object(crate::frame::failed(&error), *tag),
            false => to.send_failure(&error, *tag),
        })
    }
}
