//! Rust source as text: files of the repository, and a file without its comments and strings.

use std::fs;
use std::path::{Path, PathBuf};

/// A source file, by its path from the root of the repository.
pub struct Source {
    pub path: PathBuf,
    pub text: String,
}

/// All `.rs` files below a folder of the repository, sorted; build directories are left out.
pub fn files(folder: &str) -> Vec<Source> {
    let root = crate::root();
    let mut found = Vec::new();
    collect(&root.join(folder), &mut found);
    found.sort();
    assert!(!found.is_empty(), "no source in {folder}");
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let path = path.strip_prefix(&root).map(Path::to_path_buf).unwrap_or(path);
        Source { path, text }
    };
    found.into_iter().map(read).collect()
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries.map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            if !entry.ends_with("target") {
                collect(&entry, found);
            }
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push(entry);
        }
    }
}

/// What a piece of source is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Code,
    Comment,
    /// A string or character literal, with its quotes.
    Literal,
}

/// Cuts source into pieces of one kind each; together they are the source.
pub fn pieces(text: &str) -> Vec<(Kind, &str)> {
    let mut pieces = Vec::new();
    let (mut begin, mut at) = (0, 0);
    while at < text.len() {
        let Some((kind, len)) = literal_or_comment(&text[at..], text[..at].chars().next_back()) else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
            continue;
        };
        if at > begin {
            pieces.push((Kind::Code, &text[begin..at]));
        }
        pieces.push((kind, &text[at..at + len]));
        at += len;
        begin = at;
    }
    if at > begin {
        pieces.push((Kind::Code, &text[begin..at]));
    }
    pieces
}

/// The comment or literal that `rest` begins with, and its length in bytes. `before`: the character before
/// it.
fn literal_or_comment(rest: &str, before: Option<char>) -> Option<(Kind, usize)> {
    if rest.starts_with("//") {
        return Some((Kind::Comment, rest.find('\n').unwrap_or(rest.len())));
    }
    if rest.starts_with("/*") {
        return Some((Kind::Comment, rest.find("*/").map_or(rest.len(), |end| end + 2)));
    }
    // A raw string, `r"..."` or `r#"..."#`; not the end of a longer name.
    if rest.starts_with('r') && !before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
        let hashes = rest[1..].bytes().take_while(|&byte| byte == b'#').count();
        if rest[1 + hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let body = 2 + hashes;
            return Some((
                Kind::Literal,
                rest[body..].find(&end).map_or(rest.len(), |at| body + at + end.len()),
            ));
        }
    }
    if rest.starts_with('"') {
        let mut escaped = false;
        for (at, c) in rest.char_indices().skip(1) {
            match c {
                '"' if !escaped => return Some((Kind::Literal, at + 1)),
                '\\' => escaped = !escaped,
                _ => escaped = false,
            }
        }
        return Some((Kind::Literal, rest.len()));
    }
    // A character, and not a lifetime.
    if let Some(after) = rest.strip_prefix('\'') {
        if let Some(escaped) = after.strip_prefix('\\') {
            let end = escaped.char_indices().skip(1).find(|(_, c)| *c == '\'');
            return end.map(|(at, _)| (Kind::Literal, at + 3));
        }
        let c = after.chars().next()?;
        return after[c.len_utf8()..].starts_with('\'').then_some((Kind::Literal, c.len_utf8() + 2));
    }
    None
}

/// The code of a file without comments, literals, and what is compiled for tests only.
pub fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    for (kind, piece) in pieces(text) {
        match kind {
            Kind::Code => code.push_str(piece),
            Kind::Comment => code.push(' '),
            Kind::Literal => code.push_str("\"\""),
        }
    }
    without_tests(&code)
}

/// Leaves out items behind `#[cfg(test)]`.
fn without_tests(code: &str) -> String {
    let (mut kept, mut rest) = (String::new(), code);
    while let Some(at) = rest.find("#[cfg(test)]") {
        kept.push_str(&rest[..at]);
        rest = after_item(&rest[at..]);
    }
    kept.push_str(rest);
    kept
}

/// What stands behind an item: behind its `;`, or behind the brace that closes it.
fn after_item(item: &str) -> &str {
    let mut depth = 0;
    for (at, c) in item.char_indices() {
        match c {
            ';' if depth == 0 => return &item[at + 1..],
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return &item[at + 1..];
                }
            }
            _ => {}
        }
    }
    ""
}

#[test]
fn pieces_know_comments_strings_characters_and_lifetimes() {
    let text = r##"fn f<'a>(c: &'a char) { g('"', "// \" no", r#"a " b"#, '\'') } // yes "q"
/* a "b" */ x"##;
    let pieces = pieces(text);
    assert_eq!(pieces.iter().map(|(_, piece)| *piece).collect::<String>(), text);
    let of = |kind| pieces.iter().filter(|p| p.0 == kind).map(|p| p.1).collect::<Vec<_>>();
    assert_eq!(of(Kind::Comment), ["// yes \"q\"", "/* a \"b\" */"]);
    assert_eq!(of(Kind::Literal), [r#"'"'"#, r#""// \" no""#, r##"r#"a " b"#"##, r"'\''"]);
}

#[test]
fn code_leaves_out_tests() {
    let text = "use a::b;\n#[cfg(test)]\nmod tests {\n    use c::d;\n    fn f() { g(\"}\") }\n}\nuse e::f; // use g::h;\n#[cfg(test)]\nuse i::j;\nfn k() {}";
    let code = code(text);
    for kept in ["a::b", "e::f", "fn k()"] {
        assert!(code.contains(kept), "{code}");
    }
    for left_out in ["c::d", "g::h", "i::j"] {
        assert!(!code.contains(left_out), "{code}");
    }
}
