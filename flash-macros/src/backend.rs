//! `register_backend!` and `export_plugin!`. They are thin: the work is in `flash_backend`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Error, Ident, Token, Type};

/// `register_backend!(MyBackend)`.
pub fn register(input: TokenStream, backend: &TokenStream) -> syn::Result<TokenStream> {
    if input.is_empty() {
        return Err(Error::new(
            proc_macro2::Span::call_site(),
            "name the type that implements `Backend`: `register_backend!(MyBackend)`",
        ));
    }
    let ty: Type = syn::parse2(input).map_err(|error| {
        Error::new(
            error.span(),
            "expected one type, which implements `Backend`: `register_backend!(MyBackend)`",
        )
    })?;
    // SAFETY of the generated code: `instance` gives the same static at every call.
    Ok(quote! {
        const _: () = {
            unsafe impl #backend::BackendStatic for #ty {
                fn instance() -> &'static #backend::Instance<#ty> {
                    static INSTANCE: #backend::Instance<#ty> = #backend::Instance::new();
                    &INSTANCE
                }
            }
            #backend::__private::inventory::submit! {
                #backend::BackendEntry {
                    api: #backend::api::<#ty>,
                    module: ::core::module_path!(),
                }
            }
        };
    })
}

/// `export_plugin!(crate_a, crate_b)`: a plugin of what its own crate registers and what these do. A crate
/// registers with the path of its module, so that its name is known.
pub fn export(input: TokenStream, backend: &TokenStream) -> syn::Result<TokenStream> {
    let crates = Punctuated::<Ident, Token![,]>::parse_terminated.parse2(input).map_err(|error| {
        Error::new(
            error.span(),
            "expected names of crates that this plugin depends on: `export_plugin!(my_backend)`",
        )
    })?;
    let names = crates.iter().map(|listed| listed.unraw().to_string());
    let crates = crates.iter();
    // SAFETY of the generated code: the symbol's name is the interface's own, and the host's promise for its
    // pointer is the one that `query` requires.
    Ok(quote! {
        #(extern crate #crates as _;)*

        /// What the host calls to learn what this plugin brings.
        ///
        /// # Safety
        /// `host` points to the host's interface, which lives for ever.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn flash_plugin_query(
            major: ::core::primitive::u32,
            host: *const #backend::abi::HostApi,
        ) -> *const #backend::abi::PluginHeader {
            unsafe {
                #backend::query(
                    major,
                    host,
                    &#backend::PluginCrate {
                        name: ::core::env!("CARGO_PKG_NAME"),
                        version: ::core::env!("CARGO_PKG_VERSION"),
                        module: ::core::module_path!(),
                        listed: &[#(#names),*],
                    },
                )
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend() -> TokenStream {
        quote!(::flash_backend)
    }

    #[test]
    fn a_backend_is_registered_with_its_one_instance() {
        let tokens = register(quote!(MyBackend), &backend()).unwrap().to_string();
        let file: syn::File = syn::parse_str(&tokens).unwrap();
        assert_eq!(file.items.len(), 1);
        assert!(tokens.contains("BackendStatic for MyBackend"), "{tokens}");
    }

    #[test]
    fn a_plugin_links_its_crates_and_exports_one_symbol() {
        let tokens = export(quote!(a, b,), &backend()).unwrap();
        let file: syn::File = syn::parse2(tokens).unwrap();
        assert_eq!(file.items.len(), 3);
        assert!(syn::parse2::<syn::File>(export(quote!(), &backend()).unwrap()).is_ok());
    }

    #[test]
    fn mistakes_say_what_to_write() {
        let text = |result: syn::Result<TokenStream>| result.unwrap_err().to_string();
        assert!(text(register(quote!(), &backend())).contains("register_backend!(MyBackend)"));
        assert!(text(register(quote!(A, B), &backend())).contains("one type"));
        assert!(text(export(quote!("my_backend"), &backend())).contains("export_plugin!(my_backend)"));
    }
}
