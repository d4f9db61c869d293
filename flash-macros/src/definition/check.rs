//! The order of arguments: only read, then read and written, then only written.

use super::views::{Access, View};
use super::{Argument, Definition};
use crate::errors::Errors;
use proc_macro2::TokenStream;
use quote::quote_spanned;
use syn::spanned::Spanned;

const ORDER: &str = "arguments that are only read come first (scalars are), then those read and written, then those only written";

/// Checks the accesses that the tokens show. Of several arguments in wrong places the first is reported, with
/// the order to write.
pub fn order(arguments: &[Argument], errors: &mut Errors) {
    let known = || arguments.iter().filter_map(|argument| Some((argument, argument.view.access()?)));
    let mut highest: Option<(&Argument, Access)> = None;
    for (argument, access) in known() {
        match highest {
            Some((before, above)) if access < above => {
                let mut right: Vec<(&Argument, Access)> = known().collect();
                right.sort_by_key(|(_, access)| *access);
                let right: Vec<String> =
                    right.iter().map(|(argument, _)| format!("`{}`", argument.ident)).collect();
                return errors.at(
                    &argument.ident,
                    format!(
                        "`{}` is {} and must stand before `{}`, which is {}: {ORDER}; write {}",
                        argument.ident,
                        access.words(),
                        before.ident,
                        above.words(),
                        right.join(", ")
                    ),
                );
            }
            _ => highest = Some((argument, access)),
        }
    }
}

/// Assertions for accesses behind aliases: each argument against the one before.
pub fn constants(definition: &Definition, core: &TokenStream) -> TokenStream {
    definition
        .arguments
        .windows(2)
        .filter(|pair| pair.iter().any(|argument| argument.view.access().is_none()))
        .map(|pair| {
            let [before, after] = [&pair[0], &pair[1]].map(|argument| code(argument, core));
            let message = format!("`{}` must stand before `{}`: {ORDER}", pair[1].ident, pair[0].ident);
            quote_spanned!(pair[1].ty.span()=> ::core::assert!(#before <= #after, #message);)
        })
        .collect()
}

/// The `ACCESS_*` code, which grows in the order of arguments.
fn code(argument: &Argument, core: &TokenStream) -> TokenStream {
    let span = argument.ty.span();
    match (&argument.view, argument.view.access()) {
        (View::Item { access, .. }, None) => {
            let ty = &access.ty;
            quote_spanned!(span=> <#ty as #core::kernel::views::ItemAccess>::ACCESS)
        }
        (View::Reduce { access, .. }, None) => {
            let ty = &access.ty;
            quote_spanned!(span=> <#ty as #core::kernel::views::ReduceAccess>::ACCESS)
        }
        (_, Some(Access::ReadWrite)) => quote_spanned!(span=> #core::abi::ACCESS_READ_WRITE),
        (_, Some(Access::Write)) => quote_spanned!(span=> #core::abi::ACCESS_WRITE),
        _ => quote_spanned!(span=> #core::abi::ACCESS_READ),
    }
}
