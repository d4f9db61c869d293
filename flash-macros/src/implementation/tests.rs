//! What the attribute registers and refuses.

use super::{kernel, snake_case, without_kernel};
use crate::tokens::text;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

fn written(attribute: TokenStream, item: TokenStream) -> String {
    let tokens = kernel(attribute, item, &quote!(::flash_core)).unwrap_or_else(|error| panic!("{error}"));
    assert!(syn::parse2::<syn::File>(tokens.clone()).is_ok(), "no items: {tokens}");
    text(tokens)
}

fn error(attribute: TokenStream, item: TokenStream) -> String {
    match kernel(attribute, item, &quote!(::flash_core)) {
        Ok(tokens) => panic!("no error: {tokens}"),
        Err(error) => error.to_string(),
    }
}

fn generic() -> TokenStream {
    quote! {
        impl<T: Real> CpuItem<Accelerate<'_, T>> for Plain {
            fn item(_: Index<1>, k: AccelerateItem<'_, T>) {}
        }
    }
}

/// The same with its body inlined.
fn inlined() -> TokenStream {
    quote! {
        impl<T: Real> CpuItem<Accelerate<'_, T>> for Plain {
            #[inline(always)]
            fn item(_: Index<1>, k: AccelerateItem<'_, T>) {}
        }
    }
}

