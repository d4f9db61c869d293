/* The head of the sources for CPUs: vectors of FLASH_T, float or double, of a register of 512 bits. */

#define PASTE(a, b) a##b
#define JOIN(a, b) PASTE(a, b)
#define LANES_float 16
#define LANES_double 8
#define LANES JOIN(LANES_, FLASH_T)
#define VECTOR JOIN(FLASH_T, LANES)
#define LOAD JOIN(vload, LANES)
#define STORE JOIN(vstore, LANES)
