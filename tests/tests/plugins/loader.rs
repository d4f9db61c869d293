//! What the loader takes and what it refuses. Whatever a file is like, the process goes on, and the
//! list says what was wrong with it.

use crate::Fill;
use crate::command::{Entry, list, list_with};
use flash_core::devices::{Outcome, check_file};
use flash_core::{Code, Context, Error, FlashMemory};
use flash_tests::plugins::{self, Language};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The plugin of `tests/c/broken.c` with these definitions, as `file`.
fn broken(file: &Path, definitions: &[&str]) -> PathBuf {
    let flags: Vec<String> = definitions.iter().map(|d| format!("-D{d}")).collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    plugins::shared(Language::C, &plugins::c_source("broken.c"), &flags, file)
}

/// The entry of a file that must be refused, with these words in its reason, while everything else
/// goes on.
#[track_caller]
pub fn refused(entries: &[Entry], file: &Path, words: &[&str]) {
    let entry = entries.iter().find(|e| Path::new(&e.plugin) == file);
    let entry = entry.unwrap_or_else(|| panic!("{} is not listed: {entries:#?}", file.display()));
    assert_eq!(entry.state, "refused", "{entry:?}");
    let reason = entry.reason.as_deref().unwrap_or_default();
    for word in words {
        assert!(reason.contains(word), "{}: no `{word}` in: {reason}", file.display());
    }
    assert!(entry.devices.is_empty());
    goes_on(entries);
}

/// The embedded backend is there whatever else is.
#[track_caller]
fn goes_on(entries: &[Entry]) {
    let cpu = entries.iter().find(|e| e.key.as_deref() == Some("ALL_CPU") && e.plugin == "embedded");
    assert_eq!(cpu.map(|e| e.state.as_str()), Some("available"), "{entries:#?}");
}

#[test]
fn a_plugin_in_c_is_available() {
    let place = plugins::directory();
    let file = broken(&place.path().join("good.so"), &[]);
    let entries = list(place.path());
    goes_on(&entries);
    let entry = entries.iter().find(|e| Path::new(&e.plugin) == file).unwrap();
    assert_eq!(
        (entry.key.as_deref(), entry.state.as_str(), &entry.reason),
        (Some("GOOD"), "available", &None)
    );
    assert_eq!(entry.devices.len(), 1);
    assert_eq!((entry.devices[0].id.as_str(), entry.devices[0].name.as_str()), ("GOOD:0", "good"));
}

