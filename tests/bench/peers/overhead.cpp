// What a launch costs beside the kernel's own time: the same kernels, compiled once, dispatched by gcc's OpenMP,
// by oneTBB, and by FLASH, which calls the `_share` functions.
//
// A share notes how long its thread was in it. The kernel's time of a launch is what all threads spent in shares,
// divided among them evenly; the rest of the launch is overhead, also where one thread waits for another, or does
// the work of both.

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <omp.h>
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>

namespace {

using Clock = std::chrono::steady_clock;

double now_ns() { return std::chrono::duration<double, std::nano>(Clock::now().time_since_epoch()).count(); }

constexpr int SLOTS = 256;
struct alignas(64) Slot {
    double busy;
};
Slot slots[SLOTS];
std::atomic<int> threads_seen{0};

double &busy() {
    static thread_local int slot = threads_seen.fetch_add(1) % SLOTS;
    return slots[slot].busy;
}

thread_local int stays = 0;

// Time in a share, or in several, added to its thread's.
struct Stay {
    double start = stays++ == 0 ? now_ns() : 0;
    ~Stay() {
        if (--stays == 0)
            busy() += now_ns() - start;
    }
};

void forget() {
    for (auto &slot : slots)
        slot.busy = 0;
}

template <typename Share> double by_openmp(int threads, long count, Share share) {
    double start = now_ns();
#pragma omp parallel num_threads(threads)
    {
        // The share of `schedule(static)`.
        long team = omp_get_num_threads(), member = omp_get_thread_num();
        share(count * member / team, count * (member + 1) / team);
    }
    return now_ns() - start;
}

// Items one by one, in chunks that OpenMP chooses: what choosing them takes counts as the kernel's.
template <typename Share> double by_openmp_guided(int threads, long count, Share share) {
    double start = now_ns();
#pragma omp parallel num_threads(threads)
    {
        Stay stay;
#pragma omp for schedule(guided) nowait
        for (long i = 0; i < count; i++)
            share(i, i + 1);
    }
    return now_ns() - start;
}

template <typename Partitioner, typename Share> double by_tbb(int threads, long count, Share share) {
    static std::unique_ptr<tbb::global_control> limit;
    static std::unique_ptr<tbb::task_arena> arena;
    if (!arena || arena->max_concurrency() != threads) {
        arena.reset();
        limit.reset(); // the default limit is the number of cores
        limit = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                      static_cast<std::size_t>(threads));
        arena = std::make_unique<tbb::task_arena>(threads);
    }
    double wall = 0;
    arena->execute([&] {
        double start = now_ns();
        tbb::parallel_for(
            tbb::blocked_range<long>(0, count),
            [&](const tbb::blocked_range<long> &range) { share(range.begin(), range.end()); },
            Partitioner());
        wall = now_ns() - start;
    });
    return wall;
}

template <typename Share> double dispatched(int by, int threads, long count, Share share) {
    forget();
    switch (by) {
    case 0:
        return by_openmp(threads, count, share);
    case 1:
        return by_openmp_guided(threads, count, share);
    case 2:
        return by_tbb<tbb::static_partitioner>(threads, count, share);
    default:
        return by_tbb<tbb::auto_partitioner>(threads, count, share);
    }
}

} // namespace

extern "C" {

// The time that this many threads were in shares since `begin`, each its part.
double overhead_kernel_ns(int threads) {
    double all = 0;
    for (auto &slot : slots)
        all += slot.busy;
    return all / threads;
}

void overhead_begin() { forget(); }

// Accelerations of the bodies first .. end - 1; `acc` is that of body `first`.
void accelerate_share(long first, long end, long n, float g, float softening2, const float *pos, const float *mass,
                      float *acc) {
    Stay stay;
    for (long i = first; i < end; i++) {
        float ax = 0, ay = 0, az = 0;
        for (long j = 0; j < n; j++) {
            float dx = pos[3 * j] - pos[3 * i], dy = pos[3 * j + 1] - pos[3 * i + 1],
                  dz = pos[3 * j + 2] - pos[3 * i + 2];
            float inverse = 1.0f / std::sqrt(dx * dx + dy * dy + dz * dz + softening2);
            float weight = g * mass[j] * inverse * inverse * inverse;
            ax += dx * weight;
            ay += dy * weight;
            az += dz * weight;
        }
        float *a = acc + 3 * (i - first);
        a[0] = ax;
        a[1] = ay;
        a[2] = az;
    }
}

// Moves the particles first .. end - 1 and writes their tracks. `x`, `y`, `cell` and `track` are those of
// particle `first`; a row of `track` has `row` entries.
void walk_share(long first, long end, long grid, float reach, long iterations, long n, const float *rx,
                const float *ry, float *x, float *y, uint32_t *cell, uint32_t *track, long row) {
    Stay stay;
    for (long p = first; p < end; p++) {
        long at = p - first;
        float px = x[at], py = y[at];
        uint32_t *to = track + at * row;
        uint32_t in = *to++ = cell[at];
        for (long k = 0; k < iterations; k++) {
            px += rx[k * n + p];
            py += ry[k * n + p];
            float bx = std::floor(px), by = std::floor(py);
            float cx = px - bx >= 0.5f ? bx + 1 : bx, cy = py - by >= 0.5f ? by + 1 : by;
            float dx = px - cx, dy = py - cy;
            bool inside = cx >= 0 && cx < grid && cy >= 0 && cy < grid && dx * dx + dy * dy <= reach;
            *to++ = in = inside ? (uint32_t)(cx + cy * grid) : UINT32_MAX;
        }
        x[at] = px;
        y[at] = py;
        cell[at] = in;
    }
}

// Nanoseconds of a launch, by OpenMP, static (0) and guided (1), or by oneTBB, static (2) and by itself (3).
double accelerate_ns(int by, int threads, long n, float g, float softening2, const float *pos, const float *mass,
                     float *acc) {
    return dispatched(by, threads, n, [=](long first, long end) {
        accelerate_share(first, end, n, g, softening2, pos, mass, acc + 3 * first);
    });
}

double walk_ns(int by, int threads, long grid, float reach, long iterations, long n, const float *rx,
               const float *ry, float *x, float *y, uint32_t *cell, uint32_t *track, long row) {
    return dispatched(by, threads, n, [=](long first, long end) {
        walk_share(first, end, grid, reach, iterations, n, rx, ry, x + first, y + first, cell + first,
                   track + first * row, row);
    });
}
}
