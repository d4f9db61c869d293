//! `#[derive(Staged)]`: a plain struct in kernels that are written once. In the text each field is a variable
//! of its own; where the struct is an element or a parameter it is one in C, with the same members.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Fields, Ident, Type};

/// The derive.
pub fn derive(input: TokenStream, core: &TokenStream) -> syn::Result<TokenStream> {
    let input: DeriveInput = syn::parse2(input)?;
    let not = |what: &str| {
        Error::new_spanned(
            &input.ident,
            format!("a struct of kernels has named fields, and no generics: {what}"),
        )
    };
    if let Some(parameter) = input.generics.params.first() {
        return Err(Error::new_spanned(
            parameter,
            "a struct of kernels has no generics: write one for each type",
        ));
    }
    let Data::Struct(data) = &input.data else {
        return Err(not("write a struct with a field for each case"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(not("give each field a name"));
    };
    let (names, types): (Vec<&Ident>, Vec<&Type>) =
        fields.named.iter().filter_map(|field| Some((field.ident.as_ref()?, &field.ty))).unzip();
    if names.is_empty() {
        return Err(not("this one has no fields"));
    }
    let texts: Vec<String> = names.iter().map(|name| crate::definition_name(name)).collect();
    // No member is a word of C.
    let members: Vec<String> = texts.iter().map(|name| format!("m_{name}")).collect();
    let (ident, vis, value) = (&input.ident, &input.vis, format_ident!("{}Value", input.ident));
    let staging = quote!(#core::kernel::staging);
    let doc = format!("What stands for a [`{ident}`] in the text of a kernel.");
    Ok(quote! {
        #[automatically_derived]
        #[doc = #doc]
        #[doc(hidden)]
        #[derive(Clone)]
        #[allow(dead_code)]
        #vis struct #value {
            #(#vis #names: #staging::Of<#types>,)*
        }
        #[automatically_derived]
        const _: () = {
            impl #staging::Stage for #ident {
                type Value = #value;
            }
            impl #staging::Value for #value {
                fn read(&self) -> Self {
                    #value { #(#names: #staging::Value::read(&self.#names),)* }
                }
                fn named(self, _: &str) -> Self {
                    #value { #(#names: #staging::Value::named(self.#names, #texts),)* }
                }
                fn variable(self, _: &str) -> Self {
                    #value { #(#names: #staging::Value::variable(self.#names, #texts),)* }
                }
                fn unset(_: &str) -> Self {
                    #value { #(#names: #staging::Value::unset(#texts),)* }
                }
                #[track_caller]
                fn assign(&self, from: &Self) {
                    #(#staging::Value::assign(&self.#names, &from.#names);)*
                }
                fn never() -> Self {
                    #value { #(#names: #staging::Value::never(),)* }
                }
            }
            impl #staging::Plain for #ident {
                fn constant(self) -> #value {
                    #value { #(#names: <#types as #staging::Plain>::constant(self.#names),)* }
                }
            }
            impl #staging::Variable for #value {
                fn declaration(name: &str) -> ::std::string::String {
                    ::std::format!("{} {name}", <Self as #staging::Variable>::c_name())
                }
                fn c_name() -> ::std::string::String {
                    #staging::structure(
                        &[#(&|name: &str| <#staging::Of<#types> as #staging::Variable>::declaration(name)),*],
                        &[#(#members),*],
                    )
                }
                fn at(path: ::std::string::String, place: bool) -> Self {
                    #value {
                        #(#names: #staging::Variable::at(::std::format!("{path}.{}", #members), place),)*
                    }
                }
            }
        };
    })
}
