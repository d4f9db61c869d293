use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use super::shares::{Shape, fraction};
use super::{Estimate, Team, Work};

const LINGER: Duration = Duration::from_micros(200);
const WIDTHS: [usize; 4] = [1, 2, 3, 7];

fn forced(align: u64) -> Estimate {
    Estimate { ns_per_item: 0.0, force_parallel: true, align }
}

fn costing(ns_per_item: f32) -> Estimate {
    Estimate { ns_per_item, force_parallel: true, align: 4 }
}

/// xorshift64*: the tests need variety, not quality.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % n
    }
}

/// Counts the visits of every item; phases of any length and origin.
struct Visits {
    phases: Vec<Range<u64>>,
    counts: Vec<Vec<AtomicU32>>,
}

impl Visits {
    fn new(phases: Vec<Range<u64>>) -> Self {
        let count = |rows: &Range<u64>| rows.clone().map(|_| AtomicU32::new(0)).collect();
        let counts = phases.iter().map(count).collect();
        Self { phases, counts }
    }

    fn assert_all(&self, expected: u32, what: &str) {
        for (k, counts) in self.counts.iter().enumerate() {
            for (i, count) in counts.iter().enumerate() {
                let count = count.load(Ordering::Relaxed);
                assert_eq!(count, expected, "phase {k}, item {i}: {what}");
            }
        }
    }
}

impl Work for Visits {
    fn phase(&self, k: u64) -> Range<u64> {
        self.phases[k as usize].clone()
    }

    fn run(&self, phase: u64, rows: Range<u64>) -> bool {
        assert!(!rows.is_empty());
        let origin = self.phases[phase as usize].start;
        for row in rows {
            self.counts[phase as usize][(row - origin) as usize].fetch_add(1, Ordering::Relaxed);
        }
        true
    }
}

#[test]
fn the_chunks_of_all_shares_cover_a_phase_once_and_in_order() {
    let mut random = Random(7);
    for round in 0..20_000 {
        let shape = Shape {
            width: 2 + random.below(if round % 2 == 0 { 7 } else { 300 }) as u32,
            log_chunks: random.below(7) as u8,
            log_align: random.below(6) as u8,
        };
        assert_eq!(Shape::unpack(shape.pack()), shape);
        let bits = random.below(60);
        let length = random.below(1 << bits);
        let start = random.below(1000);
        let mut next = start;
        for share in 0..shape.width {
            for chunk in 0..1 << shape.log_chunks {
                let all = start..start + length;
                let rows = shape.rows(fraction(shape.width), all, share, chunk);
                assert_eq!(rows.start, next, "{shape:?} of {length}");
                assert!(rows.end >= rows.start);
                let at = rows.start - start;
                assert!(at == length || at.is_multiple_of(1 << shape.log_align));
                next = rows.end;
            }
        }
        assert_eq!(next, start + length, "{shape:?} of {length}");
    }
    let shape = Shape { width: 2, log_chunks: 2, log_align: 0 };
    let chunks = [0, 1, 2, 3].map(|chunk| shape.rows(fraction(2), 0..3200, 1, chunk));
    assert_eq!(chunks, [1600..2300, 2300..2800, 2800..3100, 3100..3200]);
    let shape = Shape { width: 2, log_chunks: 0, log_align: 4 };
    assert_eq!(shape.rows(fraction(2), 0..1024, 0, 0), 0..512);
    assert_eq!(shape.rows(fraction(2), 0..u64::MAX, 1, 0).end, u64::MAX);
}

#[test]
fn every_item_runs_once_in_phases_of_any_shape() {
    for threads in WIDTHS {
        let team = Team::new(threads, LINGER);
        let mut random = Random(42 + threads as u64);
        for round in 0..60 {
            let phases = (0..1 + random.below(20))
                .map(|_| {
                    let start = random.below(100);
                    start..start + random.below(200)
                })
                .collect();
            let work = Visits::new(phases);
            let estimate = match round % 4 {
                0 => forced(1),
                1 => forced(16),
                // Predicted long enough for chunks.
                2 => costing(10_000.0),
                _ => Estimate { ns_per_item: 0.0, force_parallel: false, align: 2 },
            };
            assert!(team.run(&work, work.phases.len() as u64, estimate));
            work.assert_all(1, &format!("{threads} threads, round {round}"));
        }
    }
}

