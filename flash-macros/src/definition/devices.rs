//! `#[implementations(opencl = "nbody.cl", cooperating, for(f32, f64))]`: code for devices, in files beside
//! the definition, and an entry in the inventory for each file and element type.

use super::Definition;
use crate::errors::{Errors, list};
use crate::keys::{self, Elements, GenericValue, check_list, span_of};
use crate::tokens::respan;
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::parse::ParseStream;
use syn::{Attribute, Error, GenericParam, Ident, LitStr, Meta, Token};

const EXAMPLE: &str = "write `#[implementations(opencl = \"kernel.cl\")]`";
const KEYS: &str = "`opencl`, `cuda`, `target`, `source`, `binary`, `for(..)`, `cooperating`, `entry`, `name`, `priority`, `alignment`, `work_group_size`, `threads_per_item`, `items_per_thread`, `single_work_item`, `grid_barrier`, `bounds_checked`, `index32`, `strides`, `requires`, `build_options`, `vendor`, `device`, `architecture` and `version`";

/// A kind of device, and the endings of its files. `c` is text for any.
struct Target {
    key: &'static str,
    source: &'static [&'static str],
    binary: &'static [&'static str],
}

const TARGETS: &[Target] = &[
    Target { key: "opencl", source: &["cl", "c"], binary: &["aocx", "bin", "spv"] },
    Target { key: "cuda", source: &["cu", "c"], binary: &["ptx", "cubin", "fatbin"] },
];

/// One entry of the attribute: a file, or files for different targets, with its keys.
pub struct Devices {
    attribute: Attribute,
    files: Vec<File>,
    elements: Option<Elements>,
    name: Option<LitStr>,
    priority: i32,
    /// Attributes by the types of their values.
    texts: Vec<(String, String)>,
    numbers: Vec<(String, u32)>,
    flags: Vec<String>,
}

/// A file with code, after the texts that it builds on.
struct File {
    target: String,
    before: Vec<LitStr>,
    path: LitStr,
    binary: bool,
}

/// Reads all entries: `;` separates those of different files in one attribute.
pub fn read(attributes: &[Attribute], errors: &mut Errors) -> Vec<Devices> {
    let mut ours = attributes.iter().filter(|attribute| attribute.path().is_ident("implementations"));
    let Some(attribute) = ours.next() else {
        return Vec::new();
    };
    if let Some(second) = ours.next() {
        errors.at(second, "a second `#[implementations(..)]`: write one, with `;` between the files");
    }
    errors.take(read_one(attribute)).unwrap_or_default()
}

fn read_one(attribute: &Attribute) -> syn::Result<Vec<Devices>> {
    let Meta::List(meta) = &attribute.meta else {
        return Err(Error::new_spanned(attribute, EXAMPLE));
    };
    let all = meta.parse_args_with(|input: ParseStream<'_>| {
        let mut all = Vec::new();
        while !input.is_empty() {
            all.push(Devices::read(attribute, input)?);
        }
        Ok(all)
    })?;
    match all.is_empty() {
        true => Err(no_file(attribute)),
        false => Ok(all),
    }
}

fn no_file(attribute: &Attribute) -> Error {
    Error::new_spanned(attribute, format!("no file with code is named: {EXAMPLE}"))
}

impl Devices {
    /// Reads up to the end or a `;`.
    fn read(attribute: &Attribute, input: ParseStream<'_>) -> syn::Result<Devices> {
        let mut devices = Devices {
            attribute: attribute.clone(),
            files: Vec::new(),
            elements: None,
            name: None,
            priority: 0,
            texts: Vec::new(),
            numbers: Vec::new(),
            flags: Vec::new(),
        };
        let mut seen: Vec<String> = Vec::new();
        let mut other = Other::default();
        while !input.is_empty() && !input.peek(Token![;]) {
            devices.key(input, &mut seen, &mut other)?;
            if !input.is_empty() && !input.peek(Token![;]) {
                input.parse::<Token![,]>()?;
            }
        }
        input.parse::<Option<Token![;]>>()?;
        devices.files.extend(other.file()?);
        match devices.files.is_empty() {
            true => Err(no_file(attribute)),
            false => Ok(devices),
        }
    }

