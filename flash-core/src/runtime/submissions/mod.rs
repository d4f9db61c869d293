//! The recording of submissions: arguments, dimensions and order, proved, in arenas that are reused.
//!
//! Nothing here allocates once the arenas have grown. Addresses in arguments stay valid: those of memories,
//! those of borrowed slices, and those of the bump arena, whose chunks never move.
//!
//! A program mostly repeats its submissions. So the last recording stays when a pipeline is dropped, and the
//! next one is compared with it, argument by argument, as it is written. A submission with the same plan, the
//! same arrays and the same dimensions is proved already, and only its scalars are new. From the first
//! difference on, the rest is recorded anew. The remains of an old recording are never dereferenced: a memory
//! is the same if its address and its number are, and the number is read from the memory that was passed just
//! now.

mod extra;
mod source;
mod writer;

pub(crate) use extra::Extra;
pub(crate) use source::Recorded;
use source::Source;

use super::alike::AlikeOnDevice;
use super::arena::{Bump, Mark};
use super::event::Event;
use super::facts::ArgumentFacts;
use super::movement;
use super::partition::{Footprint, LaunchGrid};
use super::plan::Plan;
use super::proof::{
    RowStarts, argument_error, check_size, disjoint, index_error, outside, prove_gaps, prove_item,
    prove_ragged, prove_reduce, wrong_rank,
};
use super::state::Runtime;
use crate::error::Error;
use crate::memory::{ArrayInner, ArrayLayout};
use flash_types::abi::{self, Arg};
use flash_types::descriptor::View;
use flash_types::index::{Dim, DimList, IndexError, IntoDims, Order, OrderTraits};
use smallvec::SmallVec;
use std::any::TypeId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// The submissions of one pipeline.
#[derive(Default)]
pub(crate) struct SubmissionList {
    /// The first `live` are of this recording, the others remain from the last.
    nodes: Vec<Node>,
    live: usize,
    args: Vec<Arg>,
    /// Parallel to `args`.
    sources: Vec<Source>,
    /// Parallel to `args`.
    holds: Vec<Hold>,
    /// In the order in which the submissions first touch them.
    touched: Vec<TouchedMemory>,
    /// Indices into `touched`, in the order of addresses, as long as they are few.
    sorted: SmallVec<[u32; FEW]>,
    /// The same for many memories, once it is needed.
    sorted_many: OnceLock<Box<[u32]>>,
    /// The index of a memory in `touched`, once there are many.
    index: HashMap<usize, u32>,
    owned: Vec<Arc<ArrayInner>>,
    /// The first `orders_used` are valid; they stay as long as the nodes.
    orders: Vec<CachedOrder>,
    orders_used: usize,
    dims: DimList,
    bump: Bump,
    /// The place of the next argument.
    cursor: usize,
    /// The latest node is compared with the old one.
    comparing: bool,
    /// A difference was found.
    differs: bool,
    /// The latest node was begun and is not finished.
    open: bool,
    /// Something must not outlive this recording: options, plans of submissions' own.
    special: bool,
    /// Plans of functions of the host, for this recording only.
    #[allow(clippy::vec_box)] // nodes point to them
    own_plans: Vec<Box<Plan>>,
    /// It contains a function of the host.
    pub may_block: bool,
    /// Its `exec` enters the order: for a function of the host, so that no thread waits for a word meanwhile,
    /// and for the events that it comes after.
    pub enters_order: bool,
    /// What it comes after.
    after: Vec<Event>,
    /// One of them says that it blocks.
    pub blocks: bool,
    /// The first error of any submission; reported before anything runs.
    pub error: Option<Error>,
    /// A slice of the host is, or was, an argument.
    pub has_slices: bool,
    /// One of them is written: two threads must not run this pipeline at once.
    pub slices_written: bool,
    /// Number of launches, of this recording and those before.
    launches: AtomicU64,
}

