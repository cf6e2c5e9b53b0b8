// The kernels of attention that multiply pairs of bf16.
#ifndef TESSERA_CORE_KERNELS_CPU_ATTENTION_H_
#define TESSERA_CORE_KERNELS_CPU_ATTENTION_H_

#include "core/kernels/interface/kernel_list.h"

namespace tessera::cpu {

// Adds the kernels "highway_bf16" of attention and its gradient, which take bf16 and multiply pairs
// of bf16. They are candidates if MultipliesBFloat16(). Without AVX-512 they multiply in f32
// instead, slowly, so that tests can run them; with AVX-512 they need its instructions for bf16.
void AddBFloat16AttentionKernels(KernelList& list);

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_ATTENTION_H_
