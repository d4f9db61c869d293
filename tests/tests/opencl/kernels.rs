//! Definitions and implementations of these tests.

use flash::kernel::views::{Item, Phased, Read, ReadWrite, Reduce, Sum, Window, Write};
use flash::kernel::{CpuItem, ImplementationEntry, Index, KernelDefinition};
use flash::{KernelDefinition, kernel};
use flash_core::abi::{
    Attr, DOOR_ITEM, DOOR_WHOLE, Implementation, KIND_EXT_BIN, KIND_EXT_SRC, KIND_INT_BIN, KIND_INT_SRC, Str,
};
use serde_json::{Value, json};

/// y += a x
#[derive(KernelDefinition)]
#[kernel(name = "opencl.scale", dims(i), part_by(i))]
pub struct Scale<'a> {
    a: f32,
    x: Item<'a, Read<f32>>,
    y: Item<'a, ReadWrite<f32>>,
}

/// The same, which exists only as a binary.
#[derive(KernelDefinition)]
#[kernel(name = "opencl.binary", dims(i), part_by(i))]
pub struct Binary<'a> {
    a: f32,
    x: Item<'a, Read<f32>>,
    y: Item<'a, ReadWrite<f32>>,
}

/// Adds the value of an index to its element.
#[derive(KernelDefinition)]
#[kernel(name = "opencl.grid", dims(x, y, z))]
pub struct Grid<'a> {
    out: Item<'a, ReadWrite<u64>>,
}

/// The same of two dimensions.
#[derive(KernelDefinition)]
#[kernel(name = "opencl.plane", dims(x, y))]
pub struct Plane<'a> {
    out: Item<'a, ReadWrite<u64>>,
}

/// Writes the neighbours of an element into another array.
#[derive(KernelDefinition)]
#[kernel(name = "opencl.around", dims(x, y), part_by(y, from = stencil(x = 1, y = 1)))]
pub struct Around<'a> {
    a: u64,
    from: Window<'a, Read<u64>>,
    to: Item<'a, Write<u64>>,
}

/// A stencil over cells and steps.
#[derive(KernelDefinition)]
#[kernel(name = "opencl.spread", dims(i, step), sort_by(step), part_by(i, cells = stencil(i = 1)))]
pub struct Spread<'a> {
    #[along(i)]
    cells: Phased<'a, u64>,
}

/// Every cell becomes its right neighbour, plus 1.
#[derive(KernelDefinition)]
#[kernel(name = "opencl.wrap", dims(i, step), sort_by(step))]
pub struct Wrap<'a> {
    #[along(i)]
    cells: Phased<'a, u64>,
}

/// A sum.
#[derive(KernelDefinition)]
#[kernel(name = "opencl.total", dims(i), part_by(i))]
pub struct Total<'a> {
    values: Item<'a, Read<u64>>,
    sum: Reduce<'a, ReadWrite<u64>, Sum>,
}

/// A dimension that indexes nothing, and may have large values.
#[derive(KernelDefinition)]
#[kernel(name = "opencl.far", dims(i, far), group_by(far))]
pub struct Far<'a> {
    #[along(i)]
    out: Item<'a, ReadWrite<u32>>,
}

/// Counts work items, of which there may be many.
#[derive(KernelDefinition)]
#[kernel(name = "opencl.many", dims(x, y, z))]
pub struct Many<'a> {
    count: Reduce<'a, ReadWrite<u64>, Sum>,
}

/// A scalar that is too large for any device together with the rest.
#[derive(KernelDefinition)]
#[kernel(name = "opencl.large", dims(i))]
pub struct Large<'a> {
    a: [u64; 1024],
    out: Item<'a, Write<u64>>,
}

/// On the CPU.
pub struct Cpu;

#[kernel]
impl CpuItem<Scale<'_>> for Cpu {
    fn item(_: Index<1>, k: ScaleItem<'_>) {
        *k.y += k.a * *k.x;
    }
}

