//! The thread team of the CPU backend. The files under test are included in place, beside a `sync` that takes
//! its names from loom.

#[path = "../../../../backends/cpu/src/team/crew.rs"]
mod crew;
#[path = "../../../../backends/cpu/src/team/mailbox.rs"]
mod mailbox;
#[path = "../../../../backends/cpu/src/team/shares.rs"]
mod shares;
mod sync;
#[path = "../../../../backends/cpu/src/team/turn.rs"]
#[expect(dead_code, reason = "the models need less of the ledger")]
mod turn;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread::{self, JoinHandle};

use crate::check;
use crew::{Crew, Poll, Spin};
use mailbox::{Calls, Job, Letter, Mailbox, Rows};
use shares::Shape;
use turn::Turn;

/// One row per cell; phase k's row i is cell i + k, so that a share's cells
/// were another's in the phase before. A cell counts the phases it has been
/// through: loom fails if two accesses are not ordered, the count if a row ran
/// twice or too early.
struct Work {
    cells: Vec<UnsafeCell<u64>>,
    stop_in: Option<u64>,
}

static CALLS: Calls = Calls { phase, run };

unsafe extern "C" fn phase(data: *const (), _: u64) -> Rows {
    // SAFETY: every model passes a `Work` that lives to the end of the model.
    let work = unsafe { &*data.cast::<Work>() };
    Rows { start: 0, end: work.cells.len() as u64 }
}

unsafe extern "C" fn run(data: *const (), phase: u64, rows: Rows) -> bool {
    // SAFETY: as in `phase`.
    let work = unsafe { &*data.cast::<Work>() };
    for row in rows.start..rows.end {
        let cell = &work.cells[((row + phase) % work.cells.len() as u64) as usize];
        cell.with_mut(|count| {
            // SAFETY: loom checks this access.
            let count = unsafe { &mut *count };
            assert_eq!(*count, phase, "row {row}");
            *count += 1;
        });
    }
    work.stop_in != Some(phase)
}

impl Work {
    fn new(cells: usize) -> Self {
        Self { cells: (0..cells).map(|_| UnsafeCell::new(0)).collect(), stop_in: None }
    }

    /// Also claims all cells for the caller, as if it freed them: this fails if a thread is still in the
    /// launch, or gets in.
    fn assert_phases(&self, phases: u64) {
        for cell in &self.cells {
            // SAFETY: loom checks this access.
            cell.with_mut(|count| assert_eq!(unsafe { *count }, phases));
        }
    }
}

/// The state of a team's host thread.
struct Host {
    crew: Arc<Crew>,
    base: u64,
    letter: u64,
}

impl Host {
    fn new(threads: usize) -> Self {
        let spin = Spin { before_help: 1, before_yield: 0 };
        Self { crew: Arc::new(Crew::new(threads, spin)), base: 0, letter: 0 }
    }

    /// The next launch.
    fn job(&mut self, work: &Work, width: u32, phases: u64, log_chunks: u8, absent: u64) -> Job {
        let data: *const Work = work;
        let shape = Shape { width, log_chunks, log_align: 0 };
        let job = Job { base: self.base, phases, shape, absent, data: data.cast(), calls: &CALLS };
        self.base += job.tickets();
        self.letter += 2;
        job
    }

    fn lead(&self, job: &Job) -> bool {
        self.lead_from(0, job)
    }

    /// As a member of the pool whose slot this is.
    fn lead_from(&self, slot: usize, job: &Job) -> bool {
        // SAFETY: this is the only launching thread; the numbers go on; `Work`
        // is made for `CALLS` and outlives the model; the models have no other
        // thread for this slot.
        unsafe { self.crew.lead(slot, self.letter, job, || ()) }
    }

    fn launch(&mut self, work: &Work, phases: u64) -> bool {
        let job = self.job(work, 2, phases, 0, 0);
        self.lead(&job)
    }

    /// A worker that has read the letter of `job`. Its further steps are a model of their own, since the
    /// letter alone has thousands of ways to be read.
    fn join_in(&self, slot: usize, job: Job) -> JoinHandle<()> {
        struct Sent(Job);
        // SAFETY: `Work` may be used by several threads: loom checks how.
        unsafe impl Send for Sent {}
        let (crew, sent) = (Arc::clone(&self.crew), Sent(job));
        thread::spawn(move || {
            let sent = sent;
            crew.take_part(slot, false, &sent.0, || ());
        })
    }