#[test]
fn the_same_work_a_thousand_times_runs_a_thousand_times() {
    for threads in WIDTHS {
        let team = Team::new(threads, LINGER);
        let work = Visits::new(vec![0..40, 3..200, 5..5, 0..1]);
        for round in 0..1_000 {
            let estimate = if round % 3 == 0 { costing(5_000.0) } else { forced(8) };
            assert!(team.run(&work, 4, estimate));
        }
        work.assert_all(1_000, &format!("{threads} threads"));
    }
}

#[test]
fn no_phases_and_empty_phases_are_fine() {
    let team = Team::new(2, LINGER);
    assert!(team.run(&Visits::new(vec![]), 0, forced(1)));
    let empty = Range { start: 9, end: 3 };
    assert!(team.run(&Visits::new(vec![0..0, empty]), 2, forced(1)));
}

#[test]
fn eight_host_threads_at_once_each_get_their_own_launches() {
    for threads in [2, 7] {
        let team = Team::new(threads, LINGER);
        thread::scope(|scope| {
            for host in 0..8 {
                let team = &team;
                scope.spawn(move || {
                    let work = Visits::new(vec![0..100, 0..33, 7..9]);
                    for round in 0..300 {
                        let estimate = if round % 2 == 0 { forced(1) } else { costing(9_000.0) };
                        assert!(team.run(&work, 3, estimate));
                    }
                    work.assert_all(300, &format!("host {host}"));
                });
            }
        });
    }
}

/// Returns false once, in phase `at`, and records the phases that ran.
struct Stops {
    at: u64,
    phases: u64,
    ran: Vec<AtomicU64>,
}

impl Work for Stops {
    fn phase(&self, _: u64) -> Range<u64> {
        0..64
    }

    fn run(&self, phase: u64, rows: Range<u64>) -> bool {
        self.ran[phase as usize].fetch_add(rows.end - rows.start, Ordering::Relaxed);
        !(phase == self.at && rows.contains(&63))
    }
}

#[test]
fn false_stops_the_phases_after_and_not_the_next_launch() {
    for threads in WIDTHS {
        let team = Team::new(threads, LINGER);
        for round in 0..500 {
            let phases = 1 + round % 5;
            let work = Stops {
                at: round % 7 % phases,
                phases,
                ran: (0..phases).map(|_| AtomicU64::new(0)).collect(),
            };
            let estimate = if round % 2 == 0 { forced(1) } else { costing(9_000.0) };
            assert!(!team.run(&work, work.phases, estimate));
            for (k, ran) in work.ran.iter().enumerate() {
                let ran = ran.load(Ordering::Relaxed);
                match (k as u64).cmp(&work.at) {
                    std::cmp::Ordering::Less => assert_eq!(ran, 64),
                    std::cmp::Ordering::Equal => assert!((1..=64).contains(&ran)),
                    std::cmp::Ordering::Greater => assert_eq!(ran, 0, "phase {k} after a stop"),
                }
            }
            let next = Visits::new(vec![0..50; 3]);
            assert!(team.run(&next, 3, estimate));
            next.assert_all(1, "after a stopped launch");
        }
    }
}

/// Phase k adds up what phase k - 1 wrote on both sides of every item, without
/// atomics: a phase that began early, or did not see a write, is wrong.
struct Stencil {
    fields: [Vec<UnsafeCell<u64>>; 2],
}

// SAFETY: phase k reads one field and writes the other, each item once; the
// phases are ordered by the team, which is what is tested.
unsafe impl Sync for Stencil {}

impl Work for Stencil {
    fn phase(&self, _: u64) -> Range<u64> {
        0..self.fields[0].len() as u64
    }

