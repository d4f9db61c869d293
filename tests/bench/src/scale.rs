//! What agents cost their controller when there are many: up to a thousand, in this process, behind a
//! transport that joins each of them with the controller and with each other, as one over a network would.
//!
//! A thread of the controller that waits polls the agents that have frames. The time of that does not count.

use crate::kernels::{Grind, Saxpy};
use crate::stats::Row;
use anyhow::{Context, Result, ensure};
use flash::kernels::diffusion::heat;
use flash::{Devices, FlashMemory, Timeout, get_runtime, part_by, weights};
use flash_backend::abi::Implementation;
use flash_backend::{
    Backend, Class, Device, DeviceInfo, Event, Failure, HostSettings, Launch, Unavailable, register_backend,
};
use flash_backend_ranks::in_process::{Agent, control};
use flash_net::{Loss, NetError, Peer, PeerInfo, Progress, SharedHeap, SharedMemory, Ticket, Transport};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The measurement of a process of its own is this and the number of agents.
const CHILD: &str = "scale=";
const AGENTS: [usize; 4] = [1, 10, 100, 1000];
/// Elements of each agent.
const ELEMENTS: usize = 64;
/// Rows of them.
const ROWS: usize = 4;
const TURNS: usize = 10;

/// The rows of each number of agents.
pub fn rows() -> Result<Vec<Row>> {
    let of = |agents: usize| crate::child::list(&format!("{CHILD}{agents}"), &[("FLASH_CPU_THREADS", "1")]);
    Ok(AGENTS.map(of).into_iter().collect::<Result<Vec<_>>>()?.concat())
}

/// Measures what a child is asked for. False: it is asked for something else.
pub fn measure(what: &str) -> Result<bool> {
    let Some(agents) = what.strip_prefix(CHILD) else { return Ok(false) };
    println!("{}", serde_json::to_string(&of(agents.parse().context("a number of agents")?)?)?);
    Ok(true)
}

fn of(agents: usize) -> Result<Vec<Row>> {
    let net = Net::new(agents + 1);
    let end = |peer: usize| Box::new(End { net: net.clone(), me: Peer(peer as u32) });
    IS_WANTED.store(true, Relaxed);
    control(end(0));
    let all = (1..=agents).map(|peer| Agent::new(end(peer), Null::KEY)).collect::<Result<Vec<_>, _>>()?;
    *lock(&net.agents) = all;
    controlled(&net, agents)
}

fn controlled(net: &Net, agents: usize) -> Result<Vec<Row>> {
    let rt = get_runtime("RANK")?;
    ensure!(rt.devices().len() == agents, "{agents} agents and {} devices", rt.devices().len());
    let equal = || (part_by("i"), weights(vec![1; agents]));
    let len = agents * ELEMENTS;
    // One launch, of which each agent gets a part.
    let (x, y) = (FlashMemory::from(vec![1.0f32; len]), FlashMemory::from(vec![2.0f32; len]));
    let cut = rt.submit(Saxpy::of(1.0, &x, &y)).options(equal()).defer([len]);
    // The same, planned anew each time: one with a limit of time is.
    let limit = Timeout(Duration::from_secs(3600));
    let planned = rt.submit(Saxpy::of(1.0, &x, &y)).options((equal().0, equal().1, limit)).defer([len]);
    // A launch for each agent, on arrays of its own.
    let pair = |_| [1.0f32, 2.0].map(|x| FlashMemory::from(vec![x; ELEMENTS]));
    let own: Vec<_> = (0..agents).map(pair).collect();
    let mut each = rt.pipeline();
    for (device, [x, y]) in rt.devices().iter().zip(&own) {
        each = each.submit(Saxpy::of(1.0, x, y)).options(Devices::key(device.id())).defer([ELEMENTS]);
    }
    let mut rows = vec![
        steps(net, agents, &format!("a launch cut over {agents} agents, kept"), || cut.exec())?,
        steps(net, agents, &format!("a launch cut over {agents} agents, kept, and planned anew"), || {
            planned.exec()
        })?,
        steps(net, agents, &format!("a pipeline of a launch for each of {agents} agents, kept"), || {
            each.exec()
        })?,
    ];

    // Steps of a stencil, between which agents copy rows from each other.
    let field = || FlashMemory::<f32>::zeroed(len).with_shape([ELEMENTS / ROWS, agents * ROWS]);
    let fields = [field()?, field()?];
    let mut stencil = rt.pipeline();
    for (from, to) in [(0, 1), (1, 0)] {
        let step = heat(0.2, &fields[from], &fields[to])?;
        stencil = stencil.submit(step).options(equal().1).defer([ELEMENTS / ROWS, agents * ROWS]);
    }
    rows.push(steps(
        net,
        agents,
        &format!("two steps of a stencil over {agents} agents, with copies of rows"),
        || stencil.exec(),
    )?);

    // What all of them read: a tree of copies, of which the controller makes some.
    let (from, to) = (FlashMemory::from(vec![1.0f64; 1 << 10]), FlashMemory::<f64>::zeroed(len));
    rt.submit(Grind::of(0, &from, &to)).options(equal()).exec([len])?;
    from.write()?[0] = 2.0;
    let sent = net.sent_by_controller.load(Relaxed);
    rt.submit(Grind::of(0, &from, &to)).options(equal()).exec([len])?;
    let sent = (net.sent_by_controller.load(Relaxed) - sent) as f64;
    let name = format!("8 KiB that {agents} agents read, bytes that the controller sends for each");
    rows.push(row(name, "B", &[sent / agents as f64]));
    Ok(rows)
}

