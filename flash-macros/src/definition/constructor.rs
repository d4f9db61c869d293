//! `Definition::of(..)`, and a constant per dimension.

use super::attribute::constant;
use super::taking::{Taking, taking};
use super::views::View;
use super::{Argument, Definition};
use crate::tokens::{doc_lines, doc_of, text};
use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;

/// Writes the constructor and the constants. `checks` are assertions, evaluated for every use of it.
pub fn write(definition: &Definition, checks: &TokenStream, core: &TokenStream) -> TokenStream {
    let Definition { ident, vis, generics: own, arguments, .. } = definition;
    let (impl_generics, ty_generics, where_clause) = own.split_for_impl();
    let docs = doc_of(
        ["This kernel with its arguments, to be submitted:".to_owned(), String::new()]
            .into_iter()
            .chain(arguments.iter().map(|argument| line(definition, argument))),
    );
    let Taking { generics, parameters, bounds, values } = taking(definition, core);
    let dimensions = definition.dimensions.iter().enumerate().map(|(at, dimension)| {
        let name = constant(dimension);
        let doc = doc_of([format!("Dimension `{}`: `index[{ident}::{name}]`.", dimension.unraw())]);
        quote!(#doc #[allow(dead_code)] #vis const #name: ::core::primitive::usize = #at;)
    });
    let checks = (!checks.is_empty()).then(|| quote!(const { #checks }));
    quote! {
        #[automatically_derived]
        impl #impl_generics #ident #ty_generics #where_clause {
            #(#dimensions)*

            #docs
            #[inline]
            #[must_use]
            #[allow(dead_code, non_camel_case_types, clippy::too_many_arguments)]
            #vis fn of<#(#generics),*>(#(#parameters),*) -> Self
            where
                #(#bounds),*
            {
                #checks
                Self { #(#values),* }
            }
        }
    }
}

/// One line of the list of arguments.
fn line(definition: &Definition, argument: &Argument) -> String {
    let (name, ty) = (argument.name(), text(&argument.ty));
    let docs = doc_lines(&argument.docs).join(" ");
    let along = match &argument.view {
        View::Item { along, .. } | View::Phased { along, .. } => {
            let names: Vec<String> = along.iter().map(|at| definition.dimensions[*at].to_string()).collect();
            format!(", along {}", names.join(", "))
        }
        _ => String::new(),
    };
    let colon = if docs.is_empty() { "" } else { ": " };
    format!("- `{name}`, `{ty}`{along}{colon}{docs}")
}
