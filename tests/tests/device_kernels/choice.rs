//! The choice among several implementations for a device.

use crate::{devices, ran, with_cpu};
use flash::kernel;
use flash::kernel::views::{Item, Read, ReadWrite, Write};
use flash::kernel::{CpuItem, Element, Index};
use flash::prelude::*;
use flash_core::descriptor::Searchable;

#[derive(KernelDefinition)]
#[kernel(name = "device_kernels.scale", dims(x), part_by(x))]
#[implementations(
    opencl = "kernels.cl", cooperating, for(f32, f64, u64);
    opencl = "kernels.cl", name = "preferred", priority = 5, cooperating, for(f64);
    opencl = "kernels.cl", name = "elsewhere", priority = 9, vendor = "Abacus & Sons", cooperating, for(f64);
    opencl = "kernels.cl", name = "tomorrow", priority = 9, requires = "cl_khr_tomorrow", cooperating, for(f64, u64)
)]
pub struct Scale<'a, T: Element> {
    factor: T,
    x: Item<'a, ReadWrite<T>>,
}

pub struct Plain;

#[kernel(for(f32, u32))]
impl<T: Element + std::ops::Mul<Output = T>> CpuItem<Scale<'_, T>> for Plain {
    fn item(_: Index<1>, k: ScaleItem<'_, T>) {
        *k.x = *k.x * k.factor;
    }
}

#[test]
fn every_device_of_a_runtime_runs_its_part_by_the_code_that_is_for_it() {
    let devices = devices("choice::every_device_of_a_runtime_runs_its_part_by_the_code_that_is_for_it");
    if devices.is_empty() {
        return;
    }
    let (rt, profile) = (with_cpu(&devices), Profile::new());
    let x: FlashMemory<f32> = (0..10_001).map(|i| i as f32).collect();
    let shares = weights(rt.devices().iter().map(|_| 1));
    rt.submit(Scale::of(2.0, &x)).options((&profile, shares)).exec([10_001]).unwrap();
    assert!(x.read().unwrap().iter().enumerate().all(|(i, &x)| x == 2.0 * i as f32));
    let mut expected = vec!["ALL_CPU:0 plain".to_owned()];
    expected.extend(devices.iter().map(|device| format!("{device} kernels.cl")));
    expected.sort();
    assert_eq!(ran(&profile), expected);
}

#[test]
fn a_device_without_an_implementation_is_left_out_and_alone_it_is_an_error() {
    let devices = devices("choice::a_device_without_an_implementation_is_left_out_and_alone_it_is_an_error");
    if devices.is_empty() {
        return;
    }
    let (rt, profile) = (with_cpu(&devices), Profile::new());
    // For u32 there is a function of the CPU, for u64 code for devices.
    let x = FlashMemory::from([1u32, 2, 3]);
    rt.submit(Scale::of(3, &x)).options(&profile).exec([3]).unwrap();
    assert_eq!((x.get(2).unwrap(), ran(&profile)), (9, vec!["ALL_CPU:0 plain".to_owned()]));
    let y = FlashMemory::from([1u64, 2, 3]);
    rt.submit(Scale::of(3, &y)).options(&profile).exec([3]).unwrap();
    assert_eq!(y.get(2).unwrap(), 9);
    assert!(ran(&profile).iter().all(|ran| ran.ends_with(" kernels.cl")));

    let error = get_runtime(&devices[0]).unwrap().submit(Scale::of(3u32, &x)).exec([3]).unwrap_err();
    assert!(matches!(error, flash::Error::NoImplementation(_)), "{error:?}");
    for part in ["`plain` for cpu", &format!("{} runs implementations for opencl", devices[0])] {
        assert!(error.to_string().contains(part), "{part} in {error}");
    }
}

#[test]
fn what_a_device_has_not_is_no_candidate_then_vendor_and_priority_decide() {
    for device in devices("choice::what_a_device_has_not_is_no_candidate_then_vendor_and_priority_decide") {
        let (rt, profile) = (get_runtime(&device).unwrap(), Profile::new());
        let x = FlashMemory::from([1.0f64, 2.0]);
        rt.submit(Scale::of(0.5, &x)).options(&profile).exec([2]).unwrap();
        assert_eq!((x.get(1).unwrap(), ran(&profile)), (1.0, vec![format!("{device} preferred")]));
        let tomorrow = || rt.submit(Scale::of(0.5, &x)).options(Implementation::named("tomorrow"));
        let error = tomorrow().exec([2]).unwrap_err();
        assert!(matches!(error, flash::Error::NoImplementation(_)), "{error:?}");
        assert!(error.to_string().contains("cl_khr_tomorrow"), "{error}");
        assert_eq!(x.get(1).unwrap(), 1.0);
    }
}

/// The same kernel, with a factor of single precision: the CPU has one for it, the devices have to widen it.
#[derive(KernelDefinition)]
#[kernel(name = "device_kernels.scale", dims(x), part_by(x), searchable = fuzzy)]
struct ScaleWide<'a> {
    factor: f32,
    x: Item<'a, ReadWrite<f64>>,
}