/// Processor time of the controller for an agent's share of a step.
fn steps(net: &Net, agents: usize, what: &str, step: impl Fn() -> Result<(), flash::Error>) -> Result<Row> {
    let count = (30_000 / agents).max(2);
    let turn = || -> Result<f64> {
        loop {
            // To read the times of all threads takes some, too.
            let times = [net.controllers_time()?, net.controllers_time()?];
            (0..count).try_for_each(|_| step())?;
            let time = (net.controllers_time()? + times[0]).checked_sub(2 * times[1]);
            // A thread that has ended meanwhile took its time along.
            if let Some(time) = time {
                return Ok(time.as_secs_f64() * 1e6 / (count * agents) as f64);
            }
        }
    };
    turn()?;
    let figures = (0..TURNS).map(|_| turn()).collect::<Result<Vec<_>>>()?;
    Ok(row(format!("{what}, processor time of the controller for each"), "us", &figures))
}

fn row(name: String, unit: &str, figures: &[f64]) -> Row {
    let turns: Vec<_> = figures.iter().map(|figure| (*figure, None)).collect();
    Row::from_turns(name, unit, &turns)
}

/// A backend whose device does nothing with a launch.
struct Null;

/// Set where there shall be its device.
static IS_WANTED: AtomicBool = AtomicBool::new(false);

// SAFETY: no row of a launch is run, and no result is looked at.
unsafe impl Backend for Null {
    const KEY: &'static str = "NULL";
    const DESCRIPTION: &'static str = "does nothing, for `bench scale`";
    const TARGET: &'static str = "cpu";
    type Device = NullDevice;

    fn probe(_: &HostSettings<'_>) -> Result<Vec<NullDevice>, Unavailable> {
        match IS_WANTED.load(Relaxed) {
            true => Ok(vec![NullDevice]),
            false => Err(Unavailable("only for `bench scale`".to_owned())),
        }
    }
}

register_backend!(Null);

struct NullDevice;

impl Device for NullDevice {
    type Kernel = ();

    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            class: Class::Cpu,
            host_memory: true,
            synchronous: true,
            runs_functions: true,
            name: "null".to_owned(),
            ..DeviceInfo::default()
        }
    }

    fn prepare(&self, _: &'static Implementation) -> Result<(), Failure> {
        Ok(())
    }

    fn submit(&self, launch: &Launch<'_, ()>) -> Result<Option<Event>, Failure> {
        // All are equally fast, and get equal shares.
        launch.report(100 * launch.space().items());
        Ok(None)
    }
}

/// Frames for one peer: sender, length, bytes.
#[derive(Default)]
struct Mailbox {
    frames: Mutex<Frames>,
    bell: Condvar,
}

#[derive(Default)]
struct Frames {
    bytes: Vec<u8>,
    /// Calls of `wake`.
    wakes: u64,
    is_busy: bool,
}

struct Net {
    boxes: Vec<Mailbox>,
    /// Agents that have frames.
    due: Mutex<Vec<usize>>,
    /// Polled by threads of the controller that wait.
    agents: Mutex<Vec<Agent>>,
    heard: AtomicU64,
    /// Processor time of polls, in nanoseconds.
    polls: AtomicU64,
    sent_by_controller: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Processor time of this thread.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: our own variable.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Net {
    fn new(peers: usize) -> Arc<Net> {
        Arc::new(Net {
            boxes: (0..peers).map(|_| Mailbox::default()).collect(),
            due: Mutex::default(),
            agents: Mutex::default(),
            heard: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            sent_by_controller: AtomicU64::new(0),
        })
    }

    /// Processor time of the controller's threads so far.
    fn controllers_time(&self) -> Result<Duration> {
        let mut all = Duration::ZERO;
        for thread in std::fs::read_dir("/proc/self/task")? {
            let thread = thread?.path();
            let (name, times) = (
                std::fs::read_to_string(thread.join("comm")),
                std::fs::read_to_string(thread.join("schedstat")),
            );
            // A thread may have ended meanwhile.
            let (Ok(name), Ok(times)) = (name, times) else { continue };
            if ["flash-agent", "flash-cpu"].iter().any(|agents| name.starts_with(agents)) {
                continue;
            }
            let ran = times.split_ascii_whitespace().next().context("the time of a thread")?;
            all += Duration::from_nanos(ran.parse()?);
        }
        Ok(all.saturating_sub(Duration::from_nanos(self.polls.load(Relaxed))))
    }

    /// Lets agents do what they are asked for. False: no agent is, or another thread does so.
    fn poll(&self) -> bool {
        let Ok(mut agents) = self.agents.try_lock() else { return false };
        let due = std::mem::take(&mut *lock(&self.due));
        if due.is_empty() {
            return false;
        }
        let before = thread_time();
        for agent in due {
            agents[agent].poll();
        }
        self.polls.fetch_add((thread_time() - before).as_nanos() as u64, Relaxed);
        true
    }
}

/// What one peer has of the net.
struct End {
    net: Arc<Net>,
    me: Peer,
}

impl End {
    fn mailbox(&self) -> &Mailbox {
        &self.net.boxes[self.me.0 as usize]
    }
}

impl Transport for End {
    fn me(&self) -> Peer {
        self.me
    }

