//! The names of the kernels in recordings of version 1, when they were not yet in the namespace `flash.`.

flash_core::kernel::recorded_as! {
    "conv1d" => crate::conv1d::Conv1d<'_, f32>;
    "diffusion.count" => crate::diffusion::Count<'_>;
    "diffusion.heat" => crate::diffusion::Heat<'_>;
    "diffusion.walk" => crate::diffusion::Walk<'_>;
    "ewmd" => crate::ewmd::Ewmd<'_, f32>;
    "ewmm" => crate::ewmm::Ewmm<'_, f32>;
    "js" => crate::js::Js<'_, f32>;
    "mmm" => crate::mmm::Mmm<'_, f32>;
    "mvm" => crate::mvm::Mvm<'_, f32>;
    "nbody.accelerate" => crate::nbody::Accelerate<'_, f32>;
    "nbody.integrate" => crate::nbody::Integrate<'_, f32>;
    "nbody.simulate" => crate::nbody::Simulate<'_, f32>;
    "smmm" => crate::smmm::Smmm<'_, f32>;
    "vdp" => crate::vdp::Vdp<'_, f32>;
}

#[cfg(all(test, feature = "implementations"))]
mod tests {
    use flash_core::__private::inventory;
    use flash_core::kernel::{ImplementationEntry, RecordedAsEntry};
    use std::collections::BTreeSet;

    #[test]
    fn every_kernel_is_in_the_namespace_and_those_of_version_1_have_their_names_there() {
        // SAFETY: strings of implementations live for ever.
        let kernel = |entry: &ImplementationEntry| unsafe { (entry.build)().kernel.text() };
        let kernels: BTreeSet<String> = inventory::iter::<ImplementationEntry>().map(kernel).collect();
        assert!(kernels.iter().all(|kernel| kernel.starts_with("flash.")), "{kernels:?}");
        let recorded = inventory::iter::<RecordedAsEntry>();
        for entry in recorded.clone() {
            let name = (entry.kernel)().name;
            assert_eq!(name, format!("flash.{}", entry.name));
            assert!(kernels.contains(&name), "{name}");
        }
        assert_eq!(recorded.count(), 14, "the kernels of version 1");
    }
}
