//! The names of implementations, by which programs choose among them.

use flash::Error;
use flash::kernels::mmm::{Mmm, bf16};
use flash::kernels::{conv1d::Conv1d, diffusion, ewmd::Ewmd, ewmm::Ewmm, js::Js, mvm::Mvm, nbody};
use flash::kernels::{gemm::Gemm, potrf::Potrf, syrk::Syrk, trsm::Trsm};
use flash::kernels::{smmm::Smmm, spmv::Spmv, star::Star, vdp::Vdp};
use flash::prelude::*;
use flash_core::runtime::Definitions;
use std::collections::{BTreeMap, BTreeSet};

/// The names on the library's page, per kernel, as far as they are for this kind of CPU.
fn documented() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let quoted = |cell: &'static str| cell.split('`').skip(1).step_by(2);
    let here = |name: &&str| cfg!(target_arch = "x86_64") || !name.starts_with("avx");
    let page = include_str!("../../../../kernels/lib.rs");
    let (_, table) = page.split_once("| kernels | implementations on a CPU |").expect("the page has a table");
    let rows = table.lines().filter_map(|line| line.strip_prefix("//! | ")?.split_once(" | "));
    rows.flat_map(|(kernels, names)| {
        quoted(kernels).map(move |kernel| (kernel, quoted(names).filter(here).collect()))
    })
    .collect()
}

/// Compares them with the registered ones, and prepares each by its name. Returns the kernel, and the names
/// that take other arguments.
fn check<D: Definitions>(documented: &BTreeMap<&str, BTreeSet<&str>>) -> (String, BTreeSet<String>) {
    let rt = get_runtime("ALL_CPU").unwrap();
    let named = |name: &str| match rt.options(Implementation::named(name)).preload::<D>() {
        Ok(()) => Ok(()),
        Err(Error::NoImplementation(none)) => Err(*none),
        Err(error) => panic!("{name}: {error}"),
    };
    let none = named("of no implementation").unwrap_err();
    let ours = none.rejected().iter().filter(|line| line.contains("` for cpu ("));
    let there: BTreeSet<&str> = ours.filter_map(|line| line.split('`').nth(1)).collect();
    let names = documented.get(none.kernel());
    assert_eq!(names, Some(&there), "{}", none.kernel());
    let mut others = BTreeSet::new();
    for name in &there {
        let Err(none) = named(name) else { continue };
        // One for each number type may have the name.
        let mut why =
            none.rejected().iter().filter(|line| line.starts_with(&format!("`{name}` for cpu"))).peekable();
        assert!(why.peek().is_some(), "{name} is not listed");
        let mine: Vec<_> = why.filter(|why| !why.contains(": it takes ")).collect();
        if mine.is_empty() {
            others.insert((*name).to_owned());
        }
        for why in mine {
            assert!(why.contains(" lacks ") || why.contains("is not found"), "{why}");
        }
    }
    (none.kernel().to_owned(), others)
}

#[test]
fn the_page_names_every_implementation_and_each_is_found_by_its_name() {
    let documented = documented();
    let kernels = [
        check::<Mmm<f32>>(&documented),
        check::<Mmm<bf16>>(&documented),
        check::<Gemm<f32>>(&documented),
        check::<Syrk<f64>>(&documented),
        check::<Trsm<f32>>(&documented),
        check::<Potrf<f64>>(&documented),
        check::<Mvm<f32>>(&documented),
        check::<Vdp<f32>>(&documented),
        check::<Smmm<f64>>(&documented),
        check::<Spmv<f64>>(&documented),
        check::<Ewmm<f64>>(&documented),
        check::<Ewmd<f64>>(&documented),
        check::<Conv1d<f64>>(&documented),
        check::<Js<f64>>(&documented),
        check::<Star<f32>>(&documented),
        check::<nbody::Accelerate<f64>>(&documented),
        check::<nbody::Simulate<f32>>(&documented),
        check::<nbody::Integrate<f32>>(&documented),
        check::<diffusion::Walk>(&documented),
        check::<diffusion::Count>(&documented),
        check::<diffusion::Heat>(&documented),
    ];
    // Each must take the arguments of some definition.
    let mut nobody: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (kernel, others) in &kernels {
        let those = nobody.get(kernel.as_str()).map_or_else(|| others.clone(), |those| those & others);
        nobody.insert(kernel, those);
    }
    assert!(nobody.values().all(BTreeSet::is_empty), "{nobody:?}");
    assert_eq!(nobody.len(), documented.len(), "{documented:?}");
}
