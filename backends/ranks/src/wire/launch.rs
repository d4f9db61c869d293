//! A launch as it travels, and what an agent makes of it.
//!
//! The agent trusts no number: lists have the lengths that the space says, orders name positions, and every
//! element that a launch may touch by its arguments lies in the buffer that it is said to be in. What follows
//! from a proof of the controller, such as that no two items write one element, is taken over.

use super::{Attribute, Shape, bad};
use flash_backend::abi::space::{
    BARRIER_LIST, DIM_AFFINE, DIM_VALUES, LOOP_FULL, LOOP_GROUP, LOOP_MEMBER, LOOP_REVERSED, Loop, Space,
    SpaceDim,
};
use flash_backend::abi::{self, Arg, Attr, Buffer, CopyBox, Part, Str};
use flash_backend::host_memory::AlignedBytes;
use flash_backend::index::SpaceRef;
use flash_backend::{Failure, Launch};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::any::Any;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

type List<'a> = Cow<'a, [u64]>;

/// What a [`Launch`] says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LaunchImage<'a> {
    flags: u32,
    phases: [u64; 2],
    #[serde(borrow)]
    space: SpaceImage<'a>,
    #[serde(borrow)]
    args: SmallVec<[ArgImage<'a>; 8]>,
    attributes: SmallVec<[Attribute<'a>; 2]>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SpaceImage<'a> {
    items: u64,
    phases: u64,
    phase_items: u64,
    dims: SmallVec<[DimImage<'a>; 4]>,
    #[serde(borrow)]
    loops: SmallVec<[LoopImage<'a>; 4]>,
}

#[derive(Debug, Serialize, Deserialize)]
struct DimImage<'a> {
    start: u64,
    step: i64,
    count: u64,
    values: Option<List<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct LoopImage<'a> {
    dim: u32,
    kind: u32,
    barrier: u32,
    group_loop: u32,
    count: u64,
    barriers: Option<List<'a>>,
    order: Option<List<'a>>,
    starts: Option<List<'a>>,
}

/// An argument.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ArgImage<'a> {
    kind: u32,
    access: u32,
    element_size: u32,
    flags: u64,
    len: u64,
    row_len: u64,
    place: Place,
    next: Place,
    strides: Option<SmallVec<[u64; 4]>>,
    part: Option<PartImage>,
    scalar: Cow<'a, [u8]>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct PartImage {
    begin: [u64; 3],
    end: [u64; 3],
    stride: [u64; 2],
    origins: [u64; 2],
}

/// Where an array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Place {
    /// A scalar, or no buffer.
    Nowhere,
    /// In the controller's memory: the offset of element 0, modulo 2^64, since only a part may be there.
    Shared(u64),
    /// In a buffer of the agent's device.
    Buffer(u64),
}

/// # Safety
/// NULL, or `len` elements that live for `'a`.
unsafe fn list<'a>(from: *const u64, len: u64) -> Option<List<'a>> {
    // SAFETY: the caller vouches.
    (!from.is_null()).then(|| Cow::Borrowed(unsafe { std::slice::from_raw_parts(from, len as usize) }))
}

impl<'a> LaunchImage<'a> {
    /// Of a launch; `place_of` says where an address is, or a handle.
    pub fn of<K>(
        launch: &Launch<'a, K>,
        place_of: impl Fn(&Arg, *mut std::ffi::c_void, u64) -> Place,
    ) -> Self {
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        let phases = launch.phases();
        let dimensions = launch.space().dims().len();
        LaunchImage {
            flags: flag(launch.profiled(), abi::SUBMIT_PROFILE)
                | flag(launch.phased(), abi::SUBMIT_PHASED)
                | flag(launch.is_part(), abi::SUBMIT_PART),
            phases: [phases.start, phases.end],
            space: SpaceImage::of(launch.space()),
            args: launch.args().iter().map(|arg| ArgImage::of(arg, dimensions, &place_of)).collect(),
            attributes: launch
                .attributes()
                .map(|(key, value, required)| (Cow::Borrowed(key), Cow::Borrowed(value), required))
                .collect(),
        }
    }
}

impl LaunchImage<'_> {
    /// Work items, as it says.
    pub fn items(&self) -> u64 {
        self.space.items
    }
}

