//! What a run found, for people and for programs.

use anyhow::Result;
use gemm::plan::Plan;
use serde::Serialize;

use crate::args::Args;
use crate::matrix::Checked;

/// What was not asked for is null.
#[derive(Serialize)]
pub struct Report<'a> {
    runtime: &'a str,
    devices: &'a [String],
    m: usize,
    k: usize,
    n: usize,
    precision: &'a str,
    tile: usize,
    windows: usize,
    /// Rows and columns of tiles of the largest.
    window: [usize; 2],
    depth: usize,
    lookahead: usize,
    budget: Option<u64>,
    /// Bytes that a window takes on a device, at most.
    held_bytes: u64,
    seconds: f64,
    operations_per_second: f64,
    /// Of all devices; 0 of those that use the host's memory.
    bytes_to_devices: u64,
    bytes_from_devices: u64,
    checked_elements: Option<usize>,
    /// Over what rounding can bring about.
    worst_error: Option<f64>,
}

/// What was measured.
pub struct Measured {
    pub devices: Vec<String>,
    pub seconds: f64,
    pub bytes_to_devices: u64,
    pub bytes_from_devices: u64,
    pub checked: Option<Checked>,
}

impl<'a> Report<'a> {
    pub fn new(args: &'a Args, plan: &Plan, measured: &'a Measured) -> Self {
        let checked = measured.checked.as_ref();
        Self {
            runtime: &args.devices,
            devices: &measured.devices,
            m: args.m.get(),
            k: args.k.get(),
            n: args.n.get(),
            precision: args.precision.name(),
            tile: plan.tile,
            windows: plan.windows.len(),
            window: plan.windows.most(),
            depth: plan.depth,
            lookahead: plan.lookahead,
            budget: args.budget,
            held_bytes: plan.held_bytes(),
            seconds: measured.seconds,
            operations_per_second: plan.operations() / measured.seconds,
            bytes_to_devices: measured.bytes_to_devices,
            bytes_from_devices: measured.bytes_from_devices,
            checked_elements: checked.map(|checked| checked.elements),
            worst_error: checked.map(|checked| checked.worst),
        }
    }

    pub fn json(&self) -> Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(text)
    }
}
