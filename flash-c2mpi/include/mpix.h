/*
 * mpix.h: C2MPI, the compute-centric message passing interface of the HALO paper. Made from the crate
 * flash-c2mpi; link with -lmpix.
 *
 *     unsigned long child_rank = 0;
 *     MPIX_ComputeObj obj;
 *     MPIX_Initialize(&argc, &argv);
 *     MPIX_Claim("EWMM", NULL, NULL, &child_rank);
 *     MPIX_ComputeObj_create(&obj);
 *     MPIX_ComputeObj_scalar(obj, &n, MPIX_UINT64_T);
 *     MPIX_ComputeObj_vector(obj, a, n, MPIX_FLOAT);
 *     MPIX_ComputeObj_vector(obj, b, n, MPIX_FLOAT);
 *     MPIX_ComputeObj_vector(obj, c, n, MPIX_FLOAT);
 *     MPIX_Send(obj, 1, MPIX_COMPUTE_OBJ, child_rank, 0, MPIX_COMM_WORLD);
 *     MPIX_Recv(obj, 1, MPIX_COMPUTE_OBJ, child_rank, 0, MPIX_COMM_WORLD, MPIX_STATUS_IGNORE);
 *     MPIX_Finalize();
 *
 * Errors. A function returns MPIX_SUCCESS, which is 0, or an MPIX_ERR_*. What was expected, what was found and
 * what to do is in MPIX_Last_error, per thread. No panic of FLASH leaves a function.
 *
 * Handles are numbers, also those that are pointers here: one that is NULL, of another kind, or freed is an
 * error, until about a thousand more of their kind are freed. Any thread may use them, several at once; a
 * compute object is used by one call at a time, which is found out (MPIX_ERR_BUSY).
 *
 * The caller's duty: a pointer that is neither NULL nor a handle is an address of what the function says, as
 * long as it says.
 */

#ifndef MPIX_H
#define MPIX_H

#include <stddef.h>
#include <stdint.h>

// It is done.
#define MPIX_SUCCESS 0

// A call before `MPIX_Initialize` or after `MPIX_Finalize`, or a second `MPIX_Initialize`.
#define MPIX_ERR_INIT 1

// A NULL that must not be one, or a value that none may have.
#define MPIX_ERR_ARG 2

// No child rank, buffer or parent rank of that number: it is none, or freed.
#define MPIX_ERR_RANK 3

// A tag below 0.
#define MPIX_ERR_TAG 4

// A datatype that is none, or that does not fit.
#define MPIX_ERR_TYPE 5

// More elements than there is room for, or fewer than are needed.
#define MPIX_ERR_COUNT 6

// A compute object that is none, or freed.
#define MPIX_ERR_OBJECT 7

// A request that is none, or has ended.
#define MPIX_ERR_REQUEST 8

// No info, or a key that no override has.
#define MPIX_ERR_INFO 9

// No communicator.
#define MPIX_ERR_COMM 10

// The configuration has faults; the text has each with its line and column.
#define MPIX_ERR_CONFIG 11

// No function has that alias; the text lists the known aliases.
#define MPIX_ERR_ALIAS 12

// No implementation on any device, and no failsafe; the text lists what there is.
#define MPIX_ERR_IMPLEMENTATION 13

// Arguments that do not fit the kernel.
#define MPIX_ERR_KERNEL 14

// The kernel, or the failsafe, failed.
#define MPIX_ERR_FAILED 15

// A device failed or does not answer.
#define MPIX_ERR_DEVICE 16

// The host or a device has too little memory.
#define MPIX_ERR_NO_MEM 17

// It is in use by another call.
#define MPIX_ERR_BUSY 18

// The child rank was freed, or the program finalised, while the call waited.
#define MPIX_ERR_GONE 19

// A fault of FLASH: an entry panicked.
#define MPIX_ERR_PANIC 20

// Anything else; the text says what.
#define MPIX_ERR_OTHER 21

// Room for a text of an error, with its NUL.
#define MPIX_MAX_ERROR_STRING 1024

// `MPIX_Argument.kind`: a scalar.
#define MPIX_SCALAR 1

// `MPIX_Argument.kind`: an array of the program's, which is copied when it is sent and received.
#define MPIX_EXTERNAL 2

// `MPIX_Argument.kind`: an array of the program's by `MPIX_Alloc_mem`, which is not copied.
#define MPIX_UNIFIED 3

// `MPIX_Argument.kind`: a buffer of the framework.
#define MPIX_INTERNAL 4

// `MPIX_Argument.kind`: an array of the compute object itself, which was received into an empty one.
#define MPIX_OWNED 5

// No type.
#define MPIX_DATATYPE_NULL 0

// C's type `int8_t`.
#define MPIX_INT8_T 1

// C's type `int16_t`.
#define MPIX_INT16_T 2

// C's type `int32_t`.
#define MPIX_INT32_T 3

// C's type `int64_t`.
#define MPIX_INT64_T 4

// C's type `uint8_t`; received, bytes of any type.
#define MPIX_UINT8_T 5

// C's type `uint16_t`.
#define MPIX_UINT16_T 6

