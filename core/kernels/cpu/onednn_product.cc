#include "core/kernels/cpu/onednn_product.h"

#include <exception>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/kernels/cpu/onednn_engine.h"
#include "core/kernels/cpu/parallel.h"
#include "core/status/check.h"
#include "dnnl.hpp"

namespace tessera::cpu {
namespace {

using dnnl::memory;

// Describes a batch of matrices, one after another. `pitch` is as in ProductShape.
memory::desc Matrices(DType dtype, int64_t batch, int64_t rows, int64_t columns, bool transposed,
                      int64_t pitch = 0) {
  const int64_t stored = pitch > 0 ? pitch : (transposed ? rows : columns);
  const int64_t row = transposed ? 1 : stored, column = transposed ? stored : 1;
  if (batch == 1) {
    return memory::desc({rows, columns}, OnednnType(dtype), memory::dims{row, column});
  }
  return memory::desc({batch, rows, columns}, OnednnType(dtype),
                      memory::dims{rows * columns, row, column});
}

memory::desc Row(DType dtype, int64_t batch, int64_t columns) {
  return batch == 1
             ? memory::desc({1, columns}, OnednnType(dtype), memory::dims{columns, 1})
             : memory::desc({1, 1, columns}, OnednnType(dtype), memory::dims{columns, columns, 1});
}

std::string Describe(const ProductShape& s) {
  return absl::StrCat(s.batch, " x ", DTypeName(s.operands), " [", s.rows, ", ", s.depth, "] x [",
                      s.depth, ", ", s.columns, "]");
}

absl::Status ProductError(const ProductShape& shape, absl::string_view why) {
  return absl::InternalError(absl::StrCat("oneDNN, product ", Describe(shape), ": ", why));
}

}  // namespace

bool MultipliesBFloat16() {
  // The values are bit sets: a processor with more features has all of these bits.
  constexpr auto kNeeded = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kNeeded) == kNeeded;
}

std::string OnednnVersion() {
  const dnnl_version_t& version = *dnnl::version();
  return absl::StrCat("oneDNN ", version.major, ".", version.minor, ".", version.patch, " (ISA ",
                      static_cast<int>(dnnl::get_effective_cpu_isa()), ")");
}

struct OnednnProduct::Prepared {
  struct Argument {
    int index;
    memory value;
  };
  ProductMethod method;
  ProductShape shape;
  int threads;
  // For ProductMethod::kPrimitive only:
  dnnl::stream stream;
  dnnl::matmul primitive;
  int64_t scratch_bytes = 0;
  std::vector<Argument> operands;          // of epilogues
  std::vector<memory> memories;            // a, b, y, scratch, then the operands
  std::vector<dnnl_exec_arg_t> arguments;  // the same, as the primitive takes them

  // A product by sgemm.
  Prepared(const ProductShape& shape, int threads)
      : method(ProductMethod::kGemm), shape(shape), threads(threads) {}

  Prepared(const ProductShape& shape, absl::Span<const ProductEpilogue> epilogues, int threads)
      : method(ProductMethod::kPrimitive), shape(shape), threads(threads), stream(OnednnEngine()) {
    const int64_t batch = shape.batch;
    const memory::desc a =
        Matrices(shape.operands, batch, shape.rows, shape.depth, shape.transpose_a, shape.a_pitch);
    const memory::desc b = Matrices(shape.operands, batch, shape.depth, shape.columns,
                                    shape.transpose_b, shape.b_pitch);
    const auto matrices_as_y = [&](DType dtype) {
      return Matrices(dtype, batch, shape.rows, shape.columns, false);
    };
    const memory::desc y = matrices_as_y(shape.result);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::post_ops post;
    memory::desc bias;
    if (shape.accumulate) post.append_sum(1.0f);
    for (const ProductEpilogue& epilogue : epilogues) {
      switch (epilogue.kind) {
        case ProductEpilogue::kAddRow: {
          const memory::desc row = Row(epilogue.dtype, batch, shape.columns);
          // The first row is passed as oneDNN's own bias.
          if (post.len() == 0 && bias.is_zero()) {
            bias = row;
            operands.push_back({DNNL_ARG_BIAS, UnboundMemory(bias)});
          } else {
            AddOperand(row, post);
          }
          break;
        }
        case ProductEpilogue::kAddFull:
          AddOperand(matrices_as_y(epilogue.dtype), post);
          break;
      }
    }
    attributes.set_post_ops(post);
    const dnnl::matmul::desc description =
        bias.is_zero() ? dnnl::matmul::desc(a, b, y) : dnnl::matmul::desc(a, b, bias, y);
    const dnnl::matmul::primitive_desc chosen(description, attributes, OnednnEngine());
    scratch_bytes = static_cast<int64_t>(chosen.scratchpad_desc().get_size());
    primitive = dnnl::matmul(chosen);

    AddArgument(DNNL_ARG_SRC, UnboundMemory(a));
    AddArgument(DNNL_ARG_WEIGHTS, UnboundMemory(b));
    AddArgument(DNNL_ARG_DST, UnboundMemory(y));
    AddArgument(DNNL_ARG_SCRATCHPAD, UnboundMemory(chosen.scratchpad_desc()));
    for (const Argument& operand : operands) AddArgument(operand.index, operand.value);
  }

