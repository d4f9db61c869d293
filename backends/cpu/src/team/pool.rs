//! The threads of the teams: those of one rayon pool, divided among the teams of the devices, and how they
//! are fetched.
//!
//! Each thread of the pool is a *member* of one team, with one slot of its crew, always the same. A team of n
//! threads has n members, though one of its threads is the caller. Slot s belongs to member s - 1. Slot 0
//! belongs to the caller; if the caller is itself one of the members and has taken that member's slot, slot 0
//! belongs to the last member.
//!
//! A member that has been fetched attends to its team's mailbox, and to the work of the host
//! ([`WorkerThreads`](flash_backend::WorkerThreads)), until both have been empty for a while. Then it
//! returns to rayon, for whatever else uses the pool.
//!
//! No long launch and no work of the host misses a member that parks: see the end of `mailbox.rs`.

use super::crew::{Crew, Poll, Spin};
use super::mailbox::Mailbox;
use super::place::Place;
use super::turn::{MyTurn, Turn};
use flash_backend::fork::{self, Section};
use flash_backend::threads::own_stack;
use flash_backend::{HostWork, WorkerThreads};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::cell::Cell;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Polls of a lingering member between looks at the clock.
const POLLS_PER_CLOCK: u32 = 64;
/// In a pool of more threads than these, the first that wakes fetches the others.
const FEW: usize = 4;

/// The threads of a pool. None is started before one is needed.
pub(crate) struct Pool {
    /// The number of threads of each team.
    shares: Box<[usize]>,
    /// The limit of the number of its threads: less than all teams have if there are more devices than
    /// threads. Members beyond it never come, and their teams' callers run everything.
    most: usize,
    linger: Duration,
    /// Bytes of the stack of each thread; 0: as many as threads usually have.
    stack_size: usize,
    /// True for rayon's global pool, which the program may have built already.
    global: bool,
    /// `None` within: there is no pool.
    rayon: OnceLock<Option<Rayon>>,
    shared: OnceLock<Arc<Shared>>,
}

/// A pool of rayon.
enum Rayon {
    Global,
    Own(ThreadPool),
}

/// What the members keep alive while they attend.
pub(super) struct Shared {
    pub(super) teams: Box<[Crewed]>,
    members: Box<[Member]>,
    /// True if there are more threads than cores: spinning then takes the core from a thread with work.
    crowded: bool,
    linger: Duration,
    /// The host, once it has had work.
    host: OnceLock<HostWork>,
    /// The number of members that were sent for because of the host's work, and have not come.
    coming: AtomicUsize,
}

/// A team's crew and its turn.
pub(super) struct Crewed {
    pub(super) turn: Turn,
    pub(super) crew: Crew,
}

struct Member {
    team: usize,
    slot: usize,
    place: Place,
    busy: Busy,
}

/// True while it takes part in a launch, or runs work of the host. On lines of its own, as the member writes
/// it at every launch.
#[repr(align(128))]
struct Busy(AtomicBool);

/// Bytes of the stack by which a job within a job is at least deeper. Between two ways to here there are
/// fewer.
const NESTED: usize = 512;

