//! The macros of FLASH: `derive(KernelDefinition)`, `derive(Element)`, `kernel`, `register_backend`,
//! `export_plugin`.
//!
//! Each is an ordinary function from tokens to tokens, tested here. `tests/macros` tests what the compiler
//! makes of the result. `definition` is the derive, `implementation` the attribute of an impl, `backend` has
//! the two macros for authors of backends. Nothing here panics: a mistake becomes a `compile_error!` at the
//! token that has to change.

mod backend;
mod core_path;
mod definition;
mod element;
mod errors;
mod implementation;
mod keys;
mod staging;
mod tokens;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;

/// Makes a struct a kernel definition: a name, dimensions and typed arguments, without code.
///
/// ```text
/// /// Softened gravitational acceleration of every body, m/s^2.
/// #[derive(KernelDefinition)]
/// #[kernel(name = "nbody.accelerate", dims(body))]
/// pub struct Accelerate<'a, T: Real> {
///     /// Gravitational constant, m^3 kg^-1 s^-2.
///     g: T,
///     softening2: T,
///     pos: Whole<'a, Read<[T; 3]>>,
///     mass: Whole<'a, Read<T>>,
///     acc: Item<'a, Write<[T; 3]>>,
/// }
/// ```
///
/// On the struct, `#[kernel(..)]` takes
///
/// | key | meaning |
/// |---|---|
/// | `name = "nbody.accelerate"` | the kernel's name for programs and plugins; `flash.` is FLASH's own namespace |
/// | `dims(x, y)` | the dimensions of the index space; the first varies fastest |
/// | `sort_by(y)` | the order in which items run, with a barrier where the last one changes |
/// | `part_by(y)` | the dimension along which a launch is cut over several devices |
/// | `part_by(y, from = stencil(x = 1, y = 1))` | and which elements of `from` a part touches |
/// | `group_by(a, b)`, `group_by(only(a))`, `group_by(a = {3, 5})` | other barriers |
/// | `searchable = fuzzy` | also finds implementations with wider numbers; `no`: one must be named |
///
/// The default of `searchable` is `exact`.
///
/// `part_by(..)` begins with the dimension (without one: the slowest that carries no barrier). A launch that
/// cannot be cut along it, such as one with a barrier there, runs whole. Then follow
/// maps for `Window`s, for what `Phased`s read beside their own elements, and for `Scatter`s:
///
/// | map | elements for the index values `a..b` |
/// |---|---|
/// | `rows(y)` | `a..b` along axis 1, all along axis 0 |
/// | `columns(x)` | `a..b` along axis 0, all along axis 1 |
/// | `tiles(x = 32, y = 16)` | `a * 32..b * 32` along axis 0 (of `x`), and so on |
/// | `stencil(x = 1, y = 1)` | `a - 1..b + 1` along axis 0 (of `x`), and so on |
/// | `csr_rows(row, start)` | `start[a]..start[b]`, where `start` is marked `#[structure]` |
/// | `map = PATH` | the result of a function that is made with `partition_map!` |
///
/// Parts of `csr_rows` get equal numbers of elements.
///
/// A field is a view (`Item`, `Whole`, `Window`, `Uniform`, `Ragged`, `Phased`, `Scatter`, `Reduce`, which
/// its name tells) or a scalar. Fields that are only read come first, scalars among them, then those read and
/// written, then those only written. On a field:
///
/// | attribute | meaning |
/// |---|---|
/// | `#[along(x, y)]` | the dimensions that index an `Item` or a `Phased`, axis 0 first; default: all |
/// | `#[along(y)]` | of a `Ragged`: the dimension that says which row it is |
/// | `#[phased(stage = [read, write])]` | how each value of a dimension uses a `Phased` |
/// | `#[rows(start)]` | the argument that says where the rows of a `Ragged` begin |
/// | `#[structure]` | partition maps, and rows of a `Ragged`, may look into this `Whole` |
///
/// A field that is an array of a view is a group: `[Window<'a, Read<f32>>; 9]` is nine arguments, one after
/// the other, with one map and one `#[along(..)]`. `of` takes an array for it, and in the structs of the
/// doors it is an array of what one argument is there. By themselves, as in messages and in the parameters
/// of code for devices, the arguments of a group `from` are called `from_0`, `from_1` and so on. `from`
/// stands for all of them in `part_by(..)` and in the maps of `partition_map!`. An array of anything else is
/// a scalar.
///
/// Code for devices lies in files beside the definition. A second attribute names them, with `;` between the
/// entries of different files:
///
/// ```text
/// #[implementations(opencl = "nbody.cl", cooperating, for(f32, f64))]
/// #[implementations(opencl = "any.cl", cooperating; opencl = "board.aocx", device = "..", single_work_item)]
/// ```
///
/// | key | meaning |
/// |---|---|
/// | `opencl = "nbody.cl"`, `cuda = "nbody.cu"` | the file: source or binary |
/// | `target = "my-isa"`, `source = "k.txt"` (or `binary`) | a file for devices of any other kind |
/// | `for(f32, f64)` | the element types to register, for a definition with a type parameter |
/// | `cooperating` | it takes `FLASH_ARGS` |
/// | `entry = "accelerate"` | the function; default: the last part of the kernel's name |
/// | `alignment = 64` | launches are cut at multiples of this many positions of the dimension |
/// | `work_group_size = 64` | work items of a work-group; default: what the device prefers |
/// | `threads_per_item = 32` | threads that share each work item, next to each other; default: 1 |
/// | `items_per_thread = 8` | a thread has a run of work items, a multiple of this many |
/// | `single_work_item` | the loop over work items is in the kernel (FPGAs) |
/// | `grid_barrier` | its text has `FLASH_FOR_PHASES` |
/// | `bounds_checked` | it does not cooperate, and checks its bounds itself |
/// | `index32` | of a binary that uses `FLASH_INDEX32` |
/// | `strides` | it finds its own elements by `FLASH_OWN_INDEX` alone, and so takes views with gaps |
/// | `requires = "cl_khr_int64_base_atomics"` | extensions that the device must have |
/// | `build_options = "-cl-mad-enable"` | for the device's compiler |
/// | `name`, `priority`, `vendor`, `device`, `architecture`, `version` | as for `#[kernel(..)]` on an impl |
///
/// - *Files.* Source is compiled when the kernel is first used; a `.c` is one text for both targets. Binaries
///   are `.aocx`, `.bin` and `.spv`; `.ptx`, `.cubin` and `.fatbin`. The default of `name` is the file's
///   name. In the source, parameter `T` is `FLASH_T`.
/// - A kernel with `cooperating` runs in any order, phase by phase and cut; one without it runs only whole
///   spaces of one phase.
/// - With `items_per_thread` the loop is `FLASH_FOR_RUNS`.
/// - With `grid_barrier` one launch runs several phases where the device can, with barriers of all threads
///   between them (GPUs).
/// - With `bounds_checked` any `work_group_size` will do, since the kernel checks whether its thread is
///   inside the index space.
/// - With `index32` launches whose indices do not fit are refused. For source text this is detected.
/// - `requires` need not name the extensions for double precision: they are known.
///
/// For a definition `Accelerate` it generates `Accelerate::of(..)`, which takes the arguments in order; a
/// constant per dimension, with which a kernel looks up its index, `index[Accelerate::BODY]` (in code for any
/// `T`, `index[Accelerate::<T>::BODY]`); and the arguments' structs for the doors, `AccelerateItem` (of work
/// items and teams), `AccelerateSpan` and `AccelerateWhole`.
#[proc_macro_derive(KernelDefinition, attributes(kernel, implementations, along, phased, rows, structure))]
pub fn kernel_definition(input: TokenStream) -> TokenStream {
    finish(core_path::core().and_then(|core| definition::derive(input.into(), &core)))
}

