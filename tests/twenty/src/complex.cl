#pragma OPENCL FP_CONTRACT OFF

FLASH_FUNCTION float2 product(const float2 a, const float2 b) {
    return (float2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

FLASH_KERNEL complex(FLASH_GLOBAL const float2 *coefficients, FLASH_GLOBAL const float2 *z,
                     FLASH_GLOBAL float2 *value, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        const flash_u64 i = FLASH_INDEX(0);
        const float2 at = FLASH_AT(z, i);
        float2 sum = 0;
        for (flash_u64 c = FLASH_LEN(coefficients); c-- > 0;)
            sum = product(sum, at) + FLASH_AT(coefficients, c);
        const float square = at.x * at.x + at.y * at.y;
        FLASH_AT(value, i) = square == 0 ? 0 : product(sum, (float2)(at.x, -at.y)) / square;
    }
}