thread_local! {
    /// The member that this thread is: the address of its pool, and its number.
    static MEMBER: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    /// This thread is there to find out [`DEPTH`].
    static MEASURES: Cell<bool> = const { Cell::new(false) };
    /// The [`depth`] at which the thread attended with only rayon's loop below.
    static LEAST: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Pool {
    /// At most `most` threads of `shares.len()` teams, in rayon's global pool.
    pub(crate) fn global(shares: Vec<usize>, most: usize, linger: Duration, stack_size: usize) -> Arc<Pool> {
        Pool::new(shares, most, linger, stack_size, true)
    }

    /// The threads of one team, in a pool of their own.
    #[cfg(test)]
    pub(crate) fn own(threads: usize, linger: Duration) -> Arc<Pool> {
        Pool::new(vec![threads], threads.max(1), linger, 0, false)
    }

    fn new(shares: Vec<usize>, most: usize, linger: Duration, stack_size: usize, global: bool) -> Arc<Pool> {
        let shares = shares.into_iter().map(|share| share.max(1)).collect();
        let (rayon, shared) = (OnceLock::new(), OnceLock::new());
        Arc::new(Pool { shares, most, linger, stack_size, global, rayon, shared })
    }

    /// The number of teams.
    pub(crate) fn teams(&self) -> usize {
        self.shares.len()
    }

    pub(super) fn threads_of(&self, team: usize) -> usize {
        self.shares[team]
    }

    fn threads(&self) -> usize {
        self.shares.iter().sum::<usize>().min(self.most)
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        match self.shared.get() {
            Some(shared) => shared,
            None => self.new_shared(),
        }
    }

    #[cold]
    fn new_shared(&self) -> &Arc<Shared> {
        // Too short for a fork to come in between.
        let _section = Section::enter();
        self.shared.get_or_init(|| {
            let shared = Arc::new(Shared::new(&self.shares, self.linger));
            let teams = Arc::downgrade(&shared);
            fork::on_fork(move || {
                let shared = teams.upgrade();
                shared.iter().flat_map(|shared| &shared.teams).for_each(|team| team.turn.close());
            });
            fork::watch();
            shared
        })
    }

    /// True if its threads were started.
    #[cfg(test)]
    pub(super) fn is_started(&self) -> bool {
        self.rayon.get().is_some()
    }

    /// True if there was a launch that is not small.
    #[cfg(test)]
    pub(super) fn is_used(&self) -> bool {
        self.shared.get().is_some()
    }

    /// The pool, once it has threads; none in a child of `fork`, where these are not.
    fn rayon(&self) -> Option<&Rayon> {
        if fork::is_child() {
            return None;
        }
        let start = || {
            let named = |index| format!("flash-cpu-{}", index + 1);
            let mut builder = ThreadPoolBuilder::new().num_threads(self.threads()).thread_name(named);
            if self.stack_size > 0 {
                builder = builder.stack_size(self.stack_size);
            }
            let rayon = match self.global {
                false => Rayon::Own(builder.build().ok()?),
                true => {
                    if builder.build_global().is_err() {
                        // The program has built it, and its threads may be inside jobs.
                        catch_unwind(rayon::current_num_threads).ok()?;
                        measure_depth();
                    }
                    Rayon::Global
                }
            };
            // While nothing else runs there, each thread stores where its stack ends.
            let shared = self.shared().clone();
            rayon.broadcast(move |index| shared.attend(index));
            Some(rayon)
        };
        self.rayon.get_or_init(start).as_ref()
    }

    /// Sends for the `count` members of a team whose slots were marked.
    #[cold]
    pub(super) fn fetch(&self, count: usize) {
        let Some(rayon) = self.rayon() else { return };
        let (shared, here) = (self.shared().clone(), Place::here());
        if count <= 2 && self.threads() <= FEW {
            shared.keep_off(here);
            // Sent to every thread, as rayon does not address one. Those that are not marked do nothing.
            rayon.broadcast(move |index| shared.attend(index));
        } else {
            // Each thread costs some system calls: the first that is woken makes them.
            rayon.spawn(move || {
                shared.keep_off(here);
                rayon::spawn_broadcast(move |context| shared.attend(context.index()));
            });
        }
    }

    /// Lets every member look at the host's work, whatever the others do.
    #[cold]
    fn wake_each(&self, shared: &Arc<Shared>) -> bool {
        let marked = shared.members.iter().filter(|member| shared.mailbox(member).wake()).count();
        if marked == 0 {
            return true;
        }
        let Some(rayon) = self.rayon() else { return false };
        let shared = shared.clone();
        rayon.broadcast(move |index| shared.attend(index));
        true
    }

    /// Runs `f` inside the pool; on the caller if that is one of its threads, or if there is no pool.
    pub(super) fn install<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        let inside = self.shared.get().is_some_and(|shared| shared.here().is_some());
        match self.rayon().filter(|_| !inside) {
            None => f(),
            Some(Rayon::Own(pool)) => pool.install(f),
            Some(Rayon::Global) => rayon::scope(|_| f()),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Rayon's threads end once they are back.
        for team in self.shared.get().into_iter().flat_map(|shared| &shared.teams) {
            if let Some(mut turn) = team.turn.try_take() {
                team.dismiss(&mut turn);
            }
        }
    }
}

impl Rayon {
    fn spawn(&self, f: impl FnOnce() + Send + 'static) {
        match self {
            Rayon::Global => rayon::spawn(f),
            Rayon::Own(pool) => pool.spawn(f),
        }
    }

    fn broadcast(&self, f: impl Fn(usize) + Send + Sync + 'static) {
        let f = move |context: rayon::BroadcastContext<'_>| f(context.index());
        match self {
            Rayon::Global => rayon::spawn_broadcast(f),
            Rayon::Own(pool) => pool.spawn_broadcast(f),
        }
    }
}

impl WorkerThreads for Pool {
    fn count(&self) -> usize {
        self.threads()
    }

    fn wake(&self, host: HostWork, count: usize) -> bool {
        let shared = self.shared();
        shared.host.get_or_init(|| host);
        Mailbox::before_look();
        if count > self.threads() {
            return self.wake_each(shared);
        }
        let missing = count.saturating_sub(shared.looking());
        if missing == 0 {
            return true;
        }
        let parked = shared.parked().min(missing);
        if parked == 0 {
            // All of them are busy, and look when they are done.
            return true;
        }
        let Some(rayon) = self.rayon() else { return false };
        let here = Place::here();
        if self.threads() <= FEW {
            shared.keep_off(here);
        }
        shared.coming.fetch_add(parked, Ordering::Relaxed);
        for _ in 0..parked {
            let shared = shared.clone();
            rayon.spawn(move || shared.come());
        }
        true
    }
}

impl Shared {
    fn new(shares: &[usize], linger: Duration) -> Shared {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let crowded = shares.iter().sum::<usize>() > cores;
        let spin = match crowded {
            true => Spin { before_help: 16, before_yield: 32 },
            false => Spin { before_help: 64, before_yield: 1_000 },
        };
        let (mut teams, mut members) = (Vec::new(), Vec::new());
        for (team, &threads) in shares.iter().enumerate() {
            teams.push(Crewed { turn: Turn::new(), crew: Crew::new(threads, spin) });
            members.extend((0..threads).map(|i| Member {
                team,
                slot: (i + 1) % threads,
                place: Place::default(),
                busy: Busy(AtomicBool::new(false)),
            }));
        }
        let (host, coming) = (OnceLock::new(), AtomicUsize::new(0));
        Shared { teams: teams.into(), members: members.into(), crowded, linger, host, coming }
    }

    /// The member that the calling thread is.
    #[inline]
    fn here(&self) -> Option<usize> {
        let (pool, index) = MEMBER.get();
        (pool == std::ptr::from_ref(self).addr()).then_some(index)
    }

    /// The slot of a team that a launch of this thread is led from.
    #[inline]
    pub(super) fn slot_of_caller(&self, team: usize) -> usize {
        match self.here() {
            Some(index) if self.members[index].team == team => self.members[index].slot,
            _ => 0,
        }
    }

    /// The number of members that look at the host's news now, or will when they come.
    fn looking(&self) -> usize {
        let idle =
            |member: &&Member| self.mailbox(member).is_awake() && !member.busy.0.load(Ordering::Relaxed);
        self.members.iter().filter(idle).count() + self.coming.load(Ordering::Relaxed)
    }

    fn parked(&self) -> usize {
        self.members.iter().filter(|member| self.mailbox(member).is_parked()).count()
    }

    fn mailbox(&self, member: &Member) -> &Mailbox {
        self.teams[member.team].crew.mailbox(member.slot)
    }

    /// Keeps the members that are not awake off a core until they are. One that may be on that core itself
    /// leaves it at once.
    #[cold]
    fn keep_off(&self, core: i32) {
        let away = self.members.iter().filter(|member| !self.mailbox(member).is_awake());
        away.for_each(|member| member.place.keep_off(core));
    }

    /// Run by a thread that was sent for because of the host's work, whichever of the members it is.
    fn come(&self) {
        let index = rayon::current_thread_index().filter(|index| *index < self.members.len());
        if let Some(index) = index {
            self.mailbox(&self.members[index]).wake();
        }
        self.coming.fetch_sub(1, Ordering::Relaxed);
        if let Some(index) = index {
            self.attend(index);
        }
    }

    /// Lets a thread of the pool, if it was marked, attend to its team and to the host's work, until both
    /// have been empty for a while.
    #[inline(never)] // always as deep in the stack
    fn attend(&self, index: usize) {
        let Some(member) = self.members.get(index) else { return };
        MEMBER.set((std::ptr::from_ref(self).addr(), index));
        member.place.arrived();
        if is_nested() {
            return self.decline(member);
        }
        let (mailbox, crew) = (self.mailbox(member), &self.teams[member.team].crew);
        loop {
            let seen = Cell::new(None);
            let Some(letter) = crew.attend(member.slot, self.linger(member, &seen)) else { return };
            if !mailbox.goes_on(letter, || self.host.get().map(HostWork::news) != seen.get()) {
                return;
            }
        }
    }

    /// Ends the job of a thread that waits within rayon, inside another job: nothing that may last is begun
    /// there.
    #[cold]
    fn decline(&self, member: &Member) {
        let mailbox = self.mailbox(member);
        if mailbox.arrive() {
            mailbox.park();
            if let Some(host) = self.host.get() {
                host.pass_on();
            }
        }
    }

    /// The way in which a member waits for the next launch, and for the host's work: it spins, then yields
    /// between polls, then gives up. While a launch without it goes on, it yields at once.
    fn linger<'a>(
        &'a self,
        member: &'a Member,
        seen: &'a Cell<Option<u32>>,
    ) -> impl FnMut(Poll) -> bool + 'a {
        let spin = if self.crowded { Duration::ZERO } else { self.linger / 2 };
        let mut polls = 0_u32;
        let mut since = None;
        let mut yielding = false;
        move |poll| {
            match poll {
                Poll::Begins => {
                    member.busy.0.store(true, Ordering::Relaxed);
                    return true;
                }
                Poll::Ended => {
                    member.busy.0.store(false, Ordering::Relaxed);
                    (polls, since, yielding) = (0, None, false);
                    return true;
                }
                Poll::Nothing => {}
            }
            if let Some(host) = self.host.get() {
                let news = Some(host.news());
                if news != seen.get() {
                    seen.set(news);
                    member.busy.0.store(true, Ordering::Relaxed);
                    let any = host.serve();
                    member.busy.0.store(false, Ordering::Relaxed);
                    if any {
                        (polls, since, yielding) = (0, None, false);
                    }
                    return true;
                }
            }
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(POLLS_PER_CLOCK) {
                let waited = since.get_or_insert_with(Instant::now).elapsed();
                if waited >= self.linger {
                    return false;
                }
                // A launch that has gone on for a microsecond without this member needs the cores.
                yielding = waited >= spin || self.teams[member.team].turn.is_taken();
            }
            if yielding {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
            true
        }
    }
}

