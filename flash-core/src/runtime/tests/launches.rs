use super::kernels::*;
use super::{fresh, runtimes, serial};
use crate::memory::FlashMemory;
use crate::runtime::{Profile, Scalar};
use crate::{Error, NoImplementation};
use std::sync::Arc;

const NEVER: u64 = u64::MAX;

#[test]
fn doors_and_arguments_of_every_kind() {
    for rt in runtimes() {
        let (x, y) = (FlashMemory::from([1.0f32, 2.0, 3.0, 4.0, 5.0]), FlashMemory::zeroed(5));
        rt.submit(Axpy::of(2.0, &x, &y)).exec([5]).unwrap();
        assert_eq!(*y.read().unwrap(), [2.0, 4.0, 6.0, 8.0, 10.0]);

        let (mut slice, part) = (vec![7u64; 4], FlashMemory::from([1u64, 2, 3, 4, 5, 6]));
        rt.submit(Axpy::of(10, part.range(2..).unwrap(), &mut slice[..])).exec([3]).unwrap();
        assert_eq!(slice, [37, 47, 57, 7]);

        let sums = FlashMemory::zeroed(2);
        let chain = rt.submit(Fill::of(3, NEVER, &part)).defer([6]).submit(Sum::of(&part, &sums));
        chain.exec([2]).unwrap();
        assert_eq!(*sums.read().unwrap(), [18, 18]);

        let (counts, mut largest) = (FlashMemory::zeroed(3), [-1.0]);
        let data = [5u64, 1, 4, 0, 2, 1, 7];
        rt.submit(Histogram::of(&data[..], &counts, &mut largest[..])).exec([7]).unwrap();
        assert_eq!((&*counts.read().unwrap(), largest), (&[1, 4, 2][..], [7.0]));

        let nested = FlashMemory::zeroed(2);
        rt.submit(Nested::of(&nested)).exec([2]).unwrap();
        assert_eq!(*nested.read().unwrap(), [1, 1]);
    }
}

#[test]
fn rows_strides_and_shapes() {
    for rt in runtimes() {
        let rows = FlashMemory::from(vec![1u16, 2, 3, 10, 20, 30]).with_shape([3, 2]).unwrap();
        let turned: FlashMemory<u64> = (0..4).flat_map(|x| [10 * x, 10 * x + 1]).collect();
        let turned = turned.with_shape([2, 4]).unwrap();
        for grid in [FlashMemory::zeroed([4, 2]), FlashMemory::zeroed([5, 3])] {
            let plain = flash_types::descriptor::Implementation::named("plain");
            rt.submit(Grid::of(&rows, &turned, &grid)).exec((4, 2)).unwrap();
            let spans = grid.read().unwrap().to_vec();
            rt.submit(Grid::of(&rows, &turned, &grid)).options(plain).exec((4, 2)).unwrap();
            assert_eq!(*grid.read().unwrap(), spans);
            let nx = grid.shape()[0] as usize;
            assert_eq!((spans[0], spans[3 + nx], spans.len()), ([6, 0], [60, 31], grid.len()));
        }
    }
}

#[test]
fn phases_of_memories_parts_and_slices() {
    for rt in runtimes() {
        for steps in [1u64, 2, 3] {
            let expect: Vec<u64> = (0..4).map(|x| (x + steps) % 4 + steps).collect();
            let whole: FlashMemory<u64> = (0..4).collect();
            rt.submit(Shift::of(&whole)).exec((4, steps)).unwrap();
            assert_eq!(*whole.read().unwrap(), *expect);
            let part: FlashMemory<u64> = [9, 9].into_iter().chain(0..4).collect();
            rt.submit(Slide::of(part.range(2..).unwrap())).exec((4, steps)).unwrap();
            assert_eq!((&part.read().unwrap()[2..], part.get(1).unwrap()), (&*expect, 9));
            let mut slice = [0u64, 1, 2, 3];
            rt.submit(Shift::of(&mut slice[..])).exec((4, steps)).unwrap();
            assert_eq!(slice, *expect);
            // Some elements are no item's own: they keep their value.
            let mut slice = [0u64, 0, 0, 50];
            rt.submit(Slide::of(&mut slice[..])).exec((3, steps)).unwrap();
            assert_eq!((slice[2], slice[3]), (51, 50));
        }
        let (values, sums) = (FlashMemory::from([1u64, 2, 3]), FlashMemory::zeroed(3));
        rt.submit(Stages::of(&values, &sums)).exec((3, 2)).unwrap();
        assert_eq!(*values.read().unwrap(), [6, 7, 8]);
    }
}

