//! Submissions of one FPGA image are put together where their order allows.

use crate::devices;
use crate::kernels::Scale;
use flash::prelude::*;

/// Two implementations, each a program of its own.
const IMAGES: [&str; 2] = ["text", "one item"];

/// The positions of a pipeline's submissions in the order in which they ran.
fn ran(profile: &Profile) -> Vec<usize> {
    profile.take().iter().map(|launch| launch.submission).collect()
}

#[test]
fn an_fpga_gets_each_image_once_where_the_submissions_do_not_depend() {
    for device in devices("images::an_fpga_gets_each_image_once_where_the_submissions_do_not_depend") {
        let (rt, profile) = (get_runtime(&device).unwrap(), Profile::new());
        let memories: Vec<_> =
            (0..6).map(|_| [FlashMemory::from(vec![2.0f32; 50]), FlashMemory::from(vec![1.0; 50])]).collect();
        let pipeline = |of: &dyn Fn(usize) -> usize| {
            let mut pipeline = rt.pipeline();
            for k in 0..6 {
                let [x, y] = &memories[of(k)];
                let code = Implementation::named(IMAGES[k % 2]);
                pipeline = pipeline.submit(Scale::of(3.0, x, y)).options((code, &profile)).defer([50]);
            }
            pipeline.exec().unwrap();
        };
        pipeline(&|k| k);
        let apart = ran(&profile);
        match device.starts_with("INTEL_FPGA") {
            true => assert_eq!(apart, [0, 2, 4, 1, 3, 5], "{device}"),
            false => assert_eq!(apart, [0, 1, 2, 3, 4, 5], "{device}"),
        }
        // All of them add to one array: they stay as they are.
        pipeline(&|_| 0);
        assert_eq!(ran(&profile), [0, 1, 2, 3, 4, 5], "{device}");
        let sums: Vec<f32> = memories.iter().map(|[_, y]| y.get(49).unwrap()).collect();
        assert_eq!(sums, [43.0, 7.0, 7.0, 7.0, 7.0, 7.0], "{device}");

        // Slices of the host: all read one, and each writes its own.
        let (x, mut sums) = ([2.0f32; 50], [[1.0f32; 50]; 6]);
        let mut pipeline = rt.pipeline();
        for (k, y) in sums.iter_mut().enumerate() {
            let code = Implementation::named(IMAGES[k % 2]);
            let scale = Scale::of(3.0, &x[..], &mut y[..]);
            pipeline = pipeline.submit(scale).options((code, &profile)).defer([50]);
        }
        pipeline.exec().unwrap();
        assert_eq!(ran(&profile), apart, "{device}");
        assert_eq!(sums, [[7.0; 50]; 6], "{device}");
    }
}
