//! Parts of earlier launches.

use super::{Launch, Parts, evaluate};
use crate::error::Error;
use crate::memory::ArrayLayout;
use flash_types::descriptor::View;
use flash_types::index::{Cut, DimList};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex};

/// The parts of the latest launches of one plan. A launch that takes the distributed path looks them up once.
#[derive(Default)]
pub(crate) struct Cache(Mutex<Vec<Entry>>);

/// Number of entries that are kept.
const KEPT: usize = 8;

/// Everything that the parts depend on, and the parts.
struct Entry {
    dims: DimList,
    dimension: Option<usize>,
    cut: Cut,
    /// The weights of the cut.
    weights: SmallVec<[f64; 4]>,
    /// Per argument.
    arrays: SmallVec<[ArrayKey; 8]>,
    /// The bytes of all scalars, if a map function may have read them.
    scalars: Vec<u8>,
    parts: Arc<Parts>,
}

/// The length of an argument, its extents and its strides.
type ArrayKey = (u64, SmallVec<[u64; 4]>, SmallVec<[u64; 3]>);

/// Shares that differ by less than this fraction of them count as equal.
const ALIKE: f64 = 0.02;

impl Cache {
    /// The parts of a launch that was cut for weights like these. Measured weights are never twice the same.
    /// A different cut each time would cost planning and, on devices with memories of their own, copies.
    pub fn cut_for(&self, launch: &Launch<'_>, weights: &[f64]) -> Option<Arc<Parts>> {
        let asked = !launch.rule.looks_inside();
        asked.then(|| self.find(|entry| entry.is_of(launch) && alike(&entry.weights, weights))).flatten()
    }

    /// Finds an entry, the latest first, and makes it the latest.
    fn find(&self, fits: impl Fn(&Entry) -> bool) -> Option<Arc<Parts>> {
        let mut entries = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let at = entries.iter().position(fits)?;
        entries[..=at].rotate_right(1);
        Some(entries[0].parts.clone())
    }

    /// The parts of a launch that is cut at these positions, for these weights, see [`evaluate`]. Without a
    /// dimension there are no weights.
    pub fn parts(
        &self,
        launch: &Launch<'_>,
        dimension: Option<usize>,
        cut: &Cut,
        weights: &[f64],
    ) -> Result<Arc<Parts>, Error> {
        if launch.rule.looks_inside() {
            return evaluate(launch, dimension, cut).map(Arc::new);
        }
        let same = |entry: &Entry| entry.dimension == dimension && entry.cut == *cut && entry.is_of(launch);
        if let Some(parts) = self.find(same) {
            return Ok(parts);
        }
        // Without the lock: a map is the user's code.
        let parts = Arc::new(evaluate(launch, dimension, cut)?);
        let entry = Entry {
            dims: launch.dims.iter().cloned().collect(),
            dimension,
            cut: cut.clone(),
            weights: weights.into(),
            arrays: arrays(launch)
                .map(|(len, ArrayLayout { extents, strides })| (len, extents.into(), strides.into()))
                .collect(),
            scalars: scalars(launch).flatten().copied().collect(),
            parts: parts.clone(),
        };
        let mut entries = self.0.lock().unwrap_or_else(|e| e.into_inner());
        entries.truncate(KEPT - 1);
        entries.insert(0, entry);
        Ok(parts)
    }
}

impl Entry {
    fn is_of(&self, launch: &Launch<'_>) -> bool {
        self.dims[..] == *launch.dims
            && self
                .arrays
                .iter()
                .map(|(len, extents, strides)| (*len, ArrayLayout { extents, strides }))
                .eq(arrays(launch))
            && scalars(launch).flatten().eq(&self.scalars)
    }
}

/// True if no share differs much.
fn alike(a: &[f64], b: &[f64]) -> bool {
    let (all_a, all_b): (f64, f64) = (a.iter().sum(), b.iter().sum());
    let alike = |(a, b): (&f64, &f64)| {
        let (a, b) = (a * all_b, b * all_a);
        (a - b).abs() <= ALIKE * b.min(a)
    };
    !a.is_empty() && a.len() == b.len() && a.iter().zip(b).all(alike)
}

fn arrays<'a>(launch: &Launch<'a>) -> impl Iterator<Item = (u64, ArrayLayout<'a>)> {
    launch.args.iter().map(|arg| arg.len).zip(launch.layouts.iter().copied())
}

/// The bytes of each scalar, if there is a map function.
fn scalars<'a>(launch: &Launch<'a>) -> impl Iterator<Item = &'a [u8]> {
    let looked_at = launch.rule.function().is_some();
    let arguments = launch.kernel.arguments.iter().zip(launch.args);
    arguments.filter(move |(spec, _)| looked_at && spec.view == View::Scalar).map(|(spec, arg)| {
        // SAFETY: a recorded scalar has its bytes at `data`, and `Launch` borrows the recording.
        unsafe { std::slice::from_raw_parts(arg.data.cast_const().cast(), spec.element_size as usize) }
    })
}
