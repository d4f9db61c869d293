//! Child ranks on devices of agents whose processes end.

#![allow(clippy::single_range_in_vec_init)] // index spaces of one dimension

use super::*;
use flash_c2mpi::{Code as ErrorCode, Failsafe, unified};
use flash_core::agent_here;

/// More than runs in the call that sends.
const LONG: usize = 40_000;

/// What holds kernels up until it is dropped.
struct Hold(u64);

impl Hold {
    fn new() -> Hold {
        let hold = Hold(u64::from(std::process::id()));
        std::fs::write(hold_file(hold.0), "").unwrap();
        hold
    }

    /// Kills an agent while a kernel there is held up.
    fn kill(self, device: &str) {
        while std::fs::read(hold_file(self.0)).unwrap().is_empty() {
            std::thread::yield_now();
        }
        kill(device);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(hold_file(self.0));
    }
}

/// Runs in a process that may have agents, with two devices of TEST.
fn with_agents(body: impl FnOnce(Arc<World>), name: &str) {
    flash_tests::in_process_of(&format!("agents::{name}"), &[("FLASH_TEST", "devices=2")], || {
        agent_here();
        body(world());
    });
}

/// A child rank on one of the devices of a key, all of which are there.
fn claim_on(world: &Arc<World>, alias: &str, key: &str, failsafe: Option<Failsafe>) -> i32 {
    let on = |alias, key, failsafe| {
        let mut overrides = Overrides::default();
        [("key", key), ("func_repl", "1")]
            .iter()
            .for_each(|(name, value)| overrides.set(name, value).unwrap());
        world.claim(alias, failsafe, &overrides).unwrap_or_else(|error| panic!("{error}"))
    };
    for key in key.split(',') {
        // Another process serves those that an earlier part of a test has killed.
        let (child, object) = (on("SLOW", key, None), slow(0, &two(false), LONG));
        world.send(&object, child, 0, 0).unwrap();
        receive(world, &object, 0, child, 0).unwrap();
        world.free(child).unwrap();
    }
    on(alias, key, failsafe)
}

/// The only device of a child rank.
fn device(world: &World, child: i32) -> String {
    let devices = world.devices(child).unwrap();
    assert_eq!(devices.len(), 1, "{devices:?}");
    devices[0].clone()
}

/// Ends the process of an agent, and returns when it has ended.
fn kill(device: &str) {
    let rt = Context::default().runtime(device).unwrap();
    let pid = rt.devices()[0].query("pid").unwrap();
    assert!(std::process::Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    let is_there = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with(['Z', 'X']) && !stat.is_empty()
    };
    while is_there() {
        std::thread::yield_now();
    }
}

/// An object of SLOW, or of SLOW_NEXT for one array. The arrays outlive it.
fn slow(hold: u64, arrays: &[*mut u64], len: usize) -> ComputeObj {
    let object = ComputeObj::new();
    object.add_scalar(whole(), &hold.to_ne_bytes()).unwrap();
    for array in arrays {
        unsafe { object.add_array(whole(), &[len as u64], array.cast()).unwrap() };
    }
    object
}

fn fill(array: *mut u64, value: u64) {
    unsafe { std::slice::from_raw_parts_mut(array, LONG) }.fill(value);
}

fn is_all(array: *mut u64, value: u64) -> bool {
    unsafe { std::slice::from_raw_parts(array, LONG) }.iter().all(|x| *x == value)
}

/// Two arrays of the program's own, or that it shares with devices.
fn two(unified: bool) -> [*mut u64; 2] {
    [(); 2].map(|()| match unified {
        true => unified::allocate(8 * LONG).unwrap().cast(),
        false => vec![0u64; LONG].leak().as_mut_ptr(),
    })
}

/// Two agents, in each order.
const KEYS: [&str; 2] = ["ALL_CPU@agent,TEST:0@agent", "TEST:0@agent,ALL_CPU@agent"];

