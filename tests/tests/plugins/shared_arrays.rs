//! Arrays that a program shares with its agents: nothing is copied, the bits are the same, and what a lost
//! agent leaves is as without.

use crate::ranks::{LONG, assert_within, is_within, kill};
use flash_core::descriptor::ElementType;
use flash_core::kernel::views::{Item, Read, ReadWrite, Window, Write};
use flash_core::kernel::{CpuItem, Index};
use flash_core::memory::{AnyMemory, AnyType, Transfers};
use flash_core::runtime::AnyArgument;
use flash_core::{Error, FlashMemory, KernelDefinition, RuntimeObj, get_runtime, kernel};
use flash_tests::Random;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Elements of 1 MiB.
const N: usize = 1 << 17;

/// x = 3 x + i, in place.
#[derive(KernelDefinition)]
#[kernel(name = "shared.step", dims(i), part_by(i))]
struct Step<'a> {
    x: Item<'a, ReadWrite<u64>>,
}

/// to[i] = the sum of from[i - 1], from[i] and from[i + 1], as far as they are there.
#[derive(KernelDefinition)]
#[kernel(name = "shared.blur", dims(i), part_by(i, from = stencil(i = 1)))]
struct Blur<'a> {
    from: Window<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

/// to = from + 1, until an item has waited for its process to be killed.
#[derive(KernelDefinition)]
#[kernel(name = "shared.waits", dims(i))]
struct Waits<'a> {
    waits: u32,
    from: Item<'a, Read<u64>>,
    own: Item<'a, ReadWrite<u64>>,
    to: Item<'a, Write<u64>>,
}

struct Plain;

#[kernel]
impl CpuItem<Step<'_>> for Plain {
    fn item(i: Index<1>, k: StepItem<'_>) {
        *k.x = k.x.wrapping_mul(3).wrapping_add(i[0] as u64);
    }
}

#[kernel]
impl CpuItem<Blur<'_>> for Plain {
    fn item(i: Index<1>, k: BlurItem<'_>) {
        let at = |i: usize| if i < N { k.from.at([i, 0, 0]) } else { 0 };
        let i = i[0];
        k.to.set(at(i.wrapping_sub(1)).wrapping_add(at(i)).wrapping_add(at(i + 1)));
    }
}

#[kernel]
impl CpuItem<Waits<'_>> for Plain {
    fn item(i: Index<1>, k: WaitsItem<'_>) {
        k.to.set(*k.from + 1);
        *k.own += 1;
        if k.waits == 1 && i[0] == N / 2 {
            std::fs::write(sign_of(std::process::id()), "").expect("a file can be made");
            std::thread::sleep(LONG);
        }
    }
}

/// The file by which a process says that it is in the middle of a launch.
fn sign_of(process: u32) -> PathBuf {
    std::env::temp_dir().join(format!("flash-shared-arrays-{process}"))
}

/// Bytes that were copied to and from all devices of a runtime.
fn moved(rt: &RuntimeObj) -> u64 {
    let bytes = |t: Transfers| t.to_device.bytes + t.from_device.bytes + t.between_devices.bytes;
    rt.devices().iter().map(|device| bytes(device.transfers())).max().unwrap_or(0)
}

fn stepped(mut values: Vec<u64>) -> Vec<u64> {
    values.iter_mut().zip(0..).for_each(|(x, i)| *x = x.wrapping_mul(3).wrapping_add(i));
    values
}