// C's type `uint32_t`.
#define MPIX_UINT32_T 7

// C's type `uint64_t`.
#define MPIX_UINT64_T 8

// C's type `float`.
#define MPIX_FLOAT 9

// C's type `double`.
#define MPIX_DOUBLE 10

// C's type `size_t`.
#define MPIX_SIZE_T 11

// A compute object, of which one is sent.
#define MPIX_COMPUTE_OBJ 100

// All parent ranks, and the child ranks of the process.
#define MPIX_COMM_WORLD 0

// A child rank, a tag: any.
#define MPIX_ANY_SOURCE -1

// A tag: any.
#define MPIX_ANY_TAG -1

// An operation of `MPIX_Reduce`: the sum.
#define MPIX_SUM 1

// An operation of `MPIX_Reduce`: the product.
#define MPIX_PROD 2

// An operation of `MPIX_Reduce`: the least.
#define MPIX_MIN 3

// An operation of `MPIX_Reduce`: the greatest.
#define MPIX_MAX 4

// What a compute object points to, which is the library's.
typedef struct mpix_compute_obj mpix_compute_obj;

// What an info points to, which is the library's.
typedef struct mpix_info mpix_info;

// What a request points to, which is the library's.
typedef struct mpix_request mpix_request;

// A type of elements.
typedef int MPIX_Datatype;

// A compute object: the arguments of a child rank's function, in order.
typedef struct mpix_compute_obj *MPIX_ComputeObj;

// What runs where there is no implementation: it reads the arguments of `in`, and writes its results to the
// arrays of `out`, which are the same. It returns 0, or the number of an error of its own.
typedef int (*MPIX_Failsafe)(MPIX_ComputeObj input, MPIX_ComputeObj output);

// Overrides of a claim.
typedef struct mpix_info *MPIX_Info;

// A communicator.
typedef int MPIX_Comm;

// An argument of a compute object.
typedef struct MPIX_Argument {
  // `MPIX_SCALAR` and its like: where it is.
  int kind;
  // Its type, or that of its elements.
  int datatype;
  // Number of elements; 1 of a scalar.
  uint64_t count;
  // Number of axes; 0 of a scalar.
  int axes;
  // Extents of the first 4 axes, axis 0 first, which is the fastest.
  uint64_t shape[4];
  // Where an array's elements are; NULL: a scalar, or a buffer.
  void *data;
} MPIX_Argument;

// What was received.
typedef struct MPIX_Status {
  // The child rank that it is of.
  int MPIX_SOURCE;
  // Its tag.
  int MPIX_TAG;
  // 0, or the error of the call.
  int MPIX_ERROR;
  // Bytes of arrays that its kernels wrote.
  uint64_t bytes;
} MPIX_Status;

// A send or a receive that goes on.
typedef struct mpix_request *MPIX_Request;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The text of the last error of this thread: what was expected, what was found, and what to do.
//
// Empty if there was none. It is valid until a function fails in this thread again, or the thread ends.
const char *MPIX_Last_error(void);

// Writes the text of an error to `string`, which has room for `MPIX_MAX_ERROR_STRING` bytes, and its length
// to `length`: the text of the last error of this thread, if it was this one, cut to fit; else what the
// number means.
//
// Errors: `MPIX_ERR_ARG` for NULL.
//
// The caller's duty: `string` has that room; `length` is a place for a number.
int MPIX_Error_string(int code,
                      char *string,
                      int *length);

// Creates the type of a struct: the name by which its kernels know it, such as `crate::Type`, its size and
// its alignment in bytes. The same again gives the same number. A kernel whose type of that name has another
// size or alignment refuses it.
//
// Errors: `MPIX_ERR_TYPE` for a size and alignment that no type has; `MPIX_ERR_ARG` for NULL.
//
// The caller's duty: `name` ends with NUL; `datatype` is a place for a number.
int MPIX_Type_create(const char *name,
                     size_t size,
                     size_t alignment,
                     MPIX_Datatype *datatype);

// The bytes of one element of a type.
//
// Errors: `MPIX_ERR_TYPE`; `MPIX_ERR_ARG` for NULL.
//
// The caller's duty: `size` is a place for a number.
int MPIX_Type_size(MPIX_Datatype datatype, int *size);

// Begins a program. Its configuration is the file of the option `--mpix-config FILE`, which is taken out of
// the arguments, else of the environment's `FLASH_HALO_CONFIG`; without either, the functions of the library
// under the aliases of the HALO paper, in turn on the devices of `ALL_ACCEL`.
//
// It stands at the beginning of `main`: for a key such as `OPENCL@agent` the program is started again as the
// agent that has the device, which runs what comes before this call, and nothing that comes after.
//
// Where a launcher of MPI has started the process, or the program has initialized MPI, all processes call
// it, as they send messages to each other as ordinary ranks; unless a key of the configuration is `RANK`:
// then the first one runs the program, and the others are its agents.
//
// Errors: `MPIX_ERR_INIT` for a second one; `MPIX_ERR_CONFIG`, whose text has each fault of the file with
// its line and column.
//
// The caller's duty: `argc` and `argv` are NULL, or those of `main`: as many texts, which end with NUL.
int MPIX_Initialize(int *argc,
                    char ***argv);

