//! Files that a source includes, put into its text.
//!
//! A compiler may not find what lies beside a source: it gets a text and no folder, and options for folders
//! take no white space with some drivers. And a program is kept under its text, which an edited header does
//! not change. So `#include "x.h"` is replaced by the file's content here, relative to the file that has the
//! line, as compilers do. What is not found is left to the compiler: it may be in one of its own folders, or
//! in lines that are not compiled. Such a text does not determine its program, see [`KernelSpec::includes`].
//! The compiler also gets the source's folder as an option. Where that cannot be one (white space, no UTF-8),
//! that folder is searched here, for names in angle brackets, too; a name by a macro is not found then.
//!
//! [`KernelSpec::includes`]: super::KernelSpec::includes

use super::spec::{HEADER_NAME, shown};
use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a text with all that it includes, at most.
const MOST: usize = 64 << 20;
/// Files inside each other, at most.
const DEPTH: usize = 200;

/// The text of a file with what it includes. `searched`: the compiler does not search the file's folder.
///
/// # Errors
/// What was expected and found, for files that include each other without end, and texts that are too long.
pub(super) fn with_includes(path: &Path, text: &str, searched: bool) -> Result<String, String> {
    let searched = path.parent().filter(|_| searched).map(Path::to_owned);
    let mut whole =
        Whole { text: String::with_capacity(text.len()), inside: vec![path.to_owned()], searched };
    whole.add(path, text)?;
    Ok(whole.text)
}

/// A text without the byte-order mark at its beginning.
pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

struct Whole {
    text: String,
    /// The files around this place.
    inside: Vec<PathBuf>,
    /// A folder that is searched here, as the compiler does not.
    searched: Option<PathBuf>,
}

