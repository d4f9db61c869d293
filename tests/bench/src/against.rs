//! A benchmark of this checkout beside the same one of another, in processes that take turns.
//!
//! A run is one process of each side, one after the other; every second run begins with the other side. Each
//! process measures all rows of the benchmark and gives a figure for each, the median of its own turns. A
//! row's ratio is taken run by run, as in [`stats`](crate::stats), and its median decides. The other
//! checkout's program is used as it is: it need not know of this module, only of `--list` and `--child`.
//!
//! A row beyond the limit is measured once more. Where a process can measure it and nothing else, such
//! processes take turns; else the whole benchmark does.

use crate::child::ROWS;
use crate::report;
use crate::stats::{self, Alone, Row};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The greatest ratio of a row.
pub const LIMIT: f64 = 1.05;
/// A row that takes at most this many nanoseconds more is within the limit, whatever its ratio.
pub const SLACK_NS: f64 = 1.0;
/// The greatest geometric mean of a benchmark's ratios.
pub const MEAN_LIMIT: f64 = 1.02;

/// A checkout, and the benchmarks that were built in it.
pub struct Side {
    program: PathBuf,
    root: PathBuf,
    target: PathBuf,
}

impl Side {
    /// This program, which was started in its checkout.
    pub fn here() -> Result<Side> {
        let program = std::env::current_exe().context("this program has no path")?;
        let target =
            program.ancestors().nth(2).context("this program lies in no build directory")?.to_owned();
        Ok(Side { root: std::env::current_dir()?, target, program })
    }

    /// Another checkout, in whose own build directory the program is.
    pub fn there(checkout: &Path) -> Result<Side> {
        let root =
            checkout.canonicalize().with_context(|| format!("no checkout at {}", checkout.display()))?;
        let target = root.join("target");
        let program = target.join("release/flash-bench");
        ensure!(
            program.is_file(),
            "expected the benchmarks of {} at {}, found none: `cargo xtask bench NAME --against DIR` builds them",
            root.display(),
            program.display()
        );
        Ok(Side { program, root, target })
    }