// Begins a program with the configuration of a file.
//
// Errors: as those of `MPIX_Initialize`; `MPIX_ERR_ARG` for NULL.
//
// The caller's duty: `file` ends with NUL.
int MPIX_Initialize_config(const char *file);

// `flag` becomes 1 between `MPIX_Initialize` and `MPIX_Finalize`, else 0.
//
// Errors: `MPIX_ERR_ARG` for NULL.
//
// The caller's duty: `flag` is a place for a number.
int MPIX_Initialized(int *flag);

// Ends the program: frees its child ranks and buffers, and messages that were not received. Calls that wait
// for one fail. Compute objects, and memory of `MPIX_Alloc_mem`, stay.
//
// Errors: `MPIX_ERR_INIT` if it has not begun.
int MPIX_Finalize(void);

// Claims a function by its alias: a child rank, to which compute objects are sent.
//
// `failsafe` is NULL, or runs where nothing implements the function. `overrides` is NULL, or changes what
// the configuration says of it. `MPIX_Claim` of C is this one or `MPIX_Claim_ulong`, by the type of `child`.
//
// Errors: `MPIX_ERR_ALIAS` lists the known aliases; `MPIX_ERR_IMPLEMENTATION`, if nothing implements the
// function and it has no failsafe, lists functions, kernels and devices; `MPIX_ERR_CONFIG` for an unknown
// platform; `MPIX_ERR_BUSY` inside a kernel; `MPIX_ERR_INFO`; `MPIX_ERR_INIT`; `MPIX_ERR_ARG` for NULL;
// `MPIX_ERR_NO_MEM`.
//
// The caller's duty: `alias` ends with NUL; `failsafe` may be called by any thread that sends or receives, as long as the child
// rank lives; `child` is a place for a number.
int MPIX_Claim_int(const char *alias,
                   MPIX_Failsafe failsafe,
                   MPIX_Info overrides,
                   int *child);

// As `MPIX_Claim_int`.
//
// Errors: as those of `MPIX_Claim_int`.
//
// The caller's duty: As for `MPIX_Claim_int`.
int MPIX_Claim_ulong(const char *alias,
                     MPIX_Failsafe failsafe,
                     MPIX_Info overrides,
                     unsigned long *child);

// Creates a buffer of `vector_size` zeros, numbers of `type_size` bytes: of a child rank, which becomes
// stateful and stays on one device, or of the framework, if `child` is 0. It is an argument by
// `MPIX_ComputeObj_buffer`, is written by `MPIX_Send` to it and read by `MPIX_Recv` from it, and freed by
// `MPIX_Free` or with its child rank. `MPIX_CreateBuffer` of C is this one or `MPIX_CreateBuffer_ulong`.
//
// Errors: `MPIX_ERR_RANK`; `MPIX_ERR_TYPE` for unknown number types; `MPIX_ERR_COUNT`;
// `MPIX_ERR_INIT`; `MPIX_ERR_ARG` for NULL; `MPIX_ERR_NO_MEM`.
//
// The caller's duty: `buffer` is a place for a number.
int MPIX_CreateBuffer_int(unsigned long child,
                          int is_signed,
                          int is_float,
                          int type_size,
                          uint64_t vector_size,
                          int *buffer);

// As `MPIX_CreateBuffer_int`.
//
// Errors: as those of `MPIX_CreateBuffer_int`.
//
// The caller's duty: As for `MPIX_CreateBuffer_int`.
int MPIX_CreateBuffer_ulong(unsigned long child,
                            int is_signed,
                            int is_float,
                            int type_size,
                            uint64_t vector_size,
                            unsigned long *buffer);

// Gives a buffer a shape of as many elements: the extents of `axes` axes, axis 0 first, which is the
// fastest. Before it is an argument.
//
// Errors: `MPIX_ERR_RANK`; `MPIX_ERR_COUNT`; `MPIX_ERR_BUSY` if a compute object or a message has it;
// `MPIX_ERR_INIT`; `MPIX_ERR_ARG` for NULL.
//
// The caller's duty: `shape` has `axes` extents.
int MPIX_Buffer_shape(unsigned long buffer,
                      int axes,
                      const uint64_t *shape);

// Frees a child rank with its buffers and the messages that were not received, or a buffer, and sets it to
// 0. One that is 0 stays so. `MPIX_Free` of C is this one or `MPIX_Free_ulong`.
//
// Errors: `MPIX_ERR_RANK` for what is none, or freed already; `MPIX_ERR_INIT`; `MPIX_ERR_ARG` for NULL.
//
// The caller's duty: `child` points to a number.
int MPIX_Free_int(int *child);

// As `MPIX_Free_int`.
//
// Errors: as those of `MPIX_Free_int`.
//
// The caller's duty: As for `MPIX_Free_int`.
int MPIX_Free_ulong(unsigned long *child);

