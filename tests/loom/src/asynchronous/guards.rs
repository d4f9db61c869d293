//! Guards of threads, and what waits for them: pipelines in their place, launches with nothing held. A thread
//! that holds a guard does not wait for what waits for guards.

use super::*;

#[test]
fn a_pipeline_waits_for_guards_or_comes_before_them_and_nothing_is_left_counted() {
    check(3, || {
        let world = World::new();
        let other = World::beside(&world, |world| {
            world.guard(1, false).unwrap();
            // SAFETY: loom checks this access.
            let seen = world.contents[1].with(|c| unsafe { *c });
            world.release_guard(1);
            seen
        });
        wait(&World::exec_async(&world, BOTH, 1));
        assert!(other.join().unwrap() <= 1);
        assert_eq!(world.contents(), [1; 2]);
        World::exec(&world, BOTH, 1);
        assert_eq!(world.contents(), [4; 2]);
    });
}

#[test]
fn a_thread_with_a_guard_never_waits_for_a_pipeline_that_waits_for_it() {
    check(2, || {
        let world = World::new();
        let other = World::beside(&world, |world| {
            world.guard(0, false).unwrap();
            // The pipeline comes before this guard, or it may wait for the first one.
            let second = world.guard(1, true);
            if second.is_ok() {
                world.release_guard(1);
            }
            // What it reads it may read again, whatever waits.
            world.states[0].guard_again();
            world.release_guard(0);
            world.release_guard(0);
            second
        });
        let done = World::exec_async(&world, BOTH, 1);
        let second = other.join().unwrap();
        assert!(matches!(second, Ok(()) | Err(Refused::Borrowed)), "{second:?}");
        wait(&done);
        assert_eq!(world.contents(), [1; 2]);
    });
}

#[test]
fn two_threads_with_guards_and_the_pipelines_behind_them_all_end() {
    check(1, || {
        let world = World::new();
        world.guard(0, false).unwrap();
        let other = World::beside(&world, |world| {
            world.guard(1, false).unwrap();
            let crossed = world.get(0, true);
            world.release_guard(1);
            crossed
        });
        let first = World::exec_async(&world, [Some(true), None], 1);
        let second = World::exec_async(&world, [None, Some(true)], 2);
        let crossed = world.get(1, true);
        world.release_guard(0);
        let theirs = other.join().unwrap();
        assert!(matches!(crossed, Ok(0 | 2) | Err(Refused::Borrowed)), "{crossed:?}");
        // The first pipeline waits for this thread's guard from the beginning.
        assert!(matches!(theirs, Ok(0 | 1) | Err(Refused::Borrowed)), "{theirs:?}");
        wait(&first);
        wait(&second);
        assert_eq!(world.contents(), [1, 2]);
    });
}

#[test]
fn a_launch_waits_for_guards_of_others_with_nothing_held() {
    check(2, || {
        let world = World::new();
        let other = World::beside(&world, |world| {
            world.guard(1, false).unwrap();
            let seen = world.get(0, true);
            world.release_guard(1);
            seen
        });
        World::exec(&world, BOTH, 1);
        assert!(matches!(other.join().unwrap(), Ok(0 | 1)));
        assert_eq!(world.contents(), [1; 2]);
    });
}

#[test]
fn a_launch_of_a_thread_with_a_guard_is_refused_behind_a_pipeline_that_waits_for_it() {
    check(2, || {
        let world = World::new();
        world.guard(0, false).unwrap();
        let other = World::beside(&world, |world| wait(&World::exec_async(world, BOTH, 1)));
        let ticket = World::enter(&world, [None, Some(true)]).unwrap();
        if world.order.is_behind_guards(ticket) {
            world.states[1].unpend(true);
            world.order.withdraw(ticket);
        } else {
            World::run_when_called(&world, ticket, [None, Some(true)], 0);
        }
        world.release_guard(0);
        other.join().unwrap();
        assert_eq!(world.contents(), [1; 2]);
    });
}

#[test]
fn a_pipeline_at_the_end_of_its_patience_is_given_up_or_runs_and_what_follows_runs() {
    check(2, || {
        let world = World::new();
        world.guard(0, false).unwrap();
        let first = World::exec_async(&world, BOTH, 1);
        let second = World::exec_async(&world, [None, Some(true)], 2);
        let alarm = World::beside(&world, |world| match world.behind.give_up(0) {
            Some(GuardedPipeline { ticket, .. }) => {
                world.states.iter().for_each(|state| state.unpend(true));
                world.order.withdraw(ticket);
                true
            }
            None => false,
        });
        world.release_guard(0);
        let gave_up = alarm.join().unwrap();
        wait(&second);
        assert_eq!(first.get().is_none(), gave_up);
        assert_eq!(world.contents(), if gave_up { [0, 2] } else { [1, 5] });
    });
}

#[test]
fn what_a_call_reads_refuses_no_launch_and_no_pipeline() {
    check(2, || {
        let world = World::new();
        let other =
            World::beside(&world, |world| [world.get(0, false).unwrap(), world.get(1, false).unwrap()]);
        let done = World::exec_async(&world, [Some(true), None], 1);
        World::exec(&world, BOTH, 1);
        wait(&done);
        let [first, second] = other.join().unwrap();
        assert!(matches!(first, 0 | 1 | 4) && matches!(second, 0 | 1), "{first} {second}");
        assert_eq!(world.contents(), [4, 1]);
    });
}
