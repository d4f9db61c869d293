/* N-body in C: nbody KEY [BODIES [STEPS]] prints the kinetic energy after each step. */
#include "flash.h"
#include "problem.h"

/* Ends the program with the library's words. */
static void check(int32_t status)
{
    if (status != FLASH_STATUS_OK) {
        fprintf(stderr, "nbody: %s\n", flash_last_error());
        exit(EXIT_FAILURE);
    }
}

/* Prints the energy of a step. */
static void observe(int step, uint64_t n, const float *masses, const flash_memory *vel)
{
    const void *now;
    check(flash_memory_map_read(vel, 0, n, &now));
    report(step, n, masses, now);
    check(flash_memory_unmap(vel, now));
}

int main(int argc, char **argv)
{
    const char *key = argc > 1 ? argv[1] : "ALL_ACCEL";
    uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 16000;
    int steps = argc > 3 ? atoi(argv[3]) : 10;
    float *masses = malloc(n * 4), *positions = malloc(n * 12), *velocities = malloc(n * 12);
    generate(n, masses, positions, velocities);

    // host
    flash_runtime *rt;
    flash_named_kernel *accelerate, *integrate;
    flash_memory *mass, *pos, *vel, *acc;
    flash_pipeline *step;
    check(flash_runtime_open(key, NULL, &rt));
    check(flash_kernel_find(rt, "flash.nbody.accelerate", &accelerate));
    check(flash_kernel_find(rt, "flash.nbody.integrate", &integrate));
    check(flash_memory_create("f32", 1, &n, masses, &mass));
    check(flash_memory_create("[f32; 3]", 1, &n, positions, &pos));
    check(flash_memory_create("[f32; 3]", 1, &n, velocities, &vel));
    check(flash_memory_create("[f32; 3]", 1, &n, NULL, &acc));
    check(flash_pipeline_create(rt, &step));
    check(flash_pipeline_submit(step, accelerate, FLASH_VALUES(flash_as_f32(gravity), flash_as_f32(softening2),
        flash_as_array(pos), flash_as_array(mass), flash_as_array(acc)), FLASH_DIMENSIONS(flash_count(n)), NULL));
    check(flash_pipeline_submit(step, integrate, FLASH_VALUES(flash_as_f32(dt), flash_as_array(acc),
        flash_as_array(pos), flash_as_array(vel)), FLASH_DIMENSIONS(flash_count(n)), NULL));
    for (int i = 1; i <= steps; i++) {
        check(flash_pipeline_exec(step));
        observe(i, n, masses, vel);
    }
    // end host

    check(flash_pipeline_free(step));
    check(flash_kernel_free(accelerate));
    check(flash_kernel_free(integrate));
    flash_memory *memories[] = {mass, pos, vel, acc};
    for (int i = 0; i < 4; i++)
        check(flash_memory_free(memories[i]));
    check(flash_runtime_close(rt));
    free(masses);
    free(positions);
    free(velocities);
    return EXIT_SUCCESS;
}
