/* FLASH: the interface of kernels, in C (or in Fortran through bind(C)), in OpenCL C and in CUDA C++.
 *
 * Made from flash-types/src/abi and tests/tests/plugins by tests/tests/plugins/header.rs: do not edit. The
 * layouts are frozen.
 *
 * In C, a function that runs some work items:
 *
 *     #include "flash_device.h"
 *
 *     // y = a * x + y, for: a scalar, x read, y read and written
 *     int saxpy(FLASH_ARGS) {
 *         const float a = FLASH_SCALAR(float, 0);
 *         FLASH_FOR_ITEMS {
 *             uint64_t i = FLASH_INDEX(0);
 *             FLASH_AT(float, 2, i) += a * FLASH_AT(const float, 1, i);
 *         }
 *         return 0;
 *     }
 *
 * Compile it with `cc -O3 -shared -fPIC` and pass `Implementation::file("./libsaxpy.so", "saxpy")`.
 * The function is called by several threads at once, each with other work items. Any result but 0 is
 * an error of the launch, which has the number. It must not throw or longjmp out.
 *
 * In OpenCL C and CUDA C++, one text for both, a kernel that takes the definition's arguments in order, under
 * their names, and FLASH_ARGS last. Its implementation says `cooperating`. The backend puts this file, and
 * the definitions that it needs, before every source:
 *
 *     FLASH_KERNEL saxpy(float a, FLASH_GLOBAL const float *x, FLASH_GLOBAL float *y, FLASH_ARGS) {
 *         FLASH_FOR_ITEMS {
 *             flash_u64 i = FLASH_INDEX(0);
 *             FLASH_AT(y, i) += a * FLASH_AT(x, i);
 *         }
 *     } */

#ifndef FLASH_DEVICE_H
#define FLASH_DEVICE_H

#if defined(__OPENCL_VERSION__) || defined(__CUDACC__)
/* ---- Kernels in OpenCL C and CUDA C++ ----
 *
 * The backend puts these definitions before it, from the implementation's descriptor:
 * FLASH_DIMS            number of dimensions of the index space
 * FLASH_ARRAYS          number of array arguments
 * FLASH_ARRAY_<name>    for each of them, its number among them
 * FLASH_INDEXED_ARRAYS  number of those that an index names, which have strides
 * FLASH_STRIDES_<name>  for each array, its number among these; of the others, FLASH_INDEXED_ARRAYS
 * FLASH_ENTRY_<entry>   the kernel for which the program is compiled: a file with several kernels has each
 *                       one inside `#ifdef FLASH_ENTRY_<entry>`
 * FLASH_SINGLE_WORK_ITEM, FLASH_ACCUMULATORS   if the kernel is a single work item, or has accumulators
 * FLASH_FPGA            if the program is for an FPGA or its emulator
 * FLASH_THREADS_PER_ITEM   threads that share a work item; 1, unless the implementation says more
 * FLASH_ITEMS_PER_THREAD   if a thread has runs of work items, of this number and its multiples
 * FLASH_GRID_BARRIER    if the kernel is launched once for several phases, in CUDA C++
 * FLASH_CHECK_BOUNDS    if indices of FLASH_AT are checked, with FLASH_BYTES_<name>, the bytes of an array's element
 * FLASH_CONSECUTIVE     if the program is for launches whose items have consecutive values of dimension 0 and one
 *                       value of every other: compilers then see that neighbours use neighbouring elements
 * FLASH_GRID            the same for launches of kernels with two or three dimensions whose items are a box, with a
 *                       thread for each in as many dimensions: no thread divides to find its index
 * FLASH_BOXES           if such a kernel uses the boxes of its arrays
 * FLASH_FIRST_<name>    for each array, its elements between neighbours along dimension 0: in programs for most
 *                       launches 0 or 1, where that is the way of its view
 * and the definitions of the implementation itself. A program that is compiled offline needs the same. */

