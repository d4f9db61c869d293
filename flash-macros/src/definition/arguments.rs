//! `#[along(..)]`, `#[phased(..)]`, `#[rows(..)]` and `#[structure]` on a field.

use super::Argument;
use super::attribute::{position, positions};
use super::views::{Use, View};
use crate::errors::{Errors, list};
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Field, Ident, Meta, Token, bracketed};

/// Completes a view by its field's attributes.
pub fn read(view: View, field: &Field, dimensions: &[Ident]) -> syn::Result<View> {
    let mut errors = Errors::default();
    let along_attribute = errors.take(single(field, "along")).flatten();
    let phased_attribute = errors.take(single(field, "phased")).flatten();
    if let (Some(attribute), false) = (phased_attribute, matches!(view, View::Phased { .. })) {
        errors.at(
            attribute,
            "only a `Phased` is used by stage: remove this, or make the field `Phased<'a, T>`",
        );
    }
    if let (
        Some(attribute),
        View::Scalar
        | View::Whole { .. }
        | View::Scatter { .. }
        | View::Window { .. }
        | View::Uniform { .. }
        | View::Reduce { .. },
    ) = (along_attribute, &view)
    {
        let what = match view {
            View::Scalar => "a scalar is the same for all work items",
            View::Whole { .. } => "a `Whole` is seen whole by all work items",
            View::Window { .. } => "a `Window` is seen by all work items, with what `part_by` gives",
            View::Uniform { .. } => "a `Uniform` is one element for all work items",
            View::Reduce { .. } => "all work items put into a `Reduce`",
            _ => "a `Scatter` is seen whole by all work items",
        };
        errors.at(attribute, format!("{what}, so that no dimensions index it: remove this, or use `Item`"));
    }
    let rows_attribute = errors.take(single(field, "rows")).flatten();
    if let (Some(attribute), false) = (rows_attribute, matches!(view, View::Ragged { .. })) {
        errors.at(
            attribute,
            "only a `Ragged` has rows that another argument names: remove this, or make the field `Ragged<'a, Read<T>>`",
        );
    }
    let along = match along_attribute {
        Some(attribute) => errors.take(along(attribute, dimensions)).unwrap_or_default(),
        None => (0..dimensions.len()).collect(),
    };
    let view = match view {
        View::Item { access, .. } => View::Item { access, along },
        View::Phased { element, .. } => {
            if let (Some(attribute), Some(1..)) = (along_attribute, along.iter().position(|d| *d == 0)) {
                // `PhasedSpan` gives the run's own elements as a slice.
                errors.at(attribute, format!(
                    "dimension 0, `{0}`, must be the first here, or absent: runs of work items lie along it, and the own elements of a run of a `Phased` stand side by side",
                    dimensions[0]
                ));
            }
            let stages = phased_attribute.and_then(|attribute| errors.take(stages(attribute, dimensions)));
            View::Phased { element, along, stages }
        }
        View::Ragged { access, element, at, .. } => {
            let one = match along[..] {
                [dimension] => dimension,
                _ => {
                    errors.at(
                        &field.ty,
                        "one dimension says which row is a work item's: name it, as in `#[along(row)]`",
                    );
                    0
                }
            };
            let starts = match rows_attribute {
                Some(attribute) => errors.take(rows(attribute)),
                None => {
                    errors.at(&field.ty, "which argument says where its rows begin? Write `#[rows(start)]`, with a `Whole<'a, Read<u64>>` that is marked `#[structure]`");
                    None
                }
            };
            View::Ragged { access, element, along: one, starts, at }
        }
        view => view,
    };
    errors.finish()?;
    Ok(view)
}

/// `#[rows(start)]`.
fn rows(attribute: &Attribute) -> syn::Result<Ident> {
    let example = "write `#[rows(start)]`, with the argument that says where rows begin";
    let Meta::List(list) = &attribute.meta else {
        return Err(Error::new_spanned(attribute, example));
    };
    syn::parse2(list.tokens.clone()).map_err(|_| Error::new_spanned(attribute, example))
}

