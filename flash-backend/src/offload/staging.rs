//! Copies between the host and a device through memory that the driver moves at full speed: *stages*. Two
//! take turns: while one is copied, the host fills, or empties, the other.

use crate::failure::Failure;
use crate::host_memory::copy_addresses;
use flash_types::abi::CopyBox;

/// A piece of memory that host and device reach.
pub trait Stage {
    /// Its memory, which has the bytes that its copies were promised.
    fn data(&self) -> *mut u8;
    /// Waits for the copy that uses it.
    fn settle(&mut self) -> Result<(), Failure>;
}

/// Copies a box from the host's memory to a device; it is copied on return. `send` begins to copy a box out
/// of a stage, in which it lies from the first byte on and without gaps.
///
/// # Safety
/// The box lies in the host's memory, and is not written meanwhile. The stages have `room` bytes each, and no
/// other user.
pub unsafe fn up<S: Stage>(
    stages: &mut [S; 2],
    room: u64,
    host: *const u8,
    all: &CopyBox,
    mut send: impl FnMut(&mut S, &CopyBox) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for (number, piece) in pieces(all, room).enumerate() {
        let stage = &mut stages[number % 2];
        stage.settle()?;
        let load = CopyBox { destination_offset: 0, destination_stride: close(piece.extent), ..piece };
        // SAFETY: the piece lies in the host's memory, and has room in the stage, whose last copy has ended.
        unsafe {
            copy_addresses(host.expose_provenance() as u64, stage.data().expose_provenance() as u64, &load)
        };
        send(stage, &CopyBox { source_offset: 0, source_stride: close(piece.extent), ..piece })?;
    }
    stages.iter_mut().try_for_each(Stage::settle)
}

/// Copies a box from a device to the host's memory; it is copied on return. `fetch` begins to copy a box into
/// a stage, from the first byte on and without gaps.
///
/// # Safety
/// As [`up`], and the box is not read in the host's memory.
pub unsafe fn down<S: Stage>(
    stages: &mut [S; 2],
    room: u64,
    host: *mut u8,
    all: &CopyBox,
    mut fetch: impl FnMut(&mut S, &CopyBox) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let unload = |stage: &mut S, piece: CopyBox| {
        stage.settle()?;
        let unload = CopyBox { source_offset: 0, source_stride: close(piece.extent), ..piece };
        // SAFETY: the copy that filled the stage with the piece has ended; the piece lies in the host's
        // memory.
        unsafe {
            copy_addresses(stage.data().expose_provenance() as u64, host.expose_provenance() as u64, &unload)
        };
        Ok(())
    };
    let mut before: Option<(usize, CopyBox)> = None;
    for (number, piece) in pieces(all, room).enumerate() {
        fetch(
            &mut stages[number % 2],
            &CopyBox { destination_offset: 0, destination_stride: close(piece.extent), ..piece },
        )?;
        if let Some((number, piece)) = before.replace((number, piece)) {
            unload(&mut stages[number % 2], piece)?;
        }
    }
    before.map_or(Ok(()), |(number, piece)| unload(&mut stages[number % 2], piece))
}

