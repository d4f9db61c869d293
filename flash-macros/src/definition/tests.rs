//! What the derive reads, writes and refuses.

use super::attribute::Group;
use super::views::{Access, Use, View};
use super::{Class, Definition, derive, read};
use proc_macro2::TokenStream;
use quote::quote;

fn core() -> TokenStream {
    quote!(::flash_core)
}

fn definition(tokens: TokenStream) -> Definition {
    read(syn::parse2(tokens).unwrap()).unwrap_or_else(|error| panic!("{error}"))
}

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

fn accelerate() -> TokenStream {
    quote! {
        /// Softened gravitational acceleration.
        #[kernel(name = "nbody.accelerate", dims(body))]
        pub struct Accelerate<'a, T: Real> {
            /// Gravitational constant.
            g: T,
            pos: Whole<'a, Read<[T; 3]>>,
            acc: Item<'a, Write<[T; 3]>>,
        }
    }
}

fn written(tokens: TokenStream) -> String {
    let tokens = derive(tokens, &core()).unwrap_or_else(|error| panic!("{error}"));
    assert!(
        syn::parse2::<syn::File>(tokens.clone()).is_ok(),
        "no items: {tokens}"
    );
    crate::tokens::text(tokens)
}

#[test]
fn a_definition_is_read_as_it_is_written() {
    let d = definition(quote! {
        #[kernel(name = "d.e", dims(x, y, stage), sort_by(y, stage), group_by(only(stage)))]
        struct D<'a, T> {
            n: u32,
            a: Item<'a, Read<Row<T>>>,
            #[along(y, x)]
            b: Item<'a, ReadWrite<T>>,
            #[along(stage)]
            c: views::Item<'a, Alias<T>>,
            #[along(x)]
            #[phased(stage = [read, write])]
            p: Phased<'a, [T; 3]>,
        }
    });
    assert_eq!(d.name.value(), "d.e");
    assert_eq!(d.dimensions, ["x", "y", "stage"]);
    assert_eq!(d.order.sort, [1, 2]);
    assert_eq!(d.order.group, Group::Only(vec![2]));
    let views: Vec<&View> = d.arguments.iter().map(|argument| &argument.view).collect();
    let [
        View::Scalar,
        View::Item {
            access: a,
            along: all,
        },
        View::Item {
            access: b,
            along: yx,
        },
        View::Item {
            access: c,
            along: stage,
        },
        View::Phased {
            along: x, stages, ..
        },
    ] = views[..]
    else {
        panic!("other views")
    };
    let visible = |access: &super::AccessType| {
        access
            .visible
            .as_ref()
            .map(|visible| (visible.access, visible.row))
    };
    assert_eq!(visible(a), Some((Access::Read, true)));
    assert_eq!(visible(b), Some((Access::ReadWrite, false)));
    assert_eq!(visible(c), None);
    assert_eq!(
        (all.as_slice(), yx.as_slice()),
        (&[0, 1, 2][..], &[1, 0][..])
    );
    assert_eq!(
        [all, yx, stage, x].map(|along| Class::of(along)),
        [Class::Unit, Class::Strided, Class::Fixed, Class::Unit]
    );
    assert_eq!(*stages, Some((2, vec![Use::Read, Use::Write])));
}

#[test]
fn group_by_has_three_forms() {
    let group = |keys: TokenStream| {
        let keys = quote!(name = "d", dims(a, b), #keys);
        definition(quote!(
            #[kernel(#keys)]
            struct D<'a> {
                x: Item<'a, Write<u8>>,
            }
        ))
        .order
        .group
    };
    assert_eq!(group(quote!()), Group::AsSorted);
    assert_eq!(
        group(quote!(group_by(b, a,))),
        Group::Dimensions(vec![1, 0])
    );
    assert_eq!(group(quote!(group_by(only(b)))), Group::Only(vec![1]));
    assert_eq!(
        group(quote!(group_by(b = {3, 5}))),
        Group::Into(1, vec![3, 5])
    );
}

