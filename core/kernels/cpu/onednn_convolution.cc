#include "core/kernels/cpu/onednn_convolution.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/kernels/cpu/aligned.h"
#include "core/kernels/cpu/onednn_engine.h"
#include "core/kernels/cpu/parallel.h"
#include "dnnl.hpp"

namespace tessera::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

std::string Describe(const ConvolutionSizes& s) {
  const PictureWindows& w = s.windows;
  return absl::StrCat("[", s.batch, ", ", w.height, ", ", w.width, ", ", s.in_channels, "] with ",
                      w.vertical.taps, " x ", w.horizontal.taps, " windows -> ", s.out_channels,
                      " channels in ", s.groups, " groups");
}

absl::Status ConvolutionError(const ConvolutionSizes& sizes, absl::string_view why) {
  return absl::InternalError(
      absl::StrCat("oneDNN, convolution of ", Describe(sizes), ": ", std::string(why)));
}

// Describes pictures; oneDNN names their dimensions in the order batch, channels, height, width,
// however they lie.
memory::desc Pictures(DType dtype, int64_t batch, int64_t channels, int64_t height, int64_t width) {
  return {{batch, channels, height, width}, OnednnType(dtype), Tag::nhwc};
}

// Describes the weight: as it lies, or in the format that oneDNN chooses.
memory::desc Weight(DType dtype, const ConvolutionSizes& s, bool as_it_lies) {
  const int64_t height = s.windows.vertical.taps, width = s.windows.horizontal.taps;
  if (s.groups == 1) {
    return {{s.out_channels, s.in_channels, height, width},
            OnednnType(dtype),
            as_it_lies ? Tag::ohwi : Tag::any};
  }
  return {{s.groups, s.group_out(), s.group_in(), height, width},
          OnednnType(dtype),
          as_it_lies ? Tag::gohwi : Tag::any};
}

// The windows, as oneDNN takes them.
struct Windows {
  memory::dims strides, dilations, padding;

  explicit Windows(const PictureWindows& windows) {
    for (const SlidingWindow& window : {windows.vertical, windows.horizontal}) {
      strides.push_back(window.stride);
      dilations.push_back(window.dilation - 1);
      padding.push_back(window.padding);
    }
  }
};

}  // namespace

struct OnednnConvolution::Prepared {
  // A primitive with its arguments, which are entries of `memories`.
  struct Step {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> arguments;
  };
  // The entries of `memories`. x, y and the weight are values or their gradients.
  enum : size_t { kX, kY, kWeight, kBias, kPacked, kScratch, kReorderScratch, kMemories };

  ConvolutionResult result;
  ConvolutionSizes sizes;
  DTypes dtypes;
  int threads;
  dnnl::stream stream;
  dnnl::primitive_attr attributes;
  std::vector<memory> memories;
  std::vector<Step> steps;
  int64_t packed_bytes = 0;  // 0: the weight is used as it lies
  int64_t scratch_bytes = 0;

  Prepared(ConvolutionResult result, const ConvolutionSizes& sizes, const DTypes& dtypes,
           int threads)
      : result(result),
        sizes(sizes),
        dtypes(dtypes),
        threads(threads),
        stream(OnednnEngine()),
        memories(kMemories) {
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    AddSteps();
  }

  DType DTypeOf(ConvolutionResult operand) const {
    return operand == result ? dtypes.result : dtypes.operands;
  }

  memory::desc X(DType dtype) const {
    return Pictures(dtype, sizes.batch, sizes.in_channels, sizes.windows.height,
                    sizes.windows.width);
  }
  memory::desc Y(DType dtype) const {
    return Pictures(dtype, sizes.batch, sizes.out_channels, sizes.windows.out_height,
                    sizes.windows.out_width);
  }
  // Describes the bias; without one, the result has no dimensions.
  memory::desc Bias() const {
    if (!dtypes.bias.has_value()) return {};
    return {{sizes.out_channels}, OnednnType(*dtypes.bias), Tag::x};
  }

  dnnl::convolution_forward::primitive_desc Forward(DType stored) const {
    const Windows w(sizes.windows);
    return {{dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct,
             X(dtypes.operands), Weight(dtypes.operands, sizes, /*as_it_lies=*/false), Bias(),
             Y(stored), w.strides, w.dilations, w.padding, w.padding},
            attributes,
            OnednnEngine()};
  }