impl<'a> SpaceImage<'a> {
    fn of(space: SpaceRef<'a>) -> SpaceImage<'a> {
        let raw = space.raw();
        let dim = |dim: &SpaceDim| {
            let values = if dim.kind == DIM_VALUES { dim.values } else { std::ptr::null() };
            // SAFETY: a space has lists as the kinds of its dimensions and loops say, which live for the
            // launch.
            let values = unsafe { list(values, dim.count) };
            DimImage { start: dim.start, step: dim.step, count: dim.count, values }
        };
        let (dims, loops) = (space.dims(), space.loops());
        let one = |at: &Loop| {
            let positions = dims[at.dim as usize].count;
            let groups = match at.kind {
                LOOP_GROUP => at.count,
                LOOP_MEMBER => loops[at.group_loop as usize].count,
                _ => 0,
            };
            let has_order = !matches!(at.kind, LOOP_FULL | LOOP_REVERSED);
            // SAFETY: as above.
            unsafe {
                LoopImage {
                    dim: at.dim,
                    kind: at.kind,
                    barrier: at.barrier,
                    group_loop: at.group_loop,
                    count: at.count,
                    barriers: if at.barrier == BARRIER_LIST { list(at.barriers, at.nbarriers) } else { None },
                    order: if has_order { list(at.order, positions) } else { None },
                    starts: if groups > 0 { list(at.starts, groups + 1) } else { None },
                }
            }
        };
        SpaceImage {
            items: raw.items,
            phases: raw.phases,
            phase_items: raw.phase_items,
            dims: dims.iter().map(dim).collect(),
            loops: loops.iter().map(one).collect(),
        }
    }
}

impl<'a> ArgImage<'a> {
    fn of(
        arg: &'a Arg,
        dimensions: usize,
        place_of: &impl Fn(&Arg, *mut std::ffi::c_void, u64) -> Place,
    ) -> ArgImage<'a> {
        let is_scalar = arg.kind == abi::ARG_SCALAR;
        let two = arg.kind == abi::ARG_PHASED && arg.flags & abi::ARG_FLAG_STAGED == 0;
        // SAFETY: a scalar has that many bytes; strides are one per dimension, or NULL; so is the part, which
        // lives for the call.
        unsafe {
            ArgImage {
                kind: arg.kind,
                access: arg.access,
                element_size: arg.element_size,
                flags: arg.flags,
                len: arg.len,
                row_len: arg.row_len,
                place: if is_scalar { Place::Nowhere } else { place_of(arg, arg.data, arg.buffer) },
                next: if two { place_of(arg, arg.next, arg.next as u64) } else { Place::Nowhere },
                strides: list(arg.strides, dimensions as u64).map(|list| SmallVec::from_slice(&list)),
                part: arg.part.as_ref().map(|part| PartImage {
                    begin: part.begin,
                    end: part.end,
                    stride: part.stride,
                    origins: [part.origin, part.next_origin],
                }),
                scalar: Cow::Borrowed(match is_scalar {
                    true => std::slice::from_raw_parts(arg.data.cast::<u8>(), arg.element_size as usize),
                    false => &[],
                }),
            }
        }
    }
}

impl Shape {
    pub fn of(shape: &CopyBox) -> Shape {
        Shape {
            extent: shape.extent,
            offsets: [shape.source_offset, shape.destination_offset],
            strides: [shape.source_stride, shape.destination_stride],
        }
    }

    pub fn to_box(self) -> CopyBox {
        CopyBox {
            extent: self.extent,
            source_offset: self.offsets[0],
            source_stride: self.strides[0],
            destination_offset: self.offsets[1],
            destination_stride: self.strides[1],
        }
    }

    /// True if the box has no gaps there: its bytes lie one after the other.
    pub fn is_gapless(self, end: usize) -> bool {
        let ([x, y, z], [row, plane]) = (self.extent, self.strides[end]);
        (y <= 1 || row == x) && (z <= 1 || Some(plane) == x.checked_mul(y))
    }

