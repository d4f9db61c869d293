//! Work-groups: their number of work items, and kernels that are one work item.

use crate::devices;
use crate::kernels::{Far, Scale, Total};
use flash::prelude::*;
use flash_backend::Class;
use flash_core::descriptor::Attributes;
use flash_core::index::Dim;

#[test]
fn a_group_has_the_size_that_the_launch_or_the_text_says() {
    for device in devices("groups::a_group_has_the_size_that_the_launch_or_the_text_says") {
        let rt = get_runtime(&device).unwrap();
        let sizes = |name: &str, size: Option<u64>| {
            let out = FlashMemory::<u32>::zeroed(64);
            let mut options = Attributes::default();
            size.into_iter().for_each(|size| options.set_by_name("work_group_size", size.into(), true));
            let submission = rt.submit(Far::of(&out)).options(options).options(Implementation::named(name));
            submission.exec((64, 1)).map(|()| out.read().unwrap().to_vec())
        };
        assert_eq!(sizes("group sizes", Some(16)).unwrap(), [16; 64], "{device}");
        assert_eq!(sizes("group sizes of 32", None).unwrap(), [32; 64], "{device}");
        let error = sizes("group sizes of 32", Some(16)).unwrap_err().to_string();
        assert!(error.contains("for which the kernel was compiled"), "{device}: {error}");
        // Accumulators belong to groups, of a size that the text knows.
        for (name, size, written_for) in [("groups", 256u64, 64), ("text", 2, 1)] {
            let (values, sum) = (FlashMemory::from(vec![1u64; 999]), FlashMemory::from([0u64]));
            let mut options = Attributes::default();
            options.set_by_name("work_group_size", size.into(), true);
            let total =
                rt.submit(Total::of(&values, &sum)).options(options).options(Implementation::named(name));
            let error = total.exec([999]).unwrap_err().to_string();
            assert!(error.contains(&format!("expected a work-group of {written_for}")), "{device}: {error}");
        }
        let error = sizes("group sizes", Some(1 << 40)).unwrap_err().to_string();
        assert!(error.contains("expected a work-group of up to"), "{device}: {error}");
    }
}

#[test]
fn one_work_item_does_all_where_the_implementation_says_so() {
    for device in devices("groups::one_work_item_does_all_where_the_implementation_says_so") {
        let rt = get_runtime(&device).unwrap();
        let numbers: [f32; 100] = std::array::from_fn(|i| i as f32);
        for name in ["one item", "one plain item"] {
            let (x, y) = (FlashMemory::from(numbers), FlashMemory::from(numbers));
            rt.submit(Scale::of(3.0, &x, &y)).options(Implementation::named(name)).exec([100]).unwrap();
            assert_eq!(*y.read().unwrap(), numbers.map(|x| 4.0 * x), "{device}, {name}");
        }
        let out = FlashMemory::<u32>::zeroed(9);
        rt.submit(Far::of(&out)).options(Implementation::named("fpga")).exec((9, 1)).unwrap();
        let is_fpga = rt.devices()[0].info().class == Class::Fpga;
        assert_eq!(*out.read().unwrap(), [if is_fpga { 7 } else { 5 }; 9], "{device}");
        let (x, y) = (FlashMemory::from(numbers), FlashMemory::from(numbers));
        let late = rt.submit(Scale::of(3.0, &x, &y)).options(Implementation::named("one plain item"));
        let error = late.exec([count_by(50u64..100)]).unwrap_err().to_string();
        assert!(error.contains("an index space that begins with [50]"), "{device}: {error}");
    }
}

#[test]
fn a_thread_has_a_run_of_consecutive_work_items_where_the_implementation_says_so() {
    for device in
        devices("groups::a_thread_has_a_run_of_consecutive_work_items_where_the_implementation_says_so")
    {
        let rt = get_runtime(&device).unwrap();
        let lengths = |n: usize, dims: Dim| {
            let out = FlashMemory::<u32>::zeroed(n);
            let run = rt.submit(Far::of(&out)).options(Implementation::named("runs"));
            run.exec((dims, 1)).map(|()| out.read().unwrap().to_vec())
        };
        for n in [1, 15, 16, 17, 1_000, 100_003] {
            let found = lengths(n, n.into()).unwrap();
            // All but the last have one length, a multiple of the attribute.
            let (run, last) = (found[0] as usize, found[n - 1] as usize);
            let end = n - last;
            assert!(n == last || (run % 16 == 0 && end % run == 0), "{device}, {n}: {run}, {last}");
            assert!(last <= run && found[..end].iter().all(|&x| x as usize == run), "{device}, {n}");
            assert!(found[end..].iter().all(|&x| x as usize == last), "{device}, {n}");
        }
        let found = lengths(100, count_by((0..50u64).map(|i| i * 2))).unwrap();
        assert_eq!(found, [1, 0].repeat(50), "{device}");
        // Other forms of threads exclude it.
        let out = FlashMemory::zeroed(9);
        let one = rt.submit(Far::of(&out)).options(Implementation::named("runs of one item"));
        let error = one.exec((9, 1)).unwrap_err().to_string();
        assert!(error.contains("found one with `single_work_item`"), "{device}: {error}");
        let (values, sum) = (FlashMemory::from([1u64; 9]), FlashMemory::from([0u64]));
        let total = rt.submit(Total::of(&values, &sum)).options(Implementation::named("runs of groups"));
        let error = total.exec([9]).unwrap_err().to_string();
        assert!(error.contains("found one with an accumulator, and work-groups"), "{device}: {error}");
    }
}
