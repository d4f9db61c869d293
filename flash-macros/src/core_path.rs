//! The paths to `flash-core` and `flash-backend` in generated code.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;

/// `::flash_core`, or the name that the calling crate gives it, or what `flash` has of it.
pub fn core() -> syn::Result<TokenStream> {
    core_of(&found).ok_or_else(|| missing("`flash` (or `flash-core`)"))
}

/// `::flash_backend`, or the name that the calling crate gives it, or what `flash-core` or `flash` has of it.
pub fn backend() -> syn::Result<TokenStream> {
    backend_of(&found).ok_or_else(|| missing("`flash-backend` (or, for a plugin of kernels, `flash`)"))
}

fn missing(which: &str) -> syn::Error {
    let text = format!("this macro needs the crate {which}: add it to the [dependencies] of Cargo.toml");
    syn::Error::new(Span::call_site(), text)
}

fn found(package: &str) -> Option<FoundCrate> {
    crate_name(package).ok()
}

/// The path to a package that the calling crate depends on.
fn path(package: &str, found: &dyn Fn(&str) -> Option<FoundCrate>) -> Option<TokenStream> {
    let name = match found(package)? {
        FoundCrate::Itself => package.replace('-', "_"),
        FoundCrate::Name(name) => name,
    };
    let name = Ident::new(&name, Span::call_site());
    Some(quote!(::#name))
}

fn core_of(found: &dyn Fn(&str) -> Option<FoundCrate>) -> Option<TokenStream> {
    path("flash-core", found).or_else(|| {
        let facade = path("flash", found)?;
        Some(quote!(#facade::__core))
    })
}

fn backend_of(found: &dyn Fn(&str) -> Option<FoundCrate>) -> Option<TokenStream> {
    path("flash-backend", found).or_else(|| {
        let core = core_of(found)?;
        Some(quote!(#core::__private::flash_backend))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    type Of = fn(&dyn Fn(&str) -> Option<FoundCrate>) -> Option<TokenStream>;

    fn path_with(of: Of, packages: &[(&str, FoundCrate)]) -> Option<String> {
        let found = |package: &str| {
            packages.iter().find(|(name, _)| *name == package).map(|(_, found)| match found {
                FoundCrate::Itself => FoundCrate::Itself,
                FoundCrate::Name(name) => FoundCrate::Name(name.clone()),
            })
        };
        of(&found).map(|path| path.to_string().replace(' ', ""))
    }

    #[test]
    fn the_core_is_preferred_then_the_facade_by_any_name() {
        let renamed = || FoundCrate::Name("fl".to_owned());
        assert_eq!(path_with(core_of, &[("flash-core", FoundCrate::Itself)]).unwrap(), "::flash_core");
        assert_eq!(
            path_with(core_of, &[("flash", renamed()), ("flash-core", FoundCrate::Name("core_".into()))])
                .unwrap(),
            "::core_"
        );
        assert_eq!(path_with(core_of, &[("flash", renamed())]).unwrap(), "::fl::__core");
        assert_eq!(path_with(core_of, &[]), None);
    }

    #[test]
    fn the_crate_of_backends_is_preferred_then_what_has_it() {
        let named = |name: &str| FoundCrate::Name(name.to_owned());
        assert_eq!(
            path_with(backend_of, &[("flash-core", named("flash_core")), ("flash-backend", named("b"))])
                .unwrap(),
            "::b"
        );
        assert_eq!(
            path_with(backend_of, &[("flash-core", named("flash_core"))]).unwrap(),
            "::flash_core::__private::flash_backend"
        );
        assert_eq!(
            path_with(backend_of, &[("flash", named("fl"))]).unwrap(),
            "::fl::__core::__private::flash_backend"
        );
        assert_eq!(path_with(backend_of, &[]), None);
    }
}