    fn key(&mut self, input: ParseStream<'_>, seen: &mut Vec<String>, other: &mut Other) -> syn::Result<()> {
        let span = input.span();
        let key = match input.parse::<Option<Token![for]>>()? {
            Some(_) => "for".to_owned(),
            None => {
                let known = |error: Error| Error::new(error.span(), format!("expected one of {KEYS}"));
                input.parse::<Ident>().map_err(known)?.to_string()
            }
        };
        if seen.contains(&key) {
            return Err(Error::new(span, format!("`{key}` is there twice: remove one")));
        }
        match key.as_str() {
            "for" => self.elements = Some(Elements::read(input, span)?),
            "name" => self.name = Some(keys::name(input)?),
            "target" => other.target = Some(keys::target(input)?),
            "source" => other.source = keys::texts(input, &key, "kernel.txt")?,
            "binary" => other.binary = Some(keys::text(input, &key, "kernel.bin")?),
            "priority" => self.priority = keys::priority(input)?,
            "entry" | "requires" | "build_options" | "vendor" | "device" | "architecture" | "version" => {
                self.texts.push((key.clone(), keys::text(input, &key, "..")?.value()));
            }
            "alignment" | "work_group_size" | "threads_per_item" | "items_per_thread" => {
                self.numbers.push((key.clone(), keys::number(input, &key)?));
            }
            "cooperating" | "single_work_item" | "grid_barrier" | "bounds_checked" | "index32"
            | "strides" => {
                if input.peek(Token![=]) {
                    return Err(Error::new(span, format!("write `{key}` alone, or leave it out")));
                }
                self.flags.push(key.clone());
            }
            _ => match TARGETS.iter().find(|target| target.key == key) {
                Some(target) => self.files.push(file(target, &keys::texts(input, &key, "kernel.cl")?)?),
                None => return Err(Error::new(span, format!("unknown key `{key}`; available: {KEYS}"))),
            },
        }
        seen.push(key);
        Ok(())
    }
}

fn file(target: &Target, paths: &[LitStr]) -> syn::Result<File> {
    let (path, before) = paths.split_last().expect("at least one");
    let binary = is_binary(target, path)?;
    if !before.is_empty() && binary {
        return Err(Error::new(path.span(), "a binary stands alone: a list is of source texts"));
    }
    for path in before {
        if is_binary(target, path)? {
            return Err(Error::new(
                path.span(),
                "a binary goes before no other file: a list is of source texts",
            ));
        }
    }
    Ok(File { target: target.key.to_owned(), before: before.to_vec(), path: path.clone(), binary })
}

/// Code for a kind of device that these macros do not know.
#[derive(Default)]
struct Other {
    target: Option<LitStr>,
    source: Vec<LitStr>,
    binary: Option<LitStr>,
}

impl Other {
    fn file(self) -> syn::Result<Option<File>> {
        const EXAMPLE: &str =
            "write `target = \"my-isa\", source = \"kernel.txt\"`, or `binary = \"kernel.bin\"`";
        let wrong = |at: &LitStr, what: &str| Err(Error::new(at.span(), format!("{what}: {EXAMPLE}")));
        let (mut before, binary) = (self.source, self.binary.is_some());
        let path = match (self.binary, before.last()) {
            (Some(binary), Some(_)) => return wrong(&binary, "code is a text or a binary, not both"),
            (Some(binary), None) => Some(binary),
            (None, _) => before.pop(),
        };
        match (self.target, path) {
            (None, None) => Ok(None),
            (Some(target), None) => wrong(&target, "no file with code is named"),
            (None, Some(path)) => wrong(&path, "for which kind of device is it?"),
            (Some(target), Some(path)) => Ok(Some(File { target: target.value(), before, path, binary })),
        }
    }
}

/// Decided by its ending.
fn is_binary(target: &Target, path: &LitStr) -> syn::Result<bool> {
    let value = path.value();
    let (stem, ending) = value.rsplit_once('.').unwrap_or((&value, ""));
    let (source, binary) = (target.source.contains(&ending), target.binary.contains(&ending));
    if stem.is_empty() || !(source || binary) {
        let endings = target.source.iter().chain(target.binary).map(|ending| format!(".{ending}"));
        return Err(Error::new(
            path.span(),
            format!("expected a file for `{}`, which ends with {}", target.key, list(endings)),
        ));
    }
    Ok(binary)
}

impl File {
    /// Without folders: the default name of the implementation.
    fn name(&self) -> String {
        let path = self.path.value();
        path.rsplit(['/', '\\']).next().unwrap_or(&path).to_owned()
    }
}

