//! Plugins of kernels: which of their implementations run, and what is said of those that cannot.

use crate::Fill;
use crate::command::{Entry, list};
use flash_core::descriptor::{Implementation, Searchable};
use flash_core::devices::{BackendReport, Outcome};
use flash_core::{Context, FlashMemory};
use flash_tests::plugins::{self, Language};
use std::path::{Path, PathBuf};

/// The plugin of `tests/c/kernels.c` with these definitions, as `file`.
fn kernels(file: &Path, definitions: &[&str]) -> PathBuf {
    let flags: Vec<String> = definitions.iter().map(|d| format!("-D{d}")).collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    plugins::shared(Language::C, &plugins::c_source("kernels.c"), &flags, file)
}

#[test]
fn kernels_of_a_plugin_are_used_by_the_embedded_backend() {
    let place = plugins::directory();
    let file = kernels(&place.path().join("kernels.so"), &[]);
    let context = Context::builder().set("plugin_path", place.path().display()).build().unwrap();
    let out = FlashMemory::<u32>::zeroed(1000);
    let cpu = context.runtime("ALL_CPU").unwrap();
    cpu.submit(Fill::of(3, &out)).exec([1000]).unwrap();
    assert_eq!(*out.read().unwrap(), [1003; 1000], "the plugin's has the higher priority");
    for (name, value) in [("plain", 8), ("fast", 1008), ("plain", 8)] {
        cpu.submit(Fill::of(8, &out)).options(Implementation::named(name)).exec([1000]).unwrap();
        assert_eq!(*out.read().unwrap(), [value; 1000], "{name}");
    }
    let report = context.list();
    let plugin = report.iter().find(|r| r.plugin == file.to_str().unwrap()).unwrap();
    assert_eq!((plugin.key.as_deref(), plugin.name.as_deref()), (None, Some("my-kernels 2.1")));
    let implementations: Vec<String> = plugin.implementations.iter().map(ToString::to_string).collect();
    assert_eq!(implementations, ["plugins.fill fast (cpu)"]);
    let message = cpu
        .submit(Fill::of(8, &out))
        .options(Implementation::named("slow"))
        .exec([1000])
        .unwrap_err()
        .to_string();
    assert!(message.contains("`fast` for cpu") && message.contains("kernels.so"), "{message}");
    cpu.submit(Fill::of(8, &out)).options(Searchable::Fuzzy).exec([1000]).unwrap();
    assert_eq!(*out.read().unwrap(), [1008; 1000]);
}

/// Code for other types would run on these arrays.
#[test]
fn a_kernel_in_c_runs_for_the_types_that_it_says() {
    let cases = [
        ("nothing", "", 3),
        ("other types", "[1](u64, Item<Write<u64>> along [0])", 3),
        ("other dimensions", "[2](u32, Item<Write<u32>> along [0])", 3),
        ("other spaces", "[1]( u32,Item<Write<u32>>along[ 0 ] )", 1003),
    ];
    for (name, signature, value) in cases {
        let place = plugins::directory();
        kernels(&place.path().join("kernels.so"), &[&format!("SIGNATURE=\"{signature}\"")]);
        let context = Context::builder().set("plugin_path", place.path().display()).build().unwrap();
        let out = FlashMemory::<u32>::zeroed(100);
        let cpu = context.runtime("ALL_CPU").unwrap();
        cpu.submit(Fill::of(3, &out)).exec([100]).unwrap();
        assert_eq!(*out.read().unwrap(), [value; 100], "{name}");
        for searchable in [Searchable::Exact, Searchable::Fuzzy] {
            let error = cpu.submit(Fill::of(3, &out)).options((searchable, Implementation::named("slow")));
            let message = error.exec([100]).unwrap_err().to_string();
            assert!(message.contains("kernels.so"), "{name}: {message}");
        }
        let named = cpu.submit(Fill::of(8, &out)).options(Implementation::named("fast")).exec([100]);
        match name {
            // The program vouches for it.
            "nothing" | "other spaces" => named.unwrap(),
            _ => assert!(named.unwrap_err().to_string().contains("it takes ["), "{name}"),
        }
    }
}

