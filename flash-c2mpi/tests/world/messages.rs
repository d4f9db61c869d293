//! Sending and receiving: tags, order, wildcards, parents, threads, requests.

#![allow(clippy::single_range_in_vec_init)] // index spaces of one dimension

use super::*;
use flash_c2mpi::{ANY_SOURCE, ANY_TAG, Code as ErrorCode, unified};
use flash_tests::Random;
use std::collections::BTreeSet;

#[test]
fn messages_are_received_by_tag_in_any_order_and_of_one_tag_in_the_order_of_sending() {
    let world = world();
    let child = claim(&world, "INCREASE");
    let mut data = [0.0f32; 3];
    let object = increase(0.0, &mut data);
    // Tags 0, 1, 2, 0, 1, 2.
    for number in 0..6 {
        object.set_scalar(0, &(number as f32).to_ne_bytes()).unwrap();
        world.send(&object, child, 0, number % 3).unwrap();
    }
    let mut received = Vec::new();
    for tag in [2, 0, 2, 1, 0, 1] {
        let status = receive(&world, &object, 0, child, tag).unwrap();
        assert_eq!(status, Status { source: child, tag, bytes: 12 });
        received.push(data[2]);
    }
    assert_eq!(received, [2.0, 0.0, 5.0, 1.0, 3.0, 4.0]);
    world.end();
}

#[test]
fn wildcards_take_any_tag_and_any_child_rank() {
    let world = world();
    let [one, other] = [(); 2].map(|()| claim(&world, "INCREASE"));
    let mut data = [0.0f32; 2];
    let object = increase(1.0, &mut data);
    world.send(&object, one, 0, 7).unwrap();
    world.send(&object, other, 0, 8).unwrap();
    let any = |child, tag| receive(&world, &object, 0, child, tag).unwrap();
    assert_eq!(any(other, ANY_TAG).tag, 8);
    assert_eq!(any(ANY_SOURCE, 7).source, one);
    world.send(&object, other, 0, 9).unwrap();
    assert_eq!(any(ANY_SOURCE, ANY_TAG), Status { source: other, tag: 9, bytes: 8 });
    world.end();
}

/// Each thread sends windows of messages and receives them in another order; numbers of all messages come
/// back once, changed by the kernel.
#[test]
fn messages_of_8_threads_with_tags_out_of_order_come_back_exactly_once() {
    let (threads, rounds, window) = (8, 40, 32);
    let world = world();
    let child = claim(&world, "INCREASE");
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let world = &world;
            scope.spawn(move || {
                let mut random = Random(thread as u64);
                let mut data = [0.0f32; 5];
                let address = data.as_mut_ptr();
                let object = increase(0.5, &mut data);
                for round in 0..rounds {
                    let mut tags: Vec<usize> = (0..window).collect();
                    for tag in &tags {
                        unsafe { address.write((round * window + tag) as f32) };
                        world.send(&object, child, 0, (thread * window + tag) as i32).unwrap();
                    }
                    for left in (1..=window).rev() {
                        let tag = tags.swap_remove(random.below(left));
                        receive(world, &object, 0, child, (thread * window + tag) as i32).unwrap();
                        assert_eq!(unsafe { address.read() }, (round * window + tag) as f32 + 0.5);
                    }
                }
            });
        }
    });
    assert_eq!(world.probe_now(0, Wanted { child, tag: ANY_TAG }).unwrap(), None);
    world.end();
}

#[test]
fn threads_that_take_whatever_comes_get_each_message_once() {
    let (threads, each) = (4, 300);
    let world = world();
    let child = claim(&world, "INCREASE");
    let seen = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (world, seen) = (&world, &seen);
            scope.spawn(move || {
                let mut data = [0.0f32; 1];
                let object = increase(1.0, &mut data);
                for number in 0..each {
                    world.send(&object, child, 0, thread * each + number).unwrap();
                }
            });
            scope.spawn(move || {
                let mut data = [0.0f32; 1];
                let object = increase(1.0, &mut data);
                for _ in 0..each {
                    let status = receive(world, &object, 0, ANY_SOURCE, ANY_TAG).unwrap();
                    assert!(seen.lock().unwrap().insert(status.tag), "{status:?} came twice");
                }
            });
        }
    });
    assert_eq!(seen.into_inner().unwrap().len() as i32, threads * each);
    world.end();
}

