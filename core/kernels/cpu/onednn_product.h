// One matrix product by oneDNN, made once and run many times. No exception of oneDNN's leaves here.
#ifndef TESSERA_CORE_KERNELS_CPU_ONEDNN_PRODUCT_H_
#define TESSERA_CORE_KERNELS_CPU_ONEDNN_PRODUCT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/tensor/dtype.h"

namespace tessera::cpu {

// Whether the processor has instructions for products of bf16 with sums in f32, as x86 has with
// AVX-512 BF16 or AMX. They take numbers below the smallest normal one as 0. ONEDNN_MAX_CPU_ISA can
// hide them.
bool MultipliesBFloat16();

// y = a b for each of a batch: a is [rows, depth], b [depth, columns], y [rows, columns], and
// nothing empty. Sums are f32.
struct ProductShape {
  int64_t batch = 1;
  int64_t rows = 0, columns = 0, depth = 0;
  // Where an operand lies as the transpose of that, row-major, [depth, rows] or [columns, depth].
  bool transpose_a = false, transpose_b = false;
  // y += a b.
  bool accumulate = false;
  // The dtypes of a and b, and of y: f32, or bf16 for ProductMethod::kPrimitive where
  // MultipliesBFloat16().
  DType operands = DType::kF32, result = DType::kF32;
};

// An addition to y, of y's dtype, before it is rounded and stored.
struct ProductEpilogue {
  // kAddRow adds a vector [columns] to each row, kAddFull a tensor of y's shape.
  enum Kind { kAddRow, kAddFull } kind;
};

// Which of oneDNN's ways is taken. Which is faster differs between processors and shapes by a
// tenth.
enum class ProductMethod {
  kPrimitive,  // its matmul primitive
  // Its sgemm, for f32 alone and without epilogues. It allocates memory of its own for the packed
  // operands, some MB for as long as it runs.
  kGemm,
};

// Not thread-safe.
class OnednnProduct {
 public:
  static absl::StatusOr<OnednnProduct> Make(ProductMethod method, const ProductShape& shape,
                                            absl::Span<const ProductEpilogue> epilogues,
                                            int threads);
  OnednnProduct(OnednnProduct&&) noexcept;
  OnednnProduct& operator=(OnednnProduct&&) noexcept;
  ~OnednnProduct();

  int64_t scratch_bytes() const;
  // `operands` are those of the epilogues, in their order.
  absl::Status Run(const void* a, const void* b, void* y, void* scratch,
                   absl::Span<const void* const> operands = {});

 private:
  struct Prepared;
  explicit OnednnProduct(std::unique_ptr<Prepared> prepared);
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_ONEDNN_PRODUCT_H_
