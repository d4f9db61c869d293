//! Kernels that memory limits.

use crate::child;
use crate::dispatch::per_call;
use crate::kernels::Triad;
use crate::peers::Peers;
use crate::stats::{PAUSE, REPEATS, Row, pair};
use anyhow::Result;
use flash::{FlashMemory, get_runtime};

/// All rows.
pub fn rows(peers: &Peers) -> Result<Vec<Row>> {
    let mut rows = vec![child::saxpy_row()?];
    let threads = std::thread::available_parallelism()?.get();
    // 3 x 256 MiB lie far beyond the caches, 3 x 64 KiB well within the second level.
    for (n, passes, place) in [
        (1usize << 25, 1, "beyond the caches, against C with non-temporal stores"),
        (1 << 13, 2000, "within the caches, against plain C"),
    ] {
        rows.push(triad(peers, threads, n, passes, place)?);
    }
    Ok(rows)
}

fn triad(peers: &Peers, threads: usize, n: usize, passes: usize, place: &str) -> Result<Row> {
    let rt = get_runtime("ALL_CPU")?;
    let far = n > 1 << 20;
    // Both sides work on the same arrays.
    let a = FlashMemory::<f64>::zeroed(n);
    let (b, c) = (FlashMemory::from(vec![1.0f64; n]), FlashMemory::from(vec![2.0f64; n]));
    let launch = rt.submit(Triad::of(3.0, n as u64, &b, &c, &a)).defer([n]);
    launch.exec()?;
    let rate = |ns: f64| 24.0 * n as f64 / ns;
    let mut peer = peers.stream.as_ref().map(|stream| {
        let (a, b, c) = (&a, &b, &c);
        move || {
            let (mut a, b, c) = (a.write().expect("free"), b.read().expect("free"), c.read().expect("free"));
            let mut pass = || match far {
                true => stream.triad_nt(threads, &mut a, &b, &c, 3.0),
                false => stream.triad_plain(threads, &mut a, &b, &c, 3.0),
            };
            pass();
            rate(per_call(passes, pass))
        }
    });
    Ok(pair(
        format!("triad f64, 3 x {} KiB, {threads} threads, {place}", 8 * n / 1024),
        "GB/s",
        REPEATS,
        || {
            launch.exec().expect("runs");
            rate(per_call(passes, || launch.exec().expect("runs")))
        },
        peer.as_mut().map(|p| p as &mut dyn FnMut() -> f64),
        PAUSE,
    ))
}
