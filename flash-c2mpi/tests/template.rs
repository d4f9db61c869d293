//! The template of the HALO paper in C, `template.c`: each of its kernels under its alias gives the bits of
//! the call in Rust, on each kind of device that is here.

use flash::kernels::{Csr, conv1d, ewmd, ewmm, js, mmm, mvm, smmm, vdp};
use flash::prelude::*;
use flash_tests::plugins::{self, Language, compile, text_of};
use flash_tests::skip;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

const ALIASES: [&str; 9] = ["MMM", "EWMM", "SMMM", "EWMD", "VDP", "JS", "FC", "MVM", "1DCONV"];
const M: usize = 37;
const N: usize = 29;
const K: usize = 41;
const ALL: usize = 3000;

/// As in `template.c`.
fn numbers(n: usize, seed: usize) -> FlashMemory<f32> {
    (0..n).map(|i| 0.5 + ((i * 37 + seed * 11 + i * i) % 61) as f32 / 64.0).collect()
}

fn shaped(shape: &[usize], seed: usize) -> FlashMemory<f32> {
    numbers(shape.iter().product(), seed).with_shape(shape).unwrap()
}

/// What the call in Rust gives.
fn called(rt: &RuntimeObj, alias: &str) -> Vec<f32> {
    let result = match alias {
        "MMM" => {
            let (a, b, c) = (shaped(&[K, M], 1), shaped(&[N, K], 2), shaped(&[N, M], 9));
            rt.submit(mmm([M, N, K], &a, &b, &c).unwrap()).exec([M]).unwrap();
            c
        }
        "EWMM" | "EWMD" => {
            let (a, b, c) = (numbers(ALL, 1), numbers(ALL, 2), numbers(ALL, 9));
            match alias {
                "EWMM" => rt.submit(ewmm(&a, &b, &c).unwrap()).exec([ALL]).unwrap(),
                _ => rt.submit(ewmd(&a, &b, &c).unwrap()).exec([ALL]).unwrap(),
            }
            c
        }
        "SMMM" => {
            let start: Vec<u64> = (0..=M as u64).map(|row| 3 * row).collect();
            let column: Vec<u32> = (0..3 * M).map(|at| ((at / 3 + 13 * (at % 3)) % K) as u32).collect();
            let value = numbers(3 * M, 1).read().unwrap().to_vec();
            let a = Csr::new([M, K], start, column, value).unwrap();
            let (b, c) = (shaped(&[N, K], 2), shaped(&[N, M], 9));
            rt.submit(smmm(&a, &b, &c).unwrap()).exec([M]).unwrap();
            c
        }
        "VDP" => {
            let (x, y, sum) = (numbers(ALL, 1), numbers(ALL, 2), numbers(1, 9));
            rt.submit(vdp(&x, &y, &sum).unwrap()).exec([ALL]).unwrap();
            sum
        }
        "JS" => {
            let [from, f, to] = [1, 2, 9].map(|seed| shaped(&[8, 7, 6], seed));
            rt.submit(js(0.5, &from, &f, &to).unwrap()).exec((1..7, 1..6, 1..5)).unwrap();
            to
        }
        "FC" | "MVM" => {
            let (a, x, y) = (shaped(&[K, M], 1), numbers(K, 2), numbers(M, 9));
            rt.submit(mvm([M, K], &a, &x, &y).unwrap()).exec([M]).unwrap();
            y
        }
        _ => {
            let (filter, signal, out) = (numbers(7, 1), numbers(ALL, 2), numbers(ALL - 6, 9));
            rt.submit(conv1d(&filter, &signal, &out).unwrap()).exec([ALL - 6]).unwrap();
            out
        }
    };
    result.read().unwrap().to_vec()
}

struct Built {
    folder: &'static Path,
    /// The plugin of the key `TEST`.
    test_plugin: PathBuf,
}

/// The program, linked with the library as it would be installed.
fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let built = plugins::build(&["flash-c2mpi", "flash-backend-test-plugin"]);
        let folder = plugins::directory_of_process();
        symlink(built.join("libflash_c2mpi.so"), folder.join("libmpix.so")).unwrap();
        compile_to(folder, include_str!("template.c"), "template");
        Built { folder, test_plugin: built.join("libflash_backend_test_plugin.so") }
    })
}

