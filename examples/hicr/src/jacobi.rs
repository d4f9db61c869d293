//! Heat in a cube by Jacobi's method with 13 points, the cube of `jacobi3d`: each instance has a slab of
//! planes, in blocks, and each step of a block is a task.
//!
//! The instance's own thread exchanges planes with its neighbours while workers do the blocks that need none
//! of them. A plane goes by a copy into a neighbour's slot, and after it the number of its step. A slot has
//! room for two steps: a neighbour that is one step ahead writes the other half, and it cannot be two ahead,
//! as it needs the planes of the step between.

use crate::tasks::managers;
use crate::{Outcome, expect, host_space, of_root};
use flash::kernels::star::{Around, row, thirteenth};
use flash_hicr::{
    ComputeManager, Crew, Error, Exchange, ExecutionUnit, LocalSlot, Managers, Queue, Task, Workers, copy,
};
use jacobi3d::cube::{COLD, HOT, REACH, one_loop, start};
use serde_json::json;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

const ITERATIONS: usize = 12;
/// Blocks of an instance along y and z; fewer where there are not enough planes.
const BLOCKS: [usize; 2] = [2, 3];
const TAG: u64 = 3000;

/// The planes of an instance, with `REACH` of its neighbours or the wall before and behind, twice: each step
/// reads one array and writes the other.
struct Slab {
    /// Points along an axis.
    size: usize,
    /// Its planes.
    planes: Range<usize>,
    /// Where blocks begin along y, and the end.
    cuts: Vec<usize>,
    /// The rows of each plane that are in one block.
    arrays: [Vec<Vec<RwLock<Vec<f64>>>>; 2],
    cold: Vec<f64>,
}

impl Slab {
    fn new(size: usize, planes: Range<usize>) -> Slab {
        let cuts: Vec<usize> = (0..=BLOCKS[0]).map(|block| block * size / BLOCKS[0]).collect();
        let point = |x, y, z: usize| match z.checked_sub(REACH) {
            None => HOT,
            Some(z) if z >= size => COLD,
            Some(z) => start::<f64>(x, y, z),
        };
        let array = || {
            let plane = |z: usize| {
                let rows = |ys: &[usize]| {
                    (ys[0]..ys[1]).flat_map(|y| (0..size).map(move |x| point(x, y, z))).collect()
                };
                cuts.windows(2).map(|ys| RwLock::new(rows(ys))).collect::<Vec<_>>()
            };
            (planes.start..planes.end + 2 * REACH).map(plane).collect::<Vec<_>>()
        };
        let arrays = [array(), array()];
        Slab { size, planes, cuts, arrays, cold: vec![COLD; size] }
    }

    /// One step of the rows of block `by` in `planes`, which count from the first of the slab.
    fn step(&self, from: usize, by: usize, planes: &Range<usize>) {
        let near: Vec<Vec<RwLockReadGuard<'_, Vec<f64>>>> = self.arrays[from]
            [planes.start..planes.end + 2 * REACH]
            .iter()
            .map(|plane| {
                plane.iter().map(|rows| rows.read().unwrap_or_else(PoisonError::into_inner)).collect()
            })
            .collect();
        let at = |z: usize, y: Option<usize>| match y {
            Some(y) if y < self.size => {
                let by = self.cuts.partition_point(|cut| *cut <= y) - 1;
                &near[z][by][(y - self.cuts[by]) * self.size..][..self.size]
            }
            _ => &self.cold[..],
        };
        for z in 0..planes.len() {
            let target = &self.arrays[1 - from][planes.start + z + REACH][by];
            let mut target = target.write().unwrap_or_else(PoisonError::into_inner);
            for (y, to) in (self.cuts[by]..).zip(target.chunks_mut(self.size)) {
                let (own, here) = (z + REACH, Some(y));
                let around = Around {
                    before: [COLD; REACH],
                    middle: at(own, here),
                    behind: [COLD; REACH],
                    y: [y.checked_sub(2), y.checked_sub(1), Some(y + 1), Some(y + 2)].map(|y| at(own, y)),
                    z: [own - 2, own - 1, own + 1, own + 2].map(|z| at(z, here)),
                };
                row(thirteenth(), &around, to);
            }
        }
    }

