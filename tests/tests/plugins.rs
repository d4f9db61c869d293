//! The plugin boundary: the headers and their layout, the loader and its refusals, kernels and backends in C,
//! the conformance suite, the `flash` command.
//!
//! The library loads plugins once per process, so that most of it happens in child processes: the
//! `flash` command, or this program again ([`flash_tests::plugins::in_child`]).

flash_conformance::conformance!();

#[path = "plugins/command.rs"]
mod command;
#[path = "plugins/conformance.rs"]
mod conformance;
#[path = "plugins/contexts.rs"]
mod contexts;
#[path = "plugins/doctor.rs"]
mod doctor;
#[path = "plugins/exports.rs"]
mod exports;
#[path = "plugins/ext_bin.rs"]
mod ext_bin;
#[path = "plugins/header.rs"]
mod header;
#[path = "plugins/kernel_plugins.rs"]
mod kernel_plugins;
#[path = "plugins/loader.rs"]
mod loader;
#[path = "plugins/mpi.rs"]
mod mpi;
#[path = "plugins/notices.rs"]
mod notices;
#[path = "plugins/packages.rs"]
mod packages;
#[path = "plugins/processes.rs"]
mod processes;
#[path = "plugins/ranks.rs"]
mod ranks;
#[path = "plugins/replay.rs"]
mod replay;
#[path = "plugins/shared_arrays.rs"]
mod shared_arrays;

use flash_core::kernel::views::{Item, Write};
use flash_core::kernel::{CpuItem, Index};
use flash_core::{KernelDefinition, kernel};

/// Fills an array.
#[derive(KernelDefinition)]
#[kernel(name = "plugins.fill", dims(x))]
pub struct Fill<'a> {
    value: u32,
    out: Item<'a, Write<u32>>,
}

/// The one that is linked in.
struct Plain;

#[kernel]
impl CpuItem<Fill<'_>> for Plain {
    fn item(_: Index<1>, k: FillItem<'_>) {
        k.out.set(k.value);
    }
}
