//! Counts what the tests say: reads the harness's output as it passes by, and the
//! skip log (`main.rs` documents the protocol).

use std::collections::{HashMap, VecDeque};

/// With `CI=true` a test may be skipped only for a reason that begins with one of these.
pub const ALLOWED_IN_CI: &[&str] = &["no GPU", "no AVX-512", "no AMX", "no Intel processor", "no nightly"];

/// A test that did not run, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Skip {
    /// The test's name, or the part's.
    pub name: String,
    /// What is missing.
    pub why: String,
}

impl Skip {
    /// Whether the reason counts where everything but hardware must be available.
    pub fn allowed_in_ci(&self) -> bool {
        ALLOWED_IN_CI.iter().any(|reason| self.why.starts_with(reason))
    }
}

/// The counts of one step.
#[derive(Debug, Default, PartialEq)]
pub struct Tally {
    /// Tests that ran and passed.
    pub passed: u64,
    /// Tests that ran and failed.
    pub failed: u64,
    /// Tests that did not run, or not wholly.
    pub skips: Vec<Skip>,
    /// What the harness printed of the tests that failed: their names, and the last lines of each.
    pub failures: Vec<Failure>,
    /// How many tests of each name the harness called ok.
    ok: HashMap<String, u64>,
    /// The test whose output is being printed.
    printed: Option<usize>,
}

/// A test that failed.
#[derive(Debug, PartialEq)]
pub struct Failure {
    /// The test's name.
    pub name: String,
    /// The end of what it printed.
    pub output: VecDeque<String>,
}

/// How many lines of a failed test's output are kept. Those of backtraces are not: what panics say is.
const KEPT: usize = 30;

/// True for a line of a backtrace, also of another process's, which is printed further right.
fn is_frame(line: &str) -> bool {
    let line = line.trim_start();
    let number = line.split_once(": ").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
    number || line == "stack backtrace:" || line.starts_with("at /") || line.starts_with("at ./")
}

impl Tally {
    /// Reads one line of a harness's output.
    pub fn line(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            self.printed = self.failures.iter().rposition(|failure| failure.name == name);
        } else if line == "failures:" {
            self.printed = None;
        } else if let Some(test) = self.printed {
            if is_frame(line) {
                return;
            }
            let output = &mut self.failures[test].output;
            if output.len() == KEPT {
                output.pop_front();
            }
            output.push_back(line.to_owned());
        } else if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += count(counts, "passed");
            self.failed += count(counts, "failed");
        } else if let Some((name, outcome)) =
            line.strip_prefix("test ").and_then(|test| test.rsplit_once(" ... "))
        {
            let name = name.strip_suffix(" - should panic").unwrap_or(name);
            if outcome == "ok" {
                *self.ok.entry(name.to_owned()).or_default() += 1;
            } else if outcome == "FAILED" {
                self.failures.push(Failure { name: name.to_owned(), output: VecDeque::new() });
            } else if let Some(why) = outcome.strip_prefix("ignored") {
                let why = why.strip_prefix(", ").unwrap_or("ignored, and no reason given");
                self.skips.push(Skip { name: name.to_owned(), why: why.to_owned() });
            }
        }
    }

    /// Adds the counts of other tests.
    pub fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skips.extend(other.skips);
        self.failures.extend(other.failures);
        for (name, times) in other.ok {
            *self.ok.entry(name).or_default() += times;
        }
    }

    /// Reads the skip log: a test that skipped itself is not one that passed.
    pub fn skip_log(&mut self, log: &str) {
        for line in log.lines().filter(|line| !line.trim().is_empty()) {
            let entry = line.strip_prefix("skipped: ").unwrap_or(line);
            let (name, why) = entry.split_once(": ").unwrap_or((entry, "no reason given"));
            if let Some(count) = self.ok.get_mut(name).filter(|count| **count > 0) {
                *count -= 1;
                self.passed = self.passed.saturating_sub(1);
            }
            self.skips.push(Skip { name: name.to_owned(), why: why.to_owned() });
        }
    }
}

