//! A field that is a group: `[Window<'a, Read<f32>>; 9]`, nine arguments at consecutive positions.
//!
//! The definition says once what is true of each of them. For everything else, such as devices and messages,
//! they are arguments of their own: those of a group `from` are called `from_0`, `from_1` and so on, names in
//! C, too. In the structs of the doors the field is an array of what a single argument is there.

use super::Argument;
use super::views::is_view;
use crate::errors::Errors;
use crate::tokens::{plain, text};
use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Lit, Type};

/// The type of one argument, and the number of them if the field is a group.
pub fn read(ty: &Type) -> syn::Result<(&Type, Option<usize>)> {
    let Type::Array(array) = plain(ty) else { return Ok((ty, None)) };
    if let Type::Array(inner) = plain(&array.elem) {
        return match is_view(innermost(&inner.elem)) {
            true => Err(Error::new(
                array.elem.span(),
                format!("a group has one length: write `[{}; n]`", text(innermost(&inner.elem))),
            )),
            false => Ok((ty, None)),
        };
    }
    if !is_view(&array.elem) {
        return Ok((ty, None));
    }
    let example = format!("`[{}; 9]`", text(&array.elem));
    let Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) = &array.len else {
        return Err(Error::new(
            array.len.span(),
            format!(
                "the derive numbers the arguments, and sees no values of constants: write how many there are as a literal, as in {example}"
            ),
        ));
    };
    match number.base10_parse()? {
        0 => Err(Error::new(
            number.span(),
            format!(
                "a group of no arguments: write how many there are, as in {example}, or remove the field"
            ),
        )),
        count => Ok((&array.elem, Some(count))),
    }
}

/// The element of an array, of an array of arrays, and so on.
fn innermost(ty: &Type) -> &Type {
    match plain(ty) {
        Type::Array(array) => innermost(&array.elem),
        ty => ty,
    }
}

/// Checks that no other field has the name of an argument of a group.
pub fn names(arguments: &[Argument], errors: &mut Errors) {
    for group in arguments.iter().filter(|argument| argument.group.is_some()) {
        let names = group.names();
        for other in arguments.iter().filter(|other| names.contains(&other.name())) {
            errors.at(
                &other.ident,
                format!(
                    "`{}` is the name of an argument of the group `{}`: give this field another name",
                    other.ident, group.ident
                ),
            );
        }
    }
}

impl Argument {
    /// How many arguments it stands for.
    pub fn count(&self) -> usize {
        self.group.unwrap_or(1)
    }

    /// Their names.
    pub fn names(&self) -> Vec<String> {
        let name = self.name();
        match self.group {
            None => vec![name],
            Some(count) => (0..count).map(|number| format!("{name}_{number}")).collect(),
        }
    }

    /// The places of its arguments in a struct that has a field for it: the field, or the field's elements.
    pub fn places(&self, of: &TokenStream) -> Vec<TokenStream> {
        let ident = &self.ident;
        match self.group {
            None => vec![quote!(#of.#ident)],
            Some(count) => (0..count).map(|number| quote!(#of.#ident[#number])).collect(),
        }
    }

    /// The type of a field that has this type for each argument.
    pub fn of_each(&self, ty: TokenStream) -> TokenStream {
        match self.group {
            None => ty,
            Some(count) => quote!([#ty; #count]),
        }
    }

    /// The field with these values of its arguments.
    pub fn field(&self, values: impl IntoIterator<Item = TokenStream>) -> TokenStream {
        let (ident, values) = (&self.ident, values.into_iter());
        match self.group {
            None => quote!(#ident: #(#values)*),
            Some(_) => quote!(#ident: [#(#values),*]),
        }
    }
}
