//! [`Runtime`]: the data that every launch of a runtime needs, computed when the runtime is made.
//!
//! It never changes. It stands below recording and running, and knows neither; the API on top
//! ([`api`](super::api)) hands it down.

use super::asynchronous::limits::InFlightLimit;
use super::context::Context;
use super::options::Options;
use super::plan::{Plan, PlannedKernel, named_operations, operations_of};
use super::plans::{OwnPlan, Plans};
use crate::devices::DeviceHandle;
use crate::error::Error;
use crate::kernel::{KernelDefinition, descriptor_of};
use crate::memory::GRANULE;
use flash_backend::Class;
use flash_types::descriptor::{Attributes, InFlight, KernelDescriptor, Patience, Priority, Timeout};
use std::any::TypeId;
use std::sync::Arc;
use std::time::Duration;

/// The part that the clones of a runtime share.
pub(crate) struct Runtime {
    pub(super) context: Context,
    pub(super) key: String,
    pub(super) devices: Vec<&'static DeviceHandle>,
    pub(super) options: Options,
    /// The first error in the options, reported by every launch.
    pub(super) error: Option<Error>,
    /// The plans of its devices and options, shared with other runtimes that have the same.
    pub(super) plans: Arc<Plans>,
    /// True if some options are for backends.
    pub(super) attributes_for_backends: bool,
    pub(super) check_writes: bool,
    /// What may be cut is cut, on one device, too.
    pub(super) check_maps: bool,
    /// Bytes that the host fetches at least of memories that its launches have moved.
    pub(super) granule: u32,
    /// True if it has several devices, or one with a memory of its own: pipelines take the distributed path.
    pub(super) spreads: bool,
    /// True if its first device uses the host's memory and works without the host: on the inline path it gets
    /// the next launch while it runs one.
    pub(super) runs_ahead: bool,
    /// True if some device keeps the thread that launches on it, and is no processor of the host's: workers
    /// do not wait for it.
    pub(super) keeps_threads: bool,
    /// True if some device may have to load an image before it runs a kernel.
    pub(super) has_images: bool,
    /// True if some device keeps handles of the host's memory in which it works.
    pub(super) keeps_host: bool,
    /// How long each submission may take.
    pub(super) timeout: Option<Duration>,
    /// How long each launch waits for guards, if that is said.
    pub(super) patience: Option<Duration>,
    /// The number of asynchronous pipelines that may be in flight.
    pub(super) gauge: Option<Arc<InFlightLimit>>,
    /// The priority of its pipelines' tasks in the lanes of devices.
    pub(super) priority: i32,
}

impl Runtime {
    pub fn new(
        context: Context,
        key: String,
        devices: Vec<&'static DeviceHandle>,
        options: Options,
        error: Option<Error>,
        plans: Arc<Plans>,
    ) -> Runtime {
        let check_writes = context.settings().flag("check_writes");
        let check_maps = context.settings().flag("check_maps");
        let granule = context.settings().number("host_granule").map_or(GRANULE, |bytes| bytes as u32);
        let attributes_for_backends = options.attributes.for_backends().next().is_some();
        let spreads = devices.len() != 1 || !devices[0].info().host_memory;
        let runs_ahead =
            devices.first().is_some_and(|first| first.info().host_memory && !first.info().synchronous);
        let keeps_threads =
            devices.iter().any(|device| device.info().synchronous && device.info().class != Class::Cpu);
        let has_images = devices.iter().any(|device| device.info().class == Class::Fpga);
        // Arrays that the program makes from now on lie where agents have them, too.
        for device in &devices {
            device.memory();
        }
        let keeps_host = devices.iter().any(|device| device.api.forget_host.is_some());
        let timeout = options.attributes.get::<Timeout>().map(|timeout| timeout.0);
        let patience = options.attributes.get::<Patience>().map(|patience| patience.0);
        let (gauge, error) = match options.attributes.get::<InFlight>() {
            Some(InFlight(0)) => (None, error.or_else(|| Some(nothing_in_flight()))),
            Some(InFlight(limit)) => (Some(InFlightLimit::new(*limit)), error),
            None => (None, error),
        };
        let priority = options.attributes.get::<Priority>().map_or(0, |priority| priority.0);
        Runtime {
            context,
            key,
            devices,
            options,
            error,
            plans,
            attributes_for_backends,
            check_writes,
            check_maps,
            granule,
            timeout,
            patience,
            gauge,
            priority,
            spreads,
            runs_ahead,
            keeps_threads,
            has_images,
            keeps_host,
        }
    }

    /// True if some device has a memory of its own.
    pub(super) fn has_device_memory(&self) -> bool {
        self.devices.iter().any(|device| !device.info().host_memory)
    }
}

fn nothing_in_flight() -> Error {
    Error::Option {
        option: "InFlight".into(),
        text: "expected at least 1 pipeline on its way, found 0: `exec_async` would wait for ever".into(),
    }
}

impl Runtime {
    /// The plan of a definition.
    #[inline]
    pub fn plan_of<D: KernelDefinition>(&self) -> &Plan {
        match self.plans.get(TypeId::of::<D::Static>()) {
            Some(plan) => plan,
            None => self.plan_new::<D>(),
        }
    }

    #[cold]
    fn plan_new<D: KernelDefinition>(&self) -> &Plan {
        let (id, operations) = (TypeId::of::<D::Static>(), operations_of::<D>());
        let descriptor = &descriptor_of::<D>();
        let kernel = PlannedKernel { type_id: Some(id), descriptor, operations: &operations, own: D::own() };
        self.plans.plan(kernel, self.context.catalog())
    }

    /// The plan of a kernel by name.
    pub fn plan_named(&self, descriptor: &KernelDescriptor) -> &Plan {
        let operations = named_operations(descriptor);
        let kernel = PlannedKernel { type_id: None, descriptor, operations: &operations, own: None };
        self.plans.plan(kernel, self.context.catalog())
    }

    /// The plan of the same kernel for some of the devices, with all options of a submission. `None`: it is
    /// the same.
    pub(super) fn plan_with(
        &self,
        plan: &Plan,
        devices: &[&'static DeviceHandle],
        options: &Attributes,
    ) -> Option<OwnPlan> {
        if self.plans.is_of(devices, options) {
            return None;
        }
        let table = self.context.plans().of(devices, options);
        Some(OwnPlan::new(table, plan.kernel(&mut Vec::new()), self.context.catalog()))
    }
}
