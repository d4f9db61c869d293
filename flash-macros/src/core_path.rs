//! The path to `flash-core` in generated code.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;

/// `::flash_core`, or the name that the calling crate gives it, or `::flash::__core`.
pub fn find() -> syn::Result<TokenStream> {
    path(&|package| crate_name(package).ok()).ok_or_else(|| {
        syn::Error::new(Span::call_site(), "this macro needs the crate `flash` (or `flash-core`): add it to the [dependencies] of Cargo.toml")
    })
}

fn path(found: &dyn Fn(&str) -> Option<FoundCrate>) -> Option<TokenStream> {
    let name = |package: &str| {
        found(package).map(|found| match found {
            FoundCrate::Itself => package.replace('-', "_"),
            FoundCrate::Name(name) => name,
        })
    };
    if let Some(core) = name("flash-core") {
        let core = Ident::new(&core, Span::call_site());
        return Some(quote!(::#core));
    }
    let facade = Ident::new(&name("flash")?, Span::call_site());
    Some(quote!(::#facade::__core))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_with(packages: &[(&str, FoundCrate)]) -> Option<String> {
        let found = |package: &str| {
            packages.iter().find(|(name, _)| *name == package).map(|(_, found)| match found {
                FoundCrate::Itself => FoundCrate::Itself,
                FoundCrate::Name(name) => FoundCrate::Name(name.clone()),
            })
        };
        path(&found).map(|path| path.to_string().replace(' ', ""))
    }

    #[test]
    fn the_core_is_preferred_then_the_facade_by_any_name() {
        let renamed = || FoundCrate::Name("fl".to_owned());
        assert_eq!(path_with(&[("flash-core", FoundCrate::Itself)]).unwrap(), "::flash_core");
        assert_eq!(
            path_with(&[("flash", renamed()), ("flash-core", FoundCrate::Name("core_".into()))]).unwrap(),
            "::core_"
        );
        assert_eq!(path_with(&[("flash", renamed())]).unwrap(), "::fl::__core");
        assert_eq!(path_with(&[]), None);
    }
}
