/* Ordinary ranks of C2MPI: messages of every kind in a ring of processes, beside a child rank, results that are
 * forwarded, and what all do together. With OWN, a level of threads, the program
 * has initialized MPI itself, and sends messages of its own with the same tags. */
#ifdef OWN
#include <mpi.h>
#endif
#include "mpix.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY 100000

static int rank = -1, size = -1;

static void check(int code, int expected, int line)
{
    if (code != expected) {
        fprintf(stderr, "rank %d, line %d: expected %d, found %d: %s\n", rank, line, expected, code, MPIX_Last_error());
        exit(1);
    }
}

static void is(int holds, int line)
{
    if (!holds) {
        fprintf(stderr, "rank %d, line %d: it does not hold\n", rank, line);
        exit(1);
    }
}

#define OK(call) check(call, MPIX_SUCCESS, __LINE__)
#define FAILS(call, code) check(call, code, __LINE__)
#define IS(holds) is(holds, __LINE__)

static double out[MANY], in[MANY];
static int right, left;
static const MPIX_Comm all = MPIX_COMM_WORLD;

/* Compute objects as they are: into one with the same arguments, into an empty one, and what does not fit. */
static void objects(MPIX_ComputeObj obj, float *c)
{
    MPIX_ComputeObj theirs, empty;
    MPIX_Request requests[2];
    MPIX_Status status;
    MPIX_Argument argument;
    uint64_t n = 0;
    float a[4] = { 0 }, b[4] = { 0 }, d[4] = { 0 };
    OK(MPIX_ComputeObj_create(&theirs));
    OK(MPIX_ComputeObj_scalar(theirs, &n, MPIX_UINT64_T));
    OK(MPIX_ComputeObj_vector(theirs, a, 4, MPIX_FLOAT));
    OK(MPIX_ComputeObj_vector(theirs, b, 4, MPIX_FLOAT));
    OK(MPIX_ComputeObj_vector(theirs, d, 4, MPIX_FLOAT));
    OK(MPIX_ComputeObj_create(&empty));
    for (int i = 0; i < 4; i++)
        c[i] = 100 * rank + i;
    OK(MPIX_Irecv(theirs, 1, MPIX_COMPUTE_OBJ, left, 21, all, &requests[0]));
    OK(MPIX_Isend(obj, 1, MPIX_COMPUTE_OBJ, right, 20, all, &requests[1]));
    OK(MPIX_Send(obj, 1, MPIX_COMPUTE_OBJ, right, 21, all));
    OK(MPIX_Probe(left, 20, all, &status));
    IS(status.MPIX_SOURCE == left && status.MPIX_TAG == 20);
    OK(MPIX_Recv(empty, 1, MPIX_COMPUTE_OBJ, left, 20, all, &status));
    IS(status.bytes == 3 * sizeof a && status.MPIX_SOURCE == left);
    OK(MPIX_ComputeObj_get(empty, 3, &argument));
    IS(argument.count == 4 && ((const float *)argument.data)[3] == 100 * left + 3);
    OK(MPIX_Wait(&requests[0], &status));
    OK(MPIX_Wait(&requests[1], MPIX_STATUS_IGNORE));
    OK(MPIX_ComputeObj_get_scalar(theirs, 0, &n, MPIX_UINT64_T));
    IS(n == 4 && d[0] == 100 * left && d[3] == 100 * left + 3 && b[2] == 2);

    /* Elements are no object: a receive waits for what it asks for. */
    OK(MPIX_Isend(c, 4, MPIX_FLOAT, right, 22, all, &requests[0]));
    OK(MPIX_Isend(obj, 1, MPIX_COMPUTE_OBJ, right, 22, all, &requests[1]));
    OK(MPIX_ComputeObj_reset(theirs));
    OK(MPIX_Recv(theirs, 1, MPIX_COMPUTE_OBJ, left, 22, all, &status));
    OK(MPIX_Recv(d, 4, MPIX_FLOAT, left, 22, all, &status));
    IS(status.bytes == sizeof d && d[1] == 100 * left + 1);
    OK(MPIX_Wait(&requests[0], MPIX_STATUS_IGNORE));
    OK(MPIX_Wait(&requests[1], MPIX_STATUS_IGNORE));

    /* One that has other arguments is lost, with words, and changes nothing. */
    OK(MPIX_ComputeObj_reset(theirs));
    OK(MPIX_ComputeObj_scalar(theirs, &n, MPIX_UINT64_T));
    OK(MPIX_Send(obj, 1, MPIX_COMPUTE_OBJ, right, 23, all));
    FAILS(MPIX_Recv(theirs, 1, MPIX_COMPUTE_OBJ, left, 23, all, &status), MPIX_ERR_COUNT);
    IS(strstr(MPIX_Last_error(), "with 4 arguments") != NULL);

    /* A struct is known to who has created its type. */
    MPIX_Datatype pair;
    if (rank == 0)
        OK(MPIX_Type_create("ranks::Pair", 8, 4, &pair));
    OK(MPIX_Barrier(all));
    if (rank == 0) {
        OK(MPIX_ComputeObj_reset(theirs));
        OK(MPIX_ComputeObj_scalar(theirs, a, pair));
        OK(MPIX_Send(theirs, 1, MPIX_COMPUTE_OBJ, 1, 24, all));
        OK(MPIX_Send(theirs, 1, MPIX_COMPUTE_OBJ, 1, 24, all));
    }
    if (rank == 1) {
        OK(MPIX_ComputeObj_reset(theirs));
        FAILS(MPIX_Recv(theirs, 1, MPIX_COMPUTE_OBJ, 0, 24, all, &status), MPIX_ERR_TYPE);
        IS(strstr(MPIX_Last_error(), "ranks::Pair") != NULL);
        OK(MPIX_Type_create("ranks::Pair", 8, 4, &pair));
        OK(MPIX_Recv(theirs, 1, MPIX_COMPUTE_OBJ, 0, 24, all, &status));
        OK(MPIX_ComputeObj_get(theirs, 0, &argument));
        IS(argument.datatype == pair);
    }
    OK(MPIX_Free(&theirs));
    OK(MPIX_Free(&empty));
}

