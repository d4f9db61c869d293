//! Joining, creating and ending instances.

use crate::{has, over_threads, text};
use flash_hicr::{Error, Managers, Template};
use flash_net::WORLD_VARIABLE;
use flash_tests::in_process;
use flash_tests_hicr::{processes, raw_processes};
use flash_topology::{Core, CpuSet, Host, NumaNode, Socket, Topology};
use std::ffi::OsString;
use std::time::{Duration, Instant};

fn needs(host: Host) -> Template {
    Template { needs: Topology { hosts: vec![host] }, ..Template::default() }
}

fn processors(count: u32) -> Template {
    let core = Core { cpus: (0..count).collect(), ..Core::default() };
    needs(Host { sockets: vec![Socket { number: 0, cores: vec![core] }], ..Host::default() })
}

/// All see the same instances, whose processors are apart.
fn are_apart(hicr: &Managers) -> Result<(), Error> {
    let all = hicr.instances.instances()?;
    for (i, one) in all.iter().enumerate() {
        assert_eq!(one.number as usize, i);
        for other in &all[..i] {
            assert!(one.cpus.intersection(&other.cpus).is_empty(), "{one:?}, {other:?}");
        }
    }
    assert_eq!(all.iter().filter(|one| one.is_root()).count(), 1);
    let mine = hicr.instances.current();
    assert_eq!(hicr.topology.topology()?.hosts[0].cpus(), mine.cpus);
    Ok(())
}

/// The parent makes an instance; both write and read once.
fn meet(hicr: &Managers) -> Result<(), Error> {
    are_apart(hicr)?;
    let slot = hicr.memory.alloc(&hicr.memory.spaces()?[0], 8)?;
    let me = u64::from(hicr.instances.current().number);
    slot.write(0, &(me + 10).to_ne_bytes())?;
    let all = hicr.communication.exchange(1, &[(me, &slot)])?;
    let got = hicr.memory.alloc(&hicr.memory.spaces()?[0], 8)?;
    flash_hicr::copy(&*hicr.communication, got.at(0), all.get(1 - me)?.at(0), 8)?;
    assert_eq!(got.number(0)?, 11 - me);
    hicr.communication.fence(1)
}

/// What a group of one, with at least two processors, does with templates.
fn creates(hicr: &Managers) -> Result<(), Error> {
    let before = hicr.instances.current().cpus;
    let few = before.len() as u32;
    for (template, count, words) in [
        (processors(few), 1, "no instance for this template: there is no host"),
        (processors(1), few as usize, "processors"),
        (
            needs(Host {
                nodes: vec![NumaNode { bytes: u64::MAX, ..NumaNode::default() }],
                ..Host::default()
            }),
            1,
            "bytes of memory",
        ),
        (needs(Host { devices: vec![Default::default()], ..Host::default() }), 1, "no device for any use"),
        (Template::default(), 0, "expected 1 to 1023 of them, found 0"),
    ] {
        has(&text(hicr.instances.create(&template, count)), words);
        assert_eq!(hicr.instances.current().cpus, before, "{words}");
    }
    has(&text(hicr.instances.terminate(1)), "this instance did not create it");
    Ok(())
}

fn has_two_processors(name: &str) -> bool {
    let enough = flash_net::cpus().len() > 1;
    if !enough {
        flash_tests::skip(name, "no second processor: an instance needs one of its own");
    }
    enough
}

#[test]
fn a_thread_creates_threads_with_processors_of_its_own() {
    if !has_two_processors("instances::a_thread_creates_threads_with_processors_of_its_own") {
        return;
    }
    over_threads(1, |hicr| {
        if hicr.instances.instances()?.len() == 2 {
            return meet(&hicr);
        }
        creates(&hicr)?;
        let before = hicr.instances.current().cpus;
        for _ in 0..2 {
            let group = hicr.instances.create(&Template::default(), 1)?;
            assert_eq!(hicr.instances.current().cpus.len(), before.len() - 1);
            meet(&group)?;
            has(&text(group.instances.terminate(1)), "a thread ends by itself");
            drop(group);
            assert_eq!(hicr.instances.current().cpus, before);
        }
        Ok(())
    });
}

/// The part of a created process: a test's name, in a process of its own world.
fn template(name: &str) -> Template {
    let arguments = ["--exact", name, "--nocapture", "--test-threads=1"].map(OsString::from).to_vec();
    Template { arguments: Some(arguments), ..Template::default() }
}

#[test]
fn a_process_creates_processes_with_processors_of_its_own() {
    const NAME: &str = "instances::a_process_creates_processes_with_processors_of_its_own";
    if std::env::var_os(WORLD_VARIABLE).is_some() {
        meet(&flash_hicr::join().unwrap()).unwrap();
        return;
    }
    if !has_two_processors(NAME) {
        return;
    }
    let hicr = flash_hicr::join().unwrap();
    creates(&hicr).unwrap();
    let before = hicr.instances.current().cpus;
    for _ in 0..2 {
        let group = hicr.instances.create(&template(NAME), 1).unwrap();
        assert_ne!(group.instances.instances().unwrap()[1].pid, std::process::id());
        meet(&group).unwrap();
        drop(group);
        assert_eq!(hicr.instances.current().cpus, before);
    }
}

