//! Threads that share memory, wait for each other, or speak with their warp.

use super::{Device, kernel};
use crate::driver::launch::cuLaunchCooperativeKernel;
use cudarc::driver::sys::CUresult;

/// The place of a thread's 64-bit number: `%d9`; its number in the grid is `%r9`.
const PLACE: &str =
    "mov.u32 %r6, %ctaid.x; mov.u32 %r7, %ntid.x; mov.u32 %r8, %tid.x; mad.lo.s32 %r9, %r6, %r7, %r8;
    ld.param.u64 %d9, [p0]; mul.wide.u32 %d8, %r9, 8; add.s64 %d9, %d9, %d8;";

fn results(body: &str, grid: u32, block: u32) -> Vec<u64> {
    let device = Device::new(0);
    let function = device.function(&kernel(1, &format!("{PLACE}\n{body}")), "k");
    let to = device.upload(&vec![0u64; (grid * block) as usize]);
    device.run(function, grid, block, &[to]);
    device.download(to, (grid * block) as usize)
}

#[test]
fn a_block_sees_what_its_threads_wrote_before_a_barrier() {
    let body = ".shared .align 8 .b8 all[2048];
        mov.u32 %r1, all; shl.b32 %r2, %r8, 3; add.s32 %r3, %r1, %r2; cvt.u64.u32 %d1, %r9; st.shared.u64 [%r3], %d1;
        bar.sync 0;
        sub.s32 %r4, 2040, %r2; add.s32 %r4, %r1, %r4; ld.shared.u64 %d2, [%r4]; st.global.u64 [%d9], %d2;";
    let found = results(body, 3, 256);
    for (number, found) in found.iter().enumerate() {
        assert_eq!(*found as usize, number / 256 * 256 + 255 - number % 256);
    }
}

#[test]
fn barriers_count_and_join_predicates() {
    let body = "and.b32 %r1, %r8, 3; setp.eq.u32 %p1, %r1, 0; bar.red.popc.u32 %r2, 0, %p1;
        bar.red.and.pred %p2, 0, %p1; barrier.cta.red.or.pred %p3, 0, !%p1; selp.u32 %r3, 1000, 0, %p2;
        selp.u32 %r4, 10000, 0, %p3; add.s32 %r2, %r2, %r3; add.s32 %r2, %r2, %r4; cvt.u64.u32 %d1, %r2;
        st.global.u64 [%d9], %d1;";
    assert_eq!(results(body, 1, 100), vec![10_025; 100]);
}

#[test]
fn threads_that_ended_are_not_waited_for() {
    let body = "setp.ge.u32 %p1, %r8, 20; @%p1 exit; bar.sync 0; mov.u64 %d1, 5; st.global.u64 [%d9], %d1;";
    let found = results(body, 1, 64);
    assert!(found[..20].iter().all(|found| *found == 5) && found[20..].iter().all(|found| *found == 0));
}

