//! Operations on tokens.

use proc_macro2::{Delimiter, Group, Ident, Spacing, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{Attribute, GenericArgument, Lifetime, PathArguments, PathSegment, Type};

/// The tokens with one lifetime replaced by another.
pub fn replace_lifetime(tokens: TokenStream, from: &Ident, to: &Lifetime) -> TokenStream {
    let mut out = TokenStream::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(quote) if quote.as_char() == '\'' && quote.spacing() == Spacing::Joint => {
                match tokens.peek() {
                    Some(TokenTree::Ident(name)) if name == from => {
                        let mut lifetime = to.clone();
                        lifetime.set_span(name.span());
                        lifetime.to_tokens(&mut out);
                        tokens.next();
                    }
                    _ => out.extend([TokenTree::Punct(quote)]),
                }
            }
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), replace_lifetime(group.stream(), from, to));
                inner.set_span(group.span());
                out.extend([TokenTree::Group(inner)]);
            }
            token => out.extend([token]),
        }
    }
    out
}

/// The tokens with some identifiers replaced.
pub fn replace_ident(tokens: TokenStream, value: &dyn Fn(&Ident) -> Option<TokenStream>) -> TokenStream {
    let mut out = TokenStream::new();
    // The name of a lifetime is an identifier, too, after its quote.
    let mut lifetime = false;
    for token in tokens {
        let quote = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '\'');
        match token {
            TokenTree::Ident(ident) if !lifetime => match value(&ident) {
                Some(value) => out.extend(value),
                None => out.extend([TokenTree::Ident(ident)]),
            },
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), replace_ident(group.stream(), value));
                inner.set_span(group.span());
                out.extend([TokenTree::Group(inner)]);
            }
            token => out.extend([token]),
        }
        lifetime = quote;
    }
    out
}

/// The tokens with another place in the source, for errors.
pub fn respan(tokens: TokenStream, span: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|token| match token {
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), respan(group.stream(), span));
                inner.set_span(group.span().located_at(span));
                TokenTree::Group(inner)
            }
            mut token => {
                token.set_span(token.span().located_at(span));
                token
            }
        })
        .collect()
}

/// True if an identifier is among the tokens.
pub fn mentions(tokens: TokenStream, name: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *name,
        TokenTree::Group(group) => mentions(group.stream(), name),
        _ => false,
    })
}

/// The tokens as a person would write them, for messages and comparisons.
pub fn text(tokens: impl ToTokens) -> String {
    let mut out = String::new();
    write_text(tokens.to_token_stream(), &mut out);
    out
}

fn write_text(tokens: TokenStream, out: &mut String) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                if open == "[" && out.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                    out.push(' ');
                }
                out.push_str(open);
                write_text(group.stream(), out);
                out.push_str(close);
            }
            TokenTree::Punct(punct) => {
                out.push(punct.as_char());
                if matches!(punct.as_char(), ',' | ';') {
                    out.push(' ');
                }
            }
            token => {
                if out.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                    out.push(' ');
                }
                out.push_str(&token.to_string());
            }
        }
    }
}

/// The doc comments among some attributes.
pub fn docs(attributes: &[Attribute]) -> Vec<Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).cloned().collect()
}

/// The lines of some doc comments.
pub fn doc_lines(docs: &[Attribute]) -> Vec<String> {
    docs.iter()
        .filter_map(|doc| match &doc.meta.require_name_value().ok()?.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(line), .. }) => {
                Some(line.value().trim().to_owned())
            }
            _ => None,
        })
        .collect()
}

/// Doc attributes with these lines.
pub fn doc_of(lines: impl IntoIterator<Item = String>) -> TokenStream {
    lines
        .into_iter()
        .map(|line| {
            let line = if line.is_empty() { line } else { format!(" {line}") };
            quote!(#[doc = #line])
        })
        .collect()
}

/// The type inside parentheses and the invisible groups of `macro_rules`.
pub fn plain(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => plain(&group.elem),
        Type::Paren(paren) => plain(&paren.elem),
        ty => ty,
    }
}

/// The last segment of a path type.
pub fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match plain(ty) {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}

/// The type arguments of a path segment.
pub fn type_arguments(segment: &PathSegment) -> Vec<&Type> {
    match &segment.arguments {
        PathArguments::AngleBracketed(list) => list
            .args
            .iter()
            .filter_map(|argument| match argument {
                GenericArgument::Type(ty) => Some(ty),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_replaced_everywhere_and_no_other() {
        let from = Ident::new("a", proc_macro2::Span::call_site());
        let to: Lifetime = syn::parse_quote!('k);
        let tokens = quote!(Item<'a, Read<&'b [T; { f::<'a>() }]>> 'a' a);
        let expected = quote!(Item<'k, Read<&'b [T; { f::<'k>() }]>> 'a' a);
        assert_eq!(replace_lifetime(tokens, &from, &to).to_string(), expected.to_string());
    }

    #[test]
    fn text_reads_as_written() {
        assert_eq!(text(quote!(Whole<'a, Read<[T; 3]>>)), "Whole<'a, Read<[T; 3]>>");
        assert_eq!(text(quote!(&'a mut [f32])), "&'a mut [f32]");
    }
}
