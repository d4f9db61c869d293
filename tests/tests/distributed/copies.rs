//! Copies between memories, prefetches and evictions, as submissions.

use crate::TWO;
use flash::kernel::views::{Item, ReadWrite};
use flash::kernel::{CpuItem, Index};
use flash::prelude::*;
use flash::recording::{Data, Recording};
use flash::{Error, kernel};
use flash_tests::{Random, in_process};

#[derive(KernelDefinition)]
#[kernel(name = "copies.triple", dims(i))]
struct Triple<'a> {
    of: Item<'a, ReadWrite<u32>>,
}

struct Plain;

#[kernel]
impl CpuItem<Triple<'_>> for Plain {
    fn item(_: Index<1>, k: TripleItem<'_>) {
        *k.of = k.of.wrapping_mul(3);
    }
}

/// A pipeline of copies and kernels is what its steps are on vectors, whatever device has what.
fn is_as_on_vectors(seed: u64) {
    let mut random = Random(seed);
    let mut below = |n: u64| random.next() % n;
    let rt = flash_tests::runtime();
    let shape = [1 + below(6), 1 + below(5), 1 + below(4)];
    let n = shape.iter().product::<u64>();
    let mut model: Vec<Vec<u32>> = (0..3).map(|k| (0..n as u32).map(|i| k * 1000 + i).collect()).collect();
    let memories: Vec<FlashMemory<u32>> = model
        .iter()
        .map(|values| FlashMemory::from(values.clone()).with_shape(&shape[..]).unwrap())
        .collect();
    let mut pipeline = rt.pipeline();
    for _ in 0..1 + below(12) {
        let (from, to) = (below(3) as usize, below(3) as usize);
        let device = rt.devices()[below(rt.devices().len() as u64) as usize];
        match below(6) {
            0 => {
                let of = &memories[from];
                pipeline = pipeline.submit(Triple::of(of)).sizes([[n]]).defer([n as usize]);
                model[from].iter_mut().for_each(|value| *value = value.wrapping_mul(3));
            }
            1 => pipeline = pipeline.prefetch(&memories[from], device),
            2 => pipeline = pipeline.evict(&memories[from], device),
            3 if from != to => {
                let len = below(n + 1);
                let (a, b) = (below(n - len + 1) as usize, below(n - len + 1) as usize);
                let len = len as usize;
                let ranges =
                    (memories[from].range(a..a + len).unwrap(), memories[to].range(b..b + len).unwrap());
                pipeline = pipeline.copy(ranges.0, ranges.1);
                let copied = model[from][a..a + len].to_vec();
                model[to][b..b + len].copy_from_slice(&copied);
            }
            _ if from != to => {
                let extent = shape.map(|len| below(len + 1));
                let begin = [0, 1].map(|_| [0, 1, 2].map(|axis| below(shape[axis] - extent[axis] + 1)));
                let [a, b] = begin.map(|begin| [0, 1, 2].map(|axis| begin[axis]..begin[axis] + extent[axis]));
                pipeline = pipeline.copy_box(&memories[from], &a, &memories[to], &b);
                let flat = |at: [u64; 3]| (at[0] + shape[0] * (at[1] + shape[1] * at[2])) as usize;
                for z in 0..extent[2] {
                    for y in 0..extent[1] {
                        for x in 0..extent[0] {
                            let [source, target] =
                                begin.map(|begin| flat([begin[0] + x, begin[1] + y, begin[2] + z]));
                            model[to][target] = model[from][source];
                        }
                    }
                }
            }
            _ => {}
        }
    }
    let recording =
        Recording::from_bytes(&pipeline.recording(Data::With).unwrap().to_bytes().unwrap()).unwrap();
    pipeline.exec().unwrap();
    for (memory, values) in memories.iter().zip(&model) {
        assert_eq!(*memory.read().unwrap(), values[..], "seed {seed}");
    }
    let replayed = rt.replay(&recording).unwrap();
    for memory in 0..replayed.len() {
        let values = replayed.read::<u32>(memory).unwrap();
        assert!(model.contains(&values), "seed {seed}: memory {memory} of the replay");
    }
}

#[test]
fn copies_and_kernels_in_any_order_are_as_on_vectors() {
    for variables in [&[][..], TWO] {
        in_process(variables, || (0..200).for_each(is_as_on_vectors));
    }
}

#[test]
fn a_copy_runs_where_its_source_is_and_moves_nothing_else() {
    in_process(TWO, || {
        let rt = flash_tests::runtime();
        let (a, b) = (FlashMemory::from(vec![7u32; 1 << 16]), FlashMemory::<u32>::zeroed(1 << 16));
        let device = rt.devices()[1];
        let all = || rt.devices().iter().map(|d| d.transfers()).collect::<Vec<_>>();
        rt.pipeline().prefetch(&a, device).exec().unwrap();
        let before = all();
        rt.pipeline().prefetch(&a, device).copy(&a, &b).exec().unwrap();
        assert_eq!(all(), before, "all of it is there, and copied there");
        assert_eq!(b.read_range(..10).unwrap()[..], [7; 10]);
        let since = device.transfers() - before[1];
        assert_eq!((since.from_device.copies, since.to_device.copies), (1, 0));
        // Evicted, what only the device had is on the host.
        rt.pipeline().evict(&b, device).exec().unwrap();
        let moved = device.transfers();
        assert!(b.read().unwrap().iter().all(|&element| element == 7));
        assert_eq!(device.transfers(), moved);
        // Slices are the host's.
        let mut last = [0u32; 4];
        rt.pipeline().copy(&[1u32, 2, 3, 4][..], b.range(..4).unwrap()).exec().unwrap();
        rt.pipeline().copy(b.range(..4).unwrap(), &mut last[..]).exec().unwrap();
        assert_eq!(last, [1, 2, 3, 4]);
        let handle = rt.pipeline().copy(a.clone(), b.clone()).exec_async();
        assert_eq!(b.get(0).unwrap(), 7);
        handle.wait().unwrap();
    });
}

#[test]
fn copies_that_cannot_be_are_refused_before_anything_runs() {
    let rt = flash_tests::runtime();
    let (a, b) = (FlashMemory::<u32>::zeroed([4, 3]), FlashMemory::<u32>::zeroed(12));
    let refused = |pipeline: Pipeline<'_>, words: &str| {
        let error = pipeline.exec().unwrap_err();
        assert!(matches!(error, Error::Argument { .. }) && error.to_string().contains(words), "{error}");
    };
    refused(rt.pipeline().copy(&a, b.range(1..).unwrap()), "expected 12 elements");
    refused(rt.pipeline().copy(&a, FlashMemory::<f32>::zeroed(12)), "expected elements of u32");
    refused(rt.pipeline().copy(&b, &b), "");
    refused(rt.pipeline().copy(&b, &[0u32; 12][..]), "can only be read");
    refused(rt.pipeline().copy_box(&a, 0..2, &b, 0..2), "a range for each axis");
    refused(rt.pipeline().copy_box(&a, [3..5, 0..1], &b, 0..2), "inside the shape");
    refused(rt.pipeline().copy_box(&a, [0..2, 0..2], &b, 0..4), "extents [2, 2, 1]");
    // Again with another box: it is looked at anew.
    for end in [2, 3, 4, 5] {
        let outcome = rt.pipeline().copy_box(&b, 0..end, &a, [0..end, 0..1]).exec();
        assert_eq!(outcome.is_ok(), end <= 4);
    }
}
