/* Ordinary ranks of C2MPI: messages of every kind in a ring of processes, beside a child rank. With OWN the program
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

int main(int argc, char **argv)
{
    const MPIX_Comm all = MPIX_COMM_WORLD;
    MPIX_Status status;
    MPIX_Request request, other;
    int flag, count, child = 0, number = 7, numbers[10] = { 0 };
#ifdef OWN
    int given;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given);
#endif
    OK(MPIX_Initialize(&argc, &argv));
    OK(MPIX_Comm_rank(all, &rank));
    OK(MPIX_Comm_size(all, &size));
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
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
    FAILS(MPIX_Send(obj, 1, MPIX_COMPUTE_OBJ, right, 1, all), MPIX_ERR_TYPE);
    OK(MPIX_Send(obj, 1, MPIX_COMPUTE_OBJ, child, 1, all));
    OK(MPIX_Recv(obj, 1, MPIX_COMPUTE_OBJ, child, 1, all, MPIX_STATUS_IGNORE));
    OK(MPIX_Isend(c, 4, MPIX_FLOAT, right, 8, all, &request));
    OK(MPIX_Recv(a, 4, MPIX_FLOAT, left, 8, all, MPIX_STATUS_IGNORE));
    OK(MPIX_Wait(&request, MPIX_STATUS_IGNORE));
    int second = (left + size - 1) % size;
    for (int i = 0; i < 4; i++)
        IS(a[i] == 2 * (float)(second + i));
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