#ifdef __OPENCL_VERSION__
typedef ulong flash_u64;
typedef long flash_i64;
typedef uint flash_u32;
#if defined(FLASH_SINGLE_WORK_ITEM) && (defined(FLASH_FPGA) || defined(INTELFPGA_CL))
/* Without the hardware that counts work items. */
#define FLASH_KERNEL __attribute__((max_global_work_dim(0))) __kernel void
#else
#define FLASH_KERNEL __kernel void
#endif
#define FLASH_GLOBAL __global
#define FLASH_RESTRICT restrict
#define FLASH_LOCAL __local
#define FLASH_FUNCTION static inline
#define FLASH_BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define FLASH_GLOBAL_ID(dim) ((flash_u64)get_global_id(dim))
#define FLASH_THREADS() ((flash_u64)get_global_size(0))
#define FLASH_LOCAL_ID() ((flash_u64)get_local_id(0))
#define FLASH_GROUP() ((flash_u64)get_group_id(0))
#define FLASH_GROUP_SIZE() ((flash_u64)get_local_size(0))
/* Each phase is a launch. */
#undef FLASH_GRID_BARRIER
#else
typedef unsigned long long flash_u64;
typedef long long flash_i64;
typedef unsigned int flash_u32;
#define FLASH_KERNEL extern "C" __global__ void
#define FLASH_GLOBAL
#define FLASH_RESTRICT __restrict__
#define FLASH_LOCAL __shared__
#define FLASH_FUNCTION __device__ __forceinline__
#define FLASH_BARRIER() __syncthreads()
#define FLASH_GLOBAL_ID(dim) \
    ((dim) == 0   ? (flash_u64)blockIdx.x * blockDim.x + threadIdx.x \
     : (dim) == 1 ? (flash_u64)(blockIdx.y * blockDim.y + threadIdx.y) \
                  : (flash_u64)(blockIdx.z * blockDim.z + threadIdx.z))
#define FLASH_THREADS() ((flash_u64)gridDim.x * blockDim.x)
#define FLASH_LOCAL_ID() ((flash_u64)threadIdx.x)
#define FLASH_GROUP() ((flash_u64)blockIdx.x)
#define FLASH_GROUP_SIZE() ((flash_u64)blockDim.x)
#endif
#define FLASH_THREAD() FLASH_GLOBAL_ID(0)

/* The values of a dimension. Row r has `start + at(r) * step`, or `table[start + at(r)]`, with
 * at(r) = r / cell % count. */
typedef struct flash_axis {
    /* FLASH_AXIS_*. */
    flash_u64 kind;
    flash_u64 start;
    flash_i64 step;
    flash_u64 cell;
    /* 0: no remainder is taken. */
    flash_u64 count;
} flash_axis;

/* flash_axis.kind: `start`, whatever the row. */
#define FLASH_AXIS_CONSTANT 0
/* flash_axis.kind: steps, and `cell` is 1 and `count` 0. */
#define FLASH_AXIS_LINE 1
/* flash_axis.kind: steps. */
#define FLASH_AXIS_STEPS 2
/* flash_axis.kind: listed in the table. */
#define FLASH_AXIS_LISTED 3

/* The beginning of an array's buffers, in bytes from its first element, its number of elements, and one past the last
 * element that is present. */
typedef struct flash_array {
    flash_i64 origin;
    flash_i64 next_origin;
    flash_u64 len;
    flash_u64 end;
} flash_array;

/* A kernel's description of its launch: one phase of the part that its device runs. */
typedef struct flash_launch {
    flash_u64 phase;
    flash_u64 items;
    /* Row of item 0. */
    flash_u64 first;
    /* 1: rows fit into 32 bits. */
    flash_u64 narrow;
    /* Items of a work-group, of kernels with accumulators; of a thread, of kernels with FLASH_ITEMS_PER_THREAD. */
    flash_u64 block;
    flash_axis axes[FLASH_DIMS];
    flash_array arrays[FLASH_ARRAYS + !FLASH_ARRAYS];
#ifdef FLASH_GRID
    /* Not in the table, whose words compilers would read once more for each work item. */
    flash_u64 strides[FLASH_INDEXED_ARRAYS + !FLASH_INDEXED_ARRAYS][FLASH_DIMS];
#ifdef FLASH_BOXES
    /* Begin and end of an array's part along three axes, and elements between neighbours along axes 1 and 2. */
    flash_u64 boxes[FLASH_ARRAYS + !FLASH_ARRAYS][8];
#endif
#endif
} flash_launch;

/* The table begins with FLASH_DETAIL words per array argument: elements of a row, begin and end of its part along
 * three axes, and its stride per dimension. Then come listed values. A source that uses none of these details
 * has no such words, and NULL for an empty table. With FLASH_CHECK_BOUNDS the words of a fault lie between both. */
#define FLASH_DETAIL (7 + FLASH_DIMS)

/* The last parameters of a kernel. One with FLASH_GRID_BARRIER is launched once for several phases, with as many
 * threads as run at once: it gets all of its phases, and a counter of its own, which is 0 when it begins. */
