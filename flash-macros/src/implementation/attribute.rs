//! The keys of `#[kernel(..)]` on an impl.

use super::features;
use crate::keys::{self, Elements, name, number, priority, text, texts};
use proc_macro2::{Span, TokenStream};
use syn::parse::{ParseStream, Parser};
use syn::{Error, Ident, LitStr, Token};

const KEYS: &str = "an implementation has `devices`, `for(..)`, `target`, `name`, `priority`, `alignment`, `cpu_features`, `library`, `vendor`, `device`, `architecture` and `version`";

/// The keys of the attribute.
#[derive(Default)]
pub struct Keys {
    pub elements: Option<Elements>,
    /// Where the key `devices` stands: a text is written, too.
    pub devices: Option<Span>,
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
            None => input.parse::<Ident>().map_err(|e| Error::new(e.span(), KEYS))?.to_string(),
        };
        if seen.contains(&key) {
            return Err(Error::new(span, format!("`{key}` is there twice: remove one")));
        }
        match key.as_str() {
            "devices" if input.peek(Token![=]) => {
                return Err(Error::new(span, "write `devices` alone, or leave it out"));
            }
            "devices" => self.devices = Some(span),
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