#[test]
fn implementations_that_could_never_run_are_listed_with_the_reason() {
    let cases: &[(&str, &[&str], &str)] = &[
        ("text", &["SIGNATURE=\"u32\""], "a signature such as `[1](u32, Item<Write<u32>> along [0])`"),
        (
            "none",
            &["FUNCTION=NULL"],
            "a function or code for the implementation `fast` of kernel `plugins.fill`",
        ),
        ("no_json", &["SIGNATURE=\"{not json\""], "found `{not json` ("),
        ("no_name", &["KERNEL=\"\""], "a kernel's name"),
        ("other", &["SIGNATURE=\"{}\""], "or a descriptor in JSON, for the implementation `fast`"),
        ("feature", &["FEATURES=\"avx2,avx9000\""], "found `avx9000` for the implementation `fast`"),
        ("features", &["FEATURES=\"avx51f\""], "write `avx512f`, if that is meant"),
        ("target", &["TARGET=\"CPU\""], "that are here (cpu), found `CPU` for"),
        ("write", &["TARGET=\"CPU\""], "write `cpu`, if that is meant"),
        (
            "strange",
            &["TARGET=\"abacus\""],
            "found `abacus` for the implementation `fast` of kernel `plugins.fill`",
        ),
    ];
    let place = plugins::directory();
    for (name, definitions, _) in cases {
        kernels(&place.path().join(name).with_extension("so"), definitions);
    }
    let entries = list(place.path());
    for (name, _, words) in cases {
        let file = place.path().join(name).with_extension("so");
        let own = entries.iter().filter(|entry| Path::new(&entry.plugin) == file);
        let reasons: Vec<&str> = own.filter_map(|entry| entry.reason.as_deref()).collect();
        assert!(reasons.len() == 1 && reasons[0].contains(words), "{name}: {reasons:?}");
    }
}

#[test]
fn kernels_of_a_rust_plugin_are_used_by_the_embedded_backend() {
    use flash::kernels::nbody::Accelerate;
    let plugin = plugins::built().kernels.display();
    let context = Context::builder().set("plugin_path", plugin).build().unwrap();
    let n = 500;
    let pos: FlashMemory<[f32; 3]> =
        (0..n).map(|i| [i as f32, (i * i % 17) as f32, 1.0 / (1 + i) as f32]).collect();
    let mass: FlashMemory<f32> = (0..n).map(|i| 1.0 + i as f32).collect();
    let acc = FlashMemory::<[f32; 3]>::zeroed(n);
    let profile = flash_core::Profile::new();
    let rt = context.runtime("ALL_CPU").unwrap().options(&profile);
    rt.submit(Accelerate::of(1.0, 1e-3, &pos, &mass, &acc)).exec([n]).unwrap();
    assert!(acc.read().unwrap().iter().all(|a| a.iter().all(|v| v.is_finite()) && *a != [0.0; 3]));
    let report = context.list();
    let plugin = report.iter().find(|r| r.plugin != "embedded").unwrap();
    let used = &profile.take()[0].implementation;
    assert!(
        plugin.implementations.iter().any(|i| i.kernel == "flash.nbody.accelerate" && i.name == *used),
        "{plugin:?}"
    );
}

/// A program knows the kernels that it has; a name that is nearly one of them is most likely meant to be it.
#[test]
fn a_kernel_whose_name_is_nearly_a_known_one_is_listed_with_that() {
    let place = plugins::directory();
    let cases =
        [("near", "flash.nbody.acelerate", Some("flash.nbody.accelerate")), ("own", "mine.heat", None)];
    for (file, kernel, _) in cases {
        kernels(&place.path().join(file).with_extension("so"), &[&format!("KERNEL=\"{kernel}\"")]);
    }
    let entries = list(place.path());
    for (file, kernel, near) in cases {
        let file = place.path().join(file).with_extension("so");
        let own = entries.iter().filter(|entry| Path::new(&entry.plugin) == file);
        let reasons: Vec<&str> = own.filter_map(|entry| entry.reason.as_deref()).collect();
        match near {
            None => assert!(reasons.is_empty(), "{reasons:?}"),
            Some(near) => assert!(
                reasons.len() == 1
                    && reasons[0].contains(kernel)
                    && reasons[0].contains(&format!("write `{near}`")),
                "{reasons:?}"
            ),
        }
    }
    // The same in a program that lists for itself.
    kernels(&place.path().join("fil.so"), &["KERNEL=\"plugins.fil\""]);
    let context = Context::builder().set("plugin_path", place.path().display()).build().unwrap();
    let is_said = |report: &BackendReport| matches!(&report.outcome, Outcome::Unavailable { reason } if reason.contains("write `plugins.fill`"));
    assert!(context.list().iter().any(is_said));
}