#ifdef FLASH_GRID_BARRIER
#define FLASH_ARGS \
    const flash_launch flash_run_0, const flash_u64 *flash_table, const flash_launch *flash_phases, \
        flash_u64 flash_phase_count, flash_u32 *flash_barrier
#else
#define FLASH_ARGS const flash_launch flash_run, FLASH_GLOBAL const flash_u64 *FLASH_RESTRICT flash_table
#endif

/* The phases of this launch, around all loops over work items: one, if not with FLASH_GRID_BARRIER. All threads must
 * come to the end of each. */
#ifdef FLASH_GRID_BARRIER
#define FLASH_FOR_PHASES \
    for (flash_u64 flash_phase = 0; flash_phase < flash_phase_count; \
         flash_end_phase(++flash_phase, flash_phase_count, flash_barrier)) \
        if (const flash_launch flash_run = flash_phases[flash_phase]; true)
#else
#define FLASH_FOR_PHASES
#endif

#ifndef FLASH_THREADS_PER_ITEM
#define FLASH_THREADS_PER_ITEM 1
#endif

/* The number of this thread among those that share its work item. */
#define FLASH_LANE() (FLASH_THREAD() % FLASH_THREADS_PER_ITEM)

/* The work items of this thread: one, or none. With FLASH_ITEMS_PER_THREAD it has that many adjacent ones, or a
 * multiple of that, and fewer only at the end. In a kernel with accumulators the threads of a work-group take turns
 * over the items of its block; with FLASH_GRID_BARRIER all threads take turns over all items. In a single-work-item
 * kernel it has all. */
#if defined(FLASH_SINGLE_WORK_ITEM)
#define FLASH_FOR_ITEMS for (flash_u64 flash_item = 0; flash_item < flash_run.items; ++flash_item)
#elif defined(FLASH_ITEMS_PER_THREAD)
#define FLASH_END_OF_THREAD(item) \
    ((item) + flash_run.block < flash_run.items ? (item) + flash_run.block : flash_run.items)
#define FLASH_FOR_ITEMS \
    for (flash_u64 flash_item = FLASH_THREAD() * flash_run.block, flash_end = FLASH_END_OF_THREAD(flash_item); \
         flash_item < flash_end; ++flash_item)
#elif defined(FLASH_ACCUMULATORS)
#define FLASH_FOR_ITEMS \
    for (flash_u64 flash_item = FLASH_GROUP() * flash_run.block + FLASH_LOCAL_ID(); \
         flash_item < flash_run.items && flash_item < (FLASH_GROUP() + 1) * flash_run.block; \
         flash_item += FLASH_GROUP_SIZE())
#elif defined(FLASH_GRID_BARRIER)
#define FLASH_FOR_ITEMS \
    for (flash_u64 flash_item = FLASH_THREAD() / FLASH_THREADS_PER_ITEM; flash_item < flash_run.items; \
         flash_item += FLASH_THREADS() / FLASH_THREADS_PER_ITEM)
#elif defined(FLASH_GRID)
/* Work-groups may extend past the box, whose extents are the counts. */
#define FLASH_IS_INSIDE(dim) (FLASH_GLOBAL_ID(dim) < flash_run.axes[dim].count)
#define FLASH_FOR_ITEMS \
    for (int flash_item = FLASH_IS_INSIDE(0) && FLASH_IS_INSIDE(1) && FLASH_IS_INSIDE(FLASH_DIMS - 1); flash_item; \
         flash_item = 0)
#else
#define FLASH_FOR_ITEMS \
    for (flash_u64 flash_item = FLASH_THREAD() / FLASH_THREADS_PER_ITEM; flash_item < flash_run.items; \
         flash_item = ~(flash_u64)0)
#endif

/* The same, run by run: FLASH_RUN() work items with consecutive values of dimension 0 and one value of every other. A
 * run is all work items of this thread; where they are not consecutive, it is one of them. The macros for the current
 * work item give the first of the run; the elements of an array from there on can be used as whole vectors. */
#ifdef FLASH_ITEMS_PER_THREAD
#define FLASH_FOR_RUNS \
    for (flash_u64 flash_item = FLASH_THREAD() * flash_run.block, flash_end = FLASH_END_OF_THREAD(flash_item); \
         flash_item < flash_end; flash_item += FLASH_RUN())
#ifdef FLASH_CONSECUTIVE
#define FLASH_RUN() (flash_end - flash_item)
#else
#define FLASH_RUN() ((flash_u64)1)
#endif
#endif

