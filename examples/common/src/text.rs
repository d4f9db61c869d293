//! Text from the user in errors.

/// A field in an error: not longer than a line, and nothing invisible in it.
pub fn shown(field: &str) -> String {
    const LONGEST: usize = 40;
    if field.is_empty() {
        return "nothing".into();
    }
    let start: String = field.chars().take(LONGEST).collect();
    let more = if start.len() < field.len() { "..." } else { "" };
    format!("`{}{more}`", start.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_invisible_text_is_shortened_and_made_visible() {
        assert_eq!(shown(""), "nothing");
        assert_eq!(shown("a\tb"), "`a\\tb`");
        assert_eq!(shown(&"é".repeat(1000)), format!("`{}...`", "é".repeat(40)));
    }
}
