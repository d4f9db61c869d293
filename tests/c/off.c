/* A plugin of kernels only: `flash.nbody.integrate` in single precision, for the device of backend.c and no
 * other, that puts body 17 off by a factor. `flash diff` is to find that. */
#include "flash_backend.h"

#ifndef OFF_BY
#define OFF_BY 1e-5f
#endif

typedef struct {
    float of[3];
} vector;

/* dt, acc, pos, vel */
static int integrate(FLASH_ARGS) {
    const float dt = FLASH_SCALAR(float, 0);
    FLASH_FOR_ITEMS {
        const uint64_t i = FLASH_INDEX(0);
        const vector *a = &FLASH_AT(const vector, 1, i);
        vector *x = &FLASH_AT(vector, 2, i), *v = &FLASH_AT(vector, 3, i);
        for (int k = 0; k < 3; ++k) {
            v->of[k] += a->of[k] * dt;
            x->of[k] += v->of[k] * dt;
            if (i == 17)
                x->of[k] *= 1 + OFF_BY;
        }
    }
    return 0;
}

static const flash_attr only[] = { { .key = FLASH_STR("device"), .value = FLASH_STR("\"one thread, in C\"") } };

static const flash_implementation off = {
    .struct_size = sizeof off, .door = FLASH_DOOR_SPAN, .kind = FLASH_KIND_INT_BIN, .priority = 10,
    .kernel = FLASH_STR("flash.nbody.integrate"), .name = FLASH_STR("off"), .target = FLASH_STR("cpu"),
    .descriptor = FLASH_STR("[1](f32, Item<Read<[f32; 3]>> along [0], Item<ReadWrite<[f32; 3]>> along [0], "
                            "Item<ReadWrite<[f32; 3]>> along [0])"),
    .attributes = only, .attribute_count = 1, .span = integrate,
};

FLASH_KERNELS("off", "1.0", &off)
