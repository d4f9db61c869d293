//! The `unsafe impl KernelDefinition`.

use super::attribute::Group;
use super::bounds;
use super::doors::Door;
use super::views::{Access, Use, View};
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
    let adjacent = adjacent(definition, core);
    let runs = each(definition, |_, argument| run(argument, core));
    let [items, spans, wholes] =
        Door::ALL.map(|door| each(definition, |_, argument| see(argument, door, core)));
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
                    ::std::vec![#(#arguments)*]
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

                #adjacent

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
    let (mut at, mut operations, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
    for (first, argument) in numbered(definition) {
        let View::Reduce { access, operation } = &argument.view else { continue };
        let (access, span) = (&access.ty, argument.ty.span());
        for (number, place) in argument.places(&quote!(bound)).into_iter().enumerate() {
            at.push(first + number);
            operations.push(quote_spanned!(span=> #views::Operation::of::<#access, #operation>()));
            blocks.push(quote!(#place.block(rows);));
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

/// The fields, each with the number of its first argument.
fn numbered(definition: &Definition) -> impl Iterator<Item = (usize, &Argument)> {
    definition.arguments.iter().scan(0, |next, argument| {
        let first = *next;
        *next += argument.count();
        Some((first, argument))
    })
}

fn each(definition: &Definition, write: impl Fn(usize, &Argument) -> TokenStream) -> Vec<TokenStream> {
    numbered(definition).map(|(first, argument)| write(first, argument)).collect()
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
        let (ident, ty) = (&argument.ident, argument.of_each(field(argument)));
        quote!(#ident: #ty)
    });
    quote!(#vis struct #name #generics #where_clause { #(#fields),* })
}

/// The type of one argument in `__Bound`.
fn bound_field(argument: &Argument, core: &TokenStream) -> TokenStream {
    let (ty, span) = (&argument.ty, argument.ty.span());
    let views = quote!(#core::kernel::views);
    match &argument.view {
        View::Scalar => quote!(#ty),
        View::Whole { access } => {
            let element = access.whole_element(core);
            quote_spanned!(span=> (*const #element, ::core::primitive::usize))
        }
        View::Uniform { access } => {
            let element = access.whole_element(core);
            quote_spanned!(span=> *const #element)
        }
        View::Item { access, .. } => {
            let access = &access.ty;
            quote_spanned!(span=> #views::ItemBound<#access>)
        }
        View::Phased { element, .. } => quote_spanned!(span=> #views::PhasedBound<#element>),
        View::Scatter { element } => quote_spanned!(span=> #views::ScatterView<'static, #element>),
        View::Ragged { .. } => {
            let access = ragged_access(&argument.view, core);
            quote_spanned!(span=> #views::RaggedBound<#access>)
        }
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

/// The type of one argument in `__Run`.
fn run_field(argument: &Argument, core: &TokenStream) -> TokenStream {
    let span = argument.ty.span();
    let views = quote!(#core::kernel::views);
    match &argument.view {
        View::Item { access, .. } => {
            let access = &access.ty;
            quote_spanned!(span=> #views::ItemRun<#access>)
        }
        View::Phased { element, .. } => quote_spanned!(span=> #views::PhasedRun<#element>),
        View::Ragged { .. } => {
            let access = ragged_access(&argument.view, core);
            quote_spanned!(span=> #views::RaggedRun<#access>)
        }
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
        View::Uniform { access } => {
            let access = &access.ty;
            quote_spanned!(span=> #views::Uniform<#lifetime, #access>)
        }
        View::Phased { element, .. } => quote_spanned!(span=> #views::Phased<#lifetime, #element>),
        View::Scatter { element } => quote_spanned!(span=> #views::Scatter<#lifetime, #element>),
        View::Ragged { .. } => {
            let access = ragged_access(&argument.view, core);
            quote_spanned!(span=> #views::Ragged<#lifetime, #access>)
        }
        View::Reduce { access, operation } => {
            let access = &access.ty;
            quote_spanned!(span=> #views::Reduce<#lifetime, #access, #operation>)
        }
    }
}

/// `Read<T>` or `ReadWrite<T>` of a `Ragged`.
fn ragged_access(view: &View, core: &TokenStream) -> TokenStream {
    let views = quote!(#core::kernel::views);
    match view {
        View::Ragged { access: Access::Read, element, .. } => quote!(#views::Read<#element>),
        View::Ragged { element, .. } => quote!(#views::ReadWrite<#element>),
        _ => unreachable!("it is asked for of a `Ragged` only"),
    }
}

/// The descriptors of its arguments, with a comma behind each.
fn describe(argument: &Argument, core: &TokenStream) -> TokenStream {
    let span = argument.ty.span();
    let ty = view_type(argument, &parse_quote!('static), core);
    let views = quote!(#core::kernel::views);
    let one = |name: String| match &argument.view {
        View::Scalar => quote_spanned!(span=> #views::describe_scalar::<#ty>(#name),),
        View::Item { along, .. } => {
            quote_spanned!(span=> #views::describe::<#ty>(#name, &[#(#along),*], ::core::option::Option::None),)
        }
        View::Phased { along, stages, .. } => {
            let stages = stages_value(stages, core);
            quote_spanned!(span=> #views::describe::<#ty>(#name, &[#(#along),*], #stages),)
        }
        View::Whole { .. } | View::Scatter { .. } | View::Window { .. } | View::Uniform { .. } => {
            let structure = argument.structure.then(|| quote!(.as_structure()));
            quote_spanned!(span=> #views::describe::<#ty>(#name, &[], ::core::option::Option::None)#structure,)
        }
        View::Ragged { along, at, .. } => {
            quote_spanned!(span=> #views::describe_ragged::<#ty>(#name, #along, #at),)
        }
        View::Reduce { access, operation } => {
            let access = &access.ty;
            quote_spanned!(span=> #views::describe_reduce::<#access, #operation>(#name),)
        }
    };
    argument.names().into_iter().map(one).collect()
}

fn pack(argument: &Argument, core: &TokenStream) -> TokenStream {
    let (ident, span) = (&argument.ident, argument.ty.span());
    let View::Scalar = &argument.view else {
        let ty = view_type(argument, &parse_quote!('_), core);
        let view = quote_spanned!(span=> <#ty as #core::kernel::views::View<'_>>);
        return argument
            .places(&quote_spanned!(span=> self))
            .into_iter()
            .map(|place| quote_spanned!(span=> to.array(#view::array(&mut #place));))
            .collect();
    };
    quote_spanned!(span=> to.scalar(self.#ident);)
}

/// The field of `__Bound`. `first`: the number of its first argument.
fn bind(first: usize, argument: &Argument, core: &TokenStream) -> TokenStream {
    let (ty, span) = (&argument.ty, argument.ty.span());
    let views = quote!(#core::kernel::views);
    argument.field((first..first + argument.count()).map(|at| {
        let arg = quote!(&*args.add(#at));
        let value = match &argument.view {
            View::Scalar => quote_spanned!(span=> #views::scalar::<#ty>(#arg)),
            View::Whole { .. } => {
                quote!({ let arg = #arg; (arg.data.cast_const().cast(), arg.len as ::core::primitive::usize) })
            }
            View::Uniform { .. } => quote!((#arg).data.cast_const().cast()),
            View::Item { .. } => quote!(#views::ItemBound::new(#arg)),
            View::Phased { .. } => quote!(#views::PhasedBound::new(#arg)),
            View::Scatter { .. } => quote!(#views::ScatterView::new(#arg)),
            View::Ragged { at, .. } => quote!(#views::RaggedBound::new(#arg, &*args.add(#at))),
            View::Window { .. } => quote!(#views::WindowView::new(#arg)),
            View::Reduce { .. } => quote!(#views::ReduceBound::new(#arg)),
        };
        quote!(unsafe { #value })
    }))
}

/// The function that asks the arrays whose elements a run takes one after the other.
fn adjacent(definition: &Definition, core: &TokenStream) -> Option<TokenStream> {
    let one = |argument: &Argument| match &argument.view {
        View::Item { along, .. } if Class::of(along) == Class::Unit => argument.places(&quote!(bound)),
        _ => Vec::new(),
    };
    let path = Class::Unit.path(core);
    let asked = definition.arguments.iter().flat_map(one);
    let asked: Vec<TokenStream> = asked.map(|at| quote!(#at.is_adjacent::<{ #path }>())).collect();
    (!asked.is_empty()).then(|| {
        quote! {
            #[inline(always)]
            fn is_adjacent(bound: &Self::Bound) -> ::core::primitive::bool {
                #(#asked)&&*
            }
        }
    })
}

/// The field of `__Run`.
fn run(argument: &Argument, core: &TokenStream) -> TokenStream {
    let one = |bound: TokenStream| match &argument.view {
        View::Scalar
        | View::Whole { .. }
        | View::Scatter { .. }
        | View::Window { .. }
        | View::Uniform { .. } => bound,
        View::Reduce { .. } => quote!(unsafe { #bound.run() }),
        View::Ragged { along, .. } => quote!(unsafe { #bound.run(index, #along) }),
        View::Item { along, .. } => {
            let class = Class::of(along).path(core);
            quote!(unsafe { #bound.run::<{ #class }>(index, &[#(#along),*]) })
        }
        View::Phased { along, stages, .. } => {
            let stages = stages_value(stages, core);
            quote!(unsafe { #bound.run(index, &[#(#along),*], #stages) })
        }
    };
    argument.field(argument.places(&quote!(bound)).into_iter().map(one))
}

/// The field of a door's struct.
fn see(argument: &Argument, door: Door, core: &TokenStream) -> TokenStream {
    let from = if door == Door::Whole { quote!(bound) } else { quote!(run) };
    let one = |from: TokenStream| {
        let value = match &argument.view {
            View::Scalar | View::Scatter { .. } | View::Window { .. } => return from,
            View::Whole { .. } => quote!(#core::kernel::views::whole(#from)),
            View::Uniform { .. } => quote!(#core::kernel::views::uniform(#from)),
            View::Reduce { .. } if door == Door::Whole => quote!(#from.whole()),
            View::Reduce { .. } => quote!(#from.see()),
            View::Ragged { along, .. } => {
                let path = Class::of(&[*along]).path(core);
                match door {
                    Door::Whole => quote!(#from.whole(values, #along)),
                    Door::Span if *along == 0 => quote!(#from.span(len)),
                    Door::Span => quote!(#from.item::<{ #path }>(0)),
                    Door::Item => quote!(#from.item::<{ #path }>(i)),
                }
            }
            View::Item { along, .. } => {
                let class = Class::of(along);
                let path = class.path(core);
                match (door, class) {
                    (Door::Whole, _) => quote!(#from.whole(values)),
                    (Door::Item, _) => quote!(#from.item::<{ #path }>(i)),
                    (Door::Span, Class::Unit) => quote!(#from.slice(len)),
                    (Door::Span, Class::Strided) => quote!(#from.strided(len)),
                    (Door::Span, Class::Fixed) => quote!(#from.item::<{ #path }>(0)),
                }
            }
            View::Phased { along, stages, .. } => {
                let path = Class::of(along).path(core);
                let staged = stages.is_some();
                match door {
                    Door::Item => quote!(#from.item::<{ #path }>(i)),
                    Door::Span => quote!(#from.span(len)),
                    Door::Whole => quote!(#from.whole(#staged, values)),
                }
            }
        };
        quote!(unsafe { #value })
    };
    argument.field(argument.places(&from).into_iter().map(one))
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
