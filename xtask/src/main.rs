//! Set-up, tests and benchmarks of the FLASH workspace.
fn main() {}