#[kernel]
impl CpuItem<Spread<'_>> for Cpu {
    fn item(at: Index<2>, mut k: SpreadItem<'_>) {
        let (i, last) = (at[0], k.cells.len() - 1);
        let mut sum = 3 * k.cells.get(i) + at[1] as u64 + i as u64;
        if i > 0 {
            sum = sum.wrapping_add(k.cells.get(i - 1));
        }
        if i < last {
            sum = sum.wrapping_add(k.cells.get(i + 1));
        }
        k.cells.set(sum);
    }
}

#[kernel]
impl CpuItem<Total<'_>> for Cpu {
    fn item(_: Index<1>, mut k: TotalItem<'_>) {
        k.sum.put(*k.values);
    }
}

/// The text of all kernels.
pub const TEXT: &str = include_str!("kernels.cl");

/// An implementation for the devices of these tests. It lives for ever.
fn made<D: KernelDefinition>(
    name: &'static str,
    (kind, payload): (u32, &'static [u8]),
    attributes: Value,
) -> &'static Implementation {
    // An implementation that does not cooperate needs all of every array, and must declare it.
    let door = if attributes["cooperating"] == true || name == "wrong door" { DOOR_ITEM } else { DOOR_WHOLE };
    let attributes = attributes.as_object().expect("attributes are an object");
    let attributes: Vec<Attr> = attributes
        .iter()
        .map(|(key, value)| Attr {
            key: Str::new(key.clone().leak()),
            value: Str::new(value.to_string().leak()),
            required: 0,
            reserved: 0,
        })
        .collect();
    let attributes = attributes.leak();
    Box::leak(Box::new(Implementation {
        struct_size: size_of::<Implementation>() as u32,
        door,
        kind,
        // The default where none is named.
        priority: i32::from(name == "text"),
        kernel: Str::new(D::NAME),
        name: Str::new(name),
        target: Str::new(crate::TARGET),
        descriptor: Str::new(flash_core::kernel::descriptor_of::<D>().to_json().leak()),
        cpu_features: Str::new(""),
        attributes: attributes.as_ptr(),
        attribute_count: attributes.len(),
        share: None,
        span: None,
        payload: payload.as_ptr(),
        payload_len: payload.len(),
        definition: Str::new(""),
    }))
}

/// An implementation in the text of all kernels.
pub fn source<D: KernelDefinition>(name: &'static str, attributes: Value) -> &'static Implementation {
    given::<D>(name, TEXT, attributes)
}

/// An implementation in a text of its own.
pub fn given<D: KernelDefinition>(
    name: &'static str,
    text: &'static str,
    attributes: Value,
) -> &'static Implementation {
    made::<D>(name, (KIND_INT_SRC, text.as_bytes()), attributes)
}

/// A path, leaked, that the environment names: the process that runs the test has set it.
fn path(variable: &str) -> &'static [u8] {
    let path = std::env::var(variable).unwrap_or_else(|_| "nowhere/at.bin".into());
    path.leak().as_bytes()
}

/// Names the file of the implementation `binary file`.
pub const BINARY: &str = "FLASH_TEST_BINARY";
/// Names the file of the implementation `source file`.
pub const SOURCE: &str = "FLASH_TEST_SOURCE";

const BROKEN: &str = "/* It does not compile. */\n\n__kernel void scale(float a) { nobody_knows(a); }\n";
const OTHER: &str = "__kernel void scale(float a) {}\n";
const WRONG_SIZE: &str = "__kernel void scale(double a, __global const float *x, __global float *y) {}\n";
const INCLUDES: &str = "#include \"flash_device.h\"\n\nFLASH_KERNEL scale(float a, FLASH_GLOBAL const float *x,\n    FLASH_GLOBAL TYPE *y, FLASH_ARGS) {\n    FLASH_FOR_ITEMS { FLASH_AT(y, FLASH_INDEX32(0)) += a * FLASH_AT(x, FLASH_INDEX32(0)); }\n}\n";

