//! Launches over devices with memories of their own: what moves, when, and who waits for whom. (What such a launch
//! computes is tested with everything else, in `runtime`.)

mod alignment;
mod options;
mod out_of_core;
mod phases;
mod readers;
