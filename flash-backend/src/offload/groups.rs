//! Groups of a launch's threads: what a launch, an implementation, a function and a device say of them.
//!
//! A size comes from the launch's option or the implementation's attribute `work_group_size`, which may not
//! contradict each other, or from the function's text. Otherwise the driver says what suits the device.

use super::{Driver, Function, Kernel, LaunchWords, Range, numbers};
use crate::backend::Launch;
use crate::failure::Failure;
use flash_types::Code;

/// The option, and the attribute, for the number of threads in a group.
const GROUP_SIZE: &str = "work_group_size";

/// The option for bytes that are added to a group's memory.
const ADDED_MEMORY: &str = "shared_memory_bytes";

/// What a launch, or else its implementation, asks for. If either asks for anything, groups have one
/// dimension.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Threads of a group.
    pub size: Option<u64>,
    /// Bytes that are added to its memory.
    pub added: u64,
}

impl<D: Driver> Kernel<D> {
    /// What a launch asks for.
    #[inline]
    pub(super) fn wanted(&self, launch: &Launch<'_, D::Kernel>) -> Result<Wanted, Failure> {
        let own = self.spec.work_group_size;
        if !launch.has_attributes() {
            return Ok(Wanted { size: own, added: 0 });
        }
        let [size, added] = match D::ADDS_GROUP_MEMORY {
            true => numbers(launch, [GROUP_SIZE, ADDED_MEMORY])?,
            false => numbers(launch, [GROUP_SIZE]).map(|[size]| [size, None])?,
        };
        match (own, size) {
            (Some(own), Some(size)) if own != size => {
                Err(self.compiled_for(&format!("{own} threads"), &format!("{size}: leave {GROUP_SIZE} out")))
            }
            _ => Ok(Wanted { size: size.or(own), added: added.unwrap_or(0) }),
        }
    }

    /// The range of a box of work items, with threads in as many dimensions. `None`: the device has no such
    /// range.
    pub(super) fn range_of_box(
        &self,
        driver: &D,
        function: &Function<D>,
        extents: [u64; 3],
    ) -> Result<Option<Range>, Failure> {
        let group = driver.group_of_box(function, extents)?;
        let groups: [u64; 3] = std::array::from_fn(|d| extents[d].div_ceil(group[d]));
        let fits = groups.iter().zip(driver.limits().groups).all(|(&groups, most)| groups <= most);
        let dimensions = self.spec.descriptor.dimensions.len();
        Ok(fits.then_some(Range { dimensions, begin: [0; 3], groups, group: Some(group) }))
    }

    /// The range of any launch of a cooperating kernel: one dimension; the kernel computes its index.
    pub(super) fn line(
        &self,
        driver: &D,
        function: &Function<D>,
        words: &LaunchWords,
        wanted: Wanted,
    ) -> Result<Range, Failure> {
        if self.spec.single_work_item {
            return Ok(Range::line(1, 1));
        }
        let (size, groups) = match words.block {
            0 => {
                let size = self.size(driver, function, words.threads, wanted)?;
                (size, words.threads.div_ceil(size))
            }
            block => (self.size_of_block(driver, function, wanted)?, words.items.div_ceil(block)),
        };
        let most = driver.limits().groups[0];
        if groups <= most {
            return Ok(Range::line(size, groups));
        }
        let text = format!(
            "{}: expected up to {most} work-groups, the limit of {}, found {groups} of {size} threads for {} in all: cut the launch, or set {GROUP_SIZE}",
            self.spec.title,
            driver.limits().device,
            words.threads
        );
        Err(Failure::new(Code::Invalid, text))
    }

    /// Threads of a group in one dimension, for this many in all.
    pub(super) fn size(
        &self,
        driver: &D,
        function: &Function<D>,
        threads: u64,
        wanted: Wanted,
    ) -> Result<u64, Failure> {
        let size = match (function.limits.compiled, wanted.size) {
            (_, Some(size)) | (Some([size, 1, 1]), None) => size,
            (_, None) => {
                let size = driver.group_of_line(function, threads, wanted.added)?;
                // Threads that share a work item are in one group.
                let together = self.spec.threads_per_item;
                (size / together).max(1) * together
            }
        };
        self.check_size(driver, function, size)?;
        Ok(size)
    }

    /// Threads of a group that has accumulators of its own: its text is written for their number.
    fn size_of_block(&self, driver: &D, function: &Function<D>, wanted: Wanted) -> Result<u64, Failure> {
        let compiled = function.limits.compiled.map_or(1, |size| size[0]);
        let own = self.spec.work_group_size.unwrap_or(compiled);
        match wanted.size {
            Some(size) if size != own => {
                let found = format!("{size}: leave {GROUP_SIZE} as it is");
                Err(self.compiled_for(&format!("{own} threads, with their accumulators"), &found))
            }
            _ => self.check_size(driver, function, own).map(|()| own),
        }
    }