#[test]
fn an_array_goes_to_an_agent_and_back_without_a_copy() {
    if !is_within() {
        const TEST: &str = "shared_arrays::an_array_goes_to_an_agent_and_back_without_a_copy";
        return assert_within(TEST, Some("3"), &[]);
    }
    let rt = get_runtime("RANK:1").unwrap();
    let other = get_runtime("RANK:2").unwrap();
    let first: Vec<u64> = (0..N as u64).map(|i| i * i).collect();
    let counted: FlashMemory<u64> = (0..N as u64).map(|i| i * i).collect();
    let copied = FlashMemory::from(&first[..]);
    let written = FlashMemory::<u64>::zeroed(N);
    written.write().unwrap().copy_from_slice(&first);
    for x in [&counted, &copied, &written] {
        let (before, mut expected) = (moved(&rt), first.clone());
        for round in 0..4 {
            rt.submit(Step::of(x)).exec([N]).unwrap();
            expected = stepped(expected);
            assert_eq!(*x.read().unwrap(), expected[..], "{round}");
            // Another agent has it, too.
            other.submit(Step::of(x)).exec([N]).unwrap();
            x.write().unwrap()[round] += 1;
            expected = stepped(expected);
            expected[round] += 1;
        }
        assert_eq!(*x.read().unwrap(), expected[..]);
        assert_eq!(moved(&rt) - before, 0, "bytes that were copied");
    }
    // Also arrays that share pages with others, and one that stays where it is.
    let before = moved(&rt);
    let small: Vec<FlashMemory<u64>> = (1..=100).map(|n| (0..n).collect()).collect();
    let mut expected: Vec<Vec<u64>> = (1..=100).map(|n| (0..n).collect()).collect();
    for round in 0..4 {
        for (x, expected) in small.iter().zip(&mut expected) {
            let rt = if round % 2 == 0 { &rt } else { &other };
            rt.submit(Step::of(x)).exec([x.len()]).unwrap();
            x.write().unwrap()[0] += round;
            *expected = stepped(std::mem::take(expected));
            expected[0] += round;
        }
    }
    let same = |(x, expected): (&FlashMemory<u64>, &Vec<u64>)| *x.read().unwrap() == expected[..];
    assert!(small.iter().zip(&expected).all(same));
    let fixed = AnyMemory::fixed(AnyType::new(&ElementType::of::<u64>()).unwrap(), &[N as u64]).unwrap();
    let step = rt.bind("shared.step").unwrap();
    for _ in 0..2 {
        step.launch(&[AnyArgument::Memory(&fixed)][..], [N]).unwrap();
    }
    let bytes = fixed.read(0..N).unwrap();
    let numbers = bytes.chunks(8).map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap()));
    assert!(numbers.eq(stepped(stepped(vec![0; N]))));
    drop(bytes);
    assert_eq!(moved(&rt) - before, 0, "bytes that were copied");
    // What is not of these pages is copied there and back, which is counted.
    let taken = FlashMemory::from(first.clone());
    let before = moved(&rt);
    rt.submit(Step::of(&taken)).exec([N]).unwrap();
    assert_eq!(*taken.read().unwrap(), stepped(first)[..]);
    assert_eq!(moved(&rt) - before, 2 * 8 * N as u64);
    // So is a slice of the program, which is its own.
    let mut slice = vec![1u64; N];
    let before = moved(&rt);
    rt.submit(Step::of(&mut slice[..])).exec([N]).unwrap();
    assert_eq!(slice, stepped(vec![1; N]));
    assert_eq!(moved(&rt) - before, 2 * 8 * N as u64);
}

/// What an agent knows of an array outlasts writes of the host, until only others use it.
#[test]
fn the_host_and_two_agents_take_turns_in_any_order() {
    if !is_within() {
        const TEST: &str = "shared_arrays::the_host_and_two_agents_take_turns_in_any_order";
        return assert_within(TEST, Some("3"), &[]);
    }
    const FEW: usize = 300;
    let places = ["RANK:1", "RANK:2", "ALL_CPU", "RANK"].map(|key| get_runtime(key).unwrap());
    let before = moved(&places[3]);
    let mut random = Random(11);
    for len in [FEW, N] {
        let array: FlashMemory<u64> = (0..len as u64).collect();
        let mut expected: Vec<u64> = (0..len as u64).collect();
        // The same one mostly, as residences are for those.
        let mut at = 0;
        for round in 0..200 {
            if random.below(6) == 0 {
                at = random.below(places.len());
            }
            match random.below(5) {
                0 => {
                    let which = random.below(len);
                    array.write().unwrap()[which] ^= 5;
                    expected[which] ^= 5;
                }
                1 => {
                    let which = random.below(len);
                    assert_eq!(array.get(which).unwrap(), expected[which], "{round}");
                }
                2 => assert_eq!(*array.read().unwrap(), expected[..], "{round}"),
                _ => {
                    places[at].submit(Step::of(&array)).exec([len]).unwrap();
                    expected = stepped(expected);
                }
            }
        }
        assert_eq!(*array.read().unwrap(), expected[..]);
    }
    assert_eq!(moved(&places[3]) - before, 0, "bytes that were copied");
    let element = AnyType::new(&ElementType::of::<u64>()).unwrap();
    let fixed = AnyMemory::fixed(element, &[N as u64]).unwrap();
    assert!(places.iter().all(|rt| rt.devices().iter().all(|device| fixed.is_shared_with(device))));
    let apart = get_runtime("TEST").unwrap();
    assert!(apart.devices().iter().all(|device| !fixed.is_shared_with(device)));
}

