//! The keys of `#[kernel(..)]` on an impl.

use super::features;
use proc_macro2::{Span, TokenStream};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprLit, ExprUnary, Ident, Lit, LitStr, Token, Type, UnOp, parenthesized};

const KEYS: &str = "an implementation has `for(..)`, `name`, `priority`, `cpu_features`, `vendor`, `device`, `architecture` and `version`";

/// What the attribute says.
#[derive(Default)]
pub struct Keys {
    pub elements: Option<Elements>,
    pub name: Option<LitStr>,
    pub priority: i32,
    /// Separated by commas.
    pub cpu_features: String,
    /// Selection attributes.
    pub selection: Vec<(String, String)>,
}

/// `for(..)`.
pub struct Elements {
    /// Of the word `for`.
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

/// Reads the tokens between the attribute's parentheses.
pub fn read(tokens: TokenStream) -> syn::Result<Keys> {
    let parse = |input: ParseStream<'_>| {
        let mut keys = Keys::default();
        let mut seen: Vec<String> = Vec::new();
        while !input.is_empty() {
            keys.key(input, &mut seen)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(keys)
    };
    parse.parse2(tokens)
}

impl Keys {
    fn key(&mut self, input: ParseStream<'_>, seen: &mut Vec<String>) -> syn::Result<()> {
        let span = input.span();
        let key = match input.parse::<Option<Token![for]>>()? {
            Some(_) => "for".to_owned(),
            None => input.parse::<Ident>().map_err(|e| Error::new(e.span(), KEYS))?.to_string(),
        };
        if seen.contains(&key) {
            return Err(Error::new(span, format!("`{key}` is there twice: remove one")));
        }
        match key.as_str() {
            "for" => self.elements = Some(elements(input, span)?),
            "name" => self.name = Some(name(input)?),
            "priority" => self.priority = priority(input)?,
            "cpu_features" => self.cpu_features = features::read(&text(input, &key, "avx2,fma")?)?,
            "vendor" | "device" | "architecture" | "version" => {
                self.selection.push((key.clone(), text(input, &key, "..")?.value()));
            }
            _ => return Err(Error::new(span, format!("unknown key `{key}`: {KEYS}"))),
        }
        seen.push(key);
        Ok(())
    }
}

fn elements(input: ParseStream<'_>, span: Span) -> syn::Result<Elements> {
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

/// `f32` or `(f32, u32)`.
fn list(input: ParseStream<'_>) -> syn::Result<Vec<GenericValue>> {
    if !input.peek(syn::token::Paren) {
        return Ok(vec![input.parse()?]);
    }
    let content;
    parenthesized!(content in input);
    Ok(Punctuated::<GenericValue, Token![,]>::parse_terminated(&content)?.into_iter().collect())
}

fn text(input: ParseStream<'_>, key: &str, example: &str) -> syn::Result<LitStr> {
    let wrong = |error: Error| Error::new(error.span(), format!("write `{key} = \"{example}\"`"));
    input.parse::<Token![=]>().map_err(wrong)?;
    input.parse().map_err(wrong)
}

fn name(input: ParseStream<'_>) -> syn::Result<LitStr> {
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

fn priority(input: ParseStream<'_>) -> syn::Result<i32> {
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
