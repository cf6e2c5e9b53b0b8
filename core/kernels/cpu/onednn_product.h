// One matrix product by oneDNN, made once and run many times. No exception of oneDNN's leaves here.
#ifndef TESSERA_CORE_KERNELS_CPU_ONEDNN_PRODUCT_H_
#define TESSERA_CORE_KERNELS_CPU_ONEDNN_PRODUCT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tessera::cpu {

// y = a b for each of a batch: a is [rows, depth], b [depth, columns], y [rows, columns], all fp32
// and nothing empty.
struct ProductShape {
  int64_t batch = 1;
  int64_t rows = 0, columns = 0, depth = 0;
  // Where an operand lies as the transpose of that, row-major, [depth, rows] or [columns, depth].
  bool transpose_a = false, transpose_b = false;
  // y += a b.
  bool accumulate = false;
};

// An addition to y before it is stored.
struct ProductEpilogue {
  // kAddRow adds a vector [columns] to each row, kAddFull a tensor of y's shape.
  enum Kind { kAddRow, kAddFull } kind;
};

// Which of oneDNN's ways is taken. Which is faster differs between processors and shapes by a
// tenth.
enum class ProductMethod {
  kPrimitive,  // its matmul primitive
  // Its sgemm, which takes no epilogues. It allocates memory of its own for the packed operands,
  // some MB for as long as it runs.
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
  absl::Status Run(const float* a, const float* b, float* y, void* scratch,
                   absl::Span<const float* const> operands = {});

 private:
  struct Prepared;
  explicit OnednnProduct(std::unique_ptr<Prepared> prepared);
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_ONEDNN_PRODUCT_H_
