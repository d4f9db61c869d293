//! Instances that are killed: an error of those that wait for them, and no hang.

use crate::has;
use flash_hicr::{Error, Managers, Objects, Producers, Rpc, Shape, Size, channel};
use flash_tests_hicr::processes;
use std::time::Duration;

/// Ends this process at once, as a crash does.
fn killed() -> ! {
    // SAFETY: a signal to this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    unreachable!("it was killed")
}

/// Runs `whole` in instance 0 and `part` in instance 1, which is killed afterwards. `whole` gives the error
/// that it has to have.
fn kill(
    name: &str,
    part: impl FnOnce(&Managers) -> Result<(), Error>,
    whole: impl FnOnce(&Managers) -> Result<Error, Error>,
) {
    let ended = processes(name, 2, |hicr| {
        if hicr.instances.current().number == 1 {
            part(&hicr)?;
            killed();
        }
        let error = whole(&hicr)?;
        assert!(matches!(error, Error::Lost(_)), "{error:?}");
        has(&error.to_string(), "peer 1 `instance 1` (process ");
        has(&error.to_string(), "is gone: its process ended");
        Ok(())
    });
    let statuses = ended.0;
    assert!(statuses[0].success(), "{statuses:?}; the output is above");
    assert!(!statuses[1].success(), "{statuses:?}");
}

fn error<T>(outcome: Result<T, Error>) -> Result<Error, Error> {
    match outcome {
        Err(error) => Ok(error),
        Ok(_) => panic!("expected an error of the lost instance, found none"),
    }
}

fn shape(producer: u32, sharing: Producers) -> Shape {
    Shape {
        tag: 1,
        sharing,
        producers: vec![producer],
        consumer: 1 - producer,
        capacity: 2,
        size: Size::Fixed(4),
    }
}

#[test]
fn at_a_fence() {
    kill("lost::at_a_fence", |_| Ok(()), |hicr| error(hicr.communication.fence(1)));
}

#[test]
fn in_an_exchange() {
    kill("lost::in_an_exchange", |_| Ok(()), |hicr| error(hicr.communication.exchange(1, &[])));
}

#[test]
fn while_a_slot_waits_for_copies() {
    kill(
        "lost::while_a_slot_waits_for_copies",
        |_| Ok(()),
        |hicr| {
            let slot = hicr.memory.alloc(&hicr.memory.spaces()?[0], 8)?;
            error(hicr.communication.fence_slot(&slot, 0, 1))
        },
    );
}

/// A producer whose last messages still come.
fn last_messages(name: &str, sharing: Producers) {
    kill(
        name,
        |hicr| {
            let mut producer = channel(hicr, &shape(1, sharing))?.producer.expect("a producer");
            producer.push_wait(b"abcd")?;
            producer.push_wait(b"efgh").map(drop)
        },
        |hicr| {
            let mut consumer = channel(hicr, &shape(1, sharing))?.consumer.expect("a consumer");
            assert_eq!(consumer.pop_wait()?.bytes, b"abcd");
            assert_eq!(consumer.pop_wait()?.bytes, b"efgh");
            error(consumer.pop_wait())
        },
    );
}

#[test]
fn a_single_producer() {
    last_messages("lost::a_single_producer", Producers::Single);
}

#[test]
fn a_producer_that_locks() {
    last_messages("lost::a_producer_that_locks", Producers::Locking);
}

#[test]
fn a_producer_that_does_not_lock() {
    last_messages("lost::a_producer_that_does_not_lock", Producers::NonLocking);
}

#[test]
fn a_consumer_of_a_full_buffer() {
    kill(
        "lost::a_consumer_of_a_full_buffer",
        |hicr| channel(hicr, &shape(0, Producers::Single)).map(drop),
        |hicr| {
            let mut producer = channel(hicr, &shape(0, Producers::Single))?.producer.expect("a producer");
            producer.push_wait(&[1; 4])?;
            producer.push_wait(&[2; 4])?;
            error(producer.push_wait(&[3; 4]))
        },
    );
}

#[test]
fn with_a_lock() {
    kill(
        "lost::with_a_lock",
        |hicr| {
            let slot = hicr.memory.alloc(&hicr.memory.spaces()?[0], 8)?;
            let all = hicr.communication.exchange(1, &[(1, &slot)])?;
            assert!(hicr.communication.lock(&all.get(1)?)?);
            hicr.communication.fence(1)
        },
        |hicr| {
            let all = hicr.communication.exchange(1, &[])?;
            hicr.communication.fence(1)?;
            error(hicr.communication.wait(&[0, 1], &mut || hicr.communication.lock(&all.get(1)?)))
        },
    );
}

#[test]
fn before_it_answers_a_call() {
    kill(
        "lost::before_it_answers_a_call",
        |hicr| Rpc::new(hicr, 1).map(drop),
        |hicr| {
            let mut rpc = Rpc::new(hicr, 1)?;
            error(rpc.call(1, "anything", &[7; 1_000_000]))
        },
    );
}

#[test]
fn with_an_object_that_is_asked_for() {
    kill(
        "lost::with_an_object_that_is_asked_for",
        |hicr| Objects::new(hicr, 1, 1).map(drop),
        |hicr| {
            let mut objects = Objects::new(hicr, 1, 1)?;
            // Its table is still there, and is empty.
            while hicr.communication.lost(1).is_none() {
                std::thread::yield_now();
            }
            let id = flash_hicr::ObjectId { owner: 1, entry: 0, generation: 1 };
            error(objects.handle(id))
        },
    );
}

/// Everything in turn, without end.
fn work(hicr: &Managers) -> Result<(), Error> {
    let me = hicr.instances.current().number;
    let mut rpc = Rpc::new(hicr, 1)?;
    rpc.register("echo", |_, bytes| Ok(bytes.to_vec()))?;
    let there = channel(hicr, &Shape { tag: 100, ..shape(0, Producers::Single) })?;
    let back = channel(hicr, &Shape { tag: 101, ..shape(1, Producers::Locking) })?;
    let (mut producer, mut consumer) = match me {
        0 => (there.producer.expect("one"), back.consumer.expect("one")),
        _ => (back.producer.expect("one"), there.consumer.expect("one")),
    };
    let space = hicr.memory.spaces()?[0].clone();
    loop {
        producer.push_wait(&[7; 4])?;
        assert_eq!(consumer.pop_wait()?.bytes, [7; 4]);
        match me {
            0 => assert_eq!(rpc.call(1, "echo", &[9; 50_000])?, [9; 50_000]),
            _ => rpc.listen()?,
        }
        let slot = hicr.memory.alloc(&space, 5000)?;
        let all = hicr.communication.exchange(200, &[(me.into(), &slot)])?;
        hicr.communication.wait(&[1 - me], &mut || hicr.communication.lock(&all.get(1)?))?;
        flash_hicr::copy(&*hicr.communication, all.get((1 - me).into())?.at(1), slot.at(0), 4000)?;
        hicr.communication.unlock(&all.get(1)?)?;
        hicr.communication.fence(200)?;
        hicr.communication.release(200);
    }
}

#[test]
fn at_random_moments_of_everything() {
    for _ in 0..10 {
        kill(
            "lost::at_random_moments_of_everything",
            |hicr| {
                let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_micros(u64::from(now.subsec_nanos()) / 7 % 20_000));
                    killed();
                });
                work(hicr)
            },
            |hicr| error(work(hicr)),
        );
    }
}