    fn run(&self, phase: u64, rows: Range<u64>) -> bool {
        let [a, b] = &self.fields;
        let (from, to) = if phase.is_multiple_of(2) { (a, b) } else { (b, a) };
        let n = from.len();
        for i in rows {
            let i = i as usize;
            // SAFETY: see `Sync` above.
            unsafe {
                let sum = (*from[(i + 1) % n].get()).wrapping_add(*from[(i + n / 2) % n].get());
                *to[i].get() = sum.wrapping_add(phase);
            }
        }
        true
    }
}

impl Stencil {
    fn new(n: u64) -> Self {
        let field = |scale: u64| (0..n).map(|i| UnsafeCell::new(i * scale)).collect();
        Self { fields: [field(1), field(0)] }
    }

    fn result(self) -> Vec<u64> {
        let [a, b] = self.fields;
        a.into_iter().chain(b).map(UnsafeCell::into_inner).collect()
    }
}

#[test]
fn a_phase_sees_what_the_one_before_wrote() {
    let phases = 2_001;
    let alone = Stencil::new(61);
    for k in 0..phases {
        alone.run(k, 0..61);
    }
    let expected = alone.result();
    for threads in WIDTHS {
        let team = Team::new(threads, LINGER);
        for estimate in [forced(1), forced(8), costing(9_000.0)] {
            let work = Stencil::new(61);
            assert!(team.run(&work, phases, estimate));
            assert_eq!(work.result(), expected, "{threads} threads, {estimate:?}");
        }
    }
}

/// Items that take a while; records which thread ran which.
struct Slow {
    items: u64,
    each: Duration,
    /// This item takes ten times as long as all the others together.
    heavy: Option<u64>,
    by: Mutex<Vec<(u64, ThreadId)>>,
}

impl Slow {
    fn new(items: u64, each: Duration) -> Self {
        Self { items, each, heavy: None, by: Mutex::default() }
    }

    fn threads(&self) -> usize {
        let mut threads: Vec<_> = self.by.lock().unwrap().iter().map(|&(_, t)| t).collect();
        threads.sort_by_key(|t| format!("{t:?}"));
        threads.dedup();
        threads.len()
    }

    fn assert_once(&self) {
        let mut items: Vec<_> = self.by.lock().unwrap().iter().map(|&(i, _)| i).collect();
        items.sort_unstable();
        assert!(items.into_iter().eq(0..self.items));
    }
}

impl Work for Slow {
    fn phase(&self, _: u64) -> Range<u64> {
        0..self.items
    }

    fn run(&self, _: u64, rows: Range<u64>) -> bool {
        for row in rows {
            let mut time = self.each;
            if self.heavy == Some(row) {
                time *= 10 * self.items as u32;
            }
            let start = Instant::now();
            while start.elapsed() < time {
                std::hint::spin_loop();
            }
            self.by.lock().unwrap().push((row, thread::current().id()));
        }
        true
    }
}

/// One of this many launches shows it: on a loaded machine a worker may get no core while a launch runs.
fn one_of(launches: u32, mut shows: impl FnMut() -> bool, what: &str) {
    assert!((0..launches).any(|_| shows()), "{what}");
}

#[test]
fn a_worker_that_comes_late_joins_a_launch_of_unknown_cost() {
    let unknown = Estimate { ns_per_item: 0.0, force_parallel: false, align: 1 };
    let both_ran = || {
        let team = Team::new(2, LINGER);
        let work = Slow::new(256, Duration::from_micros(200));
        assert!(team.run(&work, 1, unknown));
        work.assert_once();
        work.threads() == 2
    };
    one_of(10, both_ran, "the worker was parked, then woken");
}