/// Makes a struct of numbers an element, which kernels take as scalar and in arrays.
///
/// ```text
/// #[derive(Clone, Copy, Element)]
/// #[repr(C)]
/// struct Particle {
///     position: [f32; 3],
///     mass: f32,
/// }
/// ```
///
/// All of its fields are elements, and it has no padding. Plugins and recordings know it as `crate::Type`,
/// whatever module it is in; `#[element(name = "physics::Particle")]` gives it another name. Two types of one
/// name whose fields differ are not taken for each other. The derive implements `bytemuck::Pod` and
/// `bytemuck::Zeroable`, too.
#[proc_macro_derive(Element, attributes(element))]
pub fn element(input: TokenStream) -> TokenStream {
    finish(core_path::core().and_then(|core| element::derive(input.into(), &core)))
}

/// Lets kernels with `#[kernel(devices)]` use a struct: its fields are numbers, `bool`, arrays, tuples or
/// other such structs.
///
/// ```text
/// #[derive(Clone, Copy, Staged)]
/// struct Complex {
///     re: f32,
///     im: f32,
/// }
/// ```
#[proc_macro_derive(Staged)]
pub fn staged(input: TokenStream) -> TokenStream {
    finish(core_path::core().and_then(|core| staging::structure::derive(input.into(), &core)))
}

