//! Writes submissions down: arguments, dimensions and order, proved, in arenas that are used again.
//!
//! Nothing here allocates once the arenas have grown. Addresses that end up in arguments stay: those
//! of memories, those of borrowed slices, and those of the bump arena, whose chunks never move.

use super::failsafe::Failsafe;
use super::plan::{ArgumentPlan, Plan};
use super::{Runtime, Submission};
use crate::abi::{self, Arg};
use crate::descriptor::{Access, Options, View};
use crate::error::Error;
use crate::index::{Dim, DimList, IndexError, IntoDims, Order, OrderTraits, item_is_exclusive};
use crate::kernel::views::Array;
use crate::memory::Header;
use smallvec::SmallVec;
use std::sync::Arc;

/// The submissions of one pipeline.
#[derive(Default)]
pub(crate) struct Slots {
    pub nodes: Vec<Node>,
    pub args: Vec<Arg>,
    /// Parallel to `args`.
    pub holds: Vec<Hold>,
    pub touched: Vec<Touched>,
    owned: Vec<Arc<Header>>,
    orders: Vec<Ordered>,
    orders_used: usize,
    dims: DimList,
    bump: Bump,
    /// The first error of any submission; reported before anything runs.
    pub error: Option<Error>,
    /// A slice of the host is written: two threads must not run this pipeline at once.
    pub slices_written: bool,
}

/// One submission.
pub(crate) struct Node {
    plan: *const Plan,
    first: u32,
    pub count: u32,
    pub order: u32,
    pub extra: Option<Box<Extra>>,
}

/// What few submissions have.
#[derive(Default)]
pub(crate) struct Extra {
    pub options: Options,
    pub sizes: Option<Vec<SmallVec<[u64; 4]>>>,
    pub failsafe: Option<Failsafe>,
    /// The plan with these options.
    plan: Option<Plan>,
    /// Attributes for the backend, with the texts that they point to.
    pub attributes: Vec<abi::Attr>,
    _texts: Vec<String>,
}

/// What a launch does to an argument's memory.
#[derive(Clone, Copy)]
pub(crate) struct Hold {
    /// Index into `touched`, or [`Hold::NONE`].
    pub touched: u32,
    /// The launch covers all of it.
    pub complete: bool,
    /// A part of a memory.
    part: bool,
}

impl Hold {
    pub const NONE: u32 = u32::MAX;
}

/// A memory that the pipeline touches.
pub(crate) struct Touched {
    pub memory: *const Header,
    pub written: bool,
}

struct Ordered {
    dims: DimList,
    /// NULL: no traits.
    plan: *const Plan,
    order: Order,
}

/// Memory for scalars and strides. Chunks never move.
#[derive(Default)]
struct Bump {
    chunks: Vec<Box<[u128]>>,
    chunk: usize,
    used: usize,
}

impl Bump {
    #[inline]
    fn alloc(&mut self, bytes: usize) -> *mut u8 {
        let units = bytes.div_ceil(16);
        if let Some(chunk) = self.chunks.get_mut(self.chunk) {
            if let Some(place) = chunk.get_mut(self.used..).filter(|rest| rest.len() >= units) {
                self.used += units;
                return place.as_mut_ptr().cast();
            }
        }
        self.grow(units)
    }

    #[cold]
    fn grow(&mut self, units: usize) -> *mut u8 {
        loop {
            self.chunk += usize::from(!self.chunks.is_empty() && self.chunk < self.chunks.len());
            if self.chunk >= self.chunks.len() {
                self.chunks.push(vec![0u128; units.max(256)].into_boxed_slice());
            }
            if self.chunks[self.chunk].len() >= units {
                self.used = units;
                return self.chunks[self.chunk].as_mut_ptr().cast();
            }
        }
    }

    fn clear(&mut self) {
        self.chunk = 0;
        self.used = 0;
    }
}

static UNIT_STRIDE: [u64; 1] = [1];

impl Node {
    /// Its plan, as its options have it.
    #[inline]
    pub fn plan(&self) -> &Plan {
        match self.extra.as_ref().and_then(|e| e.plan.as_ref()) {
            Some(plan) => plan,
            // SAFETY: plans live as long as the runtime, which the pipeline keeps.
            None => unsafe { &*self.plan },
        }
    }
}