/// A box in pieces that one command of a driver can copy: their rows are not longer than the distance between
/// them, and their planes are whole rows apart.
pub fn regular(shape: &CopyBox) -> Vec<CopyBox> {
    let [bytes, rows, planes] = shape.extent;
    let strides = [shape.source_stride, shape.destination_stride];
    // Strides along axes of extent 1 are arbitrary.
    let row = |stride: [u64; 2]| if rows == 1 { bytes } else { stride[0] };
    let plane = |stride: [u64; 2]| if planes == 1 { row(stride) * rows } else { stride[1] };
    let fits_rows = strides.iter().all(|&s| row(s) >= bytes);
    let fits_planes = strides.iter().all(|&s| plane(s).is_multiple_of(row(s)) && plane(s) >= rows * row(s));
    let (each_row, each_plane) = match (fits_rows, fits_planes) {
        (true, true) => (rows, planes),
        (true, false) => (rows, 1),
        (false, _) => (1, 1),
    };
    let stride = |s: [u64; 2]| {
        let row = if each_row == 1 { bytes } else { row(s) };
        [row, if each_plane == 1 { row * each_row } else { plane(s) }]
    };
    let mut parts = Vec::with_capacity((planes / each_plane * (rows / each_row)) as usize);
    for z in (0..planes).step_by(each_plane as usize) {
        for y in (0..rows).step_by(each_row as usize) {
            let at = |offset: u64, s: [u64; 2]| offset + y * s[0] + z * s[1];
            parts.push(CopyBox {
                extent: [bytes, each_row, each_plane],
                source_offset: at(shape.source_offset, shape.source_stride),
                source_stride: stride(shape.source_stride),
                destination_offset: at(shape.destination_offset, shape.destination_stride),
                destination_stride: stride(shape.destination_stride),
            });
        }
    }
    parts
}

/// The strides of a box without gaps.
#[inline]
pub fn close([bytes, rows, _]: [u64; 3]) -> [u64; 2] {
    [bytes, bytes * rows]
}

/// A box in pieces of up to `most` bytes: planes if they fit, else rows, else parts of rows.
#[inline]
pub fn pieces(all: &CopyBox, most: u64) -> impl Iterator<Item = CopyBox> + use<> {
    let all = *all;
    let [bytes, rows, planes] = all.extent;
    let [x, y, z] = match () {
        () if bytes * rows <= most => [bytes, rows, most / (bytes * rows)],
        () if bytes <= most => [bytes, most / bytes, 1],
        () => [most, 1, 1],
    };
    let at = |step: u64, end: u64| {
        (0..end).step_by(step as usize).map(move |begin| (begin, step.min(end - begin)))
    };
    at(z, planes).flat_map(move |(plane, z)| {
        at(y, rows).flat_map(move |(row, y)| {
            at(x, bytes).map(move |(byte, x)| {
                let first =
                    |offset: u64, stride: [u64; 2]| offset + byte + row * stride[0] + plane * stride[1];
                CopyBox {
                    extent: [x, y, z],
                    source_offset: first(all.source_offset, all.source_stride),
                    destination_offset: first(all.destination_offset, all.destination_stride),
                    ..all
                }
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "nothing unsafe, and takes minutes")]
    fn pieces_are_small_enough_and_have_every_byte_once() {
        for extent in [[1, 1, 1], [7, 1, 1], [3, 2, 1], [3, 5, 4], [9, 3, 2], [8, 1, 3], [2, 2, 9]] {
            let stride = [extent[0] + 1, (extent[0] + 1) * extent[1] + 3];
            let all = CopyBox {
                extent,
                source_offset: 5,
                source_stride: stride,
                destination_offset: 2,
                destination_stride: close(extent),
            };
            let bytes = |all: &CopyBox| {
                let [x, y, z] = all.extent.map(|n| 0..n);
                let mut found = Vec::new();
                for (x, y, z) in z.flat_map(|z| {
                    let x = x.clone();
                    y.clone().flat_map(move |y| x.clone().map(move |x| (x, y, z)))
                }) {
                    let at = |offset: u64, stride: [u64; 2]| offset + x + y * stride[0] + z * stride[1];
                    found.push((
                        at(all.source_offset, all.source_stride),
                        at(all.destination_offset, all.destination_stride),
                    ));
                }
                found
            };
            for most in [1, 2, 5, 8, 24, 1000] {
                let cut: Vec<CopyBox> = pieces(&all, most).collect();
                assert!(cut.iter().all(|piece| piece.extent.iter().product::<u64>() <= most), "{cut:?}");
                let mut there: Vec<_> = cut.iter().flat_map(bytes).collect();
                let mut expected = bytes(&all);
                there.sort_unstable();
                expected.sort_unstable();
                assert_eq!(there, expected, "{extent:?} in pieces of {most}");
            }
        }
    }
}