/// A target that a backend has, and no device here, is no mistake: the plugin may be for several machines.
#[test]
fn kernels_for_a_backend_without_a_device_are_in_order() {
    let place = plugins::directory();
    kernels(&place.path().join("kernels.so"), &["TARGET=\"good\""]);
    let flags = ["-DPROBE_ANSWER=flash_fail(FLASH_ERROR_UNAVAILABLE,\"too cold\")"];
    let text = plugins::c_source("broken.c");
    plugins::shared(Language::C, &text, &flags, &place.path().join("cold.so"));
    let entries: Vec<Entry> = list(place.path());
    let of_files = entries.iter().filter(|entry| entry.plugin != "embedded");
    let reasons: Vec<_> = of_files.filter_map(|entry| entry.reason.as_deref()).collect();
    assert_eq!(reasons, ["too cold"], "{entries:#?}");
}

/// What the program writes to standard error while `body` runs in a process of its own.
fn said(body: impl FnOnce()) -> String {
    use std::io::{Read, Seek};
    use std::os::fd::AsRawFd;
    let mut file = tempfile::tempfile().unwrap();
    // SAFETY: descriptors of this process, which runs one test.
    unsafe {
        let before = libc::dup(2);
        libc::dup2(file.as_raw_fd(), 2);
        body();
        libc::dup2(before, 2);
    }
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

/// Text that no device can take, and a function that does not say what it takes, both preferred to the
/// program's own: the program goes on with that, and says so.
#[test]
fn a_mistake_in_a_plugin_is_left_out_aloud_and_once() {
    let cases: [(&str, &[&str], &str); 2] = [
        ("text", &["FUNCTION=NULL", "TEXT=\"no language\""], "found NULL"),
        ("silent", &["SIGNATURE=\"\""], "it does not say what it takes"),
    ];
    for (name, definitions, words) in cases {
        let prepare = || {
            let place = plugins::directory().keep();
            kernels(&place.join("kernels.so"), definitions);
            plugins::shared(Language::C, &plugins::c_source("backend.c"), &[], &place.join("backend.so"));
            vec![("FLASH_BACKEND_PATH", place.into_os_string())]
        };
        plugins::in_child(name, prepare, || {
            let said = said(|| {
                for key in ["MY_ACCEL", "ALL_CPU", "MY_ACCEL"] {
                    // A context of its own makes a plan of its own.
                    let context = Context::builder().build().unwrap();
                    let out = FlashMemory::<u32>::zeroed(100);
                    let runtime = context.runtime(key).unwrap();
                    runtime.submit(Fill::of(3, &out)).exec([100]).unwrap();
                    assert_eq!(*out.read().unwrap(), [3; 100], "{key}");
                    // What is asked for by its name is not left out.
                    let named = runtime.submit(Fill::of(3, &out)).options(Implementation::named("fast"));
                    assert_eq!(named.exec([100]).is_ok(), name == "silent", "{key}");
                }
            });
            let lines: Vec<&str> = said.lines().filter(|line| line.contains("is left out")).collect();
            assert_eq!(lines.len(), 1, "{said}");
            let start = "flash: the implementation `fast` of kernel `plugins.fill` (";
            assert!(lines[0].starts_with(start) && lines[0].contains("kernels.so"), "{said}");
            assert!(lines[0].contains(words), "{said}");
            std::fs::remove_dir_all(std::env::var_os("FLASH_BACKEND_PATH").unwrap()).unwrap();
        });
    }
}
