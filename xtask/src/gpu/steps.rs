//! The steps that run on the GPU, one after the other. After a failure the next step runs all the same.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::Value;

use super::device::{Device, KEY};
use super::kit::{self, Kit};
use super::of_cuda;
use crate::tally::Tally;

/// Kinetic energies of the reference problem after steps 1 to 10, as published.
const PUBLISHED: [f64; 10] =
    [26.405, 313.77, 926.56, 1866.4, 3135.6, 4737.6, 6676.6, 8957.7, 11587.0, 14572.0];

/// Seconds of the conformance suite; of each way to compute the ten energies; of each program that checks its
/// results; of each check of `compute-sanitizer`.
const CONFORMANCE: u64 = 40;
const ENERGY: u64 = 15;
const CHECKED: u64 = 15;
const SANITIZER: u64 = 30;

/// The ways to compute the ten energies: a name, and the options of `nbody`.
const ENERGIES: [(&str, &[&str]); 3] = [
    ("ten energies, two kernels", &[]),
    ("ten energies, one kernel", &["--form", "one-kernel"]),
    ("ten energies, double precision", &["--precision", "f64"]),
];

/// Example programs, and options with which they take seconds.
const PROGRAMS: [(&str, &[&str]); 3] = [
    (kit::CHECKED[0], &["--m", "8192", "--k", "8192", "--n", "8192", "--tile", "2048"]),
    (kit::CHECKED[1], &["--n", "8192", "--tile", "1024"]),
    (kit::CHECKED[2], &["--size", "256"]),
];

/// Tests that read or build the sources, which may be absent: the program, and how their names begin.
const OF_SOURCES: [(&str, &str); 5] = [
    ("cuda", "plugin::"),
    ("device_kernels", "programs::"),
    ("device_kernels", "checked::"),
    ("device_kernels", "given::a_shared_library_"),
    ("kernels", "recordings::version_1_"),
];

/// Programs of tests, and their seconds; and the seconds of one of their tests.
const TESTS: [(&str, u64); 5] =
    [(kit::TESTS[0], 30), (kit::TESTS[1], 40), (kit::TESTS[2], 30), (kit::TESTS[3], 30), (kit::RUNTIME, 40)];
const TEST: u64 = 60;

/// Tests that run at once, each in a process of its own: most of their time they make the driver ready, or
/// compile.
const AT_ONCE: usize = 8;

/// Benchmarks, their arguments, and their seconds.
const BENCHMARKS: [(&str, &[&str], u64); 2] =
    [("gpu", &[], 70), ("kernels", &["--device", KEY, "--megabytes", "192", "--seconds", "1"], 110)];

/// Checks of `compute-sanitizer`, their options, and the checks of the suite: by their names, or all. Some
/// queries of the backend to the driver are calls that fail, such as for the parameter after the last one,
/// and it checks every result: errors of calls are no findings. A race in shared memory is looked for in what
/// uses that, since all of it takes minutes.
const SANITIZERS: [(&str, &[&str], &str); 2] =
    [("memcheck", &["--report-api-errors", "no"], ""), ("racecheck", &[], "phase")];

/// The limit of all steps together. With the time of unpacking before, that is ten minutes.
const ALL: Duration = Duration::from_secs(540);

/// Why a step is left out.
const HOURS: &str = "an emulated device would take hours";

/// The benchmark's words for a row that misses its goal.
const MISSED: &str = "goal missed: ";

/// A step that has run.
pub struct Done {
    pub name: String,
    /// Its result, or its error.
    pub outcome: Result<String>,
    pub time: Duration,
}

/// The outcomes of all steps.
#[derive(Default)]
pub struct Outcomes {
    pub done: Vec<Done>,
    /// Steps and tests that could not run, and why.
    pub skipped: Vec<(String, String)>,
    /// The benchmarks' tables, in Markdown.
    pub tables: Vec<(&'static str, String)>,
    /// Their rows that missed their goals.
    pub missed: Vec<String>,
}

impl Outcomes {
    /// Whether every step that could run passed; one without time left did not.
    pub fn ok(&self) -> bool {
        self.done.iter().all(|done| done.outcome.is_ok())
    }
}

/// Runs the steps.
pub struct Runner<'a> {
    kit: &'a Kit,
    /// Folder for the output of programs.
    work: &'a Path,
    start: Instant,
    pub outcomes: Outcomes,
}

