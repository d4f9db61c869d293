//! What has no text is an error that says what to write.

use super::kernel_fn;
use proc_macro2::TokenStream;
use quote::quote;

fn written(function: TokenStream) -> syn::Result<String> {
    kernel_fn(TokenStream::new(), function, &quote!(::flash_core)).map(crate::tokens::text)
}

#[test]
fn what_has_no_text_says_what_to_write() {
    let cases = [
        (quote!(while let Some(x @ 1..=3) = y {}), "literals, constants, ranges"),
        (quote!(if let Place::At(x) = y {}), "literals, constants, ranges"),
        (quote!(let Err(words) = y else { return; };), "write `Err(_)`"),
        (quote!(let x = y.ok_or(z + 1);), "the error of a device is a constant"),
        (quote!(let x = matches!(y);), "a value and a pattern"),
        (
            quote!('outer: loop {
                break 'outer;
            }),
            "labels have none",
        ),
        (quote!(let x = &a[1..=2];), "write `begin..end + 1`"),
        (quote!(let x = half(y)?;), "returns `Result<T, E>`"),
        (quote!(let x = a.iter().sum();), "write `for i in 0..n`"),
        (quote!(let x = y.map(half);), "a `for`, or a `match`"),
        (quote!(unsafe { g() }), "kernels for devices are safe code"),
        (quote!(let x = "text";), "numbers and `bool`"),
        (quote!(let f = || { return 1.0; };), "a closure has no `return`"),
        (quote!(println!("x");), "`assert_ne!`, `matches!` and `panic!`"),
        (
            quote!(
                fn inner() {}
            ),
            "outside of this one, with `#[kernel_fn]`",
        ),
        (quote!(let x = loop { break 1.0; };), "into a variable before `break`"),
        (quote!(let x = Point(1.0);), "has named fields"),
        (quote!(let x: u64 = y.into();), "write `as`"),
    ];
    for (body, expected) in cases {
        let error = written(quote!(fn f() { #body })).expect_err("it has no text").to_string();
        assert!(error.contains(expected), "{body}: {error}");
    }
}

#[test]
fn a_name_that_is_no_variable_is_a_constant() {
    let text = written(quote!(
        fn f(x: f32) -> f32 {
            let y = x * SCALE;
            y
        }
    ))
    .unwrap();
    assert!(text.contains("::constant(SCALE)"), "{text}");
    assert!(text.contains("::Value::read(&x)") && text.contains("::Value::read(&y)"), "{text}");
}