/* The same where the threads of a work-group meet at FLASH_BARRIER(): all of them run through it the same number of
 * times, also those without a work item, for which flash_item is not below FLASH_ITEMS(). With one thread per work
 * item, and without accumulators. */
#define FLASH_FOR_GROUPS \
    for (flash_u64 flash_item = FLASH_THREAD(); flash_item - FLASH_LOCAL_ID() < flash_run.items; \
         flash_item += FLASH_THREADS())

/* Number of work items of this launch, and of its phase. */
#define FLASH_ITEMS() (flash_run.items)
#define FLASH_PHASE() (flash_run.phase)

/* The index of the current work item along a dimension: global, whatever the order or the cut. With 32, in 32
 * bits: launches whose indices do not fit are refused. */
#ifdef FLASH_GRID
#define FLASH_INDEX(dim) (flash_run.axes[dim].start + FLASH_GLOBAL_ID(dim))
#define FLASH_INDEX32(dim) ((flash_u32)FLASH_INDEX(dim))
#elif defined(FLASH_CONSECUTIVE)
#define FLASH_INDEX(dim) (flash_run.axes[dim].start + ((dim) == 0 ? flash_run.first + flash_item : 0))
#define FLASH_INDEX32(dim) ((flash_u32)FLASH_INDEX(dim))
#else
#define FLASH_INDEX(dim) flash_index_of(flash_run.axes[dim], flash_run.first + flash_item, flash_run.narrow, flash_table)
#define FLASH_INDEX32(dim) \
    flash_index32_of(flash_run.axes[dim], (flash_u32)flash_run.first + (flash_u32)flash_item, flash_table)
#endif

/* Element `index` of an array, in units of the parameter's target type, from the array's first. Of a phased
 * one: as it was when the phase began. */
