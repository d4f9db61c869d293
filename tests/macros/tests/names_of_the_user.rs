//! Names that generated code could stumble over.
#![allow(dead_code, non_camel_case_types)]

use flash_core::kernel::views::{Item, Read, ReadWrite, Whole, Write};

mod core {}
mod std {}
struct Option;
struct Vec;
struct Into;
struct Some;
struct None;
struct str;
struct usize;
trait Copy {}
trait Clone {}

#[derive(Debug, ::std::clone::Clone, ::std::marker::Copy, flash_core::kernel::Element)]
#[repr(C)]
/// A run.
pub struct Run {
    bound: u32,
}

#[derive(flash_core::KernelDefinition)]
#[kernel(name = "names", dims(r#loop, i), group_by(only(i)))]
struct Names<'k> {
    r#type: u32,
    run: Run,
    i: u32,
    len: u32,
    args: Whole<'k, Read<Run>>,
    #[along(r#loop)]
    index: Item<'k, Read<u32>>,
    to: Item<'k, ReadWrite<u32>>,
    bound: Item<'k, Write<u32>>,
}

#[derive(flash_core::KernelDefinition)]
#[kernel(name = "scalars", dims(x))]
struct Scalars {
    n: u32,
}

#[test]
fn names_of_the_user_are_not_stumbled_over() {
    use flash_core::kernel::KernelDefinition;
    assert_eq!(Names::arguments()[0].name, "type");
    assert_eq!(Names::DIMENSIONS, ["loop", "i"]);
    let _ = Scalars::of(3);

    #[derive(flash_core::KernelDefinition)]
    #[kernel(name = "local", dims(x))]
    struct Local<'a> {
        a: Item<'a, Write<u32>>,
    }
    assert_eq!(Local::NAME, "local");
}