#[test]
fn a_stopped_process_is_lost_and_one_that_computes_is_not() {
    const NAME: &str = "instances::a_stopped_process_is_lost_and_one_that_computes_is_not";
    if std::env::var_os(WORLD_VARIABLE).is_some() {
        let hicr = flash_hicr::join().unwrap();
        // It looks for no frames for longer than the limit.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(500) {
            std::hint::spin_loop();
        }
        hicr.communication.fence(1).unwrap();
        // SAFETY: it stops this process, until it is killed.
        unsafe { libc::raise(libc::SIGSTOP) };
        panic!("it went on");
    }
    if !has_two_processors(NAME) {
        return;
    }
    in_process(&[("FLASH_RANK_TIMEOUT_MS", "100")], || {
        let hicr = flash_hicr::join().unwrap();
        let group = hicr.instances.create(&template(NAME), 1).unwrap();
        group.communication.fence(1).unwrap();
        has(&text(group.communication.fence(2)), "is silent: no sign of life for 100ms; it is stopped");
        group.instances.terminate(1).unwrap();
    });
}

#[test]
fn a_created_process_is_ended_and_then_lost() {
    const NAME: &str = "instances::a_created_process_is_ended_and_then_lost";
    if std::env::var_os(WORLD_VARIABLE).is_some() {
        let hicr = flash_hicr::join().unwrap();
        // Until it is killed.
        let error = hicr.communication.fence(1);
        panic!("it went on: {error:?}");
    }
    if !has_two_processors(NAME) {
        return;
    }
    let hicr = flash_hicr::join().unwrap();
    let group = hicr.instances.create(&template(NAME), 1).unwrap();
    group.instances.terminate(1).unwrap();
    // It had come to the fence with tag 1.
    has(&text(group.communication.fence(2)), "is gone: its process ended");
    has(&text(group.instances.terminate(2)), "no process that this instance created");
    has(&text(group.instances.terminate(0)), "no process that this instance created");
}

#[test]
fn a_process_that_does_not_join_is_an_error_of_its_creator() {
    const NAME: &str = "instances::a_process_that_does_not_join_is_an_error_of_its_creator";
    if std::env::var_os(WORLD_VARIABLE).is_some() {
        return;
    }
    if !has_two_processors(NAME) {
        return;
    }
    let hicr = flash_hicr::join().unwrap();
    let before = hicr.instances.current().cpus;
    let error = text(hicr.instances.create(&template(NAME), 1).map(drop));
    has(&error, "instance 1 has not joined: it ended before, exit status: 0");
    assert_eq!(hicr.instances.current().cpus, before);
}

#[test]
fn an_instance_is_no_agent_and_uses_its_own_devices() {
    const NAME: &str = "instances::an_instance_is_no_agent_and_uses_its_own_devices";
    processes(NAME, 2, |hicr| {
        // Not served to instance 0: this returns.
        let devices = flash_hicr::devices("ALL_CPU")?;
        assert!(!devices.compute.resources()?.is_empty());
        let agents = text(flash_hicr::devices("RANK"));
        let number = hicr.instances.current().number;
        has(&agents, &format!("has joined its world as instance {number} of flash-hicr"));
        has(&text(flash_hicr::join()), "it uses its world already");
        hicr.communication.fence(1)
    })
    .all_well();
}

#[test]
fn a_world_of_agents_is_not_joined() {
    const NAME: &str = "instances::a_world_of_agents_is_not_joined";
    raw_processes(NAME, 2, || {
        // The second one serves from here on, and ends with the first.
        let rt = flash::get_runtime("RANK").unwrap();
        assert!(!rt.devices().is_empty());
        has(&text(flash_hicr::join()), "it uses its world already, as an instance or for agents");
    })
    .all_well();
}

#[test]
fn a_process_by_itself_is_a_group_of_one() {
    in_process(&[], || {
        let hicr = flash_hicr::join().unwrap();
        assert_eq!(hicr.instances.instances().unwrap().len(), 1);
        let cpus: CpuSet = flash_net::cpus().into_iter().map(|cpu| cpu as u32).collect();
        assert_eq!(hicr.instances.current().cpus, cpus);
        hicr.communication.fence(1).unwrap();
        assert!(hicr.communication.exchange(1, &[]).unwrap().slots().is_empty());
        let slot = hicr.memory.alloc(&hicr.memory.spaces().unwrap()[0], 8).unwrap();
        has(&text(hicr.communication.fence_slot(&slot, 1, 0)), "expected instances to wait for, found none");
    });
}