    /// The bytes of a buffer that the box touches, at its source or its destination.
    ///
    /// # Errors
    /// More than there are addresses.
    pub fn bytes(self, end: usize) -> Result<Range<u64>, Failure> {
        if self.extent.contains(&0) {
            return Ok(0..0);
        }
        let ([x, y, z], [row, plane], first) = (self.extent, self.strides[end], self.offsets[end]);
        let last = |count: u64, stride: u64| (count - 1).checked_mul(stride);
        let past = last(y, row)
            .zip(last(z, plane))
            .and_then(|(rows, planes)| first.checked_add(rows)?.checked_add(planes)?.checked_add(x));
        let Some(past) = past else {
            return Err(bad(format!("a box with more bytes than there are addresses: {self:?}")));
        };
        // Else a small buffer could keep an agent busy for ever.
        let bytes = x.checked_mul(y).and_then(|rows| rows.checked_mul(z));
        match bytes.is_some_and(|bytes| bytes <= past - first) {
            true => Ok(first..past),
            false => Err(bad(format!("a box with rows over each other: {self:?}"))),
        }
    }
}

/// What an agent knows of the memory that a launch may touch.
pub(crate) trait Bounds {
    /// The address of the controller's memory here, and its bytes.
    fn shared(&self) -> (usize, u64);
    /// A buffer of the launch's device, its bytes, and whether its handle is an address.
    fn buffer(&self, number: u64) -> Option<(Buffer, u64, bool)>;
}

/// A launch with all that it points to but its arrays.
pub(crate) struct OwnedLaunch {
    space: Space,
    args: Vec<Arg>,
    attributes: Vec<Attr>,
    pub flags: u32,
    pub phases: Range<u64>,
    // What these point to. Boxed, or in the heap anyway, so that their addresses stay.
    _dims: Vec<SpaceDim>,
    _loops: Vec<Loop>,
    _lists: Vec<Vec<u64>>,
    #[allow(clippy::vec_box)]
    _parts: Vec<Box<Part>>,
    _scalars: Vec<AlignedBytes>,
    _texts: Vec<String>,
    /// Its buffers: one that is freed meanwhile goes when the launch has ended.
    kept: Vec<Arc<dyn Any + Send + Sync>>,
}

// SAFETY: pointers lead to what it owns, which never changes, and to arrays, which the controller keeps until
// the launch is complete, whatever thread runs it.
unsafe impl Send for OwnedLaunch {}
// SAFETY: as above: nothing changes it.
unsafe impl Sync for OwnedLaunch {}

impl OwnedLaunch {
    /// The index space.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Keeps buffers for as long as the launch lives.
    pub fn keep(&mut self, buffers: Vec<Arc<dyn Any + Send + Sync>>) {
        self.kept = buffers;
    }

    pub fn args(&self) -> &[Arg] {
        &self.args
    }

    pub fn attributes(&self) -> &[Attr] {
        &self.attributes
    }
}

/// Checks a launch and makes it one that can be submitted.
///
/// # Errors
/// Lists that do not fit, an array that is not there, elements outside it.
pub(crate) fn owned(image: &LaunchImage<'_>, bounds: &impl Bounds) -> Result<OwnedLaunch, Failure> {
    let mut lists = Vec::new();
    let (dims, loops) = lists_of(&image.space, &mut lists)?;
    let raw = &image.space;
    let space = Space {
        struct_size: size_of::<Space>() as u32,
        ndims: dims.len() as u32,
        items: raw.items,
        phases: raw.phases,
        phase_items: raw.phase_items,
        nloops: loops.len() as u32,
        reserved: 0,
        dims: dims.as_ptr(),
        loops: loops.as_ptr(),
    };
    let [begin, end] = image.phases;
    if begin > end || end > space.phases {
        return Err(bad(format!("phases {begin} to {end} of {}", space.phases)));
    }
    // SAFETY: `lists_of` has checked the lists, which live as long as this function has them.
    let view = unsafe { SpaceRef::new(&space) };
    if space.items > 0 && space.phase_items == 0 && view.phase_of(space.items - 1) + 1 != space.phases {
        return Err(bad(format!("{} phases, which its barriers do not make", space.phases)));
    }
    let rows = most_rows(view, begin..end);
    let values = view.values_of()?;
    let (mut parts, mut scalars) = (Vec::new(), Vec::new());
    let args = image.args.iter().enumerate().map(|(i, arg)| {
        let touched = arg.touched(rows, &values).map_err(|what| bad(format!("argument {i}: {what}")))?;
        let mut made = arg.placed(&touched, bounds).map_err(|what| bad(format!("argument {i}: {what}")))?;
        if arg.kind == abi::ARG_SCALAR {
            let mut scalar = arg.scalar()?;
            made.data = scalar.data().cast();
            scalars.push(scalar);
        }
        if let Some(strides) = &arg.strides {
            made.strides = keep(&mut lists, strides.to_vec());
        }
        if let Some(part) = arg.part {
            let [origin, next_origin] = part.origins;
            let PartImage { begin, end, stride, .. } = part;
            let part = Box::new(Part { begin, end, stride, origin, next_origin });
            made.part = &raw const *part;
            parts.push(part);
        }
        Ok(made)
    });
    let args: Vec<Arg> = args.collect::<Result<_, Failure>>()?;
    let mut texts = Vec::new();
    let mut text = |from: &str| {
        texts.push(from.to_owned());
        texts.last().map_or(Str::new(""), |text: &String| Str { ptr: text.as_ptr(), len: text.len() })
    };
    let attributes = image.attributes.iter().map(|(key, value, required)| Attr {
        key: text(key),
        value: text(value),
        required: u32::from(*required),
        reserved: 0,
    });
    let attributes = attributes.collect();
    Ok(OwnedLaunch {
        space,
        args,
        attributes,
        flags: image.flags & (abi::SUBMIT_PROFILE | abi::SUBMIT_PHASED | abi::SUBMIT_PART),
        phases: begin..end,
        _dims: dims,
        _loops: loops,
        _lists: lists,
        _parts: parts,
        _scalars: scalars,
        _texts: texts,
        kept: Vec::new(),
    })
}

