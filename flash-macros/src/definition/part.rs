//! `part_by(y, from = stencil(x = 1, y = 1), map = PATH)`.

use super::Argument;
use super::attribute::position;
use super::views::View;
use crate::errors::{Errors, list};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::meta::ParseNestedMeta;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Ident, LitInt, Path, Token, parenthesized, token};

const EXAMPLE: &str = "write `part_by(y)`, with maps of arguments behind the dimension, such as `part_by(y, from = stencil(x = 1, y = 1))`, or `part_by(y, map = PATH)`";
const MAPS: &str = "a map is `rows(y)`, `columns(x)`, `tiles(x = 32, y = 16)`, `stencil(x = 1, y = 1)` or `csr_rows(row, start)`";

/// The key before its names are looked up.
pub struct Written {
    dimension: Option<Ident>,
    maps: Vec<(Ident, Map<Ident, Ident>)>,
    function: Option<Path>,
}

/// How launches are cut.
pub struct PartBy {
    dimension: Option<String>,
    maps: Vec<(String, Map<String, String>)>,
    function: Option<Path>,
}

/// The map of one argument, with dimensions as `D` and arguments as `A`.
enum Map<D, A> {
    Rows(D),
    Columns(D),
    /// `None`: all along an axis.
    Tiles(Vec<Option<(D, u64)>>),
    Stencil(Vec<(D, u64)>),
    CsrRows(D, A),
}

/// Reads the key's parentheses.
pub fn read(meta: &ParseNestedMeta<'_>) -> syn::Result<Written> {
    if !meta.input.peek(token::Paren) {
        return Err(meta.error(EXAMPLE));
    }
    let content;
    parenthesized!(content in meta.input);
    if content.is_empty() {
        return Err(meta.error(format!("this list is empty: {EXAMPLE}")));
    }
    let mut written = Written { dimension: None, maps: Vec::new(), function: None };
    while !content.is_empty() {
        let name: Ident = content.parse().map_err(|e: Error| Error::new(e.span(), EXAMPLE))?;
        if content.peek(Token![=]) {
            content.parse::<Token![=]>()?;
            written.value(name, &content)?;
        } else if written.dimension.is_none() && written.maps.is_empty() && written.function.is_none() {
            written.dimension = Some(name);
        } else {
            return Err(Error::new(name.span(), EXAMPLE));
        }
        if !content.is_empty() {
            content.parse::<Token![,]>().map_err(|e| Error::new(e.span(), EXAMPLE))?;
        }
    }
    Ok(written)
}

impl Written {
    fn value(&mut self, name: Ident, input: ParseStream<'_>) -> syn::Result<()> {
        let path: Path = input.parse().map_err(|e: Error| Error::new(e.span(), MAPS))?;
        if input.peek(token::Paren) {
            if self.maps.iter().any(|(known, _)| *known == name) {
                return Err(Error::new(name.span(), format!("`{name}` has a map already: remove one")));
            }
            self.maps.push((name, map(&path, input)?));
        } else if name != "map" {
            return Err(Error::new(path.span(), format!("{MAPS}; a function is `map = PATH`")));
        } else if self.function.replace(path).is_some() {
            return Err(Error::new(name.span(), "a second `map`: one function says all boxes"));
        }
        Ok(())
    }
}

