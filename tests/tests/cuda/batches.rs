//! Launches that go to the driver together.

use crate::kernels::{Scale, Wrap};
use crate::{devices, with_emulated};
use flash::prelude::*;

/// `y` after `y += a x` with each of these numbers.
fn after(x: &[f32], y: &[f32], numbers: impl Iterator<Item = f32>) -> Vec<f32> {
    numbers.fold(y.to_vec(), |y, a| x.iter().zip(&y).map(|(x, y)| y + a * x).collect())
}

fn arrays(n: usize) -> [Vec<f32>; 2] {
    [(0..n).map(|i| (i % 17) as f32).collect(), (0..n).map(|i| (i % 5) as f32 * 0.5).collect()]
}

#[test]
fn chains_that_come_again_give_the_same_with_other_numbers_too() {
    for device in devices("batches::chains_that_come_again_give_the_same_with_other_numbers_too") {
        let rt = get_runtime(&device).unwrap();
        let [x, y] = arrays(100);
        for links in [1, 3, 4, 5, 127, 128, 129, 300] {
            let (from, to) = (FlashMemory::from(x.clone()), FlashMemory::from(y.clone()));
            let mut expected = y.clone();
            // Directly, as a graph that is made, as one that is changed; one more number in the middle.
            for round in 0..12 {
                let number = |link: usize| ((link + round * usize::from(round > 4)) % 3) as f32;
                let mut chain = rt.pipeline();
                for link in 0..links {
                    chain = chain.submit(Scale::of(number(link), &from, &to)).defer([100]);
                }
                chain.exec().unwrap();
                expected = after(&x, &expected, (0..links).map(number));
                assert_eq!(*to.read().unwrap(), expected, "{device}, {links} links, round {round}");
            }
        }
    }
}

#[test]
fn a_kept_chain_runs_again_and_again() {
    for device in devices("batches::a_kept_chain_runs_again_and_again") {
        let rt = get_runtime(&device).unwrap();
        let [x, y] = arrays(64);
        let (from, to) = (FlashMemory::from(x.clone()), FlashMemory::from(y.clone()));
        let mut chain = rt.pipeline();
        for link in 0..200 {
            chain = chain.submit(Scale::of((link % 2) as f32, &from, &to)).defer([64]);
        }
        let mut expected = y;
        for _ in 0..5 {
            chain.exec().unwrap();
            expected = after(&x, &expected, (0..200).map(|link| (link % 2) as f32));
        }
        assert_eq!(*to.read().unwrap(), expected, "{device}");
    }
}

#[test]
fn chains_of_other_lengths_and_kernels_do_not_mix() {
    for device in devices("batches::chains_of_other_lengths_and_kernels_do_not_mix") {
        let rt = get_runtime(&device).unwrap();
        let [x, y] = arrays(50);
        let (from, to) = (FlashMemory::from(x.clone()), FlashMemory::from(y.clone()));
        let cells = FlashMemory::from((0..7u64).collect::<Vec<_>>());
        let (mut expected, mut steps) = (y, 0);
        for round in 0..20usize {
            let mut chain = rt.pipeline();
            for link in 0..(4 + round % 3) {
                chain = chain.submit(Scale::of(link as f32, &from, &to)).defer([50]);
                if link % 2 == round % 2 {
                    // It copies what no item owns.
                    chain = chain.submit(Wrap::of(&cells)).defer([7, 3]);
                    steps += 3;
                }
            }
            chain.exec().unwrap();
            expected = after(&x, &expected, (0..(4 + round % 3)).map(|link| link as f32));
        }
        assert_eq!(*to.read().unwrap(), expected, "{device}");
        let wrapped: Vec<u64> = (0..7).map(|i| (i + steps) % 7 + steps).collect();
        assert_eq!(*cells.read().unwrap(), wrapped, "{device}");
    }
}

#[test]
fn copies_between_kernels_are_part_of_a_graph() {
    let test = "batches::copies_between_kernels_are_part_of_a_graph";
    // Three phases with a copy before each, and one behind them: the first time alone they go one by one.
    with_emulated(test, &[("FLASH_EMULATED_CUDA_FAULT", "cuMemcpyDtoDAsync:5=1")], || {
        let rt = get_runtime("NVIDIA_GPU").unwrap();
        // More arrays than graphs of one shape: some are changed.
        for n in (7..17).chain(7..12) {
            let cells = FlashMemory::from((0..n).collect::<Vec<u64>>());
            for round in 1..4 {
                rt.submit(Wrap::of(&cells)).exec([n, 3]).unwrap();
                let wrapped: Vec<u64> = (0..n).map(|i| (i + 3 * round) % n + 3 * round).collect();
                assert_eq!(*cells.read().unwrap(), wrapped, "{n} cells, round {round}");
            }
        }
    });
}

#[test]
fn threads_share_a_device() {
    for device in devices("batches::threads_share_a_device") {
        let rt = &get_runtime(&device).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    let [x, y] = arrays(80);
                    let (from, to) = (FlashMemory::from(x.clone()), FlashMemory::from(y.clone()));
                    let mut expected = y;
                    for round in 0..30 {
                        let links = 1 + (round * 7 + thread) % 9;
                        let mut chain = rt.pipeline();
                        for link in 0..links {
                            chain = chain.submit(Scale::of(link as f32, &from, &to)).defer([80]);
                        }
                        chain.exec().unwrap();
                        expected = after(&x, &expected, (0..links).map(|link| link as f32));
                    }
                    assert_eq!(*to.read().unwrap(), expected, "thread {thread}");
                });
            }
        });
    }
}

#[test]
fn pipelines_that_are_not_waited_for_end_all_the_same() {
    for device in devices("batches::pipelines_that_are_not_waited_for_end_all_the_same") {
        let rt = get_runtime(&device).unwrap();
        let [x, y] = arrays(90);
        let (from, to) = (FlashMemory::from(x.clone()), FlashMemory::from(y.clone()));
        let handles: Vec<_> = (0..40)
            .map(|k| rt.submit(Scale::of(k as f32, from.clone(), to.clone())).defer([90]).exec_async())
            .collect();
        handles.into_iter().enumerate().filter(|(k, _)| k % 3 == 0).for_each(|(_, h)| h.wait().unwrap());
        assert_eq!(*to.read().unwrap(), after(&x, &y, (0..40).map(|k| k as f32)), "{device}");
    }
}

#[test]
fn a_profile_has_the_time_on_the_device() {
    for device in devices("batches::a_profile_has_the_time_on_the_device") {
        let (rt, profile) = (get_runtime(&device).unwrap(), Profile::new());
        let [x, y] = arrays(1000);
        let (from, to) = (FlashMemory::from(x.clone()), FlashMemory::from(y.clone()));
        rt.submit(Scale::of(1.0, &from, &to)).exec([1000]).unwrap();
        rt.submit(Scale::of(2.0, &from, &to)).options(&profile).exec([1000]).unwrap();
        assert_eq!(*to.read().unwrap(), after(&x, &y, [1.0, 2.0].into_iter()));
        let launches = profile.take();
        assert_eq!(launches.len(), 1);
        assert!(launches[0].nanoseconds > 0, "{launches:?}");
    }
}
