#include "collectives/reduce/reduce.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hwy/cache_control.h"

// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/reduce.cc"
#include "hwy/foreach_target.h"
// Must follow foreach_target.h.
#include "collectives/reduce/halves-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::comm {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class V>
HWY_INLINE V Larger(V a, V b) {
  if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
    return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
  } else {
    return hn::IfThenElse(hn::Gt(a, b), a, b);
  }
}

template <class V>
HWY_INLINE V Smaller(V a, V b) {
  if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
    return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
  } else {
    return hn::IfThenElse(hn::Lt(a, b), a, b);
  }
}

// Writes result[i] = reduction of a[i] and b[i], for i below `count`, and the same to `copy` unless
// it is null. `result` and `copy` may be a or b. `stream`: uses non-temporal stores if there is no
// copy; call hwy::FlushStream() after the last.
template <typename T, Reduction kReduction>
void Combine(const void* a_data, const void* b_data, int64_t count, void* result_data,
             void* copy_data, bool stream) {
  const T* const a = static_cast<const T*>(a_data);
  const T* const b = static_cast<const T*>(b_data);
  T* const result = static_cast<T*>(result_data);
  T* const copy = static_cast<T*>(copy_data);
  const auto combine = [a, b](auto tag, int64_t i) {
    const auto x = hn::LoadU(tag, a + i), y = hn::LoadU(tag, b + i);
    if constexpr (kReduction == Reduction::kMax) return Larger(x, y);
    if constexpr (kReduction == Reduction::kMin) return Smaller(x, y);
    return hn::Add(x, y);
  };
  const hn::ScalableTag<T> tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  const hn::CappedTag<T, 1> one;
  int64_t i = 0;
  if (stream) {
    const int64_t to_line = -static_cast<int64_t>(reinterpret_cast<uintptr_t>(result) / sizeof(T));
    const int64_t head = std::min(count, to_line & (lanes - 1));
    for (; i < head; ++i) hn::StoreU(combine(one, i), one, result + i);
    for (; i + lanes <= count; i += lanes) hn::Stream(combine(tag, i), tag, result + i);
  } else if (copy == nullptr) {
    for (; i + lanes <= count; i += lanes) hn::StoreU(combine(tag, i), tag, result + i);
  } else {
    for (; i + lanes <= count; i += lanes) {
      const auto combined = combine(tag, i);
      hn::StoreU(combined, tag, result + i);
      hn::StoreU(combined, tag, copy + i);
    }
  }
  for (; i < count; ++i) {
    const auto combined = combine(one, i);
    hn::StoreU(combined, one, result + i);
    if (copy != nullptr) hn::StoreU(combined, one, copy + i);
  }
}

// Copies bytes. After the last of several non-temporal copies, call hwy::FlushStream().
template <bool kNonTemporal>
void CopyBytes(void* to_data, const void* from_data, int64_t bytes) {
  const hn::ScalableTag<uint8_t> tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  uint8_t* const to = static_cast<uint8_t*>(to_data);
  const uint8_t* const from = static_cast<const uint8_t*>(from_data);
  const int64_t beside = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % lanes);
  int64_t i = std::min(bytes, beside == 0 ? 0 : lanes - beside);
  if (i > 0) std::memcpy(to, from, i);
  for (; i + lanes <= bytes; i += lanes) {
    const auto bytes_of_vector = hn::LoadU(tag, from + i);
    if constexpr (kNonTemporal) {
      hn::Stream(bytes_of_vector, tag, to + i);
    } else {
      hn::StoreU(bytes_of_vector, tag, to + i);
    }
  }
  if (i < bytes) std::memcpy(to + i, from + i, bytes - i);
}

// Copies a block. std::memcpy, which the compiler inlines as `rep movs`, was slower.
void StreamBlock(void* to, const void* from, int64_t bytes) { CopyBytes<true>(to, from, bytes); }
void CopyBlock(void* to, const void* from, int64_t bytes) { CopyBytes<false>(to, from, bytes); }