impl Slots {
    /// Forgets everything but the memory of the arenas.
    #[inline]
    pub fn clear(&mut self) {
        self.nodes.clear();
        self.args.clear();
        self.holds.clear();
        self.touched.clear();
        if !self.owned.is_empty() {
            self.owned.clear();
        }
        self.orders_used = 0;
        self.bump.clear();
        if self.error.is_some() {
            self.error = None;
        }
        self.slices_written = false;
    }

    /// Begins a submission; its arguments follow.
    #[inline]
    pub fn begin(&mut self, plan: *const Plan) {
        self.nodes.push(Node { plan, first: self.args.len() as u32, count: 0, order: 0, extra: None });
    }

    /// Begins a submission whose plan is its own.
    pub fn begin_owned(&mut self, plan: Plan) {
        self.begin(std::ptr::null());
        self.extra().plan = Some(plan);
    }

    /// The next argument is a scalar.
    #[inline]
    pub fn push_scalar(&mut self, bytes: &[u8]) {
        let place = self.bump.alloc(bytes.len());
        // SAFETY: the arena has that much room there.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
        self.push(place, 1, Hold { touched: Hold::NONE, complete: false, part: false });
    }

    /// The next argument is an array.
    #[inline]
    pub fn push_array(&mut self, array: Array<'_>) {
        let touched = if array.memory.is_null() { Hold::NONE } else { self.touch(array.memory) };
        self.push(array.data, array.len as u64, Hold { touched, complete: false, part: array.part });
        if let Some(owner) = array.owner {
            self.owned.push(owner);
        }
    }

    #[inline]
    fn push(&mut self, data: *mut u8, len: u64, hold: Hold) {
        self.args.push(Arg {
            kind: 0,
            access: 0,
            space: abi::SPACE_HOST,
            element_size: 0,
            data: data.cast(),
            next: std::ptr::null_mut(),
            buffer: 0,
            len,
            row_len: 1,
            flags: 0,
            strides: std::ptr::null(),
        });
        self.holds.push(hold);
    }

    /// The index of a memory among those touched. Chains use the same few again: the latest first.
    #[inline]
    fn touch(&mut self, memory: *const Header) -> u32 {
        match self.touched.iter().rposition(|t| std::ptr::eq(t.memory, memory)) {
            Some(index) => index as u32,
            None => {
                self.touched.push(Touched { memory, written: false });
                (self.touched.len() - 1) as u32
            }
        }
    }

    /// What few submissions have, of the one that was begun last.
    pub fn extra(&mut self) -> &mut Extra {
        let node = self.nodes.last_mut().expect("a submission was begun");
        node.extra.get_or_insert_default()
    }

    /// Ends a submission: the order is made and everything is proved. Errors are kept for `exec`.
    #[inline]
    pub fn finish(&mut self, dims: impl IntoDims, runtime: &Runtime) {
        self.dims.clear();
        dims.push_into(&mut self.dims);
        if let Err(error) = self.prove(runtime) {
            if self.error.is_none() {
                self.error = Some(error);
            }
        }
    }

    #[inline]
    fn prove(&mut self, runtime: &Runtime) -> Result<(), Error> {
        let last = self.nodes.len() - 1;
        let node = &mut self.nodes[last];
        node.count = self.args.len() as u32 - node.first;
        if node.extra.is_some() || !runtime.options.attributes.is_empty() {
            prepare_options(node, runtime)?;
        }
        // SAFETY: plans live as long as the runtime, or as the node.
        let plan: &Plan = unsafe { &*std::ptr::from_ref(self.nodes[last].plan()) };
        if let Err(error) = plan.target() {
            let saved = self.nodes[last].extra.as_ref().is_some_and(|e| e.failsafe.is_some());
            if !saved || !matches!(error, Error::NoImplementation(_)) {
                return Err(error);
            }
        }
        let order = self.order(plan).map_err(|e| index_error(plan, e))?;
        self.nodes[last].order = order as u32;
        let order = &self.orders[order].order;
        let first = self.nodes[last].first as usize;
        let sizes = self.nodes[last].extra.as_ref().and_then(|e| e.sizes.as_deref());
        if let Some(sizes) = sizes {
            let arrays = plan.arguments.iter().filter(|a| a.view != View::Scalar).count();
            if sizes.len() > arrays {
                return Err(Error::Shape(format!(
                    "kernel `{}` has {arrays} array arguments, sizes(..) gives {} shapes: give one per array, in order",
                    plan.descriptor.name,
                    sizes.len()
                )));
            }
        }
        let mut array = 0;
        for (i, spec) in plan.arguments.iter().enumerate() {
            let arg = &mut self.args[first + i];
            arg.kind = spec.view.code();
            arg.access = spec.access.code();
            arg.element_size = spec.element_size;
            if spec.view == View::Scalar {
                continue;
            }
            let hold = &mut self.holds[first + i];
            if spec.access != Access::Read {
                match self.touched.get_mut(hold.touched as usize) {
                    Some(touched) => touched.written = true,
                    None => self.slices_written = true,
                }
            }
            let given = sizes.and_then(|s| s.get(array)).map(|s| &s[..]).filter(|s| !s.is_empty());
            array += 1;
            let shape = match (given, self.touched.get(hold.touched as usize)) {
                (Some(shape), _) => shape,
                // SAFETY: the memory outlives the pipeline: borrowed for its lifetime, or owned by it.
                (None, Some(touched)) if !hold.part => unsafe { &*touched.memory }.shape(),
                _ => &[],
            };
            if given.is_some() {
                check_size(shape, arg.len).map_err(|text| argument_error(plan, i, text))?;
            }
            if matches!(spec.view, View::Item | View::Phased) {
                prove_item(order, &self.dims, spec, shape, arg, hold, &mut self.bump)
                    .map_err(|text| argument_error(plan, i, text))?;
            }
        }
        disjoint(plan, &self.args[first..])
    }

