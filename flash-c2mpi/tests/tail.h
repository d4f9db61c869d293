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
