//! `#[kernel(devices)]` and `#[kernel_fn]`: of one body a second function, which writes the kernel's text.
//!
//! The second function has a call of `flash_core::kernel::staging` in the place of each operator, each block
//! and each read of a variable; the note there says what they do. No types are inferred here: what the macro
//! does not see, such as the type of a variable, rustc finds in the second function as it does in the first.
//!
//! `expression` has the expressions, `statement` blocks and patterns, `matching` the arms of `match`, `scope`
//! the names of variables, since any other name is a constant or a function. What has no text is an error at
//! its token, which says what to write instead.

mod expression;
mod matching;
mod scope;
mod statement;
pub mod structure;
#[cfg(test)]
mod tests;
mod types;

use crate::errors::Errors;
use crate::tokens::{last_segment, replace_ident, respan};
use expression::own;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use scope::Scope;
use syn::spanned::Spanned;
use syn::{Error, FnArg, Ident, ImplItem, ImplItemFn, ItemFn, ItemImpl, Pat, Type};

/// Writes the second function of one body.
struct Stager<'c> {
    /// `::flash_core::kernel::staging`.
    staging: &'c TokenStream,
    scope: Scope,
    /// What stands for the function's result; `None` in a closure, which has no `return` in the text.
    result: Option<TokenStream>,
    /// What stands for the value, if the result is a `Result`.
    value_of_result: Option<TokenStream>,
    /// Variables of the second function alone so far.
    own: usize,
    errors: Errors,
}

impl<'c> Stager<'c> {
    fn new(staging: &'c TokenStream) -> Stager<'c> {
        let (scope, errors) = (Scope::default(), Errors::default());
        Stager { staging, scope, result: Some(quote!(())), value_of_result: None, own: 0, errors }
    }

    /// Variables of the second function alone, which no others shadow.
    fn own(&mut self, count: usize) -> Vec<Ident> {
        let first = self.own;
        self.own += count;
        (first..self.own).map(|number| own(&format!("own_{number}"))).collect()
    }

    /// Reports what has no text. The tokens stand for a value of any type; the program does not compile.
    fn refuse(&mut self, at: impl ToTokens, text: &str) -> TokenStream {
        self.errors.at(at, format!("this has no text for devices: {text}"));
        quote!(::core::unreachable!())
    }
}

/// The function of the door.
fn function_of<'i>(implementation: &'i ItemImpl, door: &str) -> syn::Result<&'i ImplItemFn> {
    let function = implementation.items.iter().find_map(|item| match item {
        ImplItem::Fn(function) if function.sig.ident == door => Some(function),
        _ => None,
    });
    function
        .ok_or_else(|| Error::new_spanned(implementation, format!("`devices` needs the function `{door}`")))
}

/// An impl of an item or team door, for one entry of `for(..)`.
pub struct Staged<'a> {
    pub implementation: &'a ItemImpl,
    pub definition: &'a TokenStream,
    /// How many threads a team has.
    pub threads: Option<&'a TokenStream>,
    /// For each of the impl's parameters the type or constant.
    pub values: &'a [(&'a Ident, TokenStream)],
    /// Of the second function.
    pub name: &'a Ident,
    pub options: &'a TokenStream,
}

