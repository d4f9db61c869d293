//! The keys of `#[kernel(..)]` on an impl.

use super::features;
use crate::keys::{self, Elements, name, number, priority, text, texts};
use proc_macro2::{Span, TokenStream};
use syn::parse::{ParseStream, Parser};
use syn::{Error, Ident, LitStr, Token};

const KEYS: &str = "an implementation has `devices`, `fast_math`, `unsafe(unchecked)`, `for(..)`, `target`, `name`, `priority`, `alignment`, `cpu_features`, `library`, `vendor`, `device`, `architecture` and `version`";

/// The keys of the attribute.
#[derive(Default)]
pub struct Keys {
    pub elements: Option<Elements>,
    /// Where the key `devices` stands: a text is written, too.
    pub devices: Option<Span>,
    /// Where the key `fast_math` stands: the text may contract and estimate.
    pub fast_math: Option<Span>,
    /// Where the key `unsafe(unchecked)` stands: the text does not check its indices.
    pub unchecked: Option<Span>,
    /// The kind of device.
    pub target: Option<LitStr>,
    pub name: Option<LitStr>,
    pub priority: i32,
    /// Separated by commas.
    pub cpu_features: String,
    /// Where the key `cpu_features` stands.
    pub cpu_features_at: Option<Span>,
    /// Attributes, for selection and others.
    pub attributes: Vec<(String, String)>,
}

/// The key of a text that trusts its indices.
const UNCHECKED: &str = "unsafe(unchecked)";
const UNSAFE: &str = "write `unsafe(unchecked)`: you vouch that no index of the kernel leaves its array, where devices would touch other memory";

/// `unsafe(unchecked)`.
fn unsafe_key(input: ParseStream<'_>) -> syn::Result<String> {
    let word = input.parse::<Token![unsafe]>()?;
    if !input.peek(syn::token::Paren) {
        return Err(Error::new(word.span, UNSAFE));
    }
    let content;
    syn::parenthesized!(content in input);
    match content.parse::<Ident>() {
        Ok(key) if key == "unchecked" && content.is_empty() => Ok(UNCHECKED.to_owned()),
        _ => Err(Error::new(word.span, UNSAFE)),
    }
}

/// `= ".."` or `= ["..", ".."]`, file names of one shared library; in the attribute they are joined by
/// commas.
fn library(input: ParseStream<'_>) -> syn::Result<String> {
    let names = texts(input, "library", "libopenblas.so.0")?;
    for name in &names {
        if name.value().is_empty() || name.value().contains([',', '\0']) {
            let text = "the file name of a shared library, such as `libopenblas.so.0`; several names of it are a list: `library = [\"libcublas.so.13\", \"libcublas.so.12\"]`";
            return Err(Error::new(name.span(), text));
        }
    }
    Ok(names.iter().map(LitStr::value).collect::<Vec<_>>().join(","))
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
            None if input.peek(Token![unsafe]) => unsafe_key(input)?,
            None => input.parse::<Ident>().map_err(|e| Error::new(e.span(), KEYS))?.to_string(),
        };
        if seen.contains(&key) {
            return Err(Error::new(span, format!("`{key}` is there twice: remove one")));
        }
        match key.as_str() {
            "devices" | "fast_math" if input.peek(Token![=]) => {
                return Err(Error::new(span, format!("write `{key}` alone, or leave it out")));
            }
            "devices" => self.devices = Some(span),
            "fast_math" => self.fast_math = Some(span),
            UNCHECKED => self.unchecked = Some(span),
            "unchecked" => return Err(Error::new(span, UNSAFE)),
            "for" => self.elements = Some(Elements::read(input, span)?),
            "target" => self.target = Some(keys::target(input)?),
            "name" => self.name = Some(name(input)?),
            "priority" => self.priority = priority(input)?,
            "cpu_features" => {
                self.cpu_features_at = Some(span);
                self.cpu_features = features::read(&text(input, &key, "avx2,fma")?)?;
            }
            "alignment" => self.attributes.push((key.clone(), number(input, &key)?.to_string())),
            "library" => self.attributes.push((key.clone(), library(input)?)),
            "vendor" | "device" | "architecture" | "version" => {
                self.attributes.push((key.clone(), text(input, &key, "..")?.value()));
            }
            _ => return Err(Error::new(span, format!("unknown key `{key}`: {KEYS}"))),
        }
        seen.push(key);
        Ok(())
    }
}
