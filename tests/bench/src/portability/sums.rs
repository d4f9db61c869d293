//! Accumulators, with no framework: a kernel has one for each block of its rows, in the host's memory. They
//! are cleared before it runs, and added up afterwards.

use flash::Code;
use flash::kernels::vdp::Total;
use flash_backend::{Failure, Launch};
use flash_core::descriptor::{ArgumentDescriptor, KernelDescriptor, View};
use std::any::type_name;
use std::ffi::c_void;

/// The arguments of a kernel that are sums.
pub struct Sums(Vec<(usize, Sum)>);

impl Sums {
    /// Of a definition.
    pub fn of(descriptor: &KernelDescriptor) -> Result<Sums, Failure> {
        let sums = descriptor.arguments.iter().enumerate().filter(|(_, a)| a.view == View::Reduce);
        sums.map(|(i, a)| Ok((i, Sum::of(a)?))).collect::<Result<_, _>>().map(Sums)
    }

    /// The accumulators of a launch of `rows` rows.
    pub fn blocks<K>(&self, launch: &Launch<'_, K>, rows: u64) -> Vec<Blocks> {
        let blocks = |&(argument, sum): &(usize, Sum)| {
            let arg = &launch.args()[argument];
            let count = rows.div_ceil(arg.row_len) as usize;
            Blocks { sum, data: arg.data.cast(), count, len: arg.len as usize }
        };
        self.0.iter().map(blocks).collect()
    }
}

/// What a sum is of.
#[derive(Clone, Copy)]
enum Sum {
    Counts,
    Singles,
    Doubles,
}

impl Sum {
    fn of(argument: &ArgumentDescriptor) -> Result<Sum, Failure> {
        let operation = argument.reduce.as_ref().map(|reduce| reduce.operation.as_str());
        // The library's own is `Sum` of whatever type its kernel has.
        let operation = operation.map(|name| if name == type_name::<Total>() { "Sum" } else { name });
        match (operation, argument.element.name.as_str()) {
            (Some("Sum"), "u64") => Ok(Sum::Counts),
            (Some("Sum"), "f32") => Ok(Sum::Singles),
            (Some("Sum"), "f64") => Ok(Sum::Doubles),
            found => {
                Err(Failure::new(Code::Unsupported, format!("expected sums of numbers, found {found:?}")))
            }
        }
    }
}

/// The accumulators of an argument, one per block of rows.
pub struct Blocks {
    sum: Sum,
    data: *mut c_void,
    count: usize,
    /// Elements of each.
    len: usize,
}

impl Blocks {
    /// All of them as numbers.
    ///
    /// # Safety
    /// They are of this type, and have no other user meanwhile.
    #[allow(clippy::mut_from_ref)] // they are the launch's
    unsafe fn all<T>(&self) -> &mut [T] {
        // SAFETY: the host has made as many, and the caller vouches.
        unsafe { std::slice::from_raw_parts_mut(self.data.cast(), self.count * self.len) }
    }

    /// Makes those from one on 0.
    pub fn clear(&self, from: usize) {
        fn fill<T: Default + Copy>(all: &mut [T], from: usize) {
            all.iter_mut().skip(from).for_each(|element| *element = T::default());
        }
        let from = from * self.len;
        // SAFETY: of the types that the definition has, and no share runs.
        unsafe {
            match self.sum {
                Sum::Counts => fill(self.all::<u64>(), from),
                Sum::Singles => fill(self.all::<f32>(), from),
                Sum::Doubles => fill(self.all::<f64>(), from),
            }
        }
    }

    /// Makes one of them, the first, in pairs.
    pub fn add_up(&self) {
        fn pairs<T: Copy>(all: &mut [T], len: usize, add: impl Fn(T, T) -> T) {
            let mut distance = len;
            while distance < all.len() {
                for pair in all.chunks_mut(2 * distance).filter(|pair| pair.len() > distance) {
                    let (to, from) = pair.split_at_mut(distance);
                    to[..len].iter_mut().zip(from).for_each(|(to, from)| *to = add(*to, *from));
                }
                distance *= 2;
            }
        }
        // SAFETY: of the types that the definition has, and all shares are done.
        unsafe {
            match self.sum {
                Sum::Counts => pairs(self.all::<u64>(), self.len, u64::wrapping_add),
                Sum::Singles => pairs(self.all::<f32>(), self.len, |a, b| a + b),
                Sum::Doubles => pairs(self.all::<f64>(), self.len, |a, b| a + b),
            }
        }
    }
}
