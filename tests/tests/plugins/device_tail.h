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