// The parent rank that this thread acts for: 0, or what `MPIX_Parent_attach` said. Of a program with one
// parent rank in a job of MPI, this process's ordinary rank.
//
// Errors: `MPIX_ERR_COMM`; `MPIX_ERR_INIT`; `MPIX_ERR_ARG` for NULL.
//
// The caller's duty: `rank` is a place for a number.
int MPIX_Comm_rank(MPIX_Comm comm,
                   int *rank);

// The number of parent ranks: `max_slots` of all hosts of the configuration, at least 1. Of a program with
// one parent rank in a job of MPI, the number of its ordinary ranks.
//
// Errors: `MPIX_ERR_COMM`; `MPIX_ERR_INIT`; `MPIX_ERR_ARG` for NULL.
//
// The caller's duty: `size` is a place for a number.
int MPIX_Comm_size(MPIX_Comm comm,
                   int *size);

// This thread acts for a parent rank from now on: it receives what was sent by it or forwarded to it.
//
// Errors: `MPIX_ERR_RANK`; `MPIX_ERR_INIT`.
int MPIX_Parent_attach(int rank);

// Allocates memory of zeros that the program and devices share, to be freed with `MPIX_Free_mem`. An array
// in it is not copied when it is sent; between the send and the receive it is the kernel's. It may be arrays
// of any type, one after the other.
//
// `info` is NULL, or an info, of which nothing is used.
//
// Errors: `MPIX_ERR_NO_MEM`; `MPIX_ERR_ARG` for NULL or a size below 0.
//
// The caller's duty: `baseptr` is the address of a pointer.
int MPIX_Alloc_mem(ptrdiff_t size,
                   MPIX_Info _info,
                   void *baseptr);

// Frees memory of `MPIX_Alloc_mem`. Compute objects and messages that have it keep it until they end.
//
// Errors: `MPIX_ERR_ARG` if it is not what `MPIX_Alloc_mem` gave, or freed.
int MPIX_Free_mem(void *base);

// Creates an info without keys, to be freed with `MPIX_Info_free`.
//
// Errors: `MPIX_ERR_ARG` for NULL; `MPIX_ERR_NO_MEM`.
//
// The caller's duty: `info` is a place for an info.
int MPIX_Info_create(MPIX_Info *info);

// Sets a key: an attribute (`vid`, `pid`, `ss_vid`, `ss_pid`, `sw_vid`, `sw_pid`, `sw_fid`, `sw_clid`,
// `sw_verid`), `func_repl`, `platform_id`, or `key`, a runtime key. It takes the place of what the
// configuration says of a function, for the claims that get this info.
//
// Errors: `MPIX_ERR_INFO` for a key that is none, or a value that does not fit; `MPIX_ERR_ARG` for NULL.
//
// The caller's duty: Texts end with NUL.
int MPIX_Info_set(MPIX_Info info,
                  const char *key,
                  const char *value);

// The value of a key: `flag` becomes 1, and `value`, which has room for `length` bytes and a NUL, gets it,
// cut to fit; or `flag` becomes 0 if it is not set.
//
// Errors: `MPIX_ERR_INFO`; `MPIX_ERR_ARG` for NULL.
//
// The caller's duty: `key` ends with NUL; `value` has that room; `flag` is a place for a number.
int MPIX_Info_get(MPIX_Info info,
                  const char *key,
                  int length,
                  char *value,
                  int *flag);

// Frees an info, and sets it to NULL. One that is NULL stays so.
//
// Errors: `MPIX_ERR_INFO` for what is none, or freed already.
//
// The caller's duty: `info` points to an info.
int MPIX_Info_free(MPIX_Info *info);

// Creates an empty compute object, to be freed with `MPIX_ComputeObj_free`.
//
// Errors: `MPIX_ERR_ARG` for NULL; `MPIX_ERR_NO_MEM`.
//
// The caller's duty: `obj` is a place for a compute object.
int MPIX_ComputeObj_create(MPIX_ComputeObj *obj);

// Frees a compute object, and sets it to NULL. One that is NULL stays so. What was sent goes on.
//
// Errors: `MPIX_ERR_OBJECT` for what is none, or freed already.
//
// The caller's duty: `obj` points to a compute object.
int MPIX_ComputeObj_free(MPIX_ComputeObj *obj);

// Removes all arguments and ranges.
//
// Errors: `MPIX_ERR_OBJECT`; `MPIX_ERR_BUSY`.
int MPIX_ComputeObj_reset(MPIX_ComputeObj obj);

// Adds a scalar, or a struct, as the next argument.
//
// Errors: `MPIX_ERR_OBJECT`; `MPIX_ERR_TYPE`; `MPIX_ERR_ARG` for NULL; `MPIX_ERR_BUSY`.
//
// The caller's duty: There is a value of the type at `value`.
int MPIX_ComputeObj_scalar(MPIX_ComputeObj obj, const void *value, MPIX_Datatype datatype);

