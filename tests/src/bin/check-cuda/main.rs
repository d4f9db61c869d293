//! Compiles every CUDA kernel of the library and of the conformance suite, and prints the resources of each:
//! `check-cuda PTXAS [JSON]`. `cargo xtask check-cuda` calls it with the compilers that it downloads.

mod check;

use flash::kernels as _;
use std::path::Path;
use std::process::ExitCode;

flash_conformance::conformance!();

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let (ptxas, json) = match &arguments[..] {
        [ptxas] => (ptxas, None),
        [ptxas, json] => (ptxas, Some(json)),
        _ => {
            eprintln!("usage: check-cuda PTXAS [JSON]");
            return ExitCode::from(2);
        }
    };
    let checked = check::check(Path::new(ptxas));
    print!("{checked}");
    if let Some(json) = json
        && let Err(why) = std::fs::write(json, checked.json())
    {
        eprintln!("error: cannot write {json:?}: {why}");
        return ExitCode::FAILURE;
    }
    if checked.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