#[test]
fn lanes_shuffle_and_vote() {
    // Each result in three digits: up by 2, down by 3 in segments of 8, exchanged by 5, from lane 9.
    let body = "shfl.sync.up.b32 %r1|%p1, %r8, 2, 0, -1; shfl.sync.down.b32 %r2|%p2, %r8, 3, 0x181F, -1;
        shfl.sync.bfly.b32 %r3, %r8, 5, 31, -1; shfl.sync.idx.b32 %r4, %r8, 9, 31, -1;
        mad.lo.u32 %r1, %r2, 1000, %r1; mad.lo.u32 %r3, %r4, 1000, %r3; mul.wide.u32 %d1, %r3, 1000000;
        cvt.u64.u32 %d2, %r1; add.s64 %d1, %d1, %d2; selp.u64 %d3, 1000000000000, 0, %p1; add.s64 %d1, %d1, %d3;
        selp.u64 %d3, 2000000000000, 0, %p2; add.s64 %d1, %d1, %d3; st.global.u64 [%d9], %d1;";
    for (number, found) in results(body, 1, 64).into_iter().enumerate() {
        let (warp, lane) = (number / 32 * 32, number % 32);
        let up = if lane >= 2 { number - 2 } else { number };
        let down = if lane % 8 + 3 < 8 { number + 3 } else { number };
        let inside = [lane >= 2, lane % 8 + 3 < 8].map(usize::from);
        let expected = up + 1000 * down + 1_000_000 * (warp + (lane ^ 5)) + 1_000_000_000 * (warp + 9);
        let expected = expected + 1_000_000_000_000 * (inside[0] + 2 * inside[1]);
        assert_eq!(found as usize, expected, "lane {lane}");
    }
    let body = "and.b32 %r1, %r8, 1; setp.eq.u32 %p1, %r1, 1; vote.sync.ballot.b32 %r2, %p1, -1;
        vote.sync.any.pred %p2, %p1, -1; vote.sync.all.pred %p3, !%p1, -1; selp.u32 %r3, 1, 0, %p2;
        selp.u32 %r4, 2, 0, %p3; add.s32 %r3, %r3, %r4; mov.b64 %d1, {%r2, %r3}; st.global.u64 [%d9], %d1;";
    assert_eq!(results(body, 1, 32), vec![0x1_AAAA_AAAA; 32]);
    let body = "and.b32 %r1, %r8, 3; match.any.sync.b32 %r2, %r1, -1; redux.sync.add.u32 %r3, %r8, -1;
        mov.b64 %d1, {%r2, %r3}; st.global.u64 [%d9], %d1;";
    for (lane, found) in results(body, 1, 32).into_iter().enumerate() {
        assert_eq!(found, 496 << 32 | 0x1111_1111 << (lane % 4), "lane {lane}");
    }
}

#[test]
fn parts_of_a_warp_meet_on_their_own() {
    let body = "setp.lt.u32 %p1, %r8, 16; @%p1 bra LOW;
        shfl.sync.bfly.b32 %r1, %r8, 1, 31, 0xFFFF0000; bra END;
        LOW: shfl.sync.idx.b32 %r1, %r8, 4, 31, 0x0000FFFF;
        END: bar.warp.sync -1; cvt.u64.u32 %d1, %r1; st.global.u64 [%d9], %d1;";
    for (lane, found) in results(body, 1, 32).into_iter().enumerate() {
        assert_eq!(found as usize, if lane < 16 { 4 } else { lane ^ 1 });
    }
}

#[test]
fn atomics_of_all_threads_are_all_there() {
    let body = "ld.param.u64 %d1, [p0]; mov.u32 %r1, 1; atom.global.add.u32 %r2, [%d1], 1; red.global.max.s32 [%d1+4], %r9;
        red.global.add.f64 [%d1+8], 0d3FE0000000000000; red.global.add.f32 [%d1+16], 0f3E800000;
        atom.global.inc.u32 %r3, [%d1+20], 6; red.global.xor.b64 [%d1+24], %d8;
        AGAIN: ld.volatile.global.u32 %r4, [%d1+32]; add.s32 %r5, %r4, 3;
        atom.global.cas.b32 %r6, [%d1+32], %r4, %r5; setp.ne.u32 %p1, %r6, %r4; @%p1 bra AGAIN;
        atom.global.exch.b32 %r7, [%d1+36], 77;";
    let found = results(body, 4, 32);
    assert_eq!(found[0], 127 << 32 | 128);
    assert_eq!(found[1], 64f64.to_bits());
    assert_eq!(found[2], (128 % 7) << 32 | u64::from(32f32.to_bits()));
    assert_eq!(found[3], (0..128).fold(0, |all, number| all ^ (8 * number)));
    assert_eq!(found[4], (77 << 32) | (3 * 128));
}

