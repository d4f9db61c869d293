// The tasks of a Cholesky factorisation by tiles, empty, with StarPU, which orders them by their data.

#include <starpu.h>
#include <stdlib.h>

static void nothing(void *buffers[], void *argument) {
    (void)buffers;
    (void)argument;
}

static struct starpu_codelet codelet(int buffers) {
    struct starpu_codelet it;
    starpu_codelet_init(&it);
    it.cpu_funcs[0] = nothing;
    it.nbuffers = buffers;
    for (int i = 0; i + 1 < buffers; ++i)
        it.modes[i] = STARPU_R;
    it.modes[buffers - 1] = STARPU_RW;
    return it;
}

static void insert(struct starpu_codelet *what, starpu_data_handle_t a, starpu_data_handle_t b, starpu_data_handle_t c) {
    struct starpu_task *task = starpu_task_create();
    task->cl = what;
    int n = 0;
    if (a)
        task->handles[n++] = a;
    if (b)
        task->handles[n++] = b;
    task->handles[n] = c;
    if (starpu_task_submit(task) != 0)
        abort();
}

// Nanoseconds of all tasks; below 0: StarPU could not be started.
double starpu_cholesky_ns(int threads, long tiles) {
    static int started;
    if (!started) {
        struct starpu_conf conf;
        starpu_conf_init(&conf);
        conf.ncpus = threads;
        conf.ncuda = 0;
        conf.nopencl = 0;
        if (starpu_init(&conf) != 0)
            return -1;
        started = 1;
    } else {
        starpu_resume();
    }
    static struct starpu_codelet one, two, three;
    one = codelet(1), two = codelet(2), three = codelet(3);
    size_t count = (size_t)(tiles * tiles);
    starpu_data_handle_t *a = calloc(count, sizeof *a);
    for (size_t i = 0; i < count; ++i)
        starpu_void_data_register(&a[i]);
    double start = starpu_timing_now();
    for (long k = 0; k < tiles; ++k) {
        insert(&one, 0, 0, a[k * tiles + k]);
        for (long i = k + 1; i < tiles; ++i)
            insert(&two, 0, a[k * tiles + k], a[i * tiles + k]);
        for (long i = k + 1; i < tiles; ++i) {
            insert(&two, 0, a[i * tiles + k], a[i * tiles + i]);
            for (long j = k + 1; j < i; ++j)
                insert(&three, a[i * tiles + k], a[j * tiles + k], a[i * tiles + j]);
        }
    }
    starpu_task_wait_for_all();
    double ns = (starpu_timing_now() - start) * 1e3;
    for (size_t i = 0; i < count; ++i)
        starpu_data_unregister(a[i]);
    free(a);
    // Its workers look for tasks without a sleep. They are not to be in the way of what is measured next.
    starpu_pause();
    return ns;
}
