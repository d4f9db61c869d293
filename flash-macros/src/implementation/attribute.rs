//! The keys of `#[kernel(..)]` on an impl.

use super::features;
use crate::keys::{self, Elements, name, number, priority, text};
use proc_macro2::TokenStream;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Ident, LitStr, Token};

const KEYS: &str = "an implementation has `for(..)`, `target`, `name`, `priority`, `alignment`, `cpu_features`, `vendor`, `device`, `architecture` and `version`";

/// The keys of the attribute.
#[derive(Default)]
pub struct Keys {
    pub elements: Option<Elements>,
    /// The kind of device.
    pub target: Option<LitStr>,
    pub name: Option<LitStr>,
    pub priority: i32,
    /// Separated by commas.
    pub cpu_features: String,
    /// Attributes, for selection and others.
    pub attributes: Vec<(String, String)>,
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
            "for" => self.elements = Some(Elements::read(input, span)?),
            "target" => self.target = Some(keys::target(input)?),
            "name" => self.name = Some(name(input)?),
            "priority" => self.priority = priority(input)?,
            "cpu_features" => self.cpu_features = features::read(&text(input, &key, "avx2,fma")?)?,
            "alignment" => self.attributes.push((key.clone(), number(input, &key)?.to_string())),
            "vendor" | "device" | "architecture" | "version" => {
                self.attributes.push((key.clone(), text(input, &key, "..")?.value()));
            }
            _ => return Err(Error::new(span, format!("unknown key `{key}`: {KEYS}"))),
        }
        seen.push(key);
        Ok(())
    }
}
