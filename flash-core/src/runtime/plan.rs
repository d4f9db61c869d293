//! What is prepared once per definition, element types and runtime.

use super::Runtime;
pub(crate) use super::choose::Target;
use super::choose::choose;
use super::facts::{ArgumentFacts, KernelFacts};
use super::partition::{Cache, PartRule};
use crate::abi;
use crate::backend::DeviceHandle;
use crate::descriptor::{
    self, Access, ArgumentDescriptor, Attributes, KernelDescriptor, Subspaces, View, Weights,
};
use crate::error::{Code, Error};
use crate::kernel::KernelDefinition;
use crate::kernel::views::Operation;
use std::any::TypeId;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};

/// A kernel, ready for a runtime: its [facts](KernelFacts), and what each device runs.
pub(crate) struct Plan {
    type_id: Option<TypeId>,
    facts: KernelFacts,
    /// The arguments of a launch, but for addresses and lengths.
    pub template: Vec<abi::Arg>,
    /// It can run, has one dimension without traits, and items along it without rows.
    pub simple: bool,
    /// Arguments need second buffers, room for partial results, or wider scalars, at every launch.
    pub prepared: bool,
    pub writes: bool,
    /// How its launches are cut.
    pub part: PartRule,
    /// Launches that were cut.
    pub parts: Cache,
    /// Its launches are to be cut: the definition or an option says so, and every implementation can be.
    pub cut: bool,
    /// Shares of the devices, if they are fixed; one per target.
    pub weights: Option<Vec<f64>>,
    /// Into so many parts at least.
    pub subspaces: u32,
    /// Nobody has said into how many parts a launch is cut, and all implementations take parts: one that does not fit a
    /// device's memory may be cut into more.
    pub may_stream: bool,
    /// Launches are cut at multiples of so many positions: what all implementations want.
    pub alignment: u64,
    /// Some implementation is called once per phase: with all of its arrays, or with parts without gaps.
    pub whole: bool,
    targets: Result<Vec<Target>, Error>,
}

impl Deref for Plan {
    type Target = KernelFacts;

    #[inline]
    fn deref(&self) -> &KernelFacts {
        &self.facts
    }
}

impl Plan {
    /// The definition, if it has a type.
    pub fn type_id(&self) -> Option<TypeId> {
        self.type_id
    }

    /// Where it can run, the best device first and at least one; or why nowhere.
    #[inline]
    pub fn targets(&self) -> Result<&[Target], Error> {
        match &self.targets {
            Ok(targets) => Ok(targets),
            Err(error) => Err(error.clone()),
        }
    }

    /// The best of [`targets`](Self::targets).
    #[inline]
    pub fn target(&self) -> Result<&Target, Error> {
        self.targets().map(|targets| &targets[0])
    }