    fn peers(&self) -> usize {
        self.net.boxes.len()
    }

    fn info(&self, peer: Peer) -> Option<PeerInfo> {
        let name = format!("rank {}", peer.0);
        Some(PeerInfo { host: String::new(), pid: std::process::id(), cpus: vec![0], name })
    }

    fn longest(&self, _: Peer) -> usize {
        (1 << 20) + flash_net::MAX_FRAME
    }

    fn post_parts(&self, to: Peer, parts: &[&[u8]]) -> Result<(), NetError> {
        let mailbox = &self.net.boxes[to.0 as usize];
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let was_empty = {
            let mut frames = lock(&mailbox.frames);
            let was_empty = frames.bytes.is_empty();
            frames.bytes.extend_from_slice(&self.me.0.to_le_bytes());
            frames.bytes.extend_from_slice(&(len as u32).to_le_bytes());
            parts.iter().for_each(|part| frames.bytes.extend_from_slice(part));
            was_empty
        };
        if self.me == Peer(0) {
            self.net.sent_by_controller.fetch_add(len as u64, Relaxed);
        }
        if was_empty && to == Peer(0) {
            mailbox.bell.notify_all();
        } else if was_empty {
            lock(&self.net.due).push(to.0 as usize - 1);
        }
        Ok(())
    }

    fn progress(&self, sink: &mut dyn FnMut(Peer, &[u8])) -> Progress {
        let mailbox = self.mailbox();
        let mut frames = lock(&mailbox.frames);
        if frames.is_busy {
            return Progress::Busy;
        }
        if frames.bytes.is_empty() {
            return Progress::Nothing;
        }
        frames.is_busy = true;
        let taken = std::mem::take(&mut frames.bytes);
        drop(frames);
        self.net.heard.fetch_add(1, Relaxed);
        let mut rest = &taken[..];
        while let Some((head, behind)) = rest.split_first_chunk::<8>() {
            let [from, len] = [0, 1].map(|i| u32::from_le_bytes(head.as_chunks().0[i]));
            let (frame, behind) = behind.split_at(len as usize);
            sink(Peer(from), frame);
            rest = behind;
        }
        lock(&mailbox.frames).is_busy = false;
        Progress::Some
    }

    fn ticket(&self) -> Ticket {
        Ticket::of(lock(&self.mailbox().frames).wakes)
    }

    fn wait(&self, ticket: Ticket, until: Option<Instant>) {
        if self.net.poll() {
            return;
        }
        let mailbox = self.mailbox();
        let frames = lock(&mailbox.frames);
        let is_due = |frames: &Frames| {
            Ticket::of(frames.wakes) != ticket || !(frames.is_busy || frames.bytes.is_empty())
        };
        if !is_due(&frames) {
            // Agents that are polled by another thread, or that work in threads of their own, ring no bell of
            // this thread when they are due.
            let most = Duration::from_micros(200);
            let most = until.map_or(most, |until| until.saturating_duration_since(Instant::now()).min(most));
            drop(mailbox.bell.wait_timeout(frames, most));
        }
    }

    fn wake(&self) {
        lock(&self.mailbox().frames).wakes += 1;
        self.mailbox().bell.notify_all();
    }

    fn lost(&self, _: Peer) -> Option<Loss> {
        None
    }

    fn ping(&self, _: Peer) -> Result<(), NetError> {
        Ok(())
    }

    fn heard(&self, _: Peer) -> u64 {
        self.net.heard.fetch_add(1, Relaxed)
    }

    fn heap(&self) -> Option<&SharedHeap> {
        None
    }

    fn memory(&self, _: Peer) -> Option<SharedMemory> {
        None
    }
}
