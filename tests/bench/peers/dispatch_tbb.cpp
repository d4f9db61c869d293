// What a launch costs with oneTBB, and what tasks do. A launch is `parallel_for` under the static
// partitioner, which is its fastest for equal items, in an arena of as many threads.
//
// oneTBB lets one thread run everything when the others come late, so a launch
// counts as shared only if every thread of the arena took part. A thread that did
// marks that in a byte that only it writes, and that is read at the end.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double ns(Clock::duration d) { return std::chrono::duration<double, std::nano>(d).count(); }

// The items of one thread. `touch` makes an item that the compiler must run, once
// per item; an empty one leaves the loop for the compiler to remove.
template <bool touch> void run(const tbb::blocked_range<long> &range) {
    for (long i = range.begin(); i != range.end(); ++i)
        if (touch)
            asm volatile("" ::: "memory");
}

template <bool touch> void launch(long count) {
    tbb::parallel_for(
        tbb::blocked_range<long>(0, count),
        [](const tbb::blocked_range<long> &range) { run<touch>(range); },
        tbb::static_partitioner());
}

// Which launches the thread in each place of the arena took part in.
class Attendance {
  public:
    Attendance(int threads, long launches)
        : rows(static_cast<std::size_t>(threads),
               std::vector<unsigned char>(static_cast<std::size_t>(launches) + 64)) {}

    void here(long launch) {
        int place = tbb::this_task_arena::current_thread_index();
        if (place >= 0 && static_cast<std::size_t>(place) < rows.size())
            rows[static_cast<std::size_t>(place)][static_cast<std::size_t>(launch)] = 1;
    }

    bool all(long launch) const {
        for (auto &row : rows)
            if (!row[static_cast<std::size_t>(launch)])
                return false;
        return true;
    }

  private:
    std::vector<std::vector<unsigned char>> rows;
};

template <bool touch> void launch_noted(long count, Attendance &attendance, long number) {
    tbb::parallel_for(
        tbb::blocked_range<long>(0, count),
        [&attendance, number](const tbb::blocked_range<long> &range) {
            attendance.here(number);
            run<touch>(range);
        },
        tbb::static_partitioner());
}

// What reading the clock adds to a launch that is timed by itself.
double clock_ns() {
    auto start = Clock::now();
    auto last = start;
    for (int i = 0; i < 1000; i++)
        last = Clock::now();
    return ns(last - start) / 1000;
}

struct Result {
    double all_ns;
    double shared_ns;
    double shared_part;
};

template <bool touch> Result measure(tbb::task_arena &arena, int threads, long count, long launches) {
    Result result{};
    arena.execute([&] {
        for (int i = 0; i < 100; i++)
            launch<touch>(count);
        auto start = Clock::now();
        for (long i = 0; i < launches; i++)
            launch<touch>(count);
        result.all_ns = ns(Clock::now() - start) / static_cast<double>(launches);
    });

    Attendance attendance(threads, launches);
    std::vector<double> times(static_cast<std::size_t>(launches));
    double clock = clock_ns();
    arena.execute([&] {
        for (long i = 0; i < launches; i++) {
            auto start = Clock::now();
            launch_noted<touch>(count, attendance, i);
            times[static_cast<std::size_t>(i)] = ns(Clock::now() - start) - clock;
        }
    });
    double sum = 0;
    long shared = 0;
    for (long i = 0; i < launches; i++) {
        if (attendance.all(i)) {
            sum += times[static_cast<std::size_t>(i)];
            shared++;
        }
    }
    result.shared_ns = sum / static_cast<double>(shared); // NaN if there was none
    result.shared_part = static_cast<double>(shared) / static_cast<double>(launches);
    return result;
}

// The arena of this many threads, kept until another number is asked for.
tbb::task_arena &arena_of(int threads) {
    static std::unique_ptr<tbb::global_control> limit;
    static std::unique_ptr<tbb::task_arena> arena;
    if (!arena || arena->max_concurrency() != threads) {
        arena.reset();
        limit.reset(); // the default limit is the number of cores
        limit = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                      static_cast<std::size_t>(threads));
        arena = std::make_unique<tbb::task_arena>(threads);
    }
    return *arena;
}

// Some 100 ns of work.
void compute() {
    double x = 1.0;
    asm volatile("" : "+x"(x));
    for (int i = 0; i < 40; i++)
        x = x * 0.999 + 0.5;
    asm volatile("" : : "x"(x));
}

} // namespace

// Nanoseconds per blocking launch of `items` items on `threads` threads: over all
// launches, and over those in which every thread took part (NaN if there was none),
// with the part of launches that these are. Called from one thread at a time.
extern "C" void tbb_launch_ns(int threads, long items, int touch, long launches, double *all_ns,
                              double *shared_ns, double *shared_part) {
    tbb::task_arena &arena = arena_of(threads);
    Result result = touch ? measure<true>(arena, threads, items, launches)
                          : measure<false>(arena, threads, items, launches);
    *all_ns = result.all_ns;
    *shared_ns = result.shared_ns;
    *shared_part = result.shared_part;
}

// Nanoseconds per group of `tasks` empty tasks and the wait for them, mean of `groups`.
// Called from one thread at a time.
extern "C" double tbb_tasks_ns(int threads, long tasks, long groups) {
    double each = 0;
    arena_of(threads).execute([&] {
        auto start = Clock::now();
        for (long i = 0; i < groups; i++) {
            tbb::task_group group;
            for (long task = 0; task < tasks; task++)
                group.run([] { asm volatile("" ::: "memory"); });
            group.wait();
        }
        each = ns(Clock::now() - start) / static_cast<double>(groups);
    });
    return each;
}

// Nanoseconds from an `enqueue` until its task begins, while the caller computes: the
// median of `starts`. Before each the caller computes for `rest_ns`. Called from one
// thread at a time.
extern "C" double tbb_begin_ns(int threads, long starts, long rest_ns) {
    static std::atomic<long> began;
    tbb::task_arena &arena = arena_of(threads);
    std::vector<double> latencies;
    for (long i = 0; i < starts; i++) {
        auto rest = Clock::now();
        while (ns(Clock::now() - rest) < static_cast<double>(rest_ns))
            compute();
        began.store(0);
        auto from = Clock::now();
        arena.enqueue([from] { began.store(1 + (Clock::now() - from).count()); });
        long after = 0;
        while ((after = began.load()) == 0)
            compute();
        latencies.push_back(ns(Clock::duration(after)));
    }
    std::sort(latencies.begin(), latencies.end());
    return latencies[latencies.size() / 2];
}