    /// The order of the current dimensions: one that was made for an earlier submission, if it fits.
    #[inline]
    fn order(&mut self, plan: &Plan) -> Result<usize, IndexError> {
        let traits = plan.traits();
        let plain = traits == OrderTraits::default();
        let key = if plain { std::ptr::null() } else { std::ptr::from_ref(plan) };
        let expected = plan.descriptor.dimensions.len();
        if self.dims.len() != expected {
            return Err(IndexError::DimCount { expected, found: self.dims.len() });
        }
        let recent = self.orders_used.saturating_sub(4);
        for index in (recent..self.orders_used).rev() {
            let ordered = &self.orders[index];
            if ordered.plan == key && ordered.dims == self.dims {
                return Ok(index);
            }
        }
        let index = self.orders_used;
        if index == self.orders.len() {
            self.orders.push(Ordered { dims: DimList::new(), plan: key, order: Order::default() });
        }
        let ordered = &mut self.orders[index];
        ordered.order.set(&self.dims, &traits)?;
        ordered.plan = key;
        ordered.dims.clone_from(&self.dims);
        self.orders_used += 1;
        Ok(index)
    }

    /// Order and dimensions of a submission.
    #[inline]
    pub fn order_of(&self, node: &Node) -> &Order {
        &self.orders[node.order as usize].order
    }

    /// Dimensions of a submission.
    pub fn dims_of(&self, node: &Node) -> &[Dim] {
        &self.orders[node.order as usize].dims
    }

    /// Arguments of a submission.
    #[inline]
    pub fn args_of(&self, node: &Node) -> &[Arg] {
        &self.args[node.first as usize..][..node.count as usize]
    }

    /// What a submission does to its arguments.
    #[inline]
    pub fn holds_of(&self, node: &Node) -> &[Hold] {
        &self.holds[node.first as usize..][..node.count as usize]
    }

    /// Records a submission.
    #[inline]
    pub fn record<'a>(&mut self, submission: impl Submission<'a>, runtime: &Runtime) {
        submission.record(self, runtime);
    }
}

/// Makes the plan that a submission's own options ask for, and the attributes for the backend.
#[cold]
fn prepare_options(node: &mut Node, runtime: &Runtime) -> Result<(), Error> {
    use crate::descriptor::{Devices, GroupBy, Implementation, Searchable, SortBy};
    let options = node.extra.get_or_insert_default().options.attributes.clone();
    let plan = if options.is_empty() {
        None
    } else {
        let mut devices = runtime.devices.clone();
        if let Some(Devices(key)) = options.get::<Devices>() {
            devices = super::select(&devices, key)?;
        }
        let mut all = runtime.options.attributes.clone();
        all.merge(&options);
        Some(node.plan().with_options(&devices, &all)?)
    };
    let extra = node.extra.get_or_insert_default();
    extra.plan = plan.or(extra.plan.take());
    let mut all = runtime.options.attributes.clone();
    all.merge(&extra.options.attributes);
    let (sort, group, implementation, devices, searchable) =
        (all.get::<SortBy>(), all.get::<GroupBy>(), all.get::<Implementation>(), all.get::<Devices>(), all.get::<Searchable>());
    let own = [
        sort.map(|_| "SortBy"),
        group.map(|_| "GroupBy"),
        implementation.map(|_| "Implementation"),
        devices.map(|_| "Devices"),
        searchable.map(|_| "Searchable"),
    ];
    for (key, value, required) in all.iter().filter(|(key, ..)| !own.contains(&Some(*key))) {
        let (key, value) = (key.to_owned(), value.to_string());
        // SAFETY (of later reads): the texts are kept beside, and a String's bytes do not move with it.
        let text = |s: &String| abi::Str { ptr: s.as_ptr(), len: s.len() };
        extra.attributes.push(abi::Attr {
            key: text(&key),
            value: text(&value),
            required: u32::from(required),
            reserved: 0,
        });
        extra._texts.extend([key, value]);
    }
    Ok(())
}