#[test]
fn messages_of_an_agent_that_is_killed_run_on_another_one() {
    let body = |world: Arc<World>| {
        for (key, in_place) in KEYS.into_iter().flat_map(|key| [(key, false), (key, true)]) {
            let child = claim_on(&world, if in_place { "SLOW_NEXT" } else { "SLOW" }, key, None);
            let (lost, hold, arrays) = (device(&world, child), Hold::new(), two(false));
            let [from, to] = arrays;
            let object = slow(hold.0, if in_place { &arrays[..1] } else { &arrays }, LONG);
            for tag in 0..4 {
                fill(from, 10 + tag);
                world.send(&object, child, 0, tag as i32).unwrap();
            }
            hold.kill(&lost);
            for tag in [2, 0, 3, 1] {
                // What the program has written since it sent is not what runs.
                fill(from, 99);
                let status = receive(&world, &object, 0, child, tag as i32);
                let status = status.unwrap_or_else(|error| panic!("{key}, tag {tag}: {error}"));
                assert_eq!(status.bytes, 8 * LONG as u64);
                let (result, expected) = if in_place { (from, 11 + tag) } else { (to, 2 * (10 + tag)) };
                assert!(is_all(result, expected), "{key}, tag {tag}");
            }
            let now = device(&world, child);
            assert_ne!(now, lost);
            // It stays there.
            world.send(&object, child, 0, 9).unwrap();
            receive(&world, &object, 0, child, 9).unwrap();
            assert_eq!(device(&world, child), now);
            world.free(child).unwrap();
        }
    };
    with_agents(body, "messages_of_an_agent_that_is_killed_run_on_another_one");
}

/// What the program writes in unified memory is in pages of an agent at once. Another device that the message
/// moves to has an older copy, and is told.
#[test]
fn a_message_that_moves_has_what_the_program_has_written_last() {
    let body = |world: Arc<World>| {
        let apart = claim_on(&world, "SLOW", "TEST:0", None);
        let child = claim_on(&world, "SLOW", "ALL_CPU@agent,TEST:0", None);
        let (lost, hold, arrays) = (device(&world, child), Hold::new(), two(true));
        let object = slow(0, &arrays, LONG);
        fill(arrays[0], 7);
        world.send(&object, apart, 0, 0).unwrap();
        receive(&world, &object, 0, apart, 0).unwrap();
        assert!(is_all(arrays[1], 14));
        fill(arrays[0], 8);
        object.set_scalar(0, &hold.0.to_ne_bytes()).unwrap();
        world.send(&object, child, 0, 0).unwrap();
        hold.kill(&lost);
        receive(&world, &object, 0, child, 0).unwrap();
        assert!(is_all(arrays[1], 16));
        assert_ne!(device(&world, child), lost);
    };
    with_agents(body, "a_message_that_moves_has_what_the_program_has_written_last");
}

#[test]
fn without_another_device_a_new_process_of_the_same_one_runs_them() {
    let body = |world: Arc<World>| {
        for key in ["ALL_CPU@agent", "TEST:1@agent"] {
            let child = claim_on(&world, "SLOW_NEXT", key, None);
            let (hold, [data, _]) = (Hold::new(), two(false));
            let object = slow(hold.0, &[data], LONG);
            fill(data, 5);
            world.send(&object, child, 0, 0).unwrap();
            hold.kill(&device(&world, child));
            receive(&world, &object, 0, child, 0).unwrap();
            assert!(is_all(data, 6), "{key}");
        }
    };
    with_agents(body, "without_another_device_a_new_process_of_the_same_one_runs_them");
}

#[test]
fn a_result_that_is_gone_with_its_device_is_computed_again() {
    let body = |world: Arc<World>| {
        for (key, unified) in KEYS.into_iter().flat_map(|key| [(key, false), (key, true)]) {
            let child = claim_on(&world, "SLOW", key, None);
            let (lost, arrays) = (device(&world, child), two(unified));
            let object = slow(0, &arrays, LONG);
            // Elements that are left out stay.
            object.set_dimensions(0, &[0..LONG as u64 - 1]).unwrap();
            fill(arrays[0], 7);
            fill(arrays[1], 1);
            world.send(&object, child, 0, 3).unwrap();
            while world.probe_now(0, Wanted { child, tag: 3 }).unwrap().is_none() {
                std::thread::yield_now();
            }
            kill(&lost);
            receive(&world, &object, 0, child, 3).unwrap_or_else(|error| panic!("{key}: {error}"));
            let last = unsafe { [LONG - 2, LONG - 1].map(|i| arrays[1].add(i).read()) };
            assert_eq!(last, [14, 1], "{key}, unified: {unified}");
            world.free(child).unwrap();
        }
    };
    with_agents(body, "a_result_that_is_gone_with_its_device_is_computed_again");
}

