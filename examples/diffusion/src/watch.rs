//! The code around the launches of particles: moves, the clock, the launches' profile, pictures.

use std::time::Instant;

use anyhow::Result;
use flash::prelude::{FlashMemory, Profile};
use flash_examples::{Animation, Colours, Picture, Screen, Timing};

use crate::args::Args;
use crate::draw::{self, PER_SECOND, PICTURES};
use crate::source::Source;

/// The problem to run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Problem {
    /// Cells along a side.
    pub grid: u32,
    pub radius: f32,
    pub particles: usize,
    pub iterations: usize,
    /// Iterations of a launch.
    pub stride: usize,
}

/// Moves of one launch, about: a few arrays of them fit into memory, and launches are long enough.
const MOVES: usize = 1 << 22;

impl Problem {
    /// The problem of a command line, with this number of iterations.
    pub fn new(args: &Args, iterations: usize) -> Self {
        let particles = args.particles as usize;
        // A power of two: such launches can be cut between the blocks of their sums.
        let room = (MOVES / particles).max(1);
        let stride = 1 << room.min(iterations.max(1)).ilog2();
        let stride = match args.animate {
            Some(_) => stride.min(iterations.div_ceil(PICTURES).max(1)),
            None => stride,
        };
        Self { grid: args.grid, radius: args.radius, particles, iterations, stride }
    }
}

/// Where moves come from.
pub enum Moves {
    /// Made when needed.
    Random(Source, u64),
    /// All of them, along x and y.
    Listed([Vec<f32>; 2]),
}

/// Watches a run of the host code: `moves` before each launch, `observe` after it.
pub struct Watch<'a> {
    problem: Problem,
    moves: Moves,
    profile: &'a Profile,
    done: usize,
    clock: Instant,
    /// Of all launches so far.
    pub seconds: f64,
    pub timing: Timing,
    pub screen: Screen,
    film: Option<Animation>,
    /// The last picture is wanted.
    image: bool,
    last: Picture,
}

impl<'a> Watch<'a> {
    pub fn new(args: &Args, problem: Problem, moves: Moves, profile: &'a Profile) -> Result<Self> {
        let (grid, start) = (problem.grid as usize, vec![(problem.grid / 2) as f32; problem.particles]);
        let first = draw::picture(grid, &vec![0; grid * grid], &start, &start)?;
        let mut film = None;
        if args.animate.is_some() {
            let mut animation = Animation::new(first.size(), Colours::Map, PER_SECOND)?;
            animation.push(first.clone())?;
            film = Some(animation);
        }
        Ok(Self {
            problem,
            moves,
            profile,
            done: 0,
            clock: Instant::now(),
            seconds: 0.0,
            timing: Timing::default(),
            screen: Screen::new(args.is_quiet(), problem.iterations, "iterations"),
            film,
            image: args.image.is_some(),
            last: first,
        })
    }

    /// Iterations of the next launch with their moves along x and y; nothing after the last. Starts the
    /// clock.
    pub fn moves(&mut self) -> Option<(usize, [FlashMemory<f32>; 2])> {
        let Problem { particles, iterations, stride, .. } = self.problem;
        if self.done == iterations {
            return None;
        }
        let count = stride.min(iterations - self.done);
        let numbers = self.done * particles..(self.done + count) * particles;
        let moves = [0, 1].map(|axis| match &self.moves {
            Moves::Listed(moves) => moves[axis][numbers.clone()].to_vec(),
            Moves::Random(source, seed) => {
                let before = (axis * iterations * particles) as u64;
                source.moves(*seed, before + numbers.start as u64..before + numbers.end as u64)
            }
        });
        self.clock = Instant::now();
        Some((count, moves.map(FlashMemory::from)))
    }

    /// Notes launches that have completed. Reads the memories only if pictures are wanted.
    pub fn observe(
        &mut self,
        x: &FlashMemory<f32>,
        y: &FlashMemory<f32>,
        counts: &FlashMemory<u64>,
    ) -> Result<()> {
        let wall = self.clock.elapsed();
        self.seconds += wall.as_secs_f64();
        self.timing.note(self.profile, wall);
        self.done = (self.done + self.problem.stride).min(self.problem.iterations);
        if self.film.is_some() || (self.image && self.done == self.problem.iterations) {
            let grid = self.problem.grid as usize;
            let picture = draw::picture(grid, &counts.read()?[..grid * grid], &x.read()?, &y.read()?)?;
            if let Some(film) = &mut self.film {
                film.push(picture.clone())?;
            }
            self.last = picture;
        }
        self.screen.progress(self.done);
        Ok(())
    }

    /// The last picture as a file, if one is wanted.
    pub fn image(&self) -> Result<Option<Vec<u8>>> {
        self.image.then(|| self.last.png()).transpose()
    }

    /// The animation as a file, if one is wanted.
    pub fn animation(&mut self) -> Result<Option<Vec<u8>>> {
        self.film.take().map(Animation::gif).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn problem(line: &str) -> Problem {
        let line = std::iter::once("diffusion").chain(line.split_whitespace());
        let args = Args::try_parse_from(line).expect("a correct line");
        Problem::new(&args, args.iterations())
    }

    #[test]
    fn launches_are_as_long_as_there_is_room() {
        assert_eq!(problem("").stride, 8192);
        assert_eq!(problem("--iterations 512").stride, 512);
        assert_eq!(problem("--iterations 0").stride, 1);
        assert_eq!(problem("--particles 16777216").stride, 1);
        assert_eq!(problem("--particles 1 --iterations 4294967295").stride, MOVES);
        assert_eq!(problem("--animate f.gif").stride, 167);
    }

    #[test]
    fn all_moves_are_given_once_and_in_order() {
        let profile = Profile::new();
        let source = Source::Splitmix;
        let args =
            Args::try_parse_from(["diffusion", "--particles", "3", "--quiet"]).expect("a correct line");
        let problem = Problem { stride: 4, ..Problem::new(&args, 10) };
        let listed = Moves::Listed([source.moves(777, 0..30), source.moves(777, 30..60)]);
        for moves in [Moves::Random(source, 777), listed] {
            let mut watch = Watch::new(&args, problem, moves, &profile).expect("a watch");
            let (mut found, none) = ([vec![], vec![]], FlashMemory::zeroed(3));
            while let Some((iterations, moves)) = watch.moves() {
                assert_eq!(iterations, if watch.done == 8 { 2 } else { 4 });
                for (found, moves) in found.iter_mut().zip(moves) {
                    found.extend_from_slice(&moves.read().expect("free"));
                }
                watch.observe(&none, &none, &FlashMemory::zeroed(0)).expect("observed");
            }
            assert_eq!(found.concat(), source.moves(777, 0..60));
        }
    }
}