static int fails(MPIX_ComputeObj in, MPIX_ComputeObj out)
{
    (void)in;
    (void)out;
    return 7;
}

/* Results go to the next process: as an object, as elements, from long functions and short ones in order, and what
 * went wrong with them. */
static void forwarding(MPIX_ComputeObj obj, int child, float *a, float *c)
{
    enum { LONG = 300000, ROUNDS = 20 };
    static float x[LONG], y[LONG];
    MPIX_ComputeObj theirs, large;
    MPIX_Status status;
    MPIX_Info info;
    int broken = 0;
    uint64_t n = LONG;
    OK(MPIX_ComputeObj_create(&theirs));
    for (int i = 0; i < 4; i++)
        a[i] = (float)(10 * rank + i);
    OK(MPIX_SendFwd(obj, 1, MPIX_COMPUTE_OBJ, child, right, 30, all));
    OK(MPIX_Recv(obj, 1, MPIX_COMPUTE_OBJ, left, 30, all, &status));
    IS(status.MPIX_SOURCE == left && status.bytes == 4 * sizeof *c);
    for (int i = 0; i < 4; i++)
        IS(c[i] == 2 * (float)(10 * left + i) && a[i] == (float)(10 * rank + i));
    OK(MPIX_SendFwd(obj, 1, MPIX_COMPUTE_OBJ, child, rank, 30, all));
    OK(MPIX_Recv(obj, 1, MPIX_COMPUTE_OBJ, child, 30, all, &status));
    IS(c[1] == 2 * (float)(10 * rank + 1) && status.MPIX_SOURCE == child);
    FAILS(MPIX_SendFwd(obj, 1, MPIX_COMPUTE_OBJ, child, size, 30, all), MPIX_ERR_RANK);

    /* Long functions, whose results take time to send, and short ones of the same tag and of another. */
    OK(MPIX_ComputeObj_create(&large));
    OK(MPIX_ComputeObj_scalar(large, &n, MPIX_UINT64_T));
    OK(MPIX_ComputeObj_vector(large, x, n, MPIX_FLOAT));
    OK(MPIX_ComputeObj_vector(large, x, n, MPIX_FLOAT));
    OK(MPIX_ComputeObj_vector(large, y, n, MPIX_FLOAT));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < LONG; i++)
            x[i] = (float)(rank + round);
        a[0] = (float)round;
        OK(MPIX_SendFwd(large, 1, MPIX_COMPUTE_OBJ, child, right, 31, all));
        OK(MPIX_SendFwd(obj, 1, MPIX_COMPUTE_OBJ, child, right, 31, all));
        OK(MPIX_SendFwd(obj, 1, MPIX_COMPUTE_OBJ, child, right, 32, all));
    }
    for (int round = 0; round < ROUNDS; round++) {
        OK(MPIX_Recv(obj, 1, MPIX_COMPUTE_OBJ, left, 32, all, MPIX_STATUS_IGNORE));
        IS(c[0] == 2 * (float)round);
    }
    for (int round = 0; round < ROUNDS; round++) {
        float expected = (float)(left + round) * (float)(left + round);
        OK(MPIX_Recv(large, 1, MPIX_COMPUTE_OBJ, left, 31, all, MPIX_STATUS_IGNORE));
        IS(y[0] == expected && y[LONG - 1] == expected);
        OK(MPIX_Recv(obj, 1, MPIX_COMPUTE_OBJ, left, 31, all, MPIX_STATUS_IGNORE));
        IS(c[0] == 2 * (float)round);
    }

    /* A failure travels, to objects and to elements, and what is sent later comes after it. */
    OK(MPIX_Info_create(&info));
    OK(MPIX_Info_set(info, "sw_fid", "ranks.nothing"));
    OK(MPIX_Claim("EWMM", fails, info, &broken));
    OK(MPIX_Info_free(&info));
    OK(MPIX_SendFwd(obj, 1, MPIX_COMPUTE_OBJ, broken, right, 33, all));
    FAILS(MPIX_Recv(theirs, 1, MPIX_COMPUTE_OBJ, left, 33, all, &status), MPIX_ERR_FAILED);
    IS(strstr(MPIX_Last_error(), "it returned 7") != NULL);
    OK(MPIX_SendFwd(a, 4, MPIX_FLOAT, broken, right, 34, all));
    OK(MPIX_Send(a, 4, MPIX_FLOAT, right, 34, all));
    FAILS(MPIX_Recv(c, 4, MPIX_FLOAT, left, 34, all, &status), MPIX_ERR_FAILED);
    OK(MPIX_Recv(c, 4, MPIX_FLOAT, left, 34, all, &status));
    IS(status.bytes == 4 * sizeof *c && c[3] == (float)(10 * left + 3));

    /* Of two without elements each request has its own, whichever is waited for first. */
    MPIX_Request first, second;
    OK(MPIX_Irecv(c, 4, MPIX_FLOAT, left, 35, all, &first));
    OK(MPIX_Irecv(c, 4, MPIX_FLOAT, left, 35, all, &second));
    OK(MPIX_SendFwd(a, 4, MPIX_FLOAT, broken, right, 35, all));
    OK(MPIX_Send(NULL, 0, MPIX_FLOAT, right, 35, all));
    OK(MPIX_Wait(&second, &status));
    IS(status.bytes == 0);
    FAILS(MPIX_Wait(&first, &status), MPIX_ERR_FAILED);

    /* What others have, too, is sent as it is when its own function has ended. */
    int buffer = 0;
    float twos[4] = { 2, 2, 2, 2 }, ones[4] = { 1, 1, 1, 1 };
    MPIX_ComputeObj step;
    uint64_t four = 4;
    OK(MPIX_CreateBuffer(0, 1, 1, 4, 4, &buffer));
    OK(MPIX_ComputeObj_create(&step));
    OK(MPIX_ComputeObj_scalar(step, &four, MPIX_UINT64_T));
    OK(MPIX_ComputeObj_vector(step, twos, 4, MPIX_FLOAT));
    OK(MPIX_ComputeObj_vector(step, ones, 4, MPIX_FLOAT));
    OK(MPIX_ComputeObj_buffer(step, buffer));
    for (int round = 0; round < 10; round++) {
        twos[0] = (float)(2 + round);
        OK(MPIX_SendFwd(step, 1, MPIX_COMPUTE_OBJ, child, right, 36, all));
    }
    for (int round = 0; round < 10; round++) {
        MPIX_Argument argument;
        OK(MPIX_ComputeObj_reset(theirs));
        OK(MPIX_Recv(theirs, 1, MPIX_COMPUTE_OBJ, left, 36, all, MPIX_STATUS_IGNORE));
        OK(MPIX_ComputeObj_get(theirs, 3, &argument));
        IS(((const float *)argument.data)[0] == (float)(2 + round) && ((const float *)argument.data)[3] == 2);
    }
    OK(MPIX_Free(&step));
    OK(MPIX_Free(&buffer));
    OK(MPIX_Free(&broken));
    OK(MPIX_Free(&large));
    OK(MPIX_Free(&theirs));
}

