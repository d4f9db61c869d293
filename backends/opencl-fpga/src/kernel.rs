//! Kernel functions: their limits, and the parameters that are set.

use crate::counted::{Counted, Memory};
use crate::device::OpenClDevice;
use crate::failure::{Call as _, failed};
use crate::places::Place;
use crate::queue::Alone;
use flash_backend::offload::{
    Call, GroupLimits, Kernel, KernelSpec, Passing, Range, Signature, Tables, ToldParameter, Value,
};
use flash_backend::{Failure, Launch};
use opencl3::error_codes::{CL_INVALID_ARG_SIZE, CL_INVALID_KERNEL_NAME};
use opencl3::kernel::{
    CL_KERNEL_ARG_ADDRESS_CONSTANT, CL_KERNEL_ARG_ADDRESS_GLOBAL, CL_KERNEL_ARG_ADDRESS_LOCAL,
    CL_KERNEL_ARG_ADDRESS_PRIVATE, Kernel as ClKernel, set_kernel_arg,
};
use opencl3::memory::{CL_MEM_COPY_HOST_PTR, CL_MEM_READ_ONLY, create_buffer};
use opencl3::program::Program;
use opencl3::types::cl_mem_flags;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard};

/// A kernel function of a program.
pub struct Function {
    /// Its preferred multiple of work items in a work-group.
    pub(crate) multiple: u64,
    state: Mutex<State>,
}

/// The part that changes from launch to launch. The parameters are stored in OpenCL's kernel object, so one
/// thread at a time sets them and enqueues.
pub(crate) struct State {
    pub kernel: Counted<ClKernel>,
    /// The current value of each parameter.
    set: Vec<Set>,
    /// The launch that they are set for, and its range, if that is known.
    launch: Signature<true>,
    range: Option<Range>,
    /// [`Alone::gone`] when they were set.
    gone: u64,
    tables: Tables<Counted<Memory>>,
}

/// The value of a parameter.
#[derive(Default)]
enum Set {
    #[default]
    Unknown,
    Place(Place),
    Bytes(Vec<u8>),
}

impl Function {
    /// The function of a kernel, whose parameters are right.
    pub(crate) fn new(
        device: &OpenClDevice,
        spec: &KernelSpec,
        program: &Program,
    ) -> Result<(Function, GroupLimits), Failure> {
        let kernel = Counted::new(create(spec, program)?);
        check_parameters(spec, &kernel)?;
        let id = device.found.device.id();
        let most = kernel.get_work_group_size(id).call("clGetKernelWorkGroupInfo")?;
        let compiled = kernel.get_compile_work_group_size(id).unwrap_or_default();
        let compiled = <[usize; 3]>::try_from(compiled).ok().filter(|size| size[0] != 0);
        let limits = GroupLimits {
            threads: most.clamp(1, device.found.limits.work_group_size.max(1)) as u64,
            compiled: compiled.map(|size| size.map(|size| size as u64)),
            bytes: kernel.get_local_mem_size(id).call("clGetKernelWorkGroupInfo")?,
        };
        let multiple = kernel.get_work_group_size_multiple(id).unwrap_or(1).max(1) as u64;
        let set = spec.parameter_sizes().iter().map(|_| Set::default()).collect();
        let (launch, tables) = (Signature::default(), Tables::default());
        let state = State { kernel, set, launch, range: None, gone: 0, tables };
        Ok((Function { multiple, state: Mutex::new(state) }, limits))
    }

    /// The state, for a launch that holds the queue.
    pub(crate) fn state(&self, alone: &Alone<'_, '_>) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        state.renew(alone.gone());
        state
    }
}

/// Compares a kernel's parameters with the definition's arguments, as far as the driver tells.
fn check_parameters(spec: &KernelSpec, kernel: &ClKernel) -> Result<(), Failure> {
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
fn create(spec: &KernelSpec, program: &Program) -> Result<ClKernel, Failure> {
    ClKernel::create(program, &spec.entry).map_err(|error| {
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

    /// Sets all parameters anew in the next launch.
    pub fn forget(&mut self) {
        self.set.iter_mut().for_each(|set| *set = Set::Unknown);
        self.range = None;
    }

    /// The range of a launch, if all parameters are set for it.
    pub fn range_of(&self, launch: &Launch<'_, Kernel<OpenClDevice>>) -> Option<Range> {
        self.range.filter(|_| self.launch.is_of(launch))
    }

    /// Notes that all parameters are set for this launch, until another sets one.
    pub fn keep(&mut self, launch: &Launch<'_, Kernel<OpenClDevice>>, range: Range) {
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

    /// Sets all parameters of a call. `written`: the table that it writes to, if it does.
    pub fn set_all(
        &mut self,
        device: &OpenClDevice,
        call: &Call<'_, OpenClDevice>,
        written: Option<&Memory>,
        alone: &mut Alone<'_, '_>,
    ) -> Result<(), Failure> {
        let spec = &call.kernel.spec;
        let mut number = 0;
        for value in call.values() {
            match value {
                Value::Bytes(bytes) => self.set(spec, number, bytes)?,
                Value::Buffer(buffer) => {
                    self.set_place(spec, number, device.place(buffer, call.items), alone)?
                }
            }
            number += 1;
        }
        if call.words.is_empty() {
            return Ok(());
        }
        // SAFETY: the bytes of integers, all of which are valid.
        let bytes =
            unsafe { std::slice::from_raw_parts(call.words.as_ptr().cast::<u8>(), size_of_val(call.words)) };
        self.set(spec, number, bytes)?;
        match written {
            // The next one may have the same handle.
            Some(table) => {
                self.set[number + 1] = Set::Unknown;
                self.set_anew(spec, number + 1, &table.get().addr().to_ne_bytes())
            }
            None => {
                let table = self.table(device, call.table)?;
                self.set(spec, number + 1, &table.to_ne_bytes())
            }
        }
    }

    /// The handle of a table on the device; NULL if it is empty, since every buffer of a launch costs time.
    fn table(&mut self, device: &OpenClDevice, words: &[u64]) -> Result<usize, Failure> {
        if words.is_empty() {
            return Ok(0);
        }
        if let Some(table) = self.tables.get(words) {
            return Ok(table.get().addr());
        }
        let table = table_of(device, words, CL_MEM_READ_ONLY)?;
        let handle = table.get().addr();
        if self.tables.make_room().is_some() {
            // Its handle may be reused, for another table.
            self.forget();
        }
        self.tables.add(words, table);
        Ok(handle)
    }
}

/// A new table on the device.
pub(crate) fn table_of(
    device: &OpenClDevice,
    words: &[u64],
    access: cl_mem_flags,
) -> Result<Counted<Memory>, Failure> {
    let (context, bytes) = (device.opened()?.context.get(), size_of_val(words));
    let from = words.as_ptr().cast_mut().cast();
    // SAFETY: a live context; the words are copied before the call returns.
    Memory::created(unsafe { create_buffer(context, access | CL_MEM_COPY_HOST_PTR, bytes, from) })
}
