//! `#[kernel(name = "..", dims(..), sort_by(..), group_by(..), searchable = ..)]` on a definition.

use crate::errors::{Errors, list};
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Ident, LitInt, LitStr, Meta, Token, braced, parenthesized};

/// The most dimensions that a list of `sort_by` or `group_by` may have: the core's limit.
const MAX_LISTED: usize = 8;

/// The keys of the attribute.
pub struct Head {
    pub name: LitStr,
    pub dimensions: Vec<Ident>,
    pub order: Order,
    pub part: Option<super::part::Written>,
    /// The core's variant, if it is not the default.
    pub searchable: Option<Ident>,
}

/// The definition's order.
pub struct Order {
    pub sort: Vec<usize>,
    pub group: Group,
}

/// The places of barriers.
#[derive(Debug, PartialEq)]
pub enum Group {
    AsSorted,
    Dimensions(Vec<usize>),
    Only(Vec<usize>),
    Into(usize, Vec<u64>),
}

/// `group_by` before its names are looked up.
enum Grouping {
    Dimensions(Vec<Ident>),
    Only(Vec<Ident>),
    Into(Ident, Vec<u64>),
}

#[derive(Default)]
struct Keys {
    name: Option<LitStr>,
    dimensions: Option<Vec<Ident>>,
    sort: Option<Vec<Ident>>,
    group: Option<Grouping>,
    part: Option<super::part::Written>,
    searchable: Option<Option<Ident>>,
}

/// Reads the attributes of the struct `ident`.
pub fn read(attributes: &[Attribute], ident: &Ident) -> syn::Result<Head> {
    let mut errors = Errors::default();
    let mut kernel = attributes.iter().filter(|attribute| attribute.path().is_ident("kernel"));
    let Some(attribute) = kernel.next() else {
        errors.at(ident, format!("`{ident}` has no kernel name and dimensions: add `#[kernel(name = \"..\", dims(..))]` below the derive"));
        errors.finish()?;
        return Err(Error::new_spanned(ident, "no `#[kernel(..)]`"));
    };
    if let Some(second) = kernel.next() {
        errors.at(second, "a second `#[kernel(..)]`: write one, with all keys");
    }
    if !matches!(attribute.meta, Meta::List(_)) {
        return Err(Error::new_spanned(attribute, "write `#[kernel(name = \"..\", dims(..))]`"));
    }
    let mut keys = Keys::default();
    errors.take(attribute.parse_nested_meta(|meta| keys.read(meta)));
    // Later checks would report what could not be read.
    errors.finish()?;
    keys.finish(attribute)
}

impl Keys {
    fn read(&mut self, meta: ParseNestedMeta<'_>) -> syn::Result<()> {
        let key = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
        match key.as_str() {
            "name" => once(&mut self.name, &meta, kernel_name),
            "dims" => once(&mut self.dimensions, &meta, |meta| names(meta, "dims(x, y)")),
            "sort_by" => once(&mut self.sort, &meta, |meta| names(meta, "sort_by(y)")),
            "group_by" => once(&mut self.group, &meta, grouping),
            "part_by" => once(&mut self.part, &meta, super::part::read),
            "searchable" => once(&mut self.searchable, &meta, searchable),
            _ => Err(meta.error(
                "unknown key: a definition has `name`, `dims`, `sort_by`, `group_by`, `part_by` and `searchable`",
            )),
        }
    }

    fn finish(self, attribute: &Attribute) -> syn::Result<Head> {
        let mut errors = Errors::default();
        if self.name.is_none() {
            errors.at(attribute, "the kernel has no name: add `name = \"group.kernel\"`");
        }
        match &self.dimensions {
            None => errors.at(attribute, "the kernel has no dimensions: add `dims(..)` with their names, dimension 0 first, such as `dims(body)`"),
            Some(dimensions) => distinct(dimensions, "dimension", &mut errors),
        }
        errors.finish()?;
        let (Some(name), Some(dimensions)) = (self.name, self.dimensions) else {
            return Err(Error::new_spanned(attribute, "no name or no dimensions"));
        };
        let mut errors = Errors::default();
        let sort = self.sort.and_then(|names| errors.take(listed(&names, &dimensions)));
        let group = match self.group {
            None => Some(Group::AsSorted),
            Some(Grouping::Dimensions(names)) => {
                errors.take(listed(&names, &dimensions)).map(Group::Dimensions)
            }
            Some(Grouping::Only(names)) => errors.take(listed(&names, &dimensions)).map(Group::Only),
            Some(Grouping::Into(name, values)) => {
                errors.take(position(&name, &dimensions)).map(|at| Group::Into(at, values))
            }
        };
        errors.finish()?;
        let order = Order { sort: sort.unwrap_or_default(), group: group.unwrap_or(Group::AsSorted) };
        Ok(Head { name, dimensions, order, part: self.part, searchable: self.searchable.flatten() })
    }
}

