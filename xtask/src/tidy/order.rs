//! The check of imports: modules of a crate import only modules that stand below them, so that each can be
//! read knowing those alone.
//!
//! `modules.txt` has a list for each crate, headed by its folder in brackets. It names the *rooms* in order,
//! the lowest first, a line each. A room is one or more files or folders, without `.rs` and from the crate's
//! `src`. A file belongs to the room with the longest path that it lies in. Inside a room files may import
//! each other.

use super::source::{Source, code, files};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A crate whose modules stand in an order.
struct Order {
    /// Its sources, from the root of the repository.
    root: String,
    /// The rooms, the lowest first, each with its paths.
    rooms: Vec<Vec<&'static str>>,
}

/// The crates in `modules.txt`.
fn orders() -> Vec<Order> {
    let mut orders: Vec<Order> = Vec::new();
    for line in include_str!("modules.txt").lines() {
        let room: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        match (room.first().and_then(|name| name.strip_prefix('[')?.strip_suffix(']')), orders.last_mut()) {
            (Some(name), _) => orders.push(Order { root: format!("{name}/src"), rooms: Vec::new() }),
            (None, _) if room.is_empty() => {}
            (None, Some(order)) => order.rooms.push(room),
            (None, None) => panic!("modules.txt names `{line}` before the first crate"),
        }
    }
    orders
}

/// A module's path below the crate: `["runtime", "plan"]`.
type Module = Vec<String>;

fn module_of(root: &str, path: &Path) -> Module {
    let path = path.strip_prefix(root).unwrap_or(path).with_extension("");
    let mut module: Module = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module.last().is_some_and(|last| last == "mod" || last == "lib") {
        module.pop();
    }
    module
}

/// The position of the room that a file lies in.
fn room_of(order: &Order, path: &Path) -> Option<usize> {
    let path = path.strip_prefix(&order.root).unwrap_or(path).with_extension("");
    let paths =
        order.rooms.iter().enumerate().flat_map(|(at, room)| room.iter().map(move |path| (at, *path)));
    let holding = paths.filter(|(_, room)| path.starts_with(room));
    holding.max_by_key(|(_, room)| room.len()).map(|(at, _)| at)
}

/// All paths of a `use` tree, each as its names.
fn leaves(tree: &str, before: &[String], paths: &mut Vec<Module>) {
    let names = |text: &str| {
        let names = text.split("::").map(|name| name.split(" as ").next().unwrap_or_default().trim());
        names.filter(|name| !name.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let Some((head, list)) = tree.split_once('{') else {
        paths.push([before, &names(tree)].concat());
        return;
    };
    let before = [before, &names(head)].concat();
    let list = list.rsplit_once('}').map_or(list, |(list, _)| list);
    let (mut depth, mut begin) = (0, 0);
    for (at, c) in list.char_indices().chain([(list.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !list[begin..at].trim().is_empty() {
                    leaves(&list[begin..at], &before, paths);
                }
                begin = at + 1;
            }
            _ => {}
        }
    }
}

/// All paths that a file's code names from `crate`, `super` or `self` on.
fn paths(code: &str) -> Vec<Module> {
    let (mut paths, mut rest) = (Vec::new(), String::new());
    let mut left = code;
    while let Some(at) = find_word(left, "use") {
        rest.push_str(&left[..at]);
        let tree = &left[at + 3..];
        let end = tree.find(';').unwrap_or(tree.len());
        leaves(&tree[..end], &[], &mut paths);
        left = &tree[end..];
    }
    rest.push_str(left);
    for first in ["crate", "super", "self"] {
        let mut left = &rest[..];
        while let Some(at) = find_word(left, first) {
            let path = &left[at..];
            let end =
                path.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(path.len());
            // `pub(crate)`, `pub(in crate::..)` and calls of macros import nothing, and neither does the end
            // of a longer path.
            let is_path = path[first.len()..end].starts_with("::") && !path[end..].starts_with('!');
            if is_path && !left[..at].trim_end().ends_with("(in") && !left[..at].ends_with("::") {
                leaves(&path[..end], &[], &mut paths);
            }
            left = &path[end.max(first.len())..];
        }
    }
    paths
}

/// Where a word stands by itself.
fn find_word(text: &str, word: &str) -> Option<usize> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).map(|(at, _)| at).find(|&at| {
        !text[..at].chars().next_back().is_some_and(part) && !text[at + word.len()..].starts_with(part)
    })
}

