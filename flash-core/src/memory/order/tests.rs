use super::{Order, Region, Start, Ticket, Touch};
use crate::memory::region::Grid;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

fn all() -> Vec<Touch<Region>> {
    let all = Region::all(&Grid::new(&[], 10));
    vec![Touch { memory: 1, touched: all.clone(), written: Some(all) }]
}

#[test]
fn any_number_may_withdraw_behind_one_that_is_there() {
    let order: Arc<Order<Region>> = Arc::default();
    let first = order.line_up(&all(), []);
    for _ in 0..if cfg!(miri) { 100 } else { 200_000 } {
        order.withdraw(order.line_up(&all(), []));
    }
    let last = order.line_up(&all(), []);
    let (started, starts) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let start = |of: &Arc<AtomicU32>| {
        let of = of.clone();
        Box::new(move |_: Ticket| {
            of.fetch_add(1, SeqCst);
        })
    };
    order.ready(last, start(&starts));
    order.ready(first, start(&started));
    assert_eq!(
        [&started, &starts].map(|n| n.load(SeqCst)),
        [1, 0],
        "a pipeline that withdraws keeps its place until its turn"
    );
    order.leave(first);
    assert_eq!(starts.load(SeqCst), 1);
    order.leave(last);
    let free = order.line_up(&all(), []);
    order.ready(free, start(&starts));
    assert_eq!(starts.load(SeqCst), 2, "no pipeline is there any more");
}

/// How far a pipeline has come: it is not ready, ready, was asked to follow, is ready for its turn, has its
/// turn, has left.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    New,
    Ready,
    Asked,
    Again,
    Turn,
    Left,
}

struct Modelled {
    ticket: Ticket,
    memories: Vec<(u64, bool)>,
    after: Vec<usize>,
    device: Option<usize>,
    stage: Stage,
    there: bool,
}

struct Recorded(usize, Arc<Mutex<Vec<(usize, bool)>>>);

impl Start for Recorded {
    fn start(self: Box<Self>, _: Ticket) {
        self.1.lock().unwrap().push((self.0, false));
    }

    fn follow(self: Box<Self>, _: Ticket) {
        self.1.lock().unwrap().push((self.0, true));
    }
}

/// Random pipelines of two devices and of none; against a model that compares all of them.
#[test]
fn pipelines_follow_when_their_device_has_all_before_them_and_have_their_turn_after_these() {
    for seed in 0..if cfg!(miri) { 3 } else { 300 } {
        let mut seed = seed * 7919 + 1u64;
        let mut below = |n: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % n
        };
        let all = Region::all(&Grid::new(&[], 10));
        let (order, recorded) = (Order::<Region>::default(), Arc::new(Mutex::new(Vec::new())));
        let mut pipelines: Vec<Modelled> = Vec::new();
        let before = |pipelines: &[Modelled], at: usize| -> Vec<usize> {
            let conflict = |one: &Modelled, other: &Modelled| {
                let meet = |(memory, written): &(u64, bool)| {
                    other.memories.iter().any(|(m, w)| m == memory && (*w || *written))
                };
                one.memories.iter().any(meet)
            };
            let named = |other: usize| pipelines[at].after.contains(&other);
            let waits = |other: &usize| {
                let (this, that) = (&pipelines[at], &pipelines[*other]);
                that.stage != Stage::Left && (named(*other) || conflict(this, that))
            };
            (0..at).filter(waits).collect()
        };
        let mut left = 0;
        while left < 40 {
            let next = match pipelines.len() {
                40 => below(40),
                len => below(len + 2).min(len),
            };
            if next == pipelines.len() {
                let mut memories: Vec<_> =
                    (0..1 + below(2)).map(|_| (below(3) as u64, below(2) == 0)).collect();
                memories.dedup_by_key(|(memory, _)| *memory);
                let after: Vec<_> = (0..below(2)).filter(|_| next > 0).map(|_| below(next.max(1))).collect();
                let device = [None, Some(0), Some(0), Some(1)][below(4)];
                let touches: Vec<_> = memories
                    .iter()
                    .map(|&(memory, written)| Touch {
                        memory,
                        touched: all.clone(),
                        written: written.then(|| all.clone()),
                    })
                    .collect();
                let tickets: Vec<_> = after.iter().map(|at| pipelines[*at].ticket).collect();
                let ticket = order.line_up_for(device, &touches, tickets);
                let (stage, there) = (Stage::New, false);
                pipelines.push(Modelled { ticket, memories, after, device, stage, there });
                continue;
            }
            let pipeline = &mut pipelines[next];
            let start = || Box::new(Recorded(next, recorded.clone()));
            match pipeline.stage {
                Stage::New => {
                    pipeline.stage = Stage::Ready;
                    order.ready(pipeline.ticket, start());
                }
                Stage::Asked | Stage::Turn
                    if !pipeline.there && pipeline.device.is_some() && below(3) > 0 =>
                {
                    pipeline.there = true;
                    order.is_there(pipeline.ticket, pipeline.device.unwrap());
                }
                Stage::Asked => {
                    pipeline.stage = Stage::Again;
                    order.ready(pipeline.ticket, start());
                }
                Stage::Turn => {
                    pipeline.stage = Stage::Left;
                    left += 1;
                    order.leave(pipeline.ticket);
                }
                Stage::Ready | Stage::Again | Stage::Left => continue,
            }
            for (at, follows) in std::mem::take(&mut *recorded.lock().unwrap()) {
                let stage = pipelines[at].stage;
                let before = before(&pipelines, at);
                if follows {
                    assert_eq!(stage, Stage::Ready);
                    assert!(!before.is_empty());
                    pipelines[at].stage = Stage::Asked;
                } else {
                    assert!(matches!(stage, Stage::Ready | Stage::Again), "{stage:?}");
                    assert!(before.is_empty(), "{at} has its turn, and {before:?} have not left");
                    pipelines[at].stage = Stage::Turn;
                }
            }
            for at in 0..pipelines.len() {
                let (this, before) = (&pipelines[at], before(&pipelines, at));
                let on = |other: &usize| pipelines[*other].there && pipelines[*other].device == this.device;
                match this.stage {
                    Stage::Again => assert!(!before.is_empty(), "{at} could have its turn"),
                    Stage::Ready => assert!(!before.iter().all(on), "{at} could go on"),
                    Stage::Asked => {
                        assert!(before.iter().all(on), "{at} follows others than those before it")
                    }
                    _ => {}
                }
            }
        }
    }
}