    fn output(&self, arguments: &[String], environment: &[(String, String)]) -> Result<Output> {
        let mut command = Command::new(&self.program);
        // A row builds a plugin of the checkout that it measures.
        command.args(arguments).current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let program = self.program.display();
        let output = command.output().with_context(|| format!("{program} does not start"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{program} ended with {}:\n{}", output.status, said.trim_end());
        Ok(output)
    }

    /// Names of the benchmarks that it has.
    fn benchmarks(&self) -> Result<Vec<String>> {
        let output = self.output(&["--list".into()], &[])?;
        Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
    }

    /// All rows that a process measures with these arguments.
    fn rows(&self, arguments: &[String]) -> Result<Vec<Row>> {
        let output = self.output(arguments, &[])?;
        serde_json::from_slice(&output.stdout).with_context(|| self.printed())
    }

    /// One row, by a process that measures it and nothing else: it prints a figure, a row without its name,
    /// or several.
    fn alone(&self, row: &Row, alone: &Alone) -> Result<Row> {
        let output = self.output(&["--child".into(), alone.what.clone()], &alone.environment)?;
        let printed: Printed = serde_json::from_slice(&output.stdout).with_context(|| self.printed())?;
        let named = |found: Row| Row { name: row.name.clone(), unit: row.unit.clone(), ..found };
        Ok(match printed {
            Printed::Figure(figure) => Row::from_turns(&row.name, &row.unit, &[(figure, None)]),
            Printed::Row(found) => named(*found),
            Printed::Rows(rows) => {
                rows.into_iter().find(|found| key(found) == key(row)).with_context(|| self.printed())?
            }
        })
    }

    fn printed(&self) -> String {
        format!("what {} printed is not the rows that were asked for", self.program.display())
    }
}

/// The output of a process that measures one row.
#[derive(Deserialize)]
#[serde(untagged)]
enum Printed {
    Figure(f64),
    Row(Box<Row>),
    Rows(Vec<Row>),
}

/// The key of a row: two rows with the same are the same figure.
fn key(row: &Row) -> (&str, &str) {
    (&row.name, &row.unit)
}

/// A run: the rows of a process of each side.
type Run = [Vec<Row>; 2];

/// Measures a benchmark on both sides, and once more the rows that are beyond the limit.
pub fn compare(sides: &[Side; 2], benchmark: &str, arguments: &[String], runs: usize) -> Result<Comparison> {
    let has = sides[1].benchmarks()?;
    ensure!(
        has.iter().any(|name| name == benchmark),
        "{} has no benchmark `{benchmark}`: it has {}",
        sides[1].root.display(),
        has.join(", ")
    );
    let arguments: Vec<String> = [benchmark.into(), "--child".into(), ROWS.into()]
        .into_iter()
        .chain(arguments.iter().cloned())
        .collect();
    let whole = |side: &Side| side.rows(&arguments);
    let first = series(sides, runs, whole)?;
    let mut comparison = Comparison::of(benchmark, &first);
    let beyond: Vec<&Row> =
        comparison.beyond().filter_map(|row| find(&first[0][0], (&row.name, &row.unit))).collect();
    if beyond.is_empty() {
        return Ok(comparison);
    }
    print!("{}", report::aligned(&comparison.cells()));
    let count = beyond.len();
    eprintln!("{count} of {} rows beyond the limit: once more ...", comparison.rows.len());
    for (row, alone) in beyond.iter().filter_map(|row| Some((row, row.alone.as_ref()?))) {
        eprintln!("{} ...", row.name);
        comparison.again(&series(sides, runs, |side| Ok(vec![side.alone(row, alone)?]))?);
    }
    if beyond.iter().any(|row| row.alone.is_none()) {
        comparison.again(&series(sides, runs, whole)?);
    }
    Ok(comparison)
}

/// The runs of one series, with the time that is left on standard error.
fn series(sides: &[Side; 2], runs: usize, rows: impl Fn(&Side) -> Result<Vec<Row>>) -> Result<Vec<Run>> {
    let start = Instant::now();
    let mut done: Vec<Run> = Vec::new();
    for run in 0..runs {
        let left = match run {
            0 => String::new(),
            _ => format!(", {} left", spoken(start.elapsed() / run as u32 * (runs - run) as u32)),
        };
        eprintln!("run {} of {runs}{left} ...", run + 1);
        done.push(if run % 2 == 0 {
            let here = rows(&sides[0])?;
            [here, rows(&sides[1])?]
        } else {
            let there = rows(&sides[1])?;
            [rows(&sides[0])?, there]
        });
    }
    Ok(done)
}

fn spoken(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..60 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

/// A benchmark on both sides.
#[derive(Debug, Serialize)]
pub struct Comparison {
    pub benchmark: String,
    /// Those that both sides have.
    pub rows: Vec<Compared>,
    /// The geometric mean of the rows' ratios, the second where there are two.
    pub geometric_mean: Option<f64>,
    /// Rows of this checkout that the other does not have, and the other way round.
    pub only_here: Vec<String>,
    pub only_there: Vec<String>,
}

/// A row that both sides have.
#[derive(Debug, Serialize)]
pub struct Compared {
    pub name: String,
    pub unit: String,
    pub first: Figures,
    /// Measured once more, because it was beyond the limit.
    pub again: Option<Figures>,
}

/// What the runs say of a row.
#[derive(Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Number of runs in which both sides had it.
    pub runs: usize,
    /// The median of each side, in the row's unit.
    pub here: f64,
    pub there: f64,
    /// The median of the runs' ratios: above 1 this checkout is worse, whether the unit is a time or a rate.
    /// None if a figure is not above 0.
    pub ratio: Option<f64>,
    /// The least and the greatest ratio of a run.
    pub spread: Option<[f64; 2]>,
    /// The 95 % confidence interval of the ratio that many more runs would have. None for fewer than six
    /// runs.
    pub interval: Option<[f64; 2]>,
    /// The same for the peers that both sides measured: its distance from 1 is the machine's doing.
    pub peer: Option<f64>,
    pub beyond: bool,
}

impl Comparison {
    fn of(benchmark: &str, runs: &[Run]) -> Comparison {
        let keys = |side: usize| {
            let mut keys: Vec<(&str, &str)> = Vec::new();
            for row in runs.iter().flat_map(|run| &run[side]) {
                if !keys.contains(&key(row)) {
                    keys.push(key(row));
                }
            }
            keys
        };
        let (here, there) = (keys(0), keys(1));
        let only = |those: &[(&str, &str)], others: &[(&str, &str)]| {
            let only = those.iter().filter(|key| !others.contains(key) || figures(runs, **key).is_none());
            only.map(|(name, unit)| format!("{name} ({unit})")).collect()
        };
        let rows = here.iter().filter_map(|key| {
            let first = figures(runs, *key)?;
            Some(Compared { name: key.0.into(), unit: key.1.into(), first, again: None })
        });
        let rows: Vec<Compared> = rows.collect();
        Comparison {
            benchmark: benchmark.into(),
            geometric_mean: geometric_mean(&rows),
            only_here: only(&here, &there),
            only_there: only(&there, &here),
            rows,
        }
    }

    /// Adds a second series, for the rows beyond the limit that are in it and have none yet.
    fn again(&mut self, runs: &[Run]) {
        for row in self.rows.iter_mut().filter(|row| row.first.beyond && row.again.is_none()) {
            row.again = figures(runs, (&row.name, &row.unit));
        }
        self.geometric_mean = geometric_mean(&self.rows);
    }

    /// Rows that are beyond the limit, twice where they were measured twice.
    pub fn beyond(&self) -> impl Iterator<Item = &Compared> {
        self.rows.iter().filter(|row| row.last().beyond)
    }

    /// True if all is within its limit.
    pub fn holds(&self) -> bool {
        self.beyond().next().is_none() && self.geometric_mean.is_none_or(|mean| mean <= MEAN_LIMIT)
    }

    /// The table's cells, with its head.
    pub fn cells(&self) -> Vec<[String; 9]> {
        let head = ["name", "unit", "here", "there", "ratio", "95 %", "min .. max", "peer", "limit"];
        let lines = self.rows.iter().flat_map(|row| {
            let again =
                row.again.as_ref().map(|again| again.cells(&format!("  again: {}", row.name), &row.unit));
            [row.first.cells(&row.name, &row.unit)].into_iter().chain(again)
        });
        std::iter::once(head.map(String::from)).chain(lines).collect()
    }

    /// The lines below the table.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        let mut line = |words: String| text = format!("{text}{words}\n");
        match self.geometric_mean {
            Some(mean) => line(format!("geometric mean of the ratios: {mean:.3}, limit {MEAN_LIMIT}")),
            None => line("no row has a ratio".into()),
        }
        let beyond: Vec<&Compared> = self.beyond().collect();
        match beyond.len() {
            0 => line(format!("no row beyond {LIMIT} and {SLACK_NS} ns more")),
            count => line(format!("{count} beyond {LIMIT} and {SLACK_NS} ns more, measured twice:")),
        }
        beyond.iter().for_each(|row| line(format!("  {} ({})", row.name, row.unit)));
        for (side, rows) in [("here", &self.only_here), ("there", &self.only_there)] {
            rows.iter().for_each(|row| line(format!("only {side}: {row}")));
        }
        text
    }
}

impl Compared {
    fn last(&self) -> &Figures {
        self.again.as_ref().unwrap_or(&self.first)
    }
}

impl Figures {
    fn cells(&self, name: &str, unit: &str) -> [String; 9] {
        let figure = |value: Option<f64>| value.map_or_else(|| "-".into(), report::figure);
        let range = |range: Option<[f64; 2]>| match range {
            Some([low, high]) => format!("{} .. {}", report::figure(low), report::figure(high)),
            None => "-".into(),
        };
        let limit = if self.beyond { "beyond" } else { "within" };
        [
            name.into(),
            unit.into(),
            report::figure(self.here),
            report::figure(self.there),
            figure(self.ratio),
            range(self.interval),
            range(self.spread),
            figure(self.peer),
            limit.into(),
        ]
    }
}

fn find<'a>(rows: &'a [Row], wanted: (&str, &str)) -> Option<&'a Row> {
    rows.iter().find(|row| key(row) == wanted)
}

