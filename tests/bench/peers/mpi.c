/* Two ranks of MPI, as one writes them in C by hand. Rank 0 reads lines `WHAT COUNT` from standard input and
 * answers each with a figure. While nothing is asked rank 1 naps, so that it takes no processor from others.
 *
 *   trip N    nanoseconds of a round trip of a byte, of N
 *   heat N    milliseconds of a step of the heat equation, of N
 *   nbody N   milliseconds of a step of gravity, of N
 *   bytes.heat, bytes.nbody   bytes that both ranks receive in a step
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 2048, HALF = 1024, BODIES = 16000, OWN = BODIES / 2 };

/* nbody.c: accelerations of bodies first .. first + count of n. */
void nbody_f32(size_t n, size_t first, size_t count, float g, float softening2, const float *pos,
               const float *mass, float *acc, int threads);

static int rank;

static void *allocate(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!memory)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(memory, 0, bytes);
    return memory;
}

/* On the processor with this number among those that the process may use. */
static void pin(int number) {
    cpu_set_t all, one;
    CPU_ZERO(&all);
    CPU_ZERO(&one);
    sched_getaffinity(0, sizeof all, &all);
    const int count = CPU_COUNT(&all);
    for (int cpu = 0, seen = 0; count > 0 && cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && seen++ == number % count)
            CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void trip(long count) {
    char byte = 0;
    for (long i = 0; i < count; i++) {
        if (rank == 0) {
            MPI_Send(&byte, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(&byte, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&byte, 1, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&byte, 1, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
    }
}

/* A row of the field from the three rows around it: the same sums, in the same order, as flash.diffusion.heat. */
static void row(float rate, const float *above, const float *here, const float *below, float *restrict to) {
    to[0] = here[0] + rate * (((here[0] + here[1]) + (above[0] + below[0])) - 4 * here[0]);
#pragma omp simd
    for (long x = 1; x < WIDTH - 1; x++)
        to[x] = here[x] + rate * (((here[x - 1] + here[x + 1]) + (above[x] + below[x])) - 4 * here[x]);
    const long e = WIDTH - 1;
    to[e] = here[e] + rate * (((here[e - 1] + here[e]) + (above[e] + below[e])) - 4 * here[e]);
}

/* Each rank has half of the rows, and the nearest row of the other: row 0 of rank 1, the last one of rank 0. */
static void heat(long steps) {
    static float *from, *to;
    const long first = rank, last = first + HALF, ghost = rank == 0 ? HALF : 0, border = rank == 0 ? HALF - 1 : 1;
    if (!from) {
        from = allocate(sizeof(float) * WIDTH * (HALF + 1));
        to = allocate(sizeof(float) * WIDTH * (HALF + 1));
        if (rank == 0)
            from[WIDTH / 2] = 1;
    }
    for (long step = 0; step < steps; step++) {
        MPI_Sendrecv(from + border * WIDTH, WIDTH, MPI_FLOAT, 1 - rank, 2, from + ghost * WIDTH, WIDTH, MPI_FLOAT,
                     1 - rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (long y = first; y < last; y++) {
            const float *here = from + y * WIDTH, *above = rank == 0 && y == 0 ? here : here - WIDTH;
            const float *below = rank == 1 && y == last - 1 ? here : here + WIDTH;
            row(0.2f, above, here, below, to + y * WIDTH);
        }
        float *old = from;
        from = to;
        to = old;
    }
}

/* Each rank moves half of the bodies, and both have the positions of all. */
static void nbody(long steps) {
    static float *pos, *vel, *mass, *acc;
    if (!pos) {
        pos = allocate(sizeof(float) * 3 * BODIES);
        mass = allocate(sizeof(float) * BODIES);
        vel = allocate(sizeof(float) * 3 * OWN);
        acc = allocate(sizeof(float) * 3 * OWN);
        uint64_t state = 42;
        for (long i = 0; i < 4 * BODIES; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            const float next = (float)((double)(state >> 40) / (1 << 24));
            if (i < 3 * BODIES)
                pos[i] = next;
            else
                mass[i - 3 * BODIES] = BODIES * next;
        }
    }
    float *own = pos + 3 * OWN * rank;
    for (long step = 0; step < steps; step++) {
        nbody_f32(BODIES, (size_t)(OWN * rank), OWN, 6.67259e-11f, 1e-3f, pos, mass, acc, 1);
        for (long i = 0; i < 3 * OWN; i++) {
            vel[i] += acc[i] * 1e-3f;
            own[i] += vel[i] * 1e-3f;
        }
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, pos, 3 * OWN, MPI_FLOAT, MPI_COMM_WORLD);
    }
}

enum { TRIP, HEAT, NBODY, END };

/* What both ranks do. The first round trip wakes rank 1; on rank 0 the answer is the time of a step. */
static double run(long what, long count) {
    trip(100);
    const double begin = MPI_Wtime();
    if (what == TRIP)
        trip(count);
    else if (what == HEAT)
        heat(count);
    else
        nbody(count);
    if (what != TRIP)
        MPI_Barrier(MPI_COMM_WORLD);
    return (MPI_Wtime() - begin) * (what == TRIP ? 1e9 : 1e3) / (double)count;
}

static void asks(void) {
    char what[32];
    long order[2];
    while (scanf("%31s %ld", what, &order[1]) == 2) {
        if (strcmp(what, "bytes.heat") == 0) {
            printf("%d\n", 2 * WIDTH * (int)sizeof(float));
        } else if (strcmp(what, "bytes.nbody") == 0) {
            printf("%d\n", 2 * OWN * 3 * (int)sizeof(float));
        } else {
            order[0] = strcmp(what, "trip") == 0 ? TRIP : strcmp(what, "heat") == 0 ? HEAT : NBODY;
            MPI_Send(order, 2, MPI_LONG, 1, 0, MPI_COMM_WORLD);
            printf("%.9g\n", run(order[0], order[1]));
        }
        fflush(stdout);
    }
    order[0] = END;
    MPI_Send(order, 2, MPI_LONG, 1, 0, MPI_COMM_WORLD);
}

static void answers(void) {
    for (;;) {
        int has_come = 0;
        while (!has_come) {
            MPI_Iprobe(0, 0, MPI_COMM_WORLD, &has_come, MPI_STATUS_IGNORE);
            if (!has_come)
                usleep(2000);
        }
        long order[2];
        MPI_Recv(order, 2, MPI_LONG, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (order[0] == END)
            return;
        run(order[0], order[1]);
    }
}

int main(int count, char **arguments) {
    MPI_Init(&count, &arguments);
    int ranks;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (ranks != 2) {
        fprintf(stderr, "expected 2 ranks, found %d\n", ranks);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    pin(rank);
    if (rank == 0)
        asks();
    else
        answers();
    MPI_Finalize();
    return 0;
}
