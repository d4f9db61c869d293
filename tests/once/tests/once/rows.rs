//! Work items that own rows.

use flash::Dim;
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash_tests_once::compare;

/// A product of matrices, of which each item has one row of the result.
#[derive(KernelDefinition)]
#[kernel(name = "once.rows_product", dims(row))]
struct Product<'a> {
    a: Item<'a, Read<Row<f32>>>,
    b: Whole<'a, Read<f32>>,
    c: Item<'a, Write<Row<f32>>>,
}

struct ProductOnce;

#[kernel(devices)]
impl CpuItem<Product<'_>> for ProductOnce {
    fn item(_: Index<1>, k: ProductItem<'_>) {
        let columns = k.c.len();
        for column in 0..columns {
            let mut sum = 0.0;
            for i in 0..k.a.len() {
                sum += k.a[i] * k.b[i * columns + column];
            }
            k.c[column] = sum;
        }
    }
}

#[test]
fn product() {
    let (rows, inner, columns) = (9, 11, 5);
    compare("rows::product", |rt| {
        let of = |n: usize| (0..n).map(|i| (i % 13) as f32 * 0.3 - 1.0).collect::<Vec<f32>>();
        let a = FlashMemory::from(of(rows * inner)).with_shape([inner, rows]).unwrap();
        let b = FlashMemory::from(of(inner * columns));
        let c = FlashMemory::from(vec![0.0_f32; rows * columns]).with_shape([columns, rows]).unwrap();
        rt.submit(Product::of(&a, &b, &c)).exec([rows as u64]).unwrap();
        c.read().unwrap().to_vec()
    });
}

/// Rows of different lengths, each divided by its largest element, which another array gets.
#[derive(KernelDefinition)]
#[kernel(name = "once.rows_ragged", dims(row))]
struct Scaled<'a> {
    #[structure]
    start: Whole<'a, Read<u64>>,
    #[rows(start)]
    from: Ragged<'a, Read<f32>>,
    #[rows(start)]
    to: Ragged<'a, ReadWrite<[f32; 2]>>,
    largest: Item<'a, Write<f32>>,
}

struct ScaledOnce;

#[kernel(devices)]
impl CpuItem<Scaled<'_>> for ScaledOnce {
    fn item(_: Index<1>, k: ScaledItem<'_>) {
        let mut largest = 0.0;
        for i in 0..k.from.len() {
            if k.from[i] > largest {
                largest = k.from[i];
            }
        }
        for i in 0..k.to.len() {
            k.to[i][1] += k.from[i] / largest;
        }
        k.largest.set(largest);
    }
}

#[test]
fn ragged() {
    let lengths = [3, 0, 1, 17, 0, 0, 5, 64, 2, 0];
    let offsets = RowOffsets::from_lengths(lengths).unwrap();
    compare("rows::ragged", |rt| {
        let elements = offsets.elements() as usize;
        let from = (0..elements).map(|i| (i % 7 + 1) as f32).collect::<FlashMemory<f32>>();
        let to = (0..elements).map(|i| [i as f32, 0.5]).collect::<FlashMemory<[f32; 2]>>();
        let largest = FlashMemory::from(vec![9.0_f32; lengths.len()]);
        rt.submit(Scaled::of(&offsets, &from, &to, &largest)).exec([Dim::from(1..lengths.len())]).unwrap();
        let mut all: Vec<f32> = to.read().unwrap().iter().flatten().copied().collect();
        all.extend(largest.read().unwrap().iter());
        all
    });
}

/// Reaches beyond its row.
#[derive(KernelDefinition)]
#[kernel(name = "once.rows_beyond", dims(row))]
struct Beyond<'a> {
    at: u64,
    #[structure]
    start: Whole<'a, Read<u64>>,
    #[rows(start)]
    to: Ragged<'a, ReadWrite<u32>>,
}

#[kernel(devices)]
impl CpuItem<Beyond<'_>> for ScaledOnce {
    fn item(_: Index<1>, k: BeyondItem<'_>) {
        k.to[k.at as usize] = 7;
    }
}

#[test]
fn beyond() {
    let offsets = RowOffsets::from_lengths([2, 3]).unwrap();
    compare("rows::beyond", |rt| {
        let to = FlashMemory::from(vec![1u32; 6]);
        rt.submit(Beyond::of(1, &offsets, &to)).exec([2usize]).unwrap();
        assert_eq!(*to.read().unwrap(), [1, 7, 1, 7, 1, 1]);
        // Of row 0 this is an element of row 1.
        let error = rt.submit(Beyond::of(2, &offsets, &to)).exec([1usize]).unwrap_err();
        assert!(error.to_string().contains("once.rows_beyond"), "{error}");
        to.write().unwrap().fill(0);
        Vec::<f32>::new()
    });
}
