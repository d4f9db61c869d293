//! `fast_math` and `unsafe(unchecked)`.

use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};
use flash_core::devices::{KernelText, texts};
use flash_tests::emulated;
use flash_tests_once::{close, compare};

#[derive(KernelDefinition)]
#[kernel(name = "once.fast", dims(i))]
struct Fast<'a> {
    x: Item<'a, Read<f32>>,
    y: Item<'a, ReadWrite<f32>>,
}

struct FastOnce;

#[kernel(devices, fast_math)]
impl CpuItem<Fast<'_>> for FastOnce {
    fn item(_: Index<1>, k: FastItem<'_>) {
        *k.y = *k.y * *k.x + (1.0 + *k.x).sqrt() / (2.0 + *k.x);
    }
}

fn text_of(kernel: &str) -> KernelText {
    texts().into_iter().find(|text| text.kernel == kernel).unwrap()
}

#[test]
fn fast_math_is_near() {
    // The instructions of estimates are not emulated.
    if emulated::is_here() {
        return;
    }
    let x: Vec<f32> = (0..1000).map(|i| i as f32 / 100.0).collect();
    close("options::fast_math_is_near", 1e-5, |rt| {
        let y = FlashMemory::from(vec![0.5_f32; 1000]);
        rt.submit(Fast::of(&x[..], &y)).exec([1000]).unwrap();
        y.to_vec().unwrap().into_iter().map(f64::from).collect()
    });
    let text = text_of("once.fast").text;
    assert!(!text.contains("FP_CONTRACT"), "{text}");
    assert!(text_of("once.neighbours").text.contains("FP_CONTRACT OFF"));
}

/// Every kind of index that is checked otherwise.
#[derive(KernelDefinition)]
#[kernel(name = "once.neighbours", dims(x, y), part_by(y, window = stencil(x = 1, y = 1)))]
struct Neighbours<'a> {
    off: u32,
    whole: Whole<'a, Read<u32>>,
    window: Window<'a, Read<u32>>,
    #[along(y)]
    row: Item<'a, Read<Row<u32>>>,
    out: Item<'a, Write<[u32; 4]>>,
}

struct NeighboursOnce;

#[kernel(devices, unsafe(unchecked))]
impl CpuItem<Neighbours<'_>> for NeighboursOnce {
    fn item(ix: Index<2>, k: NeighboursItem<'_>) {
        let (x, y) = (ix[0], ix[1]);
        let own = [k.whole[x + k.off as usize], 5];
        let [width, _] = k.window.strides();
        k.out.set([own[x % 2], k.window.at([x - 1, y + 1, 0]), k.window.get(x + 1 + y * width), k.row[x]]);
    }
}

fn neighbours(rt: &RuntimeObj, off: u32) -> Result<Vec<[u32; 4]>, Error> {
    let (w, h) = (12, 9);
    let whole: Vec<u32> = (0..w as u32).collect();
    let window = FlashMemory::from((0..w as u32 * h as u32).collect::<Vec<_>>()).with_shape([w, h])?;
    let row =
        FlashMemory::from((0..w as u32 * h as u32).map(|i| 7 * i).collect::<Vec<_>>()).with_shape([w, h])?;
    let out = FlashMemory::<[u32; 4]>::zeroed([w, h]);
    rt.submit(Neighbours::of(off, &whole[..], &window, &row, &out))
        .exec([1..w as u64 - 1, 1..h as u64 - 1])?;
    out.to_vec()
}

#[test]
fn without_checks_the_results_are_the_same() {
    compare("options::without_checks_the_results_are_the_same", |rt| neighbours(rt, 1).unwrap());
    assert!(text_of("once.neighbours").text.contains("FLASH_UNCHECKED"));
    assert!(!text_of("once.fast").text.contains("#define FLASH_UNCHECKED"));
}

#[test]
fn the_setting_checks_them_all_the_same() {
    flash_tests::in_process(&[("FLASH_CHECK_BOUNDS", "1")], || {
        let Ok(rt) = get_runtime("OPENCL") else {
            let name = "options::the_setting_checks_them_all_the_same";
            return flash_tests::skip(name, "no OpenCL device: `cargo xtask setup` makes three");
        };
        assert_eq!(neighbours(&rt, 1).unwrap().len(), 108);
        let error = neighbours(&rt, 2).unwrap_err().to_string();
        assert!(error.contains("expected an index from 0 up to, and without, 12"), "{error}");
    });
}

#[test]
fn closures_have_no_text() {
    let Ok(rt) = get_runtime("OPENCL") else {
        return flash_tests::skip(
            "options::closures_have_no_text",
            "no OpenCL device: `cargo xtask setup` makes three",
        );
    };
    let x = FlashMemory::from(vec![1.0_f32; 4]);
    let error = rt.for_each(4, x.rw(), |x| *x = 2.0).unwrap_err();
    assert!(
        matches!(error, Error::NoImplementation(_)) && error.to_string().contains("a closure"),
        "{error}"
    );
    assert_eq!(x.to_vec().unwrap(), [1.0; 4]);
}
