// What a datum costs in a flow graph of oneTBB: through one node and back, and through chains of lightweight
// nodes. oneTBB runs these on the thread that puts the datum if it knows that their bodies do not throw, and
// as tasks otherwise.

#include <chrono>
#include <cstddef>
#include <memory>
#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
namespace flow = tbb::flow;

double ns(Clock::duration d) { return std::chrono::duration<double, std::nano>(d).count(); }

template <typename Body> double in_arena(int threads, Body body) {
    static std::unique_ptr<tbb::global_control> limit;
    static std::unique_ptr<tbb::task_arena> arena;
    if (!arena || arena->max_concurrency() != threads) {
        arena.reset();
        limit = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                      static_cast<std::size_t>(threads));
        arena = std::make_unique<tbb::task_arena>(threads);
    }
    double result = 0;
    arena->execute([&] { result = body(); });
    return result;
}

template <bool no_throw> double chain(int threads, int nodes, long data) {
    return in_arena(threads, [=] {
        using Node = flow::function_node<long, long, flow::queueing_lightweight>;
        flow::graph graph;
        long sum = 0;
        std::vector<std::unique_ptr<Node>> chain;
        for (int i = 0; i + 1 < nodes; i++)
            chain.push_back(std::make_unique<Node>(graph, flow::serial, [](long x) noexcept(no_throw) { return x + 1; }));
        chain.push_back(std::make_unique<Node>(graph, flow::serial, [&sum](long x) noexcept(no_throw) {
            sum += x;
            return x;
        }));
        for (int i = 0; i + 1 < nodes; i++)
            flow::make_edge(*chain[i], *chain[i + 1]);
        double last = 0;
        // The first turn is for caches and threads.
        for (int turn = 0; turn < 2; turn++) {
            auto start = Clock::now();
            for (long x = 0; x < data; x++)
                chain[0]->try_put(x);
            graph.wait_for_all();
            last = ns(Clock::now() - start) / static_cast<double>(data);
        }
        return sum ? last : 0;
    });
}

} // namespace

// Nanoseconds per datum, through `nodes` lightweight nodes; all are put, and then waited for.
extern "C" double tbb_chain_ns(int threads, int nodes, long data) { return chain<false>(threads, nodes, data); }

// The same with bodies that do not throw.
extern "C" double tbb_inline_chain_ns(int threads, int nodes, long data) {
    return chain<true>(threads, nodes, data);
}

// Nanoseconds per datum that is put into a node and waited for.
extern "C" double tbb_round_trip_ns(int threads, long data) {
    return in_arena(threads, [=] {
        flow::graph graph;
        long sum = 0;
        flow::function_node<long, long> node(graph, flow::serial, [&sum](long x) {
            sum += x;
            return x;
        });
        auto start = Clock::now();
        for (long x = 0; x < data; x++) {
            node.try_put(x);
            graph.wait_for_all();
        }
        double each = ns(Clock::now() - start) / static_cast<double>(data);
        return sum ? each : 0;
    });
}