    /// Planes of an array, which count from the first of the slab with its neighbours'.
    fn read(&self, array: usize, planes: Range<usize>) -> Vec<f64> {
        let pieces = self.arrays[array][planes].iter().flatten();
        pieces.flat_map(|rows| rows.read().unwrap_or_else(PoisonError::into_inner).clone()).collect()
    }

    fn write(&self, array: usize, planes: Range<usize>, points: &[f64]) {
        let mut rest = points;
        for rows in self.arrays[array][planes].iter().flatten() {
            let mut rows = rows.write().unwrap_or_else(PoisonError::into_inner);
            let (here, behind) = rest.split_at(rows.len());
            rows.copy_from_slice(here);
            rest = behind;
        }
    }
}

/// What an instance has for its neighbours: in the slot, `REACH` planes of each side for even steps and for
/// odd ones, and then for each side the number of the last step that came.
struct Halo<'a> {
    hicr: &'a Managers,
    /// Bytes of `REACH` planes.
    bytes: u64,
    inbox: LocalSlot,
    outbox: LocalSlot,
    slots: &'a Exchange,
    /// The neighbours before and behind.
    neighbours: [Option<u64>; 2],
}

impl Halo<'_> {
    fn planes_at(&self, step: usize, side: u64) -> u64 {
        (step as u64 % 2 * 2 + side) * self.bytes
    }

    fn number_at(&self, side: u64) -> u64 {
        4 * self.bytes + 8 * side
    }

    /// Sends this slab's outermost planes before a step, and takes the neighbours'.
    fn exchange(&self, slab: &Slab, step: usize) -> Result<(), Error> {
        let (array, count) = (step % 2, slab.planes.len());
        let communication = &*self.hicr.communication;
        // The first planes of this slab are what the one before has behind it.
        for (side, own) in (0..).zip([REACH..2 * REACH, count..count + REACH]) {
            let Some(neighbour) = self.neighbours[side as usize] else { continue };
            let target = self.slots.get(2 * neighbour)?;
            let (theirs, here) = (1 - side, self.planes_at(step, side));
            self.outbox.write(here, bytemuck::cast_slice(&slab.read(array, own)))?;
            copy(communication, target.at(self.planes_at(step, theirs)), self.outbox.at(here), self.bytes)?;
            self.outbox.write(self.number_at(side), &(step as u64).to_ne_bytes())?;
            copy(communication, target.at(self.number_at(theirs)), self.outbox.at(self.number_at(side)), 8)?;
        }
        for (side, theirs) in (0..).zip([0..REACH, count + REACH..count + 2 * REACH]) {
            let Some(neighbour) = self.neighbours[side as usize] else { continue };
            let has_come = &mut || Ok(self.inbox.number(self.number_at(side))? >= step as u64);
            communication.wait(&[neighbour as u32], has_come)?;
            let points = self.inbox.values(self.planes_at(step, side), self.bytes as usize / 8)?;
            slab.write(array, theirs, &points);
        }
        Ok(())
    }
}