/// Everything that a header, a vtable or an implementation can have wrong: each in a file of its own,
/// all in one directory.
#[test]
fn what_a_plugin_says_wrongly_is_refused_with_what_was_expected() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        (
            "no_symbol",
            &["QUERY=something_else"],
            &["expected the symbol flash_plugin_query", "no FLASH plugin"],
        ),
        (
            "undefined",
            &["QUERY_BODY=extern void nobody(void); nobody()"],
            &["a library that loads", "undefined symbol: nobody"],
        ),
        ("magic", &["MAGIC=77"], &["the magic number 0x474c504853414c46", "found 0x4d"]),
        ("major", &["MAJOR=7"], &["expected interface version 0", "found 7", "rebuild"]),
        ("minor", &["MINOR=8"], &["expected interface version 0.9 or later", "found 0.8", "rebuild"]),
        ("old_major", &["MAJOR=7", "HEADER_SIZE=24"], &["expected interface version 0", "found 7"]),
        (
            "header_0",
            &["HEADER_SIZE=0"],
            &["a plugin header of at least 104 bytes", "one of 0 bytes", "rebuild"],
        ),
        ("header", &["HEADER_SIZE=103"], &["a plugin header of at least 104 bytes", "one of 103 bytes"]),
        ("null", &["ANSWER=NULL"], &["a plugin for interface version 0", "returned NULL and gave no reason"]),
        (
            "null_why",
            &["ANSWER=NULL", "QUERY_BODY=host->query_failed(flash_text(\"too cold\"))"],
            &["a plugin for interface version 0", "found too cold"],
        ),
        ("misaligned", &["ANSWER=(const flash_plugin_header*)((const char*)&header+1)"], &["not aligned"]),
        ("null_backends", &["BACKENDS=NULL,3"], &["a list of 3 backends", "found NULL"]),
        ("null_implementations", &["IMPLEMENTATIONS=NULL,3"], &["a list of 3 implementations", "found NULL"]),
        ("null_api", &["API=NULL"], &["a backend's vtable", "0x0"]),
        ("api", &["API_SIZE=8"], &["a backend vtable of at least 104 bytes", "one of 8 bytes", "rebuild"]),
        ("api_103", &["API_SIZE=103"], &["a backend vtable of at least 104 bytes", "one of 103 bytes"]),
        ("null_implementation", &["IMPLEMENTATION=NULL"], &["a kernel implementation", "0x0"]),
        (
            "implementation",
            &["IMPLEMENTATION_SIZE=16"],
            &["a kernel implementation of at least 144 bytes", "one of 16 bytes"],
        ),
        ("no_key", &["KEY=\"\""], &["a runtime key of capital letters", "``"]),
        ("colon", &["KEY=\"A:B\""], &["a runtime key of capital letters", "`A:B`"]),
        ("digit", &["KEY=\"1A\""], &["a runtime key of capital letters", "`1A`"]),
        ("small", &["KEY=\"my_accel\""], &["a runtime key of capital letters", "`my_accel`"]),
        ("space", &["KEY=\"MY ACCEL\""], &["a runtime key of capital letters", "`MY ACCEL`"]),
        ("comma", &["KEY=\"A,B\""], &["a runtime key of capital letters", "`A,B`"]),
        ("group", &["KEY=\"ALL\""], &["a runtime key of capital letters", "`ALL`"]),
        ("no_probe", &["PROBE=NULL"], &["the required slot `probe`", "NULL"]),
        ("no_devices", &["DEVICES=NULL"], &["the required slot `devices`", "NULL"]),
        ("no_device_info", &["DEVICE_INFO=NULL"], &["the required slot `device_info`", "NULL"]),
        ("no_prepare", &["PREPARE=NULL"], &["the required slot `prepare`", "NULL"]),
        ("no_release", &["RELEASE=NULL"], &["the required slot `release`", "NULL"]),
        ("no_submit", &["SUBMIT=NULL"], &["the required slot `submit`", "NULL"]),
    ];
    let place = plugins::directory();
    for (name, definitions, _) in cases {
        broken(&place.path().join(name).with_extension("so"), definitions);
    }
    let entries = list(place.path());
    for (name, _, words) in cases {
        refused(&entries, &place.path().join(name).with_extension("so"), words);
    }
}

/// A minor version adds at the end: what a plugin of an older one lacks is NULL, what a newer one has
/// beyond is not looked at.
#[test]
fn plugins_of_an_older_and_a_newer_minor_version_are_taken() {
    let cases: &[(&str, &[&str])] = &[
        ("OLDER", &["API_SIZE=offsetof(flash_backend_api,get_extension)", "MINOR=9"]),
        ("NEWER_API", &["API_SIZE=4096"]),
        ("NEWER_HEADER", &["HEADER_SIZE=4096", "IMPLEMENTATION_SIZE=4096"]),
    ];
    let place = plugins::directory();
    for (key, definitions) in cases {
        let key_definition = format!("KEY=\"{key}\"");
        broken(
            &place.path().join(key).with_extension("so"),
            &[definitions, &[key_definition.as_str()][..]].concat(),
        );
    }
    let entries = list(place.path());
    goes_on(&entries);
    for (key, _) in cases {
        let entry = entries.iter().find(|e| e.key.as_deref() == Some(key)).unwrap();
        assert_eq!((entry.state.as_str(), entry.devices.len()), ("available", 1), "{entry:?}");
    }
}

#[test]
fn a_backend_without_driver_or_devices_is_unavailable_and_says_why() {
    let cases: &[(&str, &[&str], &str)] = &[
        (
            "probe",
            &[
                "PROBE_ANSWER=flash_fail(FLASH_ERROR_UNAVAILABLE,\"expected a driver, found none: install it\")",
            ],
            "install it",
        ),
        ("list", &["LIST=NULL"], "a list of 1 that is NULL"),
        ("device", &["DEVICE=NULL"], "element 0 is NULL"),
    ];
    let place = plugins::directory();
    for (name, definitions, _) in cases {
        let key = format!("KEY=\"{}\"", name.to_uppercase());
        broken(&place.path().join(name).with_extension("so"), &[definitions, &[key.as_str()][..]].concat());
    }
    let entries = list(place.path());
    goes_on(&entries);
    for (name, _, words) in cases {
        let entry = entries.iter().find(|e| e.key.as_deref() == Some(&name.to_uppercase())).unwrap();
        assert_eq!(entry.state, "unavailable");
        assert!(entry.reason.as_deref().is_some_and(|r| r.contains(words)), "{entry:?}");
    }
}

