#pragma OPENCL FP_CONTRACT OFF

typedef struct particle {
    float position[3];
    float velocity[3];
    float charge;
    uint hits;
} particle;

FLASH_KERNEL push(const float dt, const float field, FLASH_GLOBAL particle *particles, FLASH_ARGS) {
    FLASH_FOR_ITEMS {
        FLASH_GLOBAL particle *at = &FLASH_AT(particles, FLASH_INDEX(0));
        particle p = *at;
        const float t = field * p.charge * dt * 0.5f, s = 2.0f * t / (1.0f + t * t);
        const float x = p.velocity[0] + p.velocity[1] * t, y = p.velocity[1] - p.velocity[0] * t;
        p.velocity[0] += y * s;
        p.velocity[1] -= x * s;
        for (int axis = 0; axis < 3; ++axis) {
            p.position[axis] += p.velocity[axis] * dt;
            if (p.position[axis] < 0.0f || p.position[axis] > 1.0f) {
                p.velocity[axis] = -p.velocity[axis];
                p.position[axis] = clamp(p.position[axis], 0.0f, 1.0f);
                ++p.hits;
            }
        }
        *at = p;
    }
}