/// What the runs say of a row. None if it is in no run of both sides.
fn figures(runs: &[Run], key: (&str, &str)) -> Option<Figures> {
    let unit = key.1;
    let pairs: Vec<[&Row; 2]> =
        runs.iter().filter_map(|[here, there]| Some([find(here, key)?, find(there, key)?])).collect();
    if pairs.is_empty() {
        return None;
    }
    let side = |side: usize| stats::median(&stats::sorted(pairs.iter().map(|pair| pair[side].value)));
    let of = |ratios: &dyn Fn(&[&Row; 2]) -> Option<f64>| {
        pairs.iter().map(ratios).collect::<Option<Vec<f64>>>().map(|ratios| stats::sorted(ratios.into_iter()))
    };
    let ratios = of(&|[here, there]| ratio(unit, here.value, there.value));
    let peers = of(&|[here, there]| ratio(unit, here.peer?, there.peer?));
    let median = ratios.as_ref().map(|ratios| stats::median(ratios));
    let more = stats::sorted(pairs.iter().map(|[here, there]| here.value - there.value));
    let beyond = match (median, nanoseconds(unit)) {
        (Some(ratio), Some(unit)) => ratio > LIMIT && stats::median(&more) * unit > SLACK_NS,
        (Some(ratio), None) => ratio > LIMIT,
        // A difference of two figures may be below 0, and is small beside its noise.
        (None, unit) => stats::interval(&more).is_some_and(|[low, _]| low * unit.unwrap_or(1.0) > SLACK_NS),
    };
    Some(Figures {
        runs: pairs.len(),
        here: side(0),
        there: side(1),
        ratio: median,
        spread: ratios.as_ref().map(|ratios| [ratios[0], ratios[ratios.len() - 1]]),
        interval: ratios.as_ref().and_then(|ratios| stats::interval(ratios)),
        peer: peers.map(|peers| stats::median(&peers)),
        beyond,
    })
}