/// It divides integers: a function of a library, on some devices.
const DIVISIONS: &str =
    "FLASH_KERNEL scale(float a, FLASH_GLOBAL const float *x, FLASH_GLOBAL float *y, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0);
        FLASH_AT(y, i) += (uint)(a * a * FLASH_AT(x, i)) / (uint)a + (uint)a % (uint)(FLASH_AT(x, i) + 1);
    }
}
";
/// It converts integers to doubles: another such function.
const CONVERSIONS: &str =
    "FLASH_KERNEL scale(float a, FLASH_GLOBAL const float *x, FLASH_GLOBAL float *y, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0);
        FLASH_AT(y, i) += convert_double_rte((ulong)a * (ulong)FLASH_AT(x, i));
    }
}
";

/// It uses only indices: its table has listed values, or there is none.
const INDICES: &str = "FLASH_KERNEL grid(FLASH_GLOBAL flash_u64 *out, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 x = FLASH_INDEX(0), y = FLASH_INDEX(1), z = FLASH_INDEX(2);
        FLASH_AT(out, x + 9 * (y + 7 * z)) += 1 + x + 1000 * y + 1000000 * z;
    }
}
";

/// The same with indices of 32 bits.
fn indices32() -> &'static str {
    INDICES.replace("FLASH_INDEX(", "FLASH_INDEX32(").leak()
}

/// The number that [`BOXES`] and [`PLANE`] add in the program for boxes.
pub const BOX: u64 = 1_000_000_000;

/// They show which program runs.
const BOXES: &str = "FLASH_KERNEL grid(FLASH_GLOBAL flash_u64 *out, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
#ifdef FLASH_GRID
        FLASH_AT(out, FLASH_OWN_INDEX(out)) += 1000000000;
#endif
        FLASH_AT(out, FLASH_OWN_INDEX(out)) += 1 + FLASH_INDEX(0) + 1000 * FLASH_INDEX(1) + 1000000 * FLASH_INDEX(2);
    }
}
";
const PLANE: &str = "FLASH_KERNEL plane(FLASH_GLOBAL flash_u64 *out, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
#ifdef FLASH_GRID
        FLASH_AT(out, FLASH_OWN_INDEX(out)) += 1000000000;
#endif
        FLASH_AT(out, FLASH_INDEX32(0) * FLASH_STRIDE(out, 0) + FLASH_INDEX32(1) * FLASH_STRIDE(out, 1)) +=
            1 + FLASH_INDEX(0) + 1000 * FLASH_INDEX(1);
    }
}
";
const AROUND: &str = "FLASH_KERNEL around(flash_u64 a, FLASH_GLOBAL const flash_u64 *from, FLASH_GLOBAL flash_u64 *to, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 x = FLASH_INDEX(0), y = FLASH_INDEX(1), width = FLASH_STRIDE(to, 1), i = x + width * y;
        flash_u64 sum = a + FLASH_AT(from, i);
        if (x > 0)
            sum += 2 * FLASH_AT(from, i - 1);
        if (i + width < FLASH_LEN(to))
            sum += 3 * FLASH_AT(from, i + width);
        FLASH_AT(to, i) = sum;
    }
}
";

const MANY: &str = "FLASH_KERNEL many(FLASH_GLOBAL flash_u64 *count, FLASH_ARGS) {
    FLASH_FOR_ITEMS { FLASH_REDUCE(count, 0) += FLASH_INDEX32(0) < FLASH_INDEX32(2) + 10; }
}
";

/// Run by run: an element of neighbours is adjacent to the last one's.
const RUNS: &str = "FLASH_KERNEL grid(FLASH_GLOBAL flash_u64 *out, FLASH_ARGS) {
    FLASH_FOR_RUNS {
        FLASH_GLOBAL flash_u64 *to = &FLASH_AT(out, FLASH_OWN_INDEX(out));
        const flash_u64 first = 1 + FLASH_INDEX(0) + 1000 * FLASH_INDEX(1) + 1000000 * FLASH_INDEX(2);
        for (flash_u64 i = 0; i < FLASH_RUN(); ++i)
            to[i * FLASH_STRIDE(out, 0)] += first + i;
    }
}
";