  dnnl::convolution_backward_data::primitive_desc BackwardData() const {
    const Windows w(sizes.windows);
    return {{dnnl::algorithm::convolution_direct, X(dtypes.result),
             Weight(dtypes.operands, sizes, /*as_it_lies=*/false), Y(dtypes.operands), w.strides,
             w.dilations, w.padding, w.padding},
            attributes,
            OnednnEngine(),
            Forward(dtypes.operands)};
  }

  dnnl::convolution_backward_weights::primitive_desc BackwardWeight() const {
    const Windows w(sizes.windows);
    return {{dnnl::algorithm::convolution_direct, X(dtypes.operands),
             Weight(dtypes.result, sizes, /*as_it_lies=*/false), Y(dtypes.operands), w.strides,
             w.dilations, w.padding, w.padding},
            attributes,
            OnednnEngine(),
            Forward(dtypes.operands)};
  }

  void AddSteps() {
    switch (result) {
      case ConvolutionResult::kY: {
        const auto chosen = Forward(dtypes.result);
        PackWeight(chosen.weights_desc(), chosen.scratchpad_desc());
        std::vector<std::pair<int, size_t>> arguments = {{DNNL_ARG_SRC, kX},
                                                         {DNNL_ARG_WEIGHTS, PackedWeight()},
                                                         {DNNL_ARG_DST, kY},
                                                         {DNNL_ARG_SCRATCHPAD, kScratch}};
        if (dtypes.bias.has_value()) {
          memories[kBias] = UnboundMemory(Bias());
          arguments.emplace_back(DNNL_ARG_BIAS, kBias);
        }
        AddStep(dnnl::convolution_forward(chosen), arguments);
        return;
      }
      case ConvolutionResult::kDx: {
        const auto chosen = BackwardData();
        PackWeight(chosen.weights_desc(), chosen.scratchpad_desc());
        AddStep(dnnl::convolution_backward_data(chosen), {{DNNL_ARG_DIFF_DST, kY},
                                                          {DNNL_ARG_WEIGHTS, PackedWeight()},
                                                          {DNNL_ARG_DIFF_SRC, kX},
                                                          {DNNL_ARG_SCRATCHPAD, kScratch}});
        return;
      }
      case ConvolutionResult::kDweight: {
        const auto chosen = BackwardWeight();
        DescribeMemories(chosen.diff_weights_desc(), chosen.scratchpad_desc());
        AddStep(dnnl::convolution_backward_weights(chosen),
                {{DNNL_ARG_SRC, kX},
                 {DNNL_ARG_DIFF_DST, kY},
                 {DNNL_ARG_DIFF_WEIGHTS, PackedWeight()},
                 {DNNL_ARG_SCRATCHPAD, kScratch}});
        if (packed_bytes > 0) AddReorder(kPacked, kWeight);
        return;
      }
    }
  }

  // Returns the entry of the weight that the convolution uses.
  size_t PackedWeight() const { return packed_bytes > 0 ? kPacked : kWeight; }

  // Describes the operands and the scratch memory of a convolution. The packed weight is the first
  // part of the scratch memory.
  void DescribeMemories(const memory::desc& packed, const memory::desc& scratch) {
    const DType weight_dtype = DTypeOf(ConvolutionResult::kDweight);
    const memory::desc weight = Weight(weight_dtype, sizes, /*as_it_lies=*/true);
    memories[kX] = UnboundMemory(X(DTypeOf(ConvolutionResult::kDx)));
    memories[kY] = UnboundMemory(Y(DTypeOf(ConvolutionResult::kY)));
    memories[kWeight] = UnboundMemory(weight);
    memories[kPacked] = UnboundMemory(packed);
    memories[kScratch] = UnboundMemory(scratch);
    packed_bytes = packed == weight ? 0 : Aligned(static_cast<int64_t>(packed.get_size()));
    scratch_bytes = packed_bytes + static_cast<int64_t>(scratch.get_size());
    memories[kReorderScratch] = UnboundMemory(scratch);
  }