#define TESSERA_COMBINE(name, type)                                                     \
  void Sum##name(const void* a, const void* b, int64_t count, void* result, void* copy, \
                 bool stream) {                                                         \
    Combine<type, Reduction::kSum>(a, b, count, result, copy, stream);                  \
  }                                                                                     \
  void Max##name(const void* a, const void* b, int64_t count, void* result, void* copy, \
                 bool stream) {                                                         \
    Combine<type, Reduction::kMax>(a, b, count, result, copy, stream);                  \
  }                                                                                     \
  void Min##name(const void* a, const void* b, int64_t count, void* result, void* copy, \
                 bool stream) {                                                         \
    Combine<type, Reduction::kMin>(a, b, count, result, copy, stream);                  \
  }
TESSERA_COMBINE(F32, float)
TESSERA_COMBINE(F64, double)
TESSERA_COMBINE(I32, int32_t)
TESSERA_COMBINE(I64, int64_t)
TESSERA_COMBINE(U8, uint8_t)
#undef TESSERA_COMBINE

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::comm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::comm {
namespace {

HWY_EXPORT(SumF32);
HWY_EXPORT(MaxF32);
HWY_EXPORT(MinF32);
HWY_EXPORT(SumF64);
HWY_EXPORT(MaxF64);
HWY_EXPORT(MinF64);
HWY_EXPORT(SumI32);
HWY_EXPORT(MaxI32);
HWY_EXPORT(MinI32);
HWY_EXPORT(SumI64);
HWY_EXPORT(MaxI64);
HWY_EXPORT(MinI64);
HWY_EXPORT(SumU8);
HWY_EXPORT(MaxU8);
HWY_EXPORT(MinU8);
HWY_EXPORT(FromBFloat16);
HWY_EXPORT(ToBFloat16);
HWY_EXPORT(FromFloat16);
HWY_EXPORT(ToFloat16);
HWY_EXPORT(StreamBlock);
HWY_EXPORT(CopyBlock);

// The bytes of a non-temporal step: few cache lines, so that reads and writes of memory overlap.
constexpr int64_t kBlockBytes = 512;

// How elements of a dtype are reduced.
struct Arithmetic {
  void (*combine)(const void* a, const void* b, int64_t count, void* result, void* copy,
                  bool stream);
  // For bf16 and fp16: convert to fp32 before, and back after. Null for other types, which need no
  // conversion.
  void (*widen)(const void* from, int64_t count, float* to) = nullptr;
  void (*narrow)(const float* from, int64_t count, void* to) = nullptr;
};

#define TESSERA_COMBINE_OF(reduction, name)                           \
  ((reduction) == Reduction::kSum   ? HWY_DYNAMIC_DISPATCH(Sum##name) \
   : (reduction) == Reduction::kMax ? HWY_DYNAMIC_DISPATCH(Max##name) \
                                    : HWY_DYNAMIC_DISPATCH(Min##name))

Arithmetic ArithmeticOf(DType dtype, Reduction reduction) {
  // Chooses the target before pointers to functions are taken: pointers taken earlier would choose
  // it at each call.
  hwy::ChosenTarget& target = hwy::GetChosenTarget();
  if (!target.IsInitialized()) target.Update(hwy::SupportedTargets());
  switch (dtype) {
    case DType::kF32:
      return {TESSERA_COMBINE_OF(reduction, F32)};
    case DType::kF64:
      return {TESSERA_COMBINE_OF(reduction, F64)};
    case DType::kI32:
      return {TESSERA_COMBINE_OF(reduction, I32)};
    case DType::kI64:
      return {TESSERA_COMBINE_OF(reduction, I64)};
    case DType::kU8:
      return {TESSERA_COMBINE_OF(reduction, U8)};
    case DType::kBF16:
      return {ArithmeticOf(DType::kF32, reduction).combine, HWY_DYNAMIC_DISPATCH(FromBFloat16),
              HWY_DYNAMIC_DISPATCH(ToBFloat16)};
    case DType::kF16:
      return {ArithmeticOf(DType::kF32, reduction).combine, HWY_DYNAMIC_DISPATCH(FromFloat16),
              HWY_DYNAMIC_DISPATCH(ToFloat16)};
  }
  return {};
}

#undef TESSERA_COMBINE_OF

// Reduces blocks of elements in the order of the tree. Blocks are small enough that intermediate
// results stay in the first-level cache.
class Tree {
 public:
  static constexpr int64_t kBlock = 1024;  // elements, at most

  Tree(absl::Span<const void* const> inputs, DType dtype, Reduction reduction)
      : inputs_(inputs), bytes_(SizeOf(dtype)), arithmetic_(ArithmeticOf(dtype, reduction)) {}

  // Returns whether the last step writes the final result. It can then write it to a second
  // address, which saves a copy, or with non-temporal stores.
  bool HasCopy() const { return inputs_.size() > 1 && arithmetic_.narrow == nullptr; }

  // Writes elements [begin, begin + count) of all inputs, reduced, to `result`; unrounded fp32 if
  // `is_wide`. If HasCopy(), also writes them to `copy` unless it is null; without a copy, `stream`
  // uses non-temporal stores.
  void Run(int64_t begin, int64_t count, bool is_wide, char* result, char* copy = nullptr,
           bool stream = false) {
    begin_ = begin * bytes_;
    count_ = count;
    const int ranks = static_cast<int>(inputs_.size());
    if (is_wide && arithmetic_.widen != nullptr) {
      if (ranks == 1) return arithmetic_.widen(Leaf(0), count, reinterpret_cast<float*>(result));
      CombineRanks(0, ranks, 0, result);
    } else if (ranks == 1) {
      if (result != Leaf(0)) std::memcpy(result, Leaf(0), count * bytes_);
    } else if (arithmetic_.narrow != nullptr) {
      CombineRanks(0, ranks, 0, scratch_[0]);
      arithmetic_.narrow(reinterpret_cast<const float*>(scratch_[0]), count, result);
    } else {
      CombineRanks(0, ranks, 0, result, copy, stream);
    }
  }

 private:
  // Enough for 2^31 ranks.
  static constexpr int kLevels = 32;

  const char* Leaf(int rank) const { return static_cast<const char*>(inputs_[rank]) + begin_; }

  // Returns the reduction of the ranks [first, first + ranks): the elements of a single rank, or
  // scratch_[level].
  const void* Part(int first, int ranks, int level) {
    char* const scratch = scratch_[level];
    if (ranks > 1) {
      CombineRanks(first, ranks, level, scratch);
      return scratch;
    }
    if (arithmetic_.widen == nullptr) return Leaf(first);
    arithmetic_.widen(Leaf(first), count_, reinterpret_cast<float*>(scratch));
    return scratch;
  }

  // Writes the reduction of at least two ranks to `result`, which may be scratch_[level]: the left
  // subtree is read before it is overwritten.
  void CombineRanks(int first, int ranks, int level, char* result, char* copy = nullptr,
                    bool stream = false) {
    const int left = LeftRanks(ranks);
    const void* const a = Part(first, left, level);
    const void* const b = Part(first + left, ranks - left, level + 1);
    arithmetic_.combine(a, b, count_, result, copy, stream);
  }

  const absl::Span<const void* const> inputs_;
  const int64_t bytes_;  // of an element
  const Arithmetic arithmetic_;
  int64_t begin_ = 0;  // bytes
  int64_t count_ = 0;
  alignas(64) char scratch_[kLevels][kBlock * sizeof(double)];
};

// Calls `run(begin, count)` for blocks that make up [0, count), alternately in as many pages as
// make four streams of reads with the `inputs` that `run` reads: prefetchers stop at page
// boundaries, so a single stream does not keep enough reads in flight. More than four streams are
// slower: four inputs in four pages each took 1.2 to 1.6 times as long as in one, on an AMD EPYC
// (Zen 3). The first block ends at the start of a cache line of `output`, because a line that two
// blocks write partially would be read first. Elements have `bytes` bytes.
template <typename Function>
void ForEachBlock(size_t inputs, const void* output, int64_t count, int64_t bytes,
                  const Function& run) {
  constexpr int64_t kLine = 64, kBlocks = 4096 / kBlockBytes;
  const int64_t pages = std::max<int64_t>(1, 4 / static_cast<int64_t>(inputs));
  const int64_t beside = -static_cast<int64_t>(reinterpret_cast<uintptr_t>(output)) & (kLine - 1);
  const int64_t block = kBlockBytes / bytes;
  const int64_t page = kBlocks * block;
  int64_t begin = std::min(count, beside / bytes);
  if (begin > 0) run(0, begin);
  for (; begin + pages * page <= count; begin += pages * page) {
    for (int64_t b = begin; b < begin + page; b += block) {
      for (int64_t p = 0; p < pages; ++p) run(b + p * page, block);
    }
  }
  for (; begin < count; begin += block) run(begin, std::min(block, count - begin));
}

// Returns whether any output is also an input.
bool AreInputs(absl::Span<void* const> outputs, absl::Span<const void* const> inputs) {
  return std::find_first_of(outputs.begin(), outputs.end(), inputs.begin(), inputs.end()) !=
         outputs.end();
}

}  // namespace

int LeftRanks(int count) {
  int left = 1;
  while (2 * left < count) left *= 2;
  return left;
}

void Reduce(absl::Span<const void* const> inputs, absl::Span<void* const> outputs, int64_t count,
            DType dtype, Reduction reduction, bool non_temporal) {
  Tree tree(inputs, dtype, reduction);
  const int64_t bytes = SizeOf(dtype);
  // Blocks in the order of addresses: several inputs already keep enough reads in flight.
  if (non_temporal && outputs.size() == 1 && tree.HasCopy() && !AreInputs(outputs, inputs) &&
      reinterpret_cast<uintptr_t>(outputs[0]) % bytes == 0) {
    for (int64_t begin = 0; begin < count; begin += Tree::kBlock) {
      tree.Run(begin, std::min(Tree::kBlock, count - begin), false,
               static_cast<char*>(outputs[0]) + begin * bytes, nullptr, /*stream=*/true);
    }
    return hwy::FlushStream();
  }
  if (non_temporal && !AreInputs(outputs, inputs)) {
    alignas(64) char result[kBlockBytes];
    ForEachBlock(inputs.size(), outputs[0], count, bytes, [&](int64_t begin, int64_t size) {
      tree.Run(begin, size, false, result);
      for (void* output : outputs) {
        HWY_DYNAMIC_DISPATCH(StreamBlock)
        (static_cast<char*>(output) + begin * bytes, result, size * bytes);
      }
    });
    hwy::FlushStream();
    return;
  }
  const size_t written = tree.HasCopy() && outputs.size() > 1 ? 2 : 1;
  const auto reduce = [&](int64_t begin, int64_t size) {
    const auto at = [&](void* output) { return static_cast<char*>(output) + begin * bytes; };
    tree.Run(begin, size, false, at(outputs[0]), written > 1 ? at(outputs[1]) : nullptr);
    for (void* output : outputs.subspan(written)) {
      HWY_DYNAMIC_DISPATCH(CopyBlock)(at(output), at(outputs[0]), size * bytes);
    }
  };
  if (non_temporal && outputs.size() > 1) {
    return ForEachBlock(inputs.size(), outputs[0], count, bytes, reduce);
  }
  for (int64_t begin = 0; begin < count; begin += Tree::kBlock) {
    reduce(begin, std::min(Tree::kBlock, count - begin));
  }
}

void ReducePartially(absl::Span<const void* const> inputs, void* output, int64_t count, DType dtype,
                     Reduction reduction) {
  Tree tree(inputs, dtype, reduction);
  const int64_t bytes = SizeOf(PartialDType(dtype));
  for (int64_t begin = 0; begin < count; begin += Tree::kBlock) {
    const int64_t size = std::min(Tree::kBlock, count - begin);
    tree.Run(begin, size, true, static_cast<char*>(output) + begin * bytes);
  }
}

DType PartialDType(DType dtype) {
  return dtype == DType::kBF16 || dtype == DType::kF16 ? DType::kF32 : dtype;
}

void Finish(const void* partial, int64_t count, DType dtype, void* output) {
  const Arithmetic arithmetic = ArithmeticOf(dtype, Reduction::kSum);
  if (count == 0) return;
  if (arithmetic.narrow != nullptr) {
    arithmetic.narrow(static_cast<const float*>(partial), count, output);
  } else if (partial != output) {
    std::memcpy(output, partial, count * SizeOf(dtype));
  }
}

void CopyNonTemporal(void* to, const void* from, int64_t bytes) {
  ForEachBlock(/*inputs=*/1, to, bytes, 1, [&](int64_t begin, int64_t size) {
    HWY_DYNAMIC_DISPATCH(StreamBlock)
    (static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin, size);
  });
  hwy::FlushStream();
}

}  // namespace tessera::comm
#endif  // HWY_ONCE