/// Registers an implementation of a kernel: `impl CpuItem<..>`, `CpuSpan<..>` or `CpuWhole<..>`, or
/// `unsafe impl DeviceFunction<..>`, for a unit struct. The impl stays as written, but that the body of
/// `item` and `team` are `#[inline(always)]`: only the loop over work items calls them, which is compiled for
/// any CPU and for those with AVX2.
///
/// ```text
/// pub struct Plain;
///
/// #[kernel(for(f32, f64))]
/// impl<T: Real> CpuItem<Accelerate<'_, T>> for Plain {
///     fn item(_: Index<1>, k: AccelerateItem<'_, T>) { /* .. */ }
/// }
/// ```
///
/// | key | meaning |
/// |---|---|
/// | `devices` | of a `CpuItem`: its body is written for OpenCL and CUDA, too |
/// | `fast_math` | that text may contract and reorder floating-point operations, and estimate functions |
/// | `unsafe(unchecked)` | that text does not check indices: the author vouches for them |
/// | `for(f32, f64)` | the element types to register, for an impl with a type parameter |
/// | `target = "my-isa"` | the kind of device; default: `cpu` |
/// | `priority = 10` | the highest wins among implementations that fit; default 0 |
/// | `cpu_features = "avx2,fma"` | what the machine must have |
/// | `library = "libopenblas.so.0"` | a shared library that it calls and that the loader must find |
/// | `alignment = 64` | launches are cut at multiples of this many positions of the dimension |
/// | `name = "blocked"` | name among the kernel's implementations; default: the struct's, in snake case |
/// | `vendor`, `device`, `architecture`, `version` `= ".."` | the devices it is for |
///
/// An impl with two type parameters takes pairs: `for((f32, u32), (f64, u64))`. With an `alignment` all parts
/// but the last are whole blocks or vectors. The shares of threads begin at multiples of it, too (default:
/// 16; of `CpuItem`, 1 where items take long).
///
/// Where the loader finds no library of the name, the implementation is no candidate; a list of names,
/// `library = ["libcublas.so.13", "libcublas.so.12"]`, means one of them. The implementation loads the
/// library itself.
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let item = Tokens::from(item);
    let expanded =
        core_path::core().and_then(|core| implementation::kernel(attribute.into(), item.clone(), &core));
    match expanded {
        Ok(tokens) => tokens.into(),
        // The item stays, so that no other error follows.
        Err(error) => {
            let mut tokens = error.into_compile_error();
            tokens.extend(implementation::without_kernel(item));
            tokens.into()
        }
    }
}

/// A function that kernels with `#[kernel(devices)]` call: besides the function it makes the one that writes
/// its text, so that `use` of the function brings both.
///
/// ```text
/// #[kernel_fn]
/// fn square(x: f32) -> f32 {
///     x * x
/// }
/// ```
#[proc_macro_attribute]
pub fn kernel_fn(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let item = Tokens::from(item);
    let expanded =
        core_path::core().and_then(|core| staging::kernel_fn(attribute.into(), item.clone(), &core));
    expanded
        .unwrap_or_else(|error| {
            let mut tokens = error.into_compile_error();
            // The function stays, so that no other error follows.
            tokens.extend(item);
            tokens
        })
        .into()
}

/// Links a backend into the program or plugin: `register_backend!(MyBackend);`.
#[proc_macro]
pub fn register_backend(input: TokenStream) -> TokenStream {
    finish(core_path::backend().and_then(|path| backend::register(input.into(), &path)))
}

/// Makes the crate a plugin: `export_plugin!();` exports the backends and implementations that are registered
/// in this crate, `export_plugin!(my_backend, my_kernels);` those of the listed crates, too.
///
/// What other crates register, such as a library of kernels that the plugin calls, is for its own use: it
/// replaces nothing in the program. A listed crate that registers nothing is an error when the plugin is
/// loaded.
#[proc_macro]
pub fn export_plugin(input: TokenStream) -> TokenStream {
    finish(core_path::backend().and_then(|path| backend::export(input.into(), &path)))
}

/// A name of the program's in texts.
fn definition_name(ident: &syn::Ident) -> String {
    syn::ext::IdentExt::unraw(ident).to_string()
}

fn finish(expanded: syn::Result<Tokens>) -> TokenStream {
    expanded.unwrap_or_else(syn::Error::into_compile_error).into()
}
