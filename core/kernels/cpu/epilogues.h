// The epilogues of matrix products and convolutions.
#ifndef TESSERA_CORE_KERNELS_CPU_EPILOGUES_H_
#define TESSERA_CORE_KERNELS_CPU_EPILOGUES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/kernels/cpu/onednn_product.h"
#include "core/kernels/interface/kernel.h"

namespace tessera::cpu {

// A kernel that runs an epilogue separately, on the stored result.
struct StoredEpilogue {
  const Kernel* kernel;
  KernelRequest request;
};

// The epilogues of a product: additions first, then at most one elementwise operator without other
// operands, an activation. A cast to f32 may stand anywhere between them: the product and its
// additions are f32 until they are stored. oneDNN's activations are not used, because they round
// differently from our kernels and its relu turns NaN into 0, so results would depend on whether
// operators were fused.
struct Epilogues {
  std::vector<ProductEpilogue> additions;
  std::vector<StoredEpilogue> stored_additions;  // the same additions as kernels of "add"
  std::vector<StoredEpilogue> activation;        // none or one
};

// Appends the request's epilogues to `epilogues`. Their operands follow `own_inputs` inputs of the
// operator. Returns false if one of them is neither an addition, nor an activation in the last
// place, nor a cast to f32.
bool ReadEpilogues(const KernelRequest& request, size_t own_inputs, Epilogues* epilogues);

// Epilogues that are run on a stored result. Not thread-safe.
class BoundEpilogues {
 public:
  static absl::StatusOr<BoundEpilogues> Bind(const std::vector<StoredEpilogue>& epilogues);

  // Runs them in place, in their order, on one part of the result after the other: each part is
  // still in a cache when the next epilogue reads it. `operands` are those of additions, in their
  // order. All tensors are row-major.
  absl::Status Run(const TensorView& y, absl::Span<const TensorView> operands);

 private:
  struct Bound {
    KernelRequest request;
    std::unique_ptr<BoundKernel> kernel;
  };
  // The epilogues on as many rows.
  struct Part {
    int64_t rows = 0;
    std::vector<std::vector<Bound>> of_worker;
  };
  static absl::StatusOr<Part> BindPart(const std::vector<StoredEpilogue>& epilogues, int64_t rows);
  static absl::Status RunPart(absl::Span<const Bound> bound, const TensorView& y,
                              absl::Span<const TensorView> operands, int64_t first, int64_t rows);

  int threads_ = 1;
  int64_t rows_ = 0;
  Part part_, last_;  // the last one has fewer rows, or none
};

// Returns `inner` with additions and an activation, which are run on its stored output 0. Its
// operator has `own_inputs` inputs. In 16 bits `inner` runs the additions itself, before it rounds.
std::unique_ptr<const Kernel> WithStoredEpilogues(size_t own_inputs,
                                                  std::unique_ptr<const Kernel> inner);

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_EPILOGUES_H_
