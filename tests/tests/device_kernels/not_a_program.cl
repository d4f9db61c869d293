FLASH_KERNEL not_a_program(FLASH_GLOBAL flash_u32 *x, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        FLASH_AT(x, FLASH_INDEX(0)) = there_is_no_such_thing;
    }
}