  // Adds an operand that is added to the product after all before it.
  void AddOperand(const memory::desc& desc, dnnl::post_ops& post) {
    operands.push_back(
        {DNNL_ARG_ATTR_MULTIPLE_POST_OP(post.len()) | DNNL_ARG_SRC_1, UnboundMemory(desc)});
    post.append_binary(dnnl::algorithm::binary_add, desc);
  }

  // Adds an argument of the primitive, whose address SetAddress() sets for each run.
  void AddArgument(int index, memory value) {
    memories.push_back(std::move(value));
    arguments.push_back({index, memories.back().get()});
  }

  // Runs sgemm for each product of the batch. Returns whether all succeed. Uses the C interface,
  // which does not throw.
  bool RunGemm(const void* a_data, const void* b_data, void* y_data) const {
    const ProductShape& s = shape;
    const auto* const a = static_cast<const float*>(a_data);
    const auto* const b = static_cast<const float*>(b_data);
    auto* const y = static_cast<float*>(y_data);
    const int64_t a_pitch = s.a_pitch > 0 ? s.a_pitch : (s.transpose_a ? s.rows : s.depth);
    const int64_t b_pitch = s.b_pitch > 0 ? s.b_pitch : (s.transpose_b ? s.depth : s.columns);
    for (int64_t i = 0; i < s.batch; ++i) {
      if (dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.rows, s.columns,
                     s.depth, 1.0f, a + i * s.rows * s.depth, a_pitch, b + i * s.depth * s.columns,
                     b_pitch, s.accumulate ? 1.0f : 0.0f, y + i * s.rows * s.columns,
                     s.columns) != dnnl_success) {
        return false;
      }
    }
    return true;
  }

  // Sets the address of an entry of `memories`. Returns whether oneDNN accepts it.
  bool SetAddress(size_t i, const void* data) {
    return dnnl_memory_set_data_handle_v2(memories[i].get(), const_cast<void*>(data),
                                          stream.get()) == dnnl_success;
  }

  bool RunPrimitive(const void* a, const void* b, void* y, void* scratch,
                    absl::Span<const void* const> extra) {
    bool is_set =
        SetAddress(0, a) && SetAddress(1, b) && SetAddress(2, y) && SetAddress(3, scratch);
    for (size_t i = 0; i < extra.size(); ++i) is_set = is_set && SetAddress(4 + i, extra[i]);
    return is_set &&
           dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(arguments.size()),
                                  arguments.data()) == dnnl_success &&
           dnnl_stream_wait(stream.get()) == dnnl_success;
  }
};

OnednnProduct::OnednnProduct(std::unique_ptr<Prepared> prepared) : prepared_(std::move(prepared)) {}
OnednnProduct::OnednnProduct(OnednnProduct&&) noexcept = default;
OnednnProduct& OnednnProduct::operator=(OnednnProduct&&) noexcept = default;
OnednnProduct::~OnednnProduct() = default;

absl::StatusOr<OnednnProduct> OnednnProduct::Make(ProductMethod method, const ProductShape& shape,
                                                  absl::Span<const ProductEpilogue> epilogues,
                                                  int threads) {
  if (method == ProductMethod::kGemm) {
    if (!epilogues.empty()) return ProductError(shape, "sgemm takes no epilogues");
    if (shape.operands != DType::kF32 || shape.result != DType::kF32) {
      return ProductError(shape, "sgemm takes f32");
    }
    return OnednnProduct(std::make_unique<Prepared>(shape, threads));
  }
  // oneDNN splits its work by the number of threads that it finds here.
  const ThreadCount count(threads);
  try {
    return OnednnProduct(std::make_unique<Prepared>(shape, epilogues, threads));
  } catch (const std::exception& error) {
    return ProductError(shape, error.what());
  }
}

int64_t OnednnProduct::scratch_bytes() const { return prepared_->scratch_bytes; }

absl::Status OnednnProduct::Run(const void* a, const void* b, void* y, void* scratch,
                                absl::Span<const void* const> operands) {
  Prepared& p = *prepared_;
  TESSERA_CHECK(operands.size() == p.operands.size())
      << operands.size() << " operands for " << p.operands.size();
  const ThreadCount count(p.threads);
  try {
    const bool ran = p.method == ProductMethod::kGemm ? p.RunGemm(a, b, y)
                                                      : p.RunPrimitive(a, b, y, scratch, operands);
    return ran ? absl::OkStatus() : ProductError(p.shape, "cannot run");
  } catch (const std::exception& error) {
    return ProductError(p.shape, error.what());
  }
}

}  // namespace tessera::cpu

#ifdef __SANITIZE_THREAD__
// Debian's oneDNN is built without ThreadSanitizer, which cannot see how its cache of primitives
// synchronises ranks that are threads of one process.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_suppressions() { return "called_from_lib:libdnnl.so\n"; }
#endif