/// What a device with a memory of its own must have, and two of them that have one memory.
#[test]
fn a_backend_whose_memories_cannot_be_used_is_unavailable_and_says_why() {
    const APART: &str = "FLAGS=FLASH_DEVICE_TEST|FLASH_DEVICE_SYNCHRONOUS";
    let slot = "has a memory of its own, and its backend lacks the slot";
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("NO_SPACES", &["SPACES=NULL"], &["NO_SPACES:0", slot, "`spaces`"]),
        ("NO_ALLOC", &["ALLOC=NULL"], &["NO_ALLOC:0", slot, "`alloc`"]),
        ("NO_COPY", &["COPY_BOX=NULL"], &["NO_COPY:0", slot, "`copy_box`"]),
        ("NO_WAIT", &["EVENT_WAIT=NULL"], &["NO_WAIT:0", slot, "`event_wait`"]),
        ("ONLY_HOST", &["SPACE=0"], &["ONLY_HOST:0 does not use the host's memory", "another id"]),
        ("SHORT", &["SPACE_SIZE=8"], &["SHORT:0: memory space 0 says that its struct has 8 bytes"]),
        (
            "NOT_SHARED",
            &["COUNT=2"],
            &[
                "NOT_SHARED:0 and NOT_SHARED:1 both list memory space 1",
                "NOT_SHARED:1 does not read there what NOT_SHARED:0 wrote",
                "give each memory an id of its own",
            ],
        ),
        ("SHARED", &["COUNT=2", "MEMORY=the_device.memory"], &[]),
        (
            "IN_ANY_ORDER",
            &["FLAGS=FLASH_DEVICE_TEST"],
            &[
                "IN_ANY_ORDER:0 may work on",
                "does not say that it runs submissions in order",
                "FLASH_DEVICE_IN_ORDER",
            ],
        ),
        (
            "WORKS_ON",
            &["FLAGS=FLASH_DEVICE_TEST|FLASH_DEVICE_IN_ORDER"],
            &["WORKS_ON:0 may work on", "FLASH_DEVICE_SYNCHRONOUS", "the slot `event_on_ready`"],
        ),
    ];
    let place = plugins::directory();
    for (key, definitions, _) in cases {
        let name = format!("KEY=\"{key}\"");
        let file = place.path().join(key).with_extension("so");
        let flags = Some(APART).filter(|_| !definitions.iter().any(|d| d.starts_with("FLAGS")));
        let all: Vec<&str> = definitions.iter().copied().chain(flags).chain([name.as_str()]).collect();
        broken(&file, &all);
    }
    let entries = list(place.path());
    goes_on(&entries);
    for (key, _, words) in cases {
        let entry = entries.iter().find(|e| e.key.as_deref() == Some(key)).unwrap();
        assert_eq!(entry.state, if words.is_empty() { "available" } else { "unavailable" }, "{entry:?}");
        let reason = entry.reason.as_deref().unwrap_or_default();
        assert!(words.iter().all(|word| reason.contains(word)), "{words:?} in {entry:?}");
    }
}

