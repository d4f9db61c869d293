// N-body in C++: nbody KEY [BODIES [STEPS]] prints the kinetic energy after each step.
#include "flash.hpp"
#include "problem.h"

#include <string>

using vec3 = std::array<float, 3>;

static void run(const std::string &key, uint64_t n, int steps)
{
    std::vector<float> masses(n);
    std::vector<vec3> positions(n), velocities(n);
    generate(n, masses.data(), positions.data()->data(), velocities.data()->data());

    // host
    flash::runtime rt(key);
    flash::kernel accelerate(rt, "flash.nbody.accelerate"), integrate(rt, "flash.nbody.integrate");
    flash::memory mass(masses), pos(positions), vel(velocities), acc = flash::memory::zeroed<vec3>({n});
    flash::pipeline step(rt);
    step.submit(accelerate, {gravity, softening2, pos, mass, acc}, {n});
    step.submit(integrate, {dt, acc, pos, vel}, {n});
    for (int i = 1; i <= steps; i++) {
        step.exec();
        report(i, n, masses.data(), vel.read<vec3>().begin()->data());
    }
    // end host
}

int main(int argc, char **argv)
{
    try {
        run(argc > 1 ? argv[1] : "ALL_ACCEL", argc > 2 ? std::stoull(argv[2]) : 16000,
            argc > 3 ? std::stoi(argv[3]) : 10);
        return EXIT_SUCCESS;
    } catch (const std::exception &error) {
        fprintf(stderr, "nbody: %s\n", error.what());
        return EXIT_FAILURE;
    }
}
