//! What a controller and its agent say to each other while a program runs: what fuzzers begin with.

use crate::agent::KEY;
use crate::kernels::{Heat, Shift, Tally};
use crate::{ANSWERS, Frame, input};
use flash::Error;
use flash::prelude::*;
use flash_backend_ranks::in_process::{Agent, control};
use flash_net::{
    Loss, NetError, Peer, PeerInfo, Progress, SharedHeap, SharedMemory, SharedTransport, Ticket, Transport,
    local,
};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// What was said, as inputs.
pub struct Session {
    /// Of the controller.
    pub requests: Vec<u8>,
    /// Of the agent.
    pub answers: Vec<u8>,
}

#[derive(Default)]
struct Log {
    requests: Vec<Frame>,
    answers: Vec<Frame>,
}

/// The controller's transport, which keeps what goes through it.
struct Logged {
    transport: SharedTransport,
    log: Arc<Mutex<Log>>,
}

/// A session, recorded once: this process's `RANK` is its agent from then on.
///
/// # Panics
/// If a launch fails, or this process has used `RANK` before.
pub fn session() -> &'static Session {
    static SESSION: OnceLock<Session> = OnceLock::new();
    SESSION.get_or_init(|| {
        let [first, second] = local(2).expect("a world").try_into().expect("of two peers");
        let log = Arc::<Mutex<Log>>::default();
        control(Box::new(Logged { transport: first, log: log.clone() }));
        let mut agent = Agent::new(Box::new(second), KEY).expect("two devices");
        let is_over = Arc::new(AtomicBool::new(false));
        let sees = is_over.clone();
        let polls = std::thread::spawn(move || {
            while !sees.load(Relaxed) {
                if !agent.poll() {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        });
        for key in ["RANK:1/ALL_CPU:0", "RANK:1/TEST:0"] {
            run(&get_runtime(key).expect("the agent's device")).expect("all launches succeed");
        }
        is_over.store(true, Relaxed);
        polls.join().expect("an agent does not panic");
        let log = std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner));
        Session { requests: input(&log.requests), answers: input(&log.answers) }
    })
}

/// One of everything.
fn run(rt: &RuntimeObj) -> Result<(), Error> {
    let plate = |hot| FlashMemory::from(vec![hot; 20]).with_shape([5, 4]);
    let (now, next, bins) = (plate(1.0f32)?, plate(2.0)?, FlashMemory::<u32>::zeroed(3));
    let mut ring: Vec<u32> = (0..4).collect();
    let values = [1u16, 2, 3, 4, 5];
    rt.submit(Heat::of(0.1, &now, &next)).exec((1..4, 1..3))?;
    rt.submit(Tally::of(&values[..], &bins)).exec((count_by([0, 4, 2, 2]),))?;
    rt.submit(Shift::of(&mut ring[..])).options(group_by(only(["step"]))).exec((4, 2))?;
    let first = next.read()?[6];
    assert!(first > 0.0, "{first}");
    Ok(())
}

impl Transport for Logged {
    fn me(&self) -> Peer {
        self.transport.me()
    }

    fn peers(&self) -> usize {
        self.transport.peers()
    }

    fn info(&self, peer: Peer) -> Option<PeerInfo> {
        self.transport.info(peer)
    }

    fn post_parts(&self, to: Peer, parts: &[&[u8]]) -> Result<(), NetError> {
        self.transport.post_parts(to, parts)?;
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.requests.push(Frame { how: 0, bytes: parts.concat() });
        Ok(())
    }

    fn progress(&self, sink: &mut dyn FnMut(Peer, &[u8])) -> Progress {
        self.transport.progress(&mut |from, frame| {
            let answer = Frame { how: ANSWERS, bytes: frame.to_vec() };
            self.log.lock().unwrap_or_else(PoisonError::into_inner).answers.push(answer);
            sink(from, frame);
        })
    }

    fn ticket(&self) -> Ticket {
        self.transport.ticket()
    }

    fn wait(&self, ticket: Ticket, until: Option<Instant>) {
        self.transport.wait(ticket, until);
    }

    fn wake(&self) {
        self.transport.wake();
    }

    fn lost(&self, peer: Peer) -> Option<Loss> {
        self.transport.lost(peer)
    }

    fn ping(&self, to: Peer) -> Result<(), NetError> {
        self.transport.ping(to)
    }

    fn heard(&self, from: Peer) -> u64 {
        self.transport.heard(from)
    }

    fn heap(&self) -> Option<&SharedHeap> {
        self.transport.heap()
    }

    fn memory(&self, of: Peer) -> Option<SharedMemory> {
        self.transport.memory(of)
    }
}
