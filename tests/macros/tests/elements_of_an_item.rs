//! Which elements the doors see, for arrays that follow dimension 0 at axis 0, at another, or not.

use flash_core::KernelDefinition;
use flash_core::abi::{self, Arg};
use flash_core::kernel::KernelDefinition as _;
use flash_core::kernel::views::{Item, Phased, Read, Row, Write};

#[derive(KernelDefinition)]
#[kernel(name = "elements", dims(x, y))]
struct Elements<'a> {
    factor: u64,
    unit: Item<'a, Read<u32>>,
    #[along(y, x)]
    strided: Item<'a, Read<u32>>,
    #[along(y)]
    fixed: Item<'a, Read<u32>>,
    unit_rows: Item<'a, Read<Row<u32>>>,
    #[along(y, x)]
    strided_rows: Item<'a, Read<Row<u32>>>,
    #[along(x)]
    #[phased(y = [read, write])]
    staged: Phased<'a, u32>,
    out: Item<'a, Write<u32>>,
}

/// Extents of x and y, and the length of a row.
const X: u64 = 4;
const Y: u64 = 3;
const ROW: u64 = 2;

fn array(kind: u32, data: &mut [u32], row_len: u64, strides: &'static [u64; 2]) -> Arg {
    let address = data.as_mut_ptr().cast();
    Arg {
        kind,
        access: abi::ACCESS_READ,
        space: abi::SPACE_HOST,
        element_size: 4,
        data: address,
        next: address,
        buffer: 0,
        len: data.len() as u64,
        row_len,
        strides: strides.as_ptr(),
        flags: 0,
        part: std::ptr::null(),
    }
}

#[test]
fn the_doors_see_the_elements_of_their_items() {
    let mut numbers: Vec<u32> = (0..X as u32 * Y as u32 * ROW as u32).collect();
    let mut staged: Vec<u32> = (100..100 + X as u32).collect();
    let mut out = vec![0; (X * Y) as usize];
    let mut factor = 7u64;
    let item = abi::ARG_ITEM;
    let mut arguments = [array(item, &mut numbers, 1, &[0, 0]); 8];
    arguments[0].kind = abi::ARG_SCALAR;
    arguments[0].element_size = 8;
    arguments[0].data = (&raw mut factor).cast();
    arguments[1] = array(item, &mut numbers, 1, &[1, X]);
    arguments[2] = array(item, &mut numbers, 1, &[Y, 1]);
    arguments[3] = array(item, &mut numbers, 1, &[0, 1]);
    arguments[4] = array(item, &mut numbers, ROW, &[ROW, ROW * X]);
    arguments[5] = array(item, &mut numbers, ROW, &[ROW * Y, ROW]);
    arguments[6] = array(abi::ARG_PHASED, &mut staged, 1, &[1, 0]);
    arguments[7] = array(item, &mut out, 1, &[1, X]);

    // SAFETY: the arguments are as the definition describes them and large enough for X times Y
    // items; nothing else uses the arrays.
    unsafe {
        let bound = Elements::bind(arguments.as_ptr());
        for y in 0..2 {
            let run = Elements::run(&bound, &[1, y]);
            for i in 0..3 {
                let (x, mut k) = (1 + i, Elements::item(&run, i));
                let (x32, y32) = (x as u32, y as u32);
                assert_eq!(k.factor, 7);
                assert_eq!(*k.unit, x32 + 4 * y32);
                assert_eq!(*k.strided, y32 + 3 * x32);
                assert_eq!(*k.fixed, y32);
                assert_eq!(k.unit_rows[0], 2 * (x32 + 4 * y32));
                assert_eq!(k.unit_rows.len(), 2);
                assert_eq!(k.strided_rows[1], 2 * (y32 + 3 * x32) + 1);
                match y {
                    0 => assert_eq!(k.staged.get(x), 100 + x32),
                    _ => k.staged.set(k.staged.own() + 1),
                }
                k.out.set(x32 * 10 + y32);
            }
            let mut k = Elements::span(&run, 3);
            assert_eq!(*k.unit, [1, 2, 3].map(|x| x + 4 * y as u32));
            assert_eq!((k.strided.len(), k.strided.get(2)), (3, y as u32 + 3 * 3));
            assert_eq!(*k.fixed, y as u32);
            assert_eq!(k.unit_rows.row(2), [2 * (3 + 4 * y as u32), 2 * (3 + 4 * y as u32) + 1]);
            assert_eq!(k.strided_rows.row(1)[0], 2 * (y as u32 + 3 * 2));
            assert_eq!(*k.out, [10, 20, 30].map(|x| x + y as u32));
            match y {
                0 => assert_eq!(k.staged.was(), [100, 101, 102, 103]),
                _ => assert_eq!(*k.staged.own(), [102, 103, 104]),
            }
        }
        let mut k = Elements::whole(&bound, None);
        assert_eq!(k.unit.len(), 24);
        assert_eq!(k.out[..4], [0, 10, 20, 30]);
        assert_eq!(*k.staged.own(), [100, 102, 103, 104]);
    }
}
