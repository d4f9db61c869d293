//! The two sides of a join are compared by one type of keys.

use flash_graph::Graph;

fn main() {
    let g = Graph::new("wrong");
    let (names, ages) = (g.input::<(u32, String)>("names"), g.input::<(u64, u8)>("ages"));
    g.join("pair", (&names, &ages), |name| name.0, |age| age.0);
}