/// How much worse `here` is than `there`: above 1 it is.
fn ratio(unit: &str, here: f64, there: f64) -> Option<f64> {
    let (worse, better) = if is_rate(unit) { (there, here) } else { (here, there) };
    if here == there {
        // Both are zero, as a number of allocations may be.
        return Some(1.0);
    }
    (worse >= 0.0 && better >= 0.0).then(|| worse / better)
}

/// True if more of the unit is better.
fn is_rate(unit: &str) -> bool {
    unit.ends_with("/s") || unit == "score"
}

/// Nanoseconds of a unit of time.
fn nanoseconds(unit: &str) -> Option<f64> {
    let of = |(name, nanoseconds)| (name == unit).then_some(nanoseconds);
    [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)].into_iter().find_map(of)
}

/// The geometric mean of the ratios that have a logarithm.
fn geometric_mean(rows: &[Compared]) -> Option<f64> {
    let ratios = rows.iter().filter_map(|row| row.last().ratio);
    let logarithms: Vec<f64> = ratios.map(f64::ln).filter(|ln| ln.is_finite()).collect();
    (!logarithms.is_empty()).then(|| (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, unit: &str, value: f64) -> Row {
        Row::from_turns(name, unit, &[(value, None)])
    }

    /// Runs of one row.
    fn runs(unit: &str, pairs: &[(f64, f64)]) -> Vec<Run> {
        pairs.iter().map(|&(here, there)| [vec![row("a", unit, here)], vec![row("a", unit, there)]]).collect()
    }

    fn only(unit: &str, pairs: &[(f64, f64)]) -> Figures {
        figures(&runs(unit, pairs), ("a", unit)).expect("both sides have the row")
    }

    #[test]
    fn the_ratio_is_the_median_over_runs_and_above_1_is_worse() {
        let slow = only("ns", &[(200.0, 100.0), (110.0, 100.0), (50.0, 10.0)]);
        assert_eq!((slow.here, slow.there, slow.ratio, slow.runs), (110.0, 100.0, Some(2.0), 3));
        assert_eq!((slow.spread, slow.interval, slow.beyond), (Some([1.1, 5.0]), None, true));
        // A higher rate is better.
        let fast = only("GB/s", &[(20.0, 10.0); 6]);
        assert_eq!((fast.ratio, fast.interval, fast.beyond), (Some(0.5), Some([0.5, 0.5]), false));
        assert!(only("GB/s", &[(9.0, 10.0); 6]).beyond);
        assert!(only("score", &[(0.9, 1.0); 6]).beyond);
    }

    #[test]
    fn a_row_is_beyond_the_limit_by_five_per_cent_and_more_than_a_nanosecond() {
        assert!(!only("ns", &[(104.0, 100.0); 6]).beyond);
        assert!(only("ns", &[(106.0, 100.0); 6]).beyond);
        assert!(!only("ns", &[(10.9, 10.0); 6]).beyond, "0.9 ns more");
        assert!(only("us", &[(0.0109, 0.01); 6]).ratio.is_some_and(|ratio| ratio > LIMIT));
        assert!(!only("us", &[(0.0109, 0.01); 6]).beyond, "0.9 ns more");
        assert!(only("us", &[(1.2, 1.0); 6]).beyond, "200 ns more");
        assert!(only("ns/item", &[(0.2, 0.1); 6]).beyond, "no nanosecond is given for each item");
    }

    #[test]
    fn counts_of_none_are_equal_and_one_more_is_beyond() {
        let none = only("count", &[(0.0, 0.0); 6]);
        assert_eq!((none.ratio, none.beyond), (Some(1.0), false));
        assert!(only("count", &[(1.0, 0.0); 6]).beyond);
        assert!(!only("count", &[(0.0, 1.0); 6]).beyond);
    }

    #[test]
    fn differences_below_0_have_no_ratio_and_are_beyond_only_outside_their_noise() {
        let noisy = only("us", &[(-0.3, 0.2), (0.5, -0.1), (0.2, 0.1), (0.1, 0.3), (0.4, 0.2), (0.0, 0.1)]);
        assert_eq!((noisy.ratio, noisy.beyond), (None, false));
        assert!(only("us", &[(9.0, -0.1); 6]).beyond);
    }

    #[test]
    fn the_peers_ratio_tells_what_the_machine_did() {
        let with = |value, peer| vec![Row::from_turns("a", "ns", &[(value, Some(peer))])];
        let runs: Vec<Run> = vec![[with(150.0, 30.0), with(100.0, 20.0)]];
        assert_eq!(figures(&runs, ("a", "ns")).and_then(|row| row.peer), Some(1.5));
    }

    #[test]
    fn rows_meet_by_name_and_unit_and_those_of_one_side_are_listed() {
        let here = vec![row("same", "ns", 2.0), row("same", "%", 1.0), row("new", "ns", 1.0)];
        let there = vec![row("old", "ns", 1.0), row("same", "%", 1.0), row("same", "ns", 1.0)];
        let comparison = Comparison::of("dispatch", &[[here, there]]);
        let names: Vec<_> =
            comparison.rows.iter().map(|row| (row.name.as_str(), row.unit.as_str())).collect();
        assert_eq!(names, [("same", "ns"), ("same", "%")]);
        assert_eq!(comparison.only_here, ["new (ns)"]);
        assert_eq!(comparison.only_there, ["old (ns)"]);
        let text = comparison.summary();
        assert!(text.contains("only here: new (ns)\n") && text.contains("only there: old (ns)\n"), "{text}");
        assert!(comparison.geometric_mean.is_some_and(|mean| (mean - 2f64.sqrt()).abs() < 1e-12));
    }

    #[test]
    fn a_row_that_is_beyond_once_is_judged_by_its_second_series() {
        let mut comparison = Comparison::of("dispatch", &runs("ns", &[(200.0, 100.0); 6]));
        assert!(!comparison.holds() && comparison.beyond().count() == 1);
        comparison.again(&runs("ns", &[(101.0, 100.0); 6]));
        assert!(comparison.holds(), "{}", comparison.summary());
        assert_eq!(comparison.geometric_mean.map(|mean| (mean * 1e3).round()), Some(1010.0));
        let table = report::aligned(&comparison.cells());
        assert!(
            table.contains("beyond") && table.contains("  again: a") && table.contains("within"),
            "{table}"
        );
    }

    #[test]
    fn the_mean_has_a_limit_of_its_own() {
        let comparison = Comparison::of("dispatch", &runs("ns", &[(103.0, 100.0); 6]));
        assert!(comparison.beyond().next().is_none() && !comparison.holds());
    }

    /// A checkout whose benchmarks are a script.
    fn checkout(folder: &Path, name: &str, script: &str) -> Result<Side> {
        let root = folder.join(name);
        let release = root.join("target/release");
        std::fs::create_dir_all(&release)?;
        let program = release.join("flash-bench");
        // Written by a process of its own: a file that this one has open for writing is open, for a moment,
        // in whatever another test starts, and Linux runs no such file.
        let written = Command::new("sh")
            .args(["-c", "printf '%s\\n' '#!/bin/sh' \"$1\" > \"$0\" && chmod 755 \"$0\""])
            .args([program.as_os_str(), script.as_ref()])
            .status()?;
        ensure!(written.success(), "{} was not written", program.display());
        Side::there(&root)
    }

    #[test]
    fn processes_take_turns_and_are_told_the_arguments() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let log = folder.path().join("log");
        let script = |value: f64| -> Result<String> {
            let rows = serde_json::to_string(&[row("a", "ns", value)])?;
            let log = log.display();
            Ok(format!(
                "if [ \"$1\" = --list ]; then echo dispatch; exit; fi\n\
                 echo \"$(basename \"$PWD\") $*\" >> '{log}'\necho '{rows}'"
            ))
        };
        let sides = [
            checkout(folder.path(), "new", &script(100.0)?)?,
            checkout(folder.path(), "old", &script(100.0)?)?,
        ];
        let comparison = compare(&sides, "dispatch", &["--seconds=3".into()], 4)?;
        assert_eq!((comparison.rows.len(), comparison.holds()), (1, true));
        let log = std::fs::read_to_string(log)?;
        let turns: Vec<&str> = log.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(turns, ["new", "old", "old", "new", "new", "old", "old", "new"]);
        assert!(log.lines().all(|line| line.ends_with(" dispatch --child rows --seconds=3")), "{log}");

        let error = compare(&sides, "async", &[], 4).unwrap_err().to_string();
        assert!(error.ends_with("old has no benchmark `async`: it has dispatch"), "{error}");
        Ok(())
    }

    #[test]
    fn a_row_beyond_the_limit_is_measured_once_more_by_itself_where_that_can_be() -> Result<()> {
        let folder = tempfile::tempdir()?;
        // Of three rows two are beyond the limit, and one of these can be measured by itself.
        let script = |value: f64, alone: &str| -> Result<String> {
            let rows = [
                row("alone", "ns", value).by("it", &[("HOW", "so")]),
                row("together", "ns", value),
                row("same", "ns", 5.0),
            ];
            let rows = serde_json::to_string(&rows)?;
            Ok(format!(
                "case \"$*\" in\n--list) echo dispatch;;\n'--child it') [ \"$HOW\" = so ] && echo '{alone}';;\n\
                 *) echo '{rows}';;\nesac"
            ))
        };
        for printed in [
            "50",
            &serde_json::to_string(&row("", "", 50.0))?,
            &serde_json::to_string(&[row("alone", "ns", 50.0)])?,
        ] {
            let sides = [
                checkout(folder.path(), "new", &script(200.0, printed)?)?,
                checkout(folder.path(), "old", &script(100.0, printed)?)?,
            ];
            let comparison = compare(&sides, "dispatch", &[], 2)?;
            let again = |name: &str| {
                let row = comparison.rows.iter().find(|row| row.name == name);
                row.and_then(|row| row.again.as_ref()).map(|again| (again.here, again.beyond))
            };
            assert_eq!(again("alone"), Some((50.0, false)), "{printed}");
            assert_eq!((again("together"), again("same")), (Some((200.0, true)), None));
            assert!(!comparison.holds());
        }
        Ok(())
    }

    #[test]
    fn a_process_that_fails_is_told_with_what_it_said() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let script = "if [ \"$1\" = --list ]; then echo dispatch; exit; fi\necho 'no peer' >&2; exit 3";
        let sides = [checkout(folder.path(), "new", script)?, checkout(folder.path(), "old", script)?];
        let error = compare(&sides, "dispatch", &[], 1).unwrap_err().to_string();
        assert!(
            error.contains("new/target/release/flash-bench ended with exit status: 3")
                && error.ends_with("no peer"),
            "{error}"
        );
        Ok(())
    }

    #[test]
    fn a_checkout_without_built_benchmarks_is_refused() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let error = Side::there(folder.path()).map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with("expected the benchmarks of ") && error.contains("builds them"), "{error}");
        let error = Side::there(&folder.path().join("none")).map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with("no checkout at "), "{error}");
        Ok(())
    }
}