    pub(super) fn new(
        type_id: Option<TypeId>,
        descriptor: KernelDescriptor,
        operations: &[Option<Operation>],
        devices: &[&'static DeviceHandle],
        attributes: &Attributes,
    ) -> Result<Plan, Error> {
        let mut all = descriptor.attributes.clone();
        all.merge(attributes);
        let facts = KernelFacts::new(descriptor, operations, &all)?;
        let part = PartRule::new(&facts.descriptor, all.get::<descriptor::PartBy>())?;
        let targets = match facts.unknown_operation() {
            Some(error) => Err(error),
            None => choose(&facts.descriptor, devices, &all),
        };
        let weights = match (all.get::<Weights>(), &targets) {
            (Some(Weights(weights)), Ok(targets)) => Some(check_weights(weights, targets)?),
            _ => None,
        };
        let subspaces = all.get::<Subspaces>().map_or(1, |n| n.0);
        let simple = targets.is_ok()
            && facts.descriptor.dimensions.len() == 1
            && facts.sort.is_empty()
            && facts.group.is_none()
            && facts.arguments.iter().all(|a| match a.view {
                View::Scalar | View::Whole | View::Scatter => true,
                View::Item => !a.row && a.along[..] == [0],
                View::Phased | View::Window | View::Reduce => false,
            });
        let widens = targets.as_ref().is_ok_and(|targets| targets.iter().any(|t| t.widening.converts()));
        Ok(Plan {
            type_id,
            template: facts.arguments.iter().map(template).collect(),
            simple,
            prepared: facts.phased || facts.reduces || widens,
            writes: facts.arguments.iter().any(|a| a.access == Access::Write && a.view == View::Item),
            part,
            parts: Cache::default(),
            cut: (all.get::<descriptor::PartBy>().is_some() || weights.is_some() || subspaces > 1)
                && targets.as_ref().is_ok_and(|targets| targets.iter().all(|t| t.parts)),
            weights,
            subspaces,
            alignment: targets.as_ref().map_or(1, |targets| common_multiple(targets)),
            may_stream: all.get::<Subspaces>().is_none()
                && targets.as_ref().is_ok_and(|targets| targets.iter().all(|t| t.parts)),
            whole: targets.as_ref().is_ok_and(|targets| targets.iter().any(|t| t.whole)),
            targets,
            facts,
        })
    }

    /// True if it failed for want of memory: the next launch tries again.
    fn is_passing(&self) -> bool {
        matches!(self.targets, Err(Error::Backend { code: Code::OutOfMemory, .. }))
    }

    /// Its launches on one device need nothing but their arguments: no second buffers, no partial results, no
    /// wider scalars, no cut, and no map that looks into arrays.
    #[inline]
    pub fn runs_simply(&self) -> bool {
        !self.prepared && self.subspaces <= 1 && !self.part.looks_inside()
    }

    /// Of a function of the host: nothing implements it, its submission has the function.
    pub fn of_host_task(descriptor: KernelDescriptor) -> Plan {
        Plan::new(None, descriptor, &[], &[], &Attributes::default())
            .unwrap_or_else(|_| unreachable!("without attributes there is nothing to refuse"))
    }

    /// The same kernel with options of one submission.
    pub fn with_options(
        &self,
        devices: &[&'static DeviceHandle],
        attributes: &Attributes,
    ) -> Result<Plan, Error> {
        let operations: Vec<_> = self.arguments.iter().map(|a| a.operation).collect();
        Plan::new(None, self.descriptor.clone(), &operations, devices, attributes)
    }
}

/// Shares of devices, if they are such.
fn check_weights(weights: &[f64], targets: &[Target]) -> Result<Vec<f64>, Error> {
    let error = |text: String| Err(Error::Option { option: "Weights".into(), text });
    if weights.len() != targets.len() {
        let ids: Vec<&str> = targets.iter().map(|t| t.device.id()).collect();
        return error(format!(
            "expected one weight per device that runs the kernel ({}), found {}",
            ids.join(", "),
            weights.len()
        ));
    }
    let bad = weights.iter().find(|w| !w.is_finite() || **w < 0.0);
    match bad {
        Some(bad) => error(format!("expected numbers from 0 on, found {bad}")),
        None if weights.iter().all(|w| *w == 0.0) => {
            error("all are 0: give some device something to do".into())
        }
        None => Ok(weights.to_vec()),
    }
}

/// Along one dimension without a shape.
static UNIT_STRIDE: [u64; 1] = [1];

fn template(argument: &ArgumentFacts) -> abi::Arg {
    let item = matches!(argument.view, View::Item | View::Phased);
    abi::Arg {
        kind: argument.view.code(),
        access: argument.access.code(),
        space: abi::SPACE_HOST,
        element_size: argument.element_size,
        data: std::ptr::null_mut(),
        next: std::ptr::null_mut(),
        buffer: 0,
        len: 0,
        row_len: 1,
        flags: 0,
        strides: if item { UNIT_STRIDE.as_ptr() } else { std::ptr::null() },
        part: std::ptr::null(),
    }
}

/// Plans by definition: an open-addressed table that is read without a lock.
pub(crate) struct Plans {
    table: [AtomicPtr<Plan>; 128],
    /// Writers, and what the table has no room for.
    rest: Mutex<HashMap<TypeId, Box<Plan>>>,
    /// Of kernels by name, by their descriptors.
    named: Mutex<HashMap<String, Box<Plan>>>,
    /// With options of single submissions, the latest first.
    optioned: Mutex<Vec<PlanWithOptions>>,
    /// Nobody finds these again: memory was short when they were made. Pipelines have their addresses.
    #[allow(clippy::vec_box)]
    passing: Mutex<Vec<Box<Plan>>>,
}

impl Default for Plans {
    fn default() -> Plans {
        Plans {
            table: [const { AtomicPtr::new(std::ptr::null_mut()) }; 128],
            rest: Mutex::default(),
            named: Mutex::default(),
            optioned: Mutex::default(),
            passing: Mutex::default(),
        }
    }
}

/// A plan with options of a submission, and all that it was made of. (A condition on devices is in what it left.)
struct PlanWithOptions {
    definition: TypeId,
    devices: Vec<&'static DeviceHandle>,
    attributes: Attributes,
    plan: Arc<Plan>,
}

/// As many of those are kept.
const OPTIONED: usize = 32;

impl PlanWithOptions {
    fn is_of(&self, definition: TypeId, devices: &[&'static DeviceHandle], attributes: &Attributes) -> bool {
        let same = |(a, b): (&&DeviceHandle, &&DeviceHandle)| std::ptr::eq(*a, *b);
        self.definition == definition
            && self.devices.len() == devices.len()
            && self.devices.iter().zip(devices).all(same)
            && self.attributes == *attributes
    }
}

impl Drop for Plans {
    fn drop(&mut self) {
        for slot in &mut self.table {
            let plan = *slot.get_mut();
            if !plan.is_null() {
                // SAFETY: put there by `insert`, from a Box.
                drop(unsafe { Box::from_raw(plan) });
            }
        }
    }
}

/// A `TypeId` is a hash already: takes the number that it gives.
#[derive(Default)]
struct TypeIdHasher(u64);

impl Hasher for TypeIdHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |a, &b| a << 8 | u64::from(b));
    }
    #[inline]
    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}

