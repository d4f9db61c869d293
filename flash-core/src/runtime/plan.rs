//! A plan: what is prepared once per definition, element types, devices and the options that shape it.
//! `plans.rs` finds it again.

pub(crate) use super::choose::Target;
use super::choose::{choose, none};
use super::facts::{ArgumentFacts, KernelFacts};
use super::movement::Movement;
use super::partition::{Cache, PartRule};
use super::proof::COPY;
use crate::devices::DeviceHandle;
use crate::devices::catalog::Catalog;
use crate::error::Error;
use crate::kernel::views::Operation;
use crate::kernel::{ContentsCheck, KernelDefinition, OwnImplementation, operation_of};
use crate::memory::region::common_divisor;
use flash_types::Code;
use flash_types::abi;
use flash_types::descriptor::{self, Attributes, KernelDescriptor, OnCaller, Subspaces, View, Weights};
use std::any::TypeId;
use std::ops::Deref;
use std::sync::Arc;

/// The parts of a launch on one device where `check_maps` is set: the first, the last, and one between them.
const CHECKED_PARTS: u32 = 3;

/// A kernel prepared for a runtime: its [facts](KernelFacts), and the implementation of each device.
pub(crate) struct Plan {
    type_id: Option<TypeId>,
    facts: KernelFacts,
    /// The arguments of a launch, without addresses and lengths.
    pub template: Vec<abi::Arg>,
    /// It can run, has one dimension without traits, and items along it without rows.
    pub simple: bool,
    /// Arguments need second buffers, room for partial results, wider scalars, or a check, at every launch.
    pub prepared: bool,
    /// The check of its arguments' contents, where `check_bounds` is set.
    pub check: Option<&'static ContentsCheck>,
    /// It has arguments that the setting `check_writes` looks at.
    pub writes: bool,
    /// The rule by which its launches are cut.
    pub part: PartRule,
    /// Cuts of earlier launches.
    pub parts: Cache,
    /// Its launches are to be cut: the definition or an option requests it, and every implementation allows
    /// it.
    pub cut: bool,
    /// Shares of the devices, if they are fixed; one per target.
    pub weights: Option<Vec<f64>>,
    /// The least number of parts.
    pub subspaces: u32,
    /// `SUBMIT_*` flags of its launches.
    pub flags: u32,
    /// No number of parts is requested, and all implementations take parts: a launch that does not fit a
    /// device's memory may be cut into more.
    pub may_stream: bool,
    /// The multiple of positions at which launches are cut, for all implementations.
    pub alignment: u64,
    /// Some implementation is called once per phase: with all of its arrays, or with parts without gaps.
    pub whole: bool,
    /// It moves elements, and the runtime does that itself.
    pub movement: Option<Movement>,
    targets: Result<Arc<[Target]>, Error>,
    own: Option<OwnImplementation>,
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

    /// The devices that can run it, the best first and at least one; or the error why none can.
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

    /// Whether a view with gaps can be argument `i`, an item or a window: on all devices.
    ///
    /// # Errors
    /// What takes adjacent elements only.
    pub fn takes_gaps(&self, i: usize) -> Result<(), String> {
        let argument = &self.descriptor.arguments[i];
        if self.check.is_some_and(|check| check.reads(&argument.name)) {
            return Err(format!(
                "it is a view with gaps, and the check of its contents sees adjacent elements only: {COPY}"
            ));
        }
        let targets = self.targets().map_err(|_| {
            format!("it is a view with gaps, and a failsafe gets adjacent elements only: {COPY}")
        })?;
        let is_window = argument.view == View::Window;
        let takes = |target: &Target| if is_window { target.axes } else { target.strides };
        let Some(target) = targets.iter().find(|target| !takes(target)) else { return Ok(()) };
        let (what, or) = match is_window {
            true => (
                "may count the elements of a `Window`",
                "write it as `#[kernel(devices)]` and use `at`, `begin` and `end` of the window alone",
            ),
            false => ("takes adjacent elements only", "ask for another implementation"),
        };
        Err(format!(
            "it is a view with gaps, and the implementation `{}`, which {} runs, {what}: {COPY}, or {or}",
            target.implementation,
            target.device.id()
        ))
    }