/// Compiles a program beside the library.
fn compile_to(folder: &Path, text: &str, name: &str) {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let flags = [
        format!("-I{}", include.display()),
        format!("-L{}", folder.display()),
        format!("-Wl,-rpath,{}", folder.display()),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(["-Wl,--no-as-needed", "-lmpix"]).collect();
    compile(Language::C, text, &flags, &folder.join(name)).unwrap();
}

/// A command with no variable that the library reads.
fn command(name: &str) -> Command {
    let mut command = Command::new(built().folder.join(name));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FLASH_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs the program with a configuration.
fn run(alias: &str, config: &str, variables: &[(&str, &Path)]) -> Output {
    let mut command = command("template");
    command.arg(alias);
    run_by(command, config, variables)
}

fn run_by(mut command: Command, config: &str, variables: &[(&str, &Path)]) -> Output {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), config).unwrap();
    command.env("FLASH_HALO_CONFIG", file.path());
    command.envs(variables.iter().copied()).output().unwrap()
}

/// Table 1 of the paper, with a runtime key.
fn table_1(key: &str) -> String {
    format!(
        r#"{{
  "host_list": [
    {{"host_name": "edge-1", "port": "8000", "mode": "ads_accel", "max_slots": "1"}},
    {{"host_name": "turing-4", "port": "8000", "mode": "ads_accel", "max_slots": "1"}}
  ],
  "func_list": [
    {{"func_alias": "MMM", "sw_fid": "12345", "func_repl": "1", "platform_id": "rr_scat"}},
    {{"func_alias": "EWMM", "sw_fid": "123456", "platform_id": "rr_scat"}},
    {{"func_alias": "SMMM", "sw_fid": "1234567", "platform_id": "rr_scat"}},
    {{"func_alias": "EWMD", "sw_fid": "12345678", "platform_id": "rr_scat"}},
    {{"func_alias": "VDP", "sw_fid": "123456789", "platform_id": "rr_scat"}},
    {{"func_alias": "JS", "sw_fid": "123456789A", "platform_id": "rr_scat"}},
    {{"func_alias": "FC", "sw_fid": "123456789B", "platform_id": "rr_scat"}},
    {{"func_alias": "MVM", "sw_fid": "123456789B", "platform_id": "rr_scat"}},
    {{"func_alias": "1DCONV", "sw_fid": "123456789C", "platform_id": "rr_scat"}}
  ],
  "platform_list": [{{"platform_id": "rr_scat", "strategy": "round_robin", "key": "{key}"}}]
}}"#
    )
}

#[track_caller]
fn same_bits(rt: &RuntimeObj, key: &str, variables: &[(&str, &Path)]) {
    for alias in ALIASES {
        same_as_called(rt, alias, key, run(alias, &table_1(key), variables));
    }
}

