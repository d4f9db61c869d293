//! The grey values of a picture in a file: PGM (plain or raw) or PNG.

use std::path::Path;

use anyhow::Result;

use crate::Refused;

/// Grey values from 0 (black) to 1 (white), row by row from the top.
#[derive(Clone, Debug, PartialEq)]
pub struct Gray {
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// A value per pixel.
    pub values: Vec<f32>,
}

/// The most pixels of a picture that is read: memory holds this many several times.
const MOST_PIXELS: usize = 1 << 28;

impl Gray {
    /// Reads a file. Its first bytes say which format it has. Coloured pictures are read as luminance (0.2126
    /// red, 0.7152 green, 0.0722 blue), transparent ones over black.
    ///
    /// # Errors
    /// If it cannot be read; [`Refused`] if it is not such a picture. `option` is the one that named the
    /// file.
    pub fn read(path: &Path, option: &str) -> Result<Self> {
        let bytes = crate::read(path, option)?;
        let read = match bytes.get(..2) {
            Some(b"P2" | b"P5") => pgm(&bytes),
            Some(b"\x89P") => png(&bytes),
            _ => Err("expected a PGM (P2 or P5) or PNG picture, found another beginning: convert it".into()),
        };
        read.map_err(|problem| Refused(format!("{option}: {}: {problem}", path.display())).into())
    }

    fn new(width: usize, height: usize, values: Vec<f32>) -> Result<Self, String> {
        debug_assert_eq!(values.len(), width * height);
        Ok(Self { width, height, values })
    }
}

/// Number of pixels of a picture of this size.
fn pixels(width: usize, height: usize) -> Result<usize, String> {
    match width.checked_mul(height) {
        Some(pixels) if (1..=MOST_PIXELS).contains(&pixels) => Ok(pixels),
        _ => Err(format!("expected 1 to {MOST_PIXELS} pixels, found {width} x {height}: scale it")),
    }
}

/// The numbers of a PGM file: white space between them, comments from # to the end of the line.
struct Numbers<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Numbers<'_> {
    fn next(&mut self, what: &str) -> Result<usize, String> {
        loop {
            match self.bytes.get(self.at) {
                Some(b'#') => {
                    let rest = &self.bytes[self.at..];
                    self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                }
                Some(byte) if byte.is_ascii_whitespace() => self.at += 1,
                _ => break,
            }
        }
        let digits = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = std::str::from_utf8(&self.bytes[self.at..self.at + digits]).unwrap_or_default();
        let number = text.parse().map_err(|_| {
            let found = match self.bytes.get(self.at) {
                None => "the end of the file".into(),
                Some(byte) => format!("`{}`", byte.escape_ascii()),
            };
            format!("expected {what}, a number, at byte {}, found {found}", self.at)
        })?;
        self.at += digits;
        Ok(number)
    }
}

fn pgm(bytes: &[u8]) -> Result<Gray, String> {
    let mut numbers = Numbers { bytes, at: 2 };
    let (width, height) = (numbers.next("the width")?, numbers.next("the height")?);
    let (pixels, white) = (pixels(width, height)?, numbers.next("the value of white")?);
    if !(1..=65535).contains(&white) {
        return Err(format!("expected 1 to 65535 as the value of white, found {white}"));
    }
    let value = |v: usize| (v as f32 / white as f32).min(1.0);
    if bytes[1] == b'2' {
        // Grown as numbers are read: the stated size may be anything.
        let mut values = Vec::new();
        for _ in 0..pixels {
            values.push(value(numbers.next("a pixel")?));
        }
        return Gray::new(width, height, values);
    }
    let size = if white < 256 { 1 } else { 2 };
    let data = bytes.get(numbers.at + 1..).unwrap_or_default();
    let data = data.get(..pixels * size).ok_or_else(|| {
        format!(
            "expected {} bytes of {width} x {height} pixels, found {}: it is cut",
            pixels * size,
            data.len()
        )
    })?;
    let values = data.chunks(size).map(|v| value(v.iter().fold(0, |n, &byte| n << 8 | usize::from(byte))));
    Gray::new(width, height, values.collect())
}