#[test]
fn a_message_goes_through_three_parent_ranks() {
    let world = world();
    let [increase_it, double_it] = ["INCREASE", "DOUBLE"].map(|alias| claim(&world, alias));
    let object = || {
        let mut data = vec![0.0f32; 4];
        (increase(1.0, &mut data), data)
    };
    std::thread::scope(|scope| {
        let world = &world;
        // Parent 1 doubles what it gets from 0, for 2, which increases it, for 3.
        scope.spawn(move || {
            let (got, data) = object();
            let status = receive(world, &got, 1, increase_it, 5).unwrap();
            assert_eq!((status.source, &data[..]), (increase_it, &[1.0; 4][..]));
            unsafe { world.send_array((data.as_ptr().cast(), 4, float()), double_it, 2, 6).unwrap() };
        });
        scope.spawn(move || {
            let mut data = [0.0f32; 4];
            let target = Target::Array(data.as_mut_ptr().cast(), 4, float());
            unsafe { world.receive(&target, 2, Wanted { child: ANY_SOURCE, tag: 6 }).unwrap() };
            assert_eq!(data, [2.0; 4]);
            world.send(&increase(1.0, &mut data), increase_it, 3, 7).unwrap();
        });
        let (sent, _data) = object();
        world.send(&sent, increase_it, 1, 5).unwrap();
        let (got, data) = object();
        receive(world, &got, 3, increase_it, 7).unwrap();
        assert_eq!(data, [3.0; 4]);
    });
    // The first has nothing, and there are four.
    assert_eq!(world.probe_now(0, Wanted { child: ANY_SOURCE, tag: ANY_TAG }).unwrap(), None);
    let (sent, _data) = object();
    let error = world.send(&sent, increase_it, 4, 0).unwrap_err();
    assert!(error.code == ErrorCode::Rank && error.text.contains("from 0 to 3, found 4"), "{error}");
    world.end();
}

#[test]
fn posted_receives_get_messages_in_the_order_in_which_they_were_posted() {
    let world = world();
    let child = claim(&world, "INCREASE");
    let mut data = [[0.0f32; 1]; 2];
    let [first, second] = data.each_mut().map(|data| increase(0.0, data));
    let wanted = Wanted { child, tag: 3 };
    let posted = [(); 2].map(|()| world.post(0, wanted).unwrap());
    let mut given = [10.0f32];
    let object = increase(1.0, &mut given);
    assert_eq!(unsafe { posted[0].test(&Target::Object(&first)) }.unwrap(), None);
    world.send(&object, child, 0, 3).unwrap();
    object.set_scalar(0, &2f32.to_ne_bytes()).unwrap();
    world.send(&object, child, 0, 3).unwrap();
    // Waited for in the other order.
    unsafe { posted[1].wait(&Target::Object(&second)) }.unwrap();
    let status = unsafe { posted[0].test(&Target::Object(&first)) }.unwrap().unwrap();
    assert_eq!(status, Status { source: child, tag: 3, bytes: 4 });
    let error = unsafe { posted[0].wait(&Target::Object(&first)) }.unwrap_err();
    assert_eq!(error.code, ErrorCode::Request);
    assert_eq!(data, [[11.0], [12.0]]);

    // One that is dropped takes nothing.
    drop(world.post(0, wanted).unwrap());
    world.send(&object, child, 0, 3).unwrap();
    assert_eq!(world.probe(0, wanted).unwrap().bytes, 4);
    receive(&world, &object, 0, child, 3).unwrap();
    world.end();
}

