//! Modules, their functions and variables.

use super::context::current;
use super::{In, Out, device, driver};
use crate::machine::handles::{Handles, lock};
use crate::machine::settings::settings;
use crate::machine::space::{self, Owner};
use crate::machine::{Answer, MULTIPROCESSORS, context::Context};
use crate::ptx::code::{Function, Program};
use crate::ptx::parse::{Initial, Module as Parsed, Space, Variable};
use crate::ptx::{decode, parse};
use cudarc::driver::sys::{
    CUdeviceptr, CUfunction, CUfunction_attribute as Attribute, CUjit_option as Option_, CUmodule,
    CUoccupancyB2DSize, CUresult,
};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

static MODULES: Handles<Module> = Handles::new();
static KERNELS: Handles<Kernel> = Handles::new();

struct Module {
    context: &'static Context,
    /// Addresses and sizes.
    variables: HashMap<String, (u64, usize)>,
    kernels: Mutex<Vec<Arc<Kernel>>>,
}

/// An entry of a module.
pub(super) struct Kernel {
    pub context: &'static Context,
    pub program: Arc<Program>,
    /// Its number in the program.
    pub function: usize,
    name: CString,
    /// Most bytes of dynamic shared memory.
    pub most_dynamic: AtomicU32,
    /// Whether it was asked for by its name: one of a list says nothing of itself before that.
    pub is_loaded: AtomicBool,
}

impl Kernel {
    pub fn of(handle: CUfunction) -> Answer<Arc<Kernel>> {
        KERNELS.get(handle)
    }

    pub fn function(&self) -> &Function {
        &self.program.functions[self.function]
    }

    /// Most threads of a block.
    pub fn most_threads(&self) -> u32 {
        match self.function().most_threads {
            0 => device::BLOCK_THREADS,
            most => most.min(device::BLOCK_THREADS),
        }
    }

    /// Blocks that a multiprocessor runs at the same time.
    pub fn occupancy(&self, threads: u32, dynamic: usize) -> u32 {
        let shared = (self.function().shared + dynamic) as u32 + device::SHARED_RESERVED;
        let threads = threads.next_multiple_of(32);
        (device::THREADS / threads.max(1)).min(device::BLOCKS).min(device::SHARED_ALL / shared)
    }
}

/// Loads PTX. Errors in it go into the log.
fn load(context: &'static Context, image: *const c_void, log: &mut String) -> Answer<CUmodule> {
    if image.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let start = In(image.cast::<[u8; 4]>()).get()?;
    if &start == b"\x7FELF" || start == 0xBA55_ED50_u32.to_le_bytes() {
        log.push_str("this machine takes PTX only, found machine code");
        return Err(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
    }
    let text = In(image.cast::<c_char>()).text()?;
    if !text.contains(".version") {
        log.push_str("expected PTX, which has a .version");
        return Err(CUresult::CUDA_ERROR_INVALID_IMAGE);
    }
    let newest = newest_ptx(settings().version);
    if let Some(version) = version_of(&text).filter(|version| *version > newest) {
        *log = format!("ptxas of the emulated device: PTX {version:?} is newer than {newest:?}");
        return Err(CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    }
    let mut failed = |text: String| {
        *log = format!("ptxas of the emulated device: {text}");
        CUresult::CUDA_ERROR_INVALID_PTX
    };
    let parsed = parse(&text).map_err(|failure| failed(failure.to_string()))?;
    let variables = place(context, &parsed)?;
    let addresses = variables.iter().map(|(name, (address, _))| (*name, *address)).collect();
    let program = match decode(&parsed, addresses) {
        Ok(program) => Arc::new(program),
        Err(failure) => {
            variables.values().for_each(forget);
            return Err(failed(failure.to_string()));
        }
    };
    let greedy = program.functions.iter().find(|function| function.shared > device::SHARED as usize);
    if let Some(function) = greedy {
        let text = format!(
            "{:?} uses {} bytes of shared memory, the limit is {}",
            function.name,
            function.shared,
            device::SHARED
        );
        variables.values().for_each(forget);
        return Err(failed(text));
    }
    let variables = variables.into_iter().map(|(name, variable)| (name.to_owned(), variable)).collect();
    let mut kernels = Vec::new();
    for (number, function) in program.functions.iter().enumerate().filter(|(_, function)| function.entry) {
        let name = CString::new(function.name.as_str()).map_err(|_| CUresult::CUDA_ERROR_INVALID_PTX)?;
        let most = device::SHARED.saturating_sub(function.shared as u32);
        kernels.push(Arc::new(Kernel {
            context,
            program: program.clone(),
            function: number,
            name,
            most_dynamic: AtomicU32::new(most),
            is_loaded: AtomicBool::new(false),
        }));
    }
    for kernel in &kernels {
        KERNELS.add::<c_void>(kernel.clone());
    }
    Ok(MODULES.add(Arc::new(Module { context, variables, kernels: Mutex::new(kernels) })))
}

/// The newest PTX of a version of CUDA from 12.8 on, which the driver gives as 1000 major + 10 minor: the
/// table "PTX Release History" of the PTX ISA.
fn newest_ptx(cuda: i32) -> (u32, u32) {
    match (cuda / 1000, (cuda % 1000 / 10) as u32) {
        (12, minor) => (8, minor.saturating_sub(1)),
        (major, minor) => (major as u32 - 4, minor),
    }
}

/// The version in a text.
fn version_of(ptx: &str) -> Option<(u32, u32)> {
    let line = ptx.lines().find_map(|line| line.trim().strip_prefix(".version"))?;
    let (major, minor) = line.trim().split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Frees a variable's memory.
fn forget((address, _): &(u64, usize)) {
    space::remove(*address);
}

/// Allocates a module's variables, with their initial values.
fn place<'a>(context: &Context, parsed: &Parsed<'a>) -> Answer<HashMap<&'a str, (u64, usize)>> {
    let mut all = HashMap::new();
    let in_memory = |variable: &&Variable<'a>| {
        matches!(variable.space, Space::Global | Space::Const) && variable.size > 0
    };
    for variable in parsed.variables.iter().filter(in_memory) {
        let address = space::allocate(Owner::Module(context.device), variable.size, None)?;
        all.insert(variable.name, (address, variable.size));
    }
    for variable in parsed.variables.iter().filter(in_memory) {
        let (address, size) = all[variable.name];
        let mut bytes = Vec::with_capacity(size);
        for initial in &variable.initial {
            let value = match initial {
                Initial::Bits(bits) => *bits,
                Initial::Address(name, offset) => {
                    let known = all.get(name).ok_or(CUresult::CUDA_ERROR_INVALID_PTX)?;
                    known.0.wrapping_add_signed(*offset)
                }
            };
            bytes.extend_from_slice(&value.to_le_bytes()[..variable.element]);
        }
        bytes.resize(size, 0);
        let Some(block) = space::find(address) else { continue };
        // SAFETY: a block of just this size, which nothing else uses yet.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), block.range.host(address) as *mut u8, size) };
    }
    Ok(all)
}

