//! The report of a run, for programs to read.

use anyhow::Result;
use serde::Serialize;

use crate::args::Args;
use crate::watch::Record;

/// Lists hold one value after each step. What was not asked for, or could not be measured, is
/// null.
#[derive(Serialize)]
pub struct Report<'a> {
    runtime: &'a str,
    devices: &'a [String],
    bodies: usize,
    steps: usize,
    precision: &'a str,
    kinetic_energy: &'a [f64],
    initial_total_energy: Option<f64>,
    total_energy: Option<&'a [f64]>,
    seconds: &'a [f64],
    interactions_per_second: Option<f64>,
    dispatch_overhead_percent: Option<f64>,
}

impl<'a> Report<'a> {
    pub fn new(args: &'a Args, bodies: usize, devices: &'a [String], record: &'a Record) -> Self {
        Self {
            runtime: &args.runtime,
            devices,
            bodies,
            steps: args.steps,
            precision: args.precision.name(),
            kinetic_energy: &record.kinetic,
            initial_total_energy: record.initial_total,
            total_energy: record.initial_total.map(|_| &record.total[..]),
            seconds: &record.seconds,
            interactions_per_second: record.rate(bodies, args.steps),
            dispatch_overhead_percent: record.overhead_percent(),
        }
    }

    pub fn json(&self) -> Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(text)
    }
}