#[track_caller]
fn same_as_called(rt: &RuntimeObj, alias: &str, key: &str, output: Output) {
    assert!(output.status.success(), "{alias} on {key}: {}", text_of(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let found = text.lines().map(|line| f32::from_bits(u32::from_str_radix(line, 16).unwrap()));
    let (found, expected) = (found.collect::<Vec<f32>>(), called(rt, alias));
    assert!(!found.is_empty() && found == expected, "{alias} on {key}: {found:?} for {expected:?}");
}

#[test]
fn each_kernel_of_table_1_gives_the_bits_of_the_call_in_rust_on_the_cpu() {
    same_bits(&get_runtime("ALL_CPU:0").unwrap(), "ALL_CPU:0", &[]);
}

#[test]
fn and_on_a_device_with_a_memory_of_its_own() {
    let plugin = &built().test_plugin;
    let rt = flash_tests::context(&[("plugin_path", plugin.to_str().unwrap())]).runtime("TEST:0").unwrap();
    same_bits(&rt, "TEST", &[("FLASH_BACKEND_PATH", plugin)]);
}

/// Each OpenCL device, called in this process, and by a key with this end.
fn on_opencl_devices(test: &str, end: &str) {
    let plugin =
        plugins::build(&["flash-backend-opencl-fpga-plugin"]).join("libflash_backend_opencl_fpga_plugin.so");
    let context = flash_tests::context(&[("plugin_path", plugin.to_str().unwrap())]);
    match context.runtime("OPENCL") {
        Ok(all) => {
            for device in all.devices() {
                let rt = context.runtime(device.id()).unwrap();
                same_bits(&rt, &format!("{}{end}", device.id()), &[("FLASH_BACKEND_PATH", &plugin)]);
            }
        }
        Err(error) => skip(test, &format!("no OpenCL device: {error}")),
    }
}

#[test]
fn and_on_opencl_devices() {
    on_opencl_devices("and_on_opencl_devices", "");
}

#[test]
fn and_on_opencl_devices_through_an_agent() {
    on_opencl_devices("and_on_opencl_devices_through_an_agent", "@agent");
}

#[test]
fn and_through_agents() {
    // One that the program starts for itself, then the agents of two other ranks.
    let plugin = &built().test_plugin;
    let rt = flash_tests::context(&[("plugin_path", plugin.to_str().unwrap())]).runtime("TEST:0").unwrap();
    same_bits(&get_runtime("ALL_CPU:0").unwrap(), "ALL_CPU@agent", &[]);
    same_bits(&rt, "TEST:0@agent", &[("FLASH_BACKEND_PATH", plugin)]);
    let rt = get_runtime("ALL_CPU:0").unwrap();
    for alias in ALIASES {
        let mut job = plugins::flash("", &["run", "-n", "3", "--"]);
        job.arg(built().folder.join("template")).arg(alias);
        same_as_called(&rt, alias, "RANK", run_by(job, &table_1("RANK"), &[]));
    }
}

#[test]
fn what_is_wrong_comes_out_with_its_words() {
    let output = run("MMMM", &table_1("ALL_CPU"), &[]);
    let text = text_of(&output);
    assert!(output.status.code() == Some(1) && text.contains("MMM, EWMM, SMMM"), "{text}");
    // Table 1 has what nothing uses.
    assert!(text.contains(":3:29: `port` is kept, and nothing uses it"), "{text}");

    let faulty = table_1("ALL_CPU").replace(r#""sw_fid": "12345","#, r#""sw_fit": "12345","#);
    let text = text_of(&run("MMM", &faulty, &[]));
    assert!(text.contains(":7:27:") && text.contains("found `sw_fit`: `sw_fid`?"), "{text}");
}

/// The blocks of `docs/halo.md` in a language.
fn blocks(language: &str) -> Vec<String> {
    let page = std::fs::read_to_string(plugins::workspace().join("docs/halo.md")).unwrap();
    let begin = format!("```{language}\n");
    let blocks = page.split(&begin).skip(1).map(|rest| rest.split("\n```").next().unwrap().to_owned() + "\n");
    blocks.collect()
}

#[test]
fn the_programs_of_the_documentation_run() {
    const FAILED: &str = "n is not the number of elements";
    let expected = ["1998\n", "2 8\n", "-3\n", FAILED, "0 of 1: 0\n", "forwarded 0, sum 16\n"];
    let (accelerators, programs): (Vec<String>, Vec<String>) =
        blocks("c").into_iter().partition(|block| block.contains("mpix_accel.h"));
    assert_eq!((accelerators.len(), programs.len()), (1, expected.len()));
    let place = plugins::directory();
    let include = format!("-I{}", Path::new(env!("CARGO_MANIFEST_DIR")).join("include").display());
    plugins::shared(Language::C, &accelerators[0], &[&include], &place.path().join("lab.so"));
    for (number, (program, expected)) in programs.iter().zip(expected).enumerate() {
        let name = format!("docs-{number}");
        compile_to(built().folder, program, &name);
        let output = command(&name).env("FLASH_BACKEND_PATH", place.path()).output().unwrap();
        assert!(output.status.success(), "{}", text_of(&output));
        let said = String::from_utf8(output.stdout).unwrap();
        match expected == FAILED {
            true => assert!(said.starts_with("8\n") && said.contains(FAILED), "{said}"),
            false => assert_eq!(said, expected),
        }
    }
    // The accelerator in a process of its own.
    let agent = r#"{"func_list": [{"func_alias": "MULTIPLY", "sw_fid": "4711", "key": "LAB@agent"}]}"#;
    let output = run_by(command("docs-3"), agent, &[("FLASH_BACKEND_PATH", place.path())]);
    let said = text_of(&output);
    assert!(output.status.success() && said.contains("8\n") && said.contains(FAILED), "{said}");
    let said = text_of(&run_by(command("docs-3"), agent, &[]));
    assert!(said.contains("expected a kernel of sw_fid=4711, found none"), "{said}");
}

#[test]
fn the_program_in_fortran_runs() {
    if !Language::Fortran.is_there() {
        return skip("the_program_in_fortran_runs", "no Fortran compiler");
    }
    let programs = blocks("fortran");
    assert_eq!(programs.len(), 1);
    let (folder, place) = (built().folder, plugins::directory());
    let source = place.path().join("multiply.f90");
    std::fs::write(&source, &programs[0]).unwrap();
    let mut compile = Command::new("gfortran");
    compile.args(["-std=f2018", "-Wall", "-Werror", "-J"]).arg(place.path());
    compile.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("fortran/mpix.f90")).arg(&source);
    compile.arg("-L").arg(folder).arg(format!("-Wl,-rpath,{}", folder.display()));
    compile.args(["-Wl,--no-as-needed", "-lmpix", "-o"]).arg(folder.join("fortran"));
    let output = compile.output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    let output = command("fortran").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "1.0", "{}", text_of(&output));
}

#[test]
fn the_fortran_module_has_every_function_and_constant_of_the_header() {
    let module = include_str!("../fortran/mpix.f90").to_lowercase();
    let mut count = 0;
    for line in include_str!("../include/mpix.h").lines() {
        if let Some(name) = line.strip_prefix("int MPIX_").and_then(|rest| rest.split('(').next()) {
            // Fortran has one type of child ranks.
            let there = module.contains(&format!("name='mpix_{}'", name.to_lowercase()));
            assert!(there || name.ends_with("_ulong"), "mpix.f90 lacks MPIX_{name}");
            count += 1;
        }
        let constant = line.strip_prefix("#define MPIX_").and_then(|rest| rest.split_once(' '));
        if let Some((name, value)) = constant
            && value.parse::<i32>().is_ok()
        {
            let expected = format!("parameter :: mpix_{} = {value}\n", name.to_lowercase());
            assert!(module.contains(&expected), "mpix.f90 lacks {expected}");
            count += 1;
        }
    }
    assert!(count > 80, "{count}");
}

#[test]
fn the_configuration_and_the_package_of_the_documentation_have_no_fault() {
    let all = blocks("json");
    let [config, manifest] = &all[..] else { panic!("{} blocks", all.len()) };
    let report = flash_c2mpi::config::Config::parse(config);
    assert!(report.config.is_some(), "{:?}", report.faults);
    flash_core::devices::Package::new(manifest, |_| Ok(Vec::new())).unwrap();
}

#[test]
fn the_documentation_lists_every_function_of_the_header() {
    let page = std::fs::read_to_string(plugins::workspace().join("docs/halo.md")).unwrap();
    let header = include_str!("../include/mpix.h");
    let names = header
        .lines()
        .filter(|line| line.starts_with("int MPIX_"))
        .filter_map(|line| line.strip_prefix("int ")?.split('(').next());
    let mut count = 0;
    for name in names {
        let short = name.strip_prefix("MPIX_ComputeObj").or(name.strip_prefix("MPIX_Info"));
        let whole = name.trim_end_matches("_int").trim_end_matches("_ulong");
        let there = page.contains(whole) || short.is_some_and(|name| page.contains(&format!("`{name}`")));
        assert!(there, "docs/halo.md lacks {name}");
        count += 1;
    }
    assert!(count > 30, "{count}");
}