// Gives the scalar at a position, from 0, another value. Cheaper than to build the object anew.
//
// Errors: `MPIX_ERR_OBJECT`; `MPIX_ERR_ARG` for a position without a scalar, or NULL; `MPIX_ERR_BUSY`.
//
// The caller's duty: There is a value of the scalar's type at `value`.
int MPIX_ComputeObj_set_scalar(MPIX_ComputeObj obj,
                               int position,
                               const void *value);

// Adds an array of `count` elements as the next argument, as `MPIX_ComputeObj_array` with one axis.
//
// Errors: as those of `MPIX_ComputeObj_array`.
//
// The caller's duty: As for `MPIX_ComputeObj_array`.
int MPIX_ComputeObj_vector(MPIX_ComputeObj obj,
                           const void *data,
                           uint64_t count,
                           MPIX_Datatype datatype);

// Adds an array as the next argument. `shape` has the extents of `axes` axes, axis 0 first, which is the
// fastest: a matrix of C with rows and columns has the shape columns, rows.
//
// The array stays the program's. It is copied when the object is sent and, where the kernel writes it, when
// it is received. An array in memory of `MPIX_Alloc_mem` is not copied: between the send and the receive it
// is the kernel's. Arrays that are the same argument twice are one.
//
// Errors: `MPIX_ERR_OBJECT`; `MPIX_ERR_TYPE`, also for a part of memory of `MPIX_Alloc_mem` that is in use
// as another array; `MPIX_ERR_COUNT` for a shape that memory cannot have; `MPIX_ERR_ARG` for NULL or an odd
// address; `MPIX_ERR_BUSY`.
//
// The caller's duty: There are as many elements at `data`, as long as the object has them; they may be written, where the
// kernel writes. `shape` has `axes` extents.
int MPIX_ComputeObj_array(MPIX_ComputeObj obj,
                          const void *data,
                          int axes,
                          const uint64_t *shape,
                          MPIX_Datatype datatype);

// Adds a buffer of `MPIX_CreateBuffer` as the next argument. It stays where devices have it.
//
// Errors: `MPIX_ERR_OBJECT`; `MPIX_ERR_RANK` for what is no buffer; `MPIX_ERR_INIT`; `MPIX_ERR_BUSY`.
int MPIX_ComputeObj_buffer(MPIX_ComputeObj obj,
                           int buffer);

// Sets the index space of a kernel: its dimensions, from `begin` to before `end` each, dimension 0 first.
// `kernel` is 0, or the number of a kernel in a pipeline. Without it each dimension is as long as the arrays
// that it indexes item by item.
//
// Errors: `MPIX_ERR_OBJECT`; `MPIX_ERR_ARG`; `MPIX_ERR_BUSY`. What does not fit the kernel is an error of
// the send.
//
// The caller's duty: `begin` and `end` have `dimensions` numbers.
int MPIX_ComputeObj_range(MPIX_ComputeObj obj,
                          int kernel,
                          int dimensions,
                          const uint64_t *begin,
                          const uint64_t *end);

// The number of arguments.
//
// Errors: `MPIX_ERR_OBJECT`; `MPIX_ERR_ARG` for NULL; `MPIX_ERR_BUSY`.
//
// The caller's duty: `count` is a place for a number.
int MPIX_ComputeObj_count(MPIX_ComputeObj obj, int *count);

// What the argument at a position is, from 0. What devices have of an array comes to the host first.
// `argument->data` is valid until the object is changed, sent, received or freed.
//
// Errors: `MPIX_ERR_OBJECT`; `MPIX_ERR_ARG` for a position without an argument, or NULL; `MPIX_ERR_BUSY`.
//
// The caller's duty: `argument` is a place for the report.
int MPIX_ComputeObj_get(MPIX_ComputeObj obj,
                        int position,
                        struct MPIX_Argument *argument);

// The value of the scalar at a position, from 0.
//
// Errors: `MPIX_ERR_OBJECT`; `MPIX_ERR_ARG` for a position without a scalar, or NULL; `MPIX_ERR_TYPE` for
// another type; `MPIX_ERR_BUSY`.
//
// The caller's duty: `value` is a place for a value of the type.
int MPIX_ComputeObj_get_scalar(MPIX_ComputeObj obj,
                               int position,
                               void *value,
                               MPIX_Datatype datatype);

// Sends to a child rank, whose function runs with it. The result comes back to the parent rank of this
// thread, which receives it from the child rank with the same tag.
//
// `buf` is a compute object, with the count 1 and the type `MPIX_COMPUTE_OBJ`. For a function that takes one
// array or scalar and writes one array it may be that one. To a buffer, all of its elements are written, and
// nothing comes back. Arrays may be used again when the call returns, except those of `MPIX_Alloc_mem`,
// which are the kernel's until the message is received.
//
// In a job of MPI `child` may be an ordinary rank, a process, to which elements or a compute object are sent
// as MPI does; in communicators of their own, so that no other message of the program is one of them.
//
// Errors: `MPIX_ERR_RANK`; `MPIX_ERR_TAG`; `MPIX_ERR_KERNEL` for arguments that do not fit the function;
// `MPIX_ERR_IMPLEMENTATION` if nothing implements it for their types; `MPIX_ERR_OBJECT`; `MPIX_ERR_TYPE`;
// `MPIX_ERR_COUNT`; `MPIX_ERR_BUSY`; `MPIX_ERR_COMM`; `MPIX_ERR_INIT`. Then nothing was sent. That the
// function fails is an error of the receive.
//
// The caller's duty: `buf` is a compute object if the type says so, else there are `count` elements of the type.
int MPIX_Send(const void *buf,
              int count,
              MPIX_Datatype datatype,
              int child,
              int tag,
              MPIX_Comm comm);

