//! The price of a European call, by Black and Scholes.

use crate::{Problem, numbers};
use flash::kernel::prelude::*;
use flash::prelude::*;
use flash::{Error, RuntimeObj};

#[derive(KernelDefinition)]
#[kernel(name = "twenty.black_scholes", dims(option))]
#[implementations(opencl = "black_scholes.cl", name = "by_hand", priority = -4, cooperating)]
struct BlackScholes<'a> {
    rate: f64,
    volatility: f64,
    spot: Item<'a, Read<f64>>,
    strike: Item<'a, Read<f64>>,
    years: Item<'a, Read<f64>>,
    price: Item<'a, Write<f64>>,
}

/// The normal distribution, by Abramowitz and Stegun 26.2.17.
#[kernel_fn]
fn normal(x: f64) -> f64 {
    let t = 1.0 / 0.2316419_f64.mul_add(x.abs(), 1.0);
    let poly =
        t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
    let tail = (-0.5 * x * x).exp() * 0.3989422804014327 * poly;
    if x < 0.0 { tail } else { 1.0 - tail }
}

once! {{
    impl CpuItem<BlackScholes<'_>> for Once {
        fn item(_: Index<1>, k: BlackScholesItem<'_>) {
            let (spot, strike, years) = (*k.spot, *k.strike, *k.years);
            let deviation = k.volatility * years.sqrt();
            let up =
                ((spot / strike).ln() + (k.rate + 0.5 * k.volatility * k.volatility) * years) / deviation;
            k.price.set(spot * normal(up) - strike * (-k.rate * years).exp() * normal(up - deviation));
        }
    }
}}

struct Calls {
    spot: FlashMemory<f64>,
    strike: FlashMemory<f64>,
    years: FlashMemory<f64>,
    price: FlashMemory<f64>,
}

pub fn problem(n: usize) -> Box<dyn Problem> {
    let from = |first: f64, step: f64| (0..n).map(|i| first + step * (i % 32) as f64).collect();
    let (spot, strike, years) = (from(20.0, 1.3), from(25.0, 0.9), from(0.1, 0.07));
    Box::new(Calls { spot, strike, years, price: FlashMemory::zeroed(n) })
}

impl Problem for Calls {
    fn items(&self) -> u64 {
        self.price.len() as u64
    }

    fn launch(&self, rt: &RuntimeObj) -> Result<(), Error> {
        let Calls { spot, strike, years, price } = self;
        rt.submit(BlackScholes::of(0.02, 0.3, spot, strike, years, price)).exec([self.items()])
    }

    fn results(&self) -> Result<Vec<f64>, Error> {
        numbers(&self.price)
    }
}
