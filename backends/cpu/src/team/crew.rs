//! The shares of a launch: which thread may run one, when a phase has drained, and when the launch is over.
//! README.md has the argument; in short:
//!
//! Slot s has two counters that only grow, `claimed` and `done`, in tickets. Ticket t of slot s stands for
//! one chunk of share s of one phase. The thread that moves `claimed` from t to t + 1 runs that chunk and
//! then adds it to `done`. Phase k may begin when `done` of every slot has reached phase k's first ticket.
//! The launch is over when it has reached the last one's end. No worker has to come: another thread takes a
//! share that the slot's own has not claimed.

use super::mailbox::{Job, Letter, Mailbox, Rows};
use super::shares::fraction;
use super::sync::{AtomicBool, AtomicU64, Ordering, before_sleep, spin_loop, yield_now};

/// What a member finds in its mailbox when it attends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Poll {
    /// Nothing new.
    Nothing,
    /// A launch, in which it takes part now.
    Begins,
    /// It has taken part in a launch.
    Ended,
}

/// How long to spin before doing something that costs more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spin {
    /// Polls of a share that its own, awake thread has not begun, before
    /// another takes it.
    pub(crate) before_help: u32,
    /// Polls before the thread yields its core between polls.
    pub(crate) before_yield: u32,
}

/// Two lines to itself.
#[repr(align(128))]
struct Padded<T>(T);

struct Slot {
    /// Written by the turn, polled by the worker.
    mailbox: Mailbox,
    /// Written by the worker, or by the thread that takes its share; else unread.
    claimed: Padded<AtomicU64>,
    /// Written as `claimed`, polled by the threads that wait. Apart from `claimed`, so that polling does not
    /// take the line from under the worker's next claim.
    done: Padded<AtomicU64>,
}

/// The slots of a team. Slot 0 is the caller's, unless it leads from another one.
pub(crate) struct Crew {
    slots: Box<[Slot]>,
    /// `fractions[w]` is `fraction(w)`.
    fractions: Box<[u64]>,
    /// Set if a `run` of this launch returned false: by the holder of a ticket, before that is done. Cleared
    /// with the turn.
    stop: Padded<AtomicBool>,
    spin: Spin,
}

/// True if a counter has reached `target`. The counters may wrap; no two that are compared are 2^63 apart.
#[inline]
fn reached(counter: u64, target: u64) -> bool {
    counter.wrapping_sub(target).cast_signed() >= 0
}

impl Crew {
    pub(crate) fn new(threads: usize, spin: Spin) -> Self {
        let slot = |_| Slot {
            mailbox: Mailbox::new(),
            claimed: Padded(AtomicU64::new(0)),
            done: Padded(AtomicU64::new(0)),
        };
        let width = |w| if w < 2 { 0 } else { fraction(w as u32) };
        Self {
            slots: (0..threads).map(slot).collect(),
            fractions: (0..=threads).map(width).collect(),
            stop: Padded(AtomicBool::new(false)),
            spin,
        }
    }

    pub(crate) fn mailbox(&self, slot: usize) -> &Mailbox {
        &self.slots[slot].mailbox
    }

    /// Posts `job` to its slots, takes part as slot `me`, one of the launch's, and returns when it is over:
    /// no thread touches what it points to from then on. False if it was stopped. Calls `between` after each
    /// chunk it ran.
    ///
    /// # Safety
    /// The caller has the turn, and no other thread attends to slot `me`. `job.base` and `letter` continue
    /// what the earlier turns left (the base grows by `job.tickets()` with each). `job.data` is alive, may be
    /// used by several threads and belongs to `job.calls`.
    #[inline]
    pub(crate) unsafe fn lead(&self, me: usize, letter: u64, job: &Job, between: impl FnMut()) -> bool {
        let width = job.shape.width as usize;
        for (number, slot) in self.slots[..width].iter().enumerate() {
            if number != me {
                slot.mailbox.post(letter, job);
            }
        }
        self.take_part(me, true, job, between);
        let stopped = self.stop.0.load(Ordering::Relaxed);
        let jump = if stopped { 0 } else { width };
        if jump < self.slots.len() {
            // Skips the tickets that this launch did not use: those of slots beyond its width, and of phases
            // after the one that stopped it. No other thread writes the counters now: every thread that
            // passed the last barrier saw the stop there, and claims nothing after.
            let end = job.base.wrapping_add(job.tickets());
            for slot in &self.slots[jump..] {
                slot.claimed.0.store(end, Ordering::Relaxed);
                slot.done.0.store(end, Ordering::Release);
            }
            if stopped {
                self.stop.0.store(false, Ordering::Release);
            }
        }
        !stopped
    }

