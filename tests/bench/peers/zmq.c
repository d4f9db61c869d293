// Round trips of ZeroMQ over ipc: a pair of sockets, and a thread at the other end that sends back what comes.

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

struct pair {
    void *context, *near, *far;
    char *bytes;
    long size;
    pthread_t thread;
};

static void *send_back(void *argument) {
    struct pair *pair = argument;
    zmq_msg_t message;
    while (zmq_msg_init(&message) == 0 && zmq_msg_recv(&message, pair->far, 0) >= 0 &&
           zmq_msg_send(&message, pair->far, 0) >= 0) {
    }
    return NULL;
}

// NULL: it could not be made.
void *zmq_pair_open(const char *endpoint, long size) {
    struct pair *pair = calloc(1, sizeof *pair);
    if (!pair || !(pair->bytes = calloc(1, (size_t)size)) || !(pair->context = zmq_ctx_new()))
        return NULL;
    pair->size = size;
    pair->near = zmq_socket(pair->context, ZMQ_PAIR);
    pair->far = zmq_socket(pair->context, ZMQ_PAIR);
    if (!pair->near || !pair->far || zmq_bind(pair->far, endpoint) != 0 || zmq_connect(pair->near, endpoint) != 0 ||
        pthread_create(&pair->thread, NULL, send_back, pair) != 0)
        return NULL;
    return pair;
}

// Nanoseconds of a round trip; below 0: bytes did not come back.
double zmq_pair_ns(void *of, long trips) {
    struct pair *pair = of;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (long i = 0; i < trips; ++i) {
        memset(pair->bytes, (int)i, (size_t)pair->size);
        if (zmq_send(pair->near, pair->bytes, (size_t)pair->size, 0) != pair->size ||
            zmq_recv(pair->near, pair->bytes, (size_t)pair->size, 0) != pair->size || pair->bytes[0] != (char)i)
            return -1;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / (double)trips;
}