// As `MPIX_Send`; the result goes to the parent rank `dest` instead, which receives it from the child rank.
//
// In a job of MPI `dest` is an ordinary rank. Another process receives the result from this one's rank: as a
// compute object if that was sent, else as the elements of the array that the function writes. The call
// waits for the function if it has arrays that are not copied (memory of `MPIX_Alloc_mem`, buffers), which
// are the program's again then, and if the program has initialized MPI with less than `MPI_THREAD_MULTIPLE`.
//
// Errors: as those of `MPIX_Send`; `MPIX_ERR_RANK` for a parent rank or an ordinary rank that is none.
//
// The caller's duty: As for `MPIX_Send`.
int MPIX_SendFwd(const void *buf,
                 int count,
                 MPIX_Datatype datatype,
                 int child,
                 int dest,
                 int tag,
                 MPIX_Comm comm);

// Receives what a function has made of a message: waits for one from `child`, or `MPIX_ANY_SOURCE`, with
// `tag`, or `MPIX_ANY_TAG`, and for its end. Messages of a child rank with one tag come in the order in
// which they were sent.
//
// Into a compute object with the arguments that were sent, mostly that very one, the arrays are written that
// the function writes; an empty one gets all arguments. Into an array, the one array that the function
// writes. From a buffer, all of its elements. `status` may be NULL.
//
// From an ordinary rank, elements that it has sent or forwarded into an array, a compute object into one.
// `MPIX_ANY_SOURCE` is any child rank and, in a program with one parent rank, any ordinary one.
//
// Errors: what went wrong with the function: `MPIX_ERR_FAILED`, `MPIX_ERR_DEVICE`; `MPIX_ERR_GONE` if the
// child rank is freed meanwhile; `MPIX_ERR_TYPE` and `MPIX_ERR_COUNT` if the message does not fit, which is
// lost then; `MPIX_ERR_RANK`; `MPIX_ERR_TAG`; `MPIX_ERR_OBJECT`; `MPIX_ERR_BUSY`; `MPIX_ERR_COMM`;
// `MPIX_ERR_INIT`.
//
// The caller's duty: `buf` is a compute object if the type says so, else there is room for `count` elements; `status` is NULL
// or a place for one.
int MPIX_Recv(void *buf,
              int count,
              MPIX_Datatype datatype,
              int child,
              int tag,
              MPIX_Comm comm,
              struct MPIX_Status *status);

// As `MPIX_Send`, with a request to be waited for: when it is done, arrays may be used again, except those
// of `MPIX_Alloc_mem`.
//
// Errors: as those of `MPIX_Send`; then there is no request.
//
// The caller's duty: As for `MPIX_Send`; `request` is a place for a request.
int MPIX_Isend(const void *buf,
               int count,
               MPIX_Datatype datatype,
               int child,
               int tag,
               MPIX_Comm comm,
               MPIX_Request *request);

// As `MPIX_Recv`, which does not wait: the request gets the first message that fits, of those that no
// earlier one gets. `MPIX_Wait` or `MPIX_Test` writes it to `buf`. In a job of MPI, one from any source, or
// of a compute object from an ordinary rank, takes what there is when it is waited for or tested.
//
// Errors: `MPIX_ERR_RANK`, also for a buffer; `MPIX_ERR_TAG`; `MPIX_ERR_OBJECT`; `MPIX_ERR_TYPE`;
// `MPIX_ERR_COUNT`; `MPIX_ERR_COMM`; `MPIX_ERR_INIT`; `MPIX_ERR_ARG`; `MPIX_ERR_NO_MEM`.
//
// The caller's duty: As for `MPIX_Recv`, until the request has ended; `request` is a place for a request.
int MPIX_Irecv(void *buf,
               int count,
               MPIX_Datatype datatype,
               int child,
               int tag,
               MPIX_Comm comm,
               MPIX_Request *request);

// Waits for a request, which ends and becomes NULL. One that is NULL has ended. `status` may be NULL.
//
// Errors: as those of `MPIX_Recv`; the request has ended then, too. `MPIX_ERR_REQUEST` for what is none.
//
// The caller's duty: `request` points to a request, whose `buf` is as `MPIX_Irecv` says; `status` is NULL or a place for one.
int MPIX_Wait(MPIX_Request *request,
              struct MPIX_Status *status);

// As `MPIX_Wait`, which does not wait: `flag` becomes 1 if the request has ended, and 0 if it goes on.
//
// Errors: as those of `MPIX_Wait`; `flag` is 1 then, and the request has ended.
//
// The caller's duty: As for `MPIX_Wait`; `flag` is a place for a number.
int MPIX_Test(MPIX_Request *request,
              int *flag,
              struct MPIX_Status *status);

