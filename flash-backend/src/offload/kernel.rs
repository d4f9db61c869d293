//! Kernels: implementations prepared for one device.

use super::{Driver, Function, KernelSpec, LaunchWords, Once, Parameter, Payload};
use crate::failure::Failure;
use flash_types::Code;
use flash_types::abi::{self, Implementation};
use std::sync::Arc;

/// An implementation, for one device.
///
/// Source text that cooperates is compiled for simple launches, as most are: those of boxes (`FLASH_GRID`),
/// or those of consecutive values ([`Driver::CONSECUTIVE`]), that are [`simple`](LaunchWords::simple).
/// A program for the boxes of other arrays, and the one for all launches, are compiled when such a launch
/// comes.
pub struct Kernel<D: Driver> {
    /// What the implementation says.
    pub spec: KernelSpec,
    pub(super) parameters: Vec<Parameter>,
    /// For simple launches, if there are others; otherwise for all launches.
    first: Function<D>,
    others: Option<Others<D>>,
}

/// The programs for launches that are not simple, each compiled for the first of its own.
struct Others<D: Driver> {
    text: String,
    /// For boxes.
    boxes: Once<Function<D>>,
    /// For all launches.
    general: Once<Function<D>>,
}

impl<D: Driver> Others<D> {
    fn new(text: String) -> Others<D> {
        Others { text, boxes: Once::default(), general: Once::default() }
    }
}

impl<D: Driver> Kernel<D> {
    /// Prepares an implementation.
    ///
    /// # Errors
    /// If it is not for this device, does not compile, or its parameters cannot take the definition's
    /// arguments.
    pub fn new(driver: &D, implementation: &'static Implementation) -> Result<Kernel<D>, Failure> {
        let (spec, payload) = read(driver, implementation)?;
        let limits = driver.limits();
        spec.check_parameter_bytes(limits.parameter_bytes, limits.device)?;
        let simple = simple::<D>(&spec, &payload);
        let others = match &payload {
            Payload::Source(text) if simple.is_some() => Some(Others::new(text.clone())),
            _ => None,
        };
        let first = driver.programs().function(driver, simple.as_ref().unwrap_or(&spec), payload)?;
        Ok(Kernel { parameters: spec.parameters(), spec, first, others })
    }

    /// Loads an implementation's program, if that needs no compiler.
    ///
    /// # Errors
    /// Those that recur when it is prepared.
    pub fn preload(driver: &D, implementation: &Implementation) -> Result<(), Failure> {
        let (spec, payload) = read(driver, implementation)?;
        driver.programs().preload(driver, &simple::<D>(&spec, &payload).unwrap_or(spec), payload)
    }

    /// The function for simple launches, or the only one.
    #[inline]
    pub fn first(&self) -> &Function<D> {
        &self.first
    }

    /// The function for a launch of a box.
    #[inline]
    pub(super) fn of_box(&self, driver: &D, words: &LaunchWords) -> Result<&Function<D>, Failure> {
        let Some(others) = self.others.as_ref().filter(|_| !words.simple) else { return Ok(&self.first) };
        others.boxes.get_or_make(|| {
            let spec = self.spec.for_grid();
            let spec = spec.as_ref().unwrap_or(&self.spec);
            driver.programs().function(driver, spec, Payload::Source(others.text.clone()))
        })
    }

    /// The function for a launch that is no box.
    #[inline]
    pub(super) fn of_line(&self, driver: &D, words: &LaunchWords) -> Result<&Function<D>, Failure> {
        // Without a program for boxes, the first is for consecutive values.
        let is_simple = words.consecutive && words.simple && !self.spec.grid;
        let Some(others) = self.others.as_ref().filter(|_| !is_simple) else { return Ok(&self.first) };
        let text = || Payload::Source(others.text.clone());
        others.general.get_or_make(|| driver.programs().function(driver, &self.spec, text()))
    }

    /// Equal for kernels of one program, different for others.
    pub fn program_number(&self) -> u64 {
        Arc::as_ptr(&self.first.program).addr() as u64
    }
}

/// The spec for simple launches, of a text.
fn simple<D: Driver>(spec: &KernelSpec, payload: &Payload) -> Option<KernelSpec> {
    match payload {
        Payload::Source(_) => spec.for_simple(D::CONSECUTIVE),
        Payload::Binary(_) => None,
    }
}

/// Reads an implementation's attributes and code, if it is for this device.
fn read<D: Driver>(driver: &D, implementation: &Implementation) -> Result<(KernelSpec, Payload), Failure> {
    let mut spec = KernelSpec::read(implementation)?;
    for (text, what) in [(&spec.entry, "entry"), (&spec.build_options, "build_options")] {
        if text.contains('\0') {
            let text =
                format!("{}: attribute `{what}`: expected a text without a NUL, found {text:?}", spec.title);
            return Err(Failure::new(Code::Invalid, text));
        }
    }
    let file = spec.file_of(implementation, &[D::SOURCES, D::BINARIES].concat())?;
    driver.check(&spec, file.as_ref().map(|(path, ending)| (path.as_path(), ending.as_str())))?;
    let limits = driver.limits();
    spec.with_checks(limits.check_bounds);
    let payload = match &file {
        // Some programs are texts.
        Some((_, ending)) if D::BINARIES.contains(&ending.as_str()) => {
            spec.payload(&Implementation { kind: abi::KIND_EXT_BIN, ..*implementation })?
        }
        _ => spec.payload(implementation)?,
    };
    spec.limit_grid(limits.parameter_bytes);
    Ok((spec, payload))
}
