//! Launches over devices with memories of their own: what is copied, when, and what waits for what. (What
//! such a launch computes is tested with everything else, in `runtime`.)

mod again;
mod alignment;
mod copies;
mod failing;
mod flights;
mod maps;
mod options;
mod out_of_core;
mod phases;
mod places;
mod readers;
mod spaces;

use flash_tests::APART;

/// Test devices with memories of their own.
const ONE: &[(&str, &str)] = APART[1];
const TWO: &[(&str, &str)] = APART[2];
const FOUR: &[(&str, &str)] = APART[4];
