//! A kernel may return a `Result`: an error fails the launch as a panic does, with its own words and, of one
//! work item, its index.

use flash::kernel;
use flash::kernel::prelude::Team;
use flash::kernel::views::{Item, Read, Row, Write};
use flash::kernel::{CpuItem, CpuSpan, CpuTeam, CpuWhole, Index, Space, Span, Threads};
use flash::prelude::*;
use flash::{Code, Error};
use flash_tests::{APART, in_process};
use std::num::ParseFloatError;

/// The numbers that are written in rows of digits.
#[derive(KernelDefinition)]
#[kernel(name = "results.read", dims(x, y), part_by(y))]
struct Numbers<'a> {
    from: Item<'a, Read<Row<u8>>>,
    to: Item<'a, Write<f64>>,
}

struct ByFunctions;

/// An error of a library, with words that are made when it happens.
#[kernel]
impl CpuItem<Numbers<'_>> for ByFunctions {
    fn item(_: Index<2>, k: NumbersItem<'_>) -> Result<(), ParseFloatError> {
        let text = String::from_utf8_lossy(k.from);
        k.to.set(text.parse()?);
        Ok(())
    }
}

const SHAPE: [usize; 2] = [3, 40];

fn digits(wrong: Option<usize>) -> FlashMemory<u8> {
    let bytes = (0..120).flat_map(|i| if Some(i) == wrong { *b"1x" } else { *b"25" });
    bytes.collect::<FlashMemory<u8>>().with_shape([2, SHAPE[0], SHAPE[1]]).unwrap()
}

#[flash_tests::test]
fn an_error_has_its_words_and_the_work_item() {
    let rt = flash_tests::runtime_of_functions();
    let to = FlashMemory::<f64>::zeroed(SHAPE);
    rt.submit(Numbers::of(&digits(None), &to)).exec(SHAPE).unwrap();
    assert_eq!(to.to_vec().unwrap(), [25.0; 120]);
    let error = rt.submit(Numbers::of(&digits(Some(3 * 25 + 1)), &to)).exec(SHAPE).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.code(), Some(Code::Kernel), "{text}");
    assert!(text.contains("failed") && text.contains("invalid float literal"), "{text}");
    assert!(text.contains("work item [1, 25]") && !text.contains("panicked"), "{text}");
    assert!(matches!(to.read(), Err(Error::Poisoned)));
    // What it poisoned is written anew.
    rt.submit(Numbers::of(&digits(None), &to)).exec(SHAPE).unwrap();
    assert_eq!(to.to_vec().unwrap(), [25.0; 120]);
}

#[test]
fn so_it_is_over_two_devices_with_memories_of_their_own() {
    in_process(APART[2], || {
        assert_eq!(flash_tests::runtime().devices().len(), 2);
        an_error_has_its_words_and_the_work_item();
    });
}

/// By every other door.
#[derive(KernelDefinition)]
#[kernel(name = "results.doors", dims(i))]
struct Doors<'a, T: flash::kernel::Element> {
    most: T,
    from: Item<'a, Read<T>>,
    to: Item<'a, Write<T>>,
}

#[kernel(name = "team", priority = 3)]
impl CpuTeam<Doors<'_, u8>, 4> for ByFunctions {
    fn team(_: Index<1>, k: DoorsItem<'_, u8>, _: &mut Team<4>) -> Result<(), String> {
        if *k.from > k.most {
            return Err(format!("{} in a team", k.from));
        }
        k.to.set(*k.from);
        Ok(())
    }
}

#[kernel(name = "span")]
impl CpuSpan<Doors<'_, u16>> for ByFunctions {
    fn span(run: Span<1>, k: DoorsSpan<'_, u16>) -> Result<(), Box<dyn std::error::Error>> {
        assert_eq!(run.len(), k.to.len());
        if let Some(large) = k.from.iter().find(|value| **value > k.most) {
            return Err(format!("{large} in a span").into());
        }
        k.to.copy_from_slice(k.from);
        Ok(())
    }
}

#[kernel(name = "whole", for(u32, i32))]
impl<T: flash::kernel::Element + PartialOrd + std::fmt::Display> CpuWhole<Doors<'_, T>> for ByFunctions {
    fn whole(_: Space<'_, Index<1>>, k: DoorsWhole<'_, T>, _: Threads<'_>) -> Result<(), String> {
        let all = k.from.iter().zip(k.to.iter_mut());
        all.into_iter().try_for_each(|(from, to)| {
            *to = *from;
            if *from > k.most { Err(format!("{from} in a whole")) } else { Ok(()) }
        })
    }
}

fn by_a_door<T: flash::kernel::Element + From<u8>>(words: &str) {
    let rt = flash_tests::runtime_of_functions();
    let mut from: Vec<T> = (0..100).map(T::from).collect();
    let to = FlashMemory::from(vec![T::from(0); 100]);
    rt.submit(Doors::of(T::from(99), &from[..], &to)).exec([100]).unwrap();
    from[70] = T::from(200);
    let error = rt.submit(Doors::of(T::from(99), &from[..], &to)).exec([100]).unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
    assert!(matches!(to.read(), Err(Error::Poisoned)));
}

#[flash_tests::test]
fn all_doors_have_results() {
    by_a_door::<u8>("200 in a team, at work item [70]");
    by_a_door::<u16>("200 in a span");
    by_a_door::<u32>("200 in a whole");
    by_a_door::<i32>("200 in a whole");
}
