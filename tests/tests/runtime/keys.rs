//! Runtime keys: groups, backends, devices, lists, and what the errors list.

use flash::error::KeyError;
use flash::prelude::*;
use flash::{Context, Error};
use flash_backend::physical_cpus;
use flash_tests::in_process;

fn ids(key: &str) -> Vec<String> {
    let rt = get_runtime(key).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(rt.key(), key);
    rt.devices().iter().map(|d| d.id().to_owned()).collect()
}

fn refused(key: &str) -> KeyError {
    match get_runtime(key) {
        Err(Error::Key(error)) => *error,
        other => panic!("expected a key error, found {other:?}"),
    }
}

#[test]
fn groups_backends_and_devices_are_keys() {
    in_process(&[], || {
        for key in [
            "ALL_ACCEL",
            "ALL",
            "ALL_CPU",
            "ALL_CPU:0",
            "ALL_CPU:0,0",
            " ALL_CPU:0 , 0",
            "ALL_CPU,ALL_CPU:0,ALL",
        ] {
            assert_eq!(ids(key), ["ALL_CPU:0"], "{key}");
        }
        let rt = get_runtime("ALL_CPU").unwrap();
        let info = rt.devices()[0].info();
        assert_eq!(
            (&*info.physical_id, info.emulated, info.test, info.host_memory),
            (&*physical_cpus(), false, false, true)
        );
        assert!(info.threads > 0 && info.rate_hint > 0.0);
        assert!(format!("{rt:?}").contains("ALL_CPU:0"));
    });
}

#[test]
fn an_unknown_key_is_an_error_that_lists_the_keys() {
    in_process(&[], || {
        let error = refused("ABACUS");
        assert_eq!(
            (error.key(), error.available()),
            ("ABACUS", &["ALL_ACCEL", "ALL", "ALL_CPU", "TEST"].map(String::from)[..])
        );
        // This process was not started with others.
        let unusable: Vec<&str> = error.unusable().iter().map(String::as_str).collect();
        assert!(matches!(&unusable[..], [one] if one.starts_with("RANK (embedded): ")), "{unusable:?}");
        let text = get_runtime("ABACUS:3").unwrap_err().to_string();
        for part in ["`ABACUS:3`", "no backend `ABACUS`", "ALL_ACCEL, ALL, ALL_CPU"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(refused("ALL_CPU,ABACUS").to_string().contains("`ABACUS`"));
        assert!(refused("all_cpu").to_string().contains("`all_cpu`"));
    });
}

#[test]
fn a_bad_index_is_an_error_that_lists_the_devices() {
    for key in ["ALL_CPU:1000", "ALL_CPU:x", "ALL_CPU:", "ALL_CPU:-1", "ALL_CPU:0,1000", "ALL_CPU:0:0"] {
        let text = refused(key).to_string();
        assert!(text.contains("ALL_CPU:0"), "{key}: {text}");
    }
    assert!(refused("ALL:0").to_string().contains("group"));
    assert!(refused("ALL_ACCEL:0").to_string().contains("group"));
}

#[test]
fn an_empty_key_is_an_error() {
    for key in ["", " ", "ALL_CPU,", ",ALL_CPU", "ALL_CPU,,ALL"] {
        assert!(refused(key).to_string().contains("empty"), "`{key}`: {}", refused(key));
    }
    assert!(refused("0").to_string().contains("`0`"), "a number belongs to a backend named before");
}

#[test]
fn a_cpu_split_into_three_has_three_devices_and_the_group_takes_all() {
    in_process(&[("FLASH_CPU_DEVICES", "3"), ("FLASH_CPU_THREADS", "7")], || {
        let rt = get_runtime("ALL_CPU").unwrap();
        let told: Vec<_> =
            rt.devices().iter().map(|d| (d.id(), &*d.info().physical_id, d.info().threads)).collect();
        let part = |k| format!("{}/{k}", physical_cpus());
        let parts = [part(0), part(1), part(2)];
        assert_eq!(
            told,
            [("ALL_CPU:0", &*parts[0], 3), ("ALL_CPU:1", &*parts[1], 2), ("ALL_CPU:2", &*parts[2], 2)]
        );
        let mut all = ids("ALL_ACCEL");
        assert_eq!(all[0], "ALL_CPU:0", "the fastest first");
        all.sort();
        assert_eq!(all, ["ALL_CPU:0", "ALL_CPU:1", "ALL_CPU:2"]);
        assert_eq!(ids("ALL").len(), 3);
        assert_eq!(ids("ALL_CPU:2,0"), ["ALL_CPU:2", "ALL_CPU:0"]);
        assert_eq!(ids("ALL_CPU:1,ALL_CPU"), ["ALL_CPU:1", "ALL_CPU:0", "ALL_CPU:2"]);
        assert_eq!(ids("ALL_CPU:1, 1 ,2,ALL_CPU:1"), ["ALL_CPU:1", "ALL_CPU:2"]);
        assert!(
            refused("ALL_CPU:3").to_string().contains("ALL_CPU:0 (cpu), ALL_CPU:1 (cpu), ALL_CPU:2 (cpu)")
        );
    });
}

#[test]
fn a_value_that_does_not_fit_is_refused_and_in_the_environment_the_default_holds() {
    for (name, value) in
        [("threads", "0"), ("threads", "many"), ("cpu.devices", "-1"), ("cpu.linger_us", "soon")]
    {
        let error = Context::builder().set(name, value).build().unwrap_err().to_string();
        assert!(error.contains(&format!("setting `{name}`")) && error.contains(value), "{error}");
    }
    let throttled = Context::builder().set("cpu.throttle", "2").build().unwrap();
    let text = throttled.runtime("ALL_CPU").unwrap_err().to_string();
    assert!(text.contains("`ALL_CPU` is unavailable") && text.contains("found \"2\""), "{text}");
    match throttled.runtime("ALL_ACCEL") {
        Ok(rt) => assert!(rt.devices().iter().all(|device| !device.id().starts_with("ALL_CPU")), "{rt:?}"),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("not usable: ALL_CPU") && text.contains("cpu.throttle"), "{text}");
        }
    }
    in_process(&[("FLASH_CPU_DEVICES", "many"), ("FLASH_CPU_COPY", "")], || {
        let rt = get_runtime("ALL_CPU").unwrap();
        assert!(rt.devices().len() == 1 && rt.devices()[0].info().host_memory);
    });
}

#[test]
fn the_number_of_threads_is_the_devices() {
    for threads in ["1", "5"] {
        in_process(&[("FLASH_CPU_THREADS", threads)], || {
            let rt = get_runtime("ALL_CPU").unwrap();
            assert_eq!(
                rt.devices()[0].info().threads.to_string(),
                std::env::var("FLASH_CPU_THREADS").unwrap()
            );
        });
    }
}