/// Bytes of the world's file that are in memory.
fn in_memory() -> u64 {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
    let is_world = |file: &std::fs::DirEntry| {
        std::fs::read_link(file.path()).is_ok_and(|to| to.to_string_lossy().contains("flash-world"))
    };
    let world = files.into_iter().find(is_world).expect("this process has a world");
    std::fs::metadata(world.path()).unwrap().blocks() * 512
}

#[test]
fn memory_is_taken_by_what_touches_it_and_given_back_when_the_array_is_dropped() {
    if !is_within() {
        const TEST: &str =
            "shared_arrays::memory_is_taken_by_what_touches_it_and_given_back_when_the_array_is_dropped";
        return assert_within(TEST, Some("2"), &[]);
    }
    const BYTES: u64 = 64 << 20;
    let rt = get_runtime("RANK").unwrap();
    let before = in_memory();
    let x = FlashMemory::<u64>::zeroed(BYTES as usize / 8);
    assert!(x.read().unwrap().iter().all(|&element| element == 0));
    assert!(in_memory() < before + BYTES / 8, "zeros take nothing");
    // A hundredth of it.
    let part = BYTES as usize / 800;
    rt.submit(Step::of(x.range(..part).unwrap())).exec([part]).unwrap();
    assert!(in_memory() < before + BYTES / 8, "{} bytes", in_memory() - before);
    assert_eq!((x.get(part - 1).unwrap(), x.get(part).unwrap()), (part as u64 - 1, 0));
    rt.submit(Step::of(&x)).exec([x.len()]).unwrap();
    assert!(in_memory() >= before + BYTES);
    let x = x.with_shape([1024, BYTES as usize / 8 / 1024]).unwrap();
    assert_eq!(x.get(part).unwrap(), part as u64);
    drop(x);
    assert!(in_memory() < before + BYTES / 8, "{} bytes are kept", in_memory() - before);
    for round in 0..50 {
        let x = FlashMemory::<u64>::zeroed(N);
        assert_eq!(x.get(N - 1).unwrap(), 0, "what another array has left is not seen");
        rt.submit(Step::of(&x)).exec([N]).unwrap();
        assert_eq!(x.get(N - 1).unwrap(), N as u64 - 1, "{round}");
    }
    assert!(in_memory() < before + BYTES / 8);
}

#[test]
fn processors_of_this_process_and_of_agents_work_on_parts_of_one_array() {
    if !is_within() {
        const TEST: &str =
            "shared_arrays::processors_of_this_process_and_of_agents_work_on_parts_of_one_array";
        return assert_within(TEST, Some("3"), &[]);
    }
    let all = get_runtime("ALL_CPU,RANK").unwrap();
    assert_eq!(all.devices().len(), 3);
    let [one, two] = [0; 2].map(|_| FlashMemory::<u64>::zeroed(N));
    one.write().unwrap().iter_mut().zip(1..).for_each(|(x, i)| *x = i);
    let mut expected: Vec<u64> = (1..=N as u64).collect();
    let blurred = |from: &[u64]| -> Vec<u64> {
        let at = |i: usize| from.get(i).copied().unwrap_or(0);
        (0..from.len()).map(|i| at(i.wrapping_sub(1)).wrapping_add(at(i)).wrapping_add(at(i + 1))).collect()
    };
    // The first launches measure; then each device has its part, and reads what its neighbours have written,
    // which write that again in the next but one.
    for _ in 0..10 {
        let mut pipeline = all.pipeline();
        for _ in 0..4 {
            pipeline = pipeline.submit(Blur::of(&one, &two)).defer([N]);
            pipeline = pipeline.submit(Blur::of(&two, &one)).defer([N]);
            pipeline = pipeline.submit(Step::of(&one)).defer([N]);
            expected = stepped(blurred(&blurred(&expected)));
        }
        pipeline.exec().unwrap();
        assert_eq!(*one.read().unwrap(), expected[..]);
        one.write().unwrap()[7] ^= 1;
        expected[7] ^= 1;
    }
    assert_eq!(moved(&all), 0, "bytes that were copied");
}

