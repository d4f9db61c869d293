//! What a plugin exports of what it links, and which implementation is taken where it and the program have
//! one of the same name.

use crate::Fill;
use flash_core::descriptor::Implementation;
use flash_core::devices::Outcome;
use flash_core::{Context, FlashMemory};
use flash_tests::plugins;
use std::path::Path;

#[test]
fn a_plugin_exports_its_own_crate_and_not_what_it_links() {
    let file = &plugins::built().private;
    let context = Context::builder().set("plugin_path", file.display()).build().unwrap();
    let out = FlashMemory::<u32>::zeroed(100);
    let cpu = context.runtime("ALL_CPU").unwrap();
    // Its own one has the higher priority; of two that nothing tells apart the program's is taken.
    for (options, value) in [(None, 503), (Some("private"), 503), (Some("plain"), 3)] {
        let fill = cpu.submit(Fill::of(3, &out));
        let fill = options.into_iter().fold(fill, |fill, name| fill.options(Implementation::named(name)));
        fill.exec([100]).unwrap();
        assert_eq!(*out.read().unwrap(), [value; 100], "{options:?}");
    }
    let report = context.list();
    let of_plugin: Vec<_> = report.iter().filter(|entry| Path::new(&entry.plugin) == file).collect();
    assert_eq!(of_plugin.len(), 1, "one entry, without a backend: {of_plugin:?}");
    assert_eq!((of_plugin[0].key.as_deref(), &of_plugin[0].outcome), (None, &Outcome::Available));
    let kernels: Vec<(String, Option<&str>)> = of_plugin[0]
        .implementations
        .iter()
        .map(|one| (one.to_string(), one.shadowed_by.as_deref()))
        .collect();
    let expected = [("plugins.fill private (cpu)", None), ("plugins.fill plain (cpu)", Some("embedded"))];
    assert_eq!(kernels.len(), 2, "{kernels:?}");
    for (kernel, shadowed_by) in expected {
        assert!(kernels.contains(&(kernel.to_owned(), shadowed_by)), "{kernels:?}");
    }
    let embedded = report.iter().find(|entry| entry.key.as_deref() == Some("ALL_CPU")).unwrap();
    assert_eq!((embedded.plugin.as_str(), &embedded.outcome), ("embedded", &Outcome::Available));
    assert!(embedded.implementations.iter().all(|one| one.shadowed_by.is_none()), "{embedded:?}");
}

#[test]
fn the_table_says_which_implementation_never_runs_because_of_another() {
    let output = plugins::flash(&plugins::built().kernels, &["list"]).output().unwrap();
    let text = plugins::text_of(&output);
    let lines = |end: &str| text.lines().filter(|line| line.ends_with(end)).count();
    assert!(lines(".so, shadowed by embedded") > 20, "{text}");
    assert_eq!(lines("_plugin.so"), 0, "all of them: {text}");
    assert!(text.lines().any(|line| line.starts_with("flash.mmm ") && line.ends_with(" embedded")), "{text}");
}