/* From any source: elements of other processes, and of a child rank. */
static void from_any(int child, float *a)
{
    MPIX_Status status;
    MPIX_Request request;
    MPIX_ComputeObj any, obj;
    uint64_t n = 4;
    float made[4];
    int flag = 0, seen = 0, mine = 5 * rank, got;
    OK(MPIX_Barrier(all));
    for (int to = 0; to < size; to++)
        OK(MPIX_Send(&mine, 1, MPIX_INT32_T, to, 40, all));
    for (int i = 0; i < size; i++) {
        if (i % 2 == 0) {
            OK(MPIX_Irecv(&got, 1, MPIX_INT32_T, MPIX_ANY_SOURCE, 40, all, &request));
            OK(MPIX_Wait(&request, &status));
        } else {
            OK(MPIX_Recv(&got, 1, MPIX_INT32_T, MPIX_ANY_SOURCE, MPIX_ANY_TAG, all, &status));
        }
        IS(status.MPIX_TAG == 40 && got == 5 * status.MPIX_SOURCE && !(seen & 1 << status.MPIX_SOURCE));
        seen |= 1 << status.MPIX_SOURCE;
    }
    OK(MPIX_Iprobe(MPIX_ANY_SOURCE, MPIX_ANY_TAG, all, &flag, &status));
    IS(!flag);
    OK(MPIX_Barrier(all));

    OK(MPIX_ComputeObj_create(&any));
    OK(MPIX_ComputeObj_create(&obj));
    OK(MPIX_ComputeObj_scalar(obj, &n, MPIX_UINT64_T));
    for (int i = 0; i < 3; i++)
        OK(MPIX_ComputeObj_vector(obj, i < 2 ? a : made, n, MPIX_FLOAT));
    OK(MPIX_Send(obj, 1, MPIX_COMPUTE_OBJ, child, 41, all));
    OK(MPIX_Send(obj, 1, MPIX_COMPUTE_OBJ, right, 42, all));
    for (int i = 0; i < 2; i++) {
        OK(MPIX_Probe(MPIX_ANY_SOURCE, MPIX_ANY_TAG, all, &status));
        IS(status.MPIX_TAG == (status.MPIX_SOURCE == child ? 41 : 42));
        OK(MPIX_ComputeObj_reset(any));
        OK(MPIX_Irecv(any, 1, MPIX_COMPUTE_OBJ, MPIX_ANY_SOURCE, MPIX_ANY_TAG, all, &request));
        for (flag = 0; !flag;)
            OK(MPIX_Test(&request, &flag, &status));
        IS(status.MPIX_SOURCE == child || status.MPIX_SOURCE == left);
    }
    OK(MPIX_Free(&any));
    OK(MPIX_Free(&obj));
}

