//! The data of `train-digits`, which describes its two files.

use crate::wrong;
use flash_hicr::Error;

pub const INPUTS: usize = 784;
pub const HIDDEN: usize = 256;
pub const DIGITS: usize = 10;

/// Images of 28 by 28 pixels.
pub struct Images {
    /// What each shows.
    pub digits: Vec<usize>,
    /// From 0 to 1.
    pub pixels: Vec<f32>,
}

/// A layer of the network.
pub struct Layer {
    /// A row per output.
    pub weights: Vec<f32>,
    pub biases: Vec<f32>,
}

pub fn layers() -> Result<[Layer; 2], Error> {
    let bytes: &[u8] = include_bytes!("../../data/weights.bin");
    let first = HIDDEN * (8 + INPUTS);
    let rest = bytes.get(first..).filter(|rest| rest.len() == DIGITS * (8 + HIDDEN));
    let rest = rest.ok_or_else(|| wrong("weights.bin", format!("it has {} bytes", bytes.len())))?;
    Ok([layer(&bytes[..first], INPUTS), layer(rest, HIDDEN)])
}

fn layer(bytes: &[u8], inputs: usize) -> Layer {
    let mut layer = Layer { weights: Vec::new(), biases: Vec::new() };
    for row in bytes.chunks_exact(8 + inputs) {
        let number = |at: usize| f32::from_le_bytes([row[at], row[at + 1], row[at + 2], row[at + 3]]);
        let scale = number(0);
        layer.biases.push(number(4));
        layer.weights.extend(row[8..].iter().map(|byte| f32::from(*byte as i8) * scale));
    }
    layer
}

pub fn images() -> Result<Images, Error> {
    let mut bytes = include_bytes!("../../data/images.bin").iter().copied();
    let mut images = Images { digits: Vec::new(), pixels: Vec::new() };
    while let Some(digit) = bytes.next() {
        images.digits.push(digit.into());
        let end = images.digits.len() * INPUTS;
        while images.pixels.len() < end {
            match (bytes.next(), images.pixels.len()) {
                (Some(0), at) => images.pixels.resize(at + usize::from(bytes.next().unwrap_or(0)), 0.0),
                (Some(byte), _) => images.pixels.push(f32::from(byte) / 255.0),
                (None, _) => return Err(wrong("images.bin", "it ends in an image")),
            }
        }
        if images.pixels.len() != end || digit as usize >= DIGITS {
            return Err(wrong("images.bin", format!("image {} is none", images.digits.len() - 1)));
        }
    }
    Ok(images)
}
