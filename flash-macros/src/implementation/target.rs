//! The definition, door and unit struct of an impl: `impl<T: Real> CpuItem<Accelerate<'_, T>> for Plain`.

use super::HERE;
use crate::keys::{Elements, GenericValue, check_list, span_of};
use crate::tokens::{last_segment, replace_ident, replace_lifetime, text};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident};
use syn::{Error, GenericArgument, GenericParam, Ident, ItemImpl, Path, PathArguments, Type, parse_quote};

/// The trait of an impl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    Item,
    /// As `Item`, with several threads for a work item.
    Team,
    Span,
    Whole,
    /// A function of the host's that puts work into a device's queue.
    Device,
}

/// The parts of the impl.
pub struct Target {
    pub door: Door,
    /// How many threads a team has.
    pub threads: Option<TokenStream>,
    /// The definition's type, with every lifetime `'static`.
    pub definition: TokenStream,
    /// Its types and constants.
    pub arguments: Vec<GenericArgument>,
    /// The impl's type and const parameters.
    pub parameters: Vec<Ident>,
    /// The unit struct.
    pub unit: Ident,
    /// The unit struct as named in the impl.
    pub unit_path: Path,
}

/// One implementation to register.
pub struct List {
    /// The definition's type with the element types in it.
    pub definition: TokenStream,
    /// The place of the element types in the attribute.
    pub span: Option<Span>,
    /// The element types, one for each parameter of the impl.
    pub values: Vec<GenericValue>,
    /// How many threads a team has.
    pub threads: Option<TokenStream>,
}

impl Door {
    /// The function of `CpuFunction`; a device's function has none.
    pub fn function(self) -> Option<Ident> {
        match self {
            Door::Item => Some(format_ident!("item")),
            Door::Team => Some(format_ident!("team")),
            Door::Span => Some(format_ident!("span")),
            Door::Whole => Some(format_ident!("whole")),
            Door::Device => None,
        }
    }
}

/// Takes the impl apart.
pub fn read(item: &ItemImpl) -> syn::Result<Target> {
    let Some((negative, path, _)) = &item.trait_ else {
        return Err(Error::new_spanned(
            &item.self_ty,
            format!("an impl without a trait is no implementation: {HERE}"),
        ));
    };
    let segment = path.segments.last().filter(|_| negative.is_none());
    let door = match segment.map(|segment| segment.ident.to_string()).as_deref() {
        Some("CpuItem") => Door::Item,
        Some("CpuTeam") => Door::Team,
        Some("CpuSpan") => Door::Span,
        Some("CpuWhole") => Door::Whole,
        Some("DeviceFunction") => Door::Device,
        _ => return Err(Error::new_spanned(path, HERE)),
    };
    let given: Vec<&GenericArgument> = match segment.map(|segment| &segment.arguments) {
        Some(PathArguments::AngleBracketed(list)) => list.args.iter().collect(),
        _ => Vec::new(),
    };
    let (definition, threads) = match (&given[..], door) {
        ([GenericArgument::Type(definition), threads], Door::Team) => {
            (definition, Some(threads.to_token_stream()))
        }
        (_, Door::Team) => {
            let text = "name the kernel definition and the number of threads, as in `CpuTeam<Accelerate<'_, T>, 64>`";
            return Err(Error::new_spanned(path, text));
        }
        ([GenericArgument::Type(definition)], _) => (definition, None),
        _ => {
            let text = "name the kernel definition, as in `CpuItem<Accelerate<'_, T>>`";
            return Err(Error::new_spanned(path, text));
        }
    };
    let unit_path = unit(&item.self_ty)?;
    let Some(unit) = unit_path.segments.last().map(|segment| segment.ident.clone()) else {
        return Err(Error::new_spanned(&item.self_ty, "name a unit struct"));
    };
    let arguments = match last_segment(definition).map(|segment| &segment.arguments) {
        Some(PathArguments::AngleBracketed(list)) => list
            .args
            .iter()
            .filter(|argument| !matches!(argument, GenericArgument::Lifetime(_)))
            .cloned()
            .collect(),
        _ => Vec::new(),
    };
    let parameters = item
        .generics
        .params
        .iter()
        .filter_map(|parameter| match parameter {
            GenericParam::Type(parameter) => Some(parameter.ident.clone()),
            GenericParam::Const(parameter) => Some(parameter.ident.clone()),
            GenericParam::Lifetime(_) => None,
        })
        .collect();
    let definition = with_static(definition, item);
    Ok(Target { door, threads, definition, arguments, parameters, unit, unit_path })
}