/// Each loss is an error that says why the message does not run again, and the next message is fine.
#[test]
fn what_has_state_does_not_move_and_says_so() {
    let body = |world: Arc<World>| {
        for key in KEYS {
            // Unified memory that is changed in place.
            let child = claim_on(&world, "SLOW_NEXT", key, None);
            let (hold, [data, _]) = (Hold::new(), two(true));
            let object = slow(hold.0, &[data], LONG);
            let lost = device(&world, child);
            world.send(&object, child, 0, 0).unwrap();
            hold.kill(&lost);
            let error = receive(&world, &object, 0, child, 0).unwrap_err();
            assert!(error.code == ErrorCode::Device && error.text.contains("in place"), "{error}");
            fill(data, 3);
            world.send(&object, child, 0, 0).unwrap();
            receive(&world, &object, 0, child, 0).unwrap();
            assert!(is_all(data, 4));
            world.free(child).unwrap();

            // An array that a later message writes.
            let child = claim_on(&world, "SLOW", key, None);
            let other = claim(&world, "SLOW");
            let (hold, [from, to]) = (Hold::new(), two(true));
            let (first, second) = (slow(hold.0, &[from, to], LONG), slow(0, &[from, to], LONG));
            let lost = device(&world, child);
            fill(from, 3);
            world.send(&first, child, 0, 0).unwrap();
            world.send(&second, other, 0, 1).unwrap();
            hold.kill(&lost);
            let error = receive(&world, &first, 0, child, 0).unwrap_err();
            assert!(error.code == ErrorCode::Device && error.text.contains("later writes"), "{error}");
            receive(&world, &second, 0, other, 1).unwrap();
            assert!(is_all(to, 6));
            world.free(child).unwrap();

            // A buffer of the child rank, and its messages without one.
            let child = claim_on(&world, "SLOW", key, None);
            let lost = device(&world, child);
            let buffer = world.create_buffer(child, whole(), &[LONG as u64]).unwrap();
            let numbers = vec![4u64; LONG];
            let write = || unsafe { world.write_buffer(buffer, numbers.as_ptr().cast(), LONG, whole()) };
            write().unwrap();
            let (hold, [_, to]) = (Hold::new(), two(false));
            let object = ComputeObj::new();
            object.add_scalar(whole(), &hold.0.to_ne_bytes()).unwrap();
            world.add_buffer(&object, buffer).unwrap();
            unsafe { object.add_array(whole(), &[LONG as u64], to.cast()).unwrap() };
            world.send(&object, child, 0, 0).unwrap();
            hold.kill(&lost);
            let error = receive(&world, &object, 0, child, 0).unwrap_err();
            assert!(error.code == ErrorCode::Device && error.text.contains("buffers of its own"), "{error}");
            assert_eq!(device(&world, child), lost);
            write().unwrap();
            world.send(&object, child, 0, 0).unwrap();
            receive(&world, &object, 0, child, 0).unwrap();
            assert!(is_all(to, 8), "{key}");
            world.free(child).unwrap();
        }
    };
    with_agents(body, "what_has_state_does_not_move_and_says_so");
}

/// A kernel that ends each process that runs it ends three of them, and then it is an error, or the failsafe
/// runs.
#[test]
fn a_kernel_that_ends_its_processes_is_an_error_or_has_a_failsafe() {
    let body = |world: Arc<World>| {
        let failsafe: Failsafe = Arc::new(|object| {
            let array = object.argument(1).map_err(|error| error.text)?;
            unsafe { array.data.cast::<u64>().write(77) };
            Ok(())
        });
        let (hold, [from, to]) = (Hold::new(), two(false));
        let object = slow(hold.0, &[from, to], LONG);
        object.set_scalar(0, &ENDS.to_ne_bytes()).unwrap();
        let child = claim_on(&world, "SLOW", KEYS[0], None);
        world.send(&object, child, 0, 0).unwrap();
        let error = receive(&world, &object, 0, child, 0).unwrap_err();
        assert!(error.code == ErrorCode::Device && error.text.contains("is gone"), "{error}");
        object.set_scalar(0, &0u64.to_ne_bytes()).unwrap();
        world.send(&object, child, 0, 0).unwrap();
        receive(&world, &object, 0, child, 0).unwrap();

        object.set_scalar(0, &ENDS.to_ne_bytes()).unwrap();
        let child = claim_on(&world, "SLOW", KEYS[0], Some(failsafe));
        world.send(&object, child, 0, 0).unwrap();
        receive(&world, &object, 0, child, 0).unwrap();
        assert_eq!(unsafe { from.read() }, 77);
    };
    with_agents(body, "a_kernel_that_ends_its_processes_is_an_error_or_has_a_failsafe");
}
