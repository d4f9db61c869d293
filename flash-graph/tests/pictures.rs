//! Pictures of graphs are valid, and show what ran.

use flash_graph::{Cx, Error, Graph, Input, Out, Output, Pool, Route};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

type Done = Result<(), Error>;

/// Parts in scopes, a cycle, copies, a pool, several outputs, and names with letters that need care.
fn graph() -> (Graph, Input<u32>, Output<u32>) {
    let g = Graph::new("a \"picture\" <&>\u{1}\\");
    let (a, c) = (g.input::<u32>("numbers"), g.output::<u32>("results"));
    let pool = Pool::new("tiles", 2, || ());
    let taken = pool.clone();
    let fill = g.each("fill <T>", move |x: u32, out: &mut Out<u32>, cx: &mut Cx<'_>| {
        let _tile = taken.take(cx);
        out.emit(x);
        Ok(())
    });
    let fill = fill.takes(&pool, 1);
    let merge = g.map("merge & \"sort\"", |x: u32| x);
    for device in ["gpu 0", "gpu 1"] {
        g.scope(device, |g| {
            let load = g.map("load", |x: u32| x).replicas(2);
            let count = move |(x, n): (u32, u32), out: &mut (Out<(u32, u32)>, Out<u32>), _: &mut Cx<'_>| {
                match n {
                    0 => out.1.emit(x),
                    n => out.0.emit((x, n - 1)),
                }
                Ok(())
            };
            let turns = g.scope("inner", |g| g.each("turns", count).unbounded());
            let begin = g.map("begin", |x: u32| {
                std::thread::sleep(Duration::from_micros(50));
                (x, 3)
            });
            match device {
                "gpu 0" => g.edge(&fill.out, &load),
                _ => g.edge_of_copies(&fill.out, &load),
            }
            g.edge(&load.out, &begin);
            g.edge(&begin.out, &turns);
            g.edge(&turns.out.0, &turns);
            g.edge(&turns.out.1, &merge);
        });
    }
    g.edge(&a, &fill);
    g.edge(&merge.out, &c);
    (g, a, c)
}

/// A piece of text in the language of Graphviz.
#[derive(Debug, PartialEq, Clone)]
enum Token {
    Word(String),
    Sign(char),
}

fn tokens(dot: &str) -> Vec<Token> {
    let (mut tokens, mut rest) = (Vec::new(), dot.chars().peekable());
    while let Some(c) = rest.next() {
        match c {
            c if c.is_whitespace() => {}
            '"' => {
                let mut word = String::new();
                loop {
                    match rest.next().expect("a string ends") {
                        '"' => break,
                        '\\' => match rest.next().expect("a letter") {
                            'n' => word.push('\n'),
                            c => word.push(c),
                        },
                        c => word.push(c),
                    }
                }
                tokens.push(Token::Word(word));
            }
            '-' if rest.next_if_eq(&'>').is_some() => tokens.push(Token::Sign('>')),
            '{' | '}' | '[' | ']' | '=' | ',' | ';' => tokens.push(Token::Sign(c)),
            c if c.is_ascii_alphanumeric() => {
                let mut word = c.to_string();
                while let Some(c) = rest.next_if(|c| c.is_ascii_alphanumeric()) {
                    word.push(c);
                }
                tokens.push(Token::Word(word));
            }
            c => panic!("`{c}` is in no place of the language, in: {dot}"),
        }
    }
    tokens
}

/// What a picture has.
#[derive(Default)]
struct Shown {
    name: String,
    /// By node, its scopes and its attributes.
    nodes: HashMap<String, (Vec<String>, HashMap<String, String>)>,
    edges: Vec<(String, String, HashMap<String, String>)>,
}