fn concrete() -> TokenStream {
    quote!(impl CpuSpan<Accelerate<'_, f32>> for simd::Avx512 {})
}

#[test]
fn an_entry_per_element_type_after_the_impl() {
    let out = written(quote!(for(f32, [f64; 3]), priority = -10), generic());
    assert!(out.starts_with(&text(inlined())), "{out}");
    let team = quote! {
        impl CpuTeam<Shares<'_>, 64> for Plain {
            fn team(_: Index<1>, k: SharesItem<'_>, team: &mut Team<64>) {}
        }
    };
    assert!(written(quote!(), team).contains(&text(quote!(#[inline(always)] fn team))));
    // What it says itself stays.
    assert!(written(quote!(for(f32)), inlined()).starts_with(&text(inlined())));
    assert_eq!(out.matches("submit!").count(), 2);
    for part in [
        "cpu_implementation::<Accelerate<'static, f32>>(",
        "CpuFunction::item::<Accelerate<'static, [f64; 3]>, Plain>(), \"plain\", \"cpu\", -10i32, \"\", &[]",
    ] {
        assert!(out.contains(part), "{part} is not in {out}");
    }
}

#[test]
fn a_team_has_its_number_of_threads() {
    let out = written(
        quote!(devices, for(f32)),
        quote! {
            impl<T: Real> CpuTeam<Accelerate<'_, T>, { 2 * HALF }> for Plain {
                fn team(_: Index<1>, k: AccelerateItem<'_, T>, team: &mut Team<{ 2 * HALF }>) {
                    let sum = team.reduce(k.x.len(), 0.0, |i| k.x[i], |a, b| a + b);
                    team.map(k.x, |_, x| x / sum);
                }
            }
        },
    );
    for part in [
        "CpuFunction::team::<Accelerate<'static, f32>, Plain, {2*HALF}>()",
        "::team::<{{2*HALF}}>()",
        "threads:::core::option::Option::Some(({2*HALF})as u32)",
    ] {
        assert!(out.contains(part), "{part} is not in {out}");
    }
    let text = error(quote!(), quote!(impl CpuTeam<Accelerate<'_, f32>> for Plain {}));
    assert!(text.contains("the number of threads, as in `CpuTeam<Accelerate<'_, T>, 64>`"), "{text}");
    let text = error(quote!(), quote!(impl CpuItem<Accelerate<'_, f32>, 64> for Plain {}));
    assert!(text.contains("name the kernel definition, as in `CpuItem<"), "{text}");
}

#[test]
fn a_concrete_impl_may_repeat_its_type_or_not() {
    for attribute in [quote!(), quote!(for(f32))] {
        let out = written(attribute, concrete());
        assert!(
            out.contains("CpuFunction::span::<Accelerate<'static, f32>, simd::Avx512>(), \"avx512\""),
            "{out}"
        );
    }
}

#[test]
fn several_parameters_are_replaced_at_once() {
    let item = quote!(
        impl<'x, T, U, const N: usize> CpuWhole<Def<'x, T, U, N>> for Plain {}
    );
    let out = written(quote!(for((U, T, 3), (f32, u32, 4))), item);
    assert!(out.contains("whole::<Def<'static, U, T, 3>, Plain>"), "{out}");
    assert!(out.contains("whole::<Def<'static, f32, u32, 4>, Plain>"), "{out}");
}

#[test]
fn keys_reach_the_entry() {
    let out = written(
        quote!(
            name = "two",
            target = "my-isa",
            cpu_features = "avx2, fma,",
            vendor = "AuthenticAMD",
            alignment = 64,
            device = "*"
        ),
        concrete(),
    );
    assert!(
        out.contains(
            r#""two", "my-isa", 0i32, "avx2,fma", &[("vendor", "AuthenticAMD"), ("alignment", "64"), ("device", "*")]"#
        ),
        "{out}"
    );
}

#[test]
fn a_library_may_have_several_names() {
    let out = written(quote!(library = "libfast.so.1"), concrete());
    assert!(out.contains(r#"&[("library", "libfast.so.1")]"#), "{out}");
    let out = written(quote!(library = ["libfast.so.2", "libfast.so.1"]), concrete());
    assert!(out.contains(r#"&[("library", "libfast.so.2,libfast.so.1")]"#), "{out}");
    for library in [quote!(""), quote!("a,b"), quote!([]), quote!(["a", ""]), quote!(libfast)] {
        let text = error(quote!(library = #library), concrete());
        assert!(text.contains("libopenblas.so.0"), "{library}: {text}");
    }
}

#[test]
fn a_function_for_a_device_is_registered_as_such() {
    let item = quote!(
        unsafe impl<T: Real> DeviceFunction<Accelerate<'_, T>> for VendorsOwn {}
    );
    let out = written(quote!(for(f32), priority = 50, library = "libfast.so.1"), item.clone());
    assert!(
        out.contains(
            r#"kernel::device_function::<Accelerate<'static, f32>, VendorsOwn>("vendors_own", 50i32, &[("library", "libfast.so.1")])"#
        ),
        "{out}"
    );
    assert!(error(quote!(for(f32), cpu_features = "avx2"), item).contains("`architecture`"));
}

#[test]
fn an_impl_that_is_configured_out_is_not_registered() {
    let item = concrete();
    let out = written(quote!(), quote!(#[cfg(target_arch = "x86_64")] #[inline] #item));
    assert_eq!(out.matches(r#"#[cfg(target_arch="x86_64")]"#).count(), 2, "{out}");
    assert_eq!(out.matches("#[inline]").count(), 1, "{out}");
}

#[test]
fn wrong_keys_are_refused() {
    for (keys, expected) in [
        (quote!(priority = "high"), "a priority is a whole number"),
        (quote!(priority = 1.5), "a priority is a whole number"),
        (quote!(priority = 3000000000), "a priority is a whole number"),
        (quote!(priority = 1u8), "a priority is a whole number"),
        (quote!(cpu_features = "avx512"), "`avx512` is no CPU feature"),
        (quote!(cpu_features = "AVX-2"), "there is `avx2`"),
        (quote!(cpu_features = ""), "this list is empty"),
        (quote!(cpu_features(avx2)), "write `cpu_features = \"avx2,fma\"`"),
        (quote!(name = ""), "the name of an implementation"),
        (quote!(name = two), "write `name = \"blocked\"`"),
        (quote!(target = cpu), "write `target = \"my-isa\"`"),
        (quote!(target = "a,b"), "the name of a kind of device"),
        (quote!(speed = 3), "unknown key `speed`: an implementation has"),
        (quote!(priority = 1, priority = 2), "`priority` is there twice"),
        (quote!(for()), "this list is empty: list the element types"),
        (quote!(for f32), "list the element types, for example"),
        (quote!(3), "an implementation has"),
    ] {
        let text = error(keys.clone(), generic());
        assert!(text.contains(expected), "{keys}: {text}");
    }
}

#[test]
fn wrong_lists_are_refused() {
    assert!(
        error(quote!(), generic())
            .contains("a generic impl cannot be put into an inventory: list the element types")
    );
    assert!(error(quote!(for(f32, f64, f32)), generic()).contains("this is there twice"));
    assert!(error(quote!(for((f32, f64))), generic()).contains("has 1 parameters, this entry 2"));
    let two = quote!(
        impl<T, U> CpuItem<Def<'_, T, U>> for Plain {}
    );
    assert!(error(quote!(for(f32)), two).contains("write `for((T, U), ..)`"));
    assert!(error(quote!(for(f64)), concrete()).contains("this impl is for `f32` alone: write `for(f32)`"));
    assert!(error(quote!(for(f32, f64)), concrete()).contains("this impl is for `f32` alone"));
    let none = quote!(impl CpuItem<Def<'_>> for Plain {});
    assert!(error(quote!(for(f32)), none).contains("remove `for(..)`"));
}

#[test]
fn wrong_items_are_refused() {
    for (item, expected) in [
        (
            quote!(
                fn saxpy(a: f32) {}
            ),
            "comes later: write a definition and an impl of `CpuItem`",
        ),
        (
            quote!(
                struct D {
                    n: u32,
                }
            ),
            "write `#[derive(KernelDefinition)]` above",
        ),
        (
            quote!(
                mod m {}
            ),
            "belongs on an impl of",
        ),
        (quote!(impl Plain {}), "an impl without a trait"),
        (quote!(impl Clone for Plain {}), "belongs on an impl of"),
        (quote!(impl CpuItem for Plain {}), "name the kernel definition"),
        (quote!(impl CpuItem<Def<'_>> for Plain<u8> {}), "this type has generics"),
        (quote!(impl CpuItem<Def<'_>> for [u8; 3] {}), "this is no struct"),
    ] {
        let text = error(quote!(), item.clone());
        assert!(text.contains(expected), "{item}: {text}");
    }
}

#[test]
fn next_to_an_error_the_impl_stays_and_a_definition_does_not() {
    let as_written = |item| syn::parse2::<syn::Item>(item).unwrap().to_token_stream().to_string();
    assert_eq!(without_kernel(concrete()).to_string(), as_written(concrete()));
    // Its trait has a function that returns nothing, which would be another error.
    let fails = without_kernel(quote!(
        impl CpuItem<D<'_>> for X {
            fn item(_: Index<1>, k: DItem<'_>) -> Result<(), &'static str> {
                Err("no")
            }
        }
    ));
    let settled = quote!(
        impl CpuItem<D<'_>> for X {
            fn item(_: Index<1>, k: DItem<'_>) {
                let _: Result<(), &'static str> = (move || -> Result<(), &'static str> { Err("no") })();
            }
        }
    );
    assert_eq!(fails.to_string(), as_written(settled));
    assert!(
        without_kernel(quote!(
            #[along(x)]
            struct D {
                n: u32,
            }
        ))
        .is_empty()
    );
}

#[test]
fn names_become_snake_case() {
    for (name, expected) in [
        ("Plain", "plain"),
        ("Avx512", "avx512"),
        ("TwoLoops", "two_loops"),
        ("AVX512Blocked", "avx512_blocked"),
        ("SIMDLoop", "simd_loop"),
        ("already_snake", "already_snake"),
    ] {
        assert_eq!(snake_case(name), expected);
    }
}