#[test]
fn the_constructor_takes_the_arguments_in_order_and_lists_them() {
    let text = written(accelerate());
    for part in [
        "pub fn of(g:T, pos:impl::core::convert::Into<Whole<'a, Read<[T; 3]>>>, acc:impl",
        "- `g`, `T`: Gravitational constant.",
        "- `acc`, `Item<'a, Write<[T; 3]>>`, along body",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn doors_are_documented_structs_with_the_definition_s_visibility() {
    let text = written(accelerate());
    for part in [
        "pub struct AccelerateItem<'k, T:Real>",
        "pub struct AccelerateSpan<'k, T:Real>",
        "pub struct AccelerateWhole<'k, T:Real>",
        r##"#[doc=r" Gravitational constant."]pub g:T"##,
        r#"#[doc=" Argument `acc`."]pub acc"#,
        "pub acc:::flash_core::kernel::views::Out<'k, [T; 3]>",
        "pub acc:&'k mut [[T; 3]]",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn a_definition_of_scalars_alone_needs_no_lifetime() {
    let text = written(quote! {
        #[kernel(name = "d", dims(x))]
        struct D { n: u32 }
    });
    assert!(text.contains("struct DItem{"), "{text}");
}

#[test]
fn only_what_an_alias_hides_is_asserted() {
    assert!(!written(accelerate()).contains("assert!"));
    let text = written(quote! {
        #[kernel(name = "d", dims(x))]
        struct D<'a> { a: Item<'a, Alias<u8>>, b: Item<'a, Write<u8>> }
    });
    assert!(
        text.contains("assert!(<Alias<u8>as::flash_core::kernel::views::ItemAccess>::ACCESS<="),
        "{text}"
    );
}

#[test]
fn lifetime_k_may_be_the_user_s() {
    let text = written(quote! {
        #[kernel(name = "d", dims(x))]
        struct D<'k> { a: Item<'k, Write<u8>> }
    });
    assert!(text.contains("type Item<'kernel>=DItem<'kernel>"), "{text}");
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
        assert!(
            errors[0].contains("a struct with named fields"),
            "{errors:?}"
        );
    }
}

#[test]
fn a_wrong_head_is_refused() {
    for (keys, expected) in [
        (quote!(dims(x)), "the kernel has no name: add `name ="),
        (
            quote!(name = "d"),
            "the kernel has no dimensions: add `dims(..)`",
        ),
        (quote!(name = "", dims(x)), "a kernel's name is words"),
        (quote!(name = "a..b", dims(x)), "a kernel's name is words"),
        (quote!(name = "1a", dims(x)), "a kernel's name is words"),
        (quote!(name = "a b", dims(x)), "a kernel's name is words"),
        (
            quote!(name = "d", dims()),
            "this list is empty: name the dimensions",
        ),
        (quote!(name = "d", dims), "write `dims(x, y)`"),
        (
            quote!(name = "d", dims(3)),
            "expected the name of a dimension",
        ),
        (
            quote!(name = "d", dims(x, x)),
            "dimension `x` is there twice",
        ),
        (
            quote!(name = "d", name = "e", dims(x)),
            "this key is there twice",
        ),
        (
            quote!(name = "d", dims(x), sort_by(z)),
            "no dimension `z`: the kernel has `x`",
        ),
        (
            quote!(name = "d", dims(x), sort_by(x, x)),
            "dimension `x` is there twice",
        ),
        (quote!(name = "d", dims(x), group_by(z)), "no dimension `z`"),
        (
            quote!(name = "d", dims(x), group_by(only(z))),
            "no dimension `z`",
        ),
        (
            quote!(name = "d", dims(x), group_by(z = { 1 })),
            "no dimension `z`",
        ),
        (
            quote!(name = "d", dims(x), group_by(x = {})),
            "this list is empty",
        ),
        (
            quote!(name = "d", dims(x), group_by(x = 3)),
            "list the values before which",
        ),
        (
            quote!(name = "d", dims(x), group_by()),
            "this list is empty: write `group_by(a, b)`",
        ),
        (
            quote!(name = "d", dims(x), group_by(only(x), x)),
            "write `group_by(a, b)`",
        ),
        (
            quote!(name = "d", dims(x), along(x)),
            "unknown key: a definition has",
        ),
        (
            quote!(
                name = "d",
                dims(a, b, c, d, e, f, g, h, i),
                sort_by(a, b, c, d, e, f, g, h, i)
            ),
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
    let device = quote!(
        #[kernel(name = "d", dims(x))]
        #[implementations(cuda = "d.cu")]
        struct D {
            n: u32,
        }
    );
    assert!(
        errors(device)[0]
            .contains("device implementations come with the device backends; remove this")
    );
}

#[test]
fn a_wrong_field_is_refused() {
    for (fields, expected) in [
        (
            quote!(#[along(x)] n: u32),
            "a scalar is the same for all work items",
        ),
        (
            quote!(#[along(x)] a: Whole<'a, Read<T>>),
            "a `Whole` is seen whole",
        ),
        (
            quote!(#[along(x)] a: Scatter<'a, T>),
            "a `Scatter` is seen whole",
        ),
        (
            quote!(#[along(z)] a: Item<'a, Read<T>>),
            "no dimension `z`: the kernel has `x`, `y`",
        ),
        (
            quote!(#[along(x, x)] a: Item<'a, Read<T>>),
            "dimension `x` is there twice",
        ),
        (
            quote!(#[along()] a: Item<'a, Read<T>>),
            "no dimension indexes this array",
        ),
        (
            quote!(#[along] a: Item<'a, Read<T>>),
            "write `#[along(x, y)]`",
        ),
        (
            quote!(#[along(0)] a: Item<'a, Read<T>>),
            "write `#[along(x, y)]`",
        ),
        (
            quote!(#[along(x)] #[along(y)] a: Item<'a, Read<T>>),
            "a second `#[along(..)]`",
        ),
        (
            quote!(#[along(y, x)] a: Phased<'a, T>),
            "dimension 0, `x`, must be the first here, or absent",
        ),
        (
            quote!(#[phased(x = [read])] a: Item<'a, ReadWrite<T>>),
            "only a `Phased` is used by stage",
        ),
        (
            quote!(#[phased(x = [peek])] a: Phased<'a, T>),
            "a stage is `read` or `write`, not `peek`",
        ),
        (
            quote!(#[phased(x = [])] a: Phased<'a, T>),
            "this list is empty",
        ),
        (
            quote!(#[phased(z = [read])] a: Phased<'a, T>),
            "no dimension `z`",
        ),
        (
            quote!(#[phased] a: Phased<'a, T>),
            "write `#[phased(stage = [read, write])]`",
        ),
        (
            quote!(#[phased(x = read)] a: Phased<'a, T>),
            "write `#[phased(stage = [read, write])]`",
        ),
        (
            quote!(a: Item<'a, T>),
            "write `Item<'a, Read<T>>`, `Item<'a, ReadWrite<T>>` or `Item<'a, Write<T>>`",
        ),
        (
            quote!(a: Item<'a, [f32; 3]>),
            "write `Item<'a, Read<[f32; 3]>>`",
        ),
        (quote!(a: Item<'a>), "write `Item<'a, Read<T>>`"),
        (quote!(a: Whole<'a, f32>), "write `Whole<'a, Read<f32>>`"),
        (
            quote!(a: Whole<'a, Write<f32>>),
            "a `Whole` is only read: write `Whole<'a, Read<f32>>`; to write use",
        ),
        (
            quote!(a: Whole<'a, Read<Row<f32>>>),
            "a `Whole` has no rows",
        ),
        (quote!(a: Phased<'a, ReadWrite<T>>), "write `Phased<'a, T>`"),
        (quote!(a: Scatter<'a, Row<T>>), "write `Scatter<'a, T>`"),
        (
            quote!(a: Window<'a, Read<T>>),
            "`Window` is not in this version: use `Whole<'a, Read<T>>`",
        ),
        (
            quote!(a: Reduce<'a, T, Sum>),
            "`Reduce` is not in this version: use `Scatter<'a, T>`",
        ),
        (
            quote!(a: &'a [T]),
            "use `Whole<'a, Read<T>>`, or `Item<'a, Read<T>>`",
        ),
        (
            quote!(a: &'a mut [T]),
            "use `Item<'a, ReadWrite<T>>` or `Item<'a, Write<T>>`",
        ),
        (quote!(a: Vec<T>), "an array is `Whole<'a, Read<T>>`"),
        (quote!(a: (T, T)), "`(T, T)` is not plain data"),
        (quote!(a: bool), "use `u32`, 0 or 1"),
    ] {
        let text = field(fields.clone());
        assert!(text.contains(expected), "{fields}: {text}");
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
