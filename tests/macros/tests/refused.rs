//! Inputs that the macros refuse, with the compiler's messages. The other tests of this crate are inputs that
//! they accept.
//!
//! One case per mistake in `compile-fail`, with the expected output of the compiler that
//! `rust-toolchain.toml` names. After a change, `TRYBUILD=overwrite cargo test -p flash-tests-macros --test
//! refused` writes them anew: read the difference.

#[test]
fn the_macros_refuse_mistakes() {
    // No code is generated, and all cases are checked at once: both end with the first case that has to pass.
    trybuild::TestCases::new().compile_fail("compile-fail/*.rs");
}
