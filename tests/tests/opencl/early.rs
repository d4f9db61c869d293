//! What is loaded before it is first used, from the making of a runtime on.

use crate::kernels::{Grid, Scale};
use crate::{Objects, devices};
use flash::prelude::*;
use flash_tests::plugins::{in_child, is_child};
use std::time::{Duration, Instant};

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
        let device = || std::env::var("FLASH_TEST_DEVICE").unwrap();
        in_child(&format!("{k}: compiles"), variables, || {
            let device = device();
            let rt = get_runtime(&device).unwrap();
            // It has looked at all of them when this one's kernel is there, which is loaded last.
            rt.preload::<(Scale<'static>, Grid<'static>)>().unwrap();
            assert_eq!(Objects::of(&device, "kernels").made, 2);
        });
        in_child(&format!("{k}: finds them"), variables, || {
            let device = device();
            let _rt = get_runtime(&device).unwrap();
            let start = Instant::now();
            while Objects::of(&device, "programs").made < 2 {
                assert!(start.elapsed() < Duration::from_secs(60), "{device}: nothing is loaded");
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(Objects::of(&device, "kernels").made, 0, "nobody has asked for a kernel");
            // Other kernels are registered here, too, and would have to be compiled.
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(Objects::of(&device, "programs").made, 2);
        });
        for turn in 0..5 {
            // Drivers do not like to be used while they end.
            in_child(&format!("{k}: ends at once, {turn}"), variables, || {
                get_runtime(&device()).unwrap();
            });
        }
    }
}