    /// Sends the workers back to rayon. Only with the turn.
    pub(crate) fn dismiss(&self, letter: u64) {
        for slot in &self.slots {
            slot.mailbox.post_leave(letter);
        }
    }

    /// The loop of slot `me`: takes part in what is posted until it is told to leave or `linger` gives up.
    /// `linger` is asked after each poll that found nothing, and told of launches. Returns the number of the
    /// last letter it read; `None` if the slot was not marked. Only on the slot's own thread.
    pub(crate) fn attend(&self, me: usize, mut linger: impl FnMut(Poll) -> bool) -> Option<u64> {
        let mailbox = &self.slots[me].mailbox;
        if !mailbox.arrive() {
            return None;
        }
        let mut seen = 0;
        loop {
            match mailbox.read(seen) {
                Letter::None => {
                    if !linger(Poll::Nothing) {
                        break;
                    }
                }
                Letter::Leave(number) => {
                    seen = number;
                    // The letter stays: a thread that comes for other work would read it again, and leave
                    // again without a look at that work.
                    linger(Poll::Nothing);
                    break;
                }
                Letter::Join(number, job) => {
                    seen = number;
                    linger(Poll::Begins);
                    self.take_part(me, false, &job, || ());
                    linger(Poll::Ended);
                }
            }
        }
        mailbox.park();
        Some(seen)
    }

    /// Runs what it can claim of `job`. The caller, which `leads`, stays to the end; other threads leave when
    /// nothing is left to claim. `job` may be over already.
    #[inline]
    pub(crate) fn take_part(&self, me: usize, leads: bool, job: &Job, mut between: impl FnMut()) {
        let log = job.shape.log_chunks;
        // Every slot, this thread's last: another thread may have taken a share of it.
        let slots = (me + 1..job.shape.width as usize).chain(0..=me);
        let mut phase = 0;
        loop {
            // How far the others have got meanwhile. This slot's latest claimed ticket belongs to a phase
            // that has begun; the one after it may not.
            let claimed = self.slots[me].claimed.0.load(Ordering::Relaxed);
            let ahead = claimed.wrapping_sub(job.base);
            if ahead > job.tickets() {
                return;
            }
            let begun = ahead.saturating_sub(1) >> log;
            if begun > phase {
                phase = begun;
                let first = job.base.wrapping_add(phase << log);
                for slot in slots.clone() {
                    let mut polls = 0;
                    while !reached(self.slots[slot].done.0.load(Ordering::Acquire), first) {
                        self.pause(&mut polls);
                    }
                }
                // `claimed` may be ahead because the caller has moved it past a stopped launch's end, slot by
                // slot: nothing must be claimed on a slot that it has still to move. (The caller sees only
                // claims here, and must not leave before the others.)
                if !leads && self.stop.0.load(Ordering::Acquire) {
                    return;
                }
            }

            // Here every slot's `done` was seen, with Acquire, at this phase's
            // first ticket or beyond (in phase 0: by the turn before it posted).
            let mut part =
                Part { crew: self, job, phase, end: job.base.wrapping_add((phase + 1) << log), rows: None };
            while part.run_one(me) {
                between();
            }
            if job.absent != 0 || log != 0 {
                for other in slots.clone() {
                    if log != 0 || job.is_absent(other) {
                        while part.run_one(other) {
                            between();
                        }
                    }
                }
            }
            if phase + 1 == job.phases && !leads {
                return;
            }
            for slot in slots.clone() {
                let mut polls = 0;
                while !reached(self.slots[slot].done.0.load(Ordering::Acquire), part.end) {
                    if polls == self.spin.before_help {
                        while part.run_one(slot) {
                            between();
                        }
                    }
                    self.pause(&mut polls);
                }
            }
            phase += 1;
            if phase == job.phases {
                return;
            }
            // A `run` that stopped the drained phase set the stop before it was done, and that was seen: all
            // threads that pass this barrier leave here. A late thread may find the stop cleared again;
            // Acquire, so that it then finds the tickets gone, too. A late thread may also find the stop of a
            // later phase, in which others still run: any but the caller may leave then, and the caller may
            // not.
            if self.stop.0.load(Ordering::Acquire) && (!leads || !self.claimed_beyond(job, part.end)) {
                return;
            }
        }
    }