impl<'a> Runner<'a> {
    pub fn new(kit: &'a Kit, work: &'a Path) -> Runner<'a> {
        Runner { kit, work, start: Instant::now(), outcomes: Outcomes::default() }
    }

    /// The device; without one, the reason.
    pub fn device(&self) -> Result<Device> {
        let (status, log) = self.command("devices", 60, kit::FLASH, &["list", "--json"])?;
        let text = read(&log)?;
        ensure!(status.success(), "`flash list` failed ({status}):\n{text}");
        Device::listed(&text)
    }

    /// Runs all steps, the most important first.
    pub fn run_all(&mut self, device: &Device) {
        self.step("conformance suite", |runner| {
            let (status, log) =
                runner.command("conformance", CONFORMANCE, kit::FLASH, &["conformance", KEY])?;
            ensure!(status.success(), "{}", end_of(&log, status)?);
            last_line(&log)
        });
        for (name, options) in ENERGIES {
            match device.emulated {
                true => self.skip(name, HOURS),
                false => self.step(name, |runner| runner.energies(options)),
            }
        }
        for (program, options) in PROGRAMS {
            match device.emulated {
                true => self.skip(program, HOURS),
                false => self.step(&format!("`{program}`"), |runner| runner.checked(program, options)),
            }
        }
        for (program, seconds) in TESTS {
            self.step(&format!("tests `{program}`"), |runner| runner.tests(program, seconds));
        }
        for (program, name) in OF_SOURCES {
            let why = "they need the sources: `cargo xtask test` runs them";
            self.skip(&format!("tests `{name}` of `{program}`"), why);
        }
        for benchmark in BENCHMARKS {
            let name = format!("benchmark `{}`", benchmark.0);
            match device.emulated && benchmark.0 == "kernels" {
                true => self.skip(&name, HOURS),
                false => self.step(&name, |runner| runner.benchmark(benchmark)),
            }
        }
        match of_cuda("compute-sanitizer") {
            None => self.skip("compute-sanitizer", "it is not on PATH, nor in /usr/local/cuda/bin"),
            Some(sanitizer) => {
                for (tool, options, checks) in SANITIZERS {
                    let of =
                        if checks.is_empty() { String::new() } else { format!(", checks with `{checks}`") };
                    let name = format!("compute-sanitizer {tool} on the conformance suite{of}");
                    self.step(&name, |runner| runner.sanitized(&sanitizer, (tool, options), checks));
                }
            }
        }
    }

    fn step(&mut self, name: &str, body: impl FnOnce(&mut Self) -> Result<String>) {
        eprintln!("gpu: {name} ...");
        let start = Instant::now();
        let outcome = match self.left() {
            0 => Err(anyhow!("no time was left for it")),
            _ => body(self),
        };
        let (name, time) = (name.to_owned(), start.elapsed());
        match &outcome {
            Ok(said) => eprintln!("gpu: {name}: ok in {:.1} s: {said}", time.as_secs_f64()),
            Err(error) => eprintln!("gpu: {name}: FAILED in {:.1} s: {error:#}", time.as_secs_f64()),
        }
        self.outcomes.done.push(Done { name, outcome, time });
    }

    /// Seconds left.
    fn left(&self) -> u64 {
        ALL.saturating_sub(self.start.elapsed()).as_secs()
    }

    fn skip(&mut self, name: &str, why: &str) {
        eprintln!("gpu: {name}: skipped: {why}");
        self.outcomes.skipped.push((name.to_owned(), why.to_owned()));
    }

    /// Runs a program of the kit for at most this many seconds. Returns how it ended, and the file with all
    /// of its output.
    fn command(
        &self,
        name: &str,
        seconds: u64,
        program: &str,
        arguments: &[&str],
    ) -> Result<(ExitStatus, PathBuf)> {
        let mut command = Command::new(self.kit.file(program)?);
        command.args(arguments);
        self.run(name, command, seconds)
    }

    /// The same for any command.
    fn run(&self, name: &str, command: Command, seconds: u64) -> Result<(ExitStatus, PathBuf)> {
        let seconds = seconds.min(self.left()).max(1);
        let mut limited = limited(seconds);
        limited.arg(command.get_program()).args(command.get_args());
        limited.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
        let log = self.work.join("logs").join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let status = limited
            .current_dir(self.work)
            .envs(self.kit.environment()?)
            .env("FLASH_CACHE_DIR", self.work.join("cache"))
            .env("FLASH_TEST_GPU", "1")
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .status()
            .context("timeout (of coreutils) does not start")?;
        if matches!(status.code(), Some(124 | 137)) {
            bail!(
                "expected it to end within {seconds} s, and it did not; the end of what it said:\n{}",
                end(&log)?
            );
        }
        Ok((status, log))
    }

    fn energies(&mut self, options: &[&str]) -> Result<String> {
        let name = format!("nbody{}", options.concat());
        let report = self.work.join("logs").join(format!("{name}.json"));
        let to = report.to_str().context("a path in UTF-8")?;
        let arguments = [&["--runtime", KEY, "--quiet", "--report", to], options].concat();
        let (status, log) = self.command(&name, ENERGY, kit::NBODY, &arguments)?;
        ensure!(status.success(), "{}", end_of(&log, status)?);
        let report: Value = serde_json::from_str(&read(&report)?)?;
        let energies: Option<Vec<f64>> = report["kinetic_energy"]
            .as_array()
            .and_then(|energies| energies.iter().map(Value::as_f64).collect());
        let worst = compare(&energies.context("the report has no list of energies")?)?;
        Ok(format!("at most {worst:.2} units of the fifth digit from those published"))
    }

    /// Runs an example that checks its results, and says how fast it was.
    fn checked(&mut self, program: &str, options: &[&str]) -> Result<String> {
        let arguments = [&["--devices", KEY, "--check"], options].concat();
        let (status, log) = self.command(program, CHECKED, program, &arguments)?;
        ensure!(status.success(), "{}", end_of(&log, status)?);
        let said = read(&log)?;
        let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        Ok(lines[lines.len().saturating_sub(2)..].join("; "))
    }

    /// Runs a program of tests, each test in a process of its own: one that loses the device, or crashes,
    /// affects no other.
    fn tests(&mut self, program: &str, seconds: u64) -> Result<String> {
        let start = Instant::now();
        let list = ["--list", "--format", "terse"];
        let (status, log) = self.command(&format!("{program}-list"), 30, program, &list)?;
        ensure!(status.success(), "{}", end_of(&log, status)?);
        let list = read(&log)?;
        let of_sources =
            |name: &str| OF_SOURCES.iter().any(|(p, begin)| *p == program && name.starts_with(begin));
        let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
        let names: Vec<&str> = names.filter(|name| !of_sources(name)).collect();
        let (next, done) = (AtomicUsize::new(0), Mutex::new((Tally::default(), Vec::new())));
        let this = &*self;
        let some = || {
            while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut tally = Tally::default();
                let outcome = match seconds.saturating_sub(start.elapsed().as_secs()).min(this.left()) {
                    0 => Err(anyhow!("no time was left for it")),
                    left => this.test(program, name, left.min(TEST), &mut tally),
                };
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                done.0.add(tally);
                done.1.extend(outcome.err().map(|error| format!("{name}: {error:#}")));
            }
        };
        thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(some))));
        let (tally, failed) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        let skips = tally.skips.iter().map(|skip| (format!("{program}: {}", skip.name), skip.why.clone()));
        self.outcomes.skipped.extend(skips);
        let counts =
            format!("{} passed, {} failed, {} skipped", tally.passed, failed.len(), tally.skips.len());
        ensure!(failed.is_empty(), "{counts}\n{}", failed.join("\n"));
        ensure!(tally.passed > 0, "expected tests that pass, found none: {counts}");
        Ok(counts)
    }

    fn test(&self, program: &str, name: &str, seconds: u64, tally: &mut Tally) -> Result<()> {
        let shown = format!("{program}-{}", name.replace("::", "-"));
        let skips = self.work.join("logs").join(format!("{shown}.skips"));
        fs::write(&skips, "")?;
        let mut command = Command::new(self.kit.file(program)?);
        command.args(["--exact", name]).env("FLASH_SKIP_LOG", &skips);
        if program == kit::RUNTIME {
            // Those that choose their devices themselves run in `cargo xtask test`.
            command.envs([("FLASH_TEST_KEY", KEY), ("FLASH_TEST_AGAIN", "1")]);
        }
        let (status, log) = self.run(&shown, command, seconds)?;
        read(&log)?.lines().for_each(|line| tally.line(line));
        tally.skip_log(&read(&skips)?);
        ensure!(status.success(), "{}", end_of(&log, status)?);
        Ok(())
    }

    fn benchmark(&mut self, (name, options, seconds): (&'static str, &[&str], u64)) -> Result<String> {
        let table = self.work.join("logs").join(format!("{name}.md"));
        let to = table.to_str().context("a path in UTF-8")?;
        let arguments = [&[name, "--markdown", to], options].concat();
        let (status, log) = self.command(&format!("bench-{name}"), seconds, kit::BENCH, &arguments)?;
        ensure!(status.success(), "{}", end_of(&log, status)?);
        let said = read(&log)?;
        let missed: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix(MISSED)).collect();
        self.outcomes.missed.extend(missed.iter().map(|line| (*line).to_owned()));
        let table = read(&table)?;
        // A heading, a line below it, and the rows.
        let rows = table.lines().count().saturating_sub(2);
        ensure!(rows > 0, "expected rows, found none; {}", end_of(&log, status)?);
        self.outcomes.tables.push((name, table));
        Ok(match missed.len() {
            0 => format!("{rows} rows"),
            count => format!("{rows} rows, {count} goals missed"),
        })
    }

    fn sanitized(
        &mut self,
        sanitizer: &Path,
        (tool, options): (&str, &[&str]),
        checks: &str,
    ) -> Result<String> {
        let mut command = Command::new(sanitizer);
        command.args(["--tool", tool, "--error-exitcode", "9"]).args(options);
        // It looks at one process: the checks are to run in that.
        command.arg(self.kit.file(kit::FLASH)?).args(["conformance", KEY, "--check", checks]);
        let (status, log) = self.run(&format!("sanitizer-{tool}"), command, SANITIZER)?;
        ensure!(status.success(), "{}", end_of(&log, status)?);
        last_line(&log)
    }
}