/// Where the stack is in a job that rayon's own loop runs, in bytes from its end. 0: as in a thread's first
/// job.
static DEPTH: AtomicUsize = AtomicUsize::new(0);

/// Finds out [`DEPTH`], on a thread of rayon that runs nothing else, by attending on the way that all take.
#[cold]
fn measure_depth() {
    let Ok(pool) = ThreadPoolBuilder::new().num_threads(1).build() else { return };
    let pool = Rayon::Own(pool);
    let shared = Shared::new(&[1], Duration::ZERO);
    let (send, receive) = std::sync::mpsc::channel();
    pool.broadcast(move |index| {
        MEASURES.set(true);
        shared.attend(index);
        let _ = send.send(());
    });
    let _ = receive.recv();
}

/// Where the calling thread's stack is, in bytes from its end. `None`: this is another stack.
#[inline(never)]
fn depth() -> Option<usize> {
    let (here, stack) = (0_u8, own_stack());
    let here = std::ptr::from_ref(std::hint::black_box(&here)).addr();
    stack.contains(&here).then(|| stack.end - here)
}

/// True if the calling thread of rayon runs this inside another job, which waits: its stack is deeper then
/// than in a job that rayon's own loop runs, as the first one was. Or it is not the thread's own stack, but
/// that of a coroutine.
#[inline(never)]
fn is_nested() -> bool {
    let Some(depth) = depth() else { return true };
    if MEASURES.get() {
        DEPTH.store(depth, Ordering::Relaxed);
        return true;
    }
    let expected = match DEPTH.load(Ordering::Relaxed) {
        0 => {
            let least = LEAST.get().min(depth);
            LEAST.set(least);
            least
        }
        expected => expected,
    };
    depth > expected + NESTED
}

impl Crewed {
    /// The slots of a launch, except the caller's, that no member polls for, and their number.
    #[inline]
    pub(super) fn absent(&self, me: usize, width: u32) -> (u64, u32) {
        let mut mask = 0;
        let mut away = 0;
        for slot in 0..width as usize {
            if slot != me && !self.crew.mailbox(slot).is_awake() {
                away += 1;
                if slot < 64 {
                    mask |= 1 << slot;
                }
            }
        }
        (mask, away)
    }

    /// Marks the parked slots of a launch, except the caller's. Returns how many there were.
    #[cold]
    pub(super) fn mark_for_waking(&self, me: usize, width: u32) -> usize {
        (0..width as usize).filter(|&slot| slot != me && self.crew.mailbox(slot).wake()).count()
    }

    /// Sends lingering members back to rayon.
    pub(super) fn dismiss(&self, turn: &mut MyTurn<'_>) {
        let letter = turn.ledger(|ledger| {
            ledger.letter += 2;
            ledger.letter
        });
        self.crew.dismiss(letter);
    }
}