/// Rows that a phase has at most.
fn most_rows(space: SpaceRef<'_>, phases: Range<u64>) -> u64 {
    /// Phases that are looked at: more of them may be as many as there are items.
    const LOOKS: u64 = 1024;
    if phases.is_empty() {
        return 0;
    }
    match space.raw().phase_items {
        0 if phases.end - phases.start > LOOKS => space.items(),
        0 => phases.map(|phase| space.phase(phase)).map(|rows| rows.end - rows.start).max().unwrap_or(0),
        rows => rows,
    }
}

/// Keeps a list; returns its address.
fn keep(lists: &mut Vec<Vec<u64>>, list: Vec<u64>) -> *const u64 {
    let place = list.as_ptr();
    lists.push(list);
    place
}

/// The dimensions and loops of a space, whose lists are as its documentation says.
fn lists_of(
    space: &SpaceImage<'_>,
    lists: &mut Vec<Vec<u64>>,
) -> Result<(Vec<SpaceDim>, Vec<Loop>), Failure> {
    let wrong = |what: String| Err(bad(format!("an index space: {what}")));
    if space.dims.is_empty() || (space.items == 0) != (space.phases == 0) {
        let (dims, items, phases) = (space.dims.len(), space.items, space.phases);
        return wrong(format!("{dims} dimensions, {items} items, {phases} phases"));
    }
    let mut dims = Vec::new();
    for dim in &space.dims {
        let (kind, values) = match &dim.values {
            None => (DIM_AFFINE, std::ptr::null()),
            Some(values) if values.len() as u64 == dim.count => (DIM_VALUES, keep(lists, values.to_vec())),
            Some(values) => return wrong(format!("{} values at {} positions", values.len(), dim.count)),
        };
        dims.push(SpaceDim { kind, reserved: 0, start: dim.start, step: dim.step, count: dim.count, values });
    }
    let (mut loops, mut iterations) = (Vec::new(), 1u64);
    for (number, at) in space.loops.iter().enumerate() {
        let Some(positions) = dims.get(at.dim as usize).map(|dim: &SpaceDim| dim.count) else {
            return wrong(format!("loop {number} moves dimension {} of {}", at.dim, dims.len()));
        };
        let group = space.loops.get(at.group_loop as usize).filter(|_| (at.group_loop as usize) < number);
        let groups = match at.kind {
            LOOP_GROUP => Some(at.count),
            LOOP_MEMBER => match group {
                Some(group) if group.kind == LOOP_GROUP && group.dim == at.dim => Some(group.count),
                _ => return wrong(format!("loop {number} is in no loop over groups")),
            },
            kind if kind > LOOP_MEMBER => return wrong(format!("loop {number} is of kind {kind}")),
            _ => None,
        };
        // Of all kinds but groups.
        if at.kind != LOOP_GROUP && at.count != positions {
            return wrong(format!("loop {number} has {} iterations, for {positions} positions", at.count));
        }
        let is_ordered = !matches!(at.kind, LOOP_FULL | LOOP_REVERSED);
        let order_fits = at.order.as_ref().map(|order| {
            order.len() as u64 == positions && order.iter().all(|position| *position < positions)
        });
        // No group is empty, and the members of a group are the positions that it has.
        let starts_fit = at.starts.as_ref().map(|starts| {
            Some(starts.len() as u64) == groups.and_then(|groups| groups.checked_add(1))
                && starts.first() == Some(&0)
                && starts.last() == Some(&positions)
                && starts.is_sorted_by(|a, b| a < b)
        });
        if let Some(group) = group.filter(|_| at.kind == LOOP_MEMBER)
            && (&at.order, &at.starts) != (&group.order, &group.starts)
        {
            return wrong(format!("loop {number} has other members than loop {}", at.group_loop));
        }
        let barriers_fit = at.barriers.as_ref().map(|barriers| {
            barriers.is_sorted_by(|a, b| a < b) && barriers.last().is_none_or(|last| *last < at.count.max(1))
        });
        if order_fits != is_ordered.then_some(true)
            || starts_fit != groups.map(|_| true)
            || barriers_fit != (at.barrier == BARRIER_LIST).then_some(true)
        {
            return wrong(format!("the lists of loop {number} do not fit it"));
        }
        // The groups of a dimension are a loop, and their members one inside it; else there is one loop.
        let inner = space.loops[number + 1..].iter().filter(|inner| inner.dim == at.dim);
        let members = |inner: &&LoopImage<'_>| {
            inner.kind == LOOP_MEMBER && inner.group_loop as usize == number && at.kind == LOOP_GROUP
        };
        let (inside, fitting) = (inner.clone().count(), inner.filter(members).count());
        if inside != fitting || fitting != usize::from(at.kind == LOOP_GROUP) {
            return wrong(format!("loop {number} and {inside} loops inside it move dimension {}", at.dim));
        }
        if at.kind != LOOP_GROUP {
            let Some(all) = iterations.checked_mul(at.count) else {
                return wrong("more iterations than there are numbers".into());
            };
            iterations = all;
        }
        let nbarriers = at.barriers.as_ref().map_or(0, |barriers| barriers.len() as u64);
        let mut list =
            |from: &Option<List<'_>>| from.as_ref().map_or(std::ptr::null(), |l| keep(lists, l.to_vec()));
        loops.push(Loop {
            dim: at.dim,
            kind: at.kind,
            barrier: at.barrier,
            group_loop: at.group_loop,
            count: at.count,
            barriers: list(&at.barriers),
            nbarriers,
            order: list(&at.order),
            starts: list(&at.starts),
        });
    }
    let is_looped = |dim: usize| space.loops.iter().any(|at| at.dim as usize == dim);
    let all_positions = (0..dims.len()).all(|dim| is_looped(dim) || dims[dim].count == 1);
    if space.items > 0 && (iterations != space.items || !all_positions || space.phases > space.items) {
        return wrong(format!(
            "{} items in {} phases, for {iterations} iterations",
            space.items, space.phases
        ));
    }
    if space.items == 0 && dims.iter().all(|dim| dim.count > 0) {
        return wrong(format!("no items, for {iterations} iterations"));
    }
    if space.phase_items != 0 && space.phase_items.checked_mul(space.phases) != Some(space.items) {
        return wrong(format!("{} phases of {} items, of {}", space.phases, space.phase_items, space.items));
    }
    Ok((dims, loops))
}