#[test]
fn a_long_message_is_started_and_a_receive_waits_for_its_end() {
    let world = world();
    let child = claim(&world, "GATE");
    let mut data = vec![0u64; 40_000];
    let address = data.as_mut_ptr();
    let object = ComputeObj::new();
    unsafe { object.add_array(whole(), &[40_000], address.cast()).unwrap() };
    let _one = close_gate();
    world.send(&object, child, 0, 1).unwrap();
    // It has come, and has not finished.
    assert_eq!(world.probe_now(0, Wanted { child, tag: 1 }).unwrap(), None);
    assert_eq!(world.probe(0, Wanted { child, tag: ANY_TAG }).unwrap().bytes, 320_000);
    let posted = world.post(0, Wanted { child, tag: 1 }).unwrap();
    assert_eq!(unsafe { posted.test(&Target::Object(&object)) }.unwrap(), None);
    OPEN.store(1, Ordering::SeqCst);
    unsafe { posted.wait(&Target::Object(&object)).unwrap() };
    assert_eq!((data[0], data[39_999]), (1, 40_000));
    world.end();
}

/// A wildcard does not pass over an unfinished message to a later one of the same child rank and tag.
#[test]
fn wildcards_keep_the_order_of_a_child_rank_and_a_tag() {
    let world = world();
    let [child, other] = [(); 2].map(|()| claim(&world, "GATE"));
    let mut data = [vec![0u64; 40_000], vec![0u64; 3]];
    let [long, short] = data.each_mut().map(|data| {
        let object = ComputeObj::new();
        unsafe { object.add_array(whole(), &[data.len() as u64], data.as_mut_ptr().cast()).unwrap() };
        object
    });
    let _one = close_gate();
    world.send(&long, child, 0, 1).unwrap();
    world.send(&short, child, 0, 1).unwrap();
    let any = Wanted { child: ANY_SOURCE, tag: ANY_TAG };
    assert_eq!(world.probe_now(0, any).unwrap(), None, "the second has finished, and is not the first");
    // Another tag's, and another child rank's, may pass.
    world.send(&short, child, 0, 2).unwrap();
    world.send(&short, other, 0, 1).unwrap();
    let next = || receive(&world, &short, 0, ANY_SOURCE, ANY_TAG).unwrap();
    let status = |source, tag, bytes| Status { source, tag, bytes };
    assert_eq!([next(), next()], [status(child, 2, 24), status(other, 1, 24)]);
    OPEN.store(1, Ordering::SeqCst);
    assert_eq!(receive(&world, &long, 0, ANY_SOURCE, 1).unwrap(), status(child, 1, 320_000));
    assert_eq!(next(), status(child, 1, 24));
    world.end();
}

#[test]
fn a_kernel_that_fails_is_an_error_of_the_receive_and_the_next_message_is_fine() {
    let world = world();
    let child = claim(&world, "FAULTY");
    for n in [100usize, 40_000] {
        let mut data = vec![9u64; n];
        let object = ComputeObj::new();
        object.add_scalar(whole(), &7u64.to_ne_bytes()).unwrap();
        unsafe { object.add_array(whole(), &[n as u64], data.as_mut_ptr().cast()).unwrap() };
        world.send(&object, child, 0, 0).unwrap();
        let error = receive(&world, &object, 0, child, 0).unwrap_err();
        assert!(error.code == ErrorCode::Failed && error.text.contains("item 7 is at fault"), "{error}");
        object.set_scalar(0, &u64::MAX.to_ne_bytes()).unwrap();
        world.send(&object, child, 0, 0).unwrap();
        receive(&world, &object, 0, child, 0).unwrap();
        assert_eq!(data[n - 1], n as u64 - 1);
    }
    world.end();
}

