//! What the compiler refuses, and how it reads.

#[test]
fn wrong_edges_are_refused() {
    trybuild::TestCases::new().compile_fail("compile-fail/*.rs");
}