/// Twelve steps, with tasks of both kinds; the root compares all points with those of one loop.
pub fn jacobi(hicr: &Managers) -> Outcome {
    let (me, count) = (hicr.instances.current().number as usize, hicr.instances.instances()?.len());
    let size = (REACH * count).max(30);
    let cut = |instance: usize| instance * size / count;
    let plane = (size * size * 8) as u64;
    let space = host_space(hicr)?;
    let mut report = Vec::new();
    for ((name, manager), tag) in managers(hicr).into_iter().zip(TAG..) {
        let [inbox, outbox] =
            [4 * REACH as u64 * plane + 16; 2].map(|bytes| hicr.memory.alloc(&space, bytes));
        let (inbox, outbox) = (inbox?, outbox?);
        let result = hicr.memory.alloc(&space, (cut(me + 1) - cut(me)) as u64 * plane)?;
        let keys = [(2 * me as u64, &inbox), (2 * me as u64 + 1, &result)];
        let slots = hicr.communication.exchange(tag, &keys)?;
        let halo = Halo {
            hicr,
            bytes: REACH as u64 * plane,
            inbox: inbox.clone(),
            outbox,
            slots: &slots,
            neighbours: [me.checked_sub(1), Some(me + 1).filter(|next| *next < count)]
                .map(|neighbour| neighbour.map(|number| number as u64)),
        };
        let slab = Arc::new(Slab::new(size, cut(me)..cut(me + 1)));
        let begin = Instant::now();
        let (tasks, workers) = sweeps(hicr, &manager, &slab, &halo)?;
        let seconds = begin.elapsed().as_secs_f64();
        let own = slab.planes.len();
        result.write(0, bytemuck::cast_slice(&slab.read(ITERATIONS % 2, REACH..own + REACH)))?;
        hicr.communication.fence(tag)?;
        if me == 0 {
            let mut all: Vec<f64> = Vec::new();
            for instance in 0..count {
                let bytes = (cut(instance + 1) - cut(instance)) as u64 * plane;
                let got = hicr.memory.alloc(&space, bytes)?;
                copy(&*hicr.communication, got.at(0), slots.get(2 * instance as u64 + 1)?.at(0), bytes)?;
                all.extend(got.values::<f64>(0, bytes as usize / 8)?);
            }
            let is_same = all.iter().map(|point| point.to_bits());
            let is_same = is_same.eq(one_loop::<f64>(size, ITERATIONS).iter().map(|point| point.to_bits()));
            expect("the bits of one loop", is_same, true)?;
        }
        hicr.communication.fence(tag)?;
        hicr.communication.release(tag);
        report.push(json!({
            "tasks_are": name,
            "workers": workers,
            "points": size * size * size,
            "iterations": ITERATIONS,
            "tasks_per_instance": tasks,
            "seconds": seconds,
        }));
    }
    of_root(hicr, json!({ "instances": count, "cubes": report }))
}

/// All steps of a slab. Gives the tasks and the workers.
fn sweeps(
    hicr: &Managers,
    manager: &Arc<dyn ComputeManager>,
    slab: &Arc<Slab>,
    halo: &Halo<'_>,
) -> Result<(usize, usize), Error> {
    let workers = Workers::start(&Crew::of(&hicr.compute, manager)?, Queue::oldest_first())?;
    let planes = slab.planes.len();
    let count = BLOCKS[1].min(planes);
    let blocks: Vec<Range<usize>> =
        (0..count).map(|block| block * planes / count..(block + 1) * planes / count).collect();
    let mut tasks = 0;
    for step in 0..ITERATIONS {
        let mut sweep = |blocks: &mut dyn Iterator<Item = &Range<usize>>| {
            for planes in blocks {
                for by in 0..BLOCKS[0] {
                    let (slab, planes) = (slab.clone(), planes.clone());
                    let body =
                        ExecutionUnit::new(format!("block {by}, {}", planes.start)).function(move |_| {
                            slab.step(step % 2, by, &planes);
                            Ok(())
                        });
                    workers.add(&Task::new(body, &[]))?;
                    tasks += 1;
                }
            }
            Ok::<(), Error>(())
        };
        // A block needs planes of the neighbours if it is nearer than their reach.
        let is_inner = |block: &&Range<usize>| block.start >= REACH && block.end + REACH <= planes;
        sweep(&mut blocks.iter().filter(is_inner))?;
        if step > 0 {
            halo.exchange(slab, step)?;
        }
        sweep(&mut blocks.iter().filter(|block| !is_inner(block)))?;
        workers.wait()?;
    }
    Ok((tasks, workers.count()))
}