  void PackWeight(const memory::desc& packed, const memory::desc& scratch) {
    DescribeMemories(packed, scratch);
    if (packed_bytes > 0) AddReorder(kWeight, kPacked);
  }

  void AddReorder(size_t from, size_t to) {
    const dnnl::reorder::primitive_desc reorder(OnednnEngine(), memories[from].get_desc(),
                                                OnednnEngine(), memories[to].get_desc(),
                                                attributes);
    memories[kReorderScratch] = UnboundMemory(reorder.scratchpad_desc());
    scratch_bytes = std::max(
        scratch_bytes, packed_bytes + static_cast<int64_t>(reorder.scratchpad_desc().get_size()));
    AddStep(dnnl::reorder(reorder),
            {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, kReorderScratch}});
  }

  void AddStep(dnnl::primitive primitive, const std::vector<std::pair<int, size_t>>& arguments) {
    Step step = {std::move(primitive), {}};
    for (const auto& [index, entry] : arguments) {
      step.arguments.push_back({index, memories[entry].get()});
    }
    steps.push_back(std::move(step));
  }

  // Sets the address of an entry of `memories`. Returns whether oneDNN accepts it.
  bool SetAddress(size_t entry, const void* data) {
    return dnnl_memory_set_data_handle_v2(memories[entry].get(), const_cast<void*>(data),
                                          stream.get()) == dnnl_success;
  }

  // Uses the C interface, which neither throws nor allocates.
  bool Run(const void* first, const void* second, const void* bias, void* output, void* scratch) {
    bool ok = !dtypes.bias.has_value() || SetAddress(kBias, bias);
    switch (result) {
      case ConvolutionResult::kY:
        ok = ok && SetAddress(kX, first) && SetAddress(kWeight, second) && SetAddress(kY, output);
        break;
      case ConvolutionResult::kDx:
        ok = ok && SetAddress(kY, first) && SetAddress(kWeight, second) && SetAddress(kX, output);
        break;
      case ConvolutionResult::kDweight:
        ok = ok && SetAddress(kY, first) && SetAddress(kX, second) && SetAddress(kWeight, output);
        break;
    }
    void* const rest = static_cast<char*>(scratch) + packed_bytes;
    ok = ok && SetAddress(kPacked, scratch) && SetAddress(kScratch, rest) &&
         SetAddress(kReorderScratch, rest);
    for (const Step& step : steps) {
      ok = ok && dnnl_primitive_execute(step.primitive.get(), stream.get(),
                                        static_cast<int>(step.arguments.size()),
                                        step.arguments.data()) == dnnl_success;
    }
    return ok && dnnl_stream_wait(stream.get()) == dnnl_success;
  }
};

OnednnConvolution::OnednnConvolution(std::unique_ptr<Prepared> prepared)
    : prepared_(std::move(prepared)) {}
OnednnConvolution::OnednnConvolution(OnednnConvolution&&) noexcept = default;
OnednnConvolution& OnednnConvolution::operator=(OnednnConvolution&&) noexcept = default;
OnednnConvolution::~OnednnConvolution() = default;

absl::StatusOr<OnednnConvolution> OnednnConvolution::Make(ConvolutionResult result,
                                                          const ConvolutionSizes& sizes,
                                                          const DTypes& dtypes, int threads) {
  // oneDNN splits its work by the number of threads that it finds here.
  const ThreadCount count(threads);
  try {
    return OnednnConvolution(std::make_unique<Prepared>(result, sizes, dtypes, threads));
  } catch (const std::exception& error) {
    return ConvolutionError(sizes, error.what());
  }
}

int64_t OnednnConvolution::scratch_bytes() const { return prepared_->scratch_bytes; }

absl::Status OnednnConvolution::Run(const void* first, const void* second, const void* bias,
                                    void* output, void* scratch) {
  const ThreadCount count(prepared_->threads);
  try {
    return prepared_->Run(first, second, bias, output, scratch)
               ? absl::OkStatus()
               : ConvolutionError(prepared_->sizes, "cannot run");
  } catch (const std::exception& error) {
    return ConvolutionError(prepared_->sizes, error.what());
  }
}

}  // namespace tessera::cpu
