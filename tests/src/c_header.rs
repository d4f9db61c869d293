//! Headers for C that are made of Rust sources: what is in the sources, and what must be in the header.

/// Names of the public constants.
pub fn constants(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| line.strip_prefix("pub const ")?.split(':').next())
}

/// Names of the functions that C calls.
pub fn functions(source: &str) -> Vec<&str> {
    let named = |line: &str| line.starts_with("pub ") && line.contains("extern \"C\" fn ");
    source
        .lines()
        .filter(|line| named(line))
        .filter_map(|line| line.split("fn ").nth(1)?.split('(').next())
        .collect()
}

/// The text of a function, from its arguments to its end.
///
/// # Panics
/// If there is no such function.
pub fn function<'s>(source: &'s str, name: &str) -> &'s str {
    let behind = source.split(&format!("fn {name}(")).nth(1).expect("a function of the source");
    behind.split("\n}\n").next().unwrap_or(behind)
}

/// Asserts that a header declares each function, with a comment above it.
///
/// # Panics
/// If it does not.
pub fn has_words(header: &str, file: &str, functions: &[&str]) {
    let lines: Vec<&str> = header.lines().collect();
    for name in functions {
        let at = lines.iter().position(|line| {
            line.contains(&format!("{name}(")) && !line.starts_with("//") && !line.starts_with(" *")
        });
        let at = at.unwrap_or_else(|| panic!("{file} does not declare {name}"));
        assert!(lines[at - 1].starts_with("// "), "{name} has no words above it: {}", lines[at - 1]);
    }
}
