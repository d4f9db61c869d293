//! The tables of plans.
//!
//! A table has the plans of one list of devices and one set of the options that shape a plan. Runtimes and
//! submissions that agree in both share a table, so that another option (a profile, a timeout, a priority)
//! costs no plan. Options that only define how a launch is cut or ordered prepare no implementation: a table
//! with such options has a `base`, the table without them, and takes the implementations of its plans.
//!
//! A plan does not move while its table lives. The tables of a context are in [`PlanTables`], which keeps
//! those that are in use and a few more.

use super::facts::KernelFacts;
use super::plan::{Plan, PlannedKernel, targets_of};
use crate::devices::catalog::Catalog;
use crate::devices::{DeviceHandle, extension};
use crate::error::Error;
use crate::memory::watch_forks;
use flash_backend::fork::Section;
use flash_types::descriptor::{Attributes, Implementation};
use std::any::TypeId;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The plans of a list of devices and a set of options. A lookup by definition takes no lock: the table is
/// open-addressed.
pub(crate) struct Plans {
    devices: Vec<&'static DeviceHandle>,
    /// Those of which a plan is made.
    options: Attributes,
    /// The table of the same devices, with only the options that choose implementations; `None`: it is this
    /// one.
    base: Option<Arc<Plans>>,
    /// What implementations there were, see [`extension::generation`].
    generation: u64,
    table: [AtomicPtr<Plan>; 128],
    /// Held by writers; has the plans that do not fit into the table.
    rest: Mutex<HashMap<TypeId, Box<Plan>>>,
    /// Plans of kernels by name, by their descriptors.
    named: Mutex<HashMap<String, Box<Plan>>>,
    /// Plans that later launches do not find: what failed may be well when they try. Pipelines have their
    /// addresses.
    passing: Mutex<Vec<Arc<Plan>>>,
    /// Some plan has failed. It stays for the users of this table; later ones get another table, and try
    /// again.
    failed: AtomicBool,
}

/// A plan with the options of a submission, and the table that it is in.
pub(super) struct OwnPlan {
    plan: NonNull<Plan>,
    _table: Arc<Plans>,
}

// SAFETY: a shared reference to a plan, which is Send + Sync, and what keeps it alive.
unsafe impl Send for OwnPlan {}
// SAFETY: as above.
unsafe impl Sync for OwnPlan {}

impl OwnPlan {
    /// The plan of a kernel in a table.
    pub fn new(table: Arc<Plans>, kernel: PlannedKernel<'_>, catalog: &Catalog) -> OwnPlan {
        OwnPlan { plan: NonNull::from(table.plan(kernel, catalog)), _table: table }
    }
}

impl Deref for OwnPlan {
    type Target = Plan;

    #[inline]
    fn deref(&self) -> &Plan {
        // SAFETY: a plan does not move while its table lives, which is kept beside it.
        unsafe { self.plan.as_ref() }
    }
}

/// The tables of plans of a catalog, the latest found first.
#[derive(Default)]
pub(super) struct PlanTables(Mutex<Vec<Arc<Plans>>>);

/// At most this many tables are kept, beside those in use.
const KEPT: usize = 32;

/// This many plans of a kernel that failed in one way are kept, with what their errors say.
const PASSING: usize = 16;

