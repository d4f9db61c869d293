//! Mistakes and their error messages.

use super::{core, derive};
use proc_macro2::TokenStream;
use quote::quote;

/// Every message, in order.
fn errors(tokens: TokenStream) -> Vec<String> {
    match derive(tokens, &core()) {
        Ok(tokens) => panic!("no error: {tokens}"),
        Err(errors) => errors.into_iter().map(|error| error.to_string()).collect(),
    }
}

/// The one message of a definition with these keys and fields.
fn error(keys: TokenStream, fields: TokenStream) -> String {
    let errors = errors(quote!(#[kernel(#keys)] struct D<'a, T: Real> { #fields }));
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.into_iter().next().unwrap()
}

fn head(keys: TokenStream) -> String {
    error(keys, quote!(x: Item<'a, Write<T>>))
}

fn field(fields: TokenStream) -> String {
    error(quote!(name = "d", dims(x, y)), fields)
}

#[test]
fn what_is_no_struct_with_fields_is_refused() {
    for tokens in [
        quote!(
            enum D {
                A,
            }
        ),
        quote!(
            struct D;
        ),
        quote!(
            struct D(u8);
        ),
        quote!(
            struct D {}
        ),
        quote!(union D { a: u8 }),
    ] {
        let errors = errors(tokens);
        assert!(errors[0].contains("a struct with named fields"), "{errors:?}");
    }
}

#[test]
fn a_wrong_head_is_refused() {
    for (keys, expected) in [
        (quote!(dims(x)), "the kernel has no name: add `name ="),
        (quote!(name = "d"), "the kernel has no dimensions: add `dims(..)`"),
        (quote!(name = "", dims(x)), "a kernel's name is words"),
        (quote!(name = "a..b", dims(x)), "a kernel's name is words"),
        (quote!(name = "1a", dims(x)), "a kernel's name is words"),
        (quote!(name = "a b", dims(x)), "a kernel's name is words"),
        (quote!(name = "d", dims()), "this list is empty: name the dimensions"),
        (quote!(name = "d", dims), "write `dims(x, y)`"),
        (quote!(name = "d", dims(3)), "expected the name of a dimension"),
        (quote!(name = "d", dims(x, x)), "dimension `x` is there twice"),
        (quote!(name = "d", name = "e", dims(x)), "this key is there twice"),
        (quote!(name = "d", dims(x), sort_by(z)), "no dimension `z`: the kernel has `x`"),
        (quote!(name = "d", dims(x), sort_by(x, x)), "dimension `x` is there twice"),
        (quote!(name = "d", dims(x), group_by(z)), "no dimension `z`"),
        (quote!(name = "d", dims(x), group_by(only(z))), "no dimension `z`"),
        (quote!(name = "d", dims(x), group_by(z = { 1 })), "no dimension `z`"),
        (quote!(name = "d", dims(x), group_by(x = {})), "this list is empty"),
        (quote!(name = "d", dims(x), group_by(x = 3)), "list the values before which"),
        (quote!(name = "d", dims(x), group_by()), "this list is empty: write `group_by(a, b)`"),
        (quote!(name = "d", dims(x), group_by(only(x), x)), "write `group_by(a, b)`"),
        (quote!(name = "d", dims(x), along(x)), "unknown key: a definition has"),
        (
            quote!(name = "d", dims(a, b, c, d, e, f, g, h, i), sort_by(a, b, c, d, e, f, g, h, i)),
            "at most 8",
        ),
    ] {
        let text = head(keys.clone());
        assert!(text.contains(expected), "{keys}: {text}");
    }
}

#[test]
fn a_missing_a_second_and_an_empty_attribute_are_refused() {
    assert!(
        errors(quote!(
            struct D {
                n: u32,
            }
        ))[0]
            .contains("`D` has no kernel name and dimensions: add `#[kernel(")
    );
    assert!(
        errors(quote!(
            #[kernel]
            struct D {
                n: u32,
            }
        ))[0]
            .contains("write `#[kernel(name")
    );
    let second = quote!(
        #[kernel(name = "d", dims(x))]
        #[kernel(name = "d", dims(x))]
        struct D {
            n: u32,
        }
    );
    assert!(errors(second)[0].contains("a second `#[kernel(..)]`"));
}

#[test]
fn wrong_implementations_are_refused() {
    let error = |keys: TokenStream, generics: TokenStream| {
        let errors = errors(quote! {
            #[kernel(name = "d", dims(x))]
            #[implementations(#keys)]
            struct D<#generics> {
                n: u32,
            }
        });
        assert_eq!(errors.len(), 1, "{errors:?}");
        errors.into_iter().next().unwrap()
    };
    for (keys, expected) in [
        (quote!(), "no file with code is named: write `#[implementations("),
        (quote!(cooperating), "no file with code is named"),
        (quote!(opencl = "d.cl"; cooperating), "no file with code is named"),
        (quote!(metal = "d.metal"), "unknown key `metal`; available: `opencl`, `cuda`"),
        (quote!("d.cl"), "expected one of `opencl`, `cuda`"),
        (quote!(opencl), "write `opencl = \"kernel.cl\"`"),
        (quote!(opencl = 3), "write `opencl = \"kernel.cl\"`"),
        (quote!(opencl = "d.cu"), "expected a file for `opencl`, which ends with `.cl`, `.c`, `.aocx`"),
        (quote!(cuda = ".cu"), "expected a file for `cuda`, which ends with `.cu`, `.c`, `.ptx`"),
        (quote!(opencl = "d.cl", opencl = "e.cl"), "`opencl` is there twice"),
        (quote!(opencl = []), "this list is empty: write `opencl = \"kernel.cl\"`"),
        (quote!(opencl = ["d.cl", 3]), "expected string literal"),
        (quote!(opencl = ["d.cl", "d.spv"]), "a binary stands alone"),
        (quote!(cuda = ["d.ptx", "d.cu"]), "a binary goes before no other file"),
        (quote!(opencl = "d.cl", cooperating = true), "write `cooperating` alone"),
        (quote!(opencl = "d.cl", work_group_size = 0), "write `work_group_size = 64`"),
        (quote!(opencl = "d.cl", entry = d), "write `entry = \"..\"`"),
        (quote!(opencl = "d.cl", name = "d e"), "the name of an implementation is made of"),
        (quote!(opencl = "d.cl", for(f32)), "no element type to choose: remove `for(..)`"),
    ] {
        let text = error(keys.clone(), quote!());
        assert!(text.contains(expected), "{keys}: {text}");
    }
    for (keys, expected) in [
        (quote!(opencl = "d.cl"), "for which `T` is it? List the element types"),
        (quote!(opencl = "d.cl", for()), "this list is empty"),
        (quote!(opencl = "d.cl", for((f32, f64))), "the definition has 1 parameters, this entry 2"),
        (quote!(opencl = "d.cl", for(f32, f32)), "`d.cl` for `opencl` is there twice: give one of them"),
    ] {
        let text = error(keys.clone(), quote!(T: Real));
        assert!(text.contains(expected), "{keys}: {text}");
    }
    let twice = quote! {
        #[kernel(name = "d", dims(x))]
        #[implementations(opencl = "fast/d.cl"; cuda = "d.cu", opencl = "d.cl")]
        struct D {
            n: u32,
        }
    };
    assert!(errors(twice)[0].contains("`d.cl` for `opencl` is there twice"));
    let two = quote! {
        #[kernel(name = "d", dims(x))]
        #[implementations(opencl = "d.cl")]
        #[implementations(cuda = "d.cu")]
        struct D {
            n: u32,
        }
    };
    assert!(errors(two)[0].contains("a second `#[implementations(..)]`: write one"));
    let bare = quote! {
        #[kernel(name = "d", dims(x))]
        #[implementations]
        struct D {
            n: u32,
        }
    };
    assert!(errors(bare)[0].contains("write `#[implementations(opencl = "));
}

#[test]
fn a_wrong_field_is_refused() {
    for (fields, expected) in [
        (quote!(#[along(x)] n: u32), "a scalar is the same for all work items"),
        (quote!(#[along(x)] a: Whole<'a, Read<T>>), "a `Whole` is seen whole"),
        (quote!(#[along(x)] a: Scatter<'a, T>), "a `Scatter` is seen whole"),
        (quote!(#[along(z)] a: Item<'a, Read<T>>), "no dimension `z`: the kernel has `x`, `y`"),
        (quote!(#[along(x, x)] a: Item<'a, Read<T>>), "dimension `x` is there twice"),
        (quote!(#[along()] a: Item<'a, Read<T>>), "no dimension indexes this array"),
        (quote!(#[along] a: Item<'a, Read<T>>), "write `#[along(x, y)]`"),
        (quote!(#[along(0)] a: Item<'a, Read<T>>), "write `#[along(x, y)]`"),
        (quote!(#[along(x)] #[along(y)] a: Item<'a, Read<T>>), "a second `#[along(..)]`"),
        (quote!(#[along(y, x)] a: Phased<'a, T>), "dimension 0, `x`, must be the first here, or absent"),
        (quote!(#[phased(x = [read])] a: Item<'a, ReadWrite<T>>), "only a `Phased` is used by stage"),
        (quote!(#[phased(x = [peek])] a: Phased<'a, T>), "a stage is `read` or `write`, not `peek`"),
        (quote!(#[phased(x = [])] a: Phased<'a, T>), "this list is empty"),
        (quote!(#[phased(z = [read])] a: Phased<'a, T>), "no dimension `z`"),
        (quote!(#[phased] a: Phased<'a, T>), "write `#[phased(stage = [read, write])]`"),
        (quote!(#[phased(x = read)] a: Phased<'a, T>), "write `#[phased(stage = [read, write])]`"),
        (
            quote!(a: Item<'a, T>),
            "write `Item<'a, Read<T>>`, `Item<'a, ReadWrite<T>>` or `Item<'a, Write<T>>`",
        ),
        (quote!(a: Item<'a, [f32; 3]>), "write `Item<'a, Read<[f32; 3]>>`"),
        (quote!(a: Item<'a>), "write `Item<'a, Read<T>>`"),
        (quote!(a: Whole<'a, f32>), "write `Whole<'a, Read<f32>>`"),
        (
            quote!(a: Whole<'a, Write<f32>>),
            "a `Whole` is only read: write `Whole<'a, Read<f32>>`; to write use",
        ),
        (quote!(a: Whole<'a, Read<Row<f32>>>), "a `Whole` has no rows"),
        (quote!(a: Phased<'a, ReadWrite<T>>), "write `Phased<'a, T>`"),
        (quote!(a: Scatter<'a, Row<T>>), "write `Scatter<'a, T>`"),
        (quote!(a: Ragged<'a, T>), "this says nothing of access: write `Ragged<'a, Read<T>>` or"),
        (quote!(a: Ragged<'a, Write<f32>>), "count as read: write `Ragged<'a, Read<f32>>` or"),
        (quote!(a: Ragged<'a, Read<Row<f32>>>), "a `Ragged` has rows, of elements: write"),
        (quote!(#[along(x)] a: Ragged<'a, Read<f32>>), "Write `#[rows(start)]`"),
        (quote!(#[rows(b)] a: Ragged<'a, Read<f32>>), "name it, as in `#[along(row)]`"),
        (quote!(#[along(x)] #[rows] a: Ragged<'a, Read<f32>>), "write `#[rows(start)]`, with the argument"),
        (quote!(#[along(x)] #[rows(b)] a: Ragged<'a, Read<f32>>), "no argument `b`"),
        (
            quote!(#[along(x)] #[rows(b)] a: Ragged<'a, Read<f32>>, #[structure] b: Whole<'a, Read<u64>>),
            "`b` must stand before what has its rows",
        ),
        (quote!(b: Whole<'a, Read<u64>>, #[along(x)] #[rows(b)] a: Ragged<'a, Read<f32>>), "make `b` one"),
        (quote!(#[rows(b)] a: Scatter<'a, f32>), "only a `Ragged` has rows that another argument names"),
        (quote!(a: Reduce<'a, T, Sum>), "this says nothing of access: write `Reduce<'a, Write<T>, Sum>`"),
        (quote!(a: Reduce<'a, [T], Max>), "write `Reduce<'a, Write<[T]>, Max>`, or `ReadWrite`"),
        (quote!(a: Reduce<'a, Read<T>, Sum>), "a `Reduce` is written: write `Reduce<'a, Write<T>, Sum>`"),
        (quote!(a: Reduce<'a, Write<Row<T>>, Sum>), "no rows: write `Reduce<'a, Write<[T]>, Sum>`"),
        (
            quote!(a: Reduce<'a, ReadWrite<T>>),
            "nothing of the operation: write `Reduce<'a, ReadWrite<T>, Sum>`",
        ),
        (quote!(a: Reduce<'a, T>), "nothing of the operation: write `Reduce<'a, Write<T>, Sum>`"),
        (quote!(a: Reduce<'a>), "write `Reduce<'a, Write<T>, Sum>`, with the type of the accumulator"),
        (quote!(a: Reduce<'a, Write<[bool]>, Sum>), "use `u32`, 0 or 1"),
        (quote!(#[along(x)] a: Reduce<'a, Write<[T]>, Sum>), "all work items put into a `Reduce`"),
        (quote!(a: Window<'a, T>), "a `Window` is only read, and says so: write `Window<'a, Read<T>>`"),
        (
            quote!(a: Window<'a, ReadWrite<f32>>),
            "a `Window` is only read: write `Window<'a, Read<f32>>`; to write use",
        ),
        (quote!(a: Window<'a, Read<Row<f32>>>), "a `Window` has no rows"),
        (quote!(a: Window<'a>), "write `Window<'a, Read<T>>`"),
        (quote!(a: Uniform<'a, T>), "a `Uniform` is only read, and says so: write `Uniform<'a, Read<T>>`"),
        (quote!(a: Uniform<'a>), "write `Uniform<'a, Read<T>>`"),
        (quote!(#[along(x)] a: Uniform<'a, Read<T>>), "a `Uniform` is one element for all work items"),
        (quote!(#[along(x)] a: Window<'a, Read<T>>), "a `Window` is seen by all work items"),
        (quote!(#[structure] a: Item<'a, Read<u64>>), "partition maps look into arrays that all work items"),
        (quote!(#[structure(x)] a: Whole<'a, Read<u64>>), "write `#[structure]`, without more"),
        (quote!(a: &'a [T]), "use `Whole<'a, Read<T>>`, or `Item<'a, Read<T>>`"),
        (quote!(a: &'a mut [T]), "use `Item<'a, ReadWrite<T>>` or `Item<'a, Write<T>>`"),
        (quote!(a: Vec<T>), "an array is `Whole<'a, Read<T>>`"),
        (quote!(a: (T, T)), "`(T, T)` is not plain data"),
        (quote!(a: bool), "use `u32`, 0 or 1"),
        (quote!(a: Item<'a, Write<bool>>), "use `u32`, 0 or 1"),
        (quote!(a: [Window<'a, Read<T>>; 0]), "as in `[Window<'a, Read<T>>; 9]`, or remove the field"),
        (quote!(a: [Window<'a, Read<T>>; N]), "as a literal, as in `[Window<'a, Read<T>>; 9]`"),
        (
            quote!(a: [[Window<'a, Read<T>>; 3]; 3]),
            "a group has one length: write `[Window<'a, Read<T>>; n]`",
        ),
        (quote!(a: [Window<'a, Write<T>>; 3]), "a `Window` is only read: write `Window<'a, Read<T>>`"),
        (quote!(#[along(x)] a: [Whole<'a, Read<T>>; 3]), "a `Whole` is seen whole"),
        (quote!(a: [Item<'a, Read<T>>; 3], a_2: u32), "`a_2` is the name of an argument of the group `a`"),
        (quote!(a: [Vec<T>; 3]), "an array is `Whole<'a, Read<T>>`"),
    ] {
        let text = field(fields.clone());
        assert!(text.contains(expected), "{fields}: {text}");
    }
}

#[test]
fn a_wrong_part_by_is_refused() {
    for (part_by, expected) in [
        (quote!(part_by), "write `part_by(y)`"),
        (quote!(part_by()), "this list is empty: write `part_by(y)`"),
        (quote!(part_by(3)), "write `part_by(y)`"),
        (quote!(part_by(x, y)), "write `part_by(y)`"),
        (quote!(part_by(z)), "no dimension `z`: the kernel has `x`, `y`"),
        (
            quote!(part_by(y, y = stencil(x = 1))),
            "no argument `y`: the kernel has `n`, `start`, `both`, `from`, `to`",
        ),
        (quote!(part_by(y, to = rows(y))), "`to` has no map: it is an `Item`"),
        (quote!(part_by(y, start = rows(y))), "`start` has no map: it is a `Whole`, which is never cut"),
        (quote!(part_by(y, n = rows(y))), "`n` has no map: it is a scalar"),
        (quote!(part_by(y, from = rows(z))), "no dimension `z`"),
        (quote!(part_by(y, from = rows())), "this list is empty: write `rows(y)`"),
        (quote!(part_by(y, from = rows(x, y))), "nothing more belongs here"),
        (quote!(part_by(y, from = stencil())), "this list is empty: write `stencil(x = 1, y = 1)`"),
        (
            quote!(part_by(y, from = stencil([1, 1]))),
            "per axis of the array, axis 0 first, write the dimension",
        ),
        (quote!(part_by(y, from = tiles(x = -1))), "per axis of the array"),
        (quote!(part_by(y, from = blocks(x))), "no map `blocks`: a map is `rows(y)`"),
        (quote!(part_by(y, from = BLOCKS)), "a function is `map = PATH`"),
        (quote!(part_by(y, from = rows(y), from = rows(y))), "`from` has a map already"),
        (quote!(part_by(y, map = A, map = B)), "a second `map`"),
        (quote!(part_by(y, from = csr_rows(y))), "write `csr_rows(row, start)`"),
        (quote!(part_by(y, from = csr_rows(y, from))), "mark that field `#[structure]`"),
        (quote!(part_by(y, from = csr_rows(y, both))), "`both` is a group: row pointers are one argument"),
        (quote!(part_by(y, both_1 = rows(y))), "no argument `both_1`"),
        (quote!(part_by(y), part_by(x)), "this key is there twice"),
    ] {
        let fields = quote!(
            n: u32,
            #[structure]
            start: Whole<'a, Read<u64>>,
            #[structure]
            both: [Whole<'a, Read<u64>>; 2],
            from: Window<'a, Read<T>>,
            to: Item<'a, Write<T>>,
        );
        let text = error(quote!(name = "d", dims(x, y), #part_by), fields);
        assert!(text.contains(expected), "{part_by}: {text}");
    }
}

#[test]
fn a_way_to_search_that_there_is_not_is_refused() {
    let ways = "write `searchable = exact`, `searchable = fuzzy` or `searchable = no`";
    for (key, expected) in [
        (quote!(searchable), ways),
        (quote!(searchable(fuzzy)), ways),
        (quote!(searchable = "fuzzy"), ways),
        (quote!(searchable = never), ways),
        (quote!(searchable = fuzzy, searchable = fuzzy), "this key is there twice"),
    ] {
        let text = error(quote!(name = "d", dims(x), #key), quote!(to: Item<'a, Write<T>>));
        assert!(text.contains(expected), "{key}: {text}");
    }
}

#[test]
fn arguments_out_of_order_are_refused_at_the_one_that_is_too_late() {
    for (fields, expected) in [
        (
            quote!(a: Item<'a, Write<T>>, n: u32),
            "`n` is only read and must stand before `a`, which is only written",
        ),
        (
            quote!(a: Scatter<'a, T>, b: Whole<'a, Read<T>>),
            "`b` is only read and must stand before `a`, which is read and written",
        ),
        (
            quote!(a: Reduce<'a, Write<T>, Sum>, b: Reduce<'a, ReadWrite<[T]>, Sum>),
            "`b` is read and written and must stand before `a`, which is only written",
        ),
        (
            quote!(a: Item<'a, Write<T>>, b: Phased<'a, T>),
            "`b` is read and written and must stand before `a`, which is only written",
        ),
    ] {
        let text = field(fields.clone());
        assert!(text.contains(expected), "{fields}: {text}");
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let errors = errors(quote! {
        #[kernel(name = "d", dims(x, x))]
        struct D<'a, 'b> { a: &'a [f32], b: bool }
    });
    assert_eq!(errors.len(), 4, "{errors:?}");
}

#[test]
fn one_lifetime_that_is_in_no_bound() {
    let two = errors(quote!(
        #[kernel(name = "d", dims(x))]
        struct D<'a, 'b> {
            n: u32,
        }
    ));
    assert!(two[0].contains("use `'a` for all of them"), "{two:?}");
    let bound = errors(quote!(
        #[kernel(name = "d", dims(x))]
        struct D<'a, T: Real + 'a> {
            n: T,
        }
    ));
    assert!(bound[0].contains("cannot stand in a bound"), "{bound:?}");
}
