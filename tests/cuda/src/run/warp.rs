//! Meetings of the threads of a warp: shuffles, votes, and synchronisation.

use super::Fault;
use super::thread::{State, Thread};
use crate::ptx::code::{Meeting, MeetingKind, Op, Program};

/// The value that a lane gets from an absent lane.
const NOBODY: u64 = 0xA5A5_A5A5;

/// True if some of them had all met and go on. Faults have the lane's number.
pub(super) fn meet(warp: &mut [Thread], program: &Program) -> Result<bool, (usize, Fault)> {
    let mut any = false;
    for lane in 0..warp.len() {
        let thread = &warp[lane];
        if thread.state != State::Meeting {
            continue;
        }
        let at = thread.op();
        let Op::Warp(meeting) = &program.ops[at] else { continue };
        let mask = thread.slot(meeting.mask) as u32;
        if mask >> lane & 1 == 0 {
            return Err((lane, Fault::Mask));
        }
        let members: Vec<usize> = (0..warp.len())
            .filter(|&lane| mask >> lane & 1 == 1 && warp[lane].state != State::Done)
            .collect();
        let there = |&lane: &usize| {
            let thread = &warp[lane];
            thread.state == State::Meeting && thread.op() == at && thread.slot(meeting.mask) as u32 == mask
        };
        if members.iter().all(there) {
            exchange(warp, meeting, &members);
            let meetings = members.iter().map(|lane| warp[*lane].meetings).max().unwrap_or(0);
            for lane in members {
                warp[lane].meetings = meetings + 1;
                warp[lane].go_on();
            }
            any = true;
        }
    }
    Ok(any)
}

fn exchange(warp: &mut [Thread], meeting: &Meeting, members: &[usize]) {
    let given: Vec<(usize, u64)> =
        members.iter().map(|&lane| (lane, warp[lane].slot(meeting.from))).collect();
    let holding = |value: bool| given.iter().filter(move |(_, given)| (*given == 1) == value).count();
    let lanes = |holds: &dyn Fn(u64) -> bool| {
        given.iter().filter(|(_, given)| holds(*given)).fold(0u64, |lanes, (lane, _)| lanes | 1 << lane)
    };
    for &(lane, own) in &given {
        let thread = &mut warp[lane];
        let mut also = None;
        let up = matches!(meeting.kind, MeetingKind::Up(..));
        let mut shuffled = |thread: &Thread, by, clamp, target: fn(i64, i64, i64) -> i64| {
            let (from, inside) =
                source(lane as i64, thread.slot(by) as i64, thread.slot(clamp) as i64, target, up);
            also = Some(u64::from(inside));
            given.iter().find(|(other, _)| *other as i64 == from).map_or(NOBODY, |given| given.1)
        };
        let result = match meeting.kind {
            MeetingKind::Sync => continue,
            MeetingKind::Up(by, clamp) => shuffled(thread, by, clamp, |lane, by, _| lane - by),
            MeetingKind::Down(by, clamp) => shuffled(thread, by, clamp, |lane, by, _| lane + by),
            MeetingKind::Butterfly(by, clamp) => shuffled(thread, by, clamp, |lane, by, _| lane ^ by),
            MeetingKind::Index(by, clamp) => {
                shuffled(thread, by, clamp, |lane, by, segment| lane & segment | by & !segment)
            }
            MeetingKind::All(value) => u64::from(holding(value) == given.len()),
            MeetingKind::Any(value) => u64::from(holding(value) > 0),
            MeetingKind::Uniform(value) => u64::from([0, given.len()].contains(&holding(value))),
            MeetingKind::Ballot(value) => lanes(&|given| (given == 1) == value),
            MeetingKind::MatchAny => lanes(&|given| given == own),
            MeetingKind::MatchAll => {
                let all = given.iter().all(|(_, given)| *given == own);
                also = Some(u64::from(all));
                if all { lanes(&|_| true) } else { 0 }
            }
            MeetingKind::Reduce(function) => {
                given.iter().map(|given| given.1).reduce(function).unwrap_or(own)
            }
        };
        thread.set(meeting.to, result);
        if let (Some(slot), Some(also)) = (meeting.also, also) {
            thread.set(slot, also);
        }
    }
}

/// The lane that one shuffles from, and whether it lies in its segment: "shfl.sync" in the PTX ISA. Upwards
/// it must not be below the segment's first lane, otherwise not above the last.
fn source(lane: i64, by: i64, clamp: i64, target: fn(i64, i64, i64) -> i64, up: bool) -> (i64, bool) {
    let (by, segment, clamp) = (by & 31, clamp >> 8 & 31, clamp & 31);
    let bound = lane & segment | clamp & !segment;
    let from = target(lane, by, segment);
    let inside = if up { from >= bound } else { from <= bound };
    (if inside { from } else { lane }, inside)
}