fn check_size(shape: &[u64], len: u64) -> Result<(), String> {
    match shape.iter().try_fold(1u64, |a, &b| a.checked_mul(b)) {
        Some(product) if product <= len => Ok(()),
        _ => Err(format!("sizes(..) gives the shape {shape:?}, the array has {len} elements: make it longer or the shape smaller")),
    }
}

#[cold]
fn argument_error(plan: &Plan, i: usize, text: String) -> Error {
    Error::Argument {
        kernel: plan.descriptor.name.clone(),
        argument: plan.descriptor.arguments.get(i).map_or_else(|| format!("#{i}"), |a| a.name.clone()),
        text,
    }
}

/// With the dimensions' names in place of their numbers.
#[cold]
fn index_error(plan: &Plan, error: IndexError) -> Error {
    let names = &plan.descriptor.dimensions;
    let mut text = error.to_string();
    for (number, name) in names.iter().enumerate() {
        text = text.replace(&format!("dimension {number}"), &format!("dimension `{name}`"));
    }
    if let IndexError::DimCount { .. } = error {
        text.push_str(&format!(" ({})", names.join(", ")));
    }
    Error::Index { kernel: plan.descriptor.name.clone(), text, source: error }
}

/// Two arguments that overlap, at least one of them written.
#[inline]
fn disjoint(plan: &Plan, args: &[Arg]) -> Result<(), Error> {
    let range = |a: &Arg| {
        let start = a.data as usize;
        start..start + a.len as usize * a.element_size as usize
    };
    for (i, a) in args.iter().enumerate() {
        if a.kind == abi::ARG_SCALAR || a.access == abi::ACCESS_READ {
            continue;
        }
        let mine = range(a);
        for (j, b) in args.iter().enumerate() {
            if i == j || b.kind == abi::ARG_SCALAR {
                continue;
            }
            let other = range(b);
            if mine.start < other.end && other.start < mine.end {
                return Err(overlap_error(plan, i, j));
            }
        }
    }
    Ok(())
}

#[cold]
fn overlap_error(plan: &Plan, written: usize, other: usize) -> Error {
    let name = |i: usize| plan.descriptor.arguments.get(i).map_or("?", |a| a.name.as_str());
    argument_error(
        plan,
        written,
        format!(
            "it is written and overlaps argument `{}` in memory: pass memories or ranges that are apart",
            name(other)
        ),
    )
}

/// Strides of an item argument, and the proof that its elements lie inside and are exclusive.
#[inline]
fn prove_item(
    order: &Order,
    dims: &[Dim],
    spec: &ArgumentPlan,
    shape: &[u64],
    arg: &mut Arg,
    hold: &mut Hold,
    bump: &mut Bump,
) -> Result<(), String> {
    // One dimension, one axis, no shape: the way of almost every launch.
    if let ([Dim::Count(count)], [0], false, true) = (dims, &spec.along[..], spec.row, shape.len() <= 1) {
        if spec.view == View::Item {
            let len = shape.first().copied().unwrap_or(arg.len);
            if *count > len {
                return Err(outside(*count - 1, len, 0));
            }
            arg.strides = UNIT_STRIDE.as_ptr();
            hold.complete = *count == arg.len && *count > 0 && !hold.part;
            return Ok(());
        }
    }
    prove_any_item(order, dims, spec, shape, arg, hold, bump)
}

fn outside(value: u64, extent: u64, dimension: usize) -> String {
    format!(
        "dimension {dimension} reaches the value {value}, the array has {extent} elements along it: launch fewer work items or pass a longer array"
    )
}