/// Reads a graph. The grammar is that of Graphviz, as far as it is used.
fn read(dot: &str) -> Shown {
    let all = tokens(dot);
    let mut rest = all.iter().cloned().peekable();
    fn word(rest: &mut impl Iterator<Item = Token>) -> String {
        match rest.next() {
            Some(Token::Word(word)) => word,
            other => panic!("expected a word, found {other:?}"),
        }
    }
    let mut shown = Shown::default();
    assert_eq!(word(&mut rest), "digraph");
    shown.name = word(&mut rest);
    assert_eq!(rest.next(), Some(Token::Sign('{')));
    let (mut scopes, mut clusters) = (Vec::new(), HashSet::new());
    let mut open = 1;
    while open > 0 {
        match rest.next().expect("the graph ends") {
            Token::Sign('}') => {
                scopes.pop();
                open -= 1;
            }
            Token::Word(first) if first == "subgraph" => {
                let cluster = word(&mut rest);
                assert!(cluster.starts_with("cluster") && clusters.insert(cluster));
                assert_eq!(rest.next(), Some(Token::Sign('{')));
                scopes.push(String::new());
                open += 1;
            }
            Token::Word(first) => match rest.next() {
                Some(Token::Sign('=')) => {
                    let value = word(&mut rest);
                    if first == "label" {
                        *scopes.last_mut().expect("a scope") = value;
                    }
                    assert_eq!(rest.next(), Some(Token::Sign(';')));
                }
                mut next => {
                    let to = (next == Some(Token::Sign('>'))).then(|| {
                        let to = word(&mut rest);
                        next = rest.next();
                        to
                    });
                    let mut attributes = HashMap::new();
                    assert_eq!(next, Some(Token::Sign('[')));
                    loop {
                        let name = word(&mut rest);
                        assert_eq!(rest.next(), Some(Token::Sign('=')));
                        assert!(attributes.insert(name, word(&mut rest)).is_none());
                        match rest.next() {
                            Some(Token::Sign(',')) => {}
                            end => break assert_eq!(end, Some(Token::Sign(']'))),
                        }
                    }
                    assert_eq!(rest.next(), Some(Token::Sign(';')));
                    match to {
                        Some(to) => shown.edges.push((first, to, attributes)),
                        None if first == "node" => {}
                        None => {
                            let node = (scopes.clone(), attributes);
                            assert!(shown.nodes.insert(first, node).is_none());
                        }
                    }
                }
            },
            other => panic!("{other:?} is no statement"),
        }
    }
    assert_eq!(rest.next(), None);
    for (from, to, _) in &shown.edges {
        assert!(shown.nodes.contains_key(from) && shown.nodes.contains_key(to));
    }
    shown
}

#[derive(Clone, Copy, Debug)]
struct Box {
    x: f64,
    y: f64,
    w: f64,
    h: f64,
}

impl Box {
    fn has(&self, other: &Box) -> bool {
        let e = 0.2;
        self.x <= other.x + e
            && self.y <= other.y + e
            && other.x + other.w <= self.x + self.w + e
            && other.y + other.h <= self.y + self.h + e
    }

    fn meets(&self, other: &Box) -> bool {
        let e = 0.2;
        self.x + e < other.x + other.w
            && other.x + e < self.x + self.w
            && self.y + e < other.y + other.h
            && other.y + e < self.y + self.h
    }
}

/// Checks an SVG: well-formed, boxes apart, edges from box to box. Returns its texts.
fn check_svg(svg: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).unwrap_or_else(|e| panic!("{e}: {svg}"));
    let root = document.root_element();
    assert_eq!(root.tag_name().namespace(), Some("http://www.w3.org/2000/svg"));
    let number = |node: roxmltree::Node<'_, '_>, name| node.attribute(name).unwrap().parse::<f64>().unwrap();
    let boxes = |class: &str| -> Vec<Box> {
        let of_class = document.descendants().filter(|node| node.attribute("class") == Some(class));
        let rect = |node| Box {
            x: number(node, "x"),
            y: number(node, "y"),
            w: number(node, "width"),
            h: number(node, "height"),
        };
        of_class.filter(|node| node.has_tag_name("rect")).map(rect).collect()
    };
    let (nodes, scopes) = (boxes("box"), boxes("scope"));
    let (across, down) = (number(root, "width"), number(root, "height"));
    let page = Box { x: 0.0, y: 0.0, w: across, h: down };
    for (i, node) in nodes.iter().enumerate() {
        assert!(page.has(node), "{node:?} leaves the page {page:?}");
        nodes[..i].iter().for_each(|other| assert!(!node.meets(other), "{node:?} is on {other:?}"));
        scopes.iter().for_each(|scope| assert!(scope.has(node) || !scope.meets(node), "{node:?} {scope:?}"));
    }
    for (i, scope) in scopes.iter().enumerate() {
        let apart = |other: &Box| scope.has(other) || other.has(scope) || !scope.meets(other);
        scopes[..i].iter().for_each(|other| assert!(apart(other), "{scope:?} {other:?}"));
    }
    for edge in document.descendants().filter(|node| node.attribute("class") == Some("edge")) {
        let path = edge.attribute("d").unwrap();
        let numbers: Vec<f64> =
            path.split(['M', 'L', 'C', ' ']).filter(|n| !n.is_empty()).map(|n| n.parse().unwrap()).collect();
        assert!(numbers.len() >= 4 && numbers.iter().all(|n| n.is_finite()), "{path}");
        let (start, end) =
            ((numbers[0], numbers[1]), (numbers[numbers.len() - 2], numbers[numbers.len() - 1]));
        let at = |(x, y): (f64, f64), side: fn(&Box) -> f64| {
            nodes.iter().any(|node| (side(node) - x).abs() < 0.3 && node.y <= y && y <= node.y + node.h)
        };
        assert!(at(start, |node| node.x + node.w), "an edge begins at no box: {path}");
        assert!(at(end, |node| node.x), "an edge ends at no box: {path}");
    }
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.filter_map(|node| node.text().map(str::to_owned)).collect()
}

