//! Notices on standard error: they fail nothing, come from plugins too, and `--quiet` turns them off.

use flash_tests::plugins::{self, Language};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// What standard error is.
#[derive(Clone, Copy, Debug)]
enum Standard {
    /// A disk without room.
    Full,
    /// A pipe without a reader.
    Pipe,
    /// No file at all.
    Closed,
}

/// Replaces standard error of a command that is about to start.
fn with_error(command: &mut Command, error: Standard) {
    match error {
        Standard::Full => {
            command.stderr(File::options().write(true).open("/dev/full").unwrap());
        }
        Standard::Pipe => {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            command.stderr(writer);
        }
        // SAFETY: between fork and exec, one system call.
        Standard::Closed => unsafe {
            command.pre_exec(|| {
                libc::close(2);
                Ok(())
            });
        },
    }
}

/// A line that gives a notice: two bodies are less than one for each of four threads.
fn nbody(path: &Path, arguments: &[&str]) -> Command {
    let line = ["--bodies", "1", "--steps", "2", "--runtime", "ALL_CPU"];
    let mut command = plugins::program(&plugins::built().nbody, path, &[&line, arguments].concat());
    command.env("FLASH_CPU_THREADS", "4");
    command
}

#[test]
fn a_notice_that_cannot_be_written_fails_no_launch() {
    for error in [Standard::Full, Standard::Pipe, Standard::Closed] {
        // The program's own CPU backend, and the plugin's, which hands its notices on.
        for path in [Path::new(""), &plugins::built().cpu] {
            let place = plugins::directory();
            let output = place.path().join("after.csv");
            let mut command = nbody(path, &["--output", output.to_str().unwrap()]);
            with_error(&mut command, error);
            let done = command.stdout(Stdio::null()).status().unwrap();
            assert_eq!(done.code(), Some(0), "{error:?}, {path:?}");
            assert_eq!(std::fs::read_to_string(&output).unwrap().lines().count(), 2, "{error:?}, {path:?}");
        }
    }
}

#[test]
fn conformance_passes_where_no_notice_can_be_written() {
    for error in [Standard::Full, Standard::Pipe, Standard::Closed] {
        let mut command = plugins::flash("", &["conformance", "ALL_CPU"]);
        with_error(&mut command, error);
        let done = command.stdout(Stdio::piped()).output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{error:?}: {}", plugins::text_of(&done));
    }
}

#[test]
fn notices_say_where_they_come_from_and_quiet_turns_them_off() {
    for path in [Path::new(""), &plugins::built().cpu] {
        let said = |arguments: &[&str]| {
            let done = nbody(path, arguments).stdout(Stdio::null()).output().unwrap();
            assert_eq!(done.status.code(), Some(0), "{}", plugins::text_of(&done));
            String::from_utf8(done.stderr).unwrap()
        };
        let lines = said(&[]);
        let line = lines.lines().find(|line| line.contains("most threads idle"));
        assert!(line.is_some_and(|line| line.starts_with("flash: kernel `")), "{path:?}: {lines}");
        assert_eq!(said(&["--quiet"]), "", "{path:?}");
    }
}

/// A plugin in C reaches standard error through the slot `notice` of the host's interface.
#[test]
fn a_plugin_in_c_gives_notices() {
    let place = plugins::directory();
    let text = plugins::c_source("backend.c");
    plugins::shared(Language::C, &text, &["-DNOTICE=\"looks\""], &place.path().join("backend.so"));
    let done = plugins::flash(place.path(), &["list"]).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", plugins::text_of(&done));
    assert_eq!(String::from_utf8(done.stderr).unwrap(), "flash: MY_ACCEL looks\n");
    let line = ["--bodies", "1", "--quiet", "--runtime", "ALL_CPU,MY_ACCEL"];
    let done = plugins::program(&plugins::built().nbody, place.path(), &line).output().unwrap();
    assert_eq!((done.status.code(), &*done.stderr), (Some(0), &b""[..]), "{}", plugins::text_of(&done));
}