#ifdef FLASH_CHECK_BOUNDS
#define FLASH_AT(array, index) \
    FLASH_CHECKED(array, array, index, FLASH_OF(array).origin, FLASH_OF(array).end * FLASH_BYTES_##array)
#else
#define FLASH_AT(array, index) \
    ((array)[(flash_i64)(index) - FLASH_OF(array).origin / (flash_i64)sizeof(*(array))])
#endif

/* Element `index` of a phased array, to write; seen from the next phase on. Its parameter is the array's name
 * with `_next`. */
#ifdef FLASH_CHECK_BOUNDS
#define FLASH_NEXT(array, index) \
    FLASH_CHECKED(array, array##_next, index, FLASH_OF(array).next_origin, FLASH_OF(array).end * FLASH_BYTES_##array)
#else
#define FLASH_NEXT(array, index) \
    ((array##_next)[(flash_i64)(index) - FLASH_OF(array).next_origin / (flash_i64)sizeof(*(array##_next))])
#endif

/* Accumulator `index` (0 for a single one) of the block that the current work item is in. */
#ifdef FLASH_CHECK_BOUNDS
#define FLASH_REDUCE(array, index) \
    FLASH_CHECKED(array, &FLASH_AT(array, flash_item / FLASH_ROW_LEN(array) * FLASH_LEN(array)), index, 0, \
                  FLASH_LEN(array) * FLASH_BYTES_##array)
#else
#define FLASH_REDUCE(array, index) \
    FLASH_AT(array, flash_item / FLASH_ROW_LEN(array) * FLASH_LEN(array) + (flash_u64)(index))
#endif

/* The beginning of the current work item's own element, or row, in an `Item` or `Phased` argument. */
#if FLASH_DIMS == 1
#define FLASH_OWN_INDEX(array) (FLASH_INDEX(0) * FLASH_FIRST_##array)
#elif FLASH_DIMS == 2
#define FLASH_OWN_INDEX(array) (FLASH_INDEX(0) * FLASH_FIRST_##array + FLASH_INDEX(1) * FLASH_STRIDE(array, 1))
#elif FLASH_DIMS == 3
#define FLASH_OWN_INDEX(array) \
    (FLASH_INDEX(0) * FLASH_FIRST_##array + FLASH_INDEX(1) * FLASH_STRIDE(array, 1) + \
     FLASH_INDEX(2) * FLASH_STRIDE(array, 2))
#else
#define FLASH_OWN_INDEX(array) \
    flash_own_index_of(&flash_run, flash_item, flash_table, FLASH_ARRAY_##array, FLASH_FIRST_##array)
#endif

/* Number of elements of an array, and of a row of it. */
#define FLASH_LEN(array) (FLASH_OF(array).len)
#define FLASH_ROW_LEN(array) (flash_table[FLASH_DETAIL * FLASH_ARRAY_##array])

/* One past the last element of a `Window` that is present: a device has only the elements that the partition map gives
 * to the launch, or to its part. At most FLASH_LEN. */
#define FLASH_END(array) (FLASH_OF(array).end)

/* The indices along an axis of an array's shape that are present, [BEGIN, END): where a launch is cut, a
 * part of it, and only those may be touched. FLASH_AT takes the index in the whole array all the same. */
#ifdef FLASH_BOXES
#define FLASH_PART_BEGIN(array, axis) (flash_run.boxes[FLASH_ARRAY_##array][axis])
#define FLASH_PART_END(array, axis) (flash_run.boxes[FLASH_ARRAY_##array][3 + (axis)])
#else
#define FLASH_PART_BEGIN(array, axis) (flash_table[FLASH_DETAIL * FLASH_ARRAY_##array + 1 + (axis)])
#define FLASH_PART_END(array, axis) (flash_table[FLASH_DETAIL * FLASH_ARRAY_##array + 4 + (axis)])
#endif
/* Elements of an array between neighbours along a dimension of the index space; 0: it does not index the array. */
#ifdef FLASH_GRID
#define FLASH_STRIDE(array, dim) \
    (FLASH_STRIDES_##array < FLASH_INDEXED_ARRAYS \
         ? flash_run.strides[FLASH_STRIDES_##array % (FLASH_INDEXED_ARRAYS + !FLASH_INDEXED_ARRAYS)][dim] \
         : (flash_u64)0)
#else
#define FLASH_STRIDE(array, dim) (flash_table[FLASH_DETAIL * FLASH_ARRAY_##array + 7 + (dim)])
#endif

#define FLASH_OF(array) (flash_run.arrays[FLASH_ARRAY_##array])

#ifdef FLASH_CHECK_BOUNDS
/* For texts that `#[kernel(devices)]` writes: elements between neighbours along axis 1 (`axis` is 0) or 2 of an array's
 * shape, and the number of the element at an index per axis, which is outside the array if the index is outside the
 * part. */
#ifdef FLASH_BOXES
#define FLASH_AXIS(array, axis) (flash_run.boxes[FLASH_ARRAY_##array][6 + (axis)])
#else
#define FLASH_AXIS(array, axis) \
    (flash_table[FLASH_FAULT + 16 + FLASH_SCRATCH / 8 + 2 * FLASH_ARRAY_##array + (axis)])
#endif
#define FLASH_HAS(array, axis, i) (FLASH_PART_BEGIN(array, axis) <= (i) && (i) < FLASH_PART_END(array, axis))
#define FLASH_WITHIN(array, x, y, z) \
    (FLASH_HAS(array, 0, x) && FLASH_HAS(array, 1, y) && FLASH_HAS(array, 2, z) \
         ? (x) + (y) * FLASH_AXIS(array, 0) + (z) * FLASH_AXIS(array, 1) \
         : ~(flash_u64)0)
/* What the host has proved of the launch is not checked once more. */
#ifdef FLASH_SURE
#define FLASH_SURELY(sure, checked) (sure)
#define FLASH_SURE_AT(array, index) FLASH_PROVED(array, index, FLASH_OF(array).origin)
#define FLASH_SURE_WITHIN(array, x, y, z) ((x) + (y) * FLASH_AXIS(array, 0) + (z) * FLASH_AXIS(array, 1))
#else
#define FLASH_SURELY(sure, checked) (checked)
#define FLASH_SURE_AT FLASH_AT
#define FLASH_SURE_WITHIN FLASH_WITHIN
#endif
#endif

#ifdef FLASH_CHECK_BOUNDS
/* The setting `check_bounds`: an index outside its array is noted for the host, and the element is one that nothing
 * reads. A function that uses FLASH_AT has the parameters `flash_run` and `flash_table`. The first words are of the
 * fault, the rest is for elements of up to FLASH_SCRATCH bytes. */
#ifdef __OPENCL_VERSION__
#define FLASH_TYPE_OF(expression) __typeof__(expression)
#else
#define FLASH_TYPE_OF(expression) decltype(expression)
#endif
#define FLASH_FAULT ((FLASH_DETAIL * FLASH_ARRAYS + 15) / 16 * 16)
#define FLASH_CHECKED(array, pointer, index, origin, end) \
    (*(FLASH_TYPE_OF(&*(pointer)))flash_checked( \
        (size_t)(pointer), (flash_i64)(index), \
        sizeof(*(pointer)) * sizeof(char[sizeof(*(pointer)) <= FLASH_SCRATCH ? 1 : -1]), (flash_i64)(origin), end, \
        FLASH_ARRAY_##array, flash_table))

/* The address of an element of `size` bytes, in a buffer that begins with byte `origin` of its array, and whose last
 * element ends before byte `end`. */
FLASH_FUNCTION size_t flash_checked(size_t buffer, flash_i64 index, flash_u64 size, flash_i64 origin, flash_u64 end,
                                    flash_u64 array, FLASH_GLOBAL const flash_u64 *table) {
    const flash_i64 first = origin / (flash_i64)size, behind = (flash_i64)(end / size);
    FLASH_GLOBAL flash_u64 *fault = (FLASH_GLOBAL flash_u64 *)(table + FLASH_FAULT);
    if (first <= index && index < behind)
        return buffer + (size_t)((flash_u64)(index - first) * size);
    /* The first one is told. */
#ifdef __OPENCL_VERSION__
    if (atomic_cmpxchg((volatile __global uint *)fault, 0u, 1u) == 0u) {
#else
    if (atomicCAS((flash_u32 *)fault, 0u, 1u) == 0u) {
#endif
        fault[1] = array;
        fault[2] = (flash_u64)index;
        fault[3] = (flash_u64)first;
        fault[4] = (flash_u64)behind;
        fault[5] = size;
    }
    return (size_t)(fault + 16);
}
#endif

FLASH_FUNCTION flash_u64 flash_index_of(flash_axis axis, flash_u64 row, flash_u64 narrow,
                                        FLASH_GLOBAL const flash_u64 *table) {
    flash_u64 at = row;
    if (axis.kind == FLASH_AXIS_CONSTANT)
        return axis.start;
    if (axis.kind == FLASH_AXIS_LINE)
        return axis.start + row * (flash_u64)axis.step;
    if (narrow) {
        flash_u32 near = (flash_u32)row / (flash_u32)axis.cell;
        at = axis.count ? near % (flash_u32)axis.count : near;
    } else {
        at = row / axis.cell;
        at = axis.count ? at % axis.count : at;
    }
    return axis.kind == FLASH_AXIS_LISTED ? table[axis.start + at] : axis.start + at * (flash_u64)axis.step;
}

FLASH_FUNCTION flash_u32 flash_index32_of(flash_axis axis, flash_u32 row,
                                          FLASH_GLOBAL const flash_u64 *table) {
    flash_u32 at = row;
    if (axis.kind == FLASH_AXIS_CONSTANT)
        return (flash_u32)axis.start;
    if (axis.kind != FLASH_AXIS_LINE) {
        at = row / (flash_u32)axis.cell;
        at = axis.count ? at % (flash_u32)axis.count : at;
    }
    return axis.kind == FLASH_AXIS_LISTED ? (flash_u32)table[axis.start + at]
                                          : (flash_u32)axis.start + at * (flash_u32)axis.step;
}

#if FLASH_DIMS > 3
FLASH_FUNCTION flash_u64 flash_own_index_of(const flash_launch *run, flash_u64 item,
                                            FLASH_GLOBAL const flash_u64 *table, flash_u64 array,
                                            flash_u64 first) {
    flash_u64 element = 0;
    for (int dim = 0; dim < FLASH_DIMS; ++dim) {
#ifdef FLASH_CONSECUTIVE
        const flash_u64 index = run->axes[dim].start + (dim == 0 ? run->first + item : 0);
#else
        const flash_u64 index = flash_index_of(run->axes[dim], run->first + item, run->narrow, table);
#endif
        element += index * (dim == 0 ? first : table[FLASH_DETAIL * array + 7 + dim]);
    }
    return element;
}
#endif

#ifdef FLASH_GRID_BARRIER
/* Ends a phase: waits until all threads of the launch are here, and makes their writes visible to each other. At the
 * end of phase p the counter is (p + 1) * gridDim.x, in 32 bits that may wrap. */
FLASH_FUNCTION void flash_end_phase(flash_u64 phase, flash_u64 phases, flash_u32 *barrier) {
    if (phase == phases)
        return;
    __syncthreads();
    if (threadIdx.x == 0) {
        const flash_u32 all = (flash_u32)phase * gridDim.x;
        __threadfence();
        atomicAdd(barrier, 1u);
        while ((int)(*(volatile flash_u32 *)barrier - all) < 0) {
        }
        __threadfence();
    }
    __syncthreads();
}
#endif

#else
/* ---- Functions in C ---- */

#include <stdint.h>

// flash_arg.kind: a value; `data` points to its bytes.
#define FLASH_ARG_SCALAR 0

// flash_arg.kind: an element or a row per work item.
#define FLASH_ARG_ITEM 1

// flash_arg.kind: the whole array, only read.
#define FLASH_ARG_WHOLE 2

// flash_arg.kind: two buffers. In a phase, `data` is as the phase began and `next` takes the writes. The
// backend swaps them between phases; elements that no item owns keep their value; after the last phase the
// contents are in the buffer that was `data` at submission.
#define FLASH_ARG_PHASED 3

// flash_arg.kind: atomic operations anywhere.
#define FLASH_ARG_SCATTER 4

// flash_arg.kind: the box of an array that the partition map gives, only read.
#define FLASH_ARG_WINDOW 5

// flash_arg.kind: an accumulator. `data` has one of `len` elements per block of `row_len` rows of the
// phase, the first for the block of the phase's first row; the host has filled them with the
// operation's identity and merges them. `row_len` is a power of two. No two shares may have rows of one
// block. A flash_span_fn gets rows of one block only, and `data` is that block's accumulator. The host
// submits the phases of such a launch one by one.
#define FLASH_ARG_REDUCE 6

// flash_arg.flags of a phased argument: in every phase every element is some item's own, so that
// nothing need be copied from `data` to `next` before it.
#define FLASH_ARG_FLAG_COVERED 1

// flash_arg.flags of a phased argument: its use is declared per stage; `data` and `next` are the same.
#define FLASH_ARG_FLAG_STAGED 2

// flash_arg.flags of a phased argument: nothing is copied back after the (only) phase of this submission,
// its writes stay in `next`.
#define FLASH_ARG_FLAG_NEXT_STAYS 4

// flash_arg.access: only read.
#define FLASH_ACCESS_READ 1

// flash_arg.access: read and written.
#define FLASH_ACCESS_READ_WRITE 2

// flash_arg.access: every element of the launch's range is written, none is read.
#define FLASH_ACCESS_WRITE 3

// Memory space id of plain host memory: addresses are pointers of this process.
#define FLASH_SPACE_HOST 0

// The work of one call of a flash_span_fn: `count` work items. The index of item `i` is `index`, with `i *
// step` added along `dimension`.
typedef struct flash_span {
  // Size of this struct on the side that made it.
  uint32_t struct_size;
  // Number of dimensions.
  uint32_t dimensions;
  // Index values of the first item.
  const uint64_t *index;
  // Number of items.
  uint64_t count;
  // Distance of the index value from one item to the next.
  int64_t step;
  // The dimension along which the items lie.
  uint32_t dimension;
  // Number of arguments.
  uint32_t arg_count;
  // The phase.
  uint64_t phase;
} flash_span;

// The box of an array's elements that a submission may touch. The array is seen with up to three axes, axis
// 0 contiguous; element `(x, y, z)` is number `x + y * stride[0] + z * stride[1]`. An item argument whose
// elements along axis 0 are not adjacent is seen as one axis, from its first element to its last. Frozen.
typedef struct flash_part {
  // First element along each axis.
  uint64_t begin[3];
  // One past the last along each axis. Axes that the array does not have: 0 to 1.
  uint64_t end[3];
  // Elements from neighbour to neighbour along axes 1 and 2.
  uint64_t stride[2];
  // Number of the element with which the buffer begins, for buffers with handles. In the host's space
  // `data` is where element 0 would be.
  uint64_t origin;
  // The same of the second buffer of a phased argument. Since minor version 3.
  uint64_t next_origin;
} flash_part;

// One argument of a launch. Frozen.
typedef struct flash_arg {
  // `FLASH_ARG_*`.
  uint32_t kind;
  // `FLASH_ACCESS_*`.
  uint32_t access;
  // Memory space in which `data` and `next` are addresses. Scalars are always in the host's.
  uint32_t space;
  // Size of one element (of one scalar) in bytes.
  uint32_t element_size;
  // Address of element 0. With a `part` it may lie outside the buffer; only the part's elements may be
  // touched.
  void *data;
  // Second buffer of a phased array. In spaces that have handles it is the handle of the buffer itself,
  // which begins with the part's `next_origin`. Of a scatter argument in the host's memory whose stores
  // are checked, a 32-bit number per element, for the kernel's code alone. Otherwise NULL.
  void *next;
  // Handle of the device buffer in spaces that have handles; 0 in the host's, and where the `part` has no
  // elements.
  uint64_t buffer;
  // Number of elements from the first to the last: those between an item's elements are counted.
  uint64_t len;
  // Elements in a row; 1 without rows.
  uint64_t row_len;
  // `FLASH_ARG_FLAG_*`.
  uint64_t flags;
  // For every dimension of the index space, the number of elements between neighbours of
  // consecutive index value; 0 for a dimension that does not index this array. NULL for scalars
  // and whole arrays.
  const uint64_t *strides;
  // The elements that are present; NULL: all.
  const struct flash_part *part;
} flash_arg;

// A CPU kernel in C or Fortran: runs `span.count` work items. 0 is success.
typedef int32_t (*flash_span_fn)(const struct flash_span *span, const struct flash_arg *args);

#ifdef __cplusplus
extern "C" {
#endif

/* The parameters of a kernel function: `int f(FLASH_ARGS)`. */
#define FLASH_ARGS const flash_span *flash_run, const flash_arg *flash_args

/* A loop over the work items of this call; FLASH_INDEX and FLASH_OWN_INDEX name the current one. */
#define FLASH_FOR_ITEMS \
    for (uint64_t flash_item = 0; flash_item < flash_run->count; ++flash_item)

/* The index of the current work item along a dimension: global, whatever the order or the cut. */
#define FLASH_INDEX(dim) flash_index_of(flash_run, flash_item, (dim))

/* Number of the phase. */
#define FLASH_PHASE() (flash_run->phase)

/* A scalar or struct: `FLASH_SCALAR(float, 0)`. Arguments count from 0. */
#define FLASH_SCALAR(type, argument) (*(const type *)flash_args[argument].data)

/* Element `index` of an array, from its first. Of a phased one: as it was when the phase began. */
#define FLASH_AT(type, argument, index) (((type *)flash_args[argument].data)[index])

/* Element `index` of a phased array, to write; seen from the next phase on. */
#define FLASH_NEXT(type, argument, index) (((type *)flash_args[argument].next)[index])

/* Accumulator `index` (0 for a single one) of the block of work items of this call. Only this call reads and
 * writes it, with the operation of the definition. */
#define FLASH_REDUCE(type, argument, index) (((type *)flash_args[argument].data)[index])

/* The beginning of the current work item's own element, or row, in an `Item` or `Phased` argument. */
#define FLASH_OWN_INDEX(argument) flash_own_index_of(flash_run, flash_item, &flash_args[argument])

/* Number of elements of an array, and of a row of it. */
#define FLASH_LEN(argument) (flash_args[argument].len)
#define FLASH_ROW_LEN(argument) (flash_args[argument].row_len)

/* One past the last element of a `Window` that is present, as above. */
#define FLASH_END(argument) flash_end_of(&flash_args[argument])

/* The indices along an axis of an array's shape that are present, [BEGIN, END): where a launch is cut, a
 * part of it, and only those may be touched. FLASH_AT takes the index in the whole array all the same. */
#define FLASH_PART_BEGIN(argument, axis) flash_part_begin_of(&flash_args[argument], (axis))
#define FLASH_PART_END(argument, axis) flash_part_end_of(&flash_args[argument], (axis))

static inline uint64_t flash_index_of(const flash_span *span, uint64_t item, uint32_t dim) {
    return span->index[dim] + (dim == span->dimension ? item * (uint64_t)span->step : 0);
}

/* An array without a part is present in full, and has one axis. */
static inline uint64_t flash_part_begin_of(const flash_arg *arg, uint32_t axis) {
    return arg->part ? arg->part->begin[axis] : 0;
}

static inline uint64_t flash_part_end_of(const flash_arg *arg, uint32_t axis) {
    return arg->part ? arg->part->end[axis] : axis == 0 ? arg->len : 1;
}

static inline uint64_t flash_end_of(const flash_arg *arg) {
    const flash_part *part = arg->part;
    if (!part)
        return arg->len;
    if (!part->end[0] || !part->end[1] || !part->end[2])
        return 0;
    return part->end[0] + (part->end[1] - 1) * part->stride[0] + (part->end[2] - 1) * part->stride[1];
}

static inline uint64_t flash_own_index_of(const flash_span *span, uint64_t item, const flash_arg *arg) {
    uint64_t element = 0;
    for (uint32_t dim = 0; arg->strides && dim < span->dimensions; ++dim)
        element += flash_index_of(span, item, dim) * arg->strides[dim];
    return element;
}

#ifdef __cplusplus
}
#endif

#endif /* C */

#endif /* FLASH_DEVICE_H */
