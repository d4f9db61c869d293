//! What the macros refuse, with the compiler's words, and what they must accept.
//!
//! One case per mistake in `compile-fail`, with the expected output of the compiler that
//! `rust-toolchain.toml` names. After a change, `TRYBUILD=overwrite cargo test -p flash-tests --test
//! compile_fail` writes them anew: read the difference.

#[test]
fn the_macros_refuse_mistakes_and_accept_the_rest() {
    let cases = trybuild::TestCases::new();
    cases.pass("compile-pass/*.rs");
    cases.compile_fail("compile-fail/*.rs");
}