#[test]
fn a_picture_has_scopes_counts_times_and_types_before_during_and_after_a_run() -> Done {
    let (g, a, c) = graph();
    let before = g.picture();
    let shown = read(&before.dot());
    assert_eq!(shown.name, "a \"picture\" <&>\u{1}\\");
    assert_eq!((shown.nodes.len(), shown.edges.len()), (10, 12));
    let texts = check_svg(&before.svg());
    assert!(texts.contains(&"load ×2".into()) && texts.contains(&"gpu 1".into()), "{texts:?}");
    assert!(
        !texts.iter().any(|text| text.contains("data") || text.contains("busy")),
        "nothing ran: {texts:?}"
    );

    let run = g.start()?;
    let picture = run.picture();
    run.push_all(&a, 0..100)?;
    check_svg(&picture.svg());
    read(&picture.dot());
    run.close();
    assert_eq!(run.results(&c).count(), 200);
    run.wait()?;

    let shown = read(&picture.dot());
    let node = |label: &str| {
        let mut nodes = shown.nodes.iter();
        let found = nodes.find(|(_, (_, attributes))| attributes["label"].split('\n').next() == Some(label));
        found.unwrap_or_else(|| panic!("no {label} in {}", picture.dot()))
    };
    let (fill, (scopes, attributes)) = node("fill <T>");
    assert!(scopes.is_empty() && attributes["label"].contains("\n100 data\nbusy "), "{attributes:?}");
    let (_, (scopes, attributes)) = node("turns");
    assert_eq!(scopes.len(), 2);
    assert!(
        scopes[0].starts_with("gpu ") && scopes[1] == "inner" && attributes["label"].contains("400 data")
    );
    let busy = &node("begin").1.1["label"];
    assert!(busy.contains(" ms (") || busy.contains(" s ("), "it slept for 5 ms in its calls: {busy}");
    let from_fill: Vec<_> = shown.edges.iter().filter(|(from, ..)| from == fill).collect();
    assert_eq!(from_fill.len(), 2);
    let copies = from_fill.iter().filter(|(.., of)| of.get("style").map(String::as_str) == Some("dashed"));
    assert_eq!(copies.count(), 1, "one edge is of copies");
    assert!(shown.edges.iter().any(|(.., of)| of["label"].starts_with("out.1: u32\nat most ")));
    assert!(
        shown.edges.iter().any(|(from, to, of)| from == to && of["label"].starts_with("out: (u32, u32)"))
    );

    let texts = check_svg(&picture.svg());
    for text in ["fill <T>", "merge & \"sort\"", "100 data", "waits for a pool", "out.1: u32"] {
        assert!(texts.iter().any(|found| found == text), "no {text} in {texts:?}");
    }
    assert!(texts[0].starts_with("a \"picture\" <&>\u{fffd}\\, "), "{}", texts[0]);
    // It does not change any more.
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(texts, check_svg(&picture.svg()));
    Ok(())
}