/// One submission.
pub(crate) struct Node {
    plan: *const Plan,
    /// The definition, if it has a type.
    type_id: Option<TypeId>,
    first: u32,
    count: u32,
    order: u32,
    /// The arena when it was begun, and after its scalars.
    marks: [Mark; 2],
    /// Its footprint when it runs whole; `None` inside: not one box of each array. Used only on a device with
    /// a memory of its own.
    footprint: OnceLock<Option<Arc<Footprint>>>,
    alike: AlikeOnDevice,
    pub extra: Option<Box<Extra>>,
}

/// The use of an argument's memory by a launch.
#[derive(Clone, Copy)]
pub(crate) struct Hold {
    /// Index of the memory among those touched, or [`Hold::NONE`].
    pub touched: u32,
    /// The launch covers all of it.
    pub complete: bool,
}

/// A memory that the pipeline touches.
pub(crate) struct TouchedMemory {
    pub memory: *const ArrayInner,
    /// The first node that touches it.
    first: u32,
    /// The first node that writes it, or `u32::MAX`.
    written_from: u32,
}

/// Up to this many memories are searched one by one, and kept sorted.
const FEW: usize = 16;

/// A longer recording takes much memory.
const FEW_NODES: usize = 64;
/// A longer recording is not kept for the next.
const KEPT_NODES: usize = 1 << 14;
/// Number of orders that are kept.
const KEPT_ORDERS: usize = 32;

impl Hold {
    /// No memory: a scalar, or a slice of the host.
    pub const NONE: u32 = u32::MAX;
    const BLANK: Hold = Hold { touched: Hold::NONE, complete: false };
}

struct CachedOrder {
    dims: DimList,
    /// NULL: no traits.
    plan: *const Plan,
    order: Order,
}

impl Node {
    /// Its plan, which depends on its options.
    #[inline]
    pub fn plan(&self) -> &Plan {
        match self.extra.as_ref().and_then(|e| e.plan.as_ref()) {
            Some(plan) => plan,
            // SAFETY: plans live as long as the runtime, which the pipeline keeps.
            None => unsafe { &*self.plan },
        }
    }
}

impl SubmissionList {
    /// Number of launches before these. Where two threads run one pipeline, some may not be counted.
    #[inline]
    pub fn count_launches(&self) -> u64 {
        let before = self.launches.load(Relaxed);
        self.launches.store(before + self.live as u64, Relaxed);
        before
    }

    /// The next launch goes to the device, and is not run inline.
    #[cold]
    pub fn tell_device(&self) {
        self.launches.store(0, Relaxed);
    }

    /// Ends a recording. It stays for comparison, unless something of it must be freed: then returns false.
    #[inline]
    pub fn clear(&mut self) -> bool {
        self.live = 0;
        if !self.owned.is_empty() {
            self.owned.clear();
        }
        if self.special
            || self.open
            || self.error.is_some()
            || self.orders_used > KEPT_ORDERS
            || self.nodes.len() > KEPT_NODES
        {
            self.forget();
            return false;
        }
        true
    }

    /// Clears everything but the memory of the arenas.
    #[cold]
    pub fn forget(&mut self) {
        self.truncate(0);
        self.owned.clear();
        self.own_plans.clear();
        self.may_block = false;
        self.enters_order = false;
        self.after.clear();
        self.blocks = false;
        self.orders_used = 0;
        self.special = false;
        self.open = false;
        self.error = None;
        self.has_slices = false;
        self.slices_written = false;
    }

    /// Removes all nodes from `n` on.
    #[cold]
    fn truncate(&mut self, n: usize) {
        self.live = self.live.min(n);
        let Some(node) = self.nodes.get(n) else {
            return;
        };
        let (first, mark) = (node.first as usize, node.marks[0]);
        self.nodes.truncate(n);
        self.args.truncate(first);
        self.sources.truncate(first);
        self.holds.truncate(first);
        self.bump.at = mark;
        self.untouch(n as u32);
    }

    /// Removes the uses of memories by the nodes from `n` on.
    fn untouch(&mut self, n: u32) {
        let kept = self.touched.iter().position(|t| t.first >= n).unwrap_or(self.touched.len());
        self.touched.truncate(kept);
        for touched in &mut self.touched {
            if touched.written_from >= n {
                touched.written_from = u32::MAX;
            }
        }
        self.sorted.retain(|i| (*i as usize) < kept);
        self.sorted_many.take();
        self.index.clear();
    }

