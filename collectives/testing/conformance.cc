#include "collectives/testing/conformance.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/testing/expected_values.h"
#include "core/status/status_macros.h"
#include "core/tensor/element_type.h"

namespace tessera::comm {
namespace {

template <typename T>
class Checker {
 public:
  Checker(Communicator& group, DType dtype, int64_t count, const ConformanceOptions& options)
      : group_(group), dtype_(dtype), count_(count), options_(options) {}

  absl::Status Run() {
    for (const bool in_place : {false, true}) {
      if (in_place && !options_.in_place) continue;
      in_place_ = in_place;
      for (Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
        RETURN_IF_ERROR(CheckAllReduce(reduction));
        RETURN_IF_ERROR(CheckReduceScatter(reduction));
      }
      RETURN_IF_ERROR(CheckAllGather());
      RETURN_IF_ERROR(CheckBroadcast());
    }
    in_place_ = false;
    RETURN_IF_ERROR(CheckPartialSums());
    RETURN_IF_ERROR(CheckAllToAll());
    RETURN_IF_ERROR(CheckPairs());
    return group_.Wait(group_.Barrier());
  }

 private:
  int ranks() const { return group_.size(); }

  // Returns one of two buffers: full cache lines of shared memory, or private memory.
  T* Buffer(int index, int64_t count) {
    const int64_t bytes = (count + 3) * static_cast<int64_t>(sizeof(T));
    T* data;
    if (options_.shared != nullptr) {
      int64_t largest = 0;
      for (const int64_t size : options_.sizes) largest = std::max(largest, size);
      for (const int64_t size : options_.large_sizes) largest = std::max(largest, size);
      largest = largest * 8 + 64;
      data = reinterpret_cast<T*>(options_.shared + index * (largest / 64 * 64 + 64));
    } else {
      memory_[index].resize(bytes + 64);
      data = reinterpret_cast<T*>(memory_[index].data());
      data += tag_ % 2;  // not always aligned
    }
    std::memset(static_cast<void*>(data), 0x5a, bytes - 2 * sizeof(T));
    end_[index] = reinterpret_cast<char*>(data + count);
    std::memset(end_[index], 0x5a, sizeof(T));
    return data;
  }

  void Fill(T* data, int64_t begin, int64_t count) {
    for (int64_t i = 0; i < count; ++i) data[i] = Value<T>(tag_, group_.rank(), begin + i);
  }

  absl::Status WrongElementError(absl::string_view operation, int64_t i) const {
    return absl::InternalError(absl::StrCat(
        "rank ", group_.rank(), " of ", ranks(), " of '", group_.name(),
        "': ", in_place_ ? "in-place " : "", operation, " of ", count_, " ", DTypeName(dtype_),
        options_.shared != nullptr ? " in shared memory" : "", " is wrong at ", i));
  }

  template <typename Expected>
  absl::Status Compare(absl::string_view operation, const T* data, int64_t count,
                       const Expected& expected, int index) const {
    for (int64_t i = 0; i < count; ++i) {
      const T value = expected(i);
      if (!SameBits(data[i], value)) return WrongElementError(operation, i);
    }
    for (size_t b = 0; b < sizeof(T); ++b) {
      if (end_[index][b] != 0x5a)
        return WrongElementError(absl::StrCat("memory behind ", operation), count);
    }
    return absl::OkStatus();
  }

