//! Round trips of frames between two processes over MPI: `mpiexec -n 2 mpi_round_trip`.

use flash_net::{Peer, Progress, Transport};
use flash_net_mpi::{Joining, MpiTransport, launched};
use std::path::PathBuf;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let launched =
        launched().ok_or("expected a launcher that starts two processes: mpiexec -n 2 mpi_round_trip")?;
    let library = std::env::args_os().nth(1).map(PathBuf::from);
    let transport = MpiTransport::join(
        &launched,
        &Joining { library: library.as_deref(), shared: 1, ..Joining::default() },
    )?;
    let other = Peer(1 - transport.me().0.min(1));
    if transport.me() == Peer(0) {
        println!("{} ({})", transport.mpi().version(), transport.mpi().path().display());
    }
    for bytes in [1, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 16 << 20] {
        let (frame, rounds) = (vec![7; bytes], (20_000_000 / (bytes + 1000)).max(10));
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let start = Instant::now();
            for _ in 0..rounds {
                if transport.me() == Peer(0) {
                    post(transport, other, &frame);
                    take(transport, other, bytes);
                } else {
                    take(transport, other, bytes);
                    post(transport, other, &frame);
                }
            }
            best = best.min(start.elapsed().as_secs_f64() / rounds as f64);
        }
        if transport.me() == Peer(0) {
            println!("{bytes:>9} B: {:.2} us", best * 1e6);
        }
    }
    Ok(())
}

fn post(transport: &dyn Transport, to: Peer, frame: &[u8]) {
    loop {
        let ticket = transport.ticket();
        match transport.post(to, frame) {
            Ok(()) => return,
            Err(flash_net::NetError::Full { .. }) => transport.wait(ticket, None),
            Err(error) => panic!("{error}"),
        }
    }
}

fn take(transport: &dyn Transport, from: Peer, bytes: usize) {
    let mut has_come = false;
    while !has_come {
        let ticket = transport.ticket();
        let progress = transport.progress(&mut |_, frame| {
            assert_eq!(frame.len(), bytes);
            has_come = true;
        });
        if progress != Progress::Some {
            if let Some(loss) = transport.lost(from) {
                panic!("{loss}");
            }
            transport.wait(ticket, None);
        }
    }
}