/// All work items of a thread, one by one.
const ITEMS: &str = "FLASH_KERNEL grid(FLASH_GLOBAL flash_u64 *out, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        FLASH_AT(out, FLASH_OWN_INDEX(out)) += 1 + FLASH_INDEX(0) + 1000 * FLASH_INDEX(1) + 1000000 * FLASH_INDEX(2);
    }
}
";

/// A run is a block, if it is consecutive.
const RUNS_OF_BLOCKS: &str =
    "FLASH_KERNEL total(FLASH_GLOBAL const flash_u64 *values, FLASH_GLOBAL flash_u64 *sum, FLASH_ARGS) {
    FLASH_FOR_RUNS {
        for (flash_u64 i = 0; i < FLASH_RUN(); ++i)
            FLASH_REDUCE(sum, 0) += FLASH_AT(values, FLASH_INDEX(0) + i);
    }
}
";

/// The length of runs.
const LONG_RUNS: &str = "FLASH_KERNEL far(FLASH_GLOBAL flash_u32 *out, FLASH_ARGS) {
    FLASH_FOR_RUNS {
        for (flash_u64 i = 0; i < FLASH_RUN(); ++i)
            FLASH_AT(out, FLASH_INDEX(0) + i) = (flash_u32)FLASH_RUN();
    }
}
";

/// The group's size, of the device's or the launch's choice, and of the text's.
const GROUPS: &str = "FLASH_KERNEL far(FLASH_GLOBAL flash_u32 *out, FLASH_ARGS) {
    FLASH_FOR_ITEMS { FLASH_AT(out, FLASH_INDEX(0)) = (flash_u32)FLASH_GROUP_SIZE(); }
}
";
const GROUPS_OF_32: &str = "__attribute__((reqd_work_group_size(32, 1, 1)))
FLASH_KERNEL far(FLASH_GLOBAL flash_u32 *out, FLASH_ARGS) {
    FLASH_FOR_ITEMS { FLASH_AT(out, FLASH_INDEX(0)) = (flash_u32)FLASH_GROUP_SIZE(); }
}
";

/// The kind of device that the program is compiled for.
const FPGA: &str = "FLASH_KERNEL far(FLASH_GLOBAL flash_u32 *out, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
#ifdef FLASH_FPGA
        FLASH_AT(out, FLASH_INDEX(0)) = 7;
#else
        FLASH_AT(out, FLASH_INDEX(0)) = 5;
#endif
    }
}
";

/// All elements by one work item, without FLASH's macros.
const ONE: &str = "__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void scale(float a, __global const float *x, __global float *y) {
    for (int i = 0; i < 100; ++i) y[i] += a * x[i];
}
";

/// The program that the environment names, inside the implementation itself.
fn program() -> &'static [u8] {
    std::fs::read(std::env::var(BINARY).unwrap_or_default()).unwrap_or_default().leak()
}

macro_rules! implementations {
    ($($made:ident::<$kernel:ty>($($argument:expr),*);)*) => {
        $(flash_core::__private::inventory::submit! {
            ImplementationEntry {
                kernel: <$kernel as KernelDefinition>::NAME,
                build: || $made::<$kernel>($($argument),*),
                module: module_path!(),
            }
        })*
    };
}

