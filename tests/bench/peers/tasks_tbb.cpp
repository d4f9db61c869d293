// What tasks cost with oneTBB: the paper's Fibonacci numbers, independent tasks, and graphs of empty tasks
// whose edges are given. All in an arena of as many threads.

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

namespace {

using Clock = std::chrono::steady_clock;
namespace flow = tbb::flow;
using Node = flow::continue_node<flow::continue_msg>;

template <typename Body> double in_arena(int threads, Body body) {
    static std::unique_ptr<tbb::global_control> limit;
    static std::unique_ptr<tbb::task_arena> arena;
    if (!arena || arena->max_concurrency() != threads) {
        arena.reset();
        limit = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                      static_cast<std::size_t>(threads));
        arena = std::make_unique<tbb::task_arena>(threads);
    }
    double ns = 0;
    arena->execute([&] {
        auto start = Clock::now();
        body();
        ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    });
    return ns;
}

long fib(long n) {
    if (n < 2)
        return n;
    long a = 0, b = 0;
    tbb::task_group group;
    group.run([&a, n] { a = fib(n - 1); });
    group.run([&b, n] { b = fib(n - 2); });
    group.wait();
    return a + b;
}

} // namespace

// Nanoseconds of F(n), each call a task of its own. `result` gets the number.
extern "C" double tbb_fib_ns(int threads, long n, long *result) {
    return in_arena(threads, [&] { *result = fib(n); });
}

// Nanoseconds of `tasks` independent empty tasks, spawned by one thread.
extern "C" double tbb_independent_ns(int threads, long tasks) {
    return in_arena(threads, [&] {
        tbb::task_group group;
        for (long i = 0; i < tasks; ++i)
            group.run([] {});
        group.wait();
    });
}

// Nanoseconds to build a graph of `tasks` empty tasks and run it once. The edges lead from `from[i]` to
// `to[i]`; `again` gets the nanoseconds of another run of the same graph.
extern "C" double tbb_graph_ns(int threads, long tasks, long edges, const int *from, const int *to, double *again) {
    double first = 0;
    in_arena(threads, [&] {
        auto start = Clock::now();
        flow::graph graph;
        std::deque<Node> nodes;
        std::unique_ptr<bool[]> waits(new bool[static_cast<std::size_t>(tasks)]());
        for (long i = 0; i < tasks; ++i)
            nodes.emplace_back(graph, [](const flow::continue_msg &) noexcept {});
        for (long i = 0; i < edges; ++i) {
            flow::make_edge(nodes[static_cast<std::size_t>(from[i])], nodes[static_cast<std::size_t>(to[i])]);
            waits[static_cast<std::size_t>(to[i])] = true;
        }
        auto run = [&] {
            for (long i = 0; i < tasks; ++i)
                if (!waits[static_cast<std::size_t>(i)])
                    nodes[static_cast<std::size_t>(i)].try_put(flow::continue_msg());
            graph.wait_for_all();
        };
        run();
        auto middle = Clock::now();
        first = std::chrono::duration<double, std::nano>(middle - start).count();
        run();
        *again = std::chrono::duration<double, std::nano>(Clock::now() - middle).count();
    });
    return first;
}
