//! Inputs that once caused a failure cause none any more, and neither do changes of a session.

use flash_fuzz::session::session;
use flash_fuzz::{Frame, agent, controller, end_at_panics, files, frames, input, mailbox};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Runs the inputs of a folder; says how many.
fn replay(folder: &str, fuzz: fn(&[u8])) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(folder);
    let files = std::fs::read_dir(&folder).expect("the folder is there");
    let inputs = files.map(|file| std::fs::read(file.expect("a file").path()).expect("it can be read"));
    inputs.map(|input| fuzz(&input)).count()
}

#[test]
fn inputs_that_once_failed_do_not() {
    assert!(replay("agent", agent::fuzz) > 0);
    assert!(replay("controller", controller::fuzz) > 0);
    assert!(replay("mailbox", mailbox::fuzz) > 0);
    assert!(replay("configuration", files::configuration) > 0);
    assert!(replay("package", files::package) > 0);
}

#[test]
fn an_input_is_its_frames() {
    let all = [Frame { how: 1, bytes: vec![1, 2, 3] }, Frame { how: 0, bytes: Vec::new() }];
    assert_eq!(frames(&input(&all)), all);
    assert_eq!(frames(&[0, 9, 0, 7]), [Frame { how: 0, bytes: vec![7] }]);
}

/// Changes of what was said in a session: bytes, frames that are left out, come twice or in another order.
struct Mutator(u64);

impl Mutator {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }

    fn change(&mut self, said: &[Frame]) -> Vec<Frame> {
        let mut all = said.to_vec();
        for _ in 0..=self.below(4) {
            let (at, other) = (self.below(all.len()), self.below(all.len()));
            match self.below(8) {
                0 => drop(all.remove(at)),
                1 => all.insert(other, all[at].clone()),
                2 => all.swap(at, other),
                3 => all[at].how ^= 1 << self.below(2),
                _ => self.change_bytes(&mut all[at].bytes),
            }
            if all.is_empty() {
                break;
            }
        }
        all
    }

    fn change_bytes(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len());
        match self.below(6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at.min(bytes.len()), self.below(256) as u8),
            // A number of several bytes, as messages have them.
            2 => drop(bytes.splice(at.min(bytes.len())..at.min(bytes.len()), [0xff; 9])),
            _ => {
                let any = self.below(256) as u8;
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = [0, 1, 2, 0x7f, 0x80, 0xff, *byte ^ 1, any][self.below(8)];
                }
            }
        }
    }
}

#[test]
fn changes_of_sound_files_cause_no_failure() {
    let mut mutator = Mutator(3);
    for (sound, fuzz) in [
        (files::CONFIGURATION.as_bytes().to_vec(), files::configuration as fn(&[u8])),
        (files::a_package(), files::package),
    ] {
        fuzz(&sound);
        for _ in 0..3000 {
            let mut changed = sound.clone();
            (0..=mutator.below(3)).for_each(|_| mutator.change_bytes(&mut changed));
            fuzz(&changed);
        }
    }
}

/// The seed of the changes that are tried.
static LAST: AtomicU64 = AtomicU64::new(0);

/// How many changes are tried, and where they begin, as the environment says.
fn tries() -> (usize, u64) {
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    (number("FLASH_FUZZ_TRIES", 3000) as usize, number("FLASH_FUZZ_SEED", 1))
}

#[test]
fn changes_of_a_session_are_errors_at_most() {
    let session = session();
    end_at_panics(|| eprintln!("seed {}, of FLASH_FUZZ_SEED", LAST.load(Relaxed)));
    for (said, fuzz) in [(&session.requests, agent::fuzz as fn(&[u8])), (&session.answers, controller::fuzz)]
    {
        fuzz(said);
        let all = frames(said);
        assert!(all.len() > 10, "{} frames", all.len());
        let (tries, seed) = tries();
        for seed in (seed..).take(tries) {
            // What the process ends at, if it does.
            LAST.store(seed, Relaxed);
            fuzz(&input(&Mutator(seed).change(&all)));
        }
    }
}
