//! Bounds that require elements, written so that the compiler reports one error for a type that is not one.

use super::views::{View, accumulated};
use super::{Argument, Definition};
use crate::tokens::{mentions, respan};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{GenericParam, Generics, WherePredicate};

/// A bound for each type that depends on no parameter: it is an element. Where one is not, the compiler
/// reports it at the field, and assumes the bound in the items that have it. So there is one error, and not
/// one per use.
pub fn read(definition: &Definition, core: &TokenStream) -> Vec<WherePredicate> {
    let depends = |ty: &TokenStream| {
        definition.generics.params.iter().any(|parameter| match parameter {
            GenericParam::Type(parameter) => mentions(ty.clone(), &parameter.ident),
            GenericParam::Const(parameter) => mentions(ty.clone(), &parameter.ident),
            GenericParam::Lifetime(parameter) => mentions(ty.clone(), &parameter.lifetime.ident),
        })
    };
    let bound = |argument: &Argument| {
        let (ty, bound) = match &argument.view {
            View::Reduce { access, .. } => match &access.visible {
                Some(visible) => (accumulated(&visible.element), quote!(Element)),
                None => (&access.ty, quote!(views::ReduceAccess)),
            },
            View::Scalar => (&argument.ty, quote!(Element)),
            View::Phased { element, .. } | View::Scatter { element } | View::Ragged { element, .. } => {
                (element, quote!(Element))
            }
            View::Item { access, .. }
            | View::Whole { access }
            | View::Window { access }
            | View::Uniform { access } => match &access.visible {
                Some(visible) => (&visible.element, quote!(Element)),
                None if matches!(argument.view, View::Item { .. }) => (&access.ty, quote!(views::ItemAccess)),
                None => return None,
            },
        };
        let ty = ty.to_token_stream();
        if depends(&ty) {
            return None;
        }
        // All tokens have the field's span: the error is where the bound is.
        let span = ty.span();
        syn::parse2(respan(quote!(#ty: #core::kernel::#bound), span)).ok()
    };
    // Requires that the operation is one on the element: one error at its name, not one per use.
    let operation = |argument: &Argument| {
        let View::Reduce { access, operation } = &argument.view else { return None };
        let (ty, element) = (operation.to_token_stream(), accumulated(&access.visible.as_ref()?.element));
        if depends(&ty) || depends(&element.to_token_stream()) {
            return None;
        }
        let span = ty.span();
        syn::parse2(respan(quote!(#ty: #core::kernel::views::ReduceOp<#element>), span)).ok()
    };
    definition
        .arguments
        .iter()
        .flat_map(|argument| [bound(argument), operation(argument)])
        .flatten()
        .collect()
}

/// The generics with these bounds.
pub fn add(mut generics: Generics, bounds: &[WherePredicate]) -> Generics {
    if !bounds.is_empty() {
        generics.make_where_clause().predicates.extend(bounds.iter().cloned());
    }
    generics
}