    /// True if a ticket of the phase whose first one is `first` has been claimed. It is right if a stop was
    /// seen (Acquire) and everything before has drained: a stop in this phase or later came after a claim in
    /// it, and after any other stop there are no claims.
    #[cold]
    fn claimed_beyond(&self, job: &Job, first: u64) -> bool {
        let slots = &self.slots[..job.shape.width as usize];
        slots.iter().any(|slot| slot.claimed.0.load(Ordering::Relaxed) != first)
    }

    #[inline]
    fn pause(&self, polls: &mut u32) {
        if *polls < self.spin.before_yield {
            spin_loop();
        } else {
            // A thread of before never comes, in a child that was forked inside a kernel.
            before_sleep();
            yield_now();
        }
        *polls = polls.saturating_add(1);
    }
}

/// One thread in one phase, which it has seen begin.
struct Part<'a> {
    crew: &'a Crew,
    job: &'a Job,
    phase: u64,
    /// The ticket after this phase's last.
    end: u64,
    /// The phase's rows, once the thread had a ticket and could ask for them.
    rows: Option<Rows>,
}

impl Part<'_> {
    /// Claims and runs the next chunk of `slot`'s share. False if none is left.
    #[inline]
    fn run_one(&mut self, slot: usize) -> bool {
        let Slot { claimed, done, .. } = &self.crew.slots[slot];
        let log = self.job.shape.log_chunks;
        let mut ticket = claimed.0.load(Ordering::Relaxed);
        loop {
            if reached(ticket, self.end) {
                return false;
            }
            // Relaxed: the claim orders nothing, it only has one winner. What
            // this thread may read came with the letter and the barriers, and
            // goes on with `done`.
            let next = ticket.wrapping_add(1);
            match claimed.0.compare_exchange_weak(ticket, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => ticket = now,
            }
        }
        let chunk = (1_u64 << log).wrapping_sub(self.end.wrapping_sub(ticket)) as u32;
        if !self.crew.stop.0.load(Ordering::Relaxed) {
            self.run_rows(slot as u32, chunk);
        }
        if log == 0 {
            // This is the phase's only ticket of the slot: no other thread writes `done` before it has this
            // value. A store does not wait for the line.
            done.0.store(ticket.wrapping_add(1), Ordering::Release);
        } else {
            done.0.fetch_add(1, Ordering::Release);
        }
        true
    }

    #[inline]
    fn run_rows(&mut self, share: u32, chunk: u32) {
        let job = self.job;
        let phase = match self.rows {
            Some(rows) => rows,
            // SAFETY: this thread has claimed a ticket of the launch and is not
            // done with it. The launch ends only when it is (`lead` waits), so
            // `data` is alive; it belongs to `calls` by `lead`'s contract.
            None => *self.rows.insert(unsafe { (job.calls.phase)(job.data, self.phase) }),
        };
        let per_share = self.crew.fractions[job.shape.width as usize];
        let rows = job.shape.rows(per_share, phase.start..phase.end, share, chunk);
        if rows.is_empty() {
            return;
        }
        let rows = Rows { start: rows.start, end: rows.end };
        // SAFETY: as above. No other ticket stands for these rows.
        if !unsafe { (job.calls.run)(job.data, self.phase, rows) } {
            // Release: a thread that sees it sees that this ticket was claimed.
            self.crew.stop.0.store(true, Ordering::Release);
        }
    }
}