    /// Begins a submission of the definition that is here in the last recording, if it is: that saves a
    /// lookup of its plan.
    #[inline(always)]
    pub fn resume(&mut self, id: TypeId) -> bool {
        match self.nodes.get(self.live) {
            Some(node) if node.type_id == Some(id) => {
                self.live += 1;
                self.open = true;
                self.cursor = node.first as usize;
                self.comparing = true;
                self.differs = false;
                true
            }
            _ => false,
        }
    }

    /// Begins a submission; its arguments follow.
    #[inline(always)]
    pub fn begin(&mut self, plan: &Plan) {
        let at = self.live;
        self.live = at + 1;
        self.open = true;
        if let Some(node) = self.nodes.get(at) {
            if std::ptr::eq(node.plan, plan) {
                self.cursor = node.first as usize;
                self.comparing = true;
                self.differs = false;
                return;
            }
            self.truncate(at);
            self.live = at + 1;
        }
        self.begin_new(plan);
    }

    /// Takes the submission that is here in the last recording as it is, if it has this plan: `same` says,
    /// for each argument, whether it is the memory that it was, or writes the scalar's bytes. False: it is
    /// not the same, and nothing was begun.
    #[inline(always)]
    pub fn repeat(&mut self, plan: &Plan, mut same: impl FnMut(usize, Recorded<'_>) -> bool) -> bool {
        let Some(node) = self.nodes.get(self.live).filter(|node| std::ptr::eq(node.plan, plan)) else {
            return false;
        };
        let (first, count) = (node.first as usize, node.count as usize);
        let arguments = self.args[first..][..count].iter().zip(&self.sources[first..][..count]);
        for (position, (arg, source)) in arguments.enumerate() {
            if !same(position, Recorded { arg, source }) {
                return false;
            }
        }
        self.live += 1;
        self.open = true;
        self.cursor = first;
        self.comparing = true;
        self.differs = false;
        true
    }

    /// Begins a submission with a plan of its own, for a function of the host.
    pub fn begin_own(&mut self, plan: Plan) {
        // Moving a box invalidates borrows of its content: it is moved to its final place first.
        self.own_plans.push(Box::new(plan));
        let plan = std::ptr::from_ref(&**self.own_plans.last().expect("just pushed"));
        // SAFETY: nothing writes to it, and it is dropped after the nodes that name it.
        self.begin(unsafe { &*plan });
        self.special = true;
        self.may_block = true;
        self.enters_order = true;
    }

    /// It begins after an event.
    pub fn add_after(&mut self, event: Event) {
        self.special = true;
        self.enters_order = true;
        self.after.push(event);
    }

    /// The events that it begins after.
    pub fn after(&self) -> &[Event] {
        &self.after
    }

    #[inline(never)]
    fn begin_new(&mut self, plan: &Plan) {
        let first = self.args.len();
        self.args.extend_from_slice(&plan.template);
        self.sources.resize(self.args.len(), Source::BLANK);
        self.holds.resize(self.args.len(), Hold::BLANK);
        self.cursor = first;
        self.comparing = false;
        let count = plan.template.len() as u32;
        self.nodes.push(Node {
            plan,
            type_id: plan.type_id(),
            first: first as u32,
            count,
            order: 0,
            marks: [self.bump.at; 2],
            footprint: OnceLock::new(),
            alike: AlikeOnDevice::default(),
            extra: None,
        });
    }

    fn own(&mut self, owner: Arc<ArrayInner>) {
        self.owned.push(owner);
    }

    /// The index of a touched memory. Chains use the same few again: the latest first.
    #[inline]
    fn touch(&mut self, memory: *const ArrayInner, written: bool) -> u32 {
        let node = self.live as u32 - 1;
        let found = if self.touched.len() <= FEW {
            self.touched.iter().rposition(|t| std::ptr::eq(t.memory, memory))
        } else {
            self.find_among_many(memory)
        };
        let index = found.unwrap_or(self.touched.len());
        if found.is_none() {
            self.touched.push(TouchedMemory { memory, first: node, written_from: u32::MAX });
            self.sorted_many.take();
            if self.touched.len() <= FEW {
                let place = self.sorted.iter().position(|&i| self.touched[i as usize].memory > memory);
                self.sorted.insert(place.unwrap_or(self.sorted.len()), index as u32);
            }
        }
        let touched = &mut self.touched[index];
        if written && touched.written_from == u32::MAX {
            touched.written_from = node;
        }
        index as u32
    }

    /// As `touch`; a new one is added to the index, too.
    #[cold]
    fn find_among_many(&mut self, memory: *const ArrayInner) -> Option<usize> {
        if self.index.is_empty() {
            let all = self.touched.iter().enumerate();
            self.index = all.map(|(i, t)| (t.memory as usize, i as u32)).collect();
        }
        let next = self.touched.len() as u32;
        let index = *self.index.entry(memory as usize).or_insert(next);
        (index != next).then_some(index as usize)
    }

    /// The submission that was begun last is proved anew, even if its arrays are those of the last recording:
    /// its scalars say which elements it touches.
    pub fn prove_again(&mut self) {
        self.differs = true;
    }

    /// The extra properties of the submission that was begun last.
    pub fn extra(&mut self) -> &mut Extra {
        self.special = true;
        self.differs = true;
        let node = self.nodes[..self.live].last_mut().expect("a submission was begun");
        node.extra.get_or_insert_default()
    }

    /// Ends a submission: the order is made and everything is proved. Errors are kept for `exec`. True if it
    /// equals the old one.
    #[inline(always)]
    pub fn finish(&mut self, dims: impl IntoDims, runtime: &Runtime) -> bool {
        self.open = false;
        if self.comparing && !self.differs {
            let order = self.nodes[self.live - 1].order as usize;
            if dims.are(&self.orders[order].dims, &mut self.dims) {
                return true;
            }
        } else {
            self.dims.clear();
            dims.push_into(&mut self.dims);
        }
        self.finish_new(runtime);
        false
    }

    #[inline(never)]
    fn finish_new(&mut self, runtime: &Runtime) {
        if self.comparing {
            self.untie();
        }
        if let Err(error) = self.prove(runtime)
            && self.error.is_none()
        {
            self.error = Some(error);
        }
    }

    /// Makes the latest node one of this recording only.
    #[cold]
    fn untie(&mut self) {
        let live = self.live;
        self.truncate(live);
        self.untouch(live as u32 - 1);
        let node = &self.nodes[live - 1];
        let (first, count) = (node.first as usize, node.count as usize);
        self.bump.at = node.marks[1];
        self.args.truncate(first + count);
        self.sources.truncate(first + count);
        self.holds.truncate(first);
        self.holds.resize(first + count, Hold::BLANK);
        // SAFETY: plans live as long as the runtime.
        let plan = unsafe { &*node.plan };
        for (arg, template) in self.args[first..].iter_mut().zip(&plan.template) {
            *arg = Arg { data: arg.data, len: arg.len, ..*template };
        }
    }

    #[inline]
    fn prove(&mut self, runtime: &Runtime) -> Result<(), Error> {
        let last = self.live - 1;
        let (first, count) = (self.nodes[last].first as usize, self.nodes[last].count as usize);
        self.nodes[last].marks[1] = self.bump.at;
        self.nodes[last].footprint.take();
        self.nodes[last].alike.clear();
        let mut gaps = false;
        for i in first..first + count {
            let (kind, written) = (self.args[i].kind, self.args[i].access != abi::ACCESS_READ);
            gaps |= self.sources[i].seen.has_gaps();
            let memory = self.sources[i].memory;
            if !memory.is_null() {
                // SAFETY: the memory outlives the pipeline: borrowed for its lifetime, or owned by it.
                if written && unsafe { &*memory }.end_of_rows().is_some() {
                    // SAFETY: plans live as long as the runtime.
                    return Err(offsets_stay(unsafe { &*self.nodes[last].plan }, i - first));
                }
                self.holds[i].touched = self.touch(memory, written);
            } else if kind != abi::ARG_SCALAR {
                self.has_slices = true;
                self.slices_written |= written;
            }
        }
        let node = &self.nodes[last];
        if node.extra.is_none() && !runtime.attributes_for_backends && !gaps {
            // SAFETY: plans live as long as the runtime.
            let plan = unsafe { &*node.plan };
            if let ([Dim::Count(count)], true) = (&self.dims[..], plan.simple) {
                let count = *count;
                return self.prove_simple(plan, count);
            }
        }
        self.prove_any(runtime)
    }

    /// One dimension, a count; items along it without rows, as in almost every launch.
    #[inline]
    fn prove_simple(&mut self, plan: &Plan, count: u64) -> Result<(), Error> {
        let order = self.order(plan).map_err(|e| index_error(plan, e))?;
        let node = &mut self.nodes[self.live - 1];
        node.order = order as u32;
        let first = node.first as usize;
        let args = &mut self.args[first..];
        for (i, arg) in args.iter().enumerate().filter(|(_, arg)| arg.kind == abi::ARG_ITEM) {
            let source = &self.sources[first + i];
            // SAFETY: the memory outlives the pipeline: borrowed for its lifetime, or owned by it.
            let (memory, shape) = unsafe { (source.whole(), source.layout().extents) };
            if shape.len() > 1 {
                return Err(argument_error(plan, i, wrong_rank(1, false, shape)));
            }
            let len = shape.first().copied().unwrap_or(arg.len);
            if count > len {
                return Err(argument_error(plan, i, outside(count - 1, len, 1, 0)));
            }
            self.holds[first + i].complete = count == arg.len && memory.is_some();
        }
        disjoint(plan, args, |_, _| false)
    }

    /// Any dimensions, arguments and options.
    fn prove_any(&mut self, runtime: &Runtime) -> Result<(), Error> {
        let last = self.live - 1;
        let node = &mut self.nodes[last];
        if node.extra.is_some() || runtime.attributes_for_backends {
            extra::prepare(node, runtime)?;
            self.special = true;
        }
        // SAFETY: plans live as long as the runtime, or as the node.
        let plan: &Plan = unsafe { &*std::ptr::from_ref(self.nodes[last].plan()) };
        if let Err(error) = plan.target() {
            let saved = self.nodes[last].extra.as_ref().is_some_and(|e| e.failsafe.is_some())
                || plan.movement.is_some();
            if !saved || !matches!(error, Error::NoImplementation(_)) {
                return Err(error);
            }
        }
        let order = self.order(plan).map_err(|e| index_error(plan, e))?;
        self.nodes[last].order = order as u32;
        let order = &self.orders[order].order;
        let first = self.nodes[last].first as usize;
        if let Some(movement) = plan.movement {
            movement::check(movement, &self.args[first..], runtime.devices.len())
                .map_err(|(i, text)| argument_error(plan, i, text))?;
        }
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
            if spec.view == View::Scalar {
                continue;
            }
            let (arg, hold) = (&mut self.args[first + i], &mut self.holds[first + i]);
            let source = &self.sources[first + i];
            let given = sizes.and_then(|s| s.get(array)).map(|s| &s[..]).filter(|s| !s.is_empty());
            array += 1;
            // SAFETY: the memory outlives the pipeline: borrowed for its lifetime, or owned by it.
            let (memory, mut layout) = unsafe { (source.whole(), source.layout()) };
            if !layout.strides.is_empty() {
                prove_gaps(spec, &layout, given.is_some())
                    .and_then(|()| plan.takes_gaps(i))
                    .map_err(|text| argument_error(plan, i, text))?;
            } else if let Some(given) = given {
                layout = ArrayLayout::of(given);
                check_size(given, arg.len).map_err(|text| argument_error(plan, i, text))?;
            }
            let shape = layout.extents;
            // Kernels find neighbours along axes by it, and the end of the last tile.
            if spec.view == View::Window || !spec.tile.is_empty() {
                let all = [arg.len];
                let grid =
                    LaunchGrid::of_layout(&if shape.is_empty() { ArrayLayout::of(&all) } else { layout });
                arg.part = self.bump.put(grid.part(&grid.all()));
            }
            if matches!(spec.view, View::Item | View::Phased) {
                hold.complete = prove_item(order, &self.dims, spec, &layout, arg, &mut self.bump)
                    .map_err(|text| argument_error(plan, i, text))?
                    && memory.is_some();
            } else if spec.view == View::Whole {
                hold.complete = memory.is_some();
            }
            if spec.view == View::Reduce {
                prove_reduce(spec, arg).map_err(|text| argument_error(plan, i, text))?;
                hold.complete = memory.is_some();
            }
            if let Some(starts) = spec.rows {
                let at = first + starts;
                // SAFETY: the memory outlives the pipeline: borrowed for its lifetime, or owned by it.
                let memory = unsafe { self.sources[at].whole() };
                let starts = RowStarts { len: self.args[at].len, memory };
                prove_ragged(order, &self.dims, spec, &starts, (shape, self.args[first + i].len))
                    .map_err(|text| argument_error(plan, i, text))?;
            }
        }
        let (sources, args) = (&self.sources[first..], &self.args[first..]);
        let elements = |i: usize| {
            let of_copy = plan.movement.and_then(|movement| movement::elements(movement, args, i));
            of_copy.unwrap_or_else(|| sources[i].elements(&args[i]))
        };
        disjoint(plan, args, |i, j| {
            // SAFETY: memories outlive the pipeline: borrowed for its lifetime, or owned by it.
            let memory = unsafe { sources[i].memory.as_ref() };
            let memory = memory.filter(|_| std::ptr::eq(sources[i].memory, sources[j].memory));
            memory.is_some_and(|memory| {
                let [one, other] = [i, j].map(|i| elements(i).in_memory(memory, &args[i]));
                one.zip(other).is_some_and(|(one, other)| one.is_apart(&other))
            })
        })
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
            if ordered.plan == key && same(&ordered.dims, &self.dims) {
                return Ok(index);
            }
        }
        let index = self.orders_used;
        if index == self.orders.len() {
            self.orders.push(CachedOrder { dims: DimList::new(), plan: key, order: Order::default() });
        }
        let ordered = &mut self.orders[index];
        ordered.order.set(&self.dims, &traits)?;
        ordered.plan = key;
        ordered.dims.clone_from(&self.dims);
        self.orders_used += 1;
        Ok(index)
    }

    /// True if its arenas have grown large.
    pub fn is_long(&self) -> bool {
        self.nodes.capacity() > FEW_NODES
    }

    /// The submissions of this recording.
    #[inline]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes[..self.live]
    }

    /// The position of a node in the pipeline.
    #[inline]
    pub fn position_of(&self, node: &Node) -> usize {
        (std::ptr::from_ref(node).addr() - self.nodes().as_ptr().addr()) / size_of::<Node>()
    }

    /// The order of a submission.
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

    /// The shape of each argument of a submission, as the launch sees it: that of `sizes(..)`, else the
    /// view's, else the memory's. Empty: it has none, or is a scalar.
    pub fn layouts_of<'s>(&'s self, node: &'s Node) -> SmallVec<[ArrayLayout<'s>; 8]> {
        let mut sizes = node.extra.as_ref().and_then(|e| e.sizes.as_deref()).unwrap_or(&[]).iter();
        let arguments = node.plan().arguments.iter().zip(&self.sources[node.first as usize..]);
        let layout = |(spec, source): (&ArgumentFacts, &'s Source)| -> ArrayLayout<'s> {
            if spec.view == View::Scalar {
                return ArrayLayout::default();
            }
            match sizes.next().filter(|given| !given.is_empty()) {
                Some(given) => ArrayLayout::of(given),
                // SAFETY: the memory outlives the pipeline: borrowed for its lifetime, or owned by it.
                None => unsafe { source.layout() },
            }
        };
        arguments.map(layout).collect()
    }

    /// The number of launches of a submission on a device where its arrays have these residences, see
    /// [`AlikeOnDevice`].
    #[inline]
    pub fn number_of(&self, node: &Node, homes: &[u64]) -> u64 {
        let scalars = self.args_of(node).iter().filter(|arg| arg.kind == abi::ARG_SCALAR);
        node.alike.number(homes, scalars)
    }

    /// The footprint of a submission when it runs whole; `make` computes it the first time.
    #[inline]
    pub fn footprint_of<'s>(
        &self,
        node: &'s Node,
        make: impl FnOnce() -> Option<Arc<Footprint>>,
    ) -> Option<&'s Footprint> {
        node.footprint.get_or_init(make).as_deref()
    }

    /// True if some submission writes a memory.
    #[inline]
    pub fn is_written(&self, index: u32) -> bool {
        self.touched.get(index as usize).is_some_and(|touched| (touched.written_from as usize) < self.live)
    }

    /// Arguments of all submissions, the first one's first.
    #[inline]
    pub fn args(&self) -> &[Arg] {
        &self.args
    }

    /// The uses of memories by a submission's arguments.
    #[inline]
    pub fn holds_of(&self, node: &Node) -> &[Hold] {
        &self.holds[node.first as usize..][..node.count as usize]
    }

    /// True if argument `i` of a submission is a range of a memory.
    pub fn is_part(&self, node: &Node, i: usize) -> bool {
        self.sources[node.first as usize + i].part
    }

    /// The shape of argument `i` of a submission, if it is a view with one; else empty.
    #[cfg(feature = "recordings")]
    pub fn view_of(&self, node: &Node, i: usize) -> ArrayLayout<'_> {
        self.sources[node.first as usize + i].seen.layout()
    }

    /// The shape of argument `i` of a submission without `sizes(..)`, as the launch sees it.
    pub fn layout_of(&self, node: &Node, i: usize) -> ArrayLayout<'_> {
        // SAFETY: the memory outlives the pipeline: borrowed for its lifetime, or owned by it.
        unsafe { self.sources[node.first as usize + i].layout() }
    }

    /// The arguments that are slices of the host.
    pub fn slices(&self) -> impl Iterator<Item = &Arg> {
        self.nodes().iter().flat_map(|node| {
            let all = self.args_of(node).iter().zip(&self.sources[node.first as usize..]);
            let of_slices =
                all.filter(|(arg, source)| source.memory.is_null() && arg.kind != abi::ARG_SCALAR);
            of_slices.map(|(arg, _)| arg)
        })
    }

    /// True if the recording is one plain submission, and only its scalars can be new.
    #[inline]
    pub fn is_one(&self) -> bool {
        self.live == 1 && !self.special && !self.slices_written && self.error.is_none()
    }

    /// Number of memories that were ever touched.
    pub fn memories_touched(&self) -> usize {
        self.touched.len()
    }

    /// A memory by its index.
    #[inline]
    pub fn memory(&self, index: u32) -> Option<&ArrayInner> {
        // SAFETY: the memory outlives the pipeline: borrowed for its lifetime, or owned by it.
        self.touched.get(index as usize).map(|t| unsafe { &*t.memory })
    }

    /// The memories that submissions touch, in the order of addresses; with each its number, and whether some
    /// submission writes it.
    #[inline(always)]
    pub fn memories(&self) -> impl Iterator<Item = (u32, &ArrayInner, bool)> {
        let (live, touched) = (self.live as u32, &self.touched[..]);
        let sorted = if touched.len() > FEW { self.sort_many() } else { &self.sorted };
        sorted.iter().filter_map(move |&index| {
            let touched = &touched[index as usize];
            // SAFETY: as in `memory`: a live node touches it.
            (touched.first < live).then(|| (index, unsafe { &*touched.memory }, touched.written_from < live))
        })
    }

    #[cold]
    fn sort_many(&self) -> &[u32] {
        self.sorted_many.get_or_init(|| {
            let mut order: Box<[u32]> = (0..self.touched.len() as u32).collect();
            order.sort_unstable_by_key(|&i| self.touched[i as usize].memory as usize);
            order
        })
    }
}

#[cold]
fn offsets_stay(plan: &Plan, i: usize) -> Error {
    let text = "it is written, and the array has the offsets of rows, which never change: copy them to another array";
    argument_error(plan, i, text.to_owned())
}

/// Compares dimensions; quick for one count.
#[inline]
fn same(a: &[Dim], b: &[Dim]) -> bool {
    match (a, b) {
        ([Dim::Count(a)], [Dim::Count(b)]) => a == b,
        _ => a == b,
    }
}
