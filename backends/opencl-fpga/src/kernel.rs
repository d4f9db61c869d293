//! Kernels: implementations prepared for one device.

use crate::counted::{Counted, Memory};
use crate::device::OpenClDevice;
use crate::failure::{Call, failed};
use crate::launch::Range;
use crate::once::Once;
use crate::places::Place;
use crate::queue::Alone;
use flash_core::Code;
use flash_core::abi;
use flash_core::backend::offload::{
    KernelSpec, LaunchWords, Parameter, Passing, Payload, Signature, ToldParameter,
};
use flash_core::backend::{Class, Failure, Launch};
use opencl3::error_codes::{CL_INVALID_ARG_SIZE, CL_INVALID_KERNEL_NAME};
use opencl3::kernel::{
    CL_KERNEL_ARG_ADDRESS_CONSTANT, CL_KERNEL_ARG_ADDRESS_GLOBAL, CL_KERNEL_ARG_ADDRESS_LOCAL,
    CL_KERNEL_ARG_ADDRESS_PRIVATE, Kernel, set_kernel_arg,
};
use opencl3::memory::{CL_MEM_COPY_HOST_PTR, CL_MEM_READ_ONLY, CL_MEM_READ_WRITE, create_buffer};
use opencl3::program::Program;
use opencl3::types::cl_mem;
use std::borrow::Cow;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard};

/// An implementation, for one device.
pub struct OpenClKernel {
    pub(crate) spec: KernelSpec,
    pub(crate) parameters: Vec<Parameter>,
    /// For source text that cooperates: the program for simple launches, which most are. Otherwise: for all
    /// launches.
    first: Compiled,
    general: Option<General>,
    /// Reused storage for the words of a launch.
    told: Mutex<LaunchWords>,
}

/// The program for launches that are not simple.
struct General {
    text: String,
    /// Compiled for the first such launch.
    compiled: Once<Compiled>,
}

/// A kernel of a program.
pub(crate) struct Compiled {
    /// Work items in a work-group: the most, the preferred multiple, and the size that the kernel was
    /// compiled for.
    pub most: usize,
    pub multiple: usize,
    pub compiled: Option<[usize; 3]>,
    state: Mutex<State>,
    /// The program of the kernel.
    program: Arc<Counted<Program>>,
}

/// The part that changes from launch to launch. The parameters are stored in OpenCL's kernel object, so one
/// thread at a time sets them and enqueues.
pub(crate) struct State {
    pub kernel: Counted<Kernel>,
    /// The current value of each parameter.
    set: Vec<Set>,
    /// The launch that they are set for, and its range, if that is known.
    launch: Signature,
    range: Option<Range>,
    /// [`Alone::gone`] when they were set.
    gone: u64,
    /// The latest tables on the device, the most recently used at the end.
    tables: Vec<Table>,
}

/// The value of a parameter.
#[derive(Default)]
enum Set {
    #[default]
    Unknown,
    Place(Place),
    Bytes(Vec<u8>),
}

/// A table of a kernel's launches on the device.
struct Table {
    words: Vec<u64>,
    buffer: Counted<Memory>,
}

/// Tables kept per kernel: one per phase of a short cycle of phases.
const TABLES: usize = 8;

impl OpenClKernel {
    pub(crate) fn new(
        device: &OpenClDevice,
        implementation: &'static abi::Implementation,
    ) -> Result<OpenClKernel, Failure> {
        let (spec, payload) = read(device, implementation)?;
        let parameters = spec.parameters();
        spec.check_parameter_bytes(device.found.limits.parameter_bytes, &device.found.info.name)?;
        let general = general(&spec, &payload).map(|text| General { text, compiled: Once::new() });
        let first = Compiled::new(device, &first(&spec, &payload), payload)?;
        Ok(OpenClKernel { spec, parameters, first, general, told: Mutex::default() })
    }