#[test]
fn an_agent_that_is_killed_leaves_what_it_read_and_poison_where_it_wrote() {
    if !is_within() {
        const TEST: &str =
            "shared_arrays::an_agent_that_is_killed_leaves_what_it_read_and_poison_where_it_wrote";
        return assert_within(TEST, Some("3"), &[]);
    }
    let rt = get_runtime("RANK:1").unwrap();
    let pid = || rt.devices()[0].query("pid").unwrap().parse::<u32>().unwrap();
    let values = |from: &FlashMemory<u64>| from.read().unwrap().to_vec();
    let from: FlashMemory<u64> = (0..N as u64).collect();
    let [to, own, kept] = [0; 3].map(|_| FlashMemory::<u64>::zeroed(N));
    rt.submit(Step::of(&kept)).exec([N]).unwrap();
    let before = in_memory();
    for _ in 0..2 {
        let lost = pid();
        let begin = Instant::now();
        let error = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !sign_of(lost).exists() && begin.elapsed() < LONG {
                    std::thread::sleep(Duration::from_millis(2));
                }
                kill(lost);
            });
            rt.submit(Waits::of(1, &from, &own, &to)).exec([N]).unwrap_err().to_string()
        });
        std::fs::remove_file(sign_of(lost)).unwrap();
        assert!(error.contains(&lost.to_string()) && begin.elapsed() < LONG, "{error}");
        assert!(values(&from).into_iter().eq(0..N as u64), "what was read");
        assert!(matches!(to.read(), Err(Error::Poisoned)), "what was written");
        assert!(matches!(own.read(), Err(Error::Poisoned)), "what was changed in place");
        assert_eq!(values(&kept), stepped(vec![0; N]), "what was only there");
        // All of it is used again, by the process that takes its place.
        own.fill(5).unwrap();
        rt.submit(Waits::of(0, &from, &own, &to)).exec([N]).unwrap();
        assert_ne!(pid(), lost);
        assert!(values(&to).into_iter().eq(1..=N as u64) && values(&own) == vec![6; N]);
    }
    drop((from, to, own, kept));
    assert!(in_memory() < before, "{} bytes, and {before} before", in_memory());
}

#[test]
fn what_a_child_of_fork_writes_is_its_own() {
    if !is_within() {
        const TEST: &str = "shared_arrays::what_a_child_of_fork_writes_is_its_own";
        return assert_within(TEST, Some("2"), &[]);
    }
    let [rt, here] = ["RANK", "ALL_CPU"].map(|key| get_runtime(key).unwrap());
    let [x, later] = [0; 2].map(|_| FlashMemory::<u64>::zeroed(N));
    x.fill(3).unwrap();
    rt.submit(Step::of(&x)).exec([N]).unwrap();
    x.write().unwrap()[0] = 70;
    let large = FlashMemory::<u64>::zeroed(N * 8);
    // In one page.
    let [small, beside] = [0; 2].map(|_| FlashMemory::<u64>::zeroed(8));
    rt.submit(Step::of(&small)).exec([8]).unwrap();
    let [(mut begun, begins), (mut written, writes)] = [0; 2].map(|_| std::io::pipe().unwrap());
    // SAFETY: the child uses arrays of the host, and ends without the parent's handlers.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut is_own = || {
            // The parent goes on to write there.
            (&begins).write_all(b"!").ok()?;
            written.read_exact(&mut [0]).ok()?;
            (small.get(7).ok()? == 7 && beside.get(0).ok()? == 0).then_some(())?;
            small.fill(9).ok()?;
            x.write().ok()?.iter_mut().for_each(|x| *x += 1);
            // On this thread alone.
            here.submit(Step::of(&x)).exec([N]).ok()?;
            let made = FlashMemory::<u64>::zeroed(N);
            made.fill(8).ok()?;
            // Committed by the child.
            large.fill(9).ok()?;
            later.fill(9).ok()?;
            (x.get(0).ok()? == 213 && large.get(7).ok()? == 9 && made.get(1).ok()? == 8).then_some(())
        };
        let status = if is_own().is_some() { 0 } else { 1 };
        // SAFETY: it ends the child.
        unsafe { libc::_exit(status) };
    }
    begun.read_exact(&mut [0]).unwrap();
    beside.fill(4).unwrap();
    rt.submit(Step::of(&small)).exec([8]).unwrap();
    (&writes).write_all(b"!").unwrap();
    let mut status = 0;
    // SAFETY: waits for the child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child has its own");
    assert_eq!((x.get(0).unwrap(), x.get(1).unwrap()), (70, 10));
    assert_eq!((small.get(7).unwrap(), beside.get(0).unwrap()), (28, 4));
    let made = FlashMemory::<u64>::zeroed(N);
    for zeros in [&made, &large, &later] {
        assert!(zeros.read().unwrap().iter().all(|&element| element == 0));
    }
    rt.submit(Step::of(&large)).exec([N * 8]).unwrap();
    assert_eq!(large.get(7).unwrap(), 7);
}
