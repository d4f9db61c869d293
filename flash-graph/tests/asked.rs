//! `FLASH_GRAPH_DOT`: pictures at the end of graphs, and when the program is interrupted. Each test runs
//! itself again as a child, with the variable.

use flash_graph::{Cx, Graph, Out};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const CHILD: &str = "FLASH_GRAPH_TEST_CHILD";

/// True in the child.
fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

fn child(test: &str, picture: &Path) -> Child {
    // Programs that a script has started in the background ignore interrupts.
    let mut command = Command::new("env");
    command.arg("--default-signal=INT").arg(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env(CHILD, "1").env("FLASH_GRAPH_DOT", picture);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn run_graph(name: &str, data: u32) {
    let g = Graph::new(name);
    let (a, c) = (g.input::<u32>("a"), g.output::<u32>("c"));
    let node = g.map("same", |x: u32| x);
    g.edge(&a, &node);
    g.edge(&node.out, &c);
    let run = g.start().unwrap();
    run.push_all(&a, 0..data).unwrap();
    run.wait().unwrap();
}

#[test]
fn each_graph_is_drawn_when_it_ends() {
    if is_child() {
        run_graph("first", 3);
        let path = std::env::var_os("FLASH_GRAPH_DOT").unwrap();
        let first = std::fs::read_to_string(&path).unwrap();
        assert!(first.starts_with("digraph \"first\"") && first.contains("3 data"), "{first}");
        run_graph("second", 4);
        // One that is dropped has ended, too.
        let g = Graph::new("dropped");
        drop(g.start().unwrap());
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("digraph \"dropped\""));
        return run_graph("last", 5);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph.dot");
    let output = child("each_graph_is_drawn_when_it_ends", &path).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let last = std::fs::read_to_string(&path).unwrap();
    assert!(last.starts_with("digraph \"last\"") && last.contains("5 data"), "{last}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn a_picture_that_cannot_be_written_is_told_once_and_the_graphs_run() {
    if is_child() {
        return (0..3).for_each(|data| run_graph("runs", data));
    }
    let test = "a_picture_that_cannot_be_written_is_told_once_and_the_graphs_run";
    let output = child(test, Path::new("/nowhere/graph.dot")).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches("flash: FLASH_GRAPH_DOT: expected a file").count(), 1, "{text}");
}

/// Two graphs run until the process is interrupted.
fn runs_for_ever() {
    let start = |name: &str| {
        let g = Graph::new(name);
        let (a, c) = (g.input::<u32>("a"), g.output::<u32>("c"));
        let blocks = g.each("blocks", |_: u32, _: &mut Out<u32>, _: &mut Cx<'_>| {
            println!("blocks");
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        let blocks = blocks.dedicated();
        g.edge(&a, &blocks);
        g.edge(&blocks.out, &c);
        let run = g.start().unwrap();
        run.push(&a, 1).unwrap();
        run
    };
    let runs = [start("one"), start("two")];
    std::thread::park();
    drop(runs);
}

fn interrupt(child: &Child) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
}

/// Waits until the nodes of both graphs block.
fn wait_until_both_block(child: &mut Child) {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.map_while(Result::ok).filter(|line| line.contains("blocks")).take(2).count(), 2);
}

#[test]
fn an_interrupt_draws_what_runs_and_ends_the_process_as_ever() {
    if is_child() {
        return runs_for_ever();
    }
    for name in ["graph.dot", "graph.svg"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let mut child = child("an_interrupt_draws_what_runs_and_ends_the_process_as_ever", &path);
        wait_until_both_block(&mut child);
        assert!(!path.exists());
        interrupt(&child);
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(2), "the process ends by the signal: {status}");
        let picture = std::fs::read_to_string(&path).unwrap();
        if name.ends_with("svg") {
            let document = roxmltree::Document::parse(&picture).unwrap();
            assert!(
                document.descendants().any(|node| node.text().is_some_and(|text| text.starts_with("two, ")))
            );
        } else {
            assert!(picture.contains("digraph \"one\"") && picture.contains("digraph \"two\""), "{picture}");
        }
    }
}

#[test]
fn a_handler_that_was_there_before_is_called_and_the_process_goes_on() {
    if is_child() {
        let seen = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGINT, seen.clone()).unwrap();
        let waits = std::thread::spawn(move || {
            while !seen.load(std::sync::atomic::Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let path = std::env::var_os("FLASH_GRAPH_DOT").unwrap();
            while !Path::new(&path).exists() {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::process::exit(7);
        });
        runs_for_ever();
        waits.join().unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph.dot");
    let mut child = child("a_handler_that_was_there_before_is_called_and_the_process_goes_on", &path);
    wait_until_both_block(&mut child);
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(7));
    assert!(std::fs::read_to_string(&path).unwrap().contains("digraph \"two\""));
}
