//! Parts of launches that came before.

use super::{Launch, Parts, evaluate};
use crate::descriptor::View;
use crate::error::Error;
use crate::index::{Cut, DimList};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex};

/// The parts of the latest launches of one plan. It is asked once per launch that takes the long way.
#[derive(Default)]
pub(crate) struct Cache(Mutex<Vec<Entry>>);

/// As many are kept.
const KEPT: usize = 8;

/// All that the parts depend on, and the parts.
struct Entry {
    dims: DimList,
    dimension: Option<usize>,
    cut: Cut,
    /// Per argument, length and shape.
    arrays: SmallVec<[(u64, SmallVec<[u64; 4]>); 8]>,
    /// The bytes of all scalars, if a function can have looked at them.
    scalars: Vec<u8>,
    parts: Arc<Parts>,
}

impl Cache {
    /// The parts of a launch that is cut at these positions, see [`evaluate`].
    pub fn parts(
        &self,
        launch: &Launch<'_>,
        dimension: Option<usize>,
        cut: &Cut,
    ) -> Result<Arc<Parts>, Error> {
        if launch.plan.part.looks_inside() {
            return evaluate(launch, dimension, cut).map(Arc::new);
        }
        {
            let mut entries = self.0.lock().unwrap_or_else(|e| e.into_inner());
            if let Some(at) = entries.iter().position(|entry| entry.fits(launch, dimension, cut)) {
                // The latest is looked at first and goes last.
                entries[..=at].rotate_right(1);
                return Ok(entries[0].parts.clone());
            }
        }
        // Without the lock: a map is the user's code.
        let parts = Arc::new(evaluate(launch, dimension, cut)?);
        let entry = Entry {
            dims: launch.dims.iter().cloned().collect(),
            dimension,
            cut: cut.clone(),
            arrays: arrays(launch).map(|(len, shape)| (len, shape.into())).collect(),
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
    fn fits(&self, launch: &Launch<'_>, dimension: Option<usize>, cut: &Cut) -> bool {
        self.dimension == dimension
            && self.dims[..] == *launch.dims
            && self.cut == *cut
            && self.arrays.iter().map(|(len, shape)| (*len, &shape[..])).eq(arrays(launch))
            && scalars(launch).flatten().eq(&self.scalars)
    }
}

fn arrays<'a>(launch: &Launch<'a>) -> impl Iterator<Item = (u64, &'a [u64])> {
    launch.args.iter().map(|arg| arg.len).zip(launch.shapes.iter().copied())
}

/// The bytes of each scalar, if there is a function.
fn scalars<'a>(launch: &Launch<'a>) -> impl Iterator<Item = &'a [u8]> {
    let looked_at = launch.plan.part.function().is_some();
    let arguments = launch.plan.arguments.iter().zip(launch.args);
    arguments.filter(move |(spec, _)| looked_at && spec.view == View::Scalar).map(|(spec, arg)| {
        // SAFETY: a recorded scalar has its bytes at `data`, and `Launch` borrows the recording.
        unsafe { std::slice::from_raw_parts(arg.data.cast_const().cast(), spec.element_size as usize) }
    })
}
