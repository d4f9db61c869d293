//! A product of matrices as a function and as a kernel.

use crate::{Outcome, expect, of_root};
use flash::kernels::gemm::Gemm;
use flash_hicr::{ExecutionUnit, LocalSlot, Managers, Number, Resource, copy, memory_of};
use serde_json::json;

const ROWS: usize = 60;
const COLUMNS: usize = 50;
const SUMS: usize = 70;

/// `c = a * b`, of slots with these three. The matrices' elements are small whole numbers: all sums are
/// exact.
fn unit() -> ExecutionUnit {
    ExecutionUnit::new("gemm")
        .function(|slots| {
            let a: Vec<f32> = slots[0].values(0, ROWS * SUMS)?;
            let b: Vec<f32> = slots[1].values(0, SUMS * COLUMNS)?;
            slots[2].write(0, bytemuck::cast_slice(&product(&a, &b)))
        })
        .kernel(|rt, slots| {
            let [a, b, c] = [&slots[0], &slots[1], &slots[2]].map(memory_of::<f32>);
            let (m, n, k) = (ROWS as u64, COLUMNS as u64, SUMS as u64);
            let gemm = Gemm::of(1.0, 0.0, n, k, 0, 0, k, n, n, a?, b?, c?);
            let shapes: [&[u64]; 3] = [&[], &[], &[n, m]];
            Ok(rt.submit(gemm).sizes(shapes).defer([ROWS]))
        })
}

fn product(a: &[f32], b: &[f32]) -> Vec<f32> {
    let mut c = vec![0.0; ROWS * COLUMNS];
    for i in 0..ROWS {
        for j in 0..COLUMNS {
            c[i * COLUMNS + j] = (0..SUMS).map(|l| a[i * SUMS + l] * b[l * COLUMNS + j]).sum();
        }
    }
    c
}

/// The product on every compute resource, in memory of its own.
pub fn gemm(hicr: &Managers) -> Outcome {
    let a: Vec<f32> = (0..ROWS * SUMS).map(|i| (i % 11) as f32 - 5.0).collect();
    let b: Vec<f32> = (0..SUMS * COLUMNS).map(|i| (i % 7) as f32 - 3.0).collect();
    let expected = product(&a, &b);
    let spaces = hicr.memory.spaces()?;
    let unit = unit();
    let mut running = Vec::new();
    for resource in hicr.compute.resources()? {
        // A device's own memory, or the host's.
        let own = |space: &&flash_hicr::Space| resource == Resource::Device(space.device.clone());
        let space = spaces.iter().find(own).unwrap_or(&spaces[0]);
        let slot = |count: usize| hicr.memory.alloc_numbers(space, Number::F32, count as u64);
        let slots: [LocalSlot; 3] = [slot(a.len())?, slot(b.len())?, slot(expected.len())?];
        slots[0].write(0, bytemuck::cast_slice(&a))?;
        slots[1].write(0, bytemuck::cast_slice(&b))?;
        let processing = hicr.compute.processing_unit(&resource)?;
        let execution = processing.start(hicr.compute.state(&unit, &slots)?)?;
        running.push((resource, processing, execution, slots));
    }
    let back = hicr.memory.alloc_numbers(&spaces[0], Number::F32, expected.len() as u64)?;
    let mut report = Vec::new();
    for (resource, _processing, execution, slots) in running {
        execution.wait()?;
        copy(&*hicr.communication, back.at(0), slots[2].at(0), back.bytes())?;
        hicr.communication.fence_slot(&slots[2], 1, 0)?;
        let found: Vec<f32> = back.values(0, expected.len())?;
        expect(&format!("the product on {resource}"), found == expected, true)?;
        report.push(json!({ "resource": resource.to_string(), "space": slots[2].space().to_string() }));
    }
    of_root(hicr, json!({ "products": report }))
}