/* What all processes do together, from each root. */
static void together(void)
{
    enum { SOME = 1000 };
    double mine[SOME], got[SOME];
    double *parts = calloc((size_t)size * SOME, sizeof *parts);
    IS(parts != NULL);
    for (int root = 0; root < size; root++) {
        for (int i = 0; i < SOME; i++)
            mine[i] = rank == root ? root + i : -1;
        OK(MPIX_Bcast(mine, SOME, MPIX_DOUBLE, root, all));
        IS(mine[0] == root && mine[SOME - 1] == root + SOME - 1);
        for (int i = 0; i < SOME; i++)
            mine[i] = 100 * rank + i;
        OK(MPIX_Gather(mine, SOME, MPIX_DOUBLE, parts, SOME, MPIX_DOUBLE, root, all));
        for (int i = 0; rank == root && i < size * SOME; i++)
            IS(parts[i] == 100 * (i / SOME) + i % SOME);
        OK(MPIX_Scatter(parts, SOME, MPIX_DOUBLE, got, SOME, MPIX_DOUBLE, root, all));
        IS(got[0] == 100 * rank && got[SOME - 1] == 100 * rank + SOME - 1);
        OK(MPIX_Reduce(mine, got, SOME, MPIX_DOUBLE, MPIX_SUM, root, all));
        IS(rank != root || got[3] == 100 * size * (size - 1) / 2 + 3 * size);
        OK(MPIX_Reduce(mine, got, SOME, MPIX_DOUBLE, MPIX_MAX, root, all));
        IS(rank != root || got[SOME - 1] == 100 * (size - 1) + SOME - 1);
    }
    free(parts);
    FAILS(MPIX_Bcast(mine, 1, MPIX_DOUBLE, size, all), MPIX_ERR_RANK);
    OK(MPIX_Barrier(all));
}