impl Plans {
    #[inline]
    fn start(&self, id: TypeId) -> usize {
        let mut given = TypeIdHasher::default();
        id.hash(&mut given);
        given.finish() as usize % self.table.len()
    }

    #[inline]
    fn get(&self, id: TypeId) -> Option<&Plan> {
        let start = self.start(id);
        for i in 0..self.table.len() {
            let slot = &self.table[(start + i) % self.table.len()];
            // SAFETY: plans in the table live as long as the table.
            let plan = unsafe { slot.load(Ordering::Acquire).as_ref() }?;
            if plan.type_id == Some(id) {
                return Some(plan);
            }
        }
        None
    }

    #[cold]
    fn insert(&self, id: TypeId, make: impl FnOnce() -> Plan) -> &Plan {
        let mut rest = self.rest.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(plan) = self.get(id) {
            return plan;
        }
        if let Some(plan) = rest.get(&id) {
            let plan: *const Plan = &raw const **plan;
            // SAFETY: as below.
            return unsafe { &*plan };
        }
        let made = Box::new(make());
        if made.is_passing() {
            return self.keep_passing(made);
        }
        let start = self.start(id);
        let free = (0..self.table.len())
            .map(|i| &self.table[(start + i) % self.table.len()])
            .find(|slot| slot.load(Ordering::Relaxed).is_null());
        let plan: *mut Plan = match free {
            Some(slot) => {
                let plan = Box::into_raw(made);
                slot.store(plan, Ordering::Release);
                plan
            }
            None => &raw mut **rest.entry(id).or_insert(made),
        };
        // SAFETY: plans are boxed and live as long as the table.
        unsafe { &*plan }
    }

    /// Keeps a plan for the pipelines that have it.
    fn keep_passing(&self, mut plan: Box<Plan>) -> &Plan {
        plan.type_id = None;
        let kept: *const Plan = &raw const *plan;
        self.passing.lock().unwrap_or_else(|e| e.into_inner()).push(plan);
        // SAFETY: plans are boxed, never removed, and live as long as the table.
        unsafe { &*kept }
    }
}

impl Runtime {
    /// The plan of a definition.
    #[inline]
    pub fn plan_of<D: KernelDefinition>(&self) -> &Plan {
        let id = TypeId::of::<D::Static>();
        match self.plans.get(id) {
            Some(plan) => plan,
            None => self
                .plans
                .insert(id, || self.plan_for(Some(id), KernelDescriptor::of::<D>(), &operations_of::<D>())),
        }
    }