#[test]
fn files_that_are_no_plugins_are_refused() {
    let place = plugins::directory();
    let at = |name: &str| place.path().join(name);
    let good = broken(&plugins::directory().keep().join("good.so"), &[]);
    let bytes = std::fs::read(&good).unwrap();
    let patched = |name: &str, patch: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        patch(&mut bytes);
        std::fs::write(at(name), bytes).unwrap();
    };
    std::fs::write(at("empty.so"), "").unwrap();
    std::fs::write(at("text.so"), "#!/bin/sh\necho hello\n").unwrap();
    std::fs::write(at("bytes.so"), [0, 1, 2, 3, 254]).unwrap();
    std::fs::create_dir(at("directory.so")).unwrap();
    std::os::unix::fs::symlink(at("nowhere"), at("dangling.so")).unwrap();
    patched("machine.so", &|b| {
        b[18..20].copy_from_slice(&183u16.to_le_bytes().map(|x| x ^ u8::from(cfg!(target_arch = "aarch64"))))
    });
    patched("word.so", &|b| b[4] = 1);
    patched("order.so", &|b| b[5] = 2);
    patched("type.so", &|b| b[16] = 1);
    patched("head.so", &|b| b.truncate(40));
    patched("magic_only.so", &|b| b.truncate(4));
    patched("segments.so", &|b| b[32..40].copy_from_slice(&u64::MAX.to_le_bytes()));
    patched("sections.so", &|b| {
        let end = b.len();
        b.truncate(end - 1);
    });
    // Other names are not looked at.
    std::fs::write(at("README"), "no plugin").unwrap();
    std::fs::write(at("libx.so.1"), "no plugin").unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(at("fifo.so")).status().is_ok_and(|s| s.success());

    let entries = list(place.path());
    let mut expected = vec![
        ("empty.so", "an empty file"),
        ("text.so", "a text file"),
        ("bytes.so", "a file of another kind"),
        ("directory.so", "a directory"),
        ("dangling.so", "nothing of that name"),
        ("machine.so", "ELF machine 18"),
        ("word.so", "another word size"),
        ("order.so", "another word size or byte order"),
        ("type.so", "an ELF file of type 1"),
        ("head.so", "an ELF header that is cut: the file has 40 bytes"),
        ("magic_only.so", ""),
        ("segments.so", "program headers lie outside"),
        ("sections.so", "one whose section table ends at byte"),
    ];
    expected.extend(fifo.then_some(("fifo.so", "something that is no file")));
    for (name, words) in &expected {
        refused(&entries, &at(name), &[words]);
    }
    let files = entries.iter().filter(|e| e.plugin != "embedded").count();
    assert_eq!(files, expected.len(), "{entries:#?}");
    let _ = std::fs::remove_dir_all(good.parent().unwrap());
}

#[test]
fn a_file_that_cannot_be_read_is_refused() {
    let place = plugins::directory();
    let file = broken(&place.path().join("secret.so"), &[]);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o000)).unwrap();
    if std::fs::File::open(&file).is_ok() {
        // For the superuser nothing is unreadable.
        goes_on(&list(place.path()));
        return;
    }
    refused(&list(place.path()), &file, &["a readable shared library", "ermission denied"]);
}

/// The loadable segments of an ELF file: offset and size in the file.
fn segments(bytes: &[u8]) -> Vec<(usize, usize)> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let half = |at: usize| usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()));
    let (start, size, count) = (word(32), half(54), half(56));
    (0..count)
        .map(|i| start + i * size)
        .filter(|&at| bytes[at] == 1)
        .map(|at| (word(at + 8), word(at + 32)))
        .collect()
}

/// A library that is cut inside a segment kills a process that opens it, with SIGBUS.
#[test]
fn a_plugin_that_is_cut_anywhere_is_refused() {
    let place = plugins::directory();
    let file = broken(&place.path().join("whole.so"), &[]);
    let bytes = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let mut points: Vec<usize> = (0..64).map(|i| bytes.len() * i / 64).collect();
    points.extend([1, 3, 63, 64, 65, bytes.len() - 1]);
    for (offset, size) in segments(&bytes) {
        points.extend([offset + 1, offset + size / 2, (offset + size).saturating_sub(1)]);
    }
    // Without a section table, whose end tells on every cut, the segments must.
    let mut stripped = bytes.clone();
    stripped[40..48].fill(0);
    stripped[60..64].fill(0);
    let end = segments(&bytes).into_iter().map(|(offset, size)| offset + size).max().unwrap();
    for (kind, bytes, below) in [("cut", &bytes, bytes.len()), ("stripped", &stripped, end)] {
        for &point in points.iter().filter(|&&p| p < below) {
            std::fs::write(place.path().join(format!("{kind}-{point}.so")), &bytes[..point]).unwrap();
        }
    }
    let entries = list(place.path());
    goes_on(&entries);
    let files: Vec<&Entry> = entries.iter().filter(|e| e.plugin.ends_with(".so")).collect();
    assert!(files.len() > 100, "{} files", files.len());
    let taken: Vec<_> = files.iter().filter(|e| e.state != "refused").collect();
    assert!(taken.is_empty(), "{taken:#?}");
    // One that is cut behind its last segment and has no sections is whole.
    let place = plugins::directory();
    let whole = place.path().join("whole.so");
    std::fs::write(&whole, &stripped[..end]).unwrap();
    assert!(list(place.path()).iter().any(|e| e.key.as_deref() == Some("GOOD") && e.state == "available"));
}

