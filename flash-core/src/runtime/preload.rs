//! Programs that are loaded before their first use: on request, and in the background for likely kernels.

use super::choose::{Rating, rate};
use super::state::Runtime;
use crate::devices::DeviceHandle;
use crate::devices::registry::{RegisteredImplementation, Registry};
use crate::error::Error;
use crate::kernel::KernelDefinition;
use flash_types::abi::Implementation;
use flash_types::descriptor::{KernelDescriptor, Searchable};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

mod sealed {
    pub trait Sealed {}
    impl<D: crate::kernel::KernelDefinition> Sealed for D {}
}

/// The type parameter of [`preload`](super::RuntimeObj::preload): a definition, or a tuple of up to eight.
pub trait Definitions: sealed::Sealed {
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn prepare(runtime: &Runtime) -> Result<(), Error>;
}

impl<D: KernelDefinition> Definitions for D {
    #[allow(private_interfaces)]
    fn prepare(runtime: &Runtime) -> Result<(), Error> {
        runtime.plan_of::<D>().target().map(|_| ())
    }
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: KernelDefinition),*> sealed::Sealed for ($($name,)*) {}
        impl<$($name: KernelDefinition),*> Definitions for ($($name,)*) {
            #[allow(private_interfaces)]
            fn prepare(runtime: &Runtime) -> Result<(), Error> {
                $($name::prepare(runtime)?;)*
                Ok(())
            }
        }
    };
}
tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);

/// Begins to load, on a thread of its own, the programs that are registered for these devices and need no
/// compiler; each backend decides which. Once per device. If all functions are in memory already, no thread
/// is started.
pub(super) fn early(registry: &Registry, devices: &[&'static DeviceHandle]) {
    let mut all = Vec::new();
    for &device in devices {
        // What runs functions of this program has them.
        let Some(preload) = device.api.preload.filter(|_| !device.info().runs_functions) else { continue };
        let programs: Vec<RegisteredImplementation> =
            registry.implementations().filter(|found| is_for(found, device)).collect();
        if !programs.is_empty() && !device.preloaded.swap(true, Relaxed) {
            all.push((device, preload, programs));
        }
    }
    if all.is_empty() {
        return;
    }
    let ends = Arc::new(AtomicBool::new(false));
    let seen = ends.clone();
    let load = move || {
        for (device, preload, programs) in all {
            for program in best(device, &programs) {
                if seen.load(Relaxed) {
                    return;
                }
                // SAFETY: a device of this vtable; implementations live for ever.
                unsafe { preload(device.raw, program) };
            }
        }
    };
    // Without a thread, programs are loaded when they are first used.
    if let Ok(thread) = std::thread::Builder::new().name("flash-preload".to_owned()).spawn(load) {
        let loading = Loading { ends, thread: Some(thread) };
        let _ = LOADING.try_with(|all| all.borrow_mut().push(loading));
    }
}

thread_local! {
    /// The loading threads of the runtimes that this thread has made.
    static LOADING: RefCell<Vec<Loading>> = const { RefCell::new(Vec::new()) };
}

/// A thread that loads. It ends before the thread that made its runtime does. At the end of a process drivers
/// shut down after the thread-locals of its main thread are dropped, and they must not be in use then.
struct Loading {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Loading {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has panicked: nothing is lost.
            let _ = thread.join();
        }
    }
}

fn is_for(found: &RegisteredImplementation, device: &DeviceHandle) -> bool {
    // SAFETY: strings of implementations live for ever.
    found.raw.payload_len > 0 && device.preference(unsafe { found.raw.target.as_str() }).is_some()
}

/// For each kernel and signature, the implementation that the device would get.
fn best(device: &DeviceHandle, programs: &[RegisteredImplementation]) -> Vec<&'static Implementation> {
    let mut best: BTreeMap<(String, String), (Rating, &'static Implementation)> = BTreeMap::new();
    for found in programs {
        // SAFETY: strings of implementations live for ever.
        let descriptor = KernelDescriptor::from_json(&unsafe { found.raw.descriptor.text() });
        let Ok(descriptor) = descriptor else { continue };
        let Ok((rating, _)) = rate(*found, &descriptor, device, None, Searchable::Exact) else { continue };
        let key = (descriptor.name.clone(), descriptor.signature());
        if best.get(&key).is_none_or(|(known, _)| *known < rating) {
            best.insert(key, (rating, found.raw));
        }
    }
    best.into_values().map(|(_, raw)| raw).collect()
}
