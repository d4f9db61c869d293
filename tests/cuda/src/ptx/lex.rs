//! PTX text as words.

use super::Failure;

/// A word of the text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    /// Opcodes with their modifiers, names, directives: letters, digits, `.`, `_`, `$` and `%`.
    Name(&'a str),
    /// A number as it is written; begins with a digit.
    Number(&'a str),
    Text(&'a str),
    Sign(char),
}

/// The words, each with its line.
pub(crate) fn tokens(text: &str) -> Result<Vec<(Token<'_>, u32)>, Failure> {
    let bytes = text.as_bytes();
    let (mut at, mut line, mut found) = (0, 1, Vec::new());
    while at < bytes.len() {
        let rest = &text[at..];
        let first = bytes[at];
        if first == b'\n' {
            line += 1;
        }
        if first.is_ascii_whitespace() {
            at += 1;
        } else if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").ok_or_else(|| Failure::new(line, "a comment has no end"))?;
            line += rest[..end].matches('\n').count() as u32;
            at += end + 2;
        } else if first == b'"' {
            let end = rest[1..].find('"').ok_or_else(|| Failure::new(line, "a text has no end"))?;
            found.push((Token::Text(&rest[1..=end]), line));
            at += end + 2;
        } else if is_word(first) {
            let end = rest.bytes().position(|byte| !is_word(byte)).unwrap_or(rest.len());
            let word = &rest[..end];
            found.push((if first.is_ascii_digit() { Token::Number(word) } else { Token::Name(word) }, line));
            at += end;
        } else if first.is_ascii() {
            found.push((Token::Sign(char::from(first)), line));
            at += 1;
        } else {
            return Err(Failure::new(line, "a character that is not ASCII"));
        }
    }
    Ok(found)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._$%".contains(&byte)
}

/// The bits of a number, and whether it is `0f` or `0d`: 32 or 64 bits of a floating-point one.
pub(crate) fn number(word: &str) -> Option<u64> {
    let hex = |digits: &str| u64::from_str_radix(digits.trim_end_matches(['U', 'u']), 16).ok();
    match word.get(..2) {
        Some("0f" | "0F" | "0d" | "0D" | "0x" | "0X") => hex(&word[2..]),
        Some("0b" | "0B") => u64::from_str_radix(&word[2..], 2).ok(),
        _ if word.contains('.') => word.parse::<f64>().ok().map(f64::to_bits),
        _ => word.trim_end_matches(['U', 'u']).parse().ok(),
    }
}