    /// Sends for slot `slot`, as the pool would; the worker polls `polls` times
    /// without finding anything before it leaves.
    fn wake(&self, slot: usize, polls: usize) -> Option<JoinHandle<()>> {
        self.crew.mailbox(slot).wake().then(|| spawn_loop(&self.crew, slot, polls))
    }
}

fn spawn_loop(crew: &Arc<Crew>, slot: usize, polls: usize) -> JoinHandle<()> {
    let crew = Arc::clone(crew);
    thread::spawn(move || {
        let mut left = polls;
        crew.attend(slot, |poll| {
            thread::yield_now();
            left = if poll == Poll::Nothing { left.saturating_sub(1) } else { polls };
            left > 0
        });
    })
}

#[test]
fn a_launch_is_whole_whenever_the_worker_comes_or_leaves() {
    check(3, || {
        let mut host = Host::new(2);
        let worker = host.wake(1, 2).unwrap();
        let work = Work::new(2);
        assert!(host.launch(&work, 1));
        work.assert_phases(1);
        worker.join().unwrap();
    });
}

#[test]
fn a_letter_of_a_finished_launch_opens_nothing() {
    check(2, || {
        let mut host = Host::new(2);
        let worker = host.wake(1, 1).unwrap();
        let [first, second] = [Work::new(2), Work::new(4)];
        assert!(host.launch(&first, 1));
        first.assert_phases(1);
        // Another base and shape: a mixture of the two would claim wrongly.
        let job = host.job(&second, 2, 1, 1, 0);
        assert!(host.lead(&job));
        second.assert_phases(1);
        worker.join().unwrap();
    });
}

#[test]
fn a_phase_begins_when_the_one_before_has_drained() {
    check(3, || {
        let mut host = Host::new(2);
        let work = Work::new(2);
        let job = host.job(&work, 2, 3, 0, 0);
        let worker = host.join_in(1, job);
        assert!(host.lead(&job));
        work.assert_phases(3);
        worker.join().unwrap();
    });
}

#[test]
fn three_threads_agree_on_the_phases() {
    check(1, || {
        let mut host = Host::new(3);
        let work = Work::new(3);
        let job = host.job(&work, 3, 2, 0, 0);
        let workers = [1, 2].map(|slot| host.join_in(slot, job));
        assert!(host.lead(&job));
        work.assert_phases(2);
        workers.into_iter().for_each(|w| w.join().unwrap());
    });
}

#[test]
fn a_member_leads_from_its_own_slot_and_the_last_member_has_the_callers() {
    check(3, || {
        let mut host = Host::new(2);
        let worker = host.wake(0, 2).unwrap();
        let work = Work::new(2);
        let job = host.job(&work, 2, 2, 0, 0);
        assert!(host.lead_from(1, &job));
        work.assert_phases(2);
        worker.join().unwrap();
    });
}

#[test]
fn a_member_that_leads_stops_and_goes_on_as_any_caller() {
    check(2, || {
        let mut host = Host::new(2);
        let mut stopped = Work::new(2);
        stopped.stop_in = Some(0);
        let job = host.job(&stopped, 2, 2, 0, 0);
        let worker = host.join_in(0, job);
        assert!(!host.lead_from(1, &job));
        let next = Work::new(2);
        let job = host.job(&next, 2, 1, 0, 0);
        assert!(host.lead(&job));
        next.assert_phases(1);
        worker.join().unwrap();
    });
}

#[test]
fn work_of_the_host_finds_a_worker_that_parks_or_has_one_fetched() {
    check(3, || {
        let crew = Arc::new(Crew::new(1, Spin { before_help: 1, before_yield: 0 }));
        let (news, served) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        // What `pool.rs` does on a member.
        let attend = {
            let (crew, news, served) = (Arc::clone(&crew), Arc::clone(&news), Arc::clone(&served));
            move || {
                loop {
                    let mut seen = 0;
                    let attended = crew.attend(0, |_| {
                        let now = news.load(Ordering::Acquire);
                        let any = now != seen;
                        if any {
                            seen = now;
                            served.store(now, Ordering::Relaxed);
                        }
                        any
                    });
                    let Some(letter) = attended else { return };
                    if !crew.mailbox(0).goes_on(letter, || news.load(Ordering::Acquire) != seen) {
                        return;
                    }
                }
            }
        };
        assert!(crew.mailbox(0).wake());
        let first = thread::spawn(attend.clone());
        news.fetch_add(1, Ordering::SeqCst);
        Mailbox::before_look();
        let second = crew.mailbox(0).wake().then(|| thread::spawn(attend));
        first.join().unwrap();
        second.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(served.load(Ordering::Relaxed), 1, "the work was seen");
    });
}

