//! Programs that are loaded before their first use, from the making of a runtime on.

use crate::binaries::binary_for;
use crate::kernels::{BINARY, Binary, Grid, Scale};
use crate::{Objects, devices};
use flash::prelude::*;
use flash_tests::plugins::{in_child, is_child};
use std::time::{Duration, Instant};

/// Waits until this number of programs is loaded, without a request for any kernel.
fn are_loaded(device: &str, programs: u64) {
    let start = Instant::now();
    while Objects::of(device, "programs").made < programs {
        assert!(start.elapsed() < Duration::from_secs(60), "{device}: nothing is loaded");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(Objects::of(device, "kernels").made, 0, "no kernel was asked for");
}

#[test]
fn programs_on_disk_are_loaded_when_a_runtime_is_made_and_no_others() {
    let test = "early::programs_on_disk_are_loaded_when_a_runtime_is_made_and_no_others";
    let place = tempfile::tempdir().unwrap();
    let devices = if is_child() { (0..3).map(|_| String::new()).collect() } else { devices(test) };
    for (k, device) in devices.iter().enumerate() {
        let variables = || {
            let cache = place.path().join(k.to_string());
            vec![("FLASH_CACHE_DIR", cache.into()), ("FLASH_TEST_DEVICE", device.into())]
        };
        let here = || std::env::var("FLASH_TEST_DEVICE").unwrap();
        in_child(&format!("{k}: compiles"), variables, || {
            let device = here();
            let rt = get_runtime(&device).unwrap();
            // It has looked at all of them when this one's kernel is there, which is loaded last.
            rt.preload::<(Scale<'static>, Grid<'static>)>().unwrap();
            assert_eq!(Objects::of(&device, "kernels").made, 2);
        });
        in_child(&format!("{k}: finds them"), variables, || {
            let device = here();
            let _rt = get_runtime(&device).unwrap();
            are_loaded(&device, 2);
            // Other kernels are registered here, too, and would have to be compiled.
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(Objects::of(&device, "programs").made, 2);
        });
        let binary = place.path().join(format!("{k}.bin"));
        let with_binary = || {
            std::fs::write(&binary, binary_for(device)).unwrap();
            let empty = place.path().join(format!("{k}, empty"));
            vec![
                ("FLASH_CACHE_DIR", empty.into()),
                ("FLASH_TEST_DEVICE", device.into()),
                (BINARY, binary.clone().into_os_string()),
            ]
        };
        in_child(&format!("{k}: loads binaries"), with_binary, || {
            let device = here();
            let rt = get_runtime(&device).unwrap();
            are_loaded(&device, 1);
            let (x, y) = (FlashMemory::from([2.0f32; 9]), FlashMemory::from([1.0f32; 9]));
            rt.submit(Binary::of(3.0, &x, &y)).exec([9]).unwrap();
            assert_eq!(*y.read().unwrap(), [7.0; 9], "{device}");
            assert_eq!(Objects::of(&device, "programs").made, 1, "{device}: it was loaded again");
        });
        for turn in 0..5 {
            // Drivers may fail if they are used while they shut down.
            in_child(&format!("{k}: ends at once, {turn}"), variables, || {
                get_runtime(&here()).unwrap();
            });
        }
    }
}