/// A command that is ended after this many seconds, with all its children. The program is its argument.
pub fn limited(seconds: u64) -> Command {
    let mut command = Command::new("timeout");
    command.arg("--kill-after=5").arg(seconds.to_string());
    command
}

/// The distance of energies from the published ones, in units of their fifth digit; more than one is an
/// error.
fn compare(energies: &[f64]) -> Result<f64> {
    ensure!(
        energies.len() == PUBLISHED.len(),
        "expected {} energies, found {}",
        PUBLISHED.len(),
        energies.len()
    );
    let mut worst = 0.0;
    for (step, (&found, published)) in (1..).zip(energies.iter().zip(PUBLISHED)) {
        let unit = 10f64.powi(published.log10().floor() as i32 - 4);
        let apart = (found - published).abs() / unit;
        // NaN is not within.
        let within = apart <= 1.001;
        ensure!(within, "step {step}: expected a kinetic energy of {published}, found {found}");
        worst = apart.max(worst);
    }
    Ok(worst)
}

fn read(file: &Path) -> Result<String> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The last lines of a file.
fn end(log: &Path) -> Result<String> {
    const LINES: usize = 20;
    let text = read(log)?;
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(LINES)..].join("\n"))
}

/// The end of a program that failed.
fn end_of(log: &Path, status: ExitStatus) -> Result<String> {
    Ok(format!("{status}; the end of what it said:\n{}", end(log)?))
}

