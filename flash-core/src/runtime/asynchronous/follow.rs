//! Pipelines that follow others on a device: they are given to it before their turn.
//!
//! A pipeline that runs on one device, which works without the host, and whose predecessors in the
//! [order](crate::memory::order) are all in that device's queue, is put into the queue at once, behind them:
//! the device keeps the two in order, and is not idle until the host has seen the end of the first. Nothing
//! else changes. It leaves the order in its turn, after those before it, and what it should have written is
//! poisoned in its turn, too: if one before it has failed, and it reads what that should have written, it has
//! run for nothing, and fails as if it had been skipped.
//!
//! It takes the resident path, with all arrays on the device: no data is moved, as what is there is in use.
//! It waits for nothing. Where that is not so, it waits for its turn as ever.
//!
//! *Which thread.* The one that makes it possible: the caller of `exec_async`, or the extra thread that has
//! given the device the pipeline before, or a thread that waits for one of them. A worker and a thread that
//! ends pipelines hand it to an extra thread: the driver may wait for room in its queue, which comes as
//! pipelines end. So does a function of the host that signals an event, as its thread is inside a launch.
//! Giving one may make it possible for the next: they are given one after another, and not on top of each
//! other's stack.

use super::pending::QueuedPipeline;
use super::{Awaits, InTurn, Runner, Task, go_on};
use crate::devices::DeviceHandle;
use crate::memory::order::{DeviceNumber, ORDER};
use crate::nested::in_kernel;
use crate::runtime::launch;
use crate::workers::{self, blocking};
use flash_backend::caught;
use std::cell::RefCell;
use std::collections::VecDeque;

/// The number of a device in the order.
pub(super) fn number(device: &'static DeviceHandle) -> DeviceNumber {
    std::ptr::from_ref(device).addr()
}

thread_local! {
    /// Those that this thread is to give to their devices; `None`: it is not at it.
    static NEXT: RefCell<Option<VecDeque<Box<Task>>>> = const { RefCell::new(None) };
}

/// Gives a pipeline to its device, which has all those before it.
pub(super) fn follow(task: Box<Task>) {
    if in_kernel() || workers::runs_pieces() || blocking::serves_devices() {
        return blocking::run(task.priority(), Box::new(move || give_all(task)));
    }
    give_all(task);
}

/// Gives a pipeline, and those for which that makes it possible.
fn give_all(task: Box<Task>) {
    let first = NEXT.with_borrow_mut(|next| match next {
        Some(next) => {
            next.push_back(task);
            None
        }
        None => {
            *next = Some(VecDeque::new());
            Some(task)
        }
    });
    let mut next = first;
    while let Some(task) = next {
        give(task);
        next = NEXT.with_borrow_mut(|tasks| {
            let task = tasks.as_mut().and_then(VecDeque::pop_front);
            if task.is_none() {
                *tasks = None;
            }
            task
        });
    }
}

fn give(mut task: Box<Task>) {
    task.follows = true;
    let (list, runtime) = task.pipeline.buffer.parts();
    let turn = InTurn::of_task(&task.touched, Runner::Extra, None);
    let give = || launch::follow(list, runtime, &turn, runtime.devices[0], task.pending.outcome());
    // A panic is found again in its turn.
    let _ = caught(give);
    match turn.left() {
        Some(rest) if matches!(rest.awaits, Awaits::Device(_)) => go_on(task, rest),
        rest => {
            task.rest = rest;
            ORDER.ready(task.ticket(), task);
        }
    }
}