/// A copy that was broken off may have its full length already, with zeros where nothing came.
#[test]
fn a_plugin_that_is_full_of_zeros_from_some_point_on_is_refused() {
    let place = plugins::directory();
    let file = broken(&place.path().join("whole.so"), &[]);
    let bytes = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let mut names = Vec::new();
    // All over the file, and finely in the last segment, which begins with the dynamic table.
    let last = segments(&bytes).into_iter().map(|(offset, _)| offset).max().unwrap();
    let points = (0..32).map(|i| 64 + (bytes.len() - 128) * i / 31).chain((last..last + 1024).step_by(40));
    for point in points.filter(|&p| p < bytes.len()) {
        let mut bytes = bytes.clone();
        bytes[point..].fill(0);
        names.push(place.path().join(format!("zeros-{point}.so")));
        std::fs::write(&names[names.len() - 1], bytes).unwrap();
    }
    // Debug information only: its segments have no contents.
    let debug = place.path().join("debug.so");
    let whole = broken(&plugins::directory().keep().join("whole.so"), &["KEY=\"DEBUG\""]);
    let made =
        std::process::Command::new("objcopy").arg("--only-keep-debug").arg(&whole).arg(&debug).status();
    names.extend(made.is_ok_and(|status| status.success()).then_some(debug));
    std::fs::remove_dir_all(whole.parent().unwrap()).unwrap();
    let entries = list(place.path());
    goes_on(&entries);
    for name in names {
        refused(&entries, &name, &[]);
    }
}