/// `stencil(x = 1)` and so on, after the name.
fn map(path: &Path, input: ParseStream<'_>) -> syn::Result<Map<Ident, Ident>> {
    let content;
    let parentheses = parenthesized!(content in input);
    let kind = path.get_ident().map(Ident::to_string).unwrap_or_default();
    let empty = |example: &str| {
        Error::new(parentheses.span.join(), format!("this list is empty: write `{kind}({example})`"))
    };
    let name = |example: &str| -> syn::Result<Ident> {
        if content.is_empty() {
            return Err(empty(example));
        }
        content.parse().map_err(|e: Error| Error::new(e.span(), format!("write `{kind}({example})`")))
    };
    let read = match kind.as_str() {
        "rows" => Map::Rows(name("y")?),
        "columns" => Map::Columns(name("x")?),
        "tiles" | "stencil" => {
            let is_tiles = kind == "tiles";
            let example = if is_tiles { "x = 32, y = 16" } else { "x = 1, y = 1" };
            let read = if is_tiles { axis_or_all } else { |input: ParseStream<'_>| axis(input).map(Some) };
            let axes = Punctuated::<_, Token![,]>::parse_terminated_with(&content, read)?;
            match (axes.is_empty(), is_tiles) {
                (true, _) => return Err(empty(example)),
                (_, true) => Map::Tiles(axes.into_iter().collect()),
                (_, false) => Map::Stencil(axes.into_iter().flatten().collect()),
            }
        }
        "csr_rows" => {
            let row = name("row, start")?;
            content.parse::<Token![,]>().map_err(|e| {
                Error::new(e.span(), "write `csr_rows(row, start)`, with the argument of row pointers")
            })?;
            Map::CsrRows(row, name("row, start")?)
        }
        _ => return Err(Error::new(path.span(), format!("no map `{}`: {MAPS}", path.to_token_stream()))),
    };
    if content.is_empty() {
        Ok(read)
    } else {
        Err(content.error(format!("nothing more belongs here: {MAPS}")))
    }
}

/// `x = 1`.
fn axis(input: ParseStream<'_>) -> syn::Result<(Ident, u64)> {
    let wrong = |e: Error| {
        Error::new(
            e.span(),
            "per axis of the array, axis 0 first, write the dimension and a number, as in `x = 1`",
        )
    };
    let name: Ident = input.parse().map_err(wrong)?;
    input.parse::<Token![=]>().map_err(wrong)?;
    let number: LitInt = input.parse().map_err(wrong)?;
    Ok((name, number.base10_parse().map_err(wrong)?))
}

/// `x = 1`, or `_`: all along an axis.
fn axis_or_all(input: ParseStream<'_>) -> syn::Result<Option<(Ident, u64)>> {
    match input.parse::<Option<Token![_]>>()? {
        Some(_) => Ok(None),
        None => axis(input).map(Some),
    }
}

/// Looks up the names.
pub fn resolve(written: &Written, dimensions: &[Ident], arguments: &[Argument]) -> syn::Result<PartBy> {
    let mut errors = Errors::default();
    let dimension = |name: &Ident| position(name, dimensions).map(|at| super::unraw(&dimensions[at]));
    let argument = |name: &Ident| {
        arguments.iter().find(|a| a.ident == *name).ok_or_else(|| {
            let names = arguments.iter().map(|a| &a.ident);
            Error::new_spanned(name, format!("no argument `{name}`: the kernel has {}", list(names)))
        })
    };
    let mapped = |name: &Ident| {
        let why = match argument(name)?.view {
            View::Window { .. } | View::Phased { .. } | View::Scatter { .. } => {
                return Ok(super::unraw(name));
            }
            View::Scalar => "it is a scalar".to_owned(),
            View::Item { .. } => "it is an `Item`, whose elements follow from its index".to_owned(),
            View::Uniform { .. } => "it is a `Uniform`, of which every part reads the one element".to_owned(),
            View::Reduce { .. } => "it is a `Reduce`, whose parts are merged".to_owned(),
            View::Ragged { .. } => "it is a `Ragged`, whose elements follow from its rows".to_owned(),
            View::Whole { .. } => "it is a `Whole`, which is never cut: make it a `Window`".to_owned(),
        };
        Err(Error::new_spanned(name, format!("`{name}` has no map: {why}")))
    };
    let pointers = |name: &Ident| match argument(name)? {
        found if found.group.is_some() => Err(Error::new_spanned(
            name,
            format!("`{name}` is a group: row pointers are one argument, a `Whole<'a, Read<u64>>`"),
        )),
        found if found.structure => Ok(super::unraw(name)),
        _ => Err(Error::new_spanned(
            name,
            format!(
                "the map looks into `{name}`: mark that field `#[structure]`, as a `Whole<'a, Read<u64>>`"
            ),
        )),
    };
    let axes = |axes: &[(Ident, u64)]| {
        axes.iter().map(|(name, number)| Ok((dimension(name)?, *number))).collect::<syn::Result<Vec<_>>>()
    };
    let map = |map: &Map<Ident, Ident>| -> syn::Result<Map<String, String>> {
        Ok(match map {
            Map::Rows(name) => Map::Rows(dimension(name)?),
            Map::Columns(name) => Map::Columns(dimension(name)?),
            Map::Tiles(widths) => {
                let of = |one: &Option<(Ident, u64)>| {
                    one.as_ref().map(|(name, number)| Ok((dimension(name)?, *number)))
                };
                Map::Tiles(widths.iter().map(|one| of(one).transpose()).collect::<syn::Result<_>>()?)
            }
            Map::Stencil(widths) => Map::Stencil(axes(widths)?),
            Map::CsrRows(name, start) => Map::CsrRows(dimension(name)?, pointers(start)?),
        })
    };
    let along = written.dimension.as_ref().and_then(|name| errors.take(dimension(name)));
    let maps = written.maps.iter().filter_map(|(name, written)| {
        let (name, map) = (errors.take(mapped(name)), errors.take(map(written)));
        name.zip(map)
    });
    let maps = maps.collect();
    let is_mapped = |a: &Argument| written.maps.iter().any(|(name, _)| *name == a.ident);
    let scatters = arguments.iter().filter(|a| matches!(a.view, View::Scatter { .. }) && !is_mapped(a));
    for scatter in scatters.filter(|_| written.function.is_none()) {
        let name = &scatter.ident;
        errors.at(name, format!("`{name}` is a `Scatter`, which may be written anywhere, so that the kernel cannot be cut: name it in `part_by` with the elements that a part writes, as in `{name} = rows(y)`, make it a `Reduce`, or remove `part_by`"));
    }
    errors.finish()?;
    Ok(PartBy { dimension: along, maps, function: written.function.clone() })
}

/// The definition's function.
pub fn write(part: &PartBy, core: &TokenStream) -> TokenStream {
    let descriptor = quote!(#core::descriptor);
    let base = match &part.dimension {
        Some(dimension) => quote!(#descriptor::part_by(#dimension)),
        None => quote!(<#descriptor::PartBy as ::core::default::Default>::default()),
    };
    let maps = part.maps.iter().map(|(argument, map)| {
        let map = match map {
            Map::Rows(dimension) => quote!(rows(#dimension)),
            Map::Columns(dimension) => quote!(columns(#dimension)),
            Map::Tiles(axes) if axes.iter().all(Option::is_some) => {
                axes_call("tiles", &axes.iter().flatten().cloned().collect::<Vec<_>>())
            }
            Map::Tiles(axes) => {
                let axes = axes.iter().map(|axis| match axis {
                    Some((name, number)) => quote!(#descriptor::AxisMap::Along {
                        dimension: ::std::string::String::from(#name),
                        scale: #number,
                        before: 0,
                        after: 0,
                    }),
                    None => quote!(#descriptor::AxisMap::All),
                });
                return quote!(.map(#argument, #descriptor::ArrayMap(::std::vec![#(#axes),*])));
            }
            Map::Stencil(axes) => axes_call("stencil", axes),
            Map::CsrRows(dimension, pointers) => quote!(csr_rows(#dimension, #pointers)),
        };
        quote!(.map(#argument, #descriptor::#map))
    });
    let function = part.function.as_ref().map(|path| {
        // The span is the path's, so that an error of its type is reported there.
        quote_spanned!(path.span()=> .by({
            let map: &#core::kernel::PartitionMap = &#path;
            map
        }))
    });
    quote! {
        fn part_by() -> ::core::option::Option<#descriptor::PartBy> {
            ::core::option::Option::Some(#base #(#maps)* #function)
        }
    }
}

fn axes_call(name: &str, axes: &[(String, u64)]) -> TokenStream {
    let name = Ident::new(name, proc_macro2::Span::call_site());
    let (names, numbers): (Vec<_>, Vec<_>) = axes.iter().cloned().unzip();
    quote!(#name([#((#names, #numbers)),*]))
}
