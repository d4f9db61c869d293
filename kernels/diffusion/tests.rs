//! Tests without a launch: rounding, and refused arguments.

use super::cpu::nearest;
use super::*;

/// Floats around every edge that rounding has, and many in between.
fn floats() -> impl Iterator<Item = f32> {
    let edges = (-40..=40).map(|halves| halves as f32 * 0.5);
    let near = edges.flat_map(|x| [x, x.next_up(), x.next_down(), x.next_up().next_up()]);
    let tiny = [f32::MIN_POSITIVE, 1e-30, 1e-8, 3e-8, 6e-8].into_iter().flat_map(|x| [x, -x]);
    let large = [8388607.5, 8388608.0, 16777216.0, 1e9, 3e38].into_iter().flat_map(|x: f32| [x, -x]);
    near.chain(tiny).chain(large).chain((0..100_000).map(|i| (i as f32 * 0.754_877_7) % 53.0 - 20.0))
}

#[test]
fn the_nearest_cell_is_that_of_an_addition_without_rounding() {
    for x in floats() {
        let (cell, distance) = nearest(x);
        let exact = (f64::from(x) + 0.5).floor();
        // Others are on no grid.
        if (0.0..f64::from(1 << 22)).contains(&exact) {
            assert_eq!(f64::from(cell), exact, "{x:?}");
            // At a tie `round` may go the other way; that is equally far.
            assert_eq!(distance.abs(), (x - x.round()).abs(), "{x:?}");
        } else {
            assert!(cell >= LARGEST_GRID, "{x:?}: {cell}");
        }
    }
    for x in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert!(nearest(x).0 >= LARGEST_GRID, "{x}");
    }
}

#[test]
fn a_square_is_within_reach_if_and_only_if_its_root_is_within_the_radius() {
    for radius in floats().map(f32::abs).take(3000).chain([0.0, 1e-20, 1e-30, 1e19, f32::MAX, f32::INFINITY])
    {
        let reach = reach(radius);
        assert!(reach.sqrt() <= radius, "{radius}: {reach}");
        assert!(reach == f32::MAX || reach.next_up().sqrt() > radius, "{radius}: {reach}");
    }
    for radius in [-1.0, -1e-30, f32::NAN] {
        assert_eq!(reach(radius), -1.0);
    }
    assert_eq!(reach(-0.0), 0.0);
}

fn text<T>(refused: Result<T, Error>) -> String {
    refused.err().expect("refused").to_string()
}

#[test]
fn shapes_that_do_not_fit_are_refused_with_both() {
    let (moves, of_particles) = (FlashMemory::<f32>::zeroed(12), FlashMemory::<f32>::zeroed(4));
    let cell = FlashMemory::<u32>::zeroed(4);
    let track =
        |shape: [usize; 2]| FlashMemory::<u32>::zeroed(shape[0] * shape[1]).with_shape(shape).unwrap();
    let make = |grid, rx, x, track: &FlashMemory<u32>| {
        walk(grid, 0.5, [rx, &moves], [x, &of_particles], &cell, track).map(|_| ())
    };
    make(22, &moves, &of_particles, &track([4, 4])).unwrap();
    make(LARGEST_GRID, &moves, &of_particles, &track([9, 4])).unwrap();
    for grid in [0, LARGEST_GRID + 1] {
        let text = text(make(grid, &moves, &of_particles, &track([4, 4])));
        assert!(text.contains("1 to 4096") && text.contains(&grid.to_string()), "{text}");
    }
    assert!(text(make(22, &of_particles, &of_particles, &track([4, 4]))).contains("found 4 and 12"));
    assert!(text(make(22, &moves, &moves, &track([4, 4]))).contains("found 12, 4 and 4"));
    for shape in [[3, 4], [4, 3], [4, 5]] {
        let text = text(make(22, &moves, &of_particles, &track(shape)));
        assert!(text.contains("[l, 4], l above 3") && text.contains(&format!("{shape:?}")), "{text}");
    }
    let flat = FlashMemory::<u32>::zeroed(16);
    assert!(text(count(3, &flat, &FlashMemory::zeroed(3))).contains("found []"));
    assert!(text(count(3, &track([4, 4]), &FlashMemory::zeroed(4))).contains("found 4"));
    assert!(
        text(count(4, &track([4, 4]), &FlashMemory::zeroed(3)))
            .contains("l above 4 iterations, found [4, 4]")
    );
    assert_eq!([0, 1, 8, 9].map(stretches), [0, 1, 1, 2]);
    let field = |shape: [usize; 2]| FlashMemory::<f32>::zeroed(6).with_shape(shape).unwrap();
    heat(0.1, &field([2, 3]), &field([2, 3])).map(|_| ()).unwrap();
    let text = text(heat(0.1, &field([2, 3]), &field([3, 2])));
    assert!(text.contains("[2, 3]") && text.contains("[3, 2]"), "{text}");
}