fn once<T>(
    to: &mut Option<T>,
    meta: &ParseNestedMeta<'_>,
    read: impl FnOnce(&ParseNestedMeta<'_>) -> syn::Result<T>,
) -> syn::Result<()> {
    let value = read(meta)?;
    if to.is_some() {
        return Err(meta.error("this key is there twice: remove one"));
    }
    *to = Some(value);
    Ok(())
}

fn kernel_name(meta: &ParseNestedMeta<'_>) -> syn::Result<LitStr> {
    let name: LitStr = meta.value()?.parse()?;
    let good = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if name.value().split('.').all(good) {
        Ok(name)
    } else {
        Err(Error::new(
            name.span(),
            "a kernel's name is words of letters, digits and `_`, joined by `.`, such as `nbody.accelerate`",
        ))
    }
}

fn searchable(meta: &ParseNestedMeta<'_>) -> syn::Result<Option<Ident>> {
    let wrong =
        |span| Error::new(span, "write `searchable = exact`, `searchable = fuzzy` or `searchable = no`");
    let span = meta.path.span();
    let way: Ident = meta.value().and_then(|value| value.parse()).map_err(|_| wrong(span))?;
    match way.to_string().as_str() {
        "exact" => Ok(None),
        "fuzzy" => Ok(Some(Ident::new("Fuzzy", way.span()))),
        "no" => Ok(Some(Ident::new("No", way.span()))),
        _ => Err(wrong(way.span())),
    }
}

/// `(a, b)`, not empty.
fn names(meta: &ParseNestedMeta<'_>, example: &str) -> syn::Result<Vec<Ident>> {
    if !meta.input.peek(syn::token::Paren) {
        return Err(meta.error(format!("write `{example}`, with names of dimensions in parentheses")));
    }
    let content;
    parenthesized!(content in meta.input);
    let names = identifiers(&content)?;
    if names.is_empty() {
        return Err(meta.error(format!("this list is empty: name the dimensions, as in `{example}`")));
    }
    Ok(names)
}

fn identifiers(input: ParseStream<'_>) -> syn::Result<Vec<Ident>> {
    Ok(Punctuated::<Ident, Token![,]>::parse_terminated_with(input, dimension)?.into_iter().collect())
}

fn dimension(input: ParseStream<'_>) -> syn::Result<Ident> {
    input
        .parse()
        .map_err(|error: Error| Error::new(error.span(), "expected the name of a dimension, such as `body`"))
}

fn grouping(meta: &ParseNestedMeta<'_>) -> syn::Result<Grouping> {
    let example = "write `group_by(a, b)`, `group_by(only(a))` or `group_by(a = {3, 5})`";
    if !meta.input.peek(syn::token::Paren) {
        return Err(meta.error(example));
    }
    let content;
    parenthesized!(content in meta.input);
    if content.is_empty() {
        return Err(meta.error(format!("this list is empty: {example}")));
    }
    let first = dimension(&content)?;
    let grouping = if first == "only" && content.peek(syn::token::Paren) {
        let inner;
        parenthesized!(inner in content);
        let names = identifiers(&inner)?;
        if names.is_empty() {
            return Err(Error::new(first.span(), "this list is empty: write `only(a)`"));
        }
        Grouping::Only(names)
    } else if content.peek(Token![=]) {
        content.parse::<Token![=]>()?;
        Grouping::Into(first, values(&content)?)
    } else {
        let mut names = vec![first];
        while content.peek(Token![,]) {
            content.parse::<Token![,]>()?;
            if content.is_empty() {
                break;
            }
            names.push(dimension(&content)?);
        }
        Grouping::Dimensions(names)
    };
    if content.is_empty() { Ok(grouping) } else { Err(content.error(example)) }
}

/// `{3, 5}`.
fn values(input: ParseStream<'_>) -> syn::Result<Vec<u64>> {
    if !input.peek(syn::token::Brace) {
        return Err(
            input.error("list the values before which a barrier stands, as in `group_by(step = {3, 5})`")
        );
    }
    let content;
    let braces = braced!(content in input);
    let values: Vec<u64> = Punctuated::<LitInt, Token![,]>::parse_terminated(&content)?
        .iter()
        .map(LitInt::base10_parse)
        .collect::<syn::Result<_>>()?;
    if values.is_empty() {
        return Err(Error::new(
            braces.span.join(),
            "this list is empty: without values there is no barrier; remove `group_by`",
        ));
    }
    Ok(values)
}

/// The number of a dimension.
pub fn position(name: &Ident, dimensions: &[Ident]) -> syn::Result<usize> {
    dimensions.iter().position(|dimension| dimension == name).ok_or_else(|| {
        let name = name.unraw();
        Error::new_spanned(&name, format!("no dimension `{name}`: the kernel has {}", list(dimensions)))
    })
}

/// The numbers of distinct dimensions.
pub fn positions(names: &[Ident], dimensions: &[Ident]) -> syn::Result<Vec<usize>> {
    let mut errors = Errors::default();
    distinct(names, "dimension", &mut errors);
    let positions = names.iter().filter_map(|name| errors.take(position(name, dimensions))).collect();
    errors.finish()?;
    Ok(positions)
}

fn listed(names: &[Ident], dimensions: &[Ident]) -> syn::Result<Vec<usize>> {
    if let Some(last) = names.get(MAX_LISTED) {
        return Err(Error::new_spanned(last, format!("at most {MAX_LISTED} dimensions can be listed here")));
    }
    positions(names, dimensions)
}

/// The name of a dimension's constant: `y` has `Y`.
pub fn constant(dimension: &Ident) -> Ident {
    Ident::new(&dimension.unraw().to_string().to_uppercase(), dimension.span())
}

fn distinct(names: &[Ident], what: &str, errors: &mut Errors) {
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            errors.at(name, format!("{what} `{name}` is there twice: remove one"));
        } else if let Some(other) = names[..at].iter().find(|other| constant(other) == constant(name)) {
            let both = constant(name);
            errors.at(
                name,
                format!(
                    "`{other}` and `{name}` would have one constant, `{both}`: give one of them another name"
                ),
            );
        }
    }
}