/// A PNG file as it is decoded: its header, the samples, and what they are.
fn decoded(
    bytes: &[u8],
    transformations: png::Transformations,
) -> Result<(png::Info<'_>, Vec<u8>, png::OutputInfo), String> {
    let wrong =
        |error: png::DecodingError| format!("expected a PNG picture, found that it is malformed: {error}");
    let mut decoder = png::Decoder::new(std::io::Cursor::new(bytes));
    decoder.set_transformations(transformations);
    let mut reader = decoder.read_info().map_err(wrong)?;
    pixels(reader.info().width as usize, reader.info().height as usize)?;
    let size = reader.output_buffer_size().ok_or("expected a picture that fits into memory: scale it")?;
    let mut buffer = vec![0; size];
    let frame = reader.next_frame(&mut buffer).map_err(wrong)?;
    Ok((reader.info().clone(), buffer, frame))
}

/// Checks the colours of pixels, which the decoder takes for black where the palette lacks them.
fn check_palette(bytes: &[u8]) -> Result<(), String> {
    let (info, rows, frame) = decoded(bytes, png::Transformations::IDENTITY)?;
    let colours = info.palette.as_ref().map_or(0, |palette| palette.len() / 3);
    let depth = frame.bit_depth as usize;
    for row in rows.chunks_exact(frame.line_size.max(1)) {
        for bit in (0..frame.width as usize).map(|x| x * depth) {
            let colour = usize::from(row[bit / 8]) >> (8 - depth - bit % 8) & ((1 << depth) - 1);
            if colour >= colours {
                return Err(format!(
                    "expected pixels of a palette of {colours} colours, found colour {colour}, counted from \
                     0: it is damaged"
                ));
            }
        }
    }
    Ok(())
}