#[test]
fn a_letter_finds_a_worker_that_parks_or_has_one_fetched() {
    check(3, || {
        let mut host = Host::new(2);
        let work = Work::new(2);
        let job = host.job(&work, 2, 1, 0, 0);
        let crew = Arc::clone(&host.crew);
        assert!(crew.mailbox(1).wake());
        let worker = thread::spawn(move || {
            let mut read = 0;
            // What `pool.rs` does on a member.
            while let Some(letter) = crew.attend(1, |poll| poll != Poll::Nothing) {
                read = letter;
                if !crew.mailbox(1).goes_on(letter, || false) {
                    break;
                }
            }
            read
        });
        host.crew.mailbox(1).post(host.letter, &job);
        Mailbox::before_look();
        let fetched = host.crew.mailbox(1).wake();
        let read = worker.join().unwrap();
        assert!(fetched || read == host.letter, "the launch goes on without its worker");
    });
}

#[test]
fn two_that_send_for_a_worker_have_one_of_them_fetch_it() {
    check(3, || {
        let host = Host::new(2);
        let crew = Arc::clone(&host.crew);
        let other = thread::spawn(move || crew.mailbox(1).wake());
        let mine = host.crew.mailbox(1).wake();
        assert!(mine != other.join().unwrap());
        assert!(host.crew.mailbox(1).arrive());
    });
}

fn chunks(phases: u64) {
    let mut host = Host::new(2);
    let work = Work::new(4);
    let job = host.job(&work, 2, phases, 1, 0);
    let worker = host.join_in(1, job);
    assert!(host.lead(&job));
    work.assert_phases(phases);
    worker.join().unwrap();
}

#[test]
fn chunks_are_claimed_once_by_whoever_has_time() {
    check(3, || chunks(1));
}

#[test]
fn chunks_that_another_ran_have_drained_when_the_phase_has() {
    check(1, || chunks(2));
}

#[test]
fn an_absent_workers_share_is_anyones_even_as_it_arrives() {
    check(3, || {
        let mut host = Host::new(2);
        let work = Work::new(2);
        let job = host.job(&work, 2, 2, 0, 0b10);
        let worker = host.join_in(1, job);
        assert!(host.lead(&job));
        work.assert_phases(2);
        worker.join().unwrap();
    });
}

/// A launch that is stopped in phase `at`, and one after it. In the phase after the stop nothing may run,
/// though its tickets still exist when the stop is seen, and the stop is gone when they are.
fn stop_and_go_on(at: u64, threads: usize, workers: usize, log_chunks: u8, absent: u64) {
    let mut host = Host::new(threads);
    let mut stopped = Work::new(threads << log_chunks);
    stopped.stop_in = Some(at);
    let job = host.job(&stopped, threads as u32, at + 2, log_chunks, absent);
    let workers: Vec<_> = (1..=workers).map(|slot| host.join_in(slot, job)).collect();
    assert!(!host.lead(&job));
    for cell in &stopped.cells {
        // SAFETY: loom checks this access.
        let ran = cell.with_mut(|count| unsafe { *count });
        assert!(at <= ran && ran <= at + 1, "{ran} phases of a launch that was stopped in phase {at}");
    }
    let next = Work::new(threads);
    let job = host.job(&next, threads as u32, 1, 0, 0);
    assert!(host.lead(&job));
    next.assert_phases(1);
    workers.into_iter().for_each(|w| w.join().unwrap());
}

#[test]
fn a_stopped_launch_leaves_no_ticket_behind() {
    check(3, || stop_and_go_on(0, 2, 1, 0, 0));
}

#[test]
fn a_stopped_launch_of_chunks_leaves_no_ticket_behind() {
    check(1, || stop_and_go_on(0, 2, 1, 1, 0));
}

#[test]
fn a_stopped_launch_of_three_leaves_no_ticket_behind() {
    check(0, || stop_and_go_on(0, 3, 2, 0, 0));
}

#[test]
fn half_moved_tickets_of_a_stopped_launch_are_not_claimed() {
    // Slot 1 arrives when its own tickets have been moved and those of slot 2, which is absent and so open to
    // any thread, have not. (Both absent: then the caller gets there without waiting, which saves a
    // preemption.)
    check(2, || stop_and_go_on(0, 3, 1, 0, 0b110));
}

