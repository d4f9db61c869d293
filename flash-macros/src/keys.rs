//! Keys that attributes of implementations share: `for(..)`, `name`, `priority`, texts.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Error, Expr, ExprLit, ExprUnary, Lit, LitInt, LitStr, Token, Type, UnOp, bracketed, parenthesized, token,
};

/// `for(..)`.
pub struct Elements {
    /// The span of the word `for`.
    pub span: Span,
    /// For each implementation, the value of each generic parameter.
    pub lists: Vec<Vec<GenericValue>>,
}

/// A type, or the value of a const parameter.
#[derive(Clone)]
pub enum GenericValue {
    Type(Type),
    Const(Expr),
}

impl Parse for GenericValue {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(Lit) || input.peek(syn::token::Brace) || input.peek(Token![-]) {
            return Ok(GenericValue::Const(input.parse()?));
        }
        Ok(GenericValue::Type(input.parse()?))
    }
}

impl ToTokens for GenericValue {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            GenericValue::Type(ty) => ty.to_tokens(tokens),
            GenericValue::Const(value) => value.to_tokens(tokens),
        }
    }
}

impl Elements {
    /// Reads what follows the word `for`, which is at `span`.
    pub fn read(input: ParseStream<'_>, span: Span) -> syn::Result<Elements> {
        let example = "list the element types, for example `for(f32, f64)`";
        if !input.peek(syn::token::Paren) {
            return Err(Error::new(span, example));
        }
        let content;
        parenthesized!(content in input);
        let lists: Vec<_> =
            Punctuated::<_, Token![,]>::parse_terminated_with(&content, list)?.into_iter().collect();
        if lists.is_empty() {
            return Err(Error::new(span, format!("this list is empty: {example}")));
        }
        Ok(Elements { span, lists })
    }
}

/// `f32` or `(f32, u32)`.
fn list(input: ParseStream<'_>) -> syn::Result<Vec<GenericValue>> {
    if !input.peek(syn::token::Paren) {
        return Ok(vec![input.parse()?]);
    }
    let content;
    parenthesized!(content in input);
    Ok(Punctuated::<GenericValue, Token![,]>::parse_terminated(&content)?.into_iter().collect())
}

/// The span of the values of one implementation.
pub fn span_of(list: &[GenericValue]) -> Span {
    list.first().map_or_else(Span::call_site, Spanned::span)
}

/// Checks that a list of `for(..)` has a value for each of the parameters of `what`.
pub fn check_list(
    list: &[GenericValue],
    what: &str,
    parameters: &[impl std::fmt::Display],
) -> syn::Result<()> {
    if list.len() == parameters.len() {
        return Ok(());
    }
    let names: Vec<String> = parameters.iter().map(ToString::to_string).collect();
    let example = match names.as_slice() {
        [_] => "`for(f32, f64)`".to_owned(),
        names => format!("`for(({}), ..)`", names.join(", ")),
    };
    Err(Error::new(
        span_of(list),
        format!(
            "the {what} has {} parameters, this entry {}: write {example}, with a type for each",
            names.len(),
            list.len()
        ),
    ))
}

/// `= ".."`.
pub fn text(input: ParseStream<'_>, key: &str, example: &str) -> syn::Result<LitStr> {
    let wrong = |error: Error| Error::new(error.span(), format!("write `{key} = \"{example}\"`"));
    input.parse::<Token![=]>().map_err(wrong)?;
    input.parse().map_err(wrong)
}

/// `= ".."`, or `= ["..", ".."]`: at least one.
pub fn texts(input: ParseStream<'_>, key: &str, example: &str) -> syn::Result<Vec<LitStr>> {
    if !(input.peek(Token![=]) && input.peek2(token::Bracket)) {
        return Ok(vec![text(input, key, example)?]);
    }
    input.parse::<Token![=]>()?;
    let list;
    let bracket = bracketed!(list in input);
    let texts: Vec<LitStr> = Punctuated::<LitStr, Token![,]>::parse_terminated(&list)?.into_iter().collect();
    match texts.is_empty() {
        true => {
            Err(Error::new(bracket.span.join(), format!("this list is empty: write `{key} = \"{example}\"`")))
        }
        false => Ok(texts),
    }
}

/// `= ".."`, the name of an implementation.
pub fn name(input: ParseStream<'_>) -> syn::Result<LitStr> {
    let name = text(input, "name", "blocked")?;
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.value().is_empty() || !name.value().chars().all(good) {
        return Err(Error::new(
            name.span(),
            "the name of an implementation is made of letters, digits, `_`, `-` and `.`, such as `blocked`",
        ));
    }
    Ok(name)
}

/// `= ".."`, a kind of device.
pub fn target(input: ParseStream<'_>) -> syn::Result<LitStr> {
    let target = text(input, "target", "my-isa")?;
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+');
    if target.value().is_empty() || !target.value().chars().all(good) {
        return Err(Error::new(
            target.span(),
            "the name of a kind of device is made of letters, digits, `_`, `-`, `.` and `+`, such as `my-isa`",
        ));
    }
    Ok(target)
}

/// `= -10`.
pub fn priority(input: ParseStream<'_>) -> syn::Result<i32> {
    let wrong = |span| {
        Error::new(span, "a priority is a whole number of 32 bits, such as `priority = 10`; the highest wins")
    };
    input.parse::<Token![=]>().map_err(|error| wrong(error.span()))?;
    let span = input.span();
    let value: Expr = input.parse().map_err(|_| wrong(span))?;
    let (sign, literal) = match &value {
        Expr::Lit(ExprLit { lit: Lit::Int(literal), .. }) => ("", literal),
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => match &**expr {
            Expr::Lit(ExprLit { lit: Lit::Int(literal), .. }) => ("-", literal),
            _ => return Err(Error::new_spanned(&value, wrong(span))),
        },
        _ => return Err(Error::new_spanned(&value, wrong(span))),
    };
    if !literal.suffix().is_empty() && literal.suffix() != "i32" {
        return Err(Error::new_spanned(&value, wrong(span)));
    }
    format!("{sign}{}", literal.base10_digits()).parse().map_err(|_| Error::new_spanned(&value, wrong(span)))
}

/// `= 64`.
pub fn number(input: ParseStream<'_>, key: &str) -> syn::Result<u32> {
    let wrong = |span| Error::new(span, format!("write `{key} = 64`, a number above 0"));
    input.parse::<Token![=]>().map_err(|error| wrong(error.span()))?;
    let literal: LitInt = input.parse().map_err(|error: Error| wrong(error.span()))?;
    literal.base10_parse().ok().filter(|number| *number > 0).ok_or_else(|| wrong(literal.span()))
}
