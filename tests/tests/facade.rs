//! What the crate `flash` offers a host program: few names, none that only authors of backends need.

use flash_tests::plugins;

/// The names that `flash/src/lib.rs` makes public at the crate's root, without those that are hidden.
fn names() -> Vec<String> {
    let text = std::fs::read_to_string(plugins::workspace().join("flash/src/lib.rs")).expect("a source file");
    let code: String =
        text.lines().filter(|line| !line.trim_start().starts_with("//")).map(|l| format!("{l}\n")).collect();
    let mut names = Vec::new();
    let mut hidden = false;
    let mut rest = code.as_str();
    while let Some(end) = rest.find([';', '{']) {
        let item = rest[..end].trim();
        hidden |= item.contains("#[doc(hidden)]");
        // Attributes stand before the item's first word.
        let public = item.rsplit(']').next().unwrap_or(item).trim().strip_prefix("pub ");
        let (whole, after) = match public {
            Some(used) if used.starts_with("use ") => rest.split_once(';').expect("an import ends"),
            _ if rest.as_bytes()[end] == b'{' => (item, &rest[block(&rest[end..]) + end..]),
            _ => rest.split_once(';').expect("an item ends"),
        };
        if let Some(public) = public.filter(|_| !hidden) {
            match whole.split_once("pub use ") {
                Some((_, path)) => names.extend(imported(path)),
                None => names.push(public.rsplit(' ').next().unwrap_or(public).to_owned()),
            }
        }
        (rest, hidden) = (after, false);
    }
    names
}

/// Bytes of a block in braces.
fn block(text: &str) -> usize {
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate() {
        depth += i32::from(byte == b'{') - i32::from(byte == b'}');
        if depth == 0 {
            return at + 1;
        }
    }
    panic!("a block that does not end: {text}")
}

/// The names of `a::{B, C}`, `a::B` or `a as b`.
fn imported(path: &str) -> Vec<String> {
    let list = path.split_once('{').map_or(path, |(_, list)| list).trim_end().trim_end_matches('}');
    assert!(!list.contains(['{', '*']), "one level and no glob: {path}");
    let name = |path: &str| {
        let last = path.rsplit("::").next().unwrap_or(path);
        last.rsplit(" as ").next().unwrap_or(last).trim().to_owned()
    };
    list.split(',').map(name).filter(|name| !name.is_empty()).collect()
}

#[test]
fn at_most_sixty_names_are_at_the_root() {
    let mut names = names();
    for expected in ["get_runtime", "FlashMemory", "Error", "kernels", "prelude", "recording", "conformance"]
    {
        assert!(names.iter().any(|name| name == expected), "no {expected} in {names:?}");
    }
    assert!(names.len() <= 60, "{} names: {names:?}", names.len());
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "each once");
}

#[test]
fn what_is_for_authors_of_backends_is_not_at_the_root() {
    let names = names();
    for other in ["abi", "backend", "register_backend", "Backend", "descriptor", "index", "runtime", "memory"]
    {
        assert!(!names.iter().any(|name| name == other), "{other}");
    }
}

/// Compiles for a user of `flash` alone: see `tests/renamed` for one that has it by another name.
#[test]
fn the_preludes_are_enough_for_a_program() {
    use flash::kernel::prelude::*;
    use flash::prelude::*;

    /// Doubles an array.
    #[derive(KernelDefinition)]
    #[kernel(name = "facade.double", dims(i))]
    struct Double<'a> {
        array: Item<'a, ReadWrite<u32>>,
    }

    struct Plain;

    #[kernel]
    impl CpuItem<Double<'_>> for Plain {
        fn item(_: Index<1>, k: DoubleItem<'_>) {
            *k.array *= 2;
        }
    }

    let array = FlashMemory::from(vec![1u32, 2, 3]);
    let rt = get_runtime("ALL_CPU").expect("the CPU");
    rt.submit(Double::of(&array)).options(Priority(1)).exec([3]).expect("a launch");
    assert_eq!(*array.read().expect("free"), [2, 4, 6]);
}
