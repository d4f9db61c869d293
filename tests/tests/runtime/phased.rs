//! `Phased`: any element as it was when the phase began, the own one for the next.

use flash::kernel;
use flash::kernel::views::{Phased, Read, Scatter, Whole};
use flash::kernel::{CpuItem, CpuSpan, CpuWhole, Index, Space, Span, Threads};
use flash::prelude::*;
use proptest::prelude::*;

/// Two double-buffered arrays that read each other.
#[derive(KernelDefinition)]
#[kernel(name = "phased.mix", dims(i, step), group_by(step))]
struct Mix<'a> {
    /// Items for which (i + step) % skip is 0 set nothing.
    skip: u64,
    #[along(i)]
    a: Phased<'a, u64>,
    #[along(i)]
    b: Phased<'a, [u32; 2]>,
}

struct ByItem;
struct BySpan;
struct ByWhole;

fn next_a(i: usize, a: &[u64], b: &[[u32; 2]]) -> u64 {
    a[i].wrapping_mul(3) ^ a[(i + 1) % a.len()] ^ u64::from(b[b.len() - 1 - i % b.len()][0])
}

fn next_b(i: usize, a: &[u64], b: &[[u32; 2]]) -> [u32; 2] {
    [b[i][1].wrapping_add(a[(i * 7) % a.len()] as u32), b[(i + 3) % b.len()][0]]
}

fn sets(skip: u64, i: usize, step: usize) -> bool {
    !((i + step) as u64).is_multiple_of(skip)
}

#[kernel]
impl CpuItem<Mix<'_>> for ByItem {
    fn item(ix: Index<2>, mut k: MixItem<'_>) {
        let i = ix[Mix::I];
        assert_eq!((k.a.get(i), k.a.len()), (k.a.own(), k.a.was().len()));
        if sets(k.skip, i, ix[Mix::STEP]) {
            let (a, b) = (next_a(i, k.a.was(), k.b.was()), next_b(i, k.a.was(), k.b.was()));
            k.a.set(a);
            assert_eq!(k.a.own(), a);
            k.b.set(b);
        }
    }
}

#[kernel(priority = -1)]
impl CpuSpan<Mix<'_>> for BySpan {
    fn span(run: Span<2>, mut k: MixSpan<'_>) {
        let b_was = k.b.was().to_vec();
        let (a, own) = k.a.split();
        for (n, i) in run.range().enumerate() {
            assert_eq!(own[n], a[i]);
            if sets(k.skip, i, run.first()[Mix::STEP]) {
                own[n] = next_a(i, a, &b_was);
                k.b.own()[n] = next_b(i, a, &b_was);
            }
        }
    }
}

#[kernel(priority = -2)]
impl CpuWhole<Mix<'_>> for ByWhole {
    fn whole(space: Space<'_, Index<2>>, mut k: MixWhole<'_>, _: Threads<'_>) {
        let b_was = k.b.was().to_vec();
        let (a, own) = k.a.split();
        space.for_each(|ix| {
            if sets(k.skip, ix[0], ix[1]) {
                own[ix[0]] = next_a(ix[0], a, &b_was);
                k.b.own()[ix[0]] = next_b(ix[0], a, &b_was);
            }
        });
    }
}

fn model(skip: u64, items: &[usize], steps: usize, a: &mut [u64], b: &mut [[u32; 2]]) {
    for step in 0..steps {
        let (was_a, was_b) = (a.to_vec(), b.to_vec());
        for &i in items.iter().filter(|&&i| sets(skip, i, step)) {
            a[i] = next_a(i, &was_a, &was_b);
            b[i] = next_b(i, &was_a, &was_b);
        }
    }
}