    /// Loads an implementation's program, if that needs no compiler.
    pub(crate) fn preload(
        device: &OpenClDevice,
        implementation: &abi::Implementation,
    ) -> Result<(), Failure> {
        let (spec, payload) = read(device, implementation)?;
        device.programs.preload(device, &first(&spec, &payload), payload)
    }

    /// Equal for kernels of one program, different for others.
    pub(crate) fn program_number(&self) -> u64 {
        Arc::as_ptr(&self.first.program).addr() as u64
    }

    pub(crate) fn told(&self) -> MutexGuard<'_, LaunchWords> {
        self.told.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The kernel for launches that do not cooperate.
    pub(crate) fn only(&self) -> &Compiled {
        &self.first
    }

    /// The kernel for a cooperating launch; `grid`: with threads in as many dimensions as its items.
    ///
    /// # Errors
    /// If it does not compile.
    pub(crate) fn of(
        &self,
        device: &OpenClDevice,
        told: &LaunchWords,
        grid: bool,
    ) -> Result<&Compiled, Failure> {
        let simple = if self.spec.grid { grid } else { told.consecutive };
        let Some(general) = self.general.as_ref().filter(|_| !simple) else {
            return Ok(&self.first);
        };
        let compile = || Compiled::new(device, &self.spec, Payload::Source(general.text.clone()));
        general.compiled.get_or_make(compile)
    }
}

/// The text of a general program, where one is compiled beside that for simple launches.
fn general(spec: &KernelSpec, payload: &Payload) -> Option<String> {
    match payload {
        Payload::Source(text) if spec.cooperating => Some(text.clone()),
        _ => None,
    }
}

/// The spec that the first program is compiled with.
fn first<'s>(spec: &'s KernelSpec, payload: &Payload) -> Cow<'s, KernelSpec> {
    match (payload, spec.for_simple()) {
        (Payload::Source(_), Some(simple)) => Cow::Owned(simple),
        _ => Cow::Borrowed(spec),
    }
}

impl Compiled {
    fn new(device: &OpenClDevice, spec: &KernelSpec, payload: Payload) -> Result<Compiled, Failure> {
        let program = device.programs.get(device, spec, payload)?;
        let kernel = Counted::new(create(spec, &program)?);
        check_parameters(spec, &kernel)?;
        let expected = spec.parameter_sizes().len();
        let id = device.found.device.id();
        // Some drivers end the process in a launch that has more than there is.
        let local = kernel.get_local_mem_size(id).call("clGetKernelWorkGroupInfo")?;
        spec.check_local_bytes(local, 0, device.found.limits.local_bytes, &device.found.info.name)?;
        let most = kernel.get_work_group_size(id).call("clGetKernelWorkGroupInfo")?;
        let multiple = kernel.get_work_group_size_multiple(id).unwrap_or(1);
        let compiled = kernel.get_compile_work_group_size(id).unwrap_or_default();
        let compiled = <[usize; 3]>::try_from(compiled).ok().filter(|size| size[0] != 0);
        let set = (0..expected).map(|_| Set::default()).collect();
        let (launch, tables) = (Signature::default(), Vec::new());
        let state = State { kernel, set, launch, range: None, gone: 0, tables };
        Ok(Compiled {
            most: most.max(1),
            multiple: multiple.max(1),
            compiled,
            state: Mutex::new(state),
            program,
        })
    }

    /// The state, for a launch that holds the queue.
    pub fn state(&self, alone: &Alone<'_, '_>) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        state.renew(alone.gone());
        state
    }
}