/// A file's name in a line that includes it.
enum Name<'a> {
    Quoted(&'a str),
    InBrackets(&'a str),
}

impl Whole {
    fn add(&mut self, path: &Path, text: &str) -> Result<(), String> {
        let mut comments = Comments::default();
        for (number, line) in text.lines().enumerate() {
            let name = if comments.begins_inside() { None } else { included(line) };
            comments.pass(line);
            let found = name.and_then(|name| self.find(path, &name));
            match found {
                Some((content, file)) => self.include(path, number + 1, &file, &content)?,
                None => {
                    self.text.push_str(line);
                    self.text.push('\n');
                }
            }
            if self.text.len() > MOST {
                return Err(format!(
                    "expected a source of up to {MOST} bytes with all that it includes, found more in {path:?}, line {}",
                    number + 1
                ));
            }
        }
        Ok(())
    }

    /// The content and path of what a line in a file includes.
    fn find(&self, from: &Path, name: &Name<'_>) -> Option<(String, PathBuf)> {
        let (name, beside) = match name {
            Name::Quoted(name) => (name, Some(from.parent().unwrap_or(Path::new("")))),
            Name::InBrackets(name) => (name, None),
        };
        let mut folders = beside.into_iter().chain(self.searched.as_deref());
        let found = folders.find_map(|folder| {
            let file = folder.join(name);
            Some((read(&file)?, file))
        });
        found.filter(|_| *name != HEADER_NAME)
    }

    fn include(&mut self, from: &Path, line: usize, file: &Path, content: &str) -> Result<(), String> {
        let once = content.lines().any(|line| directive(line).is_some_and(is_once));
        if self.inside.iter().any(|around| same(around, file)) {
            // Its guard is defined by now, so its lines would not be compiled.
            if once || begins_with_guard(content) {
                self.text.push('\n');
                return Ok(());
            }
            return Err(format!(
                "expected files that end, found {file:?}, which includes itself by way of {from:?}, line {line}: begin it with `#pragma once`"
            ));
        }
        if self.inside.len() == DEPTH {
            return Err(format!("expected up to {DEPTH} files inside each other, found more at {file:?}"));
        }
        // The compiler sees one file, of which it would ignore the pragma.
        let guard = once.then(|| guard_of(file));
        if let Some(guard) = &guard {
            // Writing to a string does not fail.
            let _ = writeln!(self.text, "#ifndef {guard}\n#define {guard}");
        }
        let _ = writeln!(self.text, "#line 1 \"{}\"", shown(file));
        self.inside.push(file.to_owned());
        self.add(file, content)?;
        self.inside.pop();
        if guard.is_some() {
            self.text.push_str("#endif\n");
        }
        let _ = writeln!(self.text, "#line {} \"{}\"", line + 1, shown(from));
        Ok(())
    }
}

/// A file's text, if it is one.
fn read(file: &Path) -> Option<String> {
    if !std::fs::metadata(file).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    std::fs::File::open(file).ok()?.take(MOST as u64 + 1).read_to_string(&mut text).ok()?;
    Some(without_mark(&text).to_owned())
}

fn same(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// The words of a preprocessor's line.
fn directive(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix('#').map(str::trim_start)
}

/// The file that a line includes, unless a macro names it.
fn included(line: &str) -> Option<Name<'_>> {
    let rest = directive(line)?.strip_prefix("include")?.trim_start();
    if let Some(rest) = rest.strip_prefix('"') {
        return rest.split_once('"').map(|(name, _)| Name::Quoted(name));
    }
    rest.strip_prefix('<')?.split_once('>').map(|(name, _)| Name::InBrackets(name))
}

fn is_once(directive: &str) -> bool {
    directive.strip_prefix("pragma").is_some_and(|rest| rest.split_whitespace().next() == Some("once"))
}

/// Whether the first line of a preprocessor is `#ifndef`, or `#if !defined`.
fn begins_with_guard(text: &str) -> bool {
    text.lines()
        .find_map(directive)
        .is_some_and(|line| line.starts_with("ifndef") || line.starts_with("if !"))
}

/// A macro's name for a file.
fn guard_of(file: &Path) -> String {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let bytes = file.as_os_str().as_encoded_bytes();
    bytes.iter().fold("FLASH_ONCE_".to_owned(), |mut name, byte| {
        let _ = write!(name, "{byte:02x}");
        name
    })
}

/// Whether lines begin inside a comment.
#[derive(Default)]
struct Comments {
    /// In `/* .. */`.
    block: bool,
    /// The line before goes on in this one.
    continued: bool,
}

impl Comments {
    fn begins_inside(&self) -> bool {
        self.block || self.continued
    }

    fn pass(&mut self, line: &str) {
        let mut rest = line;
        loop {
            if self.block {
                let Some(end) = rest.find("*/") else { break };
                (self.block, rest) = (false, &rest[end + 2..]);
                continue;
            }
            let Some(at) = rest.find(['"', '\'', '/']) else { break };
            let (mark, behind) = rest[at..].split_at(1);
            if mark == "/" {
                if behind.starts_with('/') {
                    break;
                }
                self.block = behind.starts_with('*');
                rest = if self.block { &behind[1..] } else { behind };
                continue;
            }
            let mut escaped = false;
            let end = behind.char_indices().find(|&(_, c)| {
                let ends = !escaped && mark.starts_with(c);
                escaped = c == '\\' && !escaped;
                ends
            });
            let Some((end, _)) = end else { break };
            rest = &behind[end + 1..];
        }
        self.continued = line.ends_with('\\');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with these files.
    fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("flash include {name} {}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        for (name, text) in files {
            let file = folder.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        folder
    }

    /// The lines of a text with what it includes, those that say where they are from left out.
    fn lines(folder: &Path, text: &str) -> Vec<String> {
        lines_of(folder, text, false)
    }

    fn lines_of(folder: &Path, text: &str, searched: bool) -> Vec<String> {
        let whole = with_includes(&folder.join("main.x"), text, searched).unwrap();
        whole.lines().filter(|line| !line.starts_with("#line")).map(str::to_owned).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "files")]
    fn files_are_put_in_place_of_their_lines_relative_to_the_file_that_names_them() {
        let files = [
            ("a.h", "\u{feff}A\n#include \"sub/b.h\"\nA2\n"),
            ("sub/b.h", "#  include \"c.h\"\nB"),
            ("sub/c.h", "C"),
        ];
        let folder = folder("place", &files);
        assert_eq!(lines(&folder, "x\n # include \"a.h\" // why\ny"), ["x", "A", "C", "B", "A2", "y"]);
        let whole = with_includes(&folder.join("main.x"), "x\n#include \"a.h\"\ny", false).unwrap();
        assert!(whole.contains("/a.h\"\nA\n"), "{whole}");
        assert!(whole.contains(&format!("#line 3 \"{}\"\ny\n", folder.join("main.x").display())), "{whole}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "files")]
    fn what_is_not_there_or_in_a_comment_is_left_as_it_is() {
        let folder = folder("left", &[("a.h", "A */")]);
        for text in [
            "#include \"nowhere.h\"",
            "#include <a.h>",
            "#include NAME",
            "#include \"flash_device.h\"",
            "/* \"quoted\"\n#include \"a.h\"\n*/",
            "// goes on \\\n#include \"a.h\"",
        ] {
            assert_eq!(lines(&folder, text).join("\n"), text);
        }
        let text = "'\"' /* one */ \"/*\" // /*\n#include \"a.h\"";
        assert_eq!(lines(&folder, text)[1], "A */", "the comments have ended");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "files")]
    fn a_folder_that_the_compiler_does_not_search_is_searched() {
        let folder = folder(
            "searched",
            &[("a.h", "A"), ("sub/b.h", "#include \"a.h\"\n#include <sub/c.h>"), ("sub/c.h", "C")],
        );
        let text = "#include <sub/b.h>\n#include <a.h>\n#include <flash_device.h>\n#include <nowhere.h>";
        let left = ["#include <flash_device.h>", "#include <nowhere.h>"];
        assert_eq!(lines_of(&folder, text, true), [&["A", "C", "A"][..], &left].concat());
        assert_eq!(lines_of(&folder, text, false).join("\n"), text);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "files")]
    fn files_that_include_each_other_end_or_are_an_error() {
        let files = [
            ("a.h", "#ifndef A\n#define A\n#include \"b.h\"\n#endif"),
            ("b.h", "#pragma once\n#include \"a.h\"\nB"),
            ("c.h", "#include \"c.h\""),
        ];
        let folder = folder("cycle", &files);
        let found = lines(&folder, "#include \"a.h\"");
        assert!(
            found.contains(&"B".to_owned()) && found.iter().any(|l| l.starts_with("#ifndef FLASH_ONCE_"))
        );
        let error = with_includes(&folder.join("main.x"), "#include \"c.h\"", false).unwrap_err();
        assert!(error.contains("c.h") && error.contains("includes itself"), "{error}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
