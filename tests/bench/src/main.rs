//! Benchmarks of FLASH beside its peers.
fn main() {}
