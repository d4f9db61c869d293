//! The lanes of devices. The file under test is included in place, beside a `sync` and a `task` over loom. A
//! lost wake-up is a thread that sleeps for ever, which loom reports as a deadlock.

#[path = "../../../../flash-core/src/runtime/distributed/lane.rs"]
mod lane;
mod sync;
mod task;

use crate::check;
use lane::{Lane, Pace, Runs, drain, drive_until, drive_until_or};
use task::TaskRef;

/// The time of a task, in nanoseconds, for which a helper is called.
const LONG: u64 = 1 << 20;

fn lane() -> &'static Lane {
    // Lanes live for ever; those of a model are leaked.
    let lane: &'static Lane = Box::leak(Box::new(Lane::new(0, Runs::Here)));
    assert!(lane.computes());
    lane
}

/// A pipeline's caller: puts a task into the first lane and one that waits for it into the second, and drives
/// both until its own tasks are done.
fn pipeline(lanes: [&'static Lane; 2], priority: i32, expected: u64) {
    let first = TaskRef::new(expected, priority, &[]);
    let second = TaskRef::new(expected, priority, std::slice::from_ref(&first));
    lanes[0].push(first.clone());
    lanes[1].push(second.clone());
    drive_until(&lanes, || first.get().is_done() && second.get().is_done());
    assert_eq!([first.get().runs(), second.get().runs()], [1, 1]);
}

#[test]
fn callers_run_their_tasks_and_each_others() {
    check(3, || {
        let lanes = [lane(), lane()];
        let other = loom::thread::spawn(move || pipeline(lanes, 0, 0));
        pipeline(lanes, 0, 0);
        other.join().unwrap();
    });
}

#[test]
fn callers_whose_tasks_cross_do_not_wait_for_each_other_in_a_circle() {
    check(3, || {
        let lanes = [lane(), lane()];
        let other = loom::thread::spawn(move || pipeline([lanes[1], lanes[0]], 0, 0));
        pipeline(lanes, 0, 0);
        other.join().unwrap();
    });
}

#[test]
fn nor_do_those_of_different_priorities() {
    check(3, || {
        let lanes = [lane(), lane()];
        let other = loom::thread::spawn(move || pipeline([lanes[1], lanes[0]], 1, 0));
        pipeline(lanes, 0, 0);
        other.join().unwrap();
    });
}

#[test]
fn a_helper_and_a_caller_share_the_work() {
    check(2, || {
        let lanes = [lane(), lane()];
        let (first, second) = (TaskRef::new(LONG, 0, &[]), TaskRef::new(0, 0, &[]));
        lanes[0].push(first.clone());
        lanes[1].push(second.clone());
        let third = TaskRef::new(0, 0, &[first.clone(), second.clone()]);
        lanes[0].push(third.clone());
        drive_until(&lanes, || [&first, &second, &third].iter().all(|task| task.get().is_done()));
        assert_eq!([first, second, third].map(|task| task.get().runs()), [1, 1, 1]);
        sync::join();
    });
}

#[test]
fn a_helper_comes_for_each_long_task() {
    check(3, || {
        let lane = lane();
        for _ in 0..2 {
            let task = TaskRef::new(LONG, 0, &[]);
            lane.push(task.clone());
            // Only helpers run it.
            drive_until(&[], || task.get().is_done());
            assert_eq!(task.get().runs(), 1);
        }
        sync::join();
    });
}

#[test]
fn a_helper_that_has_left_a_blocked_lane_is_called_again_when_the_lane_can_go_on() {
    check(2, || {
        let lanes = [lane(), lane()];
        let before = TaskRef::new(0, 0, &[]);
        let after = TaskRef::new(LONG, 0, std::slice::from_ref(&before));
        lanes[0].push(after.clone());
        lanes[1].push(before);
        // The caller drives the other lane only.
        drive_until(&lanes[1..], || after.get().is_done());
        assert_eq!(after.get().runs(), 1);
        sync::join();
    });
}

#[test]
fn lanes_that_a_caller_leaves_are_run_to_their_end_whatever_they_hold() {
    check(2, || {
        let lanes = [lane(), lane()];
        let before = TaskRef::new(0, 0, &[]);
        let after = TaskRef::new(0, 0, std::slice::from_ref(&before));
        lanes[0].push(after.clone());
        lanes[1].push(before.clone());
        lanes.iter().for_each(|lane| assert!(lane.leave_to_helpers()));
        // The caller does something else, until both are done.
        drive_until(&[], || after.get().is_done());
        assert_eq!([before, after].map(|task| task.get().runs()), [1, 1]);
        lanes.iter().for_each(|lane| lane.come_back());
        sync::join();
    });
}

#[test]
fn a_caller_runs_a_lane_for_which_no_helper_has_come() {
    check(2, || {
        let lane = lane();
        let task = TaskRef::new(LONG, 0, &[]);
        lane.push(task.clone());
        drive_until_or(&[], || task.get().is_done(), || lane.drive_ready());
        assert_eq!(task.get().runs(), 1);
        sync::join();
    });
}

#[test]
fn a_caller_runs_a_lane_that_its_helper_has_left_to_another_thread() {
    check(2, || {
        let lanes = [lane(), lane()];
        let before = TaskRef::new(0, 0, &[]);
        let first = TaskRef::new(0, 0, &[]);
        let last = TaskRef::new(0, 0, std::slice::from_ref(&before));
        lanes[1].push(before);
        for task in [first.clone(), TaskRef::new(0, 0, &[]), last.clone()] {
            lanes[0].push(task);
        }
        // The helper finds the lane taken by this thread, which goes when its own task is done.
        let other = loom::thread::spawn(move || drive_until(&[lanes[0]], || first.get().is_done()));
        assert!(lanes[0].leave_to_helpers());
        drive_until_or(&lanes[1..], || last.get().is_done(), || lanes[0].drive_ready());
        assert_eq!(last.get().runs(), 1);
        lanes[0].come_back();
        other.join().unwrap();
        sync::join();
    });
}

#[test]
fn a_caller_ends_a_task_that_its_device_is_done_with_and_goes_on() {
    check(3, || {
        let lanes = [lane(), lane()];
        let first = TaskRef::that_flies(0, &[]);
        let second = TaskRef::new(0, 0, &[]);
        let third = TaskRef::new(0, 0, std::slice::from_ref(&first));
        lanes[0].push(first.clone());
        // It waits for its lane.
        lanes[0].push(second.clone());
        lanes[1].push(third.clone());
        drive_until(&lanes, || [&first, &second, &third].iter().all(|task| task.get().is_done()));
        assert_eq!([first, second, third].map(|task| task.get().runs()), [1, 1, 1]);
        sync::join();
    });
}

#[test]
fn a_helper_comes_again_when_a_device_is_done() {
    check(2, || {
        let lane = lane();
        let first = TaskRef::that_flies(LONG, &[]);
        let second = TaskRef::new(LONG, 0, std::slice::from_ref(&first));
        lane.push(first.clone());
        lane.push(second.clone());
        // Only helpers drive it.
        drive_until(&[], || second.get().is_done());
        assert_eq!([first, second].map(|task| task.get().runs()), [1, 1]);
        sync::join();
    });
}

/// The lanes of copies and of kernels of a device whose queues wait for each other's work.
fn queues() -> [&'static Lane; 2] {
    [0, 0].map(|device| &*Box::leak(Box::new(Lane::new(device, Runs::InQueue))))
}

#[test]
fn tasks_are_begun_behind_others_and_end_after_them() {
    check(3, || {
        let lanes @ [copies, kernels] = queues();
        let up = TaskRef::that_flies(0, &[]);
        let kernel = TaskRef::that_flies(0, std::slice::from_ref(&up));
        let down = TaskRef::that_flies(0, std::slice::from_ref(&kernel));
        copies.push(up.clone());
        kernels.push(kernel.clone());
        copies.push(down.clone());
        drive_until(&lanes, || down.get().is_done());
        assert_eq!([up, kernel, down].map(|task| task.get().runs()), [1; 3]);
        sync::join();
    });
}

#[test]
fn a_kernel_is_begun_behind_all_copies_that_it_waits_for() {
    check(2, || {
        let lanes @ [copies, kernels] = queues();
        let up = [0; 2].map(|_| TaskRef::that_flies(0, &[]));
        let kernel = TaskRef::that_flies(0, &up);
        up.iter().for_each(|task| copies.push(task.clone()));
        kernels.push(kernel.clone());
        // Another run's task ends some of them meanwhile.
        let other = loom::thread::spawn(move || {
            let task = TaskRef::that_flies(0, &[]);
            copies.push(task.clone());
            drive_until(&[copies], || task.get().is_done());
            assert_eq!(task.get().runs(), 1);
        });
        drain(&lanes, || kernel.get().is_done());
        assert_eq!(up.map(|task| task.get().runs()), [1; 2]);
        assert_eq!(kernel.get().runs(), 1);
        other.join().unwrap();
        sync::join();
    });
}

#[test]
fn a_helper_that_finds_a_lane_taken_gets_what_its_caller_leaves_for_devices() {
    check(3, || {
        let lanes @ [device, here] = [queues()[0], lane()];
        let first = TaskRef::that_flies(2, &[]);
        device.push(first.clone());
        // The second is too long to be run before the device is looked at again.
        let tasks = [1, LONG].map(|expected| TaskRef::new(expected, 0, &[]));
        tasks.iter().for_each(|task| here.push(task.clone()));
        let last = TaskRef::new(0, 0, &tasks);
        here.push(last.clone());
        drive_until(&lanes, || first.get().is_done() && last.get().is_done());
        assert_eq!([&first, &last].map(|task| task.get().runs()), [1, 1]);
        assert_eq!(tasks.map(|task| task.get().runs()), [1, 1]);
        sync::join();
    });
}

#[test]
fn few_are_in_flight_that_take_long_together() {
    for (expected, begun) in [(1, 16), (400_000, 3), (2_000_000, 1)] {
        check(1, move || {
            let lane = queues()[0];
            let tasks = [0; 20].map(|_| TaskRef::that_flies(expected, &[]));
            tasks.iter().for_each(|task| lane.push(task.clone()));
            assert_eq!(tasks.iter().filter(|task| task.get().has_landed()).count(), begun);
            while !lane.is_idle() {
                lane.drive(Pace::EndAll);
                lane.begin_ready();
            }
            assert!(tasks.iter().all(|task| task.get().runs() == 1));
        });
    }
}

#[test]
fn several_in_flight_of_which_the_device_says_when_they_are_over_end_in_order() {
    check(3, || {
        let lane = queues()[0];
        let first = TaskRef::that_flies(0, &[]);
        let second = TaskRef::that_flies(0, std::slice::from_ref(&first));
        lane.put(first.clone());
        lane.put(second.clone());
        drive_until(&[lane], || second.get().is_done());
        assert_eq!([first, second].map(|task| task.get().runs()), [1; 2]);
        sync::join();
    });
}

#[test]
fn another_thread_ends_what_one_is_about_to_begin_a_task_behind() {
    check(2, || {
        let lanes @ [copies, kernels] = queues();
        let up = TaskRef::that_flies(0, &[]);
        let kernel = TaskRef::that_flies(0, std::slice::from_ref(&up));
        copies.push(up.clone());
        let other = loom::thread::spawn({
            let up = up.clone();
            move || drive_until(&[copies], || up.get().is_done())
        });
        kernels.push(kernel.clone());
        drive_until(&lanes, || kernel.get().is_done());
        assert_eq!([up, kernel].map(|task| task.get().runs()), [1; 2]);
        other.join().unwrap();
        sync::join();
    });
}

#[test]
fn a_helper_ends_what_was_begun_behind_what_its_caller_ends() {
    check(2, || {
        let [copies, kernels] = queues();
        let up = TaskRef::that_flies(0, &[]);
        let kernel = TaskRef::that_flies(LONG, std::slice::from_ref(&up));
        copies.push(up.clone());
        kernels.push(kernel.clone());
        assert!(kernels.leave_to_helpers());
        drive_until(&[copies], || kernel.get().is_done());
        assert_eq!([up, kernel].map(|task| task.get().runs()), [1, 1]);
        kernels.come_back();
        sync::join();
    });
}

#[test]
fn two_callers_share_a_lane_whose_tasks_fly() {
    check(2, || {
        let lane = lane();
        let caller = move || {
            let task = TaskRef::that_flies(0, &[]);
            lane.push(task.clone());
            drive_until(&[lane], || task.get().is_done());
            assert_eq!(task.get().runs(), 1);
        };
        let other = loom::thread::spawn(caller);
        caller();
        other.join().unwrap();
        sync::join();
    });
}

/// A lane of a device that works by itself.
fn lane_of_device(device: usize) -> &'static Lane {
    Box::leak(Box::new(Lane::new(device, Runs::Alone)))
}

