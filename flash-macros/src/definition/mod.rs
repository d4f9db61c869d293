//! `#[derive(KernelDefinition)]`: reads a struct into a [`Definition`], checks it, writes the rest.

mod arguments;
mod attribute;
mod bounds;
mod check;
mod constructor;
mod contract;
mod devices;
mod doors;
mod group;
mod part;
mod staged;
mod taking;
mod views;

#[cfg(test)]
mod tests;

use crate::errors::Errors;
use crate::tokens::{docs, mentions};
use attribute::Order;
use doors::Door;
use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Field, Fields, GenericParam, Generics, Ident, Lifetime};
use syn::{Type, Visibility};
use views::{AccessType, View};

/// A kernel definition as its struct describes it.
pub struct Definition {
    ident: Ident,
    vis: Visibility,
    generics: Generics,
    /// The struct's lifetime, if it has one.
    lifetime: Option<Ident>,
    name: syn::LitStr,
    dimensions: Vec<Ident>,
    order: Order,
    part: Option<part::PartBy>,
    /// The core's variant, if it is not the default.
    searchable: Option<Ident>,
    arguments: Vec<Argument>,
    /// Its code for devices.
    devices: Vec<devices::Devices>,
}

/// A field: an argument, or a group of equal ones.
pub struct Argument {
    ident: Ident,
    /// The field's.
    ty: Type,
    docs: Vec<Attribute>,
    /// Of each argument of a group.
    view: View,
    /// The number of arguments of a group.
    group: Option<usize>,
    /// Partition maps look into it.
    structure: bool,
}

/// The derive.
pub fn derive(input: TokenStream, core: &TokenStream) -> syn::Result<TokenStream> {
    let definition = read(syn::parse2(input)?)?;
    let checks = check::constants(&definition, core);
    let constructor = constructor::write(&definition, &checks, core);
    let doors = doors::write(&definition, core);
    let contract = contract::write(&definition, core, &checks);
    let devices = devices::write(&definition, core);
    let staged = staged::write(&definition, core);
    Ok(quote!(#constructor #doors #contract #devices #staged))
}

/// Reads and checks the struct.
fn read(input: DeriveInput) -> syn::Result<Definition> {
    let fields = named_fields(&input)?;
    let mut errors = Errors::default();
    let lifetime = errors.take(one_lifetime(&input.generics)).flatten();
    let head = errors.take(attribute::read(&input.attrs, &input.ident));
    let devices = devices::read(&input.attrs, &mut errors);
    // Without dimensions nothing can be checked about those of the fields.
    let dimensions = head.as_ref().map(|head| head.dimensions.as_slice());
    let mut arguments: Vec<Argument> = fields
        .into_iter()
        .filter_map(|field| errors.take(argument(field, lifetime.as_ref(), dimensions)))
        .collect();
    arguments::resolve(&mut arguments, &mut errors);
    check::order(&arguments, &mut errors);
    group::names(&arguments, &mut errors);
    // Otherwise arguments that could not be read would be reported as missing.
    errors.finish()?;
    let mut errors = Errors::default();
    let part = head
        .as_ref()
        .and_then(|head| head.part.as_ref())
        .and_then(|part| errors.take(part::resolve(part, dimensions.unwrap_or(&[]), &arguments)));
    errors.finish()?;
    let Some(head) = head else {
        return Err(Error::new_spanned(&input.ident, "the `#[kernel(..)]` attribute cannot be read"));
    };
    let definition = Definition {
        ident: input.ident,
        vis: input.vis,
        generics: input.generics,
        lifetime,
        name: head.name,
        dimensions: head.dimensions,
        order: head.order,
        part,
        searchable: head.searchable,
        arguments,
        devices,
    };
    devices::check(&definition)?;
    Ok(definition)
}

fn named_fields(input: &DeriveInput) -> syn::Result<Vec<Field>> {
    let not = |what: &str| {
        let ident = &input.ident;
        Error::new_spanned(
            ident,
            format!(
                "a kernel definition is a struct with named fields, its arguments: write `struct {ident}<'a> {{ x: Item<'a, Read<f32>>, .. }}` instead of {what}"
            ),
        )
    };
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) if fields.named.is_empty() => Err(not("a struct without fields")),
            Fields::Named(fields) => Ok(fields.named.iter().cloned().collect()),
            Fields::Unnamed(_) => Err(not("a tuple struct")),
            Fields::Unit => Err(not("a unit struct")),
        },
        Data::Enum(_) => Err(not("an enum")),
        Data::Union(_) => Err(not("a union")),
    }
}

