//! `#[derive(Element)]`: that a struct is plain data, its name, and a hash of its layout.

use crate::errors::Errors;
use crate::tokens::respan;
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Fields, Index, LitStr, Member, Type};

/// Names that other elements have.
const NUMBERS: &[&str] =
    &["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32", "f64"];

/// The derive.
pub fn derive(input: TokenStream, core: &TokenStream) -> syn::Result<TokenStream> {
    let input: DeriveInput = syn::parse2(input)?;
    let mut errors = Errors::default();
    let fields = errors.take(fields(&input).and_then(|fields| has_a_layout(&input).map(|()| fields)));
    if let Some(parameter) = input.generics.params.first() {
        errors.at(
            parameter,
            "an element has no generics, since its name and its bytes must be known: write a struct for each type",
        );
    }
    let name = errors.take(name(&input.attrs)).flatten();
    errors.finish()?;
    let fields = fields.unwrap_or_default();

    let ident = &input.ident;
    let plain = ident.unraw().to_string();
    let name = match name {
        Some(name) => quote!(#name),
        None => quote! {{
            const NAME: &#core::descriptor::Text = &#core::descriptor::Text::of_type(::core::module_path!(), #plain);
            NAME.as_str()
        }},
    };
    let padding = format!(
        "`{plain}` has padding, bytes that belong to no field: order its fields from the largest to the smallest, or add one that fills them, such as `fill: [u8; 4]`"
    );
    let types = fields.iter().map(|(_, ty)| ty);
    let layout = fields.iter().map(|(member, ty)| {
        let name = match member {
            Member::Named(ident) => ident.unraw().to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        };
        quote!(.field::<#ty>(#name, ::core::mem::offset_of!(#ident, #member)))
    });
    // One that is not an element is reported at the field.
    let elements = fields.iter().map(|(_, ty)| {
        let bound = respan(quote!(#core::kernel::Element), ty.span());
        quote_spanned!(ty.span()=> #ty: #bound)
    });
    // A struct that is not `Copy` is reported once, at its name.
    let copied = respan(quote!(::core::marker::Copy), ident.span());
    let elements = quote!(#ident: #copied, #(#elements),*);
    // SAFETY of what is written here: the struct has a defined layout, all of its fields are plain data, and
    // a constant proves that it has no other bytes.
    Ok(quote! {
        #[automatically_derived]
        #[allow(trivial_bounds)]
        const _: () = {
            const _: () = ::core::assert!(
                ::core::mem::size_of::<#ident>() == 0 #(+ ::core::mem::size_of::<#types>())*,
                #padding
            );
            unsafe impl #core::__private::bytemuck::Zeroable for #ident where #elements {}
            unsafe impl #core::__private::bytemuck::Pod for #ident where #elements {}
            impl #core::kernel::Element for #ident where #elements {
                const ELEMENT_NAME: &'static ::core::primitive::str = #name;
                const LAYOUT: ::core::primitive::u32 = #core::descriptor::Layout::new(
                    ::core::mem::size_of::<#ident>(),
                    ::core::mem::align_of::<#ident>(),
                ) #(#layout)* .hash();
            }
        };
    })
}

/// The fields, by the names or numbers with which they are reached.
fn fields(input: &DeriveInput) -> syn::Result<Vec<(Member, Type)>> {
    let not = |what: &str| {
        Err(Error::new_spanned(
            &input.ident,
            format!("an element is a struct, all of whose bytes are numbers: {what}"),
        ))
    };
    let data = match &input.data {
        Data::Struct(data) => data,
        Data::Enum(_) => return not("an enum has bytes that are none of its values, use `u32`"),
        Data::Union(_) => return not("a union has bytes that are not known, use an array of bytes"),
    };
    if matches!(data.fields, Fields::Unit) || data.fields.is_empty() {
        return not("this one has no fields");
    }
    let member = |(at, field): (usize, &syn::Field)| match &field.ident {
        Some(ident) => (Member::Named(ident.clone()), field.ty.clone()),
        None => (Member::Unnamed(Index::from(at)), field.ty.clone()),
    };
    Ok(data.fields.iter().enumerate().map(member).collect())
}

/// `repr(C)` or `repr(transparent)`, maybe among others.
fn has_a_layout(input: &DeriveInput) -> syn::Result<()> {
    let mut found = false;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        attribute.parse_nested_meta(|meta| {
            found |= meta.path.is_ident("C") || meta.path.is_ident("transparent");
            if meta.input.peek(syn::token::Paren) {
                meta.input.parse::<proc_macro2::Group>()?;
            }
            Ok(())
        })?;
    }
    match found {
        true => Ok(()),
        false => Err(Error::new_spanned(
            &input.ident,
            "the compiler may order the fields of this struct as it likes: add `#[repr(C)]`",
        )),
    }
}

/// `#[element(name = "..")]`.
fn name(attributes: &[Attribute]) -> syn::Result<Option<LitStr>> {
    const EXAMPLE: &str = "write `#[element(name = \"my_crate::Particle\")]`";
    let mut ours = attributes.iter().filter(|attribute| attribute.path().is_ident("element"));
    let Some(attribute) = ours.next() else {
        return Ok(None);
    };
    if let Some(second) = ours.next() {
        return Err(Error::new_spanned(second, "a second `#[element(..)]`: remove one"));
    }
    let mut name: Option<LitStr> = None;
    let read = attribute.parse_nested_meta(|meta| {
        if !meta.path.is_ident("name") || name.is_some() {
            return Err(meta.error(EXAMPLE));
        }
        name = Some(meta.value()?.parse()?);
        Ok(())
    });
    let Some(name) = read.map(|()| name).map_err(|error| Error::new(error.span(), EXAMPLE))? else {
        return Err(Error::new_spanned(attribute, EXAMPLE));
    };
    let text = name.value();
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    if text.is_empty() || text.len() > 200 || !text.chars().all(good) || NUMBERS.contains(&text.as_str()) {
        return Err(Error::new(
            name.span(),
            format!(
                "the name of an element is made of letters, digits, `_`, `-`, `.` and `:`, up to 200, and is none of a number: {EXAMPLE}"
            ),
        ));
    }
    Ok(Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(input: TokenStream) -> String {
        let tokens = derive(input, &quote!(::flash_core)).unwrap_or_else(|error| panic!("{error}"));
        assert!(syn::parse2::<syn::File>(tokens.clone()).is_ok(), "no items: {tokens}");
        crate::tokens::text(tokens)
    }

    fn error(input: TokenStream) -> String {
        derive(input, &quote!(::flash_core)).unwrap_err().to_string()
    }

    #[test]
    fn fields_by_name_and_by_number_are_part_of_the_layout() {
        let named = written(quote!(
            #[repr(C)]
            struct P {
                r#type: u32,
            }
        ));
        assert!(named.contains(".field::<u32>(\"type\", ::core::mem::offset_of!(P, r#type))"), "{named}");
        assert!(named.contains("Text::of_type(::core::module_path!(), \"P\")"), "{named}");
        let numbered = written(quote!(
            #[element(name = "a::P")]
            #[repr(C, align(8))]
            struct P(f32, [f32; 1]);
        ));
        assert!(numbered.contains(".field::<[f32; 1]>(\"1\", ::core::mem::offset_of!(P, 1))"), "{numbered}");
        assert!(numbered.contains("::core::primitive::str=\"a::P\""), "{numbered}");
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (input, expected) in [
            (
                quote!(
                    struct P(f32);
                ),
                "add `#[repr(C)]`",
            ),
            (
                quote!(
                    #[repr(packed)]
                    struct P(f32);
                ),
                "add `#[repr(C)]`",
            ),
            (
                quote!(
                    #[repr(C)]
                    struct P<T>(T);
                ),
                "an element has no generics",
            ),
            (
                quote!(
                    #[repr(C)]
                    struct P;
                ),
                "this one has no fields",
            ),
            (
                quote!(
                    #[repr(u8)]
                    enum P {
                        A,
                    }
                ),
                "an enum has bytes that are none of its values",
            ),
            (quote!(#[repr(C)] union P { a: f32 }), "a union has bytes that are not known"),
            (
                quote!(
                    #[repr(C)]
                    #[element(name = "u8")]
                    struct P(u8);
                ),
                "is none of a number",
            ),
            (
                quote!(
                    #[repr(C)]
                    #[element(name = "[a; 3]")]
                    struct P(u8);
                ),
                "made of letters",
            ),
            (
                quote!(
                    #[repr(C)]
                    #[element(name = 3)]
                    struct P(u8);
                ),
                "write `#[element(name = ",
            ),
            (
                quote!(
                    #[repr(C)]
                    #[element]
                    struct P(u8);
                ),
                "write `#[element(name = ",
            ),
            (
                quote!(
                    #[repr(C)]
                    #[element(title = "a")]
                    struct P(u8);
                ),
                "write `#[element(name = ",
            ),
        ] {
            let text = error(input.clone());
            assert!(text.contains(expected), "{input}: {text}");
        }
    }
}