#[test]
fn a_caller_begins_short_tasks_of_devices_and_ends_them() {
    check(2, || {
        let lanes = [lane_of_device(1), lane_of_device(2), lane()];
        let first = [0; 3].map(|_| TaskRef::that_flies(1, &[]));
        lanes.iter().zip(&first).for_each(|(lane, task)| lane.push(task.clone()));
        let last = TaskRef::that_flies(1, &first);
        lanes[0].push(last.clone());
        drive_until(&lanes, || last.get().is_done());
        assert_eq!(first.map(|task| task.get().runs()), [1; 3]);
        assert_eq!(last.get().runs(), 1);
        sync::join();
    });
}

/// Two callers with a task each that lasts so long. Each may begin the other's, and leaves when its own is
/// done.
fn two_callers_of_devices(expected: u64) {
    check(1, move || {
        let lanes = [1, 2].map(lane_of_device);
        let caller = move |own: usize| {
            let task = TaskRef::that_flies(expected, &[]);
            lanes[own].push(task.clone());
            drive_until(&lanes, || task.get().is_done());
            assert_eq!(task.get().runs(), 1);
        };
        let other = loom::thread::spawn(move || caller(1));
        caller(0);
        other.join().unwrap();
        sync::join();
    });
}

#[test]
fn callers_begin_and_end_short_tasks_of_each_other() {
    two_callers_of_devices(1);
}

#[test]
fn nor_is_a_task_left_that_is_not_over_soon() {
    two_callers_of_devices(2);
}
