#ifdef FLASH_ENTRY_scale
FLASH_KERNEL scale(const FLASH_T factor, FLASH_GLOBAL FLASH_T *x, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        FLASH_AT(x, FLASH_INDEX(0)) *= factor;
    }
}
#endif

#ifdef FLASH_ENTRY_rows
/* Row `row` of `from`, in the order in which the launch runs, and by how much the indices differ. */
FLASH_KERNEL rows(FLASH_GLOBAL const flash_u32 *from, FLASH_GLOBAL flash_u32 *to, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 x = FLASH_INDEX(0), y = FLASH_INDEX(1);
        FLASH_AT(to, FLASH_OWN_INDEX(to)) = FLASH_AT(from, FLASH_OWN_INDEX(from)) * TIMES + (flash_u32)(x + 100 * y);
    }
}
#endif
