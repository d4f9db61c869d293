//! Launches over devices with memories of their own: what moves, when, and who waits for whom. (What such a
//! launch computes is tested with everything else, in `runtime`.)

mod again;
mod alignment;
mod options;
mod out_of_core;
mod phases;
mod places;
mod readers;

/// CPU devices of a thread each, with memories of their own.
const ONE: &[(&str, &str)] = &[("FLASH_CPU_THREADS", "1"), ("FLASH_CPU_COPY", "1")];
const TWO: &[(&str, &str)] =
    &[("FLASH_CPU_DEVICES", "2"), ("FLASH_CPU_THREADS", "2"), ("FLASH_CPU_COPY", "1")];
const FOUR: &[(&str, &str)] =
    &[("FLASH_CPU_DEVICES", "4"), ("FLASH_CPU_THREADS", "4"), ("FLASH_CPU_COPY", "1")];
