//! Each program over each kind of manager.

use crate::over_threads;
use flash_hicr::Managers;
use flash_tests::in_process;
use flash_tests_hicr::processes;
use hicr::{PROGRAMS, Program};
// Its devices are listed.
use flash_backend_opencl_fpga as _;

const DOCS: &str = include_str!("../../../../docs/hicr.md");

fn run(hicr: &Managers, program: &Program) -> Result<(), flash_hicr::Error> {
    let report = (program.run)(hicr)?;
    assert_eq!(report.is_object(), hicr.instances.current().is_root(), "{}: {report}", program.name);
    Ok(())
}

#[test]
fn each_program_runs_over_two_threads() {
    over_threads(2, |hicr| PROGRAMS.iter().try_for_each(|program| run(&hicr, program)));
}

#[test]
fn each_program_runs_over_five_threads() {
    let small = |program: &&Program| program.name != "mnist" && program.name != "ping-pong";
    over_threads(5, move |hicr| PROGRAMS.iter().filter(small).try_for_each(|program| run(&hicr, program)));
}

#[test]
fn programs_for_one_instance_run_over_one_thread() {
    let alone = |program: &&Program| program.instances == 1;
    over_threads(1, move |hicr| PROGRAMS.iter().filter(alone).try_for_each(|program| run(&hicr, program)));
}

#[test]
fn each_program_runs_over_two_processes() {
    let name = "programs::each_program_runs_over_two_processes";
    processes(name, 2, |hicr| PROGRAMS.iter().try_for_each(|program| run(&hicr, program))).all_well();
}

#[test]
fn each_program_runs_over_five_processes() {
    let small = |program: &&Program| program.name != "mnist" && program.name != "ping-pong";
    let name = "programs::each_program_runs_over_five_processes";
    processes(name, 5, |hicr| PROGRAMS.iter().filter(small).try_for_each(|program| run(&hicr, program)))
        .all_well();
}

#[test]
fn programs_run_under_flash_run() {
    const NAME: &str = "programs::programs_run_under_flash_run";
    if std::env::var_os(flash_net::WORLD_VARIABLE).is_some() {
        let hicr = flash_hicr::join().unwrap();
        assert_eq!(hicr.instances.instances().unwrap().len(), 3);
        let small = |program: &&Program| program.name != "mnist" && program.name != "ping-pong";
        PROGRAMS.iter().filter(small).try_for_each(|program| run(&hicr, program)).unwrap();
        return;
    }
    let this = std::env::current_exe().expect("this program has a path");
    let mut command = std::process::Command::new(&flash_tests::plugins::built().flash);
    command.args(["run", "-n", "3", "--"]).arg(this);
    let output = command.args(["--exact", NAME, "--nocapture", "--test-threads=1"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert_eq!(text.matches("1 passed").count(), 3, "{text}{errors}");
}

fn over_devices(key: &str) {
    let hicr = flash_hicr::devices(key).unwrap_or_else(|error| panic!("{key}: {error}"));
    for program in PROGRAMS.iter().filter(|program| program.not_over_devices.is_none()) {
        run(&hicr, program).unwrap_or_else(|error| panic!("{key}: {}: {error}", program.name));
    }
}

#[test]
fn programs_run_over_the_cpu_as_a_device() {
    over_devices("ALL_CPU");
}

#[test]
fn programs_run_over_devices_with_memories_of_their_own() {
    in_process(&[("FLASH_TEST", "devices=2")], || {
        let hicr = flash_hicr::devices("TEST").unwrap();
        assert_eq!(hicr.memory.spaces().unwrap().iter().filter(|space| space.device != "host").count(), 2);
        over_devices("TEST");
    });
}

#[test]
fn programs_run_over_opencl_devices() {
    let reports = flash_core::devices::list();
    let mut reports = reports.iter().filter(|report| report.key.as_deref() == Some("OPENCL"));
    match reports.any(|report| !report.devices.is_empty()) {
        true => over_devices("OPENCL"),
        false => flash_tests::skip(
            "programs::programs_run_over_opencl_devices",
            "no OpenCL device: `cargo xtask setup` makes three",
        ),
    }
}

#[test]
fn the_guide_s_table_has_each_program_and_what_keeps_it_from_devices() {
    for Program { name, not_over_devices, .. } in PROGRAMS {
        // The reasons are numbered below the table.
        let mark = not_over_devices.map(|why| {
            let found = DOCS.lines().find(|line| line.contains(why));
            found
                .and_then(|line| line.chars().next())
                .unwrap_or_else(|| panic!("{name}: `{why}` is not there"))
        });
        let over_devices = mark.map_or_else(|| "run".to_owned(), String::from);
        let row = format!("| `{name}` | run | run | {over_devices} |");
        assert!(DOCS.contains(&row), "docs/hicr.md has no row `{row}`");
    }
}