/// Numbers that look random.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn no_damage_to_the_headers_of_a_file_makes_the_check_crash() {
    let prepare = || {
        let place = plugins::directory().keep();
        broken(&place.join("good.so"), &[]);
        vec![("FLASH_TEST_PLACE", place.into_os_string())]
    };
    plugins::in_child("check", prepare, || {
        let place = PathBuf::from(std::env::var_os("FLASH_TEST_PLACE").unwrap());
        let bytes = std::fs::read(place.join("good.so")).unwrap();
        let headers = 64 + 56 * usize::from(u16::from_le_bytes([bytes[56], bytes[57]]));
        let (mut state, mut passed, mut refused) = (0x2545_F491_4F6C_DD1D, 0, 0);
        let file = place.join("damaged.so");
        for _ in 0..400 {
            let mut bytes = bytes.clone();
            for _ in 0..1 + random(&mut state) % 4 {
                let at = random(&mut state) as usize % headers;
                bytes[at] = random(&mut state) as u8;
            }
            std::fs::write(&file, bytes).unwrap();
            match check_file(&file) {
                Ok(()) => passed += 1,
                Err(Outcome::Refused { expected, found }) => {
                    assert!(!expected.is_empty() && !found.is_empty());
                    refused += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
        std::fs::remove_dir_all(place).unwrap();
        // Harmless fields, and flags that only `dlopen` reads, pass.
        assert!(refused > 100, "{refused} refused, {passed} passed");
    });
}

#[test]
fn a_search_path_may_have_any_entries() {
    let place = plugins::directory();
    let at = |name: &str| place.path().join(name);
    std::fs::create_dir(at("empty")).unwrap();
    std::fs::create_dir(at("plugins")).unwrap();
    let a = broken(&at("plugins/a.so"), &["KEY=\"A\""]);
    let b = broken(&at("b.so"), &["KEY=\"B\""]);
    let c = broken(&at("without_ending"), &["KEY=\"C\""]);
    std::fs::write(at("text"), "hello").unwrap();
    let path = format!(
        "::{}:{}:{}:{}:{}:{}:",
        at("missing").display(),
        at("empty").display(),
        at("plugins").display(),
        b.display(),
        c.display(),
        at("text").display()
    );
    let entries = list(&path);
    refused(&entries, &at("missing"), &["a directory or a plugin file", "nothing of that name"]);
    refused(&entries, &at("text"), &["a text file"]);
    let found: Vec<(&str, &str)> =
        entries.iter().filter_map(|e| Some((e.key.as_deref()?, e.plugin.as_str()))).take(3).collect();
    let path = |p: &Path| p.to_str().unwrap().to_owned();
    assert_eq!(found, [("A", path(&a).as_str()), ("B", &path(&b)), ("C", &path(&c))], "in the path's order");
    // Settings are text.
    let strange: OsString = OsStringExt::from_vec(b"/tmp/\xff\xfe".to_vec());
    let output = plugins::flash(&strange, &["list"]).output().unwrap();
    let said = plugins::text_of(&output);
    assert!(said.contains("FLASH_BACKEND_PATH: expected UTF-8") && output.status.success(), "{said}");
    goes_on(&list(strange));
}

#[test]
fn a_query_that_is_no_function_is_refused() {
    let place = plugins::directory();
    let text = "int flash_plugin_query[64] = { 1 };\n";
    let file = plugins::shared(Language::C, text, &[], &place.path().join("data.so"));
    refused(&list(place.path()), &file, &["a function flash_plugin_query", "that is no function"]);
}

#[test]
fn a_link_to_a_plugin_in_a_directory_that_all_can_write_is_refused() {
    let [place, open] = [plugins::directory(), plugins::directory()];
    let file = broken(&open.path().join("good.so"), &[]);
    std::fs::set_permissions(open.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let link = place.path().join("link.so");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    refused(&list(place.path()), &link, &["a directory that everybody can write"]);
}

/// A program that runs with the rights of another user does not load what the environment names.
#[test]
fn the_environment_of_a_set_user_id_program_is_not_obeyed() {
    let place = plugins::directory();
    broken(&place.path().join("good.so"), &[]);
    std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let program = place.path().join("flash");
    std::fs::copy(plugins::flash("", &[]).get_program(), &program).unwrap();
    const NOBODY: u32 = 65534;
    let given = std::os::unix::fs::chown(&program, Some(NOBODY), Some(NOBODY));
    if given.is_err() {
        // Only the superuser gives files away.
        return;
    }
    let run = |mode: u32, command: &str| {
        std::fs::set_permissions(&program, PermissionsExt::from_mode(mode)).unwrap();
        plugins::text_of(&plugins::program(&program, place.path(), &[command]).output().unwrap())
    };
    assert!(run(0o755, "list").contains("GOOD"));
    assert!(!run(0o4755, "list").contains("GOOD"));
    let said = "note     settings  FLASH_BACKEND_PATH: it is not obeyed";
    let (text, obeyed) = (run(0o4755, "doctor"), run(0o755, "doctor"));
    assert!(text.contains(said) && !text.contains("GOOD"), "{text}");
    assert!(!obeyed.contains(said) && obeyed.contains("GOOD"), "{obeyed}");
}

#[test]
fn one_plugin_twice_is_loaded_once() {
    let place = plugins::directory();
    let file = broken(&place.path().join("a.so"), &[]);
    let copy = place.path().join("b.so");
    std::fs::copy(&file, &copy).unwrap();
    let link = place.path().join("c.so");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let entries = list(format!("{0}:{0}/a.so", place.path().display()));
    let first: Vec<_> =
        entries.iter().filter(|e| Path::new(&e.plugin) == file).map(|e| e.state.as_str()).collect();
    assert_eq!(first, ["available", "refused"]);
    let again = entries.iter().find(|e| Path::new(&e.plugin) == file && e.state == "refused").unwrap();
    assert!(again.reason.as_deref().unwrap().contains("the same file"), "{again:?}");
    refused(&entries, &link, &["the same file, loaded from"]);
    std::fs::write(place.path().join("d.so"), "no library").unwrap();
    std::os::unix::fs::symlink(place.path().join("d.so"), place.path().join("e.so")).unwrap();
    refused(&list(place.path()), &place.path().join("e.so"), &["the same file, refused in"]);
    // A copy is another library with the same key.
    refused(
        &entries,
        &copy,
        &["a runtime key of its own, not `GOOD`", &format!("that {} has already", file.display())],
    );
}

#[test]
fn of_two_plugins_with_one_key_the_first_in_the_path_wins() {
    let [first, second] = [plugins::directory(), plugins::directory()];
    let one = broken(&first.path().join("z.so"), &["KEY=\"SAME\""]);
    let two = broken(&second.path().join("a.so"), &["KEY=\"SAME\""]);
    for (winner, loser, path) in [
        (&one, &two, format!("{}:{}", first.path().display(), second.path().display())),
        (&two, &one, format!("{}:{}", second.path().display(), first.path().display())),
    ] {
        let entries = list(path);
        let entry = entries.iter().find(|e| Path::new(&e.plugin) == *winner).unwrap();
        assert_eq!(entry.state, "available");
        refused(&entries, loser, &["`SAME`", &winner.display().to_string()]);
        let entry = entries.iter().find(|e| Path::new(&e.plugin) == *loser).unwrap();
        assert_eq!(entry.key.as_deref(), Some("SAME"), "a refused backend is listed with its key");
    }
}

#[test]
fn who_asks_for_the_best_is_told_once_what_was_left_out() {
    let place = plugins::directory();
    let file = place.path().join("text.so");
    std::fs::write(&file, "hello").unwrap();
    let said = |path: &Path, key: &str| {
        let arguments = ["--bodies", "64", "--steps", "1", "--runtime", key];
        let output = plugins::program(&plugins::built().nbody, path, &arguments).output().unwrap();
        assert!(output.status.success(), "{}", plugins::text_of(&output));
        String::from_utf8(output.stderr).unwrap()
    };
    let line = format!("flash: a plugin is left out: ({}): refused: expected ", file.display());
    let [group, list] = ["ALL_ACCEL", "ALL,ALL_ACCEL"].map(|key| said(place.path(), key));
    for said in [group, list] {
        assert_eq!(said.matches(&line).count(), 1, "{said}");
    }
    // One backend is what was asked for; a second one for a key is intended.
    assert!(!said(place.path(), "ALL_CPU").contains("left out"));
    assert!(!said(&plugins::built().cpu, "ALL_ACCEL").contains("left out"));
}

#[test]
fn a_plugin_wins_over_the_embedded_backend() {
    let cpu = &plugins::built().cpu;
    let entries = list(cpu);
    let states: Vec<(&str, &str)> = entries
        .iter()
        .filter(|e| e.key.as_deref() == Some("ALL_CPU"))
        .map(|e| (e.plugin.as_str(), e.state.as_str()))
        .collect();
    assert_eq!(states, [(cpu.to_str().unwrap(), "available"), ("embedded", "refused")]);
}

#[test]
fn what_everybody_can_write_is_refused_unless_allowed() {
    let place = plugins::directory();
    let file = broken(&place.path().join("good.so"), &[]);
    let mode =
        |path: &Path, mode: u32| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    let allowed = |path: &Path| {
        let entries = list_with(path, &[("FLASH_ALLOW_WORLD_WRITABLE", "1")]);
        assert!(
            entries.iter().any(|e| e.key.as_deref() == Some("GOOD") && e.state == "available"),
            "{entries:#?}"
        );
        let entries = list_with(path, &[("FLASH_ALLOW_WORLD_WRITABLE", "0")]);
        assert!(!entries.iter().any(|e| e.state == "available" && e.plugin != "embedded"), "{entries:#?}");
    };
    mode(&file, 0o666);
    let words =
        ["only its owner can write", "everybody can write", "chmod o-w", "FLASH_ALLOW_WORLD_WRITABLE=1"];
    refused(&list(place.path()), &file, &words);
    allowed(place.path());
    mode(&file, 0o644);
    mode(place.path(), 0o777);
    refused(&list(place.path()), place.path(), &words);
    refused(&list(&file), &file, &words);
    allowed(place.path());
    allowed(&file);
    mode(place.path(), 0o700);
    assert!(list(place.path()).iter().any(|e| e.key.as_deref() == Some("GOOD") && e.state == "available"));
}

#[test]
fn an_unknown_key_says_what_there_is_and_what_is_not_usable() {
    let place = plugins::directory();
    std::fs::write(place.path().join("text.so"), "hello").unwrap();
    broken(
        &place.path().join("cold.so"),
        &["KEY=\"COLD\"", "PROBE_ANSWER=flash_fail(FLASH_ERROR_UNAVAILABLE,\"too cold\")"],
    );
    let context = Context::builder().set("plugin_path", place.path().display()).build().unwrap();
    let message = context.runtime("WARM").unwrap_err().to_string();
    for part in [
        "there is no backend `WARM`",
        "ALL_ACCEL, ALL, ALL_CPU",
        "COLD",
        "too cold",
        "text.so",
        "a text file",
    ] {
        assert!(message.contains(part), "no `{part}` in: {message}");
    }
    let message = context.runtime("COLD").unwrap_err().to_string();
    assert!(message.contains("`COLD` is unavailable: too cold"), "{message}");
    assert!(context.runtime("ALL_ACCEL").is_ok());
}

/// Launches `Fill` in a context of its own, which gives its kernels back, and gives the result.
fn fill(key: &str) -> Result<u32, Error> {
    let out = FlashMemory::<u32>::zeroed(100);
    Context::builder().build()?.runtime(key)?.submit(Fill::of(3, &out)).exec([100])?;
    let first = out.read()?[0];
    assert!(out.read()?.iter().all(|&v| v == first));
    Ok(first)
}

#[test]
fn a_plugin_that_panics_while_it_is_asked_is_refused_or_unavailable() {
    let file = &plugins::built().broken;
    for (function, state) in [
        ("plugin_query", "refused"),
        ("probe", "unavailable"),
        ("device_info", "unavailable"),
        ("spaces", "unavailable"),
    ] {
        let entries = list_with(file, &[("FLASH_BROKEN", function)]);
        goes_on(&entries);
        let entry = entries.iter().find(|e| Path::new(&e.plugin) == file).unwrap();
        assert_eq!(entry.state, state, "{entry:?}");
        let reason = entry.reason.as_deref().unwrap();
        assert!(
            reason.contains(&format!("broken on purpose in {function}")) && reason.contains("panicked"),
            "{reason}"
        );
    }
    let entries = list_with(file, &[("FLASH_BROKEN", "unavailable")]);
    let entry = entries.iter().find(|e| e.key.as_deref() == Some("BROKEN")).unwrap();
    assert_eq!(
        (entry.state.as_str(), entry.reason.as_deref()),
        ("unavailable", Some("expected a driver, found none: install it"))
    );
}

#[test]
fn a_plugin_that_panics_in_a_launch_gives_a_typed_error_and_the_runtime_goes_on() {
    for function in ["prepare", "submit", "event_wait"] {
        let prepare = || {
            vec![
                ("FLASH_BACKEND_PATH", plugins::built().broken.clone().into_os_string()),
                ("FLASH_BROKEN", function.into()),
            ]
        };
        plugins::in_child(function, prepare, || {
            for _ in 0..3 {
                let error = fill("BROKEN").unwrap_err();
                let Error::Backend { code: Code::Panic, text, .. } = error.cause() else {
                    panic!("{error:?}")
                };
                assert!(text.contains(&format!("broken on purpose in {function}")), "{text}");
                assert_eq!(fill("ALL_CPU").unwrap(), 3);
            }
        });
    }
    // What gives no answer cannot give an error either.
    for function in ["release", "event_times", "event_release"] {
        let prepare = || {
            vec![
                ("FLASH_BACKEND_PATH", plugins::built().broken.clone().into_os_string()),
                ("FLASH_BROKEN", function.into()),
            ]
        };
        plugins::in_child(function, prepare, || {
            for _ in 0..3 {
                assert_eq!(fill("BROKEN").unwrap(), 3);
                assert_eq!(fill("ALL_CPU").unwrap(), 3);
            }
        });
    }
}

/// Every other entry of the vtable, by the suite that calls them all.
#[test]
fn a_plugin_that_panics_anywhere_does_not_take_the_process_with_it() {
    for function in
        ["alloc", "free", "register_host", "copy_box", "can_copy", "query", "event_wait", "submit", "prepare"]
    {
        let mut flash = plugins::flash(&plugins::built().broken, &["conformance", "BROKEN"]);
        let output = flash.env("FLASH_BROKEN", function).output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{function}: {}", plugins::text_of(&output));
        let text = plugins::text_of(&output);
        assert!(text.contains("BROKEN: "), "{function}: no summary in {text}");
        // A yes or no cannot carry an error, and an unknown property is one anyway.
        if !matches!(function, "can_copy" | "query") {
            let words = format!("the backend panicked in `{function}`: broken on purpose in {function}");
            assert!(text.contains(&words), "no `{words}` in {text}");
        }
    }
}