#[flash_tests::test]
fn many_phases_give_what_a_serial_model_gives_through_every_door() {
    let rt = flash_tests::runtime_of_functions();
    let config = ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() };
    let strategy =
        (1..60usize, 0..4usize, 0..4usize, 1..3usize, 0..8usize, 1..4u64, 0..3usize, any::<bool>());
    proptest!(config, |((items, first, behind, stride, steps, skip, passing, parallel) in strategy)| {
        // Elements `first`, `first + stride`, ... have an item, the others none.
        let len = first + items * stride + behind;
        let owners: Vec<usize> = (0..items).map(|i| first + i * stride).collect();
        let a: Vec<u64> = (0..len as u64).map(|i| i * i + 5).collect();
        let b: Vec<[u32; 2]> = (0..len as u32).map(|i| [i, 1000 - i]).collect();
        let (mut a_model, mut b_model) = (a.clone(), b.clone());
        model(skip, &owners, steps, &mut a_model, &mut b_model);
        for door in ["by_item", "by_span", "by_whole"] {
            let mut options = flash_core::descriptor::Attributes::default();
            options.set(Implementation::named(door));
            options.set_by_name("cpu.parallel", parallel.into(), false);
            let dims = ((first..first + items * stride).step_by(stride), steps);
            let (mut a_found, mut b_found) = (a.clone(), b.clone());
            match passing {
                0 => rt.submit(Mix::of(skip, &mut a_found, &mut b_found)).options(options).exec(dims).unwrap(),
                1 => {
                    let (a, b) = (FlashMemory::from(a.clone()), FlashMemory::from(b.clone()));
                    rt.submit(Mix::of(skip, &a, &b)).options(options).exec(dims).unwrap();
                    (a_found, b_found) = (a.read().unwrap().to_vec(), b.read().unwrap().to_vec());
                }
                _ => {
                    let padded_a = FlashMemory::from([&[1, 2, 3], &a[..], &[4]].concat());
                    let padded_b = FlashMemory::from([&b[..], &[[6, 7]]].concat());
                    let (part_a, part_b) = (padded_a.range(3..3 + len).unwrap(), padded_b.range(..len).unwrap());
                    rt.submit(Mix::of(skip, part_a, part_b)).options(options).exec(dims).unwrap();
                    let (all_a, all_b) = (padded_a.read().unwrap(), padded_b.read().unwrap());
                    prop_assert_eq!((&all_a[..3], all_a[3 + len], all_b[len]), (&[1, 2, 3][..], 4, [6, 7]));
                    (a_found, b_found) = (all_a[3..3 + len].to_vec(), all_b[..len].to_vec());
                }
            }
            prop_assert_eq!(&a_found, &a_model, "a by {}", door);
            prop_assert_eq!(&b_found, &b_model, "b by {}", door);
        }
    });
}

#[flash_tests::test]
fn a_thousand_phases_of_all_threads_give_what_a_serial_model_gives() {
    let rt = flash_tests::runtime_of_functions();
    for (n, steps) in [(257, 1000), (100_003, 7)] {
        let (mut a, mut b): (Vec<u64>, Vec<[u32; 2]>) = ((0..n as u64).collect(), vec![[1, 2]; n]);
        let (memory_a, memory_b) = (FlashMemory::from(a.clone()), FlashMemory::from(b.clone()));
        model(3, &(0..n).collect::<Vec<_>>(), steps, &mut a, &mut b);
        rt.submit(Mix::of(3, &memory_a, &memory_b)).exec([n, steps]).unwrap();
        assert!(
            *memory_a.read().unwrap() == *a && *memory_b.read().unwrap() == *b,
            "{n} items, {steps} phases"
        );
    }
}

#[flash_tests::test]
fn a_launch_after_another_starts_from_what_that_one_left() {
    let rt = flash_tests::runtime_of_functions();
    let (mut a, mut b): (Vec<u64>, Vec<[u32; 2]>) = ((0..50).collect(), vec![[1, 2]; 50]);
    let (memory_a, memory_b) = (FlashMemory::from(a.clone()), FlashMemory::from(b.clone()));
    for steps in [1, 2, 1, 3] {
        model(2, &(0..50).collect::<Vec<_>>(), steps, &mut a, &mut b);
        rt.submit(Mix::of(2, &memory_a, &memory_b)).exec([50, steps]).unwrap();
        memory_a.write().unwrap()[7] += 1;
        a[7] += 1;
    }
    assert_eq!((&*memory_a.read().unwrap(), &*memory_b.read().unwrap()), (&a[..], &b[..]));
}

/// One buffer: stage 0 reads any element, stage 1 writes the own one.
#[derive(KernelDefinition)]
#[kernel(name = "phased.staged", dims(i, stage, step), group_by(stage))]
struct Staged<'a> {
    /// 0: as declared. 1: sets while reading. 2, 3: reads any element while writing.
    misuse: u32,
    offset: Whole<'a, Read<u64>>,
    #[along(i)]
    #[phased(stage = [read, write])]
    a: Phased<'a, u64>,
    sum: Scatter<'a, u64>,
}

