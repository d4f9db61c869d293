#![allow(clippy::undocumented_unsafe_blocks, missing_docs)]
use flash::kernel;
use flash::kernel::prelude::*;
use flash::kernel::views::{Item, Read, ReadWrite, Write};
use flash::FlashMemory;
use flash_c::{kernel::*, memory::*, runtime::*, types::*};
use std::ptr::*;
use std::time::Instant;
#[derive(KernelDefinition)]
#[kernel(name = "speed.empty", dims(i))]
struct Empty<'a> { s: f32, x: Item<'a, Read<f32>>, y: Item<'a, ReadWrite<f32>>, z: Item<'a, Write<f32>> }
struct E;
#[kernel]
impl CpuItem<Empty<'_>> for E { fn item(_: Index<1>, _k: EmptyItem<'_>) {} }
#[test]
fn speed() {
    let place = tempfile::tempdir().unwrap();
    let so = place.path().join("h.so");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let st = std::process::Command::new("cc").args(["-O2", "-shared", "-fPIC", &format!("-I{root}/flash-c/include"), "-o"]).arg(&so).arg(format!("{root}/tests/bench/peers/host.c")).status().unwrap();
    assert!(st.success());
    type L = unsafe extern "C" fn(*const NamedKernelHandle, *const Value, usize, *const Dimension, usize) -> i32;
    let so = std::ffi::CString::new(so.to_str().unwrap()).unwrap();
    let f: unsafe extern "C" fn(L, *const NamedKernelHandle, *const *mut MemoryHandle, u64, i64) -> i32 = unsafe {
        let h = libc::dlopen(so.as_ptr(), libc::RTLD_NOW);
        std::mem::transmute(libc::dlsym(h, c"host_launches".as_ptr()))
    };
    let rt = flash::get_runtime("ALL_CPU").unwrap();
    let m: [FlashMemory<f32>; 3] = std::array::from_fn(|_| FlashMemory::zeroed(1));
    let [x, y, z] = &m;
    let (mut r, mut k) = (null_mut(), null_mut());
    unsafe { assert_eq!(0, flash_runtime_open(c"ALL_CPU".as_ptr(), null(), &mut r)); assert_eq!(0, flash_kernel_find(r, c"speed.empty".as_ptr(), &mut k)); }
    let ms: [*mut MemoryHandle; 3] = std::array::from_fn(|_| { let mut m = null_mut(); let n = 1u64; unsafe { assert_eq!(0, flash_memory_create(c"f32".as_ptr(), 1, &n, null(), &mut m)) }; m });
    let n = 20000;
    let mut best = [f64::MAX; 2];
    let mut ratios = vec![];
    for _ in 0..60 {
        let t = Instant::now();
        for _ in 0..n { rt.submit(Empty::of(1.0, x, y, z)).exec([1usize]).unwrap(); }
        let a = t.elapsed().as_nanos() as f64 / n as f64;
        let t = Instant::now();
        assert_eq!(0, unsafe { f(flash_kernel_launch, k, ms.as_ptr(), 1, n) });
        let b = t.elapsed().as_nanos() as f64 / n as f64;
        best = [best[0].min(a), best[1].min(b)];
        ratios.push(b / a);
    }
    ratios.sort_by(f64::total_cmp);
    println!("rust {:.1} c {:.1} ratio median {:.3} q {:.3} {:.3}", best[0], best[1], ratios[30], ratios[15], ratios[45]);
}
