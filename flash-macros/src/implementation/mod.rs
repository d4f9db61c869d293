//! `#[kernel]` on an impl of a door: the impl as written, and an entry in the inventory for each
//! element type.

mod attribute;
mod features;
mod target;

#[cfg(test)]
mod tests;

use crate::staging;
use crate::tokens::respan;
use attribute::Keys;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use std::hash::{DefaultHasher, Hash, Hasher};
use syn::spanned::Spanned;
use syn::{Error, FnArg, Ident, ImplItem, ImplItemFn, Item, ItemImpl, ReturnType, Signature, parse_quote};
use target::{Door, Target};

const HERE: &str =
    "`#[kernel(..)]` belongs on an impl of `CpuItem`, `CpuTeam`, `CpuSpan`, `CpuWhole` or `DeviceFunction`";

/// The attribute.
pub fn kernel(attribute: TokenStream, item: TokenStream, core: &TokenStream) -> syn::Result<TokenStream> {
    let mut implementation = the_impl(item)?;
    let mut keys = attribute::read(attribute)?;
    if keys.devices.is_some() {
        keys.attributes.push((TOKENS.to_owned(), number_of(&implementation)));
    }
    let target = target::read(&implementation)?;
    if let (Door::Device, Some(span)) = (target.door, keys.cpu_features_at) {
        let text = "`cpu_features` is for functions that run on a CPU: remove it, or say which devices by `architecture`";
        return Err(Error::new(span, text));
    }
    if let (None, Some(span)) = (keys.devices, keys.fast_math.or(keys.unchecked)) {
        let text = "`fast_math` and `unsafe(unchecked)` are for the text for devices: write `devices`, too, or leave this out";
        return Err(Error::new(span, text));
    }
    let lists = target::lists(&target, keys.elements.as_ref())?;
    let name = keys.name.as_ref().map_or_else(|| snake_case(&target.unit.to_string()), |name| name.value());
    let texts = match keys.devices {
        None => Vec::new(),
        Some(span) => texts(&implementation, &target, &lists, &name, &keys, span, core)?,
    };
    if matches!(target.door, Door::Item | Door::Team) {
        inline(&mut implementation);
    }
    settle_results(&mut implementation, core);
    let cfgs: Vec<_> =
        implementation.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).collect();
    let entries = lists.iter().map(|list| entry(&target, list, &name, &keys, core));
    // Loops of devices count.
    let counts = keys.devices.map(|_| quote!(#[allow(clippy::needless_range_loop)]));
    Ok(quote! {
        #counts
        #implementation
        // An impl that is configured out registers nothing.
        #(#cfgs)*
        const _: () = { #(#entries)* #(#texts)* };
    })
}

/// The attribute of a function and of the text beside it, which are of the same tokens: a number that these
/// have. The runtime takes what it knows of the text for true of the function.
const TOKENS: &str = "tokens";

fn number_of(implementation: &ItemImpl) -> String {
    let mut hasher = DefaultHasher::new();
    implementation.to_token_stream().to_string().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Has the body inlined into the loop over work items: only there are its views in registers, its checks
/// before the loop, its items side by side in vectors, and the instructions for which the loop is compiled.
fn inline(implementation: &mut ItemImpl) {
    for item in &mut implementation.items {
        if let ImplItem::Fn(function) = item
            && (function.sig.ident == "item" || function.sig.ident == "team")
            && !function.attrs.iter().any(|attribute| attribute.path().is_ident("inline"))
        {
            function.attrs.push(parse_quote!(#[inline(always)]));
        }
    }
}

/// Has the function of a CPU's door return nothing: what its body returns is settled inside.
fn settle_results(implementation: &mut ItemImpl, core: &TokenStream) {
    for item in &mut implementation.items {
        let ImplItem::Fn(function) = item else { continue };
        if !is_of_door(&function.sig) {
            continue;
        }
        let is_of_item = ["item", "team"].iter().any(|name| function.sig.ident == name);
        let ReturnType::Type(_, ty) = std::mem::replace(&mut function.sig.output, ReturnType::Default) else {
            continue;
        };
        let mut body = function.block.to_token_stream();
        let mut at = quote!(());
        if let (true, Some(FnArg::Typed(input))) = (is_of_item, function.sig.inputs.first_mut()) {
            let index = Ident::new("index_of_item", Span::mixed_site());
            let pattern = std::mem::replace(&mut *input.pat, parse_quote!(#index));
            body = quote!({ let #pattern = #index; #body });
            at = quote!(#index);
        }
        // All with the span of the type, for one that is no result.
        let settle = respan(quote!(#core::kernel::Outcome::settle), ty.span());
        function.block = parse_quote!({ #settle((move || -> #ty { #body })(), #at); });
    }
}

/// The texts for devices, one for each element type, and their entries. Text that was written by hand goes
/// before one of the same priority.
fn texts(
    implementation: &ItemImpl,
    target: &Target,
    lists: &[target::List],
    name: &str,
    keys: &Keys,
    span: Span,
    core: &TokenStream,
) -> syn::Result<Vec<TokenStream>> {
    if !matches!(target.door, Door::Item | Door::Team) || keys.target.is_some() {
        return Err(Error::new(
            span,
            "`devices` is for `CpuItem` and `CpuTeam` of CPUs: devices run one work item at a time; write the kernel so, or code for devices with `#[implementations(..)]`",
        ));
    }
    let options = {
        let (fast_math, unchecked) = (keys.fast_math.is_some(), keys.unchecked.is_some());
        quote!(#core::kernel::staging::TextOptions { fast_math: #fast_math, unchecked: #unchecked })
    };
    let of_list = |(at, list): (usize, &target::List)| {
        let values: Vec<_> =
            target.parameters.iter().zip(list.values.iter().map(ToTokens::to_token_stream)).collect();
        let text = format_ident!("text_{at}");
        let staged = staging::Staged {
            implementation,
            definition: &list.definition,
            threads: list.threads.as_ref(),
            values: &values,
            name: &text,
            options: &options,
        };
        let function = staging::of_door(&staged, core)?;
        let selection: Vec<_> = keys
            .attributes
            .iter()
            .filter(|(key, _)| {
                ["vendor", "device", "architecture", "version", TOKENS].contains(&key.as_str())
            })
            .cloned()
            .collect();
        let entry = staging::Entry {
            definition: &list.definition,
            threads: list.threads.as_ref(),
            text: &text,
            name,
            priority: keys.priority.saturating_sub(1),
            attributes: &selection,
            fast_math: keys.fast_math.is_some(),
            span: list.span.unwrap_or(span),
        };
        let entries = staging::entries(&entry, core);
        Ok(quote!(#function #entries))
    };
    lists.iter().enumerate().map(of_list).collect()
}

/// The item without further `#[kernel]`, to show next to an error.
pub fn without_kernel(item: TokenStream) -> TokenStream {
    match syn::parse2::<Item>(item.clone()) {
        // A definition is of no use without its derive.
        Ok(Item::Struct(_) | Item::Enum(_) | Item::Union(_)) => TokenStream::new(),
        Ok(Item::Impl(mut implementation)) => {
            // Its trait has functions that return nothing.
            for item in &mut implementation.items {
                if let ImplItem::Fn(ImplItemFn { sig, block, .. }) = item
                    && is_of_door(sig)
                    && let ReturnType::Type(_, ty) = std::mem::replace(&mut sig.output, ReturnType::Default)
                {
                    *block = parse_quote!({ let _: #ty = (move || -> #ty #block)(); });
                }
            }
            implementation.into_token_stream()
        }
        _ => item,
    }
}

/// True for the functions of doors of a CPU.
fn is_of_door(function: &Signature) -> bool {
    ["item", "team", "span", "whole"].iter().any(|name| function.ident == name)
}

fn the_impl(item: TokenStream) -> syn::Result<ItemImpl> {
    match syn::parse2(item)? {
        Item::Impl(implementation) => Ok(implementation),
        Item::Fn(function) => Err(Error::new_spanned(
            function.sig,
            "`#[kernel]` on a function comes later: write a definition and an impl of `CpuItem`",
        )),
        Item::Struct(item) => Err(Error::new_spanned(
            item.ident,
            "a kernel definition is derived: write `#[derive(KernelDefinition)]` above `#[kernel(..)]`",
        )),
        other => Err(Error::new_spanned(other, HERE)),
    }
}

/// One entry of the inventory. All of it has the span of the element type in `for(..)`, so that a type that
/// the impl does not cover is reported there.
fn entry(target: &Target, list: &target::List, name: &str, keys: &Keys, core: &TokenStream) -> TokenStream {
    let unit = &target.unit_path;
    let definition = &list.definition;
    let (priority, features) = (keys.priority, &keys.cpu_features);
    let attributes = keys.attributes.iter().map(|(key, value)| quote!((#key, #value)));
    let kernel = quote!(#core::kernel);
    let kind = keys.target.as_ref().map_or_else(|| "cpu".to_owned(), syn::LitStr::value);
    let threads = list.threads.as_ref().map(|threads| quote!(, #threads));
    let build = match target.door.function() {
        Some(function) => quote! {
            #kernel::cpu_implementation::<#definition>(
                #kernel::CpuFunction::#function::<#definition, #unit #threads>(),
                #name,
                #kind,
                #priority,
                #features,
                &[#(#attributes),*],
            )
        },
        None => quote! {
            #kernel::device_function::<#definition, #unit>(#name, #priority, &[#(#attributes),*])
        },
    };
    let tokens = quote! {
        #core::__private::inventory::submit! {
            #kernel::ImplementationEntry {
                kernel: <#definition as #kernel::KernelDefinition>::NAME,
                build: || #build,
                module: ::core::module_path!(),
            }
        }
    };
    respan(tokens, list.span.unwrap_or(target.definition.span()))
}

/// `Avx512` is `avx512`, `TwoLoops` is `two_loops`.
fn snake_case(name: &str) -> String {
    let mut out = String::new();
    let mut before = '_';
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        let word_ends = before.is_lowercase() || before.is_ascii_digit();
        let acronym_ends = before.is_uppercase() && letters.peek().is_some_and(|next| next.is_lowercase());
        if letter.is_uppercase() && before != '_' && (word_ends || acronym_ends) {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
        before = letter;
    }
    out
}
