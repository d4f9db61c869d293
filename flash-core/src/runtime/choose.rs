//! The choice of a kernel's implementation for each device: the best of the registered ones, or one that the
//! program gives.

use super::rate::Rate;
use super::user_code::user_code;
use super::widen::{Widening, WideningCost};
use crate::devices::catalog::Catalog;
use crate::devices::registry::RegisteredImplementation;
use crate::devices::{DeviceHandle, take_error};
use crate::error::{Error, NoImplementation};
use crate::kernel::OwnImplementation;
use flash_backend::__host::{rank, takes_axes, takes_parts, takes_strides};
use flash_backend::alignment;
use flash_types::Code;
use flash_types::abi;
use flash_types::descriptor::{Attributes, Implementation, KernelDescriptor, Searchable, View};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// A device, with the implementation prepared for it.
pub(crate) struct Target {
    pub device: &'static DeviceHandle,
    pub implementation: String,
    pub kernel: *mut abi::Kernel,
    pub submit: unsafe extern "C" fn(*mut abi::Device, *const abi::Submission) -> *mut abi::Error,
    /// The function that the host may run without telling the device.
    inline: Option<Inline>,
    /// It is called once per phase, with all of its arrays, or with a part of the launch.
    pub whole: bool,
    /// It can be given a part of a launch.
    pub parts: bool,
    /// It can be given views with gaps as items.
    pub strides: bool,
    /// And as windows.
    pub axes: bool,
    /// Its launches are cut at multiples of this many positions.
    pub alignment: u64,
    /// Number of the image that the device must have loaded; 0: none.
    pub image: u64,
    /// Its recent rate.
    pub rate: Arc<Rate>,
    /// Its conversions of the definition's scalars.
    pub widening: Widening,
}

/// Launches of few work items that the host runs itself, because the device has said that it would not be
/// faster.
struct Inline {
    share: abi::ShareFn,
    ask: unsafe extern "C" fn(*mut abi::Device, *mut abi::Kernel) -> u64,
    /// The most items of such a launch, as the device said after its last launch; 0 before.
    most: AtomicU64,
    /// Launches whose draw is below this go to the device, which so learns the current time of an item: one
    /// in 4 after the first, then fewer with each, down to one in 256.
    told: AtomicU32,
}

impl Target {
    /// The function that runs a plain launch of one phase of this many items here; `None`: it goes to the
    /// device. `draw` is uniformly distributed.
    #[inline]
    pub fn inline(&self, items: u64, draw: u32) -> Option<abi::ShareFn> {
        let inline = self.inline.as_ref()?;
        let here = items <= inline.most.load(Relaxed) && draw >= inline.told.load(Relaxed);
        here.then_some(inline.share)
    }

    /// The number of equal launches after which this is asked again.
    pub fn alike(&self) -> u32 {
        self.inline.as_ref().map_or(u32::MAX, |inline| u32::MAX / inline.told.load(Relaxed))
    }

    /// The device has run a launch, and may know a better limit.
    #[inline]
    pub fn launched(&self) {
        if let Some(inline) = &self.inline {
            // SAFETY: a device of this vtable, and its kernel.
            let most = unsafe { (inline.ask)(self.device.raw, self.kernel) };
            let told = (inline.told.load(Relaxed) / 4).max(u32::MAX / 256);
            // Written only on a change: other threads read them all the time.
            if (inline.most.load(Relaxed), inline.told.load(Relaxed)) != (most, told) {
                inline.most.store(most, Relaxed);
                inline.told.store(told, Relaxed);
            }
        }
    }
}

// SAFETY: kernels may be used from any thread.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(release) = self.device.api.release {
            // SAFETY: made by this device's `prepare`, released once.
            unsafe { release(self.device.raw, self.kernel) };
        }
    }
}