#[test]
fn a_parked_worker_is_not_woken_for_little_but_for_much() {
    let team = Team::new(2, LINGER);
    let ten_us = Estimate { ns_per_item: 100.0, force_parallel: false, align: 1 };
    let work = Slow::new(100, Duration::ZERO);
    assert!(team.run(&work, 1, ten_us));
    assert!(!team.pool.is_started(), "no thread is started for 10 us");
    for _ in 0..20 {
        let work = Slow::new(100, Duration::ZERO);
        assert!(team.run(&work, 1, ten_us));
        work.assert_once();
    }
    assert!(team.pool.is_started(), "but for 20 times 10 us");
}

/// A launch that ends early only if a second thread takes part.
struct Meeting {
    begun: Instant,
    chunks: AtomicU32,
    threads: Mutex<Vec<ThreadId>>,
}

impl Work for Meeting {
    fn phase(&self, _: u64) -> Range<u64> {
        0..16
    }

    fn run(&self, _: u64, _: Range<u64>) -> bool {
        let here = thread::current().id();
        let come = || {
            let mut threads = self.threads.lock().unwrap();
            if !threads.contains(&here) {
                threads.push(here);
            }
            threads.len()
        };
        // A caller looks for its workers between two chunks, so the first ends in any case.
        let first = self.chunks.fetch_add(1, Ordering::Relaxed) == 0;
        let patience = if first { Duration::from_micros(50) } else { Duration::from_secs(20) };
        while come() < 2 && self.begun.elapsed() < patience {
            thread::yield_now();
        }
        true
    }
}

#[test]
fn a_worker_that_parks_as_a_long_launch_begins_takes_part() {
    let linger = Duration::from_micros(30);
    let team = Team::new(2, linger);
    let long = Estimate { ns_per_item: 100_000.0, force_parallel: false, align: 1 };
    let mut random = Random(3);
    for _ in 0..3_000 {
        assert!(team.run(&Visits::new(vec![0..16, 0..16]), 2, forced(1)));
        let (ended, pause) = (Instant::now(), linger + Duration::from_nanos(random.below(10_000)));
        while ended.elapsed() < pause {
            std::hint::spin_loop();
        }
        let meeting = Meeting { begun: Instant::now(), chunks: AtomicU32::new(0), threads: Mutex::default() };
        assert!(team.run(&meeting, 1, long));
        assert_eq!(meeting.threads.into_inner().unwrap().len(), 2, "the worker slept all the time");
    }
}

#[test]
fn what_a_held_up_thread_has_not_begun_others_run() {
    let team = Team::new(2, Duration::from_millis(50));
    let estimate = Estimate { ns_per_item: 50_000.0, force_parallel: true, align: 1 };
    assert!(team.run(&Slow::new(512, Duration::from_micros(50)), 1, estimate));
    let others_ran = || {
        let mut work = Slow::new(64, Duration::from_micros(50));
        work.heavy = Some(0);
        assert!(team.run(&work, 1, estimate));
        work.assert_once();
        let by = work.by.lock().unwrap();
        let of = |item| by.iter().find(|&&(i, _)| i == item).unwrap().1;
        (0..32).any(|i| of(i) != of(0))
    };
    one_of(10, others_ran, "item 0 held all of its share's 32");
}

#[test]
fn an_item_stays_on_its_thread_across_launches() {
    let team = Team::new(2, Duration::from_millis(500));
    let places = || {
        let work = Slow::new(2, Duration::from_millis(3));
        let one_each = Estimate { ns_per_item: 1.0, force_parallel: true, align: 1 };
        assert!(team.run(&work, 1, one_each));
        work.assert_once();
        let mut by = work.by.into_inner().unwrap();
        by.sort_by_key(|&(i, _)| i);
        by.into_iter().map(|(_, t)| t).collect::<Vec<_>>()
    };
    let mut apart = Vec::new();
    let often_apart = || {
        apart.extend(Some(places()).filter(|t| t[0] != t[1]));
        apart.len() == 30
    };
    one_of(1000, often_apart, "two threads, two items");
    apart.dedup();
    assert_eq!(apart.len(), 1);
    assert_eq!(apart[0][0], thread::current().id());
}

