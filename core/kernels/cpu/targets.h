// The processors for which the vector kernels are compiled. Each file of kernels includes this
// before any header of Highway. The target is chosen when the program runs.
//
// On x86 these are AVX-512 ("AVX3"), AVX2 with FMA, and one lane at a time for older processors.
// Targets whose vectors have no fixed size are disabled, because kernels have arrays of vectors.
#ifndef TESSERA_CORE_KERNELS_CPU_TARGETS_H_
#define TESSERA_CORE_KERNELS_CPU_TARGETS_H_

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

#endif  // TESSERA_CORE_KERNELS_CPU_TARGETS_H_