/// The least and the greatest value of each dimension.
pub(crate) trait Values {
    fn values_of(&self) -> Result<SmallVec<[[u64; 2]; 4]>, Failure>;
}

impl Values for SpaceRef<'_> {
    fn values_of(&self) -> Result<SmallVec<[[u64; 2]; 4]>, Failure> {
        let of = |dim: &SpaceDim| {
            if dim.count == 0 {
                return Some([0, 0]);
            }
            if dim.kind == DIM_VALUES {
                // SAFETY: as many values as there are positions, which live as long as the space.
                let values = unsafe { std::slice::from_raw_parts(dim.values, dim.count as usize) };
                return Some([*values.iter().min()?, *values.iter().max()?]);
            }
            let last = i128::from(dim.start) + i128::from(dim.step) * i128::from(dim.count - 1);
            let last = u64::try_from(last).ok()?;
            Some([dim.start.min(last), dim.start.max(last)])
        };
        let all: Option<_> = self.dims().iter().map(of).collect();
        all.ok_or_else(|| bad("an index space with values beyond those of an index".into()))
    }
}

impl PartImage {
    /// From its first element to its last, in an array of this length.
    fn elements(&self, len: u64) -> Result<Range<u64>, String> {
        let PartImage { begin, end, stride, .. } = *self;
        if (0..3).any(|axis| begin[axis] >= end[axis]) {
            return Ok(0..0);
        }
        let at = |p: [u64; 3]| {
            let (y, z) = (p[1].checked_mul(stride[0])?, p[2].checked_mul(stride[1])?);
            p[0].checked_add(y)?.checked_add(z)
        };
        let last = at(end.map(|end| end - 1)).ok_or("a part with more elements than there are addresses")?;
        if last >= len {
            return Err(format!("a part up to element {last} of {len}"));
        }
        let there = at(begin).unwrap_or(0)..last + 1;
        // Views tell by its extents whether a part is all of an array.
        let elements = (0..3).try_fold(1u64, |all, axis| all.checked_mul(end[axis] - begin[axis]));
        match elements.is_some_and(|elements| elements <= there.end - there.start) {
            true => Ok(there),
            false => Err(format!("a part with rows over each other: {self:?}")),
        }
    }
}