int main(int argc, char **argv)
{
    MPIX_Status status;
    MPIX_Request request, other;
    int flag, count, child = 0, number = 7, numbers[10] = { 0 };
#ifdef OWN
    int given;
    MPI_Init_thread(&argc, &argv, OWN, &given);
#endif
    OK(MPIX_Initialize(&argc, &argv));
    OK(MPIX_Comm_rank(all, &rank));
    OK(MPIX_Comm_size(all, &size));
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
#ifdef OWN
    /* Before all others, with the tag of the first: none of FLASH's. */
    int own, mine = 1000 + rank, yours = 0;
    MPI_Request sent;
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    IS(own == rank);
    MPI_Isend(&mine, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &sent);
#endif

    /* A long message: waiting, probing, what it was. */
    for (int i = 0; i < MANY; i++)
        out[i] = rank + i;
    OK(MPIX_Isend(out, MANY, MPIX_DOUBLE, right, 1, all, &request));
    OK(MPIX_Probe(left, MPIX_ANY_TAG, all, &status));
    IS(status.MPIX_SOURCE == left && status.MPIX_TAG == 1 && status.bytes == sizeof in);
    OK(MPIX_Recv(in, MANY, MPIX_DOUBLE, left, 1, all, &status));
    OK(MPIX_Get_count(&status, MPIX_DOUBLE, &count));
    IS(count == MANY && status.MPIX_SOURCE == left && status.MPIX_TAG == 1);
    for (int i = 0; i < MANY; i++)
        IS(in[i] == left + i);
    OK(MPIX_Wait(&request, &status));
    IS(request == NULL && status.MPIX_SOURCE == right);

    /* Posted before they come, tested, by tags, and of one tag in the order of sending. */
    OK(MPIX_Irecv(&numbers[1], 1, MPIX_INT32_T, left, 3, all, &request));
    OK(MPIX_Irecv(&numbers[0], 1, MPIX_INT32_T, left, 2, all, &other));
    OK(MPIX_Test(&request, &flag, &status));
    if (!flag)
        IS(request != NULL);
    for (int i = 0; i < 5; i++) {
        int value = 10 * rank + i;
        OK(MPIX_Send(&value, 1, MPIX_INT32_T, right, i == 0 ? 2 : 3, all));
    }
    while (!flag)
        OK(MPIX_Test(&request, &flag, &status));
    IS(request == NULL && status.MPIX_TAG == 3 && status.bytes == 4);
    OK(MPIX_Wait(&other, MPIX_STATUS_IGNORE));
    for (int i = 2; i < 5; i++)
        OK(MPIX_Recv(&numbers[i], 1, MPIX_INT32_T, left, i == 3 ? MPIX_ANY_TAG : 3, all, MPIX_STATUS_IGNORE));
    for (int i = 0; i < 5; i++)
        IS(numbers[i] == 10 * left + i);

    /* Nothing, and what is longer than its place. */
    OK(MPIX_Iprobe(left, 9, all, &flag, &status));
    IS(!flag);
    OK(MPIX_Send(NULL, 0, MPIX_FLOAT, right, 4, all));
    OK(MPIX_Recv(NULL, 0, MPIX_FLOAT, left, 4, all, &status));
    IS(status.bytes == 0);
    OK(MPIX_Send(numbers, 10, MPIX_INT32_T, right, 5, all));
    FAILS(MPIX_Recv(numbers, 5, MPIX_INT32_T, left, 5, all, &status), MPIX_ERR_COUNT);

    /* To itself, and to none. */
    OK(MPIX_Isend(&rank, 1, MPIX_INT32_T, rank, 6, all, &request));
    OK(MPIX_Recv(&number, 1, MPIX_INT32_T, rank, 6, all, MPIX_STATUS_IGNORE));
    OK(MPIX_Wait(&request, MPIX_STATUS_IGNORE));
    IS(number == rank);
    FAILS(MPIX_Send(&number, 1, MPIX_INT32_T, size, 1, all), MPIX_ERR_RANK);
    FAILS(MPIX_Recv(&number, 1, MPIX_INT32_T, size, 1, all, &status), MPIX_ERR_RANK);
    FAILS(MPIX_Send(&number, 1, MPIX_INT32_T, right, -3, all), MPIX_ERR_TAG);
    FAILS(MPIX_Send(&number, 1, 77, right, 1, all), MPIX_ERR_TYPE);

    /* What came goes through a child rank, and on. */
    MPIX_ComputeObj obj;
    uint64_t n = 4;
    float a[4], b[4] = { 2, 2, 2, 2 }, c[4] = { 0 };
    for (int i = 0; i < 4; i++)
        a[i] = (float)in[i];
    OK(MPIX_Claim("EWMM", NULL, NULL, &child));
    OK(MPIX_ComputeObj_create(&obj));
    OK(MPIX_ComputeObj_scalar(obj, &n, MPIX_UINT64_T));
    OK(MPIX_ComputeObj_vector(obj, a, n, MPIX_FLOAT));
    OK(MPIX_ComputeObj_vector(obj, b, n, MPIX_FLOAT));
    OK(MPIX_ComputeObj_vector(obj, c, n, MPIX_FLOAT));
    OK(MPIX_Send(obj, 1, MPIX_COMPUTE_OBJ, child, 1, all));
    OK(MPIX_Recv(obj, 1, MPIX_COMPUTE_OBJ, child, 1, all, MPIX_STATUS_IGNORE));
    OK(MPIX_Isend(c, 4, MPIX_FLOAT, right, 8, all, &request));
    OK(MPIX_Recv(a, 4, MPIX_FLOAT, left, 8, all, MPIX_STATUS_IGNORE));
    OK(MPIX_Wait(&request, MPIX_STATUS_IGNORE));
    int second = (left + size - 1) % size;
    for (int i = 0; i < 4; i++)
        IS(a[i] == 2 * (float)(second + i));
    objects(obj, c);
    forwarding(obj, child, a, c);
    from_any(child, a);
    together();
    OK(MPIX_Free(&obj));
#ifdef OWN
    MPI_Recv(&yours, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    IS(yours == 1000 + left);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
#endif
    OK(MPIX_Finalize());
#ifdef OWN
    MPI_Finalize();
#endif
    printf("rank %d of %d is done\n", rank, size);
    return 0;
}
