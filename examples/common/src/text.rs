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

/// True if a decimal number is not 0, however small it is: it has another digit before its exponent.
pub fn is_not_zero(number: &str) -> bool {
    let digits = number.split(['e', 'E']).next().unwrap_or(number);
    digits.contains(|c: char| ('1'..='9').contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_told_from_small_numbers() {
        assert!(["1e-400", "-0.02E3", " 7"].iter().all(|number| is_not_zero(number)));
        assert!(!["0", "-0.0e12", "0e5", ""].iter().any(|number| is_not_zero(number)));
    }

    #[test]
    fn long_and_invisible_text_is_shortened_and_made_visible() {
        assert_eq!(shown(""), "nothing");
        assert_eq!(shown("a\tb"), "`a\\tb`");
        assert_eq!(shown(&"é".repeat(1000)), format!("`{}...`", "é".repeat(40)));
    }
}