#[test]
fn functions_are_called_with_memory_of_their_own() {
    // The sum of the first n numbers, by recursion, with each number in local memory.
    let text = kernel(
        1,
        &format!(
            "{PLACE}\n{{ .param .b32 in; st.param.b32 [in], %r8; .param .align 8 .b8 out[16];
            call.uni (out), sum, (in); ld.param.b64 %d1, [out+8]; }} st.global.u64 [%d9], %d1;"
        ),
    );
    let function = ".func (.param .align 8 .b8 sum_out[16]) sum(.param .b32 sum_in) {
        .local .align 8 .b8 own[16]; .reg .b32 %r<5>; .reg .b64 %d<5>; .reg .pred %p<2>;
        ld.param.u32 %r1, [sum_in]; mov.u64 %d1, own; cvta.local.u64 %d2, %d1; cvt.u64.u32 %d3, %r1;
        st.u64 [%d2+8], %d3; mov.u64 %d4, 0; setp.eq.u32 %p1, %r1, 0; @%p1 bra END;
        sub.s32 %r2, %r1, 1;
        { .param .b32 in; st.param.b32 [in], %r2; .param .align 8 .b8 out[16]; call (out), sum, (in);
        ld.param.b64 %d4, [out+8]; }
        END: ld.local.u64 %d3, [%d1+8]; add.s64 %d4, %d4, %d3; st.param.b64 [sum_out+8], %d4; ret; }";
    let text = text.replace(".visible", &format!("{function}\n.visible"));
    let device = Device::new(0);
    let to = device.upload(&[0u64; 40]);
    device.run(device.function(&text, "k"), 1, 40, &[to]);
    let found: Vec<u64> = device.download(to, 40);
    assert_eq!(found, (0..40).map(|n| n * (n + 1) / 2).collect::<Vec<u64>>());
}

#[test]
fn jumps_go_by_a_table() {
    let body = "mov.u64 %d1, 9; and.b32 %r1, %r8, 3;
        T: .branchtargets A, B, C, A; brx.idx %r1, T;
        A: mov.u64 %d1, 1; bra END; B: mov.u64 %d1, 2; bra END; C: mov.u64 %d1, 3;
        END: st.global.u64 [%d9], %d1;";
    assert_eq!(results(body, 1, 8), [1, 2, 3, 1, 1, 2, 3, 1]);
}

/// Every block announces itself and waits for all others.
const TOGETHER: &str = "ld.param.u64 %d1, [p0]; mov.u32 %r1, %nctaid.x; setp.ne.u32 %p1, %r8, 0; @%p1 bra WAIT;
    red.release.gpu.global.add.u32 [%d1], 1;
    SPIN: ld.acquire.gpu.global.u32 %r2, [%d1]; setp.lt.u32 %p2, %r2, %r1; @%p2 bra SPIN;
    WAIT: bar.sync 0; ld.global.u32 %r3, [%d1]; cvt.u64.u32 %d2, %r3; add.s64 %d9, %d9, 8; st.global.u64 [%d9], %d2;";

#[test]
fn blocks_of_a_cooperative_launch_wait_for_each_other() {
    let device = Device::new(0);
    let function = device.function(&kernel(1, &format!("{PLACE}\n{TOGETHER}")), "k");
    let to = device.upload(&[0u64; 1 + 16 * 64]);
    let launch = |blocks| {
        let mut parameter = (&raw const to).cast_mut().cast();
        super::call!(cuLaunchCooperativeKernel(
            function,
            blocks,
            1,
            1,
            64,
            1,
            1,
            0,
            device.stream,
            &mut parameter
        ))
    };
    assert_eq!(launch(16), CUresult::CUDA_SUCCESS);
    assert_eq!(device.wait(), CUresult::CUDA_SUCCESS);
    assert_eq!(device.download::<u64>(to + 8, 16 * 64), vec![16; 16 * 64]);
    assert_eq!(launch(16 * 4 + 1), CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}