/// Looks up the arguments that say where the rows of others begin.
pub fn resolve(arguments: &mut [Argument], errors: &mut Errors) {
    for i in 0..arguments.len() {
        let View::Ragged { starts: Some(name), .. } = &arguments[i].view else { continue };
        let mut next = 0;
        let found = arguments.iter().position(|argument| {
            let is_it = argument.ident == *name;
            next += if is_it { 0 } else { argument.count() };
            is_it
        });
        let why = match found.map(|at| (at, &arguments[at])) {
            None => {
                let names: Vec<&Ident> = arguments.iter().map(|argument| &argument.ident).collect();
                format!("no argument `{name}`: the kernel has {}", list(names))
            }
            Some((at, _)) if at > i => format!("`{name}` must stand before what has its rows"),
            Some((_, argument)) if argument.structure && argument.group.is_none() => {
                if let View::Ragged { at, .. } = &mut arguments[i].view {
                    *at = next;
                }
                continue;
            }
            Some(_) => format!(
                "rows begin where a `Whole<'a, Read<u64>>` says that is marked `#[structure]`: make `{name}` one"
            ),
        };
        errors.at(name, why);
    }
}

/// Whether a field is marked `#[structure]`.
pub fn structure(view: &View, field: &Field) -> syn::Result<bool> {
    let Some(attribute) = single(field, "structure")? else { return Ok(false) };
    if !matches!(attribute.meta, Meta::Path(_)) {
        return Err(Error::new_spanned(attribute, "write `#[structure]`, without more"));
    }
    match view {
        View::Whole { .. } => Ok(true),
        _ => Err(Error::new_spanned(
            attribute,
            "partition maps look into arrays that all work items see whole: make the field `Whole<'a, Read<T>>`, or remove this",
        )),
    }
}

fn single<'f>(field: &'f Field, name: &str) -> syn::Result<Option<&'f Attribute>> {
    let mut attributes = field.attrs.iter().filter(|attribute| attribute.path().is_ident(name));
    let first = attributes.next();
    match attributes.next() {
        Some(second) => Err(Error::new_spanned(second, format!("a second `#[{name}(..)]`: write one"))),
        None => Ok(first),
    }
}

fn along(attribute: &Attribute, dimensions: &[Ident]) -> syn::Result<Vec<usize>> {
    let example = "write `#[along(x, y)]`, with the dimensions that index the array, axis 0 first";
    let Meta::List(list) = &attribute.meta else {
        return Err(Error::new_spanned(attribute, example));
    };
    let names =
        Punctuated::<Ident, Token![,]>::parse_terminated.parse2(list.tokens.clone()).map_err(|error| {
            if list.tokens.is_empty() { error } else { Error::new(error.span(), example) }
        })?;
    if names.is_empty() {
        return Err(Error::new_spanned(
            attribute,
            "no dimension indexes this array: name one, or use `Whole<'a, Read<T>>`, which all work items see whole",
        ));
    }
    positions(&names.into_iter().collect::<Vec<_>>(), dimensions)
}

/// `stage = [read, write]`.
fn stages(attribute: &Attribute, dimensions: &[Ident]) -> syn::Result<(usize, Vec<Use>)> {
    let example = "write `#[phased(stage = [read, write])]`: the name of a dimension, and for each of its values what is done";
    let Meta::List(list) = &attribute.meta else {
        return Err(Error::new_spanned(attribute, example));
    };
    let parse = |input: ParseStream<'_>| {
        let name: Ident = input.parse().map_err(|e: Error| Error::new(e.span(), example))?;
        input.parse::<Token![=]>().map_err(|e| Error::new(e.span(), example))?;
        if !input.peek(syn::token::Bracket) {
            return Err(input.error(example));
        }
        let content;
        let brackets = bracketed!(content in input);
        let words = Punctuated::<Ident, Token![,]>::parse_terminated(&content)
            .map_err(|e| Error::new(e.span(), "a stage is `read` or `write`"))?;
        if words.is_empty() {
            return Err(Error::new(
                brackets.span.join(),
                "this list is empty: for each value of the dimension, write `read` or `write`",
            ));
        }
        Ok((name, words))
    };
    let (name, words) = parse.parse2(list.tokens.clone())?;
    let mut errors = Errors::default();
    let dimension = errors.take(position(&name, dimensions));
    let uses = words
        .iter()
        .filter_map(|word| match word.to_string().as_str() {
            "read" => Some(Use::Read),
            "write" => Some(Use::Write),
            other => {
                errors.at(word, format!("a stage is `read` or `write`, not `{other}`; a `Phased` without this attribute does both in every phase, with two buffers"));
                None
            }
        })
        .collect();
    errors.finish()?;
    match dimension {
        Some(dimension) => Ok((dimension, uses)),
        None => Err(Error::new_spanned(name, "no such dimension")),
    }
}