    /// A plan of a kernel with options. `targets` gives its prepared implementations.
    pub(super) fn new(
        kernel: PlannedKernel<'_>,
        attributes: &Attributes,
        targets: impl FnOnce(&KernelFacts, &Attributes) -> Result<Arc<[Target]>, Error>,
    ) -> Result<Plan, Error> {
        let PlannedKernel { type_id, descriptor, operations, own } = kernel;
        let mut all = descriptor.attributes.clone();
        all.merge(attributes);
        let facts = KernelFacts::new(descriptor.clone(), operations, &all)?;
        let movement =
            Movement::named(&facts.descriptor.name).filter(|movement| movement.describes(&facts.descriptor));
        // A definition with a type may have this name, too: its scalars are not proved each time.
        let movement = movement.filter(|_| type_id.is_none());
        let part = PartRule::new(
            &facts.descriptor,
            all.get::<descriptor::PartBy>(),
            attributes.get::<descriptor::PartBy>().is_some(),
        )?;
        let targets = targets(&facts, &all);
        let weights = match (all.get::<Weights>(), &targets) {
            (Some(Weights(weights)), Ok(targets)) => Some(check_weights(weights, targets)?),
            _ => None,
        };
        let subspaces = match all.get::<Subspaces>() {
            Some(Subspaces(0)) => {
                let text = "expected at least 1, found 0: leave the option out, or name a number".to_owned();
                return Err(Error::Option { option: "Subspaces".into(), text });
            }
            Some(Subspaces(least)) => *least,
            None => 1,
        };
        let simple = targets.is_ok()
            && facts.descriptor.dimensions.len() == 1
            && facts.sort.is_empty()
            && facts.group.is_none()
            && facts.arguments.iter().all(|a| match a.view {
                View::Scalar | View::Whole => true,
                View::Scatter => a.rows.is_none(),
                View::Item => !a.row && a.tile.is_empty() && a.along[..] == [0],
                View::Phased | View::Window | View::Reduce => false,
            });
        let widens = targets.as_ref().is_ok_and(|targets| targets.iter().any(|t| t.widening.converts()));
        Ok(Plan {
            type_id,
            template: facts.arguments.iter().map(template).collect(),
            simple,
            prepared: facts.phased || facts.reduces || widens,
            check: None,
            writes: facts.arguments.iter().any(ArgumentFacts::is_checked),
            part,
            parts: Cache::default(),
            cut: (all.get::<descriptor::PartBy>().is_some() || weights.is_some() || subspaces > 1)
                && targets.as_ref().is_ok_and(|targets| targets.iter().all(|t| t.parts)),
            weights,
            subspaces,
            flags: if facts.phased { abi::SUBMIT_PHASED } else { 0 }
                | if all.get::<OnCaller>().is_some() { abi::SUBMIT_ON_CALLER } else { 0 },
            alignment: targets.as_ref().map_or(1, |targets| common_multiple(targets)),
            may_stream: all.get::<Subspaces>().is_none()
                && targets.as_ref().is_ok_and(|targets| targets.iter().all(|t| t.parts)),
            whole: targets.as_ref().is_ok_and(|targets| targets.iter().any(|t| t.whole)),
            movement,
            targets,
            own,
            facts,
        })
    }

    /// A plan that fails with an error.
    pub(super) fn failed(kernel: PlannedKernel<'_>, error: Error) -> Plan {
        let descriptor = KernelDescriptor { attributes: Attributes::default(), ..kernel.descriptor.clone() };
        let kernel = PlannedKernel { descriptor: &descriptor, ..kernel };
        Plan::new(kernel, &Attributes::default(), |_, _| Err(error))
            .unwrap_or_else(|_| unreachable!("without attributes there is nothing to refuse"))
    }

    /// The kernel that it is of. `operations` is empty, and holds what the result borrows.
    pub(super) fn kernel<'a>(&'a self, operations: &'a mut Vec<Option<Operation>>) -> PlannedKernel<'a> {
        operations.extend(self.arguments.iter().map(|argument| argument.operation));
        PlannedKernel { type_id: self.type_id, descriptor: &self.descriptor, operations, own: self.own }
    }