#[test]
fn waits_for_room_and_for_a_pool_are_told_apart() -> Done {
    let g = Graph::new("waits");
    let (a, c) = (g.input::<u32>("a"), g.output::<()>("c"));
    let pool = Pool::new("one", 1, || ());
    let taken = pool.clone();
    let fills = g.map("fills", |x: u32| x);
    let takes = g.each("takes", move |_: u32, out: &mut Out<_>, cx: &mut Cx<'_>| {
        drop(taken.take(cx));
        out.emit(());
        Ok(())
    });
    let takes = takes.takes(&pool, 1).inbox(1);
    g.edge(&a, &fills);
    g.edge(&fills.out, &takes);
    g.edge(&takes.out, &c);
    let run = g.start()?;
    let picture = run.picture();
    let of = |name: &str| {
        let shown = read(&picture.dot());
        let mut labels = shown.nodes.values().map(|(_, attributes)| &attributes["label"]);
        labels.find(|label| label.split('\n').next() == Some(name)).cloned().unwrap()
    };
    let is_waiting = |name, what| of(name).contains(what);
    // The only thing of the pool is here, until both nodes wait.
    let thing = pool.try_take();
    run.push_all(&a, 0..30)?;
    while !(is_waiting("takes", "waits for a pool") && is_waiting("fills", "waits for room")) {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(thing);
    run.close();
    assert_eq!(run.results(&c).count(), 30);
    run.wait()?;
    assert!(!is_waiting("takes", "waits for room") && !is_waiting("fills", "waits for a pool"));
    let waited = [of("takes"), of("fills")];
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(waited, [of("takes"), of("fills")], "what has ended waits no more");
    Ok(())
}

#[test]
fn a_graph_without_nodes_one_that_panics_and_two_at_once_have_pictures() -> Done {
    let empty = Graph::new("");
    assert!(read(&empty.picture().dot()).nodes.is_empty());
    check_svg(&empty.picture().svg());
    let run = empty.start()?;
    let picture = run.picture();
    run.wait()?;
    check_svg(&picture.svg());

    let start = |bad: bool| -> Result<_, Error> {
        let g = Graph::new("two");
        let (a, c) = (g.input::<u32>("a"), g.output::<u32>("c"));
        let node = g.map("node", move |x: u32| {
            assert!(!bad || x < 5, "on purpose");
            x
        });
        g.edge(&a, &node);
        g.edge(&node.out, &c);
        Ok((g.start()?, a))
    };
    let ((good, a), (bad, b)) = (start(false)?, start(true)?);
    let pictures = [good.picture(), bad.picture()];
    let (_, _) = (good.push_all(&a, 0..10), bad.push_all(&b, 0..10));
    good.wait()?;
    assert!(bad.wait().is_err());
    for (picture, data) in pictures.iter().zip(["10 data", ""]) {
        let texts = check_svg(&picture.svg());
        assert!(texts.iter().any(|text| text.contains(data)), "{texts:?}");
        assert!(read(&picture.dot()).nodes.len() == 3);
    }
    Ok(())
}

#[test]
fn boxes_of_random_graphs_do_not_overlap_and_edges_meet_their_boxes() {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    for round in 0..60 {
        let g = Graph::new("random");
        let count = 2 + next(if round == 0 { 150 } else { 14 });
        let scopes = ["", "a", "b", "a long name of a scope", "c"];
        // Routers have outputs as they are asked for.
        let nodes: Vec<_> = (0..count)
            .map(|i| {
                let route = Route::by(|x: &u32| *x as usize);
                let (outer, inner) = (scopes[next(5)], scopes[next(5)]);
                let make = |g: &Graph| g.router(&format!("node {i}"), 3, &route);
                match (outer, inner) {
                    ("", _) => make(&g),
                    (outer, "") => g.scope(outer, make),
                    (outer, inner) => g.scope(outer, |g| g.scope(inner, make)),
                }
            })
            .collect();
        for i in 0..count {
            for port in 0..next(4) {
                g.edge(&nodes[i].out[port], &nodes[next(count)]);
            }
        }
        let picture = g.picture();
        check_svg(&picture.svg());
        read(&picture.dot());
    }
}

#[test]
fn files_are_written_whole_in_the_form_that_their_names_say() -> Done {
    let folder = tempfile::tempdir()?;
    let (g, _a, _c) = graph();
    let [svg, dot] = ["graph.SVG", "graph.dot"].map(|name| folder.path().join(name));
    std::fs::write(&svg, "old")?;
    g.picture().write(&svg)?;
    g.picture().write(&dot)?;
    check_svg(&std::fs::read_to_string(&svg)?);
    read(&std::fs::read_to_string(&dot)?);
    assert_eq!(std::fs::read_dir(folder.path())?.count(), 2, "nothing else is left");
    assert!(g.picture().write(folder.path().join("none/graph.svg")).is_err());
    Ok(())
}
