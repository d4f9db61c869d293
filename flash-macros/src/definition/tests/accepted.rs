//! What is read from a struct and generated for it.

use super::super::attribute::Group;
use super::super::views::{Access, Use, View};
use super::super::{AccessType, Class};
use super::{core, definition, derive};
use proc_macro2::TokenStream;
use quote::quote;

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
    assert!(syn::parse2::<syn::File>(tokens.clone()).is_ok(), "no items: {tokens}");
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
        View::Item { access: a, along: all },
        View::Item { access: b, along: yx },
        View::Item { access: c, along: stage },
        View::Phased { along: x, stages, .. },
    ] = views[..]
    else {
        panic!("other views")
    };
    let visible = |access: &AccessType| access.visible.as_ref().map(|visible| (visible.access, visible.row));
    assert_eq!(visible(a), Some((Access::Read, true)));
    assert_eq!(visible(b), Some((Access::ReadWrite, false)));
    assert_eq!(visible(c), None);
    assert_eq!((all.as_slice(), yx.as_slice()), (&[0, 1, 2][..], &[1, 0][..]));
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
    assert_eq!(group(quote!(group_by(b, a,))), Group::Dimensions(vec![1, 0]));
    assert_eq!(group(quote!(group_by(only(b)))), Group::Only(vec![1]));
    assert_eq!(group(quote!(group_by(b = {3, 5}))), Group::Into(1, vec![3, 5]));
}

