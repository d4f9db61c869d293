//! Work items that own rows.

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