impl PlanTables {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Plans>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table of some devices with some options. One with code in a file is made anew each time: the file
    /// may have changed.
    pub fn of(&self, devices: &[&'static DeviceHandle], options: &Attributes) -> Arc<Plans> {
        if let Some(Implementation::File { .. }) = options.get() {
            return Arc::new(Plans::new(devices, options.of_plans(), None));
        }
        let Ok(_section) = Section::enter() else {
            return Arc::new(Plans::new(devices, options.of_plans(), None));
        };
        if let Some(known) = known(&mut self.lock(), devices, options) {
            return known;
        }
        let (shaping, choosing) = (options.of_plans(), options.that_choose());
        let base = (shaping != choosing).then(|| self.of(devices, &choosing));
        let made = Arc::new(Plans::new(devices, shaping, base));
        let mut tables = self.lock();
        // Another thread may have made it meanwhile.
        if let Some(known) = known(&mut tables, devices, options) {
            return known;
        }
        tables.insert(0, made.clone());
        let unused = (KEPT..tables.len()).rev().find(|&at| Arc::strong_count(&tables[at]) == 1);
        let dropped = unused.map(|at| tables.remove(at));
        drop(tables);
        // Without the lock: it releases kernels to their backends.
        drop(dropped);
        made
    }
}

/// The existing table, if there is one. One in which a plan has failed is left to its users.
fn known(
    tables: &mut Vec<Arc<Plans>>,
    devices: &[&'static DeviceHandle],
    options: &Attributes,
) -> Option<Arc<Plans>> {
    let is_current = |table: &Plans| table.generation == extension::generation();
    let at = tables.iter().position(|table| is_current(table) && table.is_of(devices, options))?;
    if tables[at].failed.load(Ordering::Relaxed) {
        tables.remove(at);
        return None;
    }
    tables[..=at].rotate_right(1);
    Some(tables[0].clone())
}

/// The plan of a kernel in a child of `fork` that cannot make one. It stays as long as the process.
#[cold]
fn left_out(kernel: PlannedKernel<'_>, error: Error) -> &'static Plan {
    Box::leak(Box::new(Plan::failed(kernel, error)))
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

/// A hasher for a `TypeId`, which is a hash already: returns the number that it gets.
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
    fn new(devices: &[&'static DeviceHandle], options: Attributes, base: Option<Arc<Plans>>) -> Plans {
        Plans {
            devices: devices.to_vec(),
            options,
            base,
            generation: extension::generation(),
            table: [const { AtomicPtr::new(std::ptr::null_mut()) }; 128],
            rest: Mutex::default(),
            named: Mutex::default(),
            passing: Mutex::default(),
            failed: AtomicBool::new(false),
        }
    }

    /// True if it is the table of these devices with these options.
    pub fn is_of(&self, devices: &[&'static DeviceHandle], options: &Attributes) -> bool {
        let same = |(a, b): (&&DeviceHandle, &&DeviceHandle)| std::ptr::eq(*a, *b);
        self.devices.len() == devices.len()
            && self.devices.iter().zip(devices).all(same)
            && self.options.are_of_plans_in(options)
    }

    #[inline]
    fn start(&self, id: TypeId) -> usize {
        let mut given = TypeIdHasher::default();
        id.hash(&mut given);
        given.finish() as usize % self.table.len()
    }

    #[inline]
    pub fn get(&self, id: TypeId) -> Option<&Plan> {
        let start = self.start(id);
        for i in 0..self.table.len() {
            let slot = &self.table[(start + i) % self.table.len()];
            // SAFETY: plans in the table live as long as the table.
            let plan = unsafe { slot.load(Ordering::Acquire).as_ref() }?;
            if plan.type_id() == Some(id) {
                return Some(plan);
            }
        }
        None
    }

    /// The plan of a kernel, by its definition or its name.
    pub(super) fn plan(&self, kernel: PlannedKernel<'_>, catalog: &Catalog) -> &Plan {
        match kernel.type_id {
            Some(id) => self.get(id).unwrap_or_else(|| self.insert(id, kernel, catalog)),
            None => self.by_name(kernel, catalog),
        }
    }

    #[cold]
    fn insert(&self, id: TypeId, kernel: PlannedKernel<'_>, catalog: &Catalog) -> &Plan {
        watch_forks();
        let _section = match Section::enter() {
            Ok(section) => section,
            Err(error) => return left_out(kernel, error.into()),
        };
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = self.get(id) {
            return plan;
        }
        if let Some(plan) = rest.get(&id) {
            let plan: *const Plan = &raw const **plan;
            // SAFETY: as below.
            return unsafe { &*plan };
        }
        let made = Box::new(self.make(kernel, catalog));
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

    fn by_name(&self, kernel: PlannedKernel<'_>, catalog: &Catalog) -> &Plan {
        watch_forks();
        let _section = match Section::enter() {
            Ok(section) => section,
            Err(error) => return left_out(kernel, error.into()),
        };
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let key = kernel.descriptor.to_json();
        if let Some(plan) = named.get(&key) {
            let plan: *const Plan = &raw const **plan;
            // SAFETY: as below.
            return unsafe { &*plan };
        }
        let made = Box::new(self.make(kernel, catalog));
        if made.is_passing() {
            return self.keep_passing(made);
        }
        let plan: *const Plan = &raw const **named.entry(key).or_insert(made);
        // SAFETY: plans are boxed, never removed, and live as long as the table.
        unsafe { &*plan }
    }

    /// Keeps a plan for the pipelines that have it. A program that tries for ever gets the last one that was
    /// kept.
    fn keep_passing(&self, mut plan: Box<Plan>) -> &Plan {
        plan.hide();
        let mut passing = self.passing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut same = passing.iter().filter(|kept| kept.fails_as(&plan));
        let last = same.nth(PASSING - 1).map(Arc::as_ptr);
        let kept = last.unwrap_or_else(|| {
            let plan: Arc<Plan> = Arc::from(plan);
            let kept = Arc::as_ptr(&plan);
            passing.push(plan);
            kept
        });
        // SAFETY: what an Arc has does not move; none is removed, and they live as long as the table.
        unsafe { &*kept }
    }

    fn make(&self, kernel: PlannedKernel<'_>, catalog: &Catalog) -> Plan {
        let targets = |facts: &KernelFacts, all: &Attributes| match &self.base {
            Some(base) => base.plan(kernel, catalog).shared_targets(),
            None => targets_of(facts, kernel.own, all, &self.devices, catalog),
        };
        let mut plan =
            Plan::new(kernel, &self.options, targets).unwrap_or_else(|error| Plan::failed(kernel, error));
        if catalog.settings().flag("check_bounds") {
            plan.check_contents();
        }
        if catalog.settings().flag("check_maps") {
            plan.check_maps();
        }
        if plan.target().is_err() && plan.movement.is_none() {
            self.failed.store(true, Ordering::Relaxed);
        }
        plan
    }
}
