//! Tours: programs that are several short ones, each of which shows one thing and checks its own result.

use crate::exit_code;
use anyhow::{Result, ensure};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command};
use std::process::ExitCode;
use std::time::Instant;

/// A short program.
#[derive(Clone, Copy)]
pub struct Stop {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows.
    pub shows: &'static str,
    /// Runs it, and says in a line what came out.
    pub run: fn() -> Result<String>,
}

/// The program: runs the stops that the command line names, or all of them.
pub fn tour(name: &'static str, about: &'static str, stops: &[Stop]) -> ExitCode {
    let matches = command(name, about, stops).get_matches();
    if matches.get_flag("list") {
        print!("{}", list(stops));
        return ExitCode::SUCCESS;
    }
    let names: Vec<&String> = matches.get_many("names").unwrap_or_default().collect();
    let width = width(stops);
    let run = || {
        for stop in stops.iter().filter(|stop| names.is_empty() || names.iter().any(|n| *n == stop.name)) {
            let start = Instant::now();
            let said = (stop.run)()?;
            println!("{:<width$} {:>9.3} ms  {said}", stop.name, start.elapsed().as_secs_f64() * 1e3);
        }
        Ok(())
    };
    exit_code(name, run())
}

fn command(name: &'static str, about: &'static str, stops: &[Stop]) -> Command {
    let known = PossibleValuesParser::new(stops.iter().map(|stop| stop.name));
    let names = Arg::new("names").num_args(0..).value_parser(known).hide_possible_values(true);
    let list_them = Arg::new("list").long("list").action(ArgAction::SetTrue);
    Command::new(name)
        .about(about)
        .arg(names.help("Which programs; without a name, all of them run"))
        .arg(list_them.help("Lists the programs"))
        .after_help(list(stops))
}

/// The stops with what they show.
fn list(stops: &[Stop]) -> String {
    let width = width(stops);
    let lines = stops.iter().map(|stop| format!("  {:<width$} {}\n", stop.name, stop.shows));
    format!("Programs:\n{}", lines.collect::<String>())
}

fn width(stops: &[Stop]) -> usize {
    stops.iter().map(|stop| stop.name.len()).max().unwrap_or(0)
}

/// An error that says what was expected.
///
/// # Errors
/// If it is not what was found.
pub fn expect<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> Result<()> {
    ensure!(found == expected, "expected {expected:?}, found {found:?}");
    Ok(())
}

/// What the tests of a tour check: that the help and the list name each stop, and that each stop gives what
/// it should, several times.
///
/// # Panics
/// If not.
pub fn check(stops: &[Stop]) {
    let mut command = command("tour", "", stops);
    command.clone().debug_assert();
    let (help, list) = (command.render_help().to_string(), list(stops));
    for Stop { name, shows, run } in stops {
        for text in [&help, &list] {
            assert!(text.contains(name) && text.contains(shows), "{name}: {text}");
        }
        for _ in 0..3 {
            run().unwrap_or_else(|error| panic!("{name}: {error:#}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOPS: [Stop; 2] = [
        Stop { name: "one", shows: "the first", run: || Ok("fine".into()) },
        Stop { name: "other", shows: "a failure", run: || expect(1, 2).map(|()| String::new()) },
    ];

    #[test]
    fn names_are_lined_up() {
        assert_eq!(list(&STOPS), "Programs:\n  one   the first\n  other a failure\n");
    }

    #[test]
    #[should_panic(expected = "other: expected 2, found 1")]
    fn a_stop_that_finds_something_else_fails_the_check() {
        check(&STOPS);
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        let refused = command("tour", "", &STOPS).try_get_matches_from(["tour", "three"]);
        assert!(refused.is_err_and(|error| error.exit_code() == 2));
    }
}
