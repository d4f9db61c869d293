//! A second edge needs clones.

use flash_graph::Graph;

struct Tile;

fn main() {
    let g = Graph::new("wrong");
    let (tiles, kept) = (g.input::<Tile>("tiles"), g.output::<Tile>("kept"));
    g.edge_of_copies(&tiles, &kept);
}
