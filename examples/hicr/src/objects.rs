//! Data objects and remote calls.

use crate::{Outcome, expect, host_space, of_root, refused, wrong};
use flash_hicr::{Error, Managers, ObjectId, Objects, Producers, Rpc, Shape, Size, channel};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The root publishes two objects, and sends their ids. The others get them.
pub fn objects(hicr: &Managers) -> Outcome {
    const BYTES: u64 = 1 << 20;
    let count = hicr.instances.instances()?.len() as u32;
    let space = host_space(hicr)?;
    let mut objects = Objects::new(hicr, 3000, 2)?;
    let content: Vec<u8> = (0..BYTES).map(|i| (i * i % 253) as u8).collect();
    // A channel to each of the others.
    let mut channels = (1..count).map(|to| {
        channel(
            hicr,
            &Shape {
                tag: 3000 + u64::from(to),
                sharing: Producers::Single,
                producers: vec![0],
                consumer: to,
                capacity: 4,
                size: Size::Fixed(ObjectId::BYTES as u64),
            },
        )
    });
    let channels = channels.by_ref().collect::<Result<Vec<_>, Error>>()?;
    let (mut producers, mut consumers) = (Vec::new(), Vec::new());
    for ends in channels {
        producers.extend(ends.producer);
        consumers.extend(ends.consumer);
    }
    let fence = || hicr.communication.fence(3000);
    if hicr.instances.current().is_root() {
        let slot = hicr.memory.alloc(&space, BYTES)?;
        slot.write(0, &content)?;
        let small = hicr.memory.alloc(&space, 3)?;
        small.write(0, b"abc")?;
        let [large, small_id] = [objects.publish(&slot)?, objects.publish(&small)?];
        refused("a third object in a table of two", objects.publish(&small), "at most 2 objects")?;
        for producer in &mut producers {
            producer.push_wait(&large.to_bytes())?;
            producer.push_wait(&small_id.to_bytes())?;
        }
        fence()?;
        objects.destroy(large)?;
        refused("an object that is destroyed again", objects.destroy(large), "was destroyed")?;
        // Another one takes its place.
        let third = objects.publish(&small)?;
        expect("the entry of the third", third.entry, large.entry)?;
        fence()?;
        fence()?;
        objects.destroy(third)?;
        return Ok(json!({ "instances": count, "bytes": BYTES, "got": 3 * (count - 1) }));
    }
    let mut consumer = consumers.pop().ok_or_else(|| wrong("a channel", "expected one to this instance"))?;
    let id =
        |bytes: Vec<u8>| ObjectId::from_bytes(&bytes).ok_or_else(|| wrong("an id", format!("{bytes:?}")));
    let [large, small] = [id(consumer.pop_wait()?.bytes)?, id(consumer.pop_wait()?.bytes)?];
    let handle = objects.handle(large)?;
    expect("bytes of the object", handle.bytes(), BYTES)?;
    let slot = hicr.memory.alloc(&space, BYTES)?;
    for _ in 0..2 {
        hicr.memory.fill(&slot, 0)?;
        objects.get(&handle, 0, slot.at(0), BYTES)?;
        expect("the object", slot.values::<u8>(0, BYTES as usize)? == content, true)?;
    }
    objects.get(&handle, 777, slot.at(5), 1001)?;
    expect("a part", slot.values::<u8>(5, 1001)?, content[777..1778].to_vec())?;
    refused("a part behind the end", objects.get(&handle, BYTES - 1, slot.at(0), 2), "a copy from bytes")?;
    let small_handle = objects.handle(small)?;
    objects.get(&small_handle, 0, slot.at(0), 3)?;
    expect("the small one", slot.values::<u8>(0, 3)?, b"abc".to_vec())?;
    for wrong in [ObjectId { entry: 99, ..large }, ObjectId { generation: 99, ..large }] {
        refused("an object that never was", objects.handle(wrong), "or never was")?;
    }
    fence()?;
    fence()?;
    refused("a destroyed object", objects.get(&handle, 0, slot.at(0), 1), "was destroyed")?;
    refused("a handle of it", objects.handle(large), "was destroyed")?;
    fence()?;
    of_root(hicr, serde_json::Value::Null)
}

/// The root calls the others, which listen before or after; then it ends them.
pub fn calls(hicr: &Managers) -> Outcome {
    let mut rpc = Rpc::new(hicr, 4000)?;
    let count = hicr.instances.instances()?.len() as u32;
    let served = Arc::new(AtomicU64::new(0));
    let counter = served.clone();
    rpc.register("reversed", |_, bytes| Ok(bytes.iter().rev().copied().collect()))?;
    rpc.register("zeros", |_, bytes| {
        let count = bytes.try_into().map(u64::from_le_bytes).map_err(|_| "expected 8 bytes".to_owned())?;
        Ok(vec![0; count as usize])
    })?;
    rpc.register("caller", |caller, _| Ok(caller.to_le_bytes().to_vec()))?;
    rpc.register("panic", |_, _| std::panic::resume_unwind(Box::new("this function panics")))?;
    rpc.register("served", move |_, _| Ok(counter.load(Relaxed).to_le_bytes().to_vec()))?;
    refused("a name that is taken", rpc.register("panic", |_, _| Ok(Vec::new())), "of that name")?;
    // Calls of each: 2 with the other waiting, 6 sizes there and 4 back, 3 that fail, and the last.
    let calls = 1 + 1 + 6 + 4 + 3 + 1;
    if !hicr.instances.current().is_root() {
        rpc.listen()?;
        served.fetch_add(1, Relaxed);
        // The next call comes before this instance listens.
        hicr.communication.fence(4000)?;
        std::thread::sleep(std::time::Duration::from_millis(2));
        for _ in 1..calls {
            rpc.listen()?;
            served.fetch_add(1, Relaxed);
        }
        return Ok(serde_json::Value::Null);
    }
    for instance in 1..count {
        expect("the caller", rpc.call(instance, "caller", &[])?, 0_u32.to_le_bytes().to_vec())?;
    }
    hicr.communication.fence(4000)?;
    for instance in 1..count {
        expect("a call before it listens", rpc.call(instance, "reversed", b"abc")?, b"cba".to_vec())?;
        for bytes in [0, 1, 8, 32 << 10, (128 << 10) + 1, 500_000] {
            let argument: Vec<u8> = (0..bytes).map(|i| (i % 241) as u8).collect();
            let result = rpc.call(instance, "reversed", &argument)?;
            expect("an argument that came back", result.iter().rev().eq(argument.iter()), true)?;
        }
        for bytes in [0_u64, 1, 100_000, 1_000_000] {
            let result = rpc.call(instance, "zeros", &bytes.to_le_bytes())?;
            expect("bytes of a result", result.len() as u64, bytes)?;
        }
        let unknown = rpc.call(instance, "nothing", &[]);
        refused("an unknown name", unknown, "there is no function of that name")?;
        refused(
            "a function that panics",
            rpc.call(instance, "panic", &[]),
            "it panicked: this function panics",
        )?;
        refused("a function that fails", rpc.call(instance, "zeros", &[1]), "expected 8 bytes")?;
        let found = rpc.call(instance, "served", &[])?;
        expect("calls served before", found, (calls - 1_u64).to_le_bytes().to_vec())?;
    }
    refused("a call to itself", rpc.call(0, "caller", &[]), "expected another instance")?;
    refused("a call to none", rpc.call(count, "caller", &[]), "expected another instance")?;
    Ok(json!({ "instances": count, "calls": calls * u64::from(count - 1) }))
}