/// Reads an implementation's attributes and code, if it is for this device.
fn read(
    device: &OpenClDevice,
    implementation: &abi::Implementation,
) -> Result<(KernelSpec, Payload), Failure> {
    let mut spec = KernelSpec::read(implementation)?;
    if let Some((path, ending)) = spec.file_of(implementation, &FILES)?
        && ending == "aocx"
        && device.found.info.class != Class::Fpga
    {
        let (title, name) = (&spec.title, &device.found.info.name);
        let text = format!("{title}: expected an FPGA for {path:?}, found {name}");
        return Err(Failure::new(Code::Unsupported, text));
    }
    let has = |extension: &str| device.found.extensions.split_whitespace().any(|there| there == extension);
    let doubles = spec.descriptor.arguments.iter().any(|a| a.element.name.contains("f64"));
    let mut needs = spec.requires.iter().map(String::as_str).chain(doubles.then_some("cl_khr_fp64"));
    if let Some(missing) = needs.find(|extension| !has(extension)) {
        return Err(Failure::new(
            Code::Unsupported,
            format!(
                "{}: expected a device with {missing}, found {}, which lacks it",
                spec.title, device.found.info.name
            ),
        ));
    }
    spec.with_checks(device.found.check_bounds);
    let payload = spec.payload(implementation)?;
    spec.limit_grid(device.found.limits.parameter_bytes);
    Ok((spec, payload))
}

/// Endings of files that OpenCL takes.
const FILES: [&str; 5] = ["cl", "c", "aocx", "bin", "spv"];

/// Compares a kernel's parameters with the definition's arguments, as far as the driver tells.
pub(crate) fn check_parameters(spec: &KernelSpec, kernel: &Kernel) -> Result<(), Failure> {
    let found = kernel.num_args().call("clGetKernelInfo")?;
    if found as usize != spec.parameter_sizes().len() {
        return Err(spec.wrong_count(found as usize));
    }
    let text = |text: String| Some(text.trim_matches('\0').trim().to_owned()).filter(|text| !text.is_empty());
    let told = (0..found).map(|number| ToldParameter {
        passing: kernel.get_arg_address_qualifier(number).ok().and_then(passing),
        type_name: kernel.get_arg_type_name(number).ok().and_then(text),
        name: kernel.get_arg_name(number).ok().and_then(text),
    });
    spec.check_told(&told.collect::<Vec<_>>())
}

fn passing(qualifier: u32) -> Option<Passing> {
    match qualifier {
        CL_KERNEL_ARG_ADDRESS_PRIVATE => Some(Passing::Value),
        CL_KERNEL_ARG_ADDRESS_GLOBAL | CL_KERNEL_ARG_ADDRESS_CONSTANT => Some(Passing::Pointer),
        CL_KERNEL_ARG_ADDRESS_LOCAL => Some(Passing::Local),
        _ => None,
    }
}

/// The kernel of a program.
pub(crate) fn create(spec: &KernelSpec, program: &Program) -> Result<Kernel, Failure> {
    if spec.entry.contains('\0') {
        return Err(Failure::new(Code::Invalid, format!("{}: a NUL in the entry's name", spec.title)));
    }
    Kernel::create(program, &spec.entry).map_err(|error| {
        let failure = failed("clCreateKernel", error.0);
        let text = match error.0 {
            CL_INVALID_KERNEL_NAME => format!(
                "{}: expected a kernel `{}` in the program, found {:?}: attribute `entry` names it: {}",
                spec.title,
                spec.entry,
                program.kernel_names(),
                failure.text
            ),
            _ => format!("{}: {}", spec.title, failure.text),
        };
        Failure::new(failure.code, text)
    })
}