fn prove_any_item(
    order: &Order,
    dims: &[Dim],
    spec: &ArgumentPlan,
    shape: &[u64],
    arg: &mut Arg,
    hold: &mut Hold,
    bump: &mut Bump,
) -> Result<(), String> {
    let strides: *mut u64 = bump.alloc(dims.len() * size_of::<u64>()).cast();
    // SAFETY: the arena gave room for one stride per dimension, aligned to 16 bytes.
    let strides = unsafe { std::slice::from_raw_parts_mut(strides, dims.len()) };
    strides.fill(0);
    arg.strides = strides.as_ptr();
    if order.items() == 0 {
        return Ok(());
    }
    let largest = |dim: usize| dims[dim].max_value().unwrap_or(0);
    let extent_of = |dim: usize| {
        largest(dim).checked_add(1).ok_or_else(|| format!("dimension {dim} reaches the value 2^64 - 1, which no array has"))
    };
    // Extents of the axes that the index names, and the row's length.
    let mut extents: SmallVec<[u64; 4]> = SmallVec::new();
    let rows = usize::from(spec.row);
    if shape.is_empty() {
        for &dim in &spec.along {
            extents.push(extent_of(dim)?);
        }
    } else {
        if shape.len() != spec.along.len() + rows {
            return Err(format!(
                "its index names {} axes{}, the array has the shape {shape:?}: give it a shape of {} extents",
                spec.along.len(),
                if spec.row { " beside its row" } else { "" },
                spec.along.len() + rows,
            ));
        }
        extents.extend_from_slice(&shape[rows..]);
        for (&dim, &extent) in spec.along.iter().zip(&extents) {
            if largest(dim) >= extent {
                return Err(outside(largest(dim), extent, dim));
            }
        }
    }
    let product = extents.iter().try_fold(1u64, |a, &b| a.checked_mul(b));
    let Some(product) = product else {
        return Err(format!("an array of extents {extents:?} has more than 2^64 elements"));
    };
    arg.row_len = match (spec.row, shape.first()) {
        (false, _) => 1,
        (true, Some(&row)) => row,
        (true, None) => {
            if !arg.len.is_multiple_of(product) {
                return Err(format!(
                    "{product} rows of equal length were expected, the array has {} elements: give it a shape, row length first",
                    arg.len
                ));
            }
            arg.len / product
        }
    };
    match product.checked_mul(arg.row_len) {
        Some(needed) if needed <= arg.len => {}
        needed => {
            return Err(format!(
                "the index reaches {} elements, the array has {}: launch fewer work items or pass a longer array",
                needed.map_or("more than 2^64".to_owned(), |n| n.to_string()),
                arg.len
            ));
        }
    }
    let mut stride = arg.row_len;
    for (&dim, &extent) in spec.along.iter().zip(&extents) {
        strides[dim] = stride;
        stride *= extent;
    }
    let covers = |dim: usize, extent: u64| dims[dim].distinct() && dims[dim].len() == extent;
    let all = product * arg.row_len == arg.len && spec.along.iter().zip(&extents).all(|(&dim, &extent)| covers(dim, extent));
    hold.complete = all && !hold.part;
    if spec.access != Access::Read {
        item_is_exclusive(order, dims, &spec.along).map_err(|failure| failure.to_string())?;
    }
    if spec.view == View::Phased {
        prove_phased(order, dims, spec, arg, all)?;
    }
    Ok(())
}

fn prove_phased(order: &Order, dims: &[Dim], spec: &ArgumentPlan, arg: &mut Arg, all: bool) -> Result<(), String> {
    let Some((dim, uses)) = &spec.stages else {
        if all && spec.along.iter().all(|&dim| order.every_phase_spans(dim)) {
            arg.flags |= abi::ARG_FLAG_COVERED;
        }
        return Ok(());
    };
    arg.flags |= abi::ARG_FLAG_STAGED;
    arg.next = arg.data;
    if !order.constant_within_phases(*dim) {
        return Err(format!(
            "its use is declared per value of dimension {dim}, which changes inside a phase: add a barrier there (group_by)"
        ));
    }
    match dims[*dim].max_value() {
        Some(largest) if largest >= uses.len() as u64 => Err(format!(
            "its use is declared for the values 0 to {} of dimension {dim}, the launch reaches {largest}",
            uses.len() - 1
        )),
        _ => Ok(()),
    }
}