struct Exact;

#[kernel]
impl CpuItem<ScaleWide<'_>> for Exact {
    fn item(_: Index<1>, k: ScaleWideItem<'_>) {
        *k.x *= f64::from(k.factor);
    }
}

#[test]
fn one_device_takes_the_definitions_numbers_and_another_wider_ones_in_one_launch() {
    let devices =
        devices("choice::one_device_takes_the_definitions_numbers_and_another_wider_ones_in_one_launch");
    if devices.is_empty() {
        return;
    }
    let (rt, profile) = (with_cpu(&devices), Profile::new());
    let x: FlashMemory<f64> = (0..10_001).map(f64::from).collect();
    let shares = || weights(rt.devices().iter().map(|_| 1));
    rt.submit(ScaleWide::of(0.1, &x)).options((&profile, shares())).exec([10_001]).unwrap();
    let factor = f64::from(0.1f32);
    assert!(x.read().unwrap().iter().zip(0..).all(|(&x, i)| x == f64::from(i) * factor));
    let mut expected = vec!["ALL_CPU:0 exact".to_owned()];
    expected.extend(devices.iter().map(|device| format!("{device} preferred")));
    expected.sort();
    assert_eq!(ran(&profile), expected);
    // Alone, again and again, with other numbers.
    for device in &devices {
        let (rt, x) = (get_runtime(device).unwrap(), FlashMemory::from([1.0f64; 3]));
        (1..6).for_each(|i| rt.submit(ScaleWide::of(i as f32, &x)).exec([3]).unwrap());
        assert_eq!(*x.read().unwrap(), [120.0; 3], "{device}");
        let error = rt.submit(ScaleWide::of(1.0, &x)).options(Searchable::Exact).exec([3]).unwrap_err();
        assert!(error.to_string().contains("`Searchable::Fuzzy` would find it"), "{error}");
    }
}

#[derive(KernelDefinition)]
#[kernel(name = "device_kernels.rows", dims(x, y), part_by(y))]
#[implementations(opencl = "kernels.cl", cooperating, build_options = "-DTIMES=7")]
struct Rows<'a> {
    from: Item<'a, Read<u32>>,
    to: Item<'a, Write<u32>>,
}

#[test]
fn one_text_runs_whole_sorted_and_cut() {
    let devices = devices("choice::one_text_runs_whole_sorted_and_cut");
    if devices.is_empty() {
        return;
    }
    let (nx, ny) = (13usize, 9usize);
    let from = (0..nx * ny).map(|i| i as u32).collect::<FlashMemory<u32>>().with_shape([nx, ny]).unwrap();
    let expected: Vec<u32> = (0..nx * ny).map(|i| (7 * i + i % nx + 100 * (i / nx)) as u32).collect();
    let all = get_runtime(&devices.join(",")).unwrap();
    let shares = || weights(devices.iter().map(|_| 1));
    for device in &devices {
        let one = all.options(Devices::key(device));
        for order in [None, Some("x"), Some("y")] {
            let to = FlashMemory::<u32>::zeroed([nx, ny]);
            let submission = one.submit(Rows::of(&from, &to));
            match order {
                None => submission.exec([nx, ny]).unwrap(),
                Some(order) => submission.options(sort_by([order])).exec([nx, ny]).unwrap(),
            }
            assert_eq!(*to.read().unwrap(), expected[..], "{device}, sorted by {order:?}");
        }
    }
    let (to, profile) = (FlashMemory::<u32>::zeroed([nx, ny]), Profile::new());
    all.submit(Rows::of(&from, &to)).options((shares(), &profile)).exec([nx, ny]).unwrap();
    assert_eq!(*to.read().unwrap(), expected[..], "cut");
    assert_eq!(ran(&profile).len(), devices.len());
}

#[derive(KernelDefinition)]
#[kernel(name = "device_kernels.not_a_program", dims(x))]
#[implementations(opencl = "not_a_program.cl", cooperating)]
struct NotAProgram<'a> {
    x: Item<'a, Write<u32>>,
}

#[test]
fn preload_compiles_and_says_what_does_not() {
    for device in devices("choice::preload_compiles_and_says_what_does_not") {
        let rt = get_runtime(&device).unwrap();
        rt.preload::<Scale<f32>>().unwrap();
        rt.preload::<(Scale<f64>, Rows)>().unwrap();
        let error = rt.preload::<(Rows, NotAProgram)>().unwrap_err().to_string();
        for part in ["device_kernels.not_a_program", "not_a_program.cl", "there_is_no_such_thing"] {
            assert!(error.contains(part), "{device}: {part} in {error}");
        }
        // The runtime goes on.
        let x = FlashMemory::from([2.0f32]);
        rt.submit(Scale::of(4.0, &x)).exec([1]).unwrap();
        assert_eq!(x.get(0).unwrap(), 8.0);
    }
}
