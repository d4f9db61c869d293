//! Pictures of indexed colours, as PNG and, several after another, as GIF.

use anyhow::{Context, Result, ensure};

/// A colour scale for the values 0 (none, or the least) to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// Black over red to yellow; equal steps of a value look equally far apart ("inferno").
    Map,
    /// Black to white, as the eye sees it.
    Gray,
}

impl Colours {
    /// Number of different colours; one more is for [`Picture::mark`]. The map has few, so that files are
    /// small.
    const fn levels(self) -> u8 {
        match self {
            Self::Map => 64,
            Self::Gray => 255,
        }
    }

    /// Red, green and blue of every level, and of marks.
    fn palette(self) -> Vec<u8> {
        let levels = self.levels();
        let level = |i: u8| match self {
            Self::Map => colorous::INFERNO.eval_rational(i.into(), levels.into()).into_array(),
            Self::Gray => [(u16::from(i) * 255 / u16::from(levels - 1)) as u8; 3],
        };
        (0..levels).flat_map(level).chain([120, 220, 255]).collect()
    }
}

/// A picture whose pixels are values from 0 to 1, or marks. The origin is the upper left corner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    width: usize,
    height: usize,
    colours: Colours,
    pixels: Vec<u8>,
}

impl Picture {
    /// A picture with the value 0 everywhere.
    ///
    /// # Errors
    /// If it has no pixels, or more than 65,535 along a side, as GIF has it.
    pub fn new(width: usize, height: usize, colours: Colours) -> Result<Self> {
        let sides = 1..=usize::from(u16::MAX);
        ensure!(
            sides.contains(&width) && sides.contains(&height),
            "expected a picture of 1 to 65535 pixels along each side, found {width} x {height}"
        );
        Ok(Self { width, height, colours, pixels: vec![0; width * height] })
    }

    /// Pixels along x and y.
    pub fn size(&self) -> (usize, usize) {
        (self.width, self.height)
    }

    /// Sets a pixel to a value; below 0 is 0, above 1 is 1. A pixel outside is ignored.
    pub fn set(&mut self, x: usize, y: usize, value: f64) {
        // NaN becomes 0.
        self.put(x, y, (value.clamp(0.0, 1.0) * f64::from(self.colours.levels() - 1)).round() as u8);
    }

    /// Marks a pixel, so that it stands out from every value. A pixel outside is ignored.
    pub fn mark(&mut self, x: usize, y: usize) {
        self.put(x, y, self.colours.levels());
    }

    fn put(&mut self, x: usize, y: usize, index: u8) {
        if x < self.width && y < self.height {
            self.pixels[y * self.width + x] = index;
        }
    }

    /// The picture as a PNG file.
    ///
    /// # Errors
    /// If the encoder fails.
    pub fn png(&self) -> Result<Vec<u8>> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Indexed);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_palette(self.colours.palette());
        encoder.set_compression(png::Compression::High);
        let mut writer = encoder.write_header().context("a picture cannot be written as PNG")?;
        writer.write_image_data(&self.pixels).context("a picture cannot be written as PNG")?;
        writer.finish().context("a picture cannot be written as PNG")?;
        Ok(file)
    }
}

/// Pictures of one size that are shown one after another, for ever.
pub struct Animation {
    encoder: gif::Encoder<Vec<u8>>,
    size: (usize, usize),
    /// Hundredths of a second per picture.
    delay: u16,
    last: Option<Picture>,
}

impl Animation {
    /// An animation of pictures of this size in these colours, `per_second` of them in a second.
    ///
    /// # Errors
    /// If the encoder fails.
    pub fn new((width, height): (usize, usize), colours: Colours, per_second: u16) -> Result<Self> {
        let (w, h) = (u16::try_from(width)?, u16::try_from(height)?);
        let mut encoder = gif::Encoder::new(Vec::new(), w, h, &colours.palette())?;
        encoder.set_repeat(gif::Repeat::Infinite)?;
        Ok(Self { encoder, size: (width, height), delay: 100 / per_second.max(1), last: None })
    }

    /// Appends a picture.
    ///
    /// # Errors
    /// If its size is another, or the encoder fails.
    pub fn push(&mut self, picture: Picture) -> Result<()> {
        let (expected, found) = (self.size, picture.size());
        ensure!(found == expected, "an animation: expected pictures of {expected:?} pixels, found {found:?}");
        let changed = match &self.last {
            Some(last) => changed(last, &picture),
            None => (0..expected.0, 0..expected.1),
        };
        // Only what has changed is written. A picture equal to the last is one pixel.
        let (across, down) = changed;
        let rows = down.clone().flat_map(|y| {
            let row = y * picture.width;
            &picture.pixels[row + across.start..row + across.end]
        });
        let pixels: Vec<u8> = rows.copied().collect();
        let mut frame = gif::Frame::from_indexed_pixels(across.len() as u16, down.len() as u16, pixels, None);
        (frame.left, frame.top) = (across.start as u16, down.start as u16);
        frame.delay = self.delay;
        self.encoder.write_frame(&frame)?;
        self.last = Some(picture);
        Ok(())
    }

