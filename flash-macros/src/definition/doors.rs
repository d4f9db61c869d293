//! The structs for the doors: the arguments as a kernel sees them. A team sees those of an item.

use super::views::{Access, AccessType, View, Visible};
use super::{Argument, Class, Definition};
use crate::tokens::doc_of;
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::Lifetime;
use syn::spanned::Spanned;

/// A door: one of the ways in which CPU code is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    Item,
    Span,
    Whole,
}

impl Door {
    pub const ALL: [Door; 3] = [Door::Item, Door::Span, Door::Whole];

    /// The suffix of the door's struct, after the definition's name.
    pub fn suffix(self) -> &'static str {
        match self {
            Door::Item => "Item",
            Door::Span => "Span",
            Door::Whole => "Whole",
        }
    }

    fn doc(self, definition: &str) -> String {
        match self {
            Door::Item => format!("The arguments of [`{definition}`] as one work item sees them."),
            Door::Span => format!(
                "The arguments of [`{definition}`] as a run of work items along dimension 0 sees them."
            ),
            Door::Whole => {
                format!("The arguments of [`{definition}`] as all work items of a phase see them.")
            }
        }
    }
}

/// Writes the three structs.
pub fn write(definition: &Definition, core: &TokenStream) -> TokenStream {
    Door::ALL.into_iter().map(|door| structure(definition, door, core)).collect()
}

fn structure(definition: &Definition, door: Door, core: &TokenStream) -> TokenStream {
    let lifetime = definition.kernel_lifetime();
    let generics = definition.generics_with(definition.has_arrays().then_some(&lifetime));
    let (vis, name, where_clause) = (&definition.vis, definition.door(door), &generics.where_clause);
    let doc = doc_of([door.doc(&definition.ident.to_string())]);
    let fields = definition.arguments.iter().map(|argument| {
        let Argument { ident, docs, .. } = argument;
        let ty = argument.of_each(field(argument, door, &lifetime, core));
        let docs = match docs.as_slice() {
            [] => doc_of([format!("Argument `{}`.", argument.name())]),
            docs => quote!(#(#docs)*),
        };
        quote!(#docs pub #ident: #ty)
    });
    quote! {
        #doc
        #[allow(dead_code)]
        #vis struct #name #generics #where_clause { #(#fields),* }
    }
}

/// The type of one argument in a door's struct.
fn field(argument: &Argument, door: Door, k: &Lifetime, core: &TokenStream) -> TokenStream {
    let (ty, span) = (&argument.ty, argument.ty.span());
    let views = quote!(#core::kernel::views);
    match &argument.view {
        View::Scalar => quote!(#ty),
        View::Whole { access } => {
            let element = access.whole_element(core);
            quote_spanned!(span=> &#k [#element])
        }
        View::Uniform { access } => {
            let element = access.whole_element(core);
            quote_spanned!(span=> &#k #element)
        }
        View::Item { access, along } => item(access, door, Class::of(along), k, core),
        View::Phased { element, .. } => match door {
            Door::Item => quote_spanned!(span=> #views::PhasedItem<#k, #element>),
            _ => quote_spanned!(span=> #views::PhasedSpan<#k, #element>),
        },
        View::Scatter { element } => quote_spanned!(span=> #views::ScatterView<#k, #element>),
        View::Ragged { access, element, along, .. } => {
            let one = door == Door::Item || (door == Door::Span && *along != 0);
            match (one, access) {
                (true, Access::Read) => quote_spanned!(span=> &#k [#element]),
                (true, _) => quote_spanned!(span=> &#k mut [#element]),
                (false, Access::Read) => quote_spanned!(span=> #views::RaggedRows<#k, #element>),
                (false, _) => quote_spanned!(span=> #views::RaggedRowsMut<#k, #element>),
            }
        }
        View::Window { access } => {
            let element = access.whole_element(core);
            quote_spanned!(span=> #views::WindowView<#k, #element>)
        }
        View::Reduce { access, operation } => {
            let content = access.content(core);
            match door {
                Door::Whole => quote_spanned!(span=> #views::Accumulators<#k, #content, #operation>),
                _ => quote_spanned!(span=> #views::Accumulator<#k, #content, #operation>),
            }
        }
    }
}

/// The type of an `Item` argument. Where the access is visible it is written out, for the reader of the
/// documentation; otherwise it is the one of `ItemAccess`.
fn item(access: &AccessType, door: Door, class: Class, k: &Lifetime, core: &TokenStream) -> TokenStream {
    let (ty, span) = (&access.ty, access.ty.span());
    let views = quote!(#core::kernel::views);
    let one = door == Door::Item || (door == Door::Span && class == Class::Fixed);
    let strided = door == Door::Span && class == Class::Strided;
    let Some(Visible { access, row, element }) = &access.visible else {
        let name = match (door, class) {
            (Door::Whole, _) => quote!(Whole),
            (Door::Span, Class::Unit) => quote!(Slice),
            (Door::Span, Class::Strided) => quote!(Strided),
            _ => quote!(Item),
        };
        return quote_spanned!(span=> <#ty as #views::ItemAccess>::#name<#k>);
    };
    match (one, *access, row) {
        (true, Access::Read, false) => quote_spanned!(span=> &#k #element),
        (true, Access::ReadWrite, false) => quote_spanned!(span=> &#k mut #element),
        (true, Access::Write, false) => quote_spanned!(span=> #views::Out<#k, #element>),
        (false, Access::Read, true) if door == Door::Span => {
            quote_spanned!(span=> #views::Rows<#k, #element>)
        }
        (false, _, true) if door == Door::Span => {
            quote_spanned!(span=> #views::RowsMut<#k, #element>)
        }
        (_, Access::Read, false) if strided => quote_spanned!(span=> #views::Strided<#k, #element>),
        (_, _, false) if strided => quote_spanned!(span=> #views::StridedMut<#k, #element>),
        (_, Access::Read, _) => quote_spanned!(span=> &#k [#element]),
        (_, _, _) => quote_spanned!(span=> &#k mut [#element]),
    }
}
