//! A polynomial of complex numbers, by Horner, over another.

use crate::Problem;
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};

/// A complex number.
#[derive(Clone, Copy, Staged)]
struct Complex {
    re: f32,
    im: f32,
}

#[kernel_fn]
fn product(a: Complex, b: Complex) -> Complex {
    Complex { re: a.re * b.re - a.im * b.im, im: a.re * b.im + a.im * b.re }
}

#[kernel_fn]
fn quotient(a: Complex, b: Complex) -> Complex {
    let Complex { re, im } = b;
    let square = re * re + im * im;
    if square == 0.0 {
        return Complex { re: 0.0, im: 0.0 };
    }
    let over = product(a, Complex { re, im: -im });
    Complex { re: over.re / square, im: over.im / square }
}

#[derive(KernelDefinition)]
#[kernel(name = "twenty.complex", dims(i))]
#[implementations(opencl = "complex.cl", name = "by_hand", priority = -4, cooperating)]
struct Rational<'a> {
    coefficients: Whole<'a, Read<[f32; 2]>>,
    z: Item<'a, Read<[f32; 2]>>,
    value: Item<'a, Write<[f32; 2]>>,
}

once! {{
    impl CpuItem<Rational<'_>> for Once {
        fn item(_: Index<1>, k: RationalItem<'_>) {
            let [re, im] = *k.z;
            let z = Complex { re, im };
            let mut sum = Complex { re: 0.0, im: 0.0 };
            for i in (0..k.coefficients.len()).rev() {
                sum = product(sum, z);
                sum.re += k.coefficients[i][0];
                sum.im += k.coefficients[i][1];
            }
            let value = quotient(sum, z);
            k.value.set([value.re, value.im]);
        }
    }
}}

struct Plane {
    coefficients: FlashMemory<[f32; 2]>,
    z: FlashMemory<[f32; 2]>,
    value: FlashMemory<[f32; 2]>,
}

pub fn problem(n: usize) -> Box<dyn Problem> {
    let z = |i: usize| [(i % 50) as f32 * 0.1, 1.0 - (i % 51) as f32 * 0.02];
    Box::new(Plane {
        coefficients: vec![[0.5, 1.0], [-2.0, 0.25], [0.125, 3.0], [1.0, -0.5], [0.75, 0.0]].into(),
        // The last has no quotient.
        z: (1..n).map(z).chain([[0.0; 2]]).collect(),
        value: FlashMemory::zeroed(n),
    })
}

impl Problem for Plane {
    fn items(&self) -> u64 {
        self.z.len() as u64
    }

    fn launch(&self, rt: &RuntimeObj) -> Result<(), Error> {
        rt.submit(Rational::of(&self.coefficients, &self.z, &self.value)).exec([self.items()])
    }

    fn results(&self) -> Result<Vec<f64>, Error> {
        Ok(self.value.read()?.as_flattened().iter().map(|x| f64::from(*x)).collect())
    }
}