impl State {
    /// Handles may mean other buffers now.
    fn renew(&mut self, gone: u64) {
        if self.gone != gone {
            self.gone = gone;
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.set.iter_mut().for_each(|set| *set = Set::Unknown);
        self.range = None;
    }

    /// The range of a launch, if all parameters are set for it.
    pub fn range_of(&self, launch: &Launch<'_, OpenClKernel>) -> Option<Range> {
        self.range.filter(|_| self.launch.is_of(launch))
    }

    /// Notes that all parameters are set for this launch, until another sets one.
    pub fn keep(&mut self, launch: &Launch<'_, OpenClKernel>, range: Range) {
        self.range = self.launch.set(launch).map(|()| range);
    }

    /// Sets a parameter, unless it has that value already.
    pub fn set(&mut self, spec: &KernelSpec, number: usize, bytes: &[u8]) -> Result<(), Failure> {
        if matches!(&self.set[number], Set::Bytes(set) if set == bytes) {
            return Ok(());
        }
        let mut room = match std::mem::take(&mut self.set[number]) {
            Set::Bytes(before) => before,
            _ => Vec::new(),
        };
        self.set_anew(spec, number, bytes)?;
        room.clear();
        room.extend_from_slice(bytes);
        self.set[number] = Set::Bytes(room);
        Ok(())
    }

    /// Sets a parameter, whatever its value.
    fn set_anew(&mut self, spec: &KernelSpec, number: usize, bytes: &[u8]) -> Result<(), Failure> {
        self.range = None;
        // SAFETY: a live kernel; the value has that many bytes and is copied.
        let outcome = unsafe {
            set_kernel_arg(self.kernel.get(), number as u32, bytes.len(), bytes.as_ptr().cast::<c_void>())
        };
        outcome.map_err(|code| {
            let failure = failed("clSetKernelArg", code);
            let hint = match code {
                CL_INVALID_ARG_SIZE => {
                    format!(
                        ": the definition's argument has {} bytes, the kernel's parameter another size",
                        bytes.len()
                    )
                }
                _ => String::new(),
            };
            let text =
                format!("{}: parameter {number} of `{}`: {}{hint}", spec.title, spec.entry, failure.text);
            Failure::new(failure.code, text)
        })
    }

    /// Sets a parameter to the buffer of a place.
    pub fn set_place(
        &mut self,
        spec: &KernelSpec,
        number: usize,
        place: Place,
        alone: &mut Alone<'_, '_>,
    ) -> Result<(), Failure> {
        if matches!(&self.set[number], Set::Place(set) if *set == place) {
            return Ok(());
        }
        let buffer = alone.buffer(place)?;
        self.set[number] = Set::Unknown;
        self.set_anew(spec, number, &(buffer as usize).to_ne_bytes())?;
        if !place.is_passing() {
            self.set[number] = Set::Place(place);
        }
        Ok(())
    }

    /// Sets the two parameters of `FLASH_ARGS` to the launch's words.
    pub fn set_told(
        &mut self,
        device: &OpenClDevice,
        spec: &KernelSpec,
        number: usize,
        told: &LaunchWords,
    ) -> Result<(), Failure> {
        let words = &told.words[..];
        // SAFETY: the bytes of integers, all of which are valid.
        let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), size_of_val(words)) };
        self.set(spec, number, bytes)?;
        let table = self.table(device, &told.table, spec.check_bounds)?;
        self.set(spec, number + 1, &(table as usize).to_ne_bytes())
    }

    /// The table of the launch whose parameters were set last; the next one gets another.
    pub fn take_table(&mut self) -> Option<Counted<Memory>> {
        self.forget();
        self.tables.pop().map(|table| table.buffer)
    }

    /// The launch's table on the device; NULL if it is empty, since every buffer of a launch costs time.
    fn table(&mut self, device: &OpenClDevice, words: &[u64], written: bool) -> Result<cl_mem, Failure> {
        if words.is_empty() {
            return Ok(null_mut());
        }
        if let Some(at) = self.tables.iter().position(|table| table.words == words) {
            let table = self.tables.remove(at);
            let buffer = table.buffer.get();
            self.tables.push(table);
            return Ok(buffer);
        }
        let mut words = words.to_vec();
        let bytes = size_of_val(&words[..]);
        // SAFETY: a live context; the words are copied before the call returns.
        let buffer = Memory::created(unsafe {
            create_buffer(
                device.opened()?.context.get(),
                if written { CL_MEM_READ_WRITE } else { CL_MEM_READ_ONLY } | CL_MEM_COPY_HOST_PTR,
                bytes,
                words.as_mut_ptr().cast(),
            )
        })?;
        let handle = buffer.get();
        if self.tables.len() == TABLES {
            self.tables.remove(0);
            // Its handle may be reused, for another table.
            self.forget();
        }
        self.tables.push(Table { words, buffer });
        Ok(handle)
    }
}
