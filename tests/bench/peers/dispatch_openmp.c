/* What a launch and a barrier cost with gcc's OpenMP, its threads spinning in
 * between (the caller sets GOMP_SPINCOUNT before libgomp is loaded).
 *
 * Every function is called from one host thread: libgomp keeps a team of threads
 * for each thread that calls. */

#include <omp.h>
#include <time.h>

/* One work item. `touch` is an item that the compiler must run, once per item;
 * an empty one leaves the loop for the compiler to remove. */
#define ITEM(touch)                        \
    do {                                   \
        if (touch)                         \
            __asm__ volatile("" ::: "memory"); \
    } while (0)

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void launch(int threads, long items, int touch) {
    if (touch) {
#pragma omp parallel for schedule(static) num_threads(threads)
        for (long i = 0; i < items; i++)
            ITEM(1);
    } else {
#pragma omp parallel for schedule(static) num_threads(threads)
        for (long i = 0; i < items; i++)
            ITEM(0);
    }
}

/* Nanoseconds per blocking launch of `items` items on `threads` threads. Threads
 * that sleep are woken by launches that do not count. */
double omp_launch_ns(int threads, long items, int touch, long launches) {
    for (int i = 0; i < 100; i++)
        launch(threads, items, touch);
    double start = now_ns();
    for (long i = 0; i < launches; i++)
        launch(threads, items, touch);
    return (now_ns() - start) / (double)launches;
}

/* Nanoseconds per phase of `items` items, each ended by a barrier, all in one
 * parallel region: of `launches` such regions, after one that does not count. */
double omp_barrier_ns(int threads, long items, int touch, long phases, long launches) {
    double start = 0;
    for (long l = -1; l < launches; l++) {
        if (l == 0)
            start = now_ns();
#pragma omp parallel num_threads(threads)
        for (long p = 0; p < phases; p++) {
            if (touch) {
#pragma omp for schedule(static)
                for (long i = 0; i < items; i++)
                    ITEM(1);
            } else {
#pragma omp for schedule(static)
                for (long i = 0; i < items; i++)
                    ITEM(0);
            }
        }
    }
    return (now_ns() - start) / (double)(launches * phases);
}

/* Calls a function with even shares of `items` rows, one for each thread, whose borders are
 * multiples of `align`. */
void omp_each_share(int threads, long items, long align, void (*share)(void *, long, long), void *data) {
#pragma omp parallel num_threads(threads)
    {
        const long count = omp_get_num_threads(), own = omp_get_thread_num();
        const long pieces = (items + align - 1) / align;
        const long begin = pieces * own / count * align, next = pieces * (own + 1) / count * align;
        const long end = next < items ? next : items;
        if (begin < end)
            share(data, begin, end);
    }
}