#[test]
fn a_failure_poisons_and_what_reads_it_is_left_out() {
    for rt in runtimes() {
        let [a, b, c] = [(); 3].map(|()| FlashMemory::<u64>::zeroed(4));
        let chain = rt.submit(Fill::of(1, 2, &a)).defer([4]);
        let chain = chain.submit(Axpy::of(2, &a, &b)).defer([4]).submit(Fill::of(5, NEVER, &c)).defer([4]);
        for _ in 0..2 {
            let Err(Error::Launch(error)) = chain.exec() else { panic!("it fails") };
            assert_eq!((error.position, &*error.kernel), (0, "test.fill"));
            assert!(error.to_string().contains("fails on purpose"), "{error}");
            assert!(matches!(error.others[..], [ref e] if matches!(e.source, Error::Skipped { .. })));
            assert!(matches!(a.read(), Err(Error::Poisoned)));
            assert!(matches!(b.read(), Err(Error::Poisoned)));
            assert_eq!(*c.read().unwrap(), [5; 4]);
        }
        rt.submit(Fill::of(3, NEVER, &a)).exec([3]).unwrap();
        assert!(matches!(a.read(), Err(Error::Poisoned)), "a part heals nothing");
        rt.submit(Fill::of(3, NEVER, &a)).exec([4]).unwrap();
        assert_eq!(*a.read().unwrap(), [3; 4]);
        b.write().unwrap().fill(1);
        rt.submit(Axpy::of(2, &a, &b)).exec([4]).unwrap();
        assert_eq!(*b.read().unwrap(), [7; 4]);
    }
}

#[test]
fn launches_are_refused_before_anything_runs() {
    let rt = serial();
    let (x, y) = (FlashMemory::from([1u64; 4]), FlashMemory::from([1u64; 4]));
    assert!(matches!(rt.submit(Axpy::of(1, &x, &y)).exec([5]), Err(Error::Argument { .. })));
    assert!(matches!(rt.submit(Axpy::of(1, &x, &y)).exec((2, 2)), Err(Error::Index { .. })));
    assert!(matches!(rt.submit(Axpy::of(1, &x, &x)).exec([4]), Err(Error::Argument { .. })));
    let chain = rt.submit(Axpy::of(1, &x, &y)).defer([4]).submit(Axpy::of(1, &x, &y)).defer([9]);
    assert!(matches!(chain.exec(), Err(Error::Argument { .. })));
    let guard = y.read().unwrap();
    assert!(matches!(rt.submit(Axpy::of(1, &x, &y)).exec([4]), Err(Error::Borrowed { .. })));
    rt.submit(Axpy::of(1, &y, &x)).exec([4]).unwrap();
    assert_eq!((&*guard, &*x.read().unwrap()), (&[1; 4][..], &[2; 4][..]));
}

#[test]
fn kernels_by_name_sizes_options_and_the_failsafe() {
    for rt in runtimes() {
        let (x, y) = (FlashMemory::from([1.0f32, 2.0]), FlashMemory::from([1.0f32, 1.0]));
        let axpy = rt.kernel("test.axpy").unwrap();
        let profile = Profile::new();
        for _ in 0..3 {
            rt.submit(axpy.args((Scalar(2.0f32), &x, &y)).unwrap()).options(&profile).exec([2]).unwrap();
        }
        assert_eq!(*y.read().unwrap(), [7.0, 13.0]);
        let launches = profile.take();
        assert!(launches.len() == 3 && launches.iter().all(|l| matches!(l.nanoseconds, 55 | 77)));
        assert!(matches!(axpy.args((2u8, &x, &y)), Err(Error::Argument { .. })));
        assert!(matches!(rt.kernel("test.none"), Err(Error::NoKernel { .. })));

        let owned = FlashMemory::from([4u64, 5, 6, 7]);
        rt.submit(Axpy::of(1, owned.clone(), owned.range(2..).unwrap()))
            .sizes([[2], [2]])
            .exec([2])
            .unwrap_err();
        let out = FlashMemory::<u64>::zeroed(4);
        rt.submit(Axpy::of(1, owned, &out)).sizes([[4], [4]]).exec([4]).unwrap();
        let error = rt.submit(Orphan::of(1, &out)).exec([4]).unwrap_err();
        assert!(matches!(error, Error::NoImplementation(ref e) if matches!(**e, NoImplementation { .. })));
        let orphan = rt.submit(Orphan::of(30, &out)).failsafe(|args| {
            let a: u64 = args.scalar(0)?;
            assert!(args.scalar::<u32>(0).is_err() && args.read::<u64>(0).is_err());
            args.write::<u64>(1)?.iter_mut().for_each(|v| *v += a);
            assert_eq!(args.read::<u64>(1)?.len(), 4);
            Ok(())
        });
        orphan.exec([4]).unwrap();
        assert_eq!(*out.read().unwrap(), [34, 35, 36, 37]);
    }
}

#[test]
fn elements_that_were_promised_and_not_written_are_found() {
    let [mut rt, _] = fresh();
    Arc::get_mut(&mut rt.inner).unwrap().check_writes = true;
    let out = FlashMemory::<u64>::zeroed(4);
    rt.submit(Fill::of(1, NEVER, &out)).exec([3]).unwrap();
    assert_eq!(*out.read().unwrap(), [1, 1, 1, 0]);
    let error = rt.submit(Lazy::of(&out)).exec([4]).unwrap_err();
    assert!(error.to_string().contains("element 2"), "{error}");
}
