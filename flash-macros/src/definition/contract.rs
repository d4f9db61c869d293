//! The `unsafe impl KernelDefinition`.

use super::attribute::Group;
use super::bounds;
use super::doors::Door;
use super::views::{Use, View};
use super::{Argument, Class, Definition, part};
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, Lifetime, WherePredicate, parse_quote};

/// Writes the impl with its hidden types. `checks` are assertions.
pub fn write(definition: &Definition, core: &TokenStream, checks: &TokenStream) -> TokenStream {
    let ident = &definition.ident;
    let kernel = quote!(#core::kernel);
    let bounds = bounds::read(definition, core);
    let generics = bounds::add(definition.generics.clone(), &bounds);
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    let statics =
        definition.generics_with(definition.lifetime.as_ref().map(|_| parse_quote!('static)).as_ref());
    let static_generics = statics.split_for_impl().1;
    let hidden = definition.generics_with(None);
    let hidden_generics = hidden.split_for_impl().1;
    let k = definition.kernel_lifetime();
    let seen = definition.generics_with(definition.has_arrays().then_some(&k));
    let seen_generics = seen.split_for_impl().1;
    let [item_type, span_type, whole_type] = Door::ALL.map(|door| definition.door(door));

    let bound_type = hidden_struct(definition, "__Bound", &bounds, &|argument| bound_field(argument, core));
    let run_type = hidden_struct(definition, "__Run", &bounds, &|argument| run_field(argument, core));
    let name = &definition.name;
    let rank = definition.dimensions.len();
    let dimensions = definition.dimensions.iter().map(super::unraw);
    let sort = dimension_list(&definition.order.sort, core);
    let (group, values) = group(&definition.order.group, core);
    let searchable = definition.searchable.as_ref().map(
        |way| quote!(const SEARCHABLE: #core::descriptor::Searchable = #core::descriptor::Searchable::#way;),
    );
    let part_by = definition.part.as_ref().map(|part| part::write(part, core));
    let arguments = each(definition, |_, argument| describe(argument, core));
    let packs = each(definition, |_, argument| pack(argument, core));
    let binds = each(definition, |at, argument| bind(at, argument, core));
    let runs = each(definition, |_, argument| run(argument, core));
    let items = each(definition, |_, argument| see(argument, Door::Item, core));
    let spans = each(definition, |_, argument| see(argument, Door::Span, core));
    let wholes = each(definition, |_, argument| see(argument, Door::Whole, core));
    let reduces = reduces(definition, core);
    // Without type parameters the assertions can be evaluated at once, otherwise for each use.
    let generic = definition.generics.type_params().next().is_some()
        || definition.generics.const_params().next().is_some();
    let (now, later) = match (checks.is_empty(), generic) {
        (true, _) => (None, None),
        (false, false) => (Some(quote!(const _: () = { #checks };)), None),
        (false, true) => (None, Some(quote!(const { #checks }))),
    };

    // SAFETY of the generated code: `arguments`, `pack` and `bind` go over the same fields in the same order.
    // `run`, `item`, `span` and `whole` only call the views' constructors, whose requirements are what the
    // callers of these functions promise for the argument so described. The types of the views are spelled
    // out with the core's paths, so that an alias of the same name is an error.
    quote! {
        #[automatically_derived]
        #[allow(trivial_bounds, unused_variables)]
        const _: () = {
            #now
            #bound_type
            #run_type
            #values
            unsafe impl #impl_generics #kernel::KernelDefinition for #ident #ty_generics #where_clause {
                type Static = #ident #static_generics;
                type Index = #kernel::Index<#rank>;
                type Sort = #kernel::SortBy<#sort>;
                type Group = #kernel::GroupBy<#group>;
                type Item<#k> = #item_type #seen_generics;
                type Span<#k> = #span_type #seen_generics;
                type Whole<#k> = #whole_type #seen_generics;
                type Bound = __Bound #hidden_generics;
                type Run = __Run #hidden_generics;
                const NAME: &'static ::core::primitive::str = #name;
                const DIMENSIONS: &'static [&'static ::core::primitive::str] = &[#(#dimensions),*];

                #searchable

                #part_by

                fn arguments() -> ::std::vec::Vec<#core::descriptor::ArgumentDescriptor> {
                    #later
                    ::std::vec![#(#arguments),*]
                }

                #[inline(always)]
                fn pack(&mut self, to: &mut impl #kernel::ArgumentWriter) {
                    #(#packs)*
                }

                #[inline(always)]
                unsafe fn bind(args: *const #core::abi::Arg) -> Self::Bound {
                    __Bound { #(#binds),* }
                }

                #reduces

                #[inline(always)]
                unsafe fn run(bound: &Self::Bound, index: &[::core::primitive::usize]) -> Self::Run {
                    __Run { #(#runs),* }
                }

                #[inline(always)]
                unsafe fn item<#k>(run: &#k Self::Run, i: ::core::primitive::usize) -> Self::Item<#k> {
                    #item_type { #(#items),* }
                }

                #[inline(always)]
                unsafe fn span<#k>(run: &#k Self::Run, len: ::core::primitive::usize) -> Self::Span<#k> {
                    #span_type { #(#spans),* }
                }

                #[inline(always)]
                unsafe fn whole<#k>(
                    bound: &#k Self::Bound,
                    values: ::core::option::Option<&[::core::ops::Range<::core::primitive::u64>]>,
                ) -> Self::Whole<#k> {
                    #whole_type { #(#wholes),* }
                }
            }
        };
    }
}

/// The description of a definition's accumulators.
fn reduces(definition: &Definition, core: &TokenStream) -> Option<TokenStream> {
    let views = quote!(#core::kernel::views);
    let arguments = definition.arguments.iter().enumerate();
    let (mut at, mut operations, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
    for (number, argument) in arguments {
        if let View::Reduce { access, operation } = &argument.view {
            let (ident, access, span) = (&argument.ident, &access.ty, argument.ty.span());
            at.push(number);
            operations.push(quote_spanned!(span=> #views::Operation::of::<#access, #operation>()));
            blocks.push(quote!(bound.#ident.block(rows);));
        }
    }
    (!at.is_empty()).then(|| {
        quote! {
            const REDUCES: &'static [::core::primitive::usize] = &[#(#at),*];

            fn operations() -> ::std::vec::Vec<#views::Operation> {
                ::std::vec![#(#operations),*]
            }

            #[inline(always)]
            unsafe fn block(
                bound: &mut Self::Bound,
                rows: &::core::ops::Range<::core::primitive::u64>,
            ) {
                #(#blocks)*
            }
        }
    })
}

fn each(definition: &Definition, write: impl Fn(usize, &Argument) -> TokenStream) -> Vec<TokenStream> {
    definition.arguments.iter().enumerate().map(|(at, argument)| write(at, argument)).collect()
}

/// A struct with a field per argument.
fn hidden_struct(
    definition: &Definition,
    name: &str,
    bounds: &[WherePredicate],
    field: &dyn Fn(&Argument) -> TokenStream,
) -> TokenStream {
    let name = Ident::new(name, proc_macro2::Span::call_site());
    let generics = bounds::add(definition.generics_with(None), bounds);
    let (vis, where_clause) = (&definition.vis, &generics.where_clause);
    let fields = each(definition, |_, argument| {
        let (ident, ty) = (&argument.ident, field(argument));
        quote!(#ident: #ty)
    });
    quote!(#vis struct #name #generics #where_clause { #(#fields),* })
}

fn bound_field(argument: &Argument, core: &TokenStream) -> TokenStream {
    let (ty, span) = (&argument.ty, argument.ty.span());
    let views = quote!(#core::kernel::views);
    match &argument.view {
        View::Scalar => quote!(#ty),
        View::Whole { access } => {
            let element = access.whole_element(core);
            quote_spanned!(span=> (*const #element, ::core::primitive::usize))
        }
        View::Item { access, .. } => {
            let access = &access.ty;
            quote_spanned!(span=> #views::ItemBound<#access>)
        }
        View::Phased { element, .. } => quote_spanned!(span=> #views::PhasedBound<#element>),
        View::Scatter { element } => quote_spanned!(span=> #views::ScatterView<'static, #element>),
        View::Window { access } => {
            let element = access.whole_element(core);
            quote_spanned!(span=> #views::WindowView<'static, #element>)
        }
        View::Reduce { access, operation } => {
            let content = access.content(core);
            quote_spanned!(span=> #views::ReduceBound<#content, #operation>)
        }
    }
}

fn run_field(argument: &Argument, core: &TokenStream) -> TokenStream {
    let span = argument.ty.span();
    let views = quote!(#core::kernel::views);
    match &argument.view {
        View::Item { access, .. } => {
            let access = &access.ty;
            quote_spanned!(span=> #views::ItemRun<#access>)
        }
        View::Phased { element, .. } => quote_spanned!(span=> #views::PhasedRun<#element>),
        View::Reduce { access, .. } => {
            let content = access.content(core);
            quote_spanned!(span=> #views::ReduceRun<#content>)
        }
        _ => bound_field(argument, core),
    }
}

/// The core's own type of a view.
fn view_type(argument: &Argument, lifetime: &Lifetime, core: &TokenStream) -> TokenStream {
    let (ty, span) = (&argument.ty, argument.ty.span());
    let views = quote!(#core::kernel::views);
    match &argument.view {
        View::Scalar => quote!(#ty),
        View::Item { access, .. } => {
            let access = &access.ty;
            quote_spanned!(span=> #views::Item<#lifetime, #access>)
        }
        View::Whole { access } => {
            let access = &access.ty;
            quote_spanned!(span=> #views::Whole<#lifetime, #access>)
        }
        View::Window { access } => {
            let access = &access.ty;
            quote_spanned!(span=> #views::Window<#lifetime, #access>)
        }
        View::Phased { element, .. } => quote_spanned!(span=> #views::Phased<#lifetime, #element>),
        View::Scatter { element } => quote_spanned!(span=> #views::Scatter<#lifetime, #element>),
        View::Reduce { access, operation } => {
            let access = &access.ty;
            quote_spanned!(span=> #views::Reduce<#lifetime, #access, #operation>)
        }
    }
}

fn describe(argument: &Argument, core: &TokenStream) -> TokenStream {
    let (name, span) = (argument.name(), argument.ty.span());
    let ty = view_type(argument, &parse_quote!('static), core);
    let views = quote!(#core::kernel::views);
    match &argument.view {
        View::Scalar => quote_spanned!(span=> #views::describe_scalar::<#ty>(#name)),
        View::Item { along, .. } => {
            quote_spanned!(span=> #views::describe::<#ty>(#name, &[#(#along),*], ::core::option::Option::None))
        }
        View::Phased { along, stages, .. } => {
            let stages = stages_value(stages, core);
            quote_spanned!(span=> #views::describe::<#ty>(#name, &[#(#along),*], #stages))
        }
        View::Whole { .. } | View::Scatter { .. } | View::Window { .. } => {
            let structure = argument.structure.then(|| quote!(.as_structure()));
            quote_spanned!(span=> #views::describe::<#ty>(#name, &[], ::core::option::Option::None)#structure)
        }
        View::Reduce { access, operation } => {
            let access = &access.ty;
            quote_spanned!(span=> #views::describe_reduce::<#access, #operation>(#name))
        }
    }
}

fn pack(argument: &Argument, core: &TokenStream) -> TokenStream {
    let (ident, span) = (&argument.ident, argument.ty.span());
    match &argument.view {
        View::Scalar => quote_spanned!(span=> to.scalar(self.#ident);),
        _ => {
            let ty = view_type(argument, &parse_quote!('_), core);
            quote_spanned!(span=> to.array(<#ty as #core::kernel::views::View<'_>>::array(&mut self.#ident));)
        }
    }
}

fn bind(at: usize, argument: &Argument, core: &TokenStream) -> TokenStream {
    let (ident, ty, span) = (&argument.ident, &argument.ty, argument.ty.span());
    let views = quote!(#core::kernel::views);
    let arg = quote!(&*args.add(#at));
    let value = match &argument.view {
        View::Scalar => quote_spanned!(span=> #views::scalar::<#ty>(#arg)),
        View::Whole { .. } => {
            quote!({ let arg = #arg; (arg.data.cast_const().cast(), arg.len as ::core::primitive::usize) })
        }
        View::Item { .. } => quote!(#views::ItemBound::new(#arg)),
        View::Phased { .. } => quote!(#views::PhasedBound::new(#arg)),
        View::Scatter { .. } => quote!(#views::ScatterView::new(#arg)),
        View::Window { .. } => quote!(#views::WindowView::new(#arg)),
        View::Reduce { .. } => quote!(#views::ReduceBound::new(#arg)),
    };
    quote!(#ident: unsafe { #value })
}

fn run(argument: &Argument, core: &TokenStream) -> TokenStream {
    let ident = &argument.ident;
    match &argument.view {
        View::Scalar | View::Whole { .. } | View::Scatter { .. } | View::Window { .. } => {
            quote!(#ident: bound.#ident)
        }
        View::Reduce { .. } => quote!(#ident: unsafe { bound.#ident.run() }),
        View::Item { along, .. } => {
            let class = Class::of(along).path(core);
            quote!(#ident: unsafe { bound.#ident.run::<{ #class }>(index, &[#(#along),*]) })
        }
        View::Phased { along, stages, .. } => {
            let stages = stages_value(stages, core);
            quote!(#ident: unsafe { bound.#ident.run(index, &[#(#along),*], #stages) })
        }
    }
}

/// The value of an argument in a door's struct.
fn see(argument: &Argument, door: Door, core: &TokenStream) -> TokenStream {
    let ident = &argument.ident;
    let from = if door == Door::Whole { quote!(bound) } else { quote!(run) };
    let value = match &argument.view {
        View::Scalar | View::Scatter { .. } | View::Window { .. } => return quote!(#ident: #from.#ident),
        View::Whole { .. } => quote!(#core::kernel::views::whole(#from.#ident)),
        View::Reduce { .. } if door == Door::Whole => quote!(bound.#ident.whole()),
        View::Reduce { .. } => quote!(run.#ident.see()),
        View::Item { along, .. } => {
            let class = Class::of(along);
            let path = class.path(core);
            match (door, class) {
                (Door::Whole, _) => quote!(bound.#ident.whole(values)),
                (Door::Item, _) => quote!(run.#ident.item::<{ #path }>(i)),
                (Door::Span, Class::Unit) => quote!(run.#ident.slice(len)),
                (Door::Span, Class::Strided) => quote!(run.#ident.strided(len)),
                (Door::Span, Class::Fixed) => quote!(run.#ident.item::<{ #path }>(0)),
            }
        }
        View::Phased { along, stages, .. } => {
            let path = Class::of(along).path(core);
            let staged = stages.is_some();
            match door {
                Door::Item => quote!(run.#ident.item::<{ #path }>(i)),
                Door::Span => quote!(run.#ident.span(len)),
                Door::Whole => quote!(bound.#ident.whole(#staged, values)),
            }
        }
    };
    quote!(#ident: unsafe { #value })
}

fn stages_value(stages: &Option<(usize, Vec<Use>)>, core: &TokenStream) -> TokenStream {
    let Some((dimension, uses)) = stages else {
        return quote!(::core::option::Option::None);
    };
    let uses = uses.iter().map(|usage| match usage {
        Use::Read => quote!(#core::kernel::views::Use::Read),
        Use::Write => quote!(#core::kernel::views::Use::Write),
    });
    quote!(::core::option::Option::Some((#dimension, &[#(#uses),*])))
}

fn dimension_list(dimensions: &[usize], core: &TokenStream) -> TokenStream {
    quote!((#(#core::kernel::order::D<#dimensions>,)*))
}

/// The parameter of `GroupBy`, and the type of its list of values if there is one.
fn group(group: &Group, core: &TokenStream) -> (TokenStream, TokenStream) {
    match group {
        Group::AsSorted => (quote!(()), quote!()),
        Group::Dimensions(dimensions) => (dimension_list(dimensions, core), quote!()),
        Group::Only(dimensions) => {
            let dimensions = dimension_list(dimensions, core);
            (quote!(#core::kernel::order::Only<#dimensions>), quote!())
        }
        Group::Into(dimension, values) => (
            quote!(#core::kernel::order::Into<#core::kernel::order::D<#dimension>, __Values>),
            quote! {
                pub struct __Values;
                impl #core::kernel::order::Values for __Values {
                    const VALUES: &'static [::core::primitive::u64] = &[#(#values),*];
                }
            },
        ),
    }
}
