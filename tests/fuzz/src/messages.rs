//! The messages of the backend `RANK`, the words of the transport below, and files, by libFuzzer. The
//! environment's `FLASH_FUZZ` says what is fuzzed: `agent`, `controller`, `mailbox`, `configuration` or
//! `package`.
//!
//! The mutator plants what is sound: of messages what was said in a session that it records at the start,
//! so that inputs are of the version that the program speaks. Inputs that once caused a failure are in
//! `corpus/`, and a test runs them.

#![no_main]

use flash_fuzz::session::session;
use flash_fuzz::{agent, controller, end_at_panics, files, mailbox};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use std::sync::OnceLock;

/// What is fuzzed, and the input to begin with.
struct Target {
    fuzz: fn(&[u8]),
    planted: &'static [u8],
}

fn target() -> &'static Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    TARGET.get_or_init(|| match std::env::var("FLASH_FUZZ").as_deref() {
        Ok("agent") => Target { fuzz: agent::fuzz, planted: &session().requests },
        Ok("controller") => Target { fuzz: controller::fuzz, planted: &session().answers },
        Ok("mailbox") => Target { fuzz: mailbox::fuzz, planted: &[0; 16 * mailbox::RECORD] },
        Ok("configuration") => {
            Target { fuzz: files::configuration, planted: files::CONFIGURATION.as_bytes() }
        }
        Ok("package") => Target { fuzz: files::package, planted: files::a_package().leak() },
        other => panic!(
            "FLASH_FUZZ: expected agent, controller, mailbox, configuration or package, found {other:?}"
        ),
    })
}

fuzz_target!(
    init: {
        target();
        // libFuzzer's hook ends the process at every panic.
        end_at_panics(|| ());
    },
    |input: &[u8]| (target().fuzz)(input)
);

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let planted = target().planted;
    let plants = (size < 16 || seed.is_multiple_of(64)) && planted.len() <= max_size;
    let size = if plants {
        data[..planted.len()].copy_from_slice(planted);
        planted.len()
    } else {
        size
    };
    fuzzer_mutate(data, size, max_size)
});
