#ifndef TESSERA_THIRD_PARTY_CUDA_DOUBLED_H_
#define TESSERA_THIRD_PARTY_CUDA_DOUBLED_H_

namespace tessera {

// Doubles `values` in place, `count` numbers in host memory, on the current GPU. Returns whether
// the GPU did it.
bool DoubleOnGpu(float* values, int count);

}  // namespace tessera

#endif  // TESSERA_THIRD_PARTY_CUDA_DOUBLED_H_