    /// The plan of a kernel by name.
    pub fn plan_named(&self, descriptor: &KernelDescriptor) -> &Plan {
        let mut named = self.plans.named.lock().unwrap_or_else(|e| e.into_inner());
        let key = descriptor.to_json();
        if let Some(plan) = named.get(&key) {
            let plan: *const Plan = &raw const **plan;
            // SAFETY: as below.
            return unsafe { &*plan };
        }
        let made = Box::new(self.plan_for(None, descriptor.clone(), &named_operations(descriptor)));
        if made.is_passing() {
            return self.plans.keep_passing(made);
        }
        let plan: *const Plan = &raw const **named.entry(key).or_insert(made);
        // SAFETY: plans are boxed, never removed, and live as long as the table.
        unsafe { &*plan }
    }

    /// A plan with the options of one submission: that of an earlier one, if they were the same. Code in a file may be
    /// another the next time, and what has failed may go well: such plans are made anew.
    pub fn plan_with(
        &self,
        plan: &Plan,
        devices: Vec<&'static DeviceHandle>,
        attributes: &Attributes,
    ) -> Result<Arc<Plan>, Error> {
        let in_file = matches!(attributes.get(), Some(descriptor::Implementation::File { .. }));
        let Some(definition) = plan.type_id.filter(|_| !in_file) else {
            return plan.with_options(&devices, attributes).map(Arc::new);
        };
        let lock = || self.plans.optioned.lock().unwrap_or_else(|e| e.into_inner());
        let known = |plans: &mut Vec<PlanWithOptions>| {
            let at = plans.iter().position(|known| known.is_of(definition, &devices, attributes))?;
            plans[..=at].rotate_right(1);
            Some(plans[0].plan.clone())
        };
        if let Some(known) = known(&mut lock()) {
            return Ok(known);
        }
        // Without the lock: preparing an implementation may take long.
        let made = Arc::new(plan.with_options(&devices, attributes)?);
        if made.targets.is_ok() {
            let mut plans = lock();
            // Another thread may have made it meanwhile: what is measured and kept with a plan is for all.
            if let Some(known) = known(&mut plans) {
                return Ok(known);
            }
            plans.truncate(OPTIONED - 1);
            let (attributes, plan) = (attributes.clone(), made.clone());
            plans.insert(0, PlanWithOptions { definition, devices, attributes, plan });
        }
        Ok(made)
    }

    /// A plan of a descriptor.
    fn plan_for(
        &self,
        id: Option<TypeId>,
        descriptor: KernelDescriptor,
        operations: &[Option<Operation>],
    ) -> Plan {
        let blank = Attributes::default();
        let plan = Plan::new(id, descriptor.clone(), operations, &self.devices, &self.options.attributes);
        plan.unwrap_or_else(|error| {
            let descriptor = KernelDescriptor { attributes: blank.clone(), ..descriptor };
            let mut plan = Plan::new(id, descriptor, operations, &[], &blank)
                .unwrap_or_else(|_| unreachable!("without attributes there is nothing to refuse"));
            plan.targets = Err(error);
            plan
        })
    }
}

/// On multiples of which all implementations can be cut; more than there ever are, if no number is.
fn common_multiple(targets: &[Target]) -> u64 {
    targets.iter().map(|target| target.alignment).fold(1, multiple_of_both)
}

/// The least common multiple of two numbers above 0, if there is such a number.
pub(super) fn multiple_of_both(a: u64, b: u64) -> u64 {
    let (mut divisor, mut rest) = (a, b);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    (a / divisor).saturating_mul(b)
}

/// Per argument, the operation of an accumulator.
fn operations_of<D: KernelDefinition>() -> Vec<Option<Operation>> {
    let mut operations = vec![None; D::REDUCES.last().map_or(0, |last| last + 1)];
    for (&argument, operation) in D::REDUCES.iter().zip(D::operations()) {
        operations[argument] = Some(operation);
    }
    operations
}

/// The same where only names are known.
fn named_operations(descriptor: &KernelDescriptor) -> Vec<Option<Operation>> {
    let operation = |a: &ArgumentDescriptor| Operation::named(&a.reduce.as_ref()?.operation, &a.element.name);
    descriptor.arguments.iter().map(operation).collect()
}