#[test]
fn unified_memory_is_the_program_s_again_after_a_failure() {
    let world = world();
    let child = claim(&world, "FAULTY");
    let address = unified::allocate(800).unwrap();
    let object = ComputeObj::new();
    object.add_scalar(whole(), &7u64.to_ne_bytes()).unwrap();
    unsafe { object.add_array(whole(), &[100], address).unwrap() };
    world.send(&object, child, 0, 0).unwrap();
    assert_eq!(receive(&world, &object, 0, child, 0).unwrap_err().code, ErrorCode::Failed);
    object.set_scalar(0, &u64::MAX.to_ne_bytes()).unwrap();
    object.set_dimensions(0, &[0..50]).unwrap();
    unsafe { address.cast::<u64>().add(99).write(5) };
    world.send(&object, child, 0, 0).unwrap();
    receive(&world, &object, 0, child, 0).unwrap();
    assert_eq!(unsafe { [49, 99].map(|i| address.cast::<u64>().add(i).read()) }, [49, 5]);
    object.reset().unwrap();
    unified::free(address).unwrap();
    world.end();
}

#[test]
fn an_empty_object_gets_all_arguments() {
    let world = world();
    let child = claim(&world, "INCREASE");
    let mut data = [1.0f32, 2.0];
    let object = increase(3.0, &mut data);
    world.send(&object, child, 0, 0).unwrap();
    let empty = ComputeObj::new();
    assert_eq!(receive(&world, &empty, 0, child, 0).unwrap().bytes, 8);
    assert_eq!(data, [1.0, 2.0], "what was sent stays as it is");
    let scalar = empty.argument(0).unwrap();
    assert_eq!((scalar.kind as i32, &scalar.scalar[..]), (1, &3f32.to_ne_bytes()[..]));
    let array = empty.argument(1).unwrap();
    assert_eq!((array.kind as i32, &array.shape[..]), (5, &[2][..]));
    let found = unsafe { std::slice::from_raw_parts(array.data.cast::<f32>(), 2) };
    assert_eq!(found, [4.0, 5.0]);
    // It may be sent on.
    world.send(&empty, child, 0, 0).unwrap();
    receive(&world, &empty, 0, child, 0).unwrap();
    assert_eq!(unsafe { empty.argument(1).unwrap().data.cast::<f32>().read() }, 7.0);
    assert_eq!(empty.argument(2).unwrap_err().code, ErrorCode::Argument);
    world.end();
}

#[test]
fn arrays_and_structs_go_without_an_object() {
    let world = world();
    let [double_it, members] = ["DOUBLE", "MEMBERS"].map(|alias| claim(&world, alias));
    let (from, mut to) = ([1.0f32, 2.0, 3.0], [0.0f32; 3]);
    unsafe {
        world.send_array((from.as_ptr().cast(), 3, float()), double_it, 0, 0).unwrap();
        let target = Target::Array(to.as_mut_ptr().cast(), 3, float());
        let status = world.receive(&target, 0, Wanted { child: double_it, tag: 0 }).unwrap();
        assert_eq!((status.bytes, to), (12, [2.0, 4.0, 6.0]));
        // Too little room, another type: the message is lost.
        for (count, element, code) in [(2, float(), ErrorCode::Count), (3, whole(), ErrorCode::Type)] {
            world.send_array((from.as_ptr().cast(), 3, float()), double_it, 0, 0).unwrap();
            let target = Target::Array(to.as_mut_ptr().cast(), count, element);
            let error = world.receive(&target, 0, Wanted { child: double_it, tag: 0 }).unwrap_err();
            assert_eq!(error.code, code, "{error}");
        }
        let pair =
            AnyType::new(&ElementType { name: "halo::Pair".into(), size: 8, align: 4, layout: 0 }).unwrap();
        let of = Pair { x: 1.5, y: 2.0 };
        world.send_array((std::ptr::from_ref(&of).cast(), 1, pair), members, 0, 0).unwrap();
        let target = Target::Array(to.as_mut_ptr().cast(), 3, float());
        world.receive(&target, 0, Wanted { child: members, tag: 0 }).unwrap();
        assert_eq!(to[0], 3.5);
        // INCREASE wants two.
        let child = claim(&world, "INCREASE");
        let error = world.send_array((from.as_ptr().cast(), 3, float()), child, 0, 0).unwrap_err();
        assert!(error.code == ErrorCode::Kernel && error.text.contains("send a compute object"), "{error}");
    }
    world.end();
}