    /// The animation as a GIF file. The last picture stays for two seconds.
    ///
    /// # Errors
    /// If there is no picture, or the encoder fails.
    pub fn gif(mut self) -> Result<Vec<u8>> {
        self.delay = 200;
        let last = self.last.clone().context("an animation: expected at least one picture, found none")?;
        self.push(last)?;
        Ok(self.encoder.into_inner()?)
    }
}

/// The columns and rows in which two pictures differ; at least a pixel.
fn changed(one: &Picture, other: &Picture) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    let differs = |i: &usize| one.pixels[*i] != other.pixels[*i];
    let (mut across, mut down) = (one.width..0, one.height..0);
    for i in (0..one.pixels.len()).filter(differs) {
        let (x, y) = (i % one.width, i / one.width);
        across = across.start.min(x)..across.end.max(x + 1);
        down = down.start.min(y)..down.end.max(y + 1);
    }
    if across.start >= across.end { (0..1, 0..1) } else { (across, down) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pictures() -> Vec<Picture> {
        let mut picture = Picture::new(7, 5, Colours::Map).expect("a size");
        picture.set(2, 3, 1.0);
        let first = picture.clone();
        picture.set(4, 1, 0.5);
        picture.mark(6, 4);
        vec![first.clone(), first, picture]
    }

    #[test]
    fn a_png_has_the_pixels_and_colours() {
        let picture = pictures().pop().expect("pictures");
        let file = picture.png().expect("a file");
        let decoder = png::Decoder::new(std::io::Cursor::new(&file));
        let mut reader = decoder.read_info().expect("PNG");
        let mut pixels = vec![0; reader.output_buffer_size().expect("small")];
        reader.next_frame(&mut pixels).expect("pixels");
        assert_eq!((reader.info().width, reader.info().height), (7, 5));
        assert_eq!(pixels, picture.pixels);
        assert_eq!((pixels[3 * 7 + 2], pixels[7 + 4], pixels[4 * 7 + 6]), (63, 32, 64));
        assert_eq!(reader.info().palette.as_ref().expect("a palette")[..], Colours::Map.palette());
        let grey = Colours::Gray.palette();
        assert_eq!(
            (grey[..6].to_vec(), grey[254 * 3..255 * 3].to_vec()),
            (vec![0, 0, 0, 1, 1, 1], vec![255; 3])
        );
    }

    #[test]
    fn an_animation_shows_every_picture_and_writes_only_what_changes() {
        let pictures = pictures();
        let mut animation = Animation::new((7, 5), Colours::Map, 25).expect("an animation");
        for picture in &pictures {
            animation.push(picture.clone()).expect("a picture");
        }
        let file = animation.gif().expect("a file");
        let mut decoder = gif::DecodeOptions::new().read_info(&file[..]).expect("GIF");
        let mut shown = vec![0; 35];
        for (number, picture) in pictures.iter().chain(pictures.last()).enumerate() {
            let frame = decoder.read_next_frame().expect("a frame").expect("one more");
            let (width, left, top) = (frame.width as usize, frame.left as usize, frame.top as usize);
            for (y, row) in frame.buffer.chunks(width).enumerate() {
                shown[(top + y) * 7 + left..][..width].copy_from_slice(row);
            }
            assert_eq!(shown, picture.pixels, "picture {number}");
            assert_eq!(
                (frame.delay, width * frame.height as usize),
                [(4, 35), (4, 1), (4, 12), (200, 1)][number]
            );
        }
        assert!(decoder.read_next_frame().expect("the end").is_none());
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        for (width, height) in [(0, 1), (1, 0), (65536, 1)] {
            let error = Picture::new(width, height, Colours::Gray).expect_err("refused").to_string();
            assert!(error.contains(&format!("{width} x {height}")), "{error}");
        }
        let mut animation = Animation::new((7, 5), Colours::Map, 25).expect("an animation");
        let error =
            animation.push(Picture::new(5, 7, Colours::Map).expect("a size")).expect_err("another size");
        assert!(error.to_string().contains("(7, 5)") && error.to_string().contains("(5, 7)"), "{error}");
        assert!(animation.gif().is_err());
    }

    #[test]
    fn what_lies_outside_is_left_out_and_values_are_kept_in_range() {
        let mut picture = Picture::new(2, 1, Colours::Gray).expect("a size");
        picture.set(2, 0, 1.0);
        picture.mark(0, 1);
        picture.set(0, 0, 7.0);
        picture.set(1, 0, f64::NAN);
        assert_eq!(picture.pixels, [254, 0]);
    }
}
