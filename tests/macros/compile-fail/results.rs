//! What a kernel may return, and what of it has a text.

use flash_core::kernel::prelude::*;

#[derive(KernelDefinition)]
#[kernel(name = "result", dims(x))]
struct Double<'a> {
    a: Item<'a, ReadWrite<u32>>,
}

struct OfANumber;

#[kernel]
impl CpuItem<Double<'_>> for OfANumber {
    fn item(_: Index<1>, k: DoubleItem<'_>) -> u32 {
        *k.a *= 2;
        *k.a
    }
}

#[kernel_fn]
fn half(a: u32) -> Result<u32, &'static str> {
    if a % 2 == 0 { Ok(a / 2) } else { Err("an odd number") }
}

struct OfAVariable;

#[kernel(devices)]
impl CpuItem<Double<'_>> for OfAVariable {
    fn item(_: Index<1>, k: DoubleItem<'_>) -> Result<(), u32> {
        if *k.a == 3 {
            return Err(*k.a);
        }
        Ok(())
    }
}

struct WithoutResult;

#[kernel(devices)]
impl CpuItem<Double<'_>> for WithoutResult {
    fn item(_: Index<1>, k: DoubleItem<'_>) {
        *k.a = half(*k.a)?;
    }
}

struct OfTheWords;

#[kernel(devices)]
impl CpuItem<Double<'_>> for OfTheWords {
    fn item(_: Index<1>, k: DoubleItem<'_>) -> Result<(), &'static str> {
        match half(*k.a) {
            Ok(a) => *k.a = a,
            Err(words) => return Err(words),
        }
        Ok(())
    }
}

fn main() {}