fn one_lifetime(generics: &Generics) -> syn::Result<Option<Ident>> {
    let mut lifetimes = generics.lifetimes();
    let Some(first) = lifetimes.next() else {
        return Ok(None);
    };
    let name = &first.lifetime.ident;
    if let Some(second) = lifetimes.next() {
        return Err(Error::new_spanned(
            second,
            format!(
                "a kernel definition has one lifetime, that of its arguments: use `'{name}` for all of them"
            ),
        ));
    }
    let bounds = generics
        .params
        .iter()
        .filter(|param| !matches!(param, GenericParam::Lifetime(_)))
        .map(ToTokens::to_token_stream)
        .chain(generics.where_clause.iter().map(ToTokens::to_token_stream))
        .find(|tokens| mentions(tokens.clone(), name));
    match bounds {
        Some(bounds) => Err(Error::new_spanned(
            bounds,
            format!(
                "`'{name}` is the lifetime of the arguments and cannot stand in a bound: elements are plain data, which is `'static`"
            ),
        )),
        None => Ok(Some(name.clone())),
    }
}

fn argument(field: Field, lifetime: Option<&Ident>, dimensions: Option<&[Ident]>) -> syn::Result<Argument> {
    let Some(ident) = field.ident.clone() else {
        return Err(Error::new_spanned(field, "an argument needs a name"));
    };
    let (ty, group) = group::read(&field.ty)?;
    let view = views::read(ty, lifetime)?;
    let view = match dimensions {
        Some(dimensions) => arguments::read(view, &field, dimensions)?,
        None => view,
    };
    let structure = arguments::structure(&view, &field)?;
    Ok(Argument { docs: docs(&field.attrs), ident, ty: field.ty, view, group, structure })
}

impl Definition {
    /// The generics without the lifetime, and with `lifetime` in its place if there is one.
    fn generics_with(&self, lifetime: Option<&Lifetime>) -> Generics {
        let mut generics = self.generics.clone();
        generics.params = lifetime
            .map(|lifetime| GenericParam::Lifetime(syn::LifetimeParam::new(lifetime.clone())))
            .into_iter()
            .chain(
                self.generics
                    .params
                    .iter()
                    .filter(|param| !matches!(param, GenericParam::Lifetime(_)))
                    .cloned(),
            )
            .collect();
        generics.lt_token.get_or_insert_default();
        generics.gt_token.get_or_insert_default();
        generics
    }

    /// The lifetime of a kernel's arguments, by a name that is free.
    fn kernel_lifetime(&self) -> Lifetime {
        let name = if self.lifetime.as_ref().is_some_and(|name| name == "k") { "'kernel" } else { "'k" };
        Lifetime::new(name, proc_macro2::Span::call_site())
    }

    /// Name of a door's struct.
    fn door(&self, door: Door) -> Ident {
        format_ident!("{}{}", self.ident, door.suffix())
    }

    /// True if a kernel's arguments borrow anything.
    fn has_arrays(&self) -> bool {
        self.arguments.iter().any(|argument| !matches!(argument.view, View::Scalar))
    }
}

impl Argument {
    fn name(&self) -> String {
        unraw(&self.ident)
    }
}

impl AccessType {
    /// The element of a `Whole`.
    fn whole_element(&self, core: &TokenStream) -> TokenStream {
        let ty = &self.ty;
        match &self.visible {
            Some(visible) => visible.element.to_token_stream(),
            None => quote_spanned! {ty.span()=>
                <#core::kernel::views::Whole<'static, #ty> as #core::kernel::views::View<'static>>::Element
            },
        }
    }
}

impl AccessType {
    /// What a `Reduce` accumulates.
    fn content(&self, core: &TokenStream) -> TokenStream {
        let ty = &self.ty;
        match &self.visible {
            Some(visible) => visible.element.to_token_stream(),
            None => quote_spanned!(ty.span()=> <#ty as #core::kernel::views::ReduceAccess>::Content),
        }
    }
}

/// How the element of an `Item` moves along dimension 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Not at all.
    Fixed,
    /// Dimension 0 is axis 0.
    Unit,
    /// Dimension 0 is another axis.
    Strided,
}

impl Class {
    fn of(along: &[usize]) -> Class {
        match along.iter().position(|dimension| *dimension == 0) {
            None => Class::Fixed,
            Some(0) => Class::Unit,
            Some(_) => Class::Strided,
        }
    }

    /// The core's constant.
    fn path(self, core: &TokenStream) -> TokenStream {
        match self {
            Class::Fixed => quote!(#core::kernel::views::FIXED),
            Class::Unit => quote!(#core::kernel::views::UNIT),
            Class::Strided => quote!(#core::kernel::views::STRIDED),
        }
    }
}

fn unraw(ident: &Ident) -> String {
    ident.unraw().to_string()
}