/// The second buffer of a phased argument has the elements of the launch's items, and may have no others.
const ALONE: u64 = abi::ARG_FLAG_COVERED | abi::ARG_FLAG_NEXT_STAYS;

impl ArgImage<'_> {
    /// The elements that a launch may touch, counted from element 0, and those of them that are items' own.
    fn touched(&self, rows: u64, values: &[[u64; 2]]) -> Result<[Range<u64>; 2], String> {
        let both = |all: Range<u64>| [all.clone(), all];
        if self.kind == abi::ARG_SCALAR {
            return Ok(both(0..0));
        }
        if self.kind == abi::ARG_REDUCE {
            if !self.row_len.is_power_of_two() {
                return Err(format!("blocks of {} rows, expected a power of two", self.row_len));
            }
            let all = rows.div_ceil(self.row_len).checked_mul(self.len);
            return all
                .map(|all| both(0..all))
                .ok_or_else(|| "more accumulators than there are addresses".into());
        }
        // Without both flags, devices copy all of one buffer into the other.
        let is_copied = self.kind == abi::ARG_PHASED
            && self.flags & abi::ARG_FLAG_STAGED == 0
            && self.flags & ALONE != ALONE;
        let there = match &self.part {
            // Kernels look at no part of a whole array.
            Some(part) if !is_copied && self.kind != abi::ARG_WHOLE => part.elements(self.len)?,
            _ => 0..self.len,
        };
        let Some(strides) = &self.strides else { return Ok(both(there)) };
        if strides.len() != values.len() {
            return Err(format!("{} strides for {} dimensions", strides.len(), values.len()));
        }
        if rows == 0 || !matches!(self.kind, abi::ARG_ITEM | abi::ARG_PHASED) {
            return Ok(both(there));
        }
        let reach = |which: usize| {
            let steps = strides.iter().zip(values).map(|(stride, value)| stride.checked_mul(value[which]));
            steps.into_iter().try_fold(0u64, |sum, step| sum.checked_add(step?))
        };
        let (first, last) = (reach(0), reach(1).and_then(|last| last.checked_add(self.row_len)));
        match (first, last) {
            (Some(first), Some(past)) if there.start <= first && past <= there.end => {
                Ok([there, first..past])
            }
            _ => Err(format!("items at elements {first:?} to {last:?} of {there:?}")),
        }
    }

    /// With its addresses here.
    fn placed(&self, [touched, own]: &[Range<u64>; 2], bounds: &impl Bounds) -> Result<Arg, String> {
        let origins = self.part.map_or([0; 2], |part| part.origins);
        let (space, data, buffer) = self.address(self.place, origins[0], touched, bounds)?;
        let two = self.kind == abi::ARG_PHASED && self.flags & abi::ARG_FLAG_STAGED == 0;
        let next = match two {
            false if self.kind == abi::ARG_PHASED => data,
            false => 0,
            true => {
                // With both flags nothing but the items writes there, and nothing is copied back.
                let written = match self.flags & ALONE == ALONE {
                    true => own,
                    false => touched,
                };
                let (there, next, handle) = self.address(self.next, origins[1], written, bounds)?;
                if there != space {
                    return Err(format!("two buffers in the memory spaces {space} and {there}"));
                }
                if space == abi::SPACE_HOST && self.overlap([(data, touched), (next, written)]) {
                    return Err("two buffers that overlap".into());
                }
                if next == 0 { handle } else { next }
            }
        };
        let pointer = |address: u64| std::ptr::with_exposed_provenance_mut(address as usize);
        Ok(Arg {
            kind: self.kind,
            access: self.access,
            space,
            element_size: self.element_size,
            data: pointer(data),
            next: pointer(next),
            buffer,
            len: self.len,
            row_len: self.row_len,
            flags: self.flags,
            strides: std::ptr::null(),
            part: std::ptr::null(),
        })
    }

    /// The memory space, the address of element 0 (0 in spaces whose buffers have none), and the handle.
    fn address(
        &self,
        place: Place,
        origin: u64,
        touched: &Range<u64>,
        bounds: &impl Bounds,
    ) -> Result<(u32, u64, u64), String> {
        let size = i128::from(self.element_size);
        // Bytes from where the buffer, or the memory, begins.
        let check = |first: i128, bytes: u64| {
            let (from, to) =
                (first + i128::from(touched.start) * size, first + i128::from(touched.end) * size);
            match touched.is_empty() || from >= 0 && to <= i128::from(bytes) {
                true => Ok(()),
                false => Err(format!("bytes {from} to {to} of {bytes}")),
            }
        };
        match place {
            Place::Nowhere if touched.is_empty() => Ok((abi::SPACE_HOST, self.nowhere(), 0)),
            Place::Nowhere => Err("elements of an array that has no buffer".into()),
            Place::Shared(offset) => {
                let (base, bytes) = bounds.shared();
                // Modulo 2^64: a part's element 0 may be before all addresses.
                check(i128::from(offset as i64), bytes)?;
                Ok((abi::SPACE_HOST, (base as u64).wrapping_add(offset), 0))
            }
            Place::Buffer(number) => {
                let (buffer, bytes, has_addresses) =
                    bounds.buffer(number).ok_or_else(|| format!("there is no buffer {number}"))?;
                check(-i128::from(origin as i64) * size, bytes)?;
                let data = match has_addresses {
                    true => buffer.handle.wrapping_sub(origin.wrapping_mul(u64::from(self.element_size))),
                    false => 0,
                };
                // The host's memory has addresses and no handles.
                let handle = if buffer.space == abi::SPACE_HOST { 0 } else { buffer.handle };
                Ok((buffer.space, data, handle))
            }
        }
    }

    /// True if elements at two addresses of element 0 overlap; both were checked.
    fn overlap(&self, [(one, first), (other, second)]: [(u64, &Range<u64>); 2]) -> bool {
        let size = u64::from(self.element_size);
        let at = |data: u64, range: &Range<u64>| data.wrapping_add(range.start.wrapping_mul(size));
        let bytes = |range: &Range<u64>| range.end.saturating_sub(range.start).saturating_mul(size);
        let (from, to) = (at(one, first), at(other, second));
        to.wrapping_sub(from) < bytes(first) && bytes(second) > 0
            || from.wrapping_sub(to) < bytes(second) && bytes(first) > 0
    }

    /// An address for no elements, as aligned as any type needs.
    fn nowhere(&self) -> u64 {
        if self.kind == abi::ARG_SCALAR { 0 } else { 64 }
    }

    /// The bytes of a scalar.
    fn scalar(&self) -> Result<AlignedBytes, Failure> {
        match self.scalar.len() == self.element_size as usize {
            true => Ok(AlignedBytes::of(&self.scalar)),
            false => Err(bad(format!("a scalar of {} bytes with {}", self.element_size, self.scalar.len()))),
        }
    }
}