/// The number before `word` in `ok. 3 passed; 0 failed; ...`.
fn count(counts: &str, word: &str) -> u64 {
    let words: Vec<_> = counts.split([' ', ';']).collect();
    words.windows(2).find(|pair| pair[1] == word).and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(output: &str, log: &str) -> Tally {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.line(line));
        tally.skip_log(log);
        tally
    }

    fn skip(name: &str, why: &str) -> Skip {
        Skip { name: name.into(), why: why.into() }
    }

    const TWO_BINARIES: &str = "
running 3 tests
test a::works ... ok
test a::gpu ... ok
test a::breaks - should panic ... ok

test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s

running 3 tests
test b::works ... FAILED
test b::later ... ignored
test b::fast ... ignored, no AVX-512: slow

test result: FAILED. 0 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    const FAILED: &str = "
test a::works ... ok
test b::works ... FAILED

failures:

---- b::works stdout ----

thread 'b::works' panicked at tests/b.rs:3:5:
assertion failed: test result: none
stack backtrace:
   0: __rustc::rust_begin_unwind
             at /rustc/library/std/src/panicking.rs:689:5
   1: b::works
             at ./tests/b.rs:3:5


failures:
    b::works

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    #[test]
    fn a_failed_test_keeps_the_end_of_what_it_printed() {
        let tally = tally(FAILED, "");
        assert_eq!((tally.passed, tally.failed), (1, 1));
        let [failure] = &tally.failures[..] else { panic!("{:?}", tally.failures) };
        assert_eq!(failure.name, "b::works");
        assert_eq!(failure.output[2], "assertion failed: test result: none");
        assert!(failure.output.iter().skip(3).all(String::is_empty), "{:?}", failure.output);

        let long: String = (0..100).map(|line| format!("line {line}\n")).collect();
        let tally = self::tally(&FAILED.replace("assertion", &format!("{long}assertion")), "");
        let output = &tally.failures[0].output;
        assert_eq!(output.len(), KEPT);
        assert!(output.contains(&"line 99".to_owned()) && !output.contains(&"line 1".to_owned()));
    }

    #[test]
    fn results_of_every_binary_are_summed() {
        let tally = tally(TWO_BINARIES, "");
        assert_eq!((tally.passed, tally.failed), (3, 1));
    }

    #[test]
    fn an_ignored_test_is_skipped_for_the_reason_it_gives() {
        let tally = tally(TWO_BINARIES, "");
        let expected =
            [skip("b::later", "ignored, and no reason given"), skip("b::fast", "no AVX-512: slow")];
        assert_eq!(tally.skips, expected);
    }

    #[test]
    fn a_test_that_skips_itself_has_not_passed() {
        let tally = tally(TWO_BINARIES, "skipped: a::gpu: no GPU: driver absent\n");
        assert_eq!(tally.passed, 2);
        assert_eq!(tally.skips[2], skip("a::gpu", "no GPU: driver absent"));
    }

    #[test]
    fn a_skipped_part_leaves_its_test_passed() {
        let log = "skipped: conformance on cuda: no GPU\nskipped: conformance on cuda: no GPU\n";
        let tally = tally(TWO_BINARIES, log);
        assert_eq!((tally.passed, tally.skips.len()), (3, 4));
    }

    #[test]
    fn one_test_that_passed_is_taken_back_once() {
        let tally = tally(TWO_BINARIES, &"skipped: a::gpu: no GPU\n".repeat(2));
        assert_eq!(tally.passed, 2);
    }

    #[test]
    fn ci_allows_only_hardware_and_nightly_to_be_missing() {
        for (why, allowed) in [
            ("no GPU", true),
            ("no AVX-512 here", true),
            ("no AMX_BF16", true),
            ("no Intel processor: why", true),
            ("no nightly toolchain with miri", true),
            ("no gfortran", false),
            ("", false),
        ] {
            assert_eq!(skip("t", why).allowed_in_ci(), allowed, "{why:?}");
        }
    }
}
