//! How `Definition::of` takes its arguments: so that a call with several mistakes is one error, see
//! `flash_core::kernel::views::Takes`.

use super::views::View;
use super::{Argument, Definition};
use crate::tokens::{mentions, respan};
use proc_macro2::{Ident, Punct, Spacing, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;

/// The parts of `of`.
#[derive(Default)]
pub struct Taking {
    /// Types of what is passed, and of what each argument leaves to the next one.
    pub generics: Vec<Ident>,
    pub parameters: Vec<TokenStream>,
    pub bounds: Vec<TokenStream>,
    /// The struct's fields.
    pub values: Vec<TokenStream>,
}

/// First come scalars that the compiler learns a type parameter of the definition from: they have their own
/// types. The last array is next: in a call with too few arguments it is often what is missing, and then the
/// compiler reports nothing else. The other arguments follow in their order; those whose element type it has
/// to learn from other arguments are the last.
pub fn taking(definition: &Definition, core: &TokenStream) -> Taking {
    let views = quote!(#core::kernel::views);
    let arguments = &definition.arguments;
    let teaches = teachers(definition);
    let mut taking = Taking::default();
    let mut before = quote!(#views::Taken);
    if let Some(Argument { ident, ty, .. }) = teaches.first().map(|at| &arguments[*at]) {
        let left = format_ident!("__{}_taken", ident.unraw());
        taking.bounds.push(quote!(#views::Scalar<#ty>: #views::Leaves<#left>));
        before = quote!(#left);
        taking.generics.push(left);
    }
    let mut links = vec![None; arguments.len()];
    let mut order: Vec<usize> = (0..arguments.len()).filter(|at| !teaches.contains(at)).collect();
    let last = arguments.iter().rposition(|argument| !matches!(argument.view, View::Scalar));
    order.sort_by_key(|at| (learns(definition, &teaches, &arguments[*at]), Some(*at) != last));
    for at in order {
        let Argument { ident, ty, view, .. } = &arguments[at];
        let name = ident.unraw();
        let [passed, left] = [format_ident!("__{name}"), format_ident!("__{name}_taken")];
        let target = match view {
            View::Scalar => quote!(#views::Scalar<#ty>),
            _ => quote!(#ty),
        };
        // The compiler's message shows the field: the bound begins and ends where that does.
        let begin = respan(quote!(#views::Takes), ident.span());
        let mut end = TokenTree::from(Punct::new('>', Spacing::Alone));
        end.set_span(ty.to_token_stream().into_iter().last().map_or(ident.span(), |token| token.span()));
        taking.bounds.push(quote!(#target: #begin<#passed, #before, #left #end));
        before = quote!(#left);
        taking.generics.extend([passed.clone(), left]);
        links[at] = Some((passed, target));
    }
    for (Argument { ident, ty, view, .. }, link) in arguments.iter().zip(links) {
        let Some((passed, target)) = link else {
            taking.parameters.push(quote!(#ident: #ty));
            taking.values.push(quote!(#ident));
            continue;
        };
        let taken = quote!(<#target as #views::Takes<_, _, _>>::take(#ident));
        taking.parameters.push(quote!(#ident: #passed));
        taking.values.push(match view {
            View::Scalar => quote!(#ident: #taken.0),
            _ => quote!(#ident: #taken),
        });
    }
    taking
}

/// True if an array alone does not say what the element type is: it may be that of an `Item`'s elements, or a
/// `Row` of them.
fn learns(definition: &Definition, teaches: &[usize], argument: &Argument) -> bool {
    let View::Item { access, .. } = &argument.view else { return false };
    if access.visible.as_ref().is_some_and(|visible| visible.row) {
        return false;
    }
    let element = access.visible.as_ref().map(|visible| visible.element.to_token_stream().to_string());
    definition.generics.type_params().map(|parameter| &parameter.ident).any(|parameter| {
        let is_taught =
            teaches.iter().any(|at| mentions(definition.arguments[*at].ty.to_token_stream(), parameter));
        !is_taught && element.as_ref().is_none_or(|element| parameter == element)
    })
}

/// The scalars that are the first to mention a type parameter.
fn teachers(definition: &Definition) -> Vec<usize> {
    let scalars =
        || definition.arguments.iter().enumerate().filter(|(_, one)| matches!(one.view, View::Scalar));
    let first = |parameter: &Ident| {
        scalars().find(|(_, one)| mentions(one.ty.to_token_stream(), parameter)).map(|(at, _)| at)
    };
    let mut found: Vec<usize> =
        definition.generics.type_params().filter_map(|parameter| first(&parameter.ident)).collect();
    found.sort_unstable();
    found.dedup();
    found
}
