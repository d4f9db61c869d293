//! The attribute of tests that run on any device: `#[flash_tests::test]` in place of `#[test]`.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// A test that may find that it cannot run on the devices at hand. It is then skipped, and counted as such.
///
/// `fn name() { body }` becomes a `#[test]` whose body is `flash_tests::on_key(|| { body })`.
#[proc_macro_attribute]
pub fn test(_: TokenStream, item: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    if let Some(TokenTree::Group(body)) = tokens.last()
        && body.delimiter() == Delimiter::Brace
    {
        let mut call: TokenStream = "::flash_tests::on_key".parse().unwrap_or_default();
        let mut closure: TokenStream = "||".parse().unwrap_or_default();
        closure.extend([TokenTree::Group(body.clone())]);
        call.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, closure))]);
        let end = tokens.len() - 1;
        tokens[end] = TokenTree::Group(Group::new(Delimiter::Brace, call));
    }
    let mut test: TokenStream = "#[::core::prelude::v1::test]".parse().unwrap_or_default();
    test.extend(tokens);
    test
}