/// The module that a path leads to, with the name behind it.
fn target(modules: &BTreeMap<Module, usize>, from: &Module, path: &[String]) -> Option<(Module, String)> {
    let absolute: Module = match path.first()?.as_str() {
        "crate" => path[1..].to_vec(),
        "self" => [from, &path[1..]].concat(),
        "super" => {
            let up = path.iter().take_while(|name| *name == "super").count();
            [&from[..from.len().checked_sub(up)?], &path[up..]].concat()
        }
        _ => return None,
    };
    let len = (0..=absolute.len()).rev().find(|&len| modules.contains_key(&absolute[..len]))?;
    Some((absolute[..len].to_vec(), absolute[len..].join("::")))
}

/// Imports of a room from one that stands above it, as lines for people.
fn upward(order: &Order, sources: &[Source]) -> BTreeSet<String> {
    let is_test = |source: &&Source| {
        let path = source.path.to_string_lossy();
        path.contains("/tests/") || path.ends_with("/tests.rs")
    };
    let mut modules = BTreeMap::new();
    for source in sources.iter().filter(|source| !is_test(source)) {
        let room = room_of(order, &source.path);
        let room = room
            .unwrap_or_else(|| panic!("{} lies in no room: name it in modules.txt", source.path.display()));
        modules.insert(module_of(&order.root, &source.path), room);
    }
    let mut wrong = BTreeSet::new();
    for source in sources.iter().filter(|source| !is_test(source)) {
        let from = module_of(&order.root, &source.path);
        for path in paths(&code(&source.text)) {
            let Some((module, name)) = target(&modules, &from, &path) else { continue };
            // What macros write for the users of the crate stands at its root.
            if module.is_empty() && name.starts_with("__") {
                continue;
            }
            let (own, other) = (modules[&from], modules[&module]);
            if other > own {
                wrong.insert(format!(
                    "{}: `{}` imports `{name}` from `{}`, which stands above it",
                    source.path.display(),
                    order.rooms[own].join(" "),
                    order.rooms[other].join(" ")
                ));
            }
        }
    }
    wrong
}

#[test]
fn modules_import_only_what_stands_below_them() {
    let upward = |order: &Order| upward(order, &files(&order.root));
    let wrong: BTreeSet<String> = orders().iter().flat_map(upward).collect();
    let lines: Vec<&str> = wrong.iter().map(String::as_str).collect();
    assert!(wrong.is_empty(), "move what is shared down, or the importer up:\n{}", lines.join("\n"));
}

#[test]
fn every_room_is_there() {
    let orders = orders();
    assert!(orders.len() > 2, "modules.txt has lists for {} crates", orders.len());
    for Order { root, rooms } in orders {
        for room in rooms.into_iter().flatten() {
            let path = crate::root().join(&root).join(room);
            let is_there = path.is_dir() || path.with_extension("rs").is_file();
            assert!(is_there, "modules.txt names `{room}`, which is gone from {root}");
        }
    }
}

#[test]
fn an_import_from_above_is_found_wherever_it_stands() {
    let rooms = ["a", "b", "c", "lib"].map(|room| vec![room]).into();
    let order = Order { root: "some/src".to_owned(), rooms };
    let source =
        |path: &str, text: &str| Source { path: Path::new(&order.root).join(path), text: text.to_owned() };
    let sources = [
        source("lib.rs", "mod a; mod b; mod c;"),
        source("a.rs", "pub struct A;"),
        source("b/mod.rs", "use super::a::A; // use crate::c::C;\npub struct B(A);"),
        source("b/deep.rs", "use super::super::{a::A, c::{self, C as D}};\nfn f() { \"crate::c::C\"; }"),
        source("b/other.rs", "pub(in crate::c) fn f() { crate::c::g() }"),
        source("b/tests.rs", "use crate::c::C;"),
        source("c.rs", "use crate::{a::A, b::B};"),
    ];
    let wrong = upward(&order, &sources);
    let found: Vec<&str> = wrong.iter().map(|line| line.split(", which").next().unwrap()).collect();
    assert_eq!(
        found,
        [
            "some/src/b/deep.rs: `b` imports `C` from `c`",
            "some/src/b/deep.rs: `b` imports `self` from `c`",
            "some/src/b/other.rs: `b` imports `g` from `c`",
        ]
    );
}