implementations! {
    source::<Scale<'_>>("text", json!({ "cooperating": true }));
    source::<Scale<'_>>("plain", json!({ "entry": "scale_plain" }));
    source::<Scale<'_>>("wrong door", json!({ "entry": "scale_plain" }));
    source::<Scale<'_>>("one item", json!({ "cooperating": true, "single_work_item": true }));
    source::<Scale<'_>>("no entry", json!({ "cooperating": true, "entry": "nobody" }));
    source::<Scale<'_>>("attribute", json!({ "cooperating": "yes" }));
    source::<Scale<'_>>("extension", json!({ "cooperating": true, "requires": "cl_khr_fp64 cl_nobody_has" }));
    given::<Scale<'_>>("index32", INCLUDES, json!({ "cooperating": true, "defines": { "TYPE": "float" } }));
    given::<Scale<'_>>("divisions", DIVISIONS, json!({ "cooperating": true }));
    given::<Scale<'_>>("conversions", CONVERSIONS, json!({ "cooperating": true, "requires": "cl_khr_fp64" }));
    given::<Scale<'_>>("broken", BROKEN, json!({ "file": "my/broken.cl" }));
    given::<Scale<'_>>("other", OTHER, json!({}));
    given::<Scale<'_>>("wrong size", WRONG_SIZE, json!({}));
    made::<Scale<'_>>("no file", (KIND_EXT_SRC, b"nowhere/scale.cl"), json!({}));
    made::<Scale<'_>>("no program", (KIND_INT_BIN, b"this is no program"), json!({}));
    given::<Scale<'_>>("one plain item", ONE, json!({ "single_work_item": true }));
    made::<Scale<'_>>("binary", (KIND_INT_BIN, program()), json!({ "cooperating": true }));
    made::<Binary<'_>>("binary", (KIND_INT_BIN, program()), json!({ "cooperating": true, "entry": "scale" }));
    made::<Scale<'_>>("binary file", (KIND_EXT_BIN, path(BINARY)), json!({ "cooperating": true }));
    made::<Scale<'_>>("source file", (KIND_EXT_SRC, path(SOURCE)), json!({ "cooperating": true, "entry": "scale" }));
    source::<Grid<'_>>("text", json!({ "cooperating": true }));
    source::<Grid<'_>>("plain", json!({ "entry": "grid_plain" }));
    source::<Grid<'_>>("one item", json!({ "cooperating": true, "single_work_item": true }));
    given::<Grid<'_>>("indices", INDICES, json!({ "cooperating": true }));
    given::<Grid<'_>>("boxes", BOXES, json!({ "cooperating": true }));
    given::<Plane<'_>>("boxes", PLANE, json!({ "cooperating": true }));
    given::<Around<'_>>("boxes", AROUND, json!({ "cooperating": true }));
    given::<Grid<'_>>("indices32", indices32(), json!({ "cooperating": true }));
    source::<Spread<'_>>("text", json!({ "cooperating": true }));
    source::<Wrap<'_>>("text", json!({ "cooperating": true }));
    source::<Total<'_>>("text", json!({ "cooperating": true }));
    source::<Total<'_>>("groups", json!({ "cooperating": true, "work_group_size": 64, "entry": "total" }));
    source::<Far<'_>>("text", json!({ "cooperating": true }));
    given::<Far<'_>>("group sizes", GROUPS, json!({ "cooperating": true }));
    given::<Far<'_>>("group sizes of 32", GROUPS_OF_32, json!({ "cooperating": true }));
    given::<Far<'_>>("fpga", FPGA, json!({ "cooperating": true, "single_work_item": true }));
    given::<Grid<'_>>("runs", RUNS, json!({ "cooperating": true, "items_per_thread": 3 }));
    given::<Grid<'_>>("items of threads", ITEMS, json!({ "cooperating": true, "items_per_thread": 3 }));
    given::<Total<'_>>("runs", RUNS_OF_BLOCKS, json!({ "cooperating": true, "items_per_thread": 1 }));
    given::<Far<'_>>("runs", LONG_RUNS, json!({ "cooperating": true, "items_per_thread": 16 }));
    given::<Far<'_>>("runs of one item", LONG_RUNS,
        json!({ "cooperating": true, "items_per_thread": 16, "single_work_item": true }));
    given::<Total<'_>>("runs of groups", RUNS_OF_BLOCKS,
        json!({ "cooperating": true, "items_per_thread": 1, "work_group_size": 2 }));
    given::<Scale<'_>>("runs", ONE, json!({ "items_per_thread": 8 }));
    given::<Many<'_>>("text", MANY, json!({ "cooperating": true }));
    source::<Far<'_>>("index32", json!({ "cooperating": true, "index32": true }));
    source::<Large<'_>>("text", json!({ "cooperating": true, "entry": "grid" }));
}
