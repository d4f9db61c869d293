#ifdef __cplusplus
extern "C" {
#endif

// Arguments: numbers, all or a range of a memory, and values of any type. `type_name` and `bytes` are
// read when the value is used: until then they stay.

#define FLASH_DEFINE_(name, type, KIND)                          \
    static inline flash_value flash_as_##name(type x)            \
    {                                                            \
        flash_value value = {KIND, 0, (uint64_t)x, 0, 0};        \
        return value;                                            \
    }
FLASH_DEFINE_(i8, int8_t, FLASH_VALUE_I8)
FLASH_DEFINE_(i16, int16_t, FLASH_VALUE_I16)
FLASH_DEFINE_(i32, int32_t, FLASH_VALUE_I32)
FLASH_DEFINE_(i64, int64_t, FLASH_VALUE_I64)
FLASH_DEFINE_(u8, uint8_t, FLASH_VALUE_U8)
FLASH_DEFINE_(u16, uint16_t, FLASH_VALUE_U16)
FLASH_DEFINE_(u32, uint32_t, FLASH_VALUE_U32)
FLASH_DEFINE_(u64, uint64_t, FLASH_VALUE_U64)
FLASH_DEFINE_(usize, size_t, FLASH_VALUE_USIZE)
#undef FLASH_DEFINE_

static inline flash_value flash_as_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    flash_value value = {FLASH_VALUE_F32, 0, bits, 0, 0};
    return value;
}

static inline flash_value flash_as_f64(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    flash_value value = {FLASH_VALUE_F64, 0, bits, 0, 0};
    return value;
}

// All of a memory.
static inline flash_value flash_as_array(const flash_memory *memory)
{
    flash_value value = {FLASH_VALUE_MEMORY, 0, (uint64_t)(uintptr_t)memory, 0, 0};
    return value;
}

// The elements from `begin` to before `end`.
static inline flash_value flash_as_range(const flash_memory *memory, uint64_t begin, uint64_t end)
{
    flash_value value = {FLASH_VALUE_RANGE, 0, (uint64_t)(uintptr_t)memory, begin, end};
    return value;
}

// A value of the type of this name, as many bytes as that has.
static inline flash_value flash_as_value(const char *type_name, const void *bytes)
{
    flash_value value = {FLASH_VALUE_BYTES, 0, (uint64_t)(uintptr_t)bytes, (uint64_t)(uintptr_t)type_name, 0};
    return value;
}

// Dimensions: `count` values from 0.
static inline flash_dimension flash_count(uint64_t count)
{
    flash_dimension dimension;
    dimension.start = 0;
    dimension.step = 1;
    dimension.count = count;
    dimension.values = NULL;
    return dimension;
}

// `count` values from `start`, `step` apart.
static inline flash_dimension flash_range(uint64_t start, int64_t step, uint64_t count)
{
    flash_dimension dimension = flash_count(count);
    dimension.start = start;
    dimension.step = step;
    return dimension;
}

// These values, in this order. They are read when the dimension is used.
static inline flash_dimension flash_list(const uint64_t *values, uint64_t count)
{
    flash_dimension dimension = flash_count(count);
    dimension.values = values;
    return dimension;
}

#ifdef __cplusplus
} // extern "C"
#else
// Two arguments of a call each: a list, and its length.
#define FLASH_VALUES(...) \
    (const flash_value[]){__VA_ARGS__}, sizeof((const flash_value[]){__VA_ARGS__}) / sizeof(flash_value)
#define FLASH_DIMENSIONS(...)                 \
    (const flash_dimension[]){__VA_ARGS__},   \
        sizeof((const flash_dimension[]){__VA_ARGS__}) / sizeof(flash_dimension)
#endif