/// Launches from within: on its own team, and into the pool.
struct Nested<'a> {
    team: &'a Team,
    inner: Visits,
    installed: AtomicUsize,
}

impl Work for Nested<'_> {
    fn phase(&self, _: u64) -> Range<u64> {
        0..8
    }

    fn run(&self, _: u64, rows: Range<u64>) -> bool {
        for _ in rows {
            assert!(self.team.run(&self.inner, 2, forced(1)));
            self.installed.fetch_add(self.team.install(|| 1), Ordering::Relaxed);
        }
        true
    }
}

#[test]
fn a_launch_from_within_a_launch_runs_on_its_thread() {
    for threads in WIDTHS {
        let team = Team::new(threads, LINGER);
        let work =
            Nested { team: &team, inner: Visits::new(vec![0..50, 0..50]), installed: AtomicUsize::new(0) };
        for _ in 0..100 {
            assert!(team.run(&work, 3, forced(1)));
        }
        work.inner.assert_all(100 * 3 * 8, "nested");
        assert_eq!(work.installed.into_inner(), 100 * 3 * 8);
    }
}

/// A kernel that waits inside rayon, which meanwhile runs what is queued: it
/// may be another loop for the same slot.
struct Joins;

impl Work for Joins {
    fn phase(&self, _: u64) -> Range<u64> {
        0..64
    }

    fn run(&self, _: u64, rows: Range<u64>) -> bool {
        for _ in rows {
            let (a, b) = rayon::join(|| 1, thread::yield_now);
            let ((), 1) = (b, a) else { return false };
        }
        true
    }
}

#[test]
fn a_kernel_may_use_rayon() {
    let team = Team::new(3, Duration::ZERO);
    for _ in 0..2_000 {
        assert!(team.run(&Joins, 2, forced(1)));
    }
}

#[test]
fn install_runs_in_the_pool_while_workers_linger() {
    for threads in [2, 3, 7] {
        let team = Team::new(threads, Duration::from_secs(30));
        let work = Visits::new(vec![0..100, 0..1]);
        for round in 1..=50 {
            assert!(team.run(&work, 2, forced(1)));
            let start = Instant::now();
            let seen = team.install(|| {
                // This takes every thread of the pool, so none may linger on.
                let names = rayon::broadcast(|_| thread::current().name().map(str::to_owned));
                assert!(team.run(&work, 2, forced(1)), "launch from inside");
                names
            });
            assert_eq!(seen.len(), threads);
            assert!(seen.iter().flatten().all(|n| n.starts_with("flash-cpu-")));
            assert!(start.elapsed() < Duration::from_secs(15));
            work.assert_all(2 * round, "before and inside");
        }
    }
}

#[test]
fn a_panic_in_install_is_the_callers_and_gives_the_team_back() {
    let team = Team::new(2, LINGER);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        team.install(|| panic!("inside"));
    }));
    assert!(panicked.is_err());
    assert!(team.pool.shared().teams[0].turn.try_take().is_some());
}

#[test]
fn a_team_dropped_while_its_workers_linger_lets_them_go() {
    for threads in [2, 7] {
        let team = Team::new(threads, Duration::from_secs(30));
        let work = Slow::new(200, Duration::from_micros(20));
        assert!(team.run(&work, 1, forced(1)));
        work.assert_once();
        let shared = Arc::downgrade(team.pool.shared());
        drop(team);
        let start = Instant::now();
        while shared.strong_count() > 0 {
            assert!(start.elapsed() < Duration::from_secs(15), "they linger on");
            thread::yield_now();
        }
    }
}

#[test]
fn a_small_launch_starts_no_thread() {
    let team = Team::new(2, LINGER);
    let work = Visits::new(vec![0..100, 0..1]);
    let small = Estimate { ns_per_item: 1.0, force_parallel: false, align: 16 };
    assert!(team.run(&work, 1, small));
    assert_eq!(work.counts[0][99].load(Ordering::Relaxed), 1);
    assert!(!team.pool.is_used());
}