#[test]
fn the_constructor_takes_the_arguments_in_order_and_lists_them() {
    let text = written(accelerate());
    for part in [
        "(g:T, pos:__pos, acc:__acc)->Self where",
        // The scalar that shows T, the last array, the others.
        "::flash_core::kernel::views::Scalar<T>:::flash_core::kernel::views::Leaves<__g_taken>",
        "Item<'a, Write<[T; 3]>>:::flash_core::kernel::views::Takes<__acc, __g_taken, __acc_taken>",
        "Whole<'a, Read<[T; 3]>>:::flash_core::kernel::views::Takes<__pos, __acc_taken, __pos_taken>",
        "- `g`, `T`: Gravitational constant.",
        "pub const BODY:::core::primitive::usize=0usize;",
        "- `acc`, `Item<'a, Write<[T; 3]>>`, along body",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

/// An `Item` of `T` may take its elements, or rows of them: other arguments come first.
#[test]
fn an_array_whose_element_type_other_arguments_show_is_taken_after_them() {
    let text = written(quote! {
        #[kernel(name = "d", dims(x))]
        struct D<'a, T: Element> {
            n: u32,
            rows: Item<'a, Read<Row<T>>>,
            table: Whole<'a, Read<T>>,
            out: Item<'a, Write<T>>,
        }
    });
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is not in {text}"));
    let order = [
        "Takes<__n, ::flash_core::kernel::views::Taken, ",
        "Takes<__rows, __n_taken, ",
        "Takes<__table, __rows_taken, ",
        "Takes<__out, __table_taken, ",
    ];
    assert!(order.map(at).is_sorted());
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
fn the_doors_of_blocks_and_tiles_are_the_compilers() {
    let text = written(quote! {
        #[kernel(name = "d", dims(x, y))]
        struct D<'a> {
            #[along(y)]
            a: Item<'a, Read<Block<u8, 16>>>,
            b: Item<'a, Write<views::Tile<u8, 4, { 2 * N }>>>,
        }
    });
    for part in [
        "pub a:<Read<Block<u8, 16>>as::flash_core::kernel::views::ItemAccess>::Item<'k>",
        "pub a:<Read<Block<u8, 16>>as::flash_core::kernel::views::ItemAccess>::Whole<'k>",
        "pub b:<Write<views::Tile<u8, 4, {2*N}>>as::flash_core::kernel::views::ItemAccess>::Slice<'k>",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    // Their access is seen all the same.
    assert!(!text.contains("assert!"), "{text}");
}

#[test]
fn a_map_of_tiles_may_have_all_along_an_axis() {
    let text = written(quote! {
        #[kernel(name = "d.e", dims(x, y), part_by(y, from = tiles(_, y = 16), same = tiles(x = 2)))]
        struct D<'a> {
            from: Window<'a, Read<f32>>,
            same: Window<'a, Read<f32>>,
            to: Item<'a, Write<f32>>,
        }
    });
    for part in ["AxisMap::All, ", "scale:16u64", "tiles([(\"x\", 2u64)])"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn part_by_is_written_as_data() {
    let text = written(quote! {
        #[kernel(name = "d.e", dims(x, y), part_by(y, from = stencil(x = 1, y = 2), value = csr_rows(y, start), map = maps::BAND))]
        struct D<'a, T> {
            #[structure]
            start: Whole<'a, Read<u64>>,
            from: Window<'a, Read<T>>,
            value: views::Window<'a, Read<T>>,
            bins: Scatter<'a, u32>,
        }
    });
    for expected in [
        r#"part_by("y").map("from", ::flash_core::descriptor::stencil([("x", 1u64), ("y", 2u64)]))"#,
        r#".map("value", ::flash_core::descriptor::csr_rows("y", "start"))"#,
        "&::flash_core::kernel::PartitionMap=&maps::BAND",
        ".as_structure()",
        "WindowView<'k, T>",
    ] {
        assert!(text.replace(" , ", ", ").contains(expected), "{expected} in {text}");
    }
    let text = written(quote! {
        #[kernel(name = "d.e", dims(x), part_by(from = tiles(x = 4)))]
        struct D<'a> { from: Window<'a, Read<f32>>, to: Item<'a, Write<f32>> }
    });
    assert!(
        text.contains(r#"::Default>::default().map("from", ::flash_core::descriptor::tiles([("x", 4u64)]))"#),
        "{text}"
    );
}

#[test]
fn a_group_is_so_many_arguments() {
    let text = written(quote! {
        #[kernel(name = "d", dims(x, y), part_by(y, from = stencil(x = 1, y = 1)))]
        struct D<'a, T> {
            n: [f32; 2],
            from: [Window<'a, Read<T>>; 3],
            sum: Reduce<'a, ReadWrite<T>, Sum>,
            #[along(y)]
            to: [Item<'a, Write<T>>; 1],
            most: [Reduce<'a, Write<[T]>, Max>; 2],
        }
    });
    for expected in [
        "pub from:[::flash_core::kernel::views::WindowView<'k, T>; 3usize]",
        "pub to:[::flash_core::kernel::views::Out<'k, T>; 1usize]",
        "Write<T>>; 1]:::flash_core::kernel::views::Takes<__to, ",
        r#"describe::<::flash_core::kernel::views::Item<'static, Write<T>>>("to_0", &[1usize]"#,
        r#"("from_2", "#,
        "array(&mut self.from[2usize])",
        "WindowView::new(&*args.add(2usize))",
        "::flash_core::kernel::views::ItemBound::new(&*args.add(5usize))",
        "REDUCES:&'static[::core::primitive::usize]=&[4usize, 6usize, 7usize]",
        "bound.most[1usize].block(rows)",
        r#".map("from", ::flash_core::descriptor::stencil("#,
    ] {
        assert!(text.replace(" , ", ", ").replace(" [", "[").contains(expected), "{expected} in {text}");
    }
}

#[test]
fn searchable_is_written_where_it_is_not_the_default() {
    for (way, expected) in [("exact", None), ("fuzzy", Some("Fuzzy")), ("no", Some("No"))] {
        let way = quote::format_ident!("{way}");
        let text = written(quote! {
            #[kernel(name = "d.e", dims(x), searchable = #way)]
            struct D<'a> { by: f32, to: Item<'a, Write<f32>> }
        });
        let variant = text.split_once(
            "const SEARCHABLE:::flash_core::descriptor::Searchable=::flash_core::descriptor::Searchable::",
        );
        let variant = variant.and_then(|(_, rest)| rest.split(';').next());
        assert_eq!(variant, expected, "{text}");
    }
}

#[test]
fn an_entry_per_file_and_element_type() {
    let out = written(quote! {
        #[kernel(name = "d.e", dims(x))]
        #[implementations(opencl = "code/d.cl", cuda = "d.cubin", cooperating, for((f32, 3), (f64, { 1 + 1 }));
            opencl = "d.cl", entry = "other", name = "other", priority = -2, work_group_size = 64,
            requires = "cl_khr_fp64", vendor = "Abacus & Sons", for((f32, 3)))]
        struct D<'a, T: Real, const N: usize> {
            n: T,
            a: Item<'a, Write<[T; N]>>,
        }
    });
    assert_eq!(out.matches("submit!").count(), 5, "{out}");
    for part in [
        "device_implementation::<D<'static, f32, 3>>(",
        "device_implementation::<D<'static, f64, {1+1}>>(",
        "target:\"opencl\", name:\"d.cl\", priority:0i32, binary:false, files:&[(\"code/d.cl\", ::core::include_str!(\"code/d.cl\").as_bytes())]",
        "target:\"cuda\", name:\"d.cubin\", priority:0i32, binary:true, files:&[(\"d.cubin\", ::core::include_bytes!(\"d.cubin\"))]",
        "(\"FLASH_T\", ::flash_core::kernel::c_type::<f32>())",
        "(\"FLASH_N\", ::core::option::Option::Some(::std::string::ToString::to_string(&(3))))",
        "flags:&[\"cooperating\"]",
        "name:\"other\", priority:-2i32,",
        "texts:&[(\"entry\", \"other\"), (\"requires\", \"cl_khr_fp64\"), (\"vendor\", \"Abacus & Sons\")]",
        "numbers:&[(\"work_group_size\", 64u32)]",
    ] {
        assert!(out.contains(part), "{part} is not in {out}");
    }
}

#[test]
fn several_texts_are_one_implementation_with_the_name_of_the_last() {
    let out = written(quote! {
        #[kernel(name = "d.e", dims(x))]
        #[implementations(opencl = ["../shared.cl", "code/d.cl"])]
        struct D {
            n: u32,
        }
    });
    assert_eq!(out.matches("submit!").count(), 1, "{out}");
    for part in [
        "name:\"d.cl\",",
        "files:&[(\"../shared.cl\", ::core::include_str!(\"../shared.cl\").as_bytes()), (\"code/d.cl\", ::core::include_str!(\"code/d.cl\").as_bytes())]",
    ] {
        assert!(out.contains(part), "{part} is not in {out}");
    }
}

#[test]
fn a_definition_without_element_types_has_one_entry_per_file() {
    let out = written(quote! {
        #[kernel(name = "d.e", dims(x))]
        #[implementations(opencl = "d.cl")]
        struct D {
            n: u32,
        }
    });
    assert!(out.contains("device_implementation::<D<>>("), "{out}");
    assert!(out.contains("defines:&[], texts:&[], numbers:&[], flags:&[]"), "{out}");
}