fn unit(ty: &Type) -> syn::Result<Path> {
    let wrong = |what: &str| {
        Err(Error::new_spanned(
            ty,
            format!(
                "{what}: an implementation is a unit struct of its own, such as `pub struct Plain;`, whose name is the implementation's"
            ),
        ))
    };
    match crate::tokens::plain(ty) {
        Type::Path(path) if path.qself.is_none() => {
            if path.path.segments.iter().all(|segment| segment.arguments.is_none()) {
                Ok(path.path.clone())
            } else {
                wrong("this type has generics")
            }
        }
        _ => wrong("this is no struct"),
    }
}

/// The definition's type with every lifetime `'static`.
fn with_static(definition: &Type, item: &ItemImpl) -> TokenStream {
    let to = parse_quote!('static);
    let names = item.generics.lifetimes().map(|lifetime| lifetime.lifetime.ident.clone());
    names
        .chain([Ident::new("_", Span::call_site())])
        .fold(definition.to_token_stream(), |tokens, name| replace_lifetime(tokens, &name, &to))
}

/// The implementations to register.
pub fn lists(target: &Target, elements: Option<&Elements>) -> syn::Result<Vec<List>> {
    let Some(elements) = elements else {
        let Some(parameter) = target.parameters.first() else {
            return Ok(vec![target.alone(None)]);
        };
        return Err(Error::new_spanned(
            parameter,
            "a generic impl cannot be put into an inventory: list the element types, for example `#[kernel(for(f32, f64))]`",
        ));
    };
    let texts: Vec<Vec<String>> = elements.lists.iter().map(|list| list.iter().map(text).collect()).collect();
    for (at, list) in texts.iter().enumerate() {
        if texts[..at].contains(list) {
            return Err(Error::new(span_of(&elements.lists[at]), "this is there twice: remove one"));
        }
    }
    if target.parameters.is_empty() {
        return concrete(target, elements, &texts);
    }
    elements.lists.iter().map(|list| generic(target, list)).collect()
}

/// An impl without parameters: the list may repeat its types.
fn concrete(target: &Target, elements: &Elements, texts: &[Vec<String>]) -> syn::Result<Vec<List>> {
    let own: Vec<String> = target.arguments.iter().map(text).collect();
    match texts {
        [list] if *list == own => Ok(vec![target.alone(Some(span_of(&elements.lists[0])))]),
        _ if own.is_empty() => {
            Err(Error::new(elements.span, "this impl has no element type to choose: remove `for(..)`"))
        }
        _ => {
            let own = if own.len() == 1 { own[0].clone() } else { format!("({})", own.join(", ")) };
            Err(Error::new(
                elements.span,
                format!(
                    "this impl is for `{own}` alone: write `for({own})`, or give the impl a type parameter"
                ),
            ))
        }
    }
}

fn generic(target: &Target, list: &[GenericValue]) -> syn::Result<List> {
    check_list(list, "impl", &target.parameters)?;
    // All at once, so that the next parameter is not replaced inside a type just put in.
    let values: Vec<(&Ident, TokenStream)> =
        target.parameters.iter().zip(list.iter().map(ToTokens::to_token_stream)).collect();
    let replaced = |tokens: &TokenStream| {
        replace_ident(tokens.clone(), &|ident| {
            values.iter().find(|(name, _)| *name == ident).map(|(_, value)| value.clone())
        })
    };
    let (definition, threads) = (replaced(&target.definition), target.threads.as_ref().map(replaced));
    Ok(List { definition, span: Some(span_of(list)), values: list.to_vec(), threads })
}

impl Target {
    /// The implementation of an impl without parameters.
    fn alone(&self, span: Option<Span>) -> List {
        let (definition, threads) = (self.definition.clone(), self.threads.clone());
        List { definition, span, values: Vec::new(), threads }
    }
}