  absl::Status CheckReduced(absl::string_view operation, const T* data, Part part, uint64_t tag,
                            Reduction reduction, int index) const {
    const bool any_order =
        options_.any_order && reduction == Reduction::kSum && !std::is_integral_v<T>;
    RETURN_IF_ERROR(Compare(
        operation, data, part.size,
        [&](int64_t i) {
          return any_order ? data[i]
                           : T(Reduced<T>(tag, ranks(), options_.hosts, part.begin + i, reduction));
        },
        index));
    for (int64_t i = 0; i < part.size && reduction == Reduction::kSum; ++i) {
      if (!NearSum(data[i], tag, ranks(), part.begin + i)) {
        return WrongElementError(absl::StrCat(operation, " (far from the sum in double)"), i);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckAllReduce(Reduction reduction) {
    ++tag_;
    T* const input = Buffer(0, count_);
    T* const output = in_place_ ? input : Buffer(1, count_);
    Fill(input, 0, count_);
    RETURN_IF_ERROR(group_.Wait(group_.AllReduce(input, output, count_, dtype_, reduction)));
    return CheckReduced("all-reduce", output, {0, count_}, tag_, reduction, in_place_ ? 0 : 1);
  }

  absl::Status CheckReduceScatter(Reduction reduction) {
    // Parts that divide the count evenly, and parts that leave fewer elements for the last ranks.
    for (const int64_t more : {0, 1, 5}) {
      ++tag_;
      const int64_t part = (count_ + ranks() - 1) / ranks() + more;
      const Part own = PartOf(count_, part, group_.rank());
      T* const input = Buffer(0, count_);
      T* const output = in_place_ ? input + own.begin : Buffer(1, own.size);
      Fill(input, 0, count_);
      RETURN_IF_ERROR(
          group_.Wait(group_.ReduceScatter(input, output, count_, part, dtype_, reduction)));
      if (in_place_) end_[1] = end_[0];
      RETURN_IF_ERROR(CheckReduced("reduce-scatter", output, own, tag_, reduction, 1));
    }
    return absl::OkStatus();
  }

  // Sums that are not rounded.
  absl::Status CheckPartialSums() {
    if (options_.any_order) return absl::OkStatus();  // such a backend has none
    ++tag_;
    const int64_t part = (count_ + ranks() - 1) / ranks();
    const Part own = PartOf(count_, part, group_.rank());
    T* const input = Buffer(0, count_);
    std::vector<Wide<T>> output(own.size + 1);
    Fill(input, 0, count_);
    RETURN_IF_ERROR(group_.Wait(group_.Issue({.operation = Operation::kReduceScatter,
                                              .dtype = dtype_,
                                              .input = input,
                                              .output = output.data(),
                                              .count = count_,
                                              .part = part,
                                              .partial = true})));
    for (int64_t i = 0; i < own.size; ++i) {
      const Wide<T> expected =
          Reduced<T>(tag_, ranks(), options_.hosts, own.begin + i, Reduction::kSum);
      if (!SameBits(output[i], expected)) return WrongElementError("partial reduce-scatter", i);
    }
    return SameBits(output[own.size], Wide<T>())
               ? absl::OkStatus()
               : WrongElementError("memory behind partial sums", own.size);
  }

  absl::Status CheckAllGather() {
    for (const int64_t more : {0, 1, 5}) {
      ++tag_;
      const int64_t part = (count_ + ranks() - 1) / ranks() + more;
      const Part own = PartOf(count_, part, group_.rank());
      T* const output = Buffer(1, count_);
      T* const input = in_place_ ? output + own.begin : Buffer(0, own.size);
      Fill(input, own.begin, own.size);
      RETURN_IF_ERROR(group_.Wait(group_.AllGather(input, output, count_, part, dtype_)));
      RETURN_IF_ERROR(Compare(
          "all-gather", output, count_,
          [&](int64_t i) { return Value<T>(tag_, static_cast<int>(i / part), i); }, 1));
    }
    return in_place_ ? absl::OkStatus() : CheckUnreadParts();
  }

  // In an all-gather each rank leaves a piece of its own part unread: at its start, at its end, in
  // between, or all of it.
  absl::Status CheckUnreadParts() {
    const int64_t part = (count_ + ranks() - 1) / ranks();
    const Part own = PartOf(count_, part, group_.rank());
    if (part < 4) return absl::OkStatus();
    for (int k = 0; k < 4; ++k) {
      ++tag_;
      const int kind = (k + group_.rank()) % 4;
      Part unread = {own.begin + (kind % 2) * (own.size / 4), own.size / (kind < 2 ? 2 : 1)};
      unread.size = std::min(unread.size, own.begin + own.size - unread.begin);
      T* const input = Buffer(0, own.size);
      T* const output = Buffer(1, count_);
      Fill(input, own.begin, own.size);
      RETURN_IF_ERROR(group_.Wait(group_.Issue({.operation = Operation::kAllGather,
                                                .dtype = dtype_,
                                                .input = input,
                                                .output = output,
                                                .count = count_,
                                                .part = part,
                                                .unread = unread})));
      // Unread elements may have been copied, or not.
      Fill(output + unread.begin, unread.begin, unread.size);
      RETURN_IF_ERROR(Compare(
          "all-gather with an unread part", output, count_,
          [&](int64_t i) { return Value<T>(tag_, static_cast<int>(i / part), i); }, 1));
    }
    return absl::OkStatus();
  }

  absl::Status CheckBroadcast() {
    for (int root = 0; root < ranks(); ++root) {
      ++tag_;
      T* const output = Buffer(1, count_);
      T* const input = in_place_ ? output : Buffer(0, count_);
      const bool is_root = group_.rank() == root;
      if (is_root) Fill(input, 0, count_);
      RETURN_IF_ERROR(
          group_.Wait(group_.Broadcast(is_root ? input : nullptr, output, count_, dtype_, root)));
      RETURN_IF_ERROR(Compare(
          "broadcast", output, count_, [&](int64_t i) { return Value<T>(tag_, root, i); }, 1));
    }
    return absl::OkStatus();
  }

  absl::Status CheckAllToAll() {
    ++tag_;
    const int64_t part = count_ / ranks();
    T* const input = Buffer(0, part * ranks());
    T* const output = Buffer(1, part * ranks());
    Fill(input, 0, part * ranks());
    RETURN_IF_ERROR(group_.Wait(group_.AllToAll(input, output, part, dtype_)));
    return Compare(
        "all-to-all", output, part * ranks(),
        [&](int64_t i) {
          return Value<T>(tag_, static_cast<int>(i / part), group_.rank() * part + i % part);
        },
        1);
  }

  // Sends around a ring; every rank sends before it receives.
  absl::Status CheckPairs() {
    if (ranks() == 1) return absl::OkStatus();
    ++tag_;
    const int to = (group_.rank() + 1) % ranks();
    const int from = (group_.rank() + ranks() - 1) % ranks();
    T* const input = Buffer(0, count_);
    T* const output = Buffer(1, count_);
    Fill(input, 0, count_);
    const Ticket send = group_.Send(input, count_, dtype_, to);
    const Ticket receive = group_.Receive(output, count_, dtype_, from);
    RETURN_IF_ERROR(group_.Wait(receive));
    RETURN_IF_ERROR(group_.Wait(send));
    return Compare(
        "send and receive", output, count_, [&](int64_t i) { return Value<T>(tag_, from, i); }, 1);
  }

  Communicator& group_;
  const DType dtype_;
  const int64_t count_;
  const ConformanceOptions& options_;
  bool in_place_ = false;
  uint64_t tag_ = 0;
  std::vector<char> memory_[2];
  char* end_[2] = {};
};

}  // namespace

absl::Status CheckOperations(Communicator& group, const ConformanceOptions& options) {
  const auto check = [&](int64_t count, DType dtype) -> absl::Status {
    return WithElementType(dtype, [&](auto type) -> absl::Status {
      return Checker<decltype(type)>(group, dtype, count, options).Run();
    });
  };
  for (const DType dtype : options.dtypes) {
    for (const int64_t count : options.sizes) RETURN_IF_ERROR(check(count, dtype));
    if (dtype != DType::kF32 && dtype != DType::kBF16) continue;
    for (const int64_t count : options.large_sizes) RETURN_IF_ERROR(check(count, dtype));
  }
  return absl::OkStatus();
}

absl::Status CheckMesh(Communicator& world, absl::Span<const int> shape,
                       const ConformanceOptions& options) {
  std::vector<std::unique_ptr<Communicator>> groups;
  std::vector<Communicator*> pointers;
  for (int axes = 1; axes < 1 << shape.size(); ++axes) {
    // A group's ranks differ in their coordinates on these axes only.
    std::vector<int> colors;
    for (int rank = 0; rank < world.size(); ++rank) {
      int color = 0, rest = rank, stride = 1;
      for (int axis = static_cast<int>(shape.size()) - 1; axis >= 0; --axis) {
        if ((axes >> axis & 1) == 0) color += rest % shape[axis] * stride;
        stride *= shape[axis];
        rest /= shape[axis];
      }
      colors.push_back(color);
    }
    ASSIGN_OR_RETURN(auto group, world.Split(absl::StrCat("axes ", axes), colors));
    RETURN_IF_ERROR(CheckOperations(*group, options));
    pointers.push_back(group.get());
    groups.push_back(std::move(group));
  }
  return CheckOverlappingGroups(pointers, 1000, 5, /*delays=*/true, options.any_order);
}

}  // namespace tessera::comm
