//! What stands for the arguments of a definition in a kernel that is written once, see `crate::staging`.

use super::views::View;
use super::{Definition, bounds};
use crate::tokens::replace_lifetime;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse_quote;

/// Writes the impl of `StagedDefinition`. Its bounds are on a parameter, so that they are checked where a
/// kernel is staged: an argument without a text is no error of the definition.
pub fn write(definition: &Definition, core: &TokenStream) -> TokenStream {
    let staging = quote!(#core::kernel::staging);
    let views = quote!(#core::kernel::views);
    let ident = &definition.ident;
    let statics =
        definition.generics_with(definition.lifetime.as_ref().map(|_| parse_quote!('static)).as_ref());
    let static_generics = statics.split_for_impl().1;
    let mut generics = bounds::add(definition.generics_with(None), &bounds::read(definition, core));
    generics.params.push(parse_quote!(__Q));
    let parts: Vec<(TokenStream, TokenStream)> = definition
        .arguments
        .iter()
        .map(|argument| {
            let ty = argument.ty.to_token_stream();
            let ty = match &definition.lifetime {
                Some(lifetime) => replace_lifetime(ty, lifetime, &parse_quote!('static)),
                None => ty,
            };
            let about = quote!(#staging::About);
            match &argument.view {
                View::Scalar => (quote!(#views::Scalar<#ty>), quote!(#about::default())),
                View::Phased { stages: Some(_), .. } => (ty, quote!(#about::staged())),
                View::Ragged { starts: Some(starts), along, .. } => {
                    let starts = super::unraw(starts);
                    (ty, quote!(#about::rows(#starts, #along)))
                }
                _ => (ty, quote!(#about::default())),
            }
        })
        .collect();
    let types: Vec<&TokenStream> = parts.iter().map(|(ty, _)| ty).collect();
    let about = parts.iter().map(|(_, about)| about);
    generics
        .make_where_clause()
        .predicates
        .extend(types.iter().map(|ty| -> syn::WherePredicate { parse_quote!(__Q: #staging::Stages<#ty>) }));
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    let fields: Vec<_> = definition.arguments.iter().map(|argument| &argument.ident).collect();
    let names = definition.arguments.iter().map(super::Argument::name);
    quote! {
        #[automatically_derived]
        #[allow(dead_code)]
        const _: () = {
            pub struct __Staged #impl_generics #where_clause {
                #(pub #fields: <__Q as #staging::Stages<#types>>::Value,)*
            }
            impl #impl_generics #staging::StagedDefinition<__Q> for #ident #static_generics #where_clause {
                type Arguments = __Staged #ty_generics;
                fn arguments() -> Self::Arguments {
                    __Staged { #(#fields: <__Q as #staging::Stages<#types>>::argument(#names, #about),)* }
                }
            }
        };
    }
}
