//! Types: what stands for the values of each.

use super::Stager;
use crate::tokens::plain;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{GenericArgument, Path, PathArguments, PathSegment, ReturnType, Type, TypePath};

const NUMBERS: &[&str] =
    &["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "isize", "usize", "f32", "f64", "bool"];

/// The value's type in a `Result<T, E>` or an `Option<T>`, by its name, and what stands for that.
fn inside(path: &TypePath) -> Option<(&Type, Ident)> {
    let last = path.path.segments.last()?;
    let wrapper = match last.ident.to_string().as_str() {
        "Result" => "ResultValue",
        "Option" => "OptionValue",
        _ => return None,
    };
    let inside = first_type(last)?;
    Some((inside, Ident::new(wrapper, path.span())))
}

fn first_type(last: &PathSegment) -> Option<&Type> {
    match &last.arguments {
        PathArguments::AngleBracketed(types) => types.args.iter().find_map(|argument| match argument {
            GenericArgument::Type(ty) => Some(ty),
            _ => None,
        }),
        _ => None,
    }
}

impl Stager<'_> {
    /// `Of<T>` of a type; of a reference, what stands for the place.
    pub(super) fn of(&mut self, ty: &Type) -> TokenStream {
        let staging = self.staging;
        if let Type::Path(path) = plain(ty)
            && let Some((ty, wrapper)) = inside(path)
        {
            let value = self.of(ty);
            return quote_spanned!(path.span()=> #staging::#wrapper<#value>);
        }
        match plain(ty) {
            Type::Infer(infer) => infer.to_token_stream(),
            Type::Reference(reference) => self.of(&reference.elem),
            // Taken apart, so that the compiler finds a type parameter from the values that are passed.
            Type::Path(path)
                if path.path.get_ident().is_some_and(|name| self.scope.types.contains(&name.to_string())) =>
            {
                quote_spanned!(path.span()=> #staging::Expr<#path>)
            }
            Type::Tuple(tuple) => {
                let parts: Vec<TokenStream> = tuple.elems.iter().map(|part| self.of(part)).collect();
                quote_spanned!(tuple.span()=> (#(#parts,)*))
            }
            Type::Array(array) => {
                let (element, len) = (self.of(&array.elem), &array.len);
                quote_spanned!(array.span()=> #staging::ArrayValue<#element, { #len }>)
            }
            ty @ (Type::Path(_) | Type::Slice(_)) => quote_spanned!(ty.span()=> #staging::Of<#ty>),
            Type::Never(_) => {
                self.refuse(
                    ty,
                    "a function that does not return has no result, write its `panic!` where it is called",
                );
                quote!(())
            }
            other => {
                self.refuse(
                    other,
                    "the types are numbers, `bool`, tuples, arrays, structs with `#[derive(Staged)]` and views",
                );
                quote!(())
            }
        }
    }

    /// What a function returns: what stands for it, and for its value if it is a `Result` or an `Option`.
    pub(super) fn returned(&mut self, output: &ReturnType) -> (TokenStream, Option<TokenStream>) {
        let ReturnType::Type(_, ty) = output else { return (quote!(()), None) };
        let value = match plain(ty) {
            Type::Path(path) => inside(path).map(|(ty, _)| self.of(ty)),
            _ => None,
        };
        (self.of(ty), value)
    }

    /// The type before a function of a number, as in `f32::from(x)` or `T::of(x)`.
    pub(super) fn number_before<'p>(&self, path: &'p Path) -> Option<(TokenStream, &'p syn::Ident)> {
        let mut segments = path.segments.iter();
        let (first, last) = (segments.next()?, segments.next()?);
        let name = first.ident.to_string();
        let is_number = NUMBERS.contains(&name.as_str()) || self.scope.types.contains(&name);
        (is_number && segments.next().is_none()).then(|| (first.ident.to_token_stream(), &last.ident))
    }
}
