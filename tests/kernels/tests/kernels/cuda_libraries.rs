//! Kernels by cuBLAS and cuSOLVER where there is no GPU: by libraries of the same functions,
//! `tests/c/cuda_libraries.c`, on the emulated driver.

use flash_tests::emulated;
use flash_tests::plugins::{Language, directory, shared, workspace};
use std::process::Command;

/// Tests that compare `cublas` and `cusolver` with a model where their libraries are found, in single and
/// double precision.
const TESTS: [&str; 9] = [
    "matrices::products_of_all_shapes_are_right_and_no_cut_changes_a_bit",
    "matrices::empty_matrices_have_products",
    "factors::products_of_all_forms_are_added_and_no_cut_changes_a_bit",
    "factors::lower_triangles_of_symmetric_products_are_added_and_no_cut_changes_a_bit",
    "factors::code_for_devices_stays_inside_its_arrays",
    "factors::triangular_systems_of_all_forms_are_solved_and_no_cut_changes_a_bit",
    "factors::factors_multiply_to_the_matrix_and_leave_the_other_triangle_alone",
    "factors::several_matrices_are_factorised_each_in_its_place",
    "factors::a_pivot_that_is_not_positive_is_an_error_with_its_row_and_value",
];

/// In processes that have such libraries.
const HERE: &str = "FLASH_TEST_CUDA_LIBRARIES";

/// True in a process that must find the libraries.
pub fn is_here() -> bool {
    std::env::var_os(HERE).is_some()
}

#[test]
fn the_libraries_are_called_as_they_are_documented() {
    const TEST: &str = "cuda_libraries::the_libraries_are_called_as_they_are_documented";
    if emulated::has_driver() {
        return;
    }
    if !Language::C.is_there() || flash_backend_cuda::nvrtc::version().is_none() {
        return flash_tests::skip(TEST, "no C or no CUDA compiler: `cargo xtask setup` downloads the latter");
    }
    let folder = directory();
    let text = std::fs::read_to_string(workspace().join("tests/c/cuda_libraries.c")).unwrap();
    for library in ["libcublas.so.13", "libcusolver.so.12"] {
        shared(Language::C, &text, &["-ldl"], &folder.path().join(library));
    }
    let mut variables = emulated::environment();
    let (_, path) = variables.iter_mut().find(|(name, _)| *name == "LD_LIBRARY_PATH").unwrap();
    let before = std::env::split_paths(path).collect::<Vec<_>>();
    *path = std::env::join_paths([folder.path().to_owned()].into_iter().chain(before)).unwrap();
    for test in TESTS {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
        let output = command.envs(variables.clone()).env(HERE, "1").output().unwrap();
        let text = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned();
        assert!(output.status.success() && text.contains("1 passed"), "{test}: {}\n{text}", output.status);
    }
}