/// The second function of a door, `fn NAME() -> Text`.
pub fn of_door(staged: &Staged<'_>, core: &TokenStream) -> syn::Result<TokenStream> {
    let Staged { implementation, definition, threads, values, name, options } = *staged;
    let function = function_of(implementation, if threads.is_some() { "team" } else { "item" })?;
    let replaced = replace_ident(function.to_token_stream(), &|ident| {
        values.iter().find(|(parameter, _)| *parameter == ident).map(|(_, value)| value.clone())
    });
    let function: ImplItemFn = syn::parse2(replaced)?;
    let kernel = quote!(#core::kernel);
    let staging = quote!(#kernel::staging);
    let mut stager = Stager::new(&staging);
    // The text of a team begins with it.
    let team = own("team");
    let mut bindings: Vec<TokenStream> =
        threads.iter().map(|threads| quote!(let #team = #staging::team::<{ #threads }>();)).collect();
    let arguments = [
        quote!(#staging::work_item::<{ <<#definition as #kernel::KernelDefinition>::Index as #kernel::Rank>::N }>()),
        quote!(<#definition as #staging::StagedDefinition<#staging::Device>>::arguments()),
        quote!(#team),
    ];
    for (at, (input, value)) in function.sig.inputs.iter().zip(arguments).enumerate() {
        let FnArg::Typed(input) = input else { continue };
        match &*input.pat {
            Pat::Ident(pattern) => {
                let ident = &pattern.ident;
                match at {
                    2 => stager.scope.add_team(ident),
                    _ => stager.scope.add(ident),
                }
                bindings.push(quote!(let #ident = #value;));
            }
            Pat::Wild(_) => bindings.push(quote!(let _ = #value;)),
            other => {
                stager.refuse(other, "name the argument, as in `k: HeatItem<'_>`, and write `k.x`");
            }
        }
    }
    let (result, value) = stager.returned(&function.sig.output);
    let fails = value.is_some();
    (stager.result, stager.value_of_result) = (Some(result.clone()), value);
    let mut body = stager.block(&function.block);
    if fails {
        body = quote!(#staging::settle(#staging::function::<#result>(|| #body)));
    }
    stager.errors.finish()?;
    Ok(quote! {
        #[allow(unused, non_shorthand_field_patterns, clippy::all, clippy::pedantic)]
        fn #name() -> #staging::Text {
            #staging::text(<#definition as #kernel::KernelDefinition>::NAME, #options, || {
                #(#bindings)*
                #body
            })
        }
    })
}

/// Whether a type is `&mut Team<64>`, by its name.
fn is_team(ty: &Type) -> bool {
    match crate::tokens::plain(ty) {
        Type::Reference(reference) => {
            last_segment(&reference.elem).is_some_and(|segment| segment.ident == "Team")
        }
        _ => false,
    }
}

/// `#[kernel_fn]`: the function as written, and a type of its name whose function `stage` is the second one.
/// A `use` of the function brings both.
pub fn kernel_fn(attribute: TokenStream, item: TokenStream, core: &TokenStream) -> syn::Result<TokenStream> {
    if !attribute.is_empty() {
        return Err(Error::new_spanned(attribute, "write `#[kernel_fn]`, without more"));
    }
    let function: ItemFn = syn::parse2(item).map_err(|error| {
        Error::new(error.span(), "`#[kernel_fn]` belongs on a function that kernels call, outside of an impl")
    })?;
    let staging = quote!(#core::kernel::staging);
    let mut stager = Stager::new(&staging);
    let sig = &function.sig;
    let plain = [
        sig.asyncness.map(|word| word.span()),
        sig.unsafety.map(|word| word.span()),
        sig.abi.as_ref().map(Spanned::span),
        sig.variadic.as_ref().map(Spanned::span),
    ];
    if let Some(span) = plain.into_iter().flatten().next() {
        return Err(Error::new(span, "a function of kernels is a plain `fn`: remove this"));
    }
    stager.scope.types = sig.generics.type_params().map(|parameter| parameter.ident.to_string()).collect();
    let (result, value) = stager.returned(&sig.output);
    (stager.result, stager.value_of_result) = (Some(result.clone()), value);
    let (mut inputs, mut bindings) = (Vec::new(), Vec::new());
    for (at, input) in sig.inputs.iter().enumerate() {
        let FnArg::Typed(input) = input else {
            return Err(Error::new_spanned(
                input,
                "a method has no text: write a function with this argument by name",
            ));
        };
        let name = Ident::new(&format!("argument_{at}"), Span::mixed_site());
        let ty = stager.of(&input.ty);
        inputs.push(quote!(#name: #ty));
        // A reference is the place itself.
        let lent = matches!(crate::tokens::plain(&input.ty), syn::Type::Reference(_));
        bindings.push(stager.binding(&input.pat, None, quote!(#name), lent));
        if let (Pat::Ident(pattern), true) = (&*input.pat, is_team(&input.ty)) {
            stager.scope.add_team(&pattern.ident);
        }
    }
    let body = stager.block(&function.block);
    stager.errors.finish()?;
    let (name, vis) = (&sig.ident, &function.vis);
    let (generics, where_clause) = (&sig.generics, &sig.generics.where_clause);
    let cfgs: Vec<_> = function.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).collect();
    Ok(quote! {
        // Loops of devices count.
        #[allow(clippy::needless_range_loop)]
        #function
        #(#cfgs)*
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code)]
        #vis struct #name {}
        #(#cfgs)*
        #[allow(unused, non_shorthand_field_patterns, clippy::all, clippy::pedantic)]
        impl #name {
            #[track_caller]
            #vis fn stage #generics (#(#inputs),*) -> #result #where_clause {
                #staging::function::<#result>(|| {
                    #(#bindings)*
                    #body
                })
            }
        }
    })
}

/// A text that is registered.
pub struct Entry<'a> {
    pub definition: &'a TokenStream,
    /// How many threads a team has.
    pub threads: Option<&'a TokenStream>,
    /// The function that writes it.
    pub text: &'a Ident,
    pub name: &'a str,
    pub priority: i32,
    /// For its selection.
    pub attributes: &'a [(String, String)],
    /// The key `fast_math`.
    pub fast_math: bool,
    pub span: Span,
}

/// The entries of a text in the inventory, for the targets that take it.
pub fn entries(entry: &Entry<'_>, core: &TokenStream) -> TokenStream {
    let Entry { definition, threads, text, name, priority, attributes, fast_math, span } = entry;
    let threads = match threads {
        Some(threads) => quote!(::core::option::Option::Some((#threads) as u32)),
        None => quote!(::core::option::Option::None),
    };
    let kernel = quote!(#core::kernel);
    let texts: Vec<_> = attributes.iter().map(|(key, value)| quote!((#key, #value))).collect();
    // Otherwise sums and products are rounded as they are written: in OpenCL C a pragma says so.
    let options = match fast_math {
        true => [("opencl", "-cl-unsafe-math-optimizations"), ("cuda", "--use_fast_math")],
        false => [("opencl", ""), ("cuda", "--fmad=false")],
    };
    let entries = options.map(|(target, options)| {
        quote! {
            #core::__private::inventory::submit! {
                #kernel::ImplementationEntry {
                    kernel: <#definition as #kernel::KernelDefinition>::NAME,
                    build: || #kernel::staging::staged_implementation::<#definition>(
                        &#kernel::staging::StagedCode {
                            target: #target,
                            name: #name,
                            priority: #priority,
                            threads: #threads,
                            beside: ::core::file!(),
                            texts: &[("build_options", #options), #(#texts),*],
                            text: #text,
                        },
                    ),
                    module: ::core::module_path!(),
                }
            }
        }
    });
    respan(quote!(#(#entries)*), *span)
}