fn handle_of(kernel: &Arc<Kernel>) -> Answer<CUfunction> {
    KERNELS.find(|own| Arc::ptr_eq(own, kernel)).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
}

fn module_of(handle: CUmodule) -> Answer<Arc<Module>> {
    let context = current()?;
    let module = MODULES.get(handle)?;
    if module.context.device != context.device {
        return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
    Ok(module)
}

driver! {
    fn cuModuleLoadData(module: Out<CUmodule>, image: *const c_void) {
        let mut log = String::new();
        let loaded = load(current()?, image, &mut log);
        if !log.is_empty() {
            eprintln!("emulated CUDA device: {log}");
        }
        module.put(loaded?)?;
    }

    fn cuModuleLoadDataEx(
        module: Out<CUmodule>,
        image: *const c_void,
        count: u32,
        options: In<u32>,
        values: *mut *mut c_void,
    ) {
        let mut log = String::new();
        let loaded = load(current()?, image, &mut log);
        let options = options.get_all(count as usize)?;
        let all = In(values.cast_const()).get_all(count as usize)?;
        let place = |wanted: Option_| options.iter().position(|option| *option == wanted as u32);
        let logs = [
            (Option_::CU_JIT_ERROR_LOG_BUFFER, Option_::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, log.as_str()),
            (Option_::CU_JIT_INFO_LOG_BUFFER, Option_::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, ""),
        ];
        for (buffer, size, text) in logs {
            if let (Some(buffer), Some(size)) = (place(buffer), place(size)) {
                // An unsigned int in the place of a pointer; the size of the output is returned there.
                let room = all[size].addr() as u32;
                if room > 0 && !all[buffer].is_null() {
                    Out(all[buffer].cast::<c_char>()).put_text(text, room as i32)?;
                }
                let written = text.len().min((room as usize).saturating_sub(1));
                Out(values.wrapping_add(size)).put(std::ptr::without_provenance_mut(written))?;
            }
        }
        module.put(loaded?)?;
    }

    fn cuModuleUnload(module: CUmodule) {
        let found = module_of(module)?;
        let synchronized = found.context.synchronize();
        MODULES.remove(module)?;
        for kernel in lock(&found.kernels).drain(..) {
            KERNELS.remove(handle_of(&kernel)?)?;
        }
        found.variables.values().for_each(forget);
        synchronized?;
    }

    fn cuModuleGetFunction(function: Out<CUfunction>, module: CUmodule, name: In<c_char>) {
        let (module, name) = (module_of(module)?, name.text()?);
        let kernels = lock(&module.kernels);
        let kernel = kernels.iter().find(|kernel| kernel.function().name == name);
        let kernel = kernel.ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        kernel.is_loaded.store(true, Relaxed);
        function.put(handle_of(kernel)?)?;
    }

    fn cuModuleGetFunctionCount(count: Out<u32>, module: CUmodule) {
        count.put(lock(&module_of(module)?.kernels).len() as u32)?;
    }

    fn cuModuleEnumerateFunctions(functions: Out<CUfunction>, count: u32, module: CUmodule) {
        let module = module_of(module)?;
        let handles: Answer<Vec<CUfunction>> =
            lock(&module.kernels).iter().take(count as usize).map(handle_of).collect();
        functions.put_all(handles?)?;
    }

    fn cuModuleGetGlobal_v2(address: Out<CUdeviceptr>, bytes: Out<usize>, module: CUmodule, name: In<c_char>) {
        let (module, name) = (module_of(module)?, name.text()?);
        let found = module.variables.get(&name).ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        address.put_if(found.0);
        bytes.put_if(found.1);
    }

    fn cuFuncGetName(name: Out<*const c_char>, function: CUfunction) {
        // Kept as long as its module: this driver keeps the names of kernels that were asked for.
        let kernel = Kernel::of(function)?;
        let kept: &'static CStr = Box::leak(kernel.name.clone().into_boxed_c_str());
        name.put(kept.as_ptr())?;
    }

    fn cuFuncGetParamInfo(function: CUfunction, number: usize, offset: Out<usize>, size: Out<usize>) {
        let kernel = Kernel::of(function)?;
        let found = kernel.function().parameters.get(number).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        offset.put(found.0)?;
        size.put_if(found.1);
    }

    fn cuFuncGetModule(module: Out<CUmodule>, function: CUfunction) {
        let kernel = Kernel::of(function)?;
        let holds = |candidate: &Arc<Module>| lock(&candidate.kernels).iter().any(|own| Arc::ptr_eq(own, &kernel));
        module.put(MODULES.find(holds).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)?)?;
    }

    fn cuFuncGetAttribute(value: Out<i32>, attribute: u32, function: CUfunction) {
        let kernel = Kernel::of(function)?;
        if !kernel.is_loaded.load(Relaxed) {
            return Err(CUresult::CUDA_ERROR_FUNCTION_NOT_LOADED);
        }
        let found = match attribute {
            x if x == Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK as u32 => kernel.most_threads(),
            x if x == Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES as u32 => kernel.function().shared as u32,
            x if x == Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES as u32 => kernel.function().local as u32,
            x if x == Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS as u32 => 32,
            x if x == Attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION as u32 => 80,
            x if x == Attribute::CU_FUNC_ATTRIBUTE_BINARY_VERSION as u32 => 81,
            x if x == Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as u32 => {
                kernel.most_dynamic.load(Relaxed)
            }
            _ if attribute < Attribute::CU_FUNC_ATTRIBUTE_MAX as u32 => 0,
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        };
        value.put(found as i32)?;
    }

    fn cuFuncSetAttribute(function: CUfunction, attribute: u32, value: i32) {
        let kernel = Kernel::of(function)?;
        match attribute {
            x if x == Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as u32 => {
                let value = u32::try_from(value).map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)?;
                if value + kernel.function().shared as u32 > device::SHARED_MOST {
                    return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
                }
                kernel.most_dynamic.store(value, Relaxed);
            }
            x if x == Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT as u32 => {}
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        count: Out<i32>,
        function: CUfunction,
        threads: i32,
        dynamic: usize,
    ) {
        let kernel = Kernel::of(function)?;
        let threads = u32::try_from(threads).ok().filter(|threads| *threads > 0);
        let threads = threads.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let fits = threads <= kernel.most_threads();
        count.put(if fits { kernel.occupancy(threads, dynamic) as i32 } else { 0 })?;
    }

    fn cuOccupancyMaxPotentialBlockSize(
        blocks: Out<i32>,
        threads: Out<i32>,
        function: CUfunction,
        dynamic_of: CUoccupancyB2DSize,
        dynamic: usize,
        limit: i32,
    ) {
        let kernel = Kernel::of(function)?;
        let most = match u32::try_from(limit) {
            Ok(limit) if limit > 0 => limit.min(kernel.most_threads()),
            _ => kernel.most_threads(),
        };
        // The largest block of those that keep most threads busy.
        let (mut best, mut busiest) = ((0, 0), 0);
        for threads in (1..=most.div_ceil(32)).map(|warps| (32 * warps).min(most)) {
            let dynamic = match dynamic_of {
                // SAFETY: the caller's function of a block's size, which the driver may call.
                Some(function) => unsafe { function(threads as i32) },
                None => dynamic,
            };
            let blocks = kernel.occupancy(threads, dynamic);
            if blocks > 0 && blocks * threads >= busiest {
                (best, busiest) = ((blocks * MULTIPROCESSORS, threads), blocks * threads);
            }
        }
        blocks.put(best.0 as i32)?;
        threads.put(best.1 as i32)?;
    }
}