/// The last line that is not empty.
fn last_line(log: &Path) -> Result<String> {
    let text = read(log)?;
    Ok(text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energies_may_be_one_unit_of_the_fifth_digit_apart() -> Result<()> {
        assert_eq!(compare(&PUBLISHED)?, 0.0);
        // In double precision, rounded to the other side.
        let mut energies = PUBLISHED;
        energies[9] = 14571.504;
        assert!(compare(&energies)? < 0.5);
        for wrong in [14574.0, f64::NAN] {
            energies[9] = wrong;
            let error = compare(&energies).unwrap_err().to_string();
            assert!(error.starts_with("step 10: expected a kinetic energy of 14572"), "{error}");
        }
        assert!(compare(&PUBLISHED[..9]).is_err());
        Ok(())
    }

    #[test]
    fn every_step_has_its_time_though_all_others_take_all_of_theirs() {
        let of_tests: u64 = TESTS.iter().map(|(_, seconds)| seconds).sum();
        let of_benchmarks: u64 = BENCHMARKS.iter().map(|(.., seconds)| seconds).sum();
        let of_energies = ENERGY * ENERGIES.len() as u64 + CHECKED * PROGRAMS.len() as u64;
        let of_sanitizers = SANITIZER * SANITIZERS.len() as u64;
        let all = CONFORMANCE + of_energies + of_tests + of_benchmarks + of_sanitizers;
        assert!(all <= ALL.as_secs(), "{all} s");
    }

    #[test]
    fn a_step_that_has_no_time_left_is_one_that_failed() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let kit = Kit::nothing();
        let mut runner = Runner::new(&kit, folder.path());
        runner.step("first", |_| Ok("fine".into()));
        assert!(runner.outcomes.ok());
        runner.start = Instant::now().checked_sub(ALL).context("this machine has run for longer")?;
        runner.step("late", |_| Ok("fine".into()));
        assert!(!runner.outcomes.ok());
        let late = &runner.outcomes.done[1];
        assert!(matches!(&late.outcome, Err(error) if error.to_string() == "no time was left for it"));
        Ok(())
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended() -> Result<()> {
        let start = Instant::now();
        let status = limited(1).args(["sleep", "60"]).status()?;
        assert_eq!(status.code(), Some(124));
        assert!(start.elapsed() < Duration::from_secs(20));
        Ok(())
    }
}