#[kernel]
impl CpuItem<Staged<'_>> for ByItem {
    fn item(ix: Index<3>, mut k: StagedItem<'_>) {
        if ix[Staged::STAGE] == 0 {
            let next = (ix[Staged::I] + 1) % k.a.len();
            k.sum.add(ix[Staged::I], k.a.get(next) + k.a.was()[next] + k.a.own());
            if k.misuse == 1 {
                k.a.set(0);
            }
        } else {
            match k.misuse {
                2 => _ = k.a.get(0),
                3 => _ = k.a.was(),
                _ => {}
            }
            k.a.set(k.a.own() + k.sum.load(ix[Staged::I]) + k.offset[0]);
        }
    }
}

#[kernel(priority = -1)]
impl CpuSpan<Staged<'_>> for BySpan {
    fn span(run: Span<3>, mut k: StagedSpan<'_>) {
        if run.first()[Staged::STAGE] == 0 {
            if k.misuse == 1 {
                k.a.own()[0] = 0;
            }
            for i in run.range() {
                let (was, len) = (k.a.was(), k.a.was().len());
                k.sum.add(i, 2 * was[(i + 1) % len] + was[i]);
            }
        } else {
            match k.misuse {
                2 => _ = k.a.was(),
                3 => _ = k.a.split(),
                _ => {}
            }
            for (i, own) in run.range().zip(k.a.own()) {
                *own += k.sum.load(i) + k.offset[0];
            }
        }
    }
}

#[flash_tests::test]
fn stages_that_read_any_and_write_the_own_element_need_one_buffer() {
    let rt = flash_tests::runtime_of_functions();
    for door in ["by_item", "by_span"] {
        let n = 500;
        let (mut a, mut sum): (Vec<u64>, Vec<u64>) = ((0..n as u64).collect(), vec![0; n]);
        let (memory, sums) = (FlashMemory::from(a.clone()), FlashMemory::<u64>::zeroed(n));
        rt.submit(Staged::of(0, &vec![9], &memory, &sums))
            .options(Implementation::named(door))
            .exec([n, 2, 5])
            .unwrap();
        for _ in 0..5 {
            for i in 0..n {
                sum[i] = sum[i].wrapping_add(2 * a[(i + 1) % n] + a[i]);
            }
            for i in 0..n {
                a[i] += sum[i] + 9;
            }
        }
        assert_eq!((&*memory.read().unwrap(), &*sums.read().unwrap()), (&a[..], &sum[..]), "{door}");
    }
}

#[flash_tests::test]
fn using_an_array_against_its_stage_is_an_error_of_the_launch() {
    let rt = flash_tests::runtime_of_functions();
    for door in ["by_item", "by_span"] {
        for (misuse, stage) in [(1, "`read`"), (2, "`write`"), (3, "`write`")] {
            let (offset, a, sum) = ([0], FlashMemory::<u64>::zeroed(4), FlashMemory::<u64>::zeroed(4));
            let submission =
                rt.submit(Staged::of(misuse, &offset[..], &a, &sum)).options(Implementation::named(door));
            let text = submission.exec([4, 2, 1]).unwrap_err().to_string();
            assert!(text.contains("phased.staged") && text.contains(stage), "{door}, {misuse}: {text}");
            assert!(matches!(a.read(), Err(flash::Error::Poisoned)));
        }
    }
}

#[flash_tests::test]
fn a_stage_that_changes_within_a_phase_or_is_not_declared_is_refused() {
    let rt = flash_tests::runtime_of_functions();
    let (a, sum) = (FlashMemory::<u64>::zeroed(4), FlashMemory::<u64>::zeroed(4));
    let launch = || rt.submit(Staged::of(0, &[0][..], &a, &sum));
    let text = launch().exec([4, 3, 1]).unwrap_err().to_string();
    assert!(text.contains("argument `a`") && text.contains("`stage`") && text.contains('2'), "{text}");
    let text = launch().options(group_by(only(["i"]))).exec([1, 2, 1]).unwrap_err().to_string();
    assert!(text.contains("argument `a`") && text.contains("`stage`"), "{text}");
    launch().exec([4, 1, 3]).unwrap();
    assert_eq!(*a.read().unwrap(), [0; 4]);
}