    /// Its implementations, for a plan of the same kernel with other options.
    pub(super) fn shared_targets(&self) -> Result<Arc<[Target]>, Error> {
        self.targets.clone()
    }

    /// Its launches are checked as `check_bounds` asks.
    pub(super) fn check_contents(&mut self) {
        self.check = ContentsCheck::find(&self.descriptor);
        self.prepared |= self.check.is_some();
    }

    /// Its launches are cut as `check_maps` asks: also on one device.
    pub(super) fn check_maps(&mut self) {
        if self.cut && self.targets.as_ref().is_ok_and(|targets| targets.len() == 1) {
            self.subspaces = self.subspaces.max(CHECKED_PARTS);
        }
    }

    /// Later launches do not find it by its definition.
    pub(super) fn hide(&mut self) {
        self.type_id = None;
    }

    /// True if it failed for want of memory, or since a device went while it was made: the next launch tries
    /// again.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self.failure(), Some(Code::OutOfMemory | Code::DeviceLost))
    }

    /// True if both are of one kernel and failed in the same way.
    pub(super) fn fails_as(&self, other: &Plan) -> bool {
        self.failure() == other.failure() && self.descriptor == other.descriptor
    }

    /// How a backend or a device has failed.
    fn failure(&self) -> Option<Code> {
        match self.targets {
            Err(Error::Backend { code, .. }) => Some(code),
            _ => None,
        }
    }

    /// Its launches on one device need nothing but their arguments: no second buffers, no partial results, no
    /// wider scalars, no check, no cut, and no map that looks into arrays.
    #[inline]
    pub fn runs_simply(&self) -> bool {
        !self.prepared && self.subspaces <= 1 && !self.part.looks_inside()
    }

    /// A plan of a function of the host: nothing implements it, its submission has the function.
    pub fn of_host_task(descriptor: KernelDescriptor) -> Plan {
        let nothing = none(&descriptor, &[], Vec::new());
        Plan::failed(
            PlannedKernel { type_id: None, descriptor: &descriptor, operations: &[], own: None },
            nothing,
        )
    }
}

/// A kernel to be planned.
#[derive(Clone, Copy)]
pub(super) struct PlannedKernel<'a> {
    /// The definition, if it has a type.
    pub type_id: Option<TypeId>,
    pub descriptor: &'a KernelDescriptor,
    /// Per argument, the operation of an accumulator; the last ones may be missing.
    pub operations: &'a [Option<Operation>],
    /// The implementation that its definition has of itself.
    pub own: Option<OwnImplementation>,
}

/// The implementations of a kernel for some devices, ready to run.
pub(super) fn targets_of(
    facts: &KernelFacts,
    own: Option<OwnImplementation>,
    attributes: &Attributes,
    devices: &[&'static DeviceHandle],
    catalog: &Catalog,
) -> Result<Arc<[Target]>, Error> {
    match facts.unknown_operation() {
        Some(error) => Err(error),
        None => choose(&facts.descriptor, own, devices, attributes, catalog).map(Arc::from),
    }
}

/// The shares of devices, if they are valid.
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

/// The least common multiple of all implementations' alignments; if it overflows, a number larger than any
/// extent.
fn common_multiple(targets: &[Target]) -> u64 {
    targets.iter().map(|target| target.alignment).fold(1, multiple_of_both)
}

/// The least common multiple of two numbers above 0, if it does not overflow.
pub(super) fn multiple_of_both(a: u64, b: u64) -> u64 {
    (a / common_divisor(a, b)).saturating_mul(b)
}

/// Per argument, the operation of an accumulator.
pub(super) fn operations_of<D: KernelDefinition>() -> Vec<Option<Operation>> {
    let mut operations = vec![None; D::REDUCES.last().map_or(0, |last| last + 1)];
    for (&argument, operation) in D::REDUCES.iter().zip(D::operations()) {
        operations[argument] = Some(operation);
    }
    operations
}

/// The same where only the descriptor is known.
pub(super) fn named_operations(descriptor: &KernelDescriptor) -> Vec<Option<Operation>> {
    let arguments = descriptor.arguments.iter().enumerate();
    arguments.map(|(position, argument)| operation_of(&descriptor.name, position, argument)).collect()
}