/// Checks them against the definition, and each other.
pub fn check(definition: &Definition) -> syn::Result<()> {
    let mut errors = Errors::default();
    let parameters = parameters(definition);
    let mut names: Vec<(String, String, Vec<String>)> = Vec::new();
    for devices in &definition.devices {
        let lists: &[Vec<GenericValue>] =
            match (&devices.elements, parameters.first()) {
                (None, None) => &[Vec::new()],
                (None, Some(parameter)) => {
                    errors.at(&devices.attribute, format!(
                        "for which `{parameter}` is it? List the element types, for example `for(f32, f64)`"
                    ));
                    continue;
                }
                (Some(elements), None) => {
                    errors.push(Error::new(
                        elements.span,
                        "this definition has no element type to choose: remove `for(..)`",
                    ));
                    continue;
                }
                (Some(elements), Some(_)) => &elements.lists,
            };
        for values in lists {
            errors.take(check_list(values, "definition", &parameters));
            for file in &devices.files {
                let texts = values.iter().map(crate::tokens::text).collect();
                let name = devices.name.as_ref().map_or_else(|| file.name(), LitStr::value);
                let entry = (name, file.target.clone(), texts);
                if names.contains(&entry) {
                    let (name, target, _) = &entry;
                    errors.push(Error::new(
                        devices.name.as_ref().map_or(file.path.span(), LitStr::span),
                        format!("`{name}` for `{target}` is there twice: give one of them a `name = \"..\"` of its own, or remove it"),
                    ));
                }
                names.push(entry);
            }
        }
    }
    errors.finish()
}

/// The definition's type and const parameters.
fn parameters(definition: &Definition) -> Vec<&Ident> {
    let named = definition.generics.params.iter().filter_map(|parameter| match parameter {
        GenericParam::Type(parameter) => Some(&parameter.ident),
        GenericParam::Const(parameter) => Some(&parameter.ident),
        GenericParam::Lifetime(_) => None,
    });
    named.collect()
}

/// Writes the entries of the inventory.
pub fn write(definition: &Definition, core: &TokenStream) -> TokenStream {
    let parameters = parameters(definition);
    let entries = definition.devices.iter().flat_map(|devices| {
        let lists = devices.elements.as_ref().map_or(&[][..], |elements| &elements.lists);
        let lists = if lists.is_empty() { vec![&[][..]] } else { lists.iter().map(Vec::as_slice).collect() };
        let parameters = &parameters;
        lists.into_iter().flat_map(move |list| {
            devices.files.iter().map(move |file| entry(definition, devices, file, parameters, list, core))
        })
    });
    let entries: TokenStream = entries.collect();
    match entries.is_empty() {
        true => entries,
        false => quote!(const _: () = { #entries };),
    }
}

fn entry(
    definition: &Definition,
    devices: &Devices,
    file: &File,
    parameters: &[&Ident],
    list: &[GenericValue],
    core: &TokenStream,
) -> TokenStream {
    let kernel = quote!(#core::kernel);
    let ident = &definition.ident;
    let lifetime = definition.lifetime.as_ref().map(|_| quote!('static,));
    // The span is the list's, so that a type that the definition does not take is reported there.
    let ty = match list {
        [] => quote!(#ident<#lifetime>),
        list => respan(quote!(#ident<#lifetime #(#list),*>), span_of(list)),
    };
    let name = devices.name.as_ref().map_or_else(|| file.name(), LitStr::value);
    let (target, binary, priority) = (&file.target, file.binary, devices.priority);
    // The span is the name's, so that a file that cannot be read is reported there.
    let files = file.before.iter().chain([&file.path]).map(|path| match binary {
        true => quote_spanned!(path.span()=> (#path, ::core::include_bytes!(#path))),
        false => quote_spanned!(path.span()=> (#path, ::core::include_str!(#path).as_bytes())),
    });
    let defines = parameters.iter().zip(list).map(|(parameter, value)| {
        let name = format!("FLASH_{}", super::unraw(parameter));
        match value {
            GenericValue::Type(ty) => quote!((#name, #kernel::c_type::<#ty>())),
            GenericValue::Const(value) => {
                quote!((#name, ::core::option::Option::Some(::std::string::ToString::to_string(&(#value)))))
            }
        }
    });
    let texts = devices.texts.iter().map(|(key, value)| quote!((#key, #value)));
    let numbers = devices.numbers.iter().map(|(key, value)| quote!((#key, #value)));
    let flags = &devices.flags;
    quote! {
        #core::__private::inventory::submit! {
            #kernel::ImplementationEntry {
                kernel: <#ty as #kernel::KernelDefinition>::NAME,
                build: || #kernel::device_implementation::<#ty>(&#kernel::DeviceCode {
                    target: #target,
                    name: #name,
                    priority: #priority,
                    binary: #binary,
                    files: &[#(#files),*],
                    beside: ::core::file!(),
                    defines: &[#(#defines),*],
                    texts: &[#(#texts),*],
                    numbers: &[#(#numbers),*],
                    flags: &[#(#flags),*],
                    messages: &[],
                    facts: &[],
                }),
                module: ::core::module_path!(),
            }
        }
    }
}