#[test]
fn unified_memory_is_not_copied_and_may_have_one_type_after_the_other() {
    let world =
        with(Context::default(), r#"{"func_alias": "APART", "sw_fid": "halo.increase", "key": "TEST"}"#, "");
    for alias in ["INCREASE", "APART"] {
        let child = claim(&world, alias);
        let address = unified::allocate(4000).unwrap();
        let data = address.cast::<f32>();
        let object = ComputeObj::new();
        object.add_scalar(float(), &1f32.to_ne_bytes()).unwrap();
        unsafe { object.add_array(float(), &[1000], address).unwrap() };
        assert_eq!(object.argument(1).unwrap().kind as i32, 3);
        for round in 0..4 {
            // What the program writes between counts, wherever the array was.
            unsafe { data.add(round).write(100.0) };
            world.send(&object, child, 0, 0).unwrap();
            receive(&world, &object, 0, child, 0).unwrap();
            unsafe {
                assert_eq!(data.add(round).read(), 101.0, "{alias}");
                assert_eq!(data.add(999).read(), (round + 1) as f32, "{alias}");
            }
        }
        // In use as floats.
        let other = ComputeObj::new();
        let error = unsafe { other.add_array(whole(), &[500], address) }.unwrap_err();
        assert!(error.code == ErrorCode::Type && error.text.contains("`f32`"), "{error}");
        // A part of it, as floats.
        other.add_scalar(float(), &0.5f32.to_ne_bytes()).unwrap();
        unsafe { other.add_array(float(), &[10], address.add(400)).unwrap() };
        world.send(&other, child, 0, 0).unwrap();
        receive(&world, &other, 0, child, 0).unwrap();
        unsafe { assert_eq!([99, 100, 109, 110].map(|i| data.add(i).read()), [4.0, 4.5, 4.5, 4.0]) };
        let error = unsafe { other.add_array(float(), &[901], address.add(400)) }.unwrap_err();
        assert_eq!(error.code, ErrorCode::Count, "{error}");
        object.reset().unwrap();
        other.reset().unwrap();
        // Messages of a child rank may still have it.
        world.free(child).unwrap();
        unsafe { other.add_array(whole(), &[500], address).unwrap() };
        unified::free(address).unwrap();
        assert_eq!(unified::free(address).unwrap_err().code, ErrorCode::Argument);
        assert_eq!(other.argument(0).unwrap().shape, [500], "an object keeps what it has");
    }
    world.end();
}

#[test]
fn elements_that_a_launch_leaves_out_stay_as_they_are() {
    let world = world();
    let child = claim(&world, "DOUBLE");
    let (mut from, mut to) = ([1.0f32; 6], [7.0f32; 8]);
    let object = ComputeObj::new();
    unsafe {
        object.add_array(float(), &[6], from.as_mut_ptr().cast()).unwrap();
        object.add_array(float(), &[8], to.as_mut_ptr().cast()).unwrap();
    }
    for (ranges, expected) in [
        (vec![], [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 7.0, 7.0]),
        (vec![2..4], [9.0, 9.0, 2.0, 2.0, 9.0, 9.0, 9.0, 9.0]),
    ] {
        object.set_dimensions(0, &ranges).unwrap();
        world.send(&object, child, 0, 0).unwrap();
        receive(&world, &object, 0, child, 0).unwrap();
        assert_eq!(to, expected);
        to.fill(9.0);
    }
    world.end();
}

#[test]
fn an_array_that_is_two_arguments_is_one() {
    let world = world();
    let child = claim(&world, "THRICE");
    // DOUBLE of data into sum, then INCREASE of sum.
    let (mut data, mut sum) = ([1.0f32, 2.0], [0.0f32; 2]);
    let object = ComputeObj::new();
    unsafe {
        object.add_array(float(), &[2], data.as_mut_ptr().cast()).unwrap();
        object.add_array(float(), &[2], sum.as_mut_ptr().cast()).unwrap();
        object.add_scalar(float(), &10f32.to_ne_bytes()).unwrap();
        object.add_array(float(), &[2], sum.as_mut_ptr().cast()).unwrap();
    }
    for _ in 0..3 {
        world.send(&object, child, 0, 0).unwrap();
        assert_eq!(receive(&world, &object, 0, child, 0).unwrap().bytes, 8);
        assert_eq!((data, sum), ([1.0, 2.0], [12.0, 14.0]));
    }
    world.end();
}

/// Long messages that are received at once, later, by another thread, with a wildcard, after a look, or not
/// at all: what arrives is what was sent, whichever thread runs the kernel.
#[test]
fn long_messages_are_received_in_any_way() {
    const LEN: usize = 20_000;
    let world = world();
    let child = claim(&world, "INCREASE");
    let buffer = world.create_buffer(child, float(), &[LEN as u64]).unwrap();
    let kept = ComputeObj::new();
    kept.add_scalar(float(), &1.0f32.to_ne_bytes()).unwrap();
    world.add_buffer(&kept, buffer).unwrap();
    let mut data = vec![0.0f32; LEN];
    let (address, object) = (data.as_mut_ptr(), increase(1.0, &mut data));
    let (mut own, mut in_buffer) = (0.0, 0.0);
    let mut random = Random(3);
    for round in 0..400 {
        // Mostly at once, so that such messages come to be left to their receivers.
        match random.below(24) {
            0 => {
                world.send(&kept, child, 0, 1).unwrap();
                in_buffer += 1.0;
                let mut found = vec![0.0f32; LEN];
                unsafe { world.read_buffer(buffer, found.as_mut_ptr().cast(), LEN, float()).unwrap() };
                assert_eq!((found[0], found[LEN - 1]), (in_buffer, in_buffer), "{round}");
                receive(&world, &kept, 0, child, 1).unwrap();
                continue;
            }
            1 => {
                world.send(&kept, child, 0, 1).unwrap();
                in_buffer += 1.0;
                world.send(&object, child, 0, 0).unwrap();
                receive(&world, &object, 0, child, 0).unwrap();
                receive(&world, &kept, 0, child, 1).unwrap();
            }
            2 => {
                world.send(&object, child, 1, 0).unwrap();
                let receives = || receive(&world, &object, 1, child, 0).unwrap();
                std::thread::scope(|scope| scope.spawn(receives).join().unwrap());
            }
            3 => {
                world.send(&object, child, 0, 0).unwrap();
                receive(&world, &object, 0, ANY_SOURCE, ANY_TAG).unwrap();
            }
            4 => {
                world.send(&object, child, 0, 0).unwrap();
                // A thread that only looks sees it end.
                let looks = || world.probe_now(0, Wanted { child, tag: 0 }).unwrap().is_some();
                std::thread::scope(|scope| scope.spawn(|| while !looks() {}).join().unwrap());
                receive(&world, &object, 0, child, 0).unwrap();
            }
            5 => {
                let posted = world.post(0, Wanted { child, tag: 0 }).unwrap();
                world.send(&object, child, 0, 0).unwrap();
                unsafe { posted.wait(&Target::Object(&object)).unwrap() };
            }
            6 => {
                let other = claim(&world, "INCREASE");
                for _ in 0..6 {
                    world.send(&object, other, 0, 0).unwrap();
                    receive(&world, &object, 0, other, 0).unwrap();
                    own += 1.0;
                }
                world.send(&object, other, 0, 0).unwrap();
                world.free(other).unwrap();
                continue;
            }
            _ => {
                world.send(&object, child, 0, 0).unwrap();
                receive(&world, &object, 0, child, 0).unwrap();
            }
        }
        own += 1.0;
        assert_eq!(unsafe { (address.read(), address.add(LEN - 1).read()) }, (own, own), "{round}");
    }
    world.end();
}
