// The engine on which all primitives of oneDNN run, and oneDNN's names of dtypes.
#ifndef TESSERA_CORE_KERNELS_CPU_ONEDNN_ENGINE_H_
#define TESSERA_CORE_KERNELS_CPU_ONEDNN_ENGINE_H_

#include "core/tensor/dtype.h"
#include "dnnl.hpp"

namespace tessera::cpu {

inline const dnnl::engine& OnednnEngine() {
  static const auto* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

// `dtype` is f32 or bf16.
inline dnnl::memory::data_type OnednnType(DType dtype) {
  return dtype == DType::kBF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

// Returns a memory whose address is set for each run.
inline dnnl::memory UnboundMemory(const dnnl::memory::desc& desc) {
  return {desc, OnednnEngine(), nullptr};
}

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_ONEDNN_ENGINE_H_