fn png(bytes: &[u8]) -> Result<Gray, String> {
    let (info, buffer, frame) = decoded(bytes, png::Transformations::EXPAND)?;
    let (width, height) = (info.width as usize, info.height as usize);
    if info.color_type == png::ColorType::Indexed {
        check_palette(bytes)?;
    }
    let samples: Vec<f32> = match frame.bit_depth {
        png::BitDepth::Sixteen => {
            let pairs = buffer.as_chunks::<2>().0.iter();
            pairs.map(|&pair| f32::from(u16::from_be_bytes(pair)) / 65535.0).collect()
        }
        _ => buffer.iter().map(|&byte| f32::from(byte) / 255.0).collect(),
    };
    let luminance = |rgb: &[f32]| 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2];
    let each =
        |channels: usize, value: &dyn Fn(&[f32]) -> f32| samples.chunks_exact(channels).map(value).collect();
    let values = match frame.color_type {
        png::ColorType::Grayscale => samples,
        png::ColorType::GrayscaleAlpha => each(2, &|p| p[0] * p[1]),
        png::ColorType::Rgb => each(3, &luminance),
        png::ColorType::Rgba => each(4, &|p| luminance(p) * p[3]),
        png::ColorType::Indexed => return Err("expected colours, found a palette without them".into()),
    };
    Gray::new(width, height, values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Gray> {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("picture");
        std::fs::write(&path, bytes).expect("written");
        Gray::read(&path, "--field")
    }

    #[test]
    fn plain_and_raw_files_of_8_and_16_bits_are_read() {
        let expected = Gray { width: 3, height: 2, values: vec![0.0, 0.2, 0.4, 0.6, 0.8, 1.0] };
        for file in [
            &b"P2\n# by hand\n3 2\n5\n0 1 2\n3 4 5\n"[..],
            b"P2 3 2 65535 0 13107 26214 39321 52428 65535",
            b"P5 3 2 5\n\x00\x01\x02\x03\x04\x05",
            b"P5\n3\n# two bytes each\n2\n500\n\x00\x00\x00\x64\x00\xc8\x01\x2c\x01\x90\x01\xf4and more",
        ] {
            assert_eq!(read(file).expect("a picture"), expected, "{}", file.escape_ascii());
        }
    }

    /// A PNG file of 2 x 1 pixels.
    fn file(colour: png::ColorType, depth: png::BitDepth, data: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, 2, 1);
        encoder.set_color(colour);
        encoder.set_depth(depth);
        if colour == png::ColorType::Indexed {
            encoder.set_palette(&[0, 0, 0, 255, 255, 255][..]);
        }
        encoder.write_header().expect("a header").write_image_data(data).expect("pixels");
        file
    }

    #[test]
    fn png_files_of_every_kind_are_read_as_grey() {
        use png::{BitDepth, ColorType};
        for (colour, depth, data) in [
            (ColorType::Grayscale, BitDepth::Eight, &[0, 255][..]),
            (ColorType::Grayscale, BitDepth::One, &[0b0100_0000]),
            (ColorType::Grayscale, BitDepth::Sixteen, &[0, 0, 255, 255]),
            (ColorType::GrayscaleAlpha, BitDepth::Eight, &[255, 0, 255, 255]),
            (ColorType::Rgb, BitDepth::Eight, &[0, 0, 0, 255, 255, 255]),
            (ColorType::Rgba, BitDepth::Eight, &[9, 9, 9, 0, 255, 255, 255, 255]),
            (ColorType::Indexed, BitDepth::Eight, &[0, 1]),
        ] {
            let gray = read(&file(colour, depth, data)).expect("a picture");
            assert_eq!((gray.width, gray.height), (2, 1));
            let near = |i: usize, value: f32| (gray.values[i] - value).abs() < 1e-6;
            assert!(near(0, 0.0) && near(1, 1.0), "{colour:?}: {:?}", gray.values);
        }
        let green = read(&file(ColorType::Rgb, BitDepth::Eight, &[0, 255, 0, 0, 0, 255])).expect("a picture");
        assert!((green.values[0] - 0.7152).abs() < 1e-6 && (green.values[1] - 0.0722).abs() < 1e-6);
    }

    #[test]
    fn png_files_that_are_damaged_are_refused() {
        use png::{BitDepth, ColorType};
        let whole = file(ColorType::Grayscale, BitDepth::Eight, &[7; 2]);
        // After the signature, chunks of a length, a name, data and a check sum.
        let data = whole.windows(4).position(|name| name == b"IDAT").expect("data") + 4;
        for at in data..whole.len() - 12 {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            assert!(read(&bytes).is_err(), "byte {at} of {}", whole.len());
        }
        let error = read(&file(ColorType::Indexed, BitDepth::Eight, &[0, 2])).expect_err("refused");
        assert!(error.to_string().contains("palette of 2 colours"), "{error}");
    }

    #[test]
    fn what_is_no_picture_is_refused_with_what_was_found() {
        let whole = file(png::ColorType::Grayscale, png::BitDepth::Eight, &[0, 255]);
        for (bytes, part) in [
            (&b""[..], "another beginning"),
            (b"GIF89a", "another beginning"),
            (b"P2", "the width, a number, at byte 2, found the end of the file"),
            (b"P2 3 x", "the height, a number, at byte 5, found `x`"),
            (b"P2 3 0 5", "found 3 x 0"),
            (b"P5 99999999999 99999999999 5 ", "pixels, found 99999999999 x 99999999999"),
            (b"P2 1 1 0 0", "white, found 0"),
            (b"P2 1 1 70000 0", "white, found 70000"),
            (b"P2 2 1 5 1", "a pixel, a number, at byte 10, found the end"),
            (b"P5 2 2 255 abc", "expected 4 bytes of 2 x 2 pixels, found 3"),
            (&whole[..20], "malformed"),
            (&whole[..whole.len() - 20], "malformed"),
        ] {
            let error = read(bytes).expect_err("refused");
            assert!(error.is::<Refused>(), "{error}");
            assert!(error.to_string().contains(part), "{}: {error}", bytes.escape_ascii());
        }
        let error = Gray::read(Path::new("no/such/file"), "--field").expect_err("no file");
        assert!(!error.is::<Refused>() && format!("{error:#}").contains("--field"), "{error:#}");
    }
}