// Waits for a message, and says what it is, without receiving it. Of a compute object from an ordinary rank
// `status` has more bytes than its arrays have.
//
// Errors: `MPIX_ERR_RANK`; `MPIX_ERR_TAG`; `MPIX_ERR_GONE`; `MPIX_ERR_COMM`; `MPIX_ERR_INIT`.
//
// The caller's duty: `status` is NULL or a place for one.
int MPIX_Probe(int child,
               int tag,
               MPIX_Comm comm,
               struct MPIX_Status *status);

// `flag` becomes 1 if there is a message whose function has finished, and `status` says what it is; else 0.
//
// Errors: as those of `MPIX_Probe`; `MPIX_ERR_ARG` for NULL.
//
// The caller's duty: `flag` is a place for a number; `status` is NULL or a place for one.
int MPIX_Iprobe(int child,
                int tag,
                MPIX_Comm comm,
                int *flag,
                struct MPIX_Status *status);

// The number of elements of a type that were received: the bytes of the status, which must be a multiple.
//
// Errors: `MPIX_ERR_TYPE`; `MPIX_ERR_COUNT` if they are no multiple; `MPIX_ERR_ARG` for NULL.
//
// The caller's duty: `status` points to a status; `count` is a place for a number.
int MPIX_Get_count(const struct MPIX_Status *status,
                   MPIX_Datatype datatype,
                   int *count);

// Creates a communicator of child ranks, in this order, to be freed with `MPIX_Comm_free`.
//
// Errors: `MPIX_ERR_COMM` if there is none; `MPIX_ERR_ARG` for NULL; `MPIX_ERR_NO_MEM`.
//
// The caller's duty: There are `count` child ranks at `children`; `comm` is a place for a communicator.
int MPIX_Comm_create(const int *children,
                     int count,
                     MPIX_Comm *comm);

// Frees a communicator of child ranks, and sets it to `MPIX_COMM_WORLD`. The child ranks stay.
//
// Errors: `MPIX_ERR_COMM` for what is none, or freed already; `MPIX_ERR_ARG` for NULL.
//
// The caller's duty: `comm` points to a communicator.
int MPIX_Comm_free(MPIX_Comm *comm);

// All ordinary ranks wait for each other.
//
// Errors: `MPIX_ERR_COMM` for another communicator than `MPIX_COMM_WORLD`; `MPIX_ERR_INIT`; `MPIX_ERR_OTHER`
// with MPI's words.
int MPIX_Barrier(MPIX_Comm comm);

// Sends the same to each child rank of a communicator, as `MPIX_Send`. What they make of it is gathered or
// reduced. `root` is the parent rank of this thread.
//
// With `MPIX_COMM_WORLD`, the elements of the ordinary rank `root` go to all, as by MPI: this, and the calls
// below, are made by all in the same order, each with as many elements of the same type.
//
// Errors: as those of `MPIX_Send`, of the first that fails; the later ones get nothing then.
// `MPIX_ERR_COMM`; `MPIX_ERR_RANK` for another root; `MPIX_ERR_OTHER` with MPI's words.
//
// The caller's duty: As for `MPIX_Send`; with `MPIX_COMM_WORLD`, there is room for the elements.
int MPIX_Bcast(void *buf,
               int count,
               MPIX_Datatype datatype,
               int root,
               MPIX_Comm comm);

// Sends to each child rank of a communicator its part, in their order: `count` elements each, or of `count`
// 1 and `MPIX_COMPUTE_OBJ` one compute object each. `recvbuf` and what follows it are not used, as the root
// is no member. `root` is the parent rank of this thread.
//
// With `MPIX_COMM_WORLD`, each ordinary rank gets its part of the elements of `root` at `recvbuf`, of which
// `sendbuf` is used at `root` alone.
//
// Errors: as those of `MPIX_Bcast`.
//
// The caller's duty: There is a part for each child rank at `sendbuf`, each as for `MPIX_Send`; with `MPIX_COMM_WORLD`, at
// `root` a part for each, and room for one at `recvbuf`.
int MPIX_Scatter(const void *sendbuf,
                 int sendcount,
                 MPIX_Datatype sendtype,
                 void *recvbuf,
                 int recvcount,
                 MPIX_Datatype recvtype,
                 int root,
                 MPIX_Comm comm);

// Receives from each child rank of a communicator what it made of a broadcast or a part, in their order:
// `recvcount` elements each, or, with `recvcount` 1 and `MPIX_COMPUTE_OBJ`, one compute object each.
// `sendbuf` and what follows it are not used, as the root is no member. `root` is the parent rank of this
// thread.
//
// With `MPIX_COMM_WORLD`, the ordinary rank `root` gets the elements that each has at `sendbuf`, in the
// order of their ranks. `recvbuf` is used at `root` alone.
//
// Errors: as those of `MPIX_Recv`, of the first that fails; all are received. `MPIX_ERR_COMM`;
// `MPIX_ERR_RANK` for another root; `MPIX_ERR_OTHER` with MPI's words.
//
// The caller's duty: There is room for what each child rank gives at `recvbuf`, each as for `MPIX_Recv`; with
// `MPIX_COMM_WORLD`, at `root` room for the elements of all, and at `sendbuf` those of one.
int MPIX_Gather(const void *sendbuf,
                int sendcount,
                MPIX_Datatype sendtype,
                void *recvbuf,
                int recvcount,
                MPIX_Datatype recvtype,
                int root,
                MPIX_Comm comm);

