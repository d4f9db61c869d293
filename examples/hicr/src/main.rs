//! Programs of the HiCR model, over any managers.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use flash_examples::{Refused, exit_code};
use flash_hicr::{Error, Managers, Template};
use hicr::{PROGRAMS, Program};
use serde_json::{Map, Value};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

fn command() -> Command {
    let width = PROGRAMS.iter().map(|program| program.name.len()).max().unwrap_or(0);
    let list = PROGRAMS.iter().map(|program| format!("  {:<width$} {}\n", program.name, program.shows));
    let names = PossibleValuesParser::new(PROGRAMS.map(|program| program.name));
    let over = PossibleValuesParser::new(["threads", "processes", "devices"]);
    Command::new("hicr")
        .about(
            "Programs of the HiCR model: instances that have memory of their own and copy into each other's. Each \
             program is written once, for all managers. docs/hicr.md explains; read them in examples/hicr/src.",
        )
        .arg(
            Arg::new("names")
                .num_args(0..)
                .value_parser(names)
                .hide_possible_values(true)
                .help("Which programs; without a name, all that run over these managers"),
        )
        .arg(Arg::new("over").long("over").value_parser(over).default_value("threads").help(
            "The managers: threads of this process, processes of this machine, or the devices of a runtime key",
        ))
        .arg(
            Arg::new("instances")
                .short('n')
                .long("instances")
                .value_parser(value_parser!(u32).range(1..=64))
                .default_value("2")
                .help("Instances. Processes that are lacking are created, on processors of the first"),
        )
        .arg(
            Arg::new("key")
                .long("key")
                .default_value("ALL_ACCEL")
                .help("The runtime key of --over devices, such as ALL_CPU"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Prints one JSON object"))
        .after_help(format!(
            "Programs:\n{}\nExamples:\n  hicr                                    all programs over two threads\n  hicr \
             --over processes -n 2 ping-pong  creates a process\n  flash run -n 4 -- hicr --over processes -n 4\n  hicr \
             --over devices --key ALL_CPU gemm\n\nExit codes: 0 all is right, 1 something is not, 2 a wrong command \
             line.",
            list.collect::<String>()
        ))
}

fn main() -> ExitCode {
    let matches = command().get_matches();
    exit_code("hicr", run(&matches))
}

fn run(matches: &ArgMatches) -> anyhow::Result<()> {
    let text = |name: &str| matches.get_one::<String>(name).map_or("", |text| &**text);
    let over = text("over");
    let count = matches.get_one::<u32>("instances").map_or(1, |count| *count as usize);
    let names: Vec<String> = matches.get_many("names").unwrap_or_default().cloned().collect();
    let is_there = |program: &Program| match over {
        "devices" => program.not_over_devices.is_none(),
        _ => program.instances <= count,
    };
    let chosen: Vec<Program> = match names.is_empty() {
        true => PROGRAMS.into_iter().filter(is_there).collect(),
        false => names.iter().filter_map(|name| hicr::program(name)).collect(),
    };
    if let Some(program) = chosen.iter().find(|program| !is_there(program)) {
        let why = match (over, program.not_over_devices) {
            ("devices", Some(why)) => format!("it does not run over devices: {why}"),
            _ => format!("expected {} instances or more, found -n {count}", program.instances),
        };
        return Err(Refused(format!("{}: {why}", program.name)).into());
    }
    let reports = match over {
        "threads" => {
            let reports = Arc::new(Mutex::new(None));
            let (kept, chosen) = (reports.clone(), chosen.clone());
            flash_hicr::threads(count, move |hicr| {
                let found = all(&hicr, &chosen)?;
                if hicr.instances.current().is_root() {
                    *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
                }
                Ok(())
            })?;
            let mut reports = reports.lock().unwrap_or_else(PoisonError::into_inner);
            reports.take().unwrap_or_default()
        }
        "processes" => {
            let hicr = flash_hicr::join()?;
            let found = hicr.instances.instances()?.len();
            let hicr = match found {
                1 if count > 1 => hicr.instances.create(&Template::default(), count - 1)?,
                _ if found == count => hicr,
                _ => {
                    let why = format!("expected -n {count} instances, found {found}: pass -n {found}");
                    return Err(Refused(why).into());
                }
            };
            let reports = all(&hicr, &chosen)?;
            if !hicr.instances.current().is_root() {
                return Ok(());
            }
            reports
        }
        _ => all(&flash_hicr::devices(text("key"))?, &chosen)?,
    };
    print(&reports, matches.get_flag("json"));
    Ok(())
}

/// Runs this instance's part of all programs.
fn all(hicr: &Managers, programs: &[Program]) -> Result<Map<String, Value>, Error> {
    let run = |program: &Program| Ok((program.name.to_owned(), (program.run)(hicr)?));
    programs.iter().map(run).collect()
}

fn print(reports: &Map<String, Value>, json: bool) {
    if json {
        println!("{}", Value::Object(reports.clone()));
        return;
    }
    for (name, report) in reports {
        println!("{name}");
        for (what, value) in report.as_object().into_iter().flatten() {
            match value {
                Value::Array(rows) if rows.iter().all(Value::is_object) => {
                    println!("  {what}:");
                    rows.iter().for_each(|row| println!("    {}", line(row)));
                }
                value => println!("  {what}: {}", plain(value)),
            }
        }
    }
}

fn line(row: &Value) -> String {
    let fields =
        row.as_object().into_iter().flatten().map(|(what, value)| format!("{what} {}", plain(value)));
    fields.collect::<Vec<_>>().join(", ")
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => format!("{:.3}", number.as_f64().unwrap_or(0.0)),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_sound() {
        super::command().debug_assert();
    }
}
