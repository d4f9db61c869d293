/* The kernel of mod.rs in OpenCL C. FLASH_T is float or double. A work-group has one block of the vectors. */

/* Work items of a group. As it is compiled for them, a launch with others is refused. */
#define GROUP 64

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
FLASH_KERNEL vdp(FLASH_GLOBAL const FLASH_T *x, FLASH_GLOBAL const FLASH_T *y, FLASH_GLOBAL FLASH_T *sum,
                 FLASH_ARGS) {
    FLASH_LOCAL FLASH_T partial[GROUP];
    FLASH_T own = 0;
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0);
        own += FLASH_AT(x, i) * FLASH_AT(y, i);
    }
    partial[FLASH_LOCAL_ID()] = own;
    FLASH_BARRIER();
    if (FLASH_LOCAL_ID() == 0) {
        const flash_u64 flash_item = FLASH_GROUP() * flash_run.block;
        FLASH_T total = 0;
        for (flash_u64 i = 0; i < FLASH_GROUP_SIZE(); ++i)
            total += partial[i];
        FLASH_REDUCE(sum, 0) += total;
    }
}
