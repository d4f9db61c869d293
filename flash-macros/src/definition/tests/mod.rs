//! What the derive reads, generates and refuses.

mod accepted;
mod refused;

use super::{Definition, derive, read};
use proc_macro2::TokenStream;
use quote::quote;

fn core() -> TokenStream {
    quote!(::flash_core)
}

fn definition(tokens: TokenStream) -> Definition {
    read(syn::parse2(tokens).unwrap()).unwrap_or_else(|error| panic!("{error}"))
}