#[test]
fn a_caller_that_sees_the_stop_of_the_next_phase_waits_for_who_runs_in_it() {
    check(2, || stop_and_go_on(1, 2, 1, 0, 0));
}

#[test]
fn a_letter_is_read_whole_or_not_at_all() {
    check(3, || {
        let mut host = Host::new(2);
        let works = [Work::new(2), Work::new(2)];
        let jobs = [host.job(&works[0], 2, 1, 0, 0), host.job(&works[1], 2, 3, 1, 2)];
        let expected = jobs.map(|job| (job.base, job.phases, job.shape, job.absent, job.data as usize));
        let crew = Arc::clone(&host.crew);
        let reader = thread::spawn(move || {
            let mut seen = 0;
            for _ in 0..2 {
                if let Letter::Join(number, job) = crew.mailbox(1).read(seen) {
                    seen = number;
                    let found = (job.base, job.phases, job.shape, job.absent, job.data as usize);
                    assert_eq!(found, expected[number as usize / 2 - 1]);
                }
            }
        });
        host.crew.mailbox(1).post(2, &jobs[0]);
        host.crew.mailbox(1).post(4, &jobs[1]);
        reader.join().unwrap();
    });
}

#[test]
fn a_narrow_launch_moves_everyones_tickets() {
    check(2, || {
        let mut host = Host::new(3);
        let worker = host.wake(2, 2).unwrap();
        let [narrow, wide] = [Work::new(2), Work::new(3)];
        let job = host.job(&narrow, 2, 1, 0, 0b10);
        assert!(host.lead(&job));
        narrow.assert_phases(1);
        let job = host.job(&wide, 3, 1, 0, 0b10);
        assert!(host.lead(&job));
        wide.assert_phases(1);
        worker.join().unwrap();
    });
}

#[test]
fn a_worker_parks_and_is_fetched_again_but_never_twice_at_once() {
    check(3, || {
        let mut host = Host::new(2);
        let mut workers = vec![];
        for _ in 0..2 {
            workers.extend(host.wake(1, 1));
            let work = Work::new(2);
            let absent = u64::from(!host.crew.mailbox(1).is_awake()) << 1;
            let job = host.job(&work, 2, 1, 0, absent);
            assert!(host.lead(&job));
            work.assert_phases(1);
        }
        for worker in workers {
            worker.join().unwrap();
        }
        assert!(host.crew.mailbox(1).is_parked());
        assert!(host.crew.mailbox(1).wake(), "parked again, so it can be woken");
    });
}

#[test]
fn a_slot_has_one_loop_though_its_thread_is_asked_twice() {
    check(3, || {
        let host = Host::new(2);
        assert!(host.crew.mailbox(1).wake());
        assert!(!host.crew.mailbox(1).wake(), "one wake at a time");
        // As rayon does when the kernel waits inside it.
        assert!(host.crew.mailbox(1).arrive());
        assert!(!host.crew.mailbox(1).arrive(), "a loop within a loop");
        host.crew.mailbox(1).park();
        assert!(!host.crew.mailbox(1).arrive(), "a job left from before");
    });
}

#[test]
fn a_lingering_worker_leaves_when_it_is_sent() {
    check(3, || {
        let mut host = Host::new(2);
        let worker = host.wake(1, usize::MAX).unwrap();
        let work = Work::new(2);
        assert!(host.launch(&work, 1));
        work.assert_phases(1);
        host.crew.dismiss(host.letter + 2);
        worker.join().unwrap();
        assert!(!host.crew.mailbox(1).is_awake());
    });
}

#[test]
fn one_thread_at_a_time_has_the_turn_and_it_is_passed_on() {
    check(3, || {
        let turn = Arc::new(Turn::new());
        let taken = Arc::new(AtomicUsize::new(0));
        let take = |turn: &Turn, taken: &AtomicUsize| {
            if let Some(mut mine) = turn.try_take() {
                let before = mine.ledger(|ledger| {
                    ledger.base += 1;
                    ledger.base - 1
                });
                assert!(turn.try_take().is_none(), "a nested launch finds it busy");
                let taken = taken.fetch_add(1, Ordering::Relaxed);
                assert_eq!(taken as u64, before);
            }
        };
        let threads = [(); 2].map(|()| {
            let (turn, taken) = (Arc::clone(&turn), Arc::clone(&taken));
            thread::spawn(move || take(&turn, &taken))
        });
        take(&turn, &taken);
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert!(taken.load(Ordering::Relaxed) >= 1);
    });
}