// Receives from each child rank of a communicator what it made of a broadcast or a part, `count` numbers
// each, and combines them: `op` is `MPIX_SUM`, `MPIX_PROD`, `MPIX_MIN` or `MPIX_MAX`. `sendbuf` is not used,
// as the root is no member. `root` is the parent rank of this thread.
//
// With `MPIX_COMM_WORLD`, those that each ordinary rank has at `sendbuf`, always in the order of their
// ranks, so that the same numbers give the same bits. `root` has memory for those of all meanwhile.
// `recvbuf` is used at `root` alone.
//
// Errors: as those of `MPIX_Gather`; `MPIX_ERR_TYPE` for what are no numbers; `MPIX_ERR_ARG` for no
// operation.
//
// The caller's duty: There is room for `count` elements at `recvbuf`; with `MPIX_COMM_WORLD`, at `root`, and there are as many
// at `sendbuf`.
int MPIX_Reduce(const void *sendbuf,
                void *recvbuf,
                int count,
                MPIX_Datatype datatype,
                int op,
                int root,
                MPIX_Comm comm);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#define MPIX_CHAR MPIX_INT8_T
#define MPIX_SHORT MPIX_INT16_T
#define MPIX_INT MPIX_INT32_T
#define MPIX_LONG MPIX_INT64_T
#define MPIX_UNSIGNED_CHAR MPIX_UINT8_T
#define MPIX_BYTE MPIX_UINT8_T
#define MPIX_UNSIGNED_SHORT MPIX_UINT16_T
#define MPIX_UNSIGNED MPIX_UINT32_T
#define MPIX_UNSIGNED_LONG MPIX_UINT64_T
/* The paper's name of it. */
#define MPIX_CompObj MPIX_COMPUTE_OBJ

#define MPIX_STATUS_IGNORE ((MPIX_Status *)0)
#define MPIX_REQUEST_NULL ((MPIX_Request)0)
#define MPIX_INFO_NULL ((MPIX_Info)0)
#define MPIX_COMPUTE_OBJ_NULL ((MPIX_ComputeObj)0)
#define MPIX_FAILSAFE_NULL ((MPIX_Failsafe)0)

/* A child rank is an `unsigned long` or an `int`; MPIX_Free takes compute objects and infos, too. */
#if defined(__cplusplus)
static inline int MPIX_Claim(const char *alias, MPIX_Failsafe failsafe, MPIX_Info overrides, int *child)
{
    return MPIX_Claim_int(alias, failsafe, overrides, child);
}
static inline int MPIX_Claim(const char *alias, MPIX_Failsafe failsafe, MPIX_Info overrides, unsigned long *child)
{
    return MPIX_Claim_ulong(alias, failsafe, overrides, child);
}
static inline int MPIX_CreateBuffer(unsigned long child, int is_signed, int is_float, int type_size,
                                    uint64_t vector_size, int *buffer)
{
    return MPIX_CreateBuffer_int(child, is_signed, is_float, type_size, vector_size, buffer);
}
static inline int MPIX_CreateBuffer(unsigned long child, int is_signed, int is_float, int type_size,
                                    uint64_t vector_size, unsigned long *buffer)
{
    return MPIX_CreateBuffer_ulong(child, is_signed, is_float, type_size, vector_size, buffer);
}
static inline int MPIX_Free(int *child) { return MPIX_Free_int(child); }
static inline int MPIX_Free(unsigned long *child) { return MPIX_Free_ulong(child); }
static inline int MPIX_Free(MPIX_ComputeObj *obj) { return MPIX_ComputeObj_free(obj); }
static inline int MPIX_Free(MPIX_Info *info) { return MPIX_Info_free(info); }
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define MPIX_Claim(alias, failsafe, overrides, child)                                          \
    _Generic((child), int *: MPIX_Claim_int, unsigned long *: MPIX_Claim_ulong)(alias, failsafe, overrides, child)
#define MPIX_CreateBuffer(child, is_signed, is_float, type_size, vector_size, buffer)          \
    _Generic((buffer), int *: MPIX_CreateBuffer_int, unsigned long *: MPIX_CreateBuffer_ulong) \
    (child, is_signed, is_float, type_size, vector_size, buffer)
#define MPIX_Free(handle)                                                                      \
    _Generic((handle),                                                                         \
        int *: MPIX_Free_int,                                                                  \
        unsigned long *: MPIX_Free_ulong,                                                      \
        MPIX_ComputeObj *: MPIX_ComputeObj_free,                                               \
        MPIX_Info *: MPIX_Info_free)(handle)
#endif

#endif /* MPIX_H */