/// The devices that have an implementation, each with its best one.
pub(super) fn choose(
    descriptor: &KernelDescriptor,
    own: Option<OwnImplementation>,
    devices: &[&'static DeviceHandle],
    attributes: &Attributes,
    catalog: &Catalog,
) -> Result<Vec<Target>, Error> {
    let note = |rejected: &mut Vec<String>, found, why: &str| note(rejected, catalog, found, why);
    let pinned = match attributes.get::<Implementation>() {
        None => None,
        Some(Implementation::Named(name)) => Some(name.as_str()),
        Some(code) => return user_code(code, descriptor, devices, catalog),
    };
    let searchable = attributes.get::<Searchable>().copied().unwrap_or(Searchable::Exact);
    let named_only = searchable == Searchable::No && pinned.is_none();
    let mut rejected: Vec<String> = Vec::new();
    let mut targets = Vec::new();
    for device in devices {
        let mut candidates: Vec<(Rating, RegisteredImplementation, Widening)> = Vec::new();
        let of_device = device.resolve_kernel(descriptor)?;
        let function_target = device.info().targets.first().filter(|_| device.info().runs_functions);
        let of_definition = own.zip(function_target).map(|(own, target)| own(target));
        let of_definition =
            of_definition.map(|raw| RegisteredImplementation { raw, plugin: usize::MAX, resolved: true });
        if own.is_some() && of_definition.is_none() {
            rejected.push(format!(
                "a closure: {} runs no functions of this program, and closures have no text: write a definition and a kernel for it",
                device.id()
            ));
        }
        let of_kernel = catalog.registry().implementations_of(&descriptor.name);
        for found in of_kernel.chain(of_device).chain(of_definition) {
            // What a device or a hand-made entry gives may be of another kernel.
            // SAFETY: strings of implementations live for ever.
            if unsafe { found.raw.kernel.text() } != descriptor.name {
                continue;
            }
            match rate(found, descriptor, device, pinned, searchable) {
                Ok(_) if named_only => {
                    note(&mut rejected, found, "the kernel is not searchable: name an implementation")
                }
                Ok((rating, widening)) => candidates.push((rating, found, widening)),
                Err(why) => {
                    if is_silent(found, device) {
                        left_out(catalog, found, &why);
                    }
                    note(&mut rejected, found, &why);
                }
            }
        }
        let fitting = candidates.iter().map(|(rating, found, _)| (*rating, *found));
        check_unambiguous(descriptor, searchable, fitting, catalog)?;
        // The sort is stable: of equals the first wins.
        candidates.sort_by_key(|(rating, ..)| Reverse(*rating));
        for (_, found, widening) in candidates {
            match prepare(device, found.raw, descriptor, catalog) {
                Ok(mut target) => {
                    target.widening = widening;
                    targets.push(target);
                    break;
                }
                Err(Error::Backend { code: Code::Unsupported, text }) => note(&mut rejected, found, &text),
                // A mistake in a plugin that the program did not ask for.
                Err(Error::Backend { code: Code::Invalid, text })
                    if pinned.is_none() && catalog.registry().is_of_file(found) =>
                {
                    left_out(catalog, found, &text);
                    note(&mut rejected, found, &text);
                }
                Err(error) => return Err(error),
            }
        }
    }
    match targets.is_empty() {
        true => Err(none(descriptor, devices, rejected)),
        false => Ok(targets),
    }
}

/// Refuses what one image (the program, or a plugin) has twice: implementations of two definitions of the
/// same name and arguments, of which one would run in place of the other, and a second implementation that
/// nothing tells from the first. A fuzzy search takes the code of other definitions on purpose.
fn check_unambiguous(
    descriptor: &KernelDescriptor,
    searchable: Searchable,
    fitting: impl Iterator<Item = (Rating, RegisteredImplementation)> + Clone,
    catalog: &Catalog,
) -> Result<(), Error> {
    // SAFETY: strings of implementations live for ever.
    let text = |text: abi::Str| unsafe { text.text() };
    let ambiguous = |text: String| {
        Err(Error::Ambiguous { kernel: descriptor.name.clone() + &descriptor.signature(), text })
    };
    // What plugins add while they run may be of any image.
    let of_images = || fitting.clone().filter(|(_, found)| found.plugin != usize::MAX);
    for (at, (rating, found)) in of_images().enumerate() {
        let (own, name) = (text(found.raw.definition), text(found.raw.name));
        let earlier = || of_images().take(at).filter(|(_, other)| other.plugin == found.plugin);
        let mut definitions = earlier().map(|(_, other)| text(other.raw.definition));
        if searchable != Searchable::Fuzzy
            && !own.is_empty()
            && let Some(other) = definitions.find(|other| !other.is_empty() && *other != own)
        {
            return ambiguous(format!(
                "{other} and {own} are two definitions of this name with the same arguments, and both have implementations in {}: give one of them another name",
                catalog.registry().origin_of(found)
            ));
        }
        if earlier().any(|(others, other)| others == rating && text(other.raw.name) == name) {
            return ambiguous(format!(
                "there are two implementations `{name}` for {}, both in {}: give one of them another name or priority",
                text(found.raw.target),
                catalog.registry().origin_of(found)
            ));
        }
    }
    Ok(())
}

/// The error that nothing runs the kernel on any of the devices.
pub(super) fn none(
    descriptor: &KernelDescriptor,
    devices: &[&'static DeviceHandle],
    found: Vec<String>,
) -> Error {
    Error::NoImplementation(Box::new(NoImplementation {
        kernel: descriptor.name.clone(),
        signature: descriptor.signature(),
        devices: devices.iter().map(|d| d.id().to_owned()).collect(),
        found,
    }))
}

fn note(rejected: &mut Vec<String>, catalog: &Catalog, found: RegisteredImplementation, why: &str) {
    // SAFETY: strings of implementations live for ever.
    let (name, target) = unsafe { (found.raw.name.text(), found.raw.target.text()) };
    let line = format!("`{name}` for {target} ({}): {why}", catalog.registry().origin_of(found));
    if !rejected.contains(&line) {
        rejected.push(line);
    }
}

/// True if an implementation in a plugin would be looked at for a device, but does not say what it takes.
fn is_silent(found: RegisteredImplementation, device: &DeviceHandle) -> bool {
    // SAFETY: strings of implementations live for ever.
    let (is_empty, target) = unsafe { (found.raw.descriptor.text().is_empty(), found.raw.target.text()) };
    is_empty && !found.resolved && device.preference(&target).is_some()
}

/// Says, once per implementation, that it is left out.
fn left_out(catalog: &Catalog, found: RegisteredImplementation, why: &str) {
    static SAID: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(std::ptr::from_ref(found.raw).addr()) {
        // SAFETY: strings of implementations live for ever.
        let (kernel, name) = unsafe { (found.raw.kernel.text(), found.raw.name.text()) };
        let origin = catalog.registry().origin_of(found);
        flash_backend::notice(format_args!(
            "the implementation `{name}` of kernel `{kernel}` ({origin}) is left out: {why}"
        ));
    }
}

/// Least change of scalars, place of its target in the device's list, specificity, rank; higher is
/// better, the first found wins among equals.
pub(super) type Rating = (Reverse<WideningCost>, Reverse<usize>, usize, (i32, u32));

pub(super) fn rate(
    found: RegisteredImplementation,
    descriptor: &KernelDescriptor,
    device: &DeviceHandle,
    pinned: Option<&str>,
    searchable: Searchable,
) -> Result<(Rating, Widening), String> {
    let raw = found.raw;
    // SAFETY: strings and attributes of implementations live for ever.
    let (name, target, wanted, features, attributes) = unsafe {
        let attributes: Vec<(String, String)> = (0..raw.attribute_count)
            .map(|i| &*raw.attributes.add(i))
            .map(|a| (a.key.text(), a.value.text()))
            .collect();
        (raw.name.text(), raw.target.text(), raw.descriptor.text(), raw.cpu_features.text(), attributes)
    };
    if pinned.is_some_and(|pinned| pinned != name) {
        return Err(format!("it is not the one asked for, `{}`", pinned.unwrap_or_default()));
    }
    let Some(preference) = device.preference(&target) else {
        return Err(format!("{} runs implementations for {}", device.id(), device.info().targets.join(", ")));
    };
    if raw.share.is_none() && raw.span.is_none() && raw.payload.is_null() {
        return Err("it has neither a function nor code".into());
    }
    let widening = match wanted.is_empty() {
        // The program, or the device, vouches for it.
        true if pinned.is_some() || found.resolved => Widening::default(),
        true => {
            return Err(format!(
                "it does not say what it takes: give it the descriptor `{}`, or ask for it by its name",
                descriptor.signature()
            ));
        }
        false => fit(&wanted, descriptor, searchable)?,
    };
    for feature in features.split(',').map(str::trim).filter(|f| !f.is_empty()) {
        if !device.has_feature(feature) {
            return Err(format!("the CPU of {} lacks {feature}", device.id()));
        }
    }
    let mut specificity = 0;
    for (key, value) in &attributes {
        let value = serde_json::from_str::<String>(value).unwrap_or_else(|_| value.clone());
        if key == "library" && !device.has_library(&value) {
            return Err(format!("the library {value} is not found"));
        }
        let info = device.info();
        let fact = match key.as_str() {
            "vendor" => &info.vendor,
            "device" => &info.name,
            "architecture" => &info.features,
            "version" => &info.version,
            _ => continue,
        };
        if value == "*" {
            continue;
        }
        let matches = fact == &value || (key == "architecture" && fact.split(',').any(|f| f == value));
        if !matches {
            return Err(format!("its {key} is `{value}`, the device's `{fact}`"));
        }
        specificity += 1;
    }
    Ok(((widening.rating(), Reverse(preference), specificity, rank(raw)), widening))
}

/// The conversion of the definition's scalars for an implementation with this descriptor, or signature; or
/// why it does not fit.
fn fit(wanted: &str, ours: &KernelDescriptor, searchable: Searchable) -> Result<Widening, String> {
    if wanted.starts_with('[') {
        let is_same = wanted.chars().filter(|c| !c.is_whitespace()).eq(signature_of(ours));
        return if is_same { Ok(Widening::default()) } else { Err(format!("it takes {wanted}")) };
    }
    let theirs =
        KernelDescriptor::from_json(wanted).map_err(|e| format!("its descriptor cannot be read: {e}"))?;
    if theirs.agrees(ours) {
        return Ok(Widening::default());
    }
    match (Widening::between(ours, &theirs), searchable) {
        (fuzzy, Searchable::Fuzzy) => fuzzy,
        (Ok(_), _) => Err(format!("it takes {}: `Searchable::Fuzzy` would find it", theirs.signature())),
        (Err(why), _) if theirs.signature() == ours.signature() => Err(why),
        (Err(_), _) => Err(format!("it takes {}", theirs.signature())),
    }
}

/// The signature without white space.
fn signature_of(descriptor: &KernelDescriptor) -> impl Iterator<Item = char> {
    let signature: Vec<char> = descriptor.signature().chars().filter(|c| !c.is_whitespace()).collect();
    signature.into_iter()
}

/// Prepares an implementation for a device. [`Code::Unsupported`] means that the device is not made for it.
pub(super) fn prepare(
    device: &'static DeviceHandle,
    implementation: &'static abi::Implementation,
    descriptor: &KernelDescriptor,
    catalog: &Catalog,
) -> Result<Target, Error> {
    let list = device.api.prepare.zip(device.api.submit);
    let Some((prepare, submit)) = list else {
        return Err(Error::Backend {
            code: flash_types::Code::Invalid,
            text: "a required slot is NULL".into(),
        });
    };
    let mut kernel = std::ptr::null_mut();
    // SAFETY: a device of this vtable; implementations live for ever; the errors are this host's.
    unsafe { take_error(prepare(device.raw, implementation, &mut kernel))? };
    // SAFETY: strings of implementations live for ever.
    let name = unsafe { implementation.name.text() };
    let whole = implementation.door == abi::DOOR_WHOLE;
    let kernel_name = descriptor.name.clone() + &descriptor.signature();
    let rate = catalog.rates().of(&kernel_name, &name, device.id());
    let inline = device.api.inline_items.zip(implementation.share).map(|(ask, share)| Inline {
        share,
        ask,
        most: AtomicU64::new(0),
        told: AtomicU32::new(u32::MAX),
    });
    // SAFETY: a device of this vtable, and its kernel.
    let image = device.api.image.map_or(0, |image| unsafe { image(device.raw, kernel) });
    let (parts, alignment) = (takes_parts(implementation), alignment(implementation).unwrap_or(1));
    let axes = || {
        let has_windows = descriptor.arguments.iter().any(|argument| argument.view == View::Window);
        let of_kernel = catalog.registry().implementations_of(&descriptor.name).map(|one| one.raw);
        has_windows && takes_axes(implementation, of_kernel)
    };
    let widening = Widening::default();
    Ok(Target {
        device,
        implementation: name,
        kernel,
        submit,
        inline,
        whole,
        parts,
        strides: takes_strides(implementation),
        axes: axes(),
        alignment,
        image,
        rate,
        widening,
    })
}
