// One matrix product by oneDNN, made once and run many times. Exceptions of oneDNN become errors.
#ifndef TESSERA_CORE_KERNELS_CPU_ONEDNN_PRODUCT_H_
#define TESSERA_CORE_KERNELS_CPU_ONEDNN_PRODUCT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/tensor/dtype.h"

namespace tessera::cpu {

// Returns whether the processor has instructions for products of bf16 with sums in f32 (AVX-512
// BF16 or AMX on x86). They treat subnormal numbers as 0. ONEDNN_MAX_CPU_ISA can hide them.
bool MultipliesBFloat16();

// Returns the version of oneDNN and the number of the instruction set that it uses:
// "oneDNN 2.6.3 (ISA 7)".
std::string OnednnVersion();

// y = a b for each matrix of a batch: a is [rows, depth], b [depth, columns], y [rows, columns]. No
// size is 0. Sums are f32.
struct ProductShape {
  int64_t batch = 1;
  int64_t rows = 0, columns = 0, depth = 0;
  // Whether an operand is stored as the transpose, row-major: a as [depth, rows], b as [columns,
  // depth].
  bool transpose_a = false, transpose_b = false;
  // The elements from one row of an operand, as it is stored, to the next; 0: as many as a row has.
  // Only with batch = 1.
  int64_t a_pitch = 0, b_pitch = 0;
  // Whether to compute y += a b instead.
  bool accumulate = false;
  // The dtypes of a and b, and of y: f32, or bf16 for ProductMethod::kPrimitive if
  // MultipliesBFloat16(). y may be f32 where a and b are bf16.
  DType operands = DType::kF32, result = DType::kF32;
};

// An addition of an operand, of the dtype of y or of a and b, to y, before y is rounded and stored.
struct ProductEpilogue {
  // kAddRow adds a vector [columns] to each row, kAddFull a tensor of y's shape.
  enum Kind { kAddRow, kAddFull } kind;
  DType dtype = DType::kF32;  // of the operand
};

// The function of oneDNN that computes the product. Which one is faster depends on the processor
// and the shape; they differ by about 10 %.
enum class ProductMethod {
  kPrimitive,  // its matmul primitive
  // its sgemm, for f32 alone and without epilogues. While it runs, it allocates several MB for
  // packed operands.
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
  // Computes y. `scratch` has scratch_bytes(). `operands` are those of the epilogues, in their
  // order.
  absl::Status Run(const void* a, const void* b, void* y, void* scratch,
                   absl::Span<const void* const> operands = {});

 private:
  struct Prepared;
  explicit OnednnProduct(std::unique_ptr<Prepared> prepared);
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_ONEDNN_PRODUCT_H_
