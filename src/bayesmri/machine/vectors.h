/* Vectors of 16 floats, in memory wherever they are; compilers cut them to what the processor has. */
#include <stdint.h>
#include <string.h>

#define B 16
typedef float V __attribute__((vector_size(64), aligned(4)));
typedef int32_t I __attribute__((vector_size(64), aligned(4)));
/* What one register holds of them, for sums that have to stay in registers. */
#if defined(__AVX512F__)
#define WIDTH 16
#elif defined(__AVX__)
#define WIDTH 8
#else
#define WIDTH 4
#endif
typedef float Part __attribute__((vector_size(4 * WIDTH), aligned(4)));
#define INLINE static inline __attribute__((always_inline))

INLINE V load(const float *x) { return *(const V *)x; }
INLINE void store(float *x, V v) { *(V *)x = v; }