    /// Refuses a group that the function or the device cannot have.
    #[inline]
    fn check_size(&self, driver: &D, function: &Function<D>, size: u64) -> Result<(), Failure> {
        let super::GroupLimits { threads, compiled, .. } = function.limits;
        if size <= threads && compiled.is_none_or(|compiled| compiled == [size, 1, 1]) {
            return self.spec.check_group(size);
        }
        if let Some(compiled) = compiled.filter(|compiled| *compiled != [size, 1, 1]) {
            return Err(
                self.compiled_for(&format!("{compiled:?} threads"), &format!("{size}: set {GROUP_SIZE}"))
            );
        }
        let text = format!(
            "{}: expected a work-group of up to {threads} threads, the limit of {} for this kernel, found one of {size}: set {GROUP_SIZE}",
            self.spec.title,
            driver.limits().device
        );
        Err(Failure::new(Code::Invalid, text))
    }

    #[cold]
    fn compiled_for(&self, expected: &str, found: &str) -> Failure {
        let text = format!(
            "{}: expected a work-group of {expected}, for which the kernel was compiled, found one of {found}",
            self.spec.title
        );
        Failure::new(Code::Invalid, text)
    }

    /// The range of a kernel that does not cooperate: the index space itself. Dimensions behind the third are
    /// folded into it. `None`: the space is empty.
    pub(super) fn plain(
        &self,
        driver: &D,
        launch: &Launch<'_, D::Kernel>,
        wanted: Wanted,
    ) -> Result<Option<Range>, Failure> {
        let (spec, limits, function) = (&self.spec, driver.limits(), self.first());
        let space = spec.plain_space(launch, limits.alignment)?;
        let (dimensions, folds) = (space.len().clamp(1, 3), space.len() > 3);
        let (mut begin, mut extents) = ([0; 3], [1u64; 3]);
        for (d, values) in space.enumerate() {
            let at = d.min(2);
            if values.start != 0 && (!limits.begins_anywhere || folds && at == 2) {
                let found = format!("dimension {d} from {} on, where the device counts from 0", values.start);
                return Err(spec.not_plain(&found));
            }
            begin[at] = values.start;
            extents[at] = extents[at].saturating_mul(values.end - values.start);
        }
        if extents.contains(&0) {
            return Ok(None);
        }
        if spec.single_work_item {
            if begin != [0; 3] {
                let found = format!("an index space that begins with {:?}", &begin[..dimensions]);
                return Err(spec.not_plain(&found));
            }
            return Ok(Some(Range { dimensions, begin, groups: [1; 3], group: Some([1; 3]) }));
        }
        let group = match (function.limits.compiled, wanted.size) {
            (Some(compiled), None) => compiled,
            (_, Some(size)) => {
                self.check_size(driver, function, size)?;
                [size, 1, 1]
            }
            (None, None) if D::CHOOSES_GROUPS => {
                return Ok(Some(Range { dimensions, begin, groups: extents, group: None }));
            }
            (None, None) => {
                let most = self.size(driver, function, extents[0], wanted)?;
                // Where no thread is past the end, the kernel need not check.
                [if spec.bounds_checked { most } else { divisor(extents[0], most) }, 1, 1]
            }
        };
        for d in 0..3 {
            let (extent, size, most) = (extents[d], group[d], limits.groups[d]);
            if !spec.bounds_checked && !extent.is_multiple_of(size) {
                return Err(spec.not_plain(&format!(
                    "an extent of {extent} along dimension {d}, which a work-group of {size} does not divide (or say `bounds_checked`)"
                )));
            }
            if extent.div_ceil(size) > most {
                return Err(spec.not_plain(&format!(
                    "{} work-groups along dimension {d}, where {most} is the limit",
                    extent.div_ceil(size)
                )));
            }
        }
        let groups = std::array::from_fn(|d| extents[d].div_ceil(group[d]));
        Ok(Some(Range { dimensions, begin, groups, group: Some(group) }))
    }
}

impl Range {
    /// Groups in one dimension.
    pub(super) fn line(size: u64, groups: u64) -> Range {
        Range { dimensions: 1, begin: [0; 3], groups: [groups, 1, 1], group: Some([size, 1, 1]) }
    }
}

/// The largest number up to `most` that divides `extent`.
fn divisor(extent: u64, most: u64) -> u64 {
    (1..=most).rev().find(|&size| extent.is_multiple_of(size)).unwrap_or(1)
}
