#include "collectives/testing/conformance.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/tensor/element_type.h"
#include "core/tensor/half.h"

namespace tessera::comm {
namespace {

uint64_t Mix(uint64_t x) {
  x ^= x >> 31;
  x *= 0x7fb5d329728ea185;
  x ^= x >> 27;
  x *= 0x81dadef4bc2dd44d;
  return x ^ (x >> 33);
}

template <typename T>
constexpr bool kIsHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;
template <typename T>
using Wide = std::conditional_t<kIsHalf<T>, float, T>;

template <typename T>
bool SameBits(const T& a, const T& b) {
  return std::memcmp(static_cast<const void*>(&a), static_cast<const void*>(&b), sizeof(T)) == 0;
}

// Element i of what a rank gives to the operation `tag`.
template <typename T>
T Value(uint64_t tag, int rank, int64_t i) {
  const uint64_t bits = Mix((tag << 40) ^ (static_cast<uint64_t>(rank) << 34) ^
                            static_cast<uint64_t>(i) ^ 0x9e3779b97f4a7c15);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(bits);
  } else {
    // Of several magnitudes, so that another order of summation shows.
    const double magnitude = static_cast<double>(int64_t{1} << (bits % 7));
    const double fraction = static_cast<double>(static_cast<int64_t>(bits) >> 11) * 0x1p-52;
    return T(static_cast<Wide<T>>(fraction * magnitude));
  }
}

// leaf(first), ..., leaf(first + count - 1), reduced in the order that is promised.
template <typename W, typename Leaf>
W Tree(int first, int count, Reduction reduction, const Leaf& leaf) {
  if (count == 1) return leaf(first);
  int left = 1;
  while (left * 2 < count) left *= 2;
  const W a = Tree<W>(first, left, reduction, leaf);
  const W b = Tree<W>(first + left, count - left, reduction, leaf);
  if (reduction == Reduction::kMax) return a > b ? a : b;
  if constexpr (std::is_integral_v<W>) {
    return static_cast<W>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}

using Hosts = std::vector<std::vector<int>>;

// Element i of all ranks, reduced; within hosts first, if there are any.
template <typename T>
Wide<T> Reduced(uint64_t tag, int ranks, const Hosts& hosts, int64_t i, Reduction reduction) {
  const auto value = [&](int rank) { return static_cast<Wide<T>>(Value<T>(tag, rank, i)); };
  if (hosts.empty()) return Tree<Wide<T>>(0, ranks, reduction, value);
  return Tree<Wide<T>>(0, static_cast<int>(hosts.size()), reduction, [&](int host) {
    return Tree<Wide<T>>(0, static_cast<int>(hosts[host].size()), reduction,
                         [&](int k) { return value(hosts[host][k]); });
  });
}

// Whether a result is as near to the sum in double as its type can be.
template <typename T>
bool NearSum(T result, uint64_t tag, int ranks, int64_t i) {
  if constexpr (std::is_integral_v<T>) {
    return true;  // exact, or not the same bits
  } else {
    double sum = 0, magnitude = 0;
    for (int r = 0; r < ranks; ++r) {
      const double value = static_cast<double>(static_cast<Wide<T>>(Value<T>(tag, r, i)));
      sum += value;
      magnitude += std::abs(value);
    }
    const double unit = std::is_same_v<T, double>     ? 0x1p-53
                        : std::is_same_v<T, float>    ? 0x1p-24
                        : std::is_same_v<T, BFloat16> ? 0x1p-8
                                                      : 0x1p-11;
    const double got = static_cast<double>(static_cast<Wide<T>>(result));
    return std::abs(got - sum) <= (ranks + 1) * unit * magnitude;
  }
}

template <typename T>
class Checker {
 public:
  Checker(Communicator& group, DType dtype, int64_t count, const ConformanceOptions& options)
      : group_(group), dtype_(dtype), count_(count), options_(options) {}

  absl::Status Run() {
    for (const bool in_place : {false, true}) {
      if (in_place && !options_.in_place) continue;
      in_place_ = in_place;
      for (Reduction reduction : {Reduction::kSum, Reduction::kMax}) {
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

  // Buffers by turns: whole lines in shared memory, or memory of their own.
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

  absl::Status Wrong(absl::string_view operation, int64_t i) const {
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
      if (!SameBits(data[i], value)) return Wrong(operation, i);
    }
    for (size_t b = 0; b < sizeof(T); ++b) {
      if (end_[index][b] != 0x5a) return Wrong(absl::StrCat("memory behind ", operation), count);
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
        return Wrong(absl::StrCat(operation, " (far from the sum in double)"), i);
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
    // Parts that fit, and parts that leave the last ranks less.
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
    if (options_.any_order) return absl::OkStatus();  // who has none leaves no sums unrounded
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
      if (!SameBits(output[i], expected)) return Wrong("partial reduce-scatter", i);
    }
    return SameBits(output[own.size], Wide<T>()) ? absl::OkStatus()
                                                 : Wrong("memory behind partial sums", own.size);
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

  // Around a ring, all of them sending before they receive.
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

absl::Status CheckOverlappingGroups(absl::Span<Communicator* const> groups, int operations,
                                    uint64_t seed, bool delays, bool any_order) {
  constexpr size_t kInFlight = 8;
  struct InFlight {
    Communicator* group = nullptr;
    Ticket ticket;
    uint64_t tag = 0;
    std::vector<float> data;
  };
  std::vector<InFlight> ring(kInFlight);
  const auto finish = [any_order](InFlight& operation) -> absl::Status {
    if (operation.group == nullptr) return absl::OkStatus();
    RETURN_IF_ERROR(operation.group->Wait(operation.ticket));
    const int ranks = operation.group->size();
    for (size_t i = 0; i < operation.data.size(); ++i) {
      const int64_t element = static_cast<int64_t>(i);
      const float expected = Reduced<float>(operation.tag, ranks, {}, element, Reduction::kSum);
      if (any_order ? !NearSum(operation.data[i], operation.tag, ranks, element)
                    : operation.data[i] != expected) {
        return absl::InternalError(absl::StrCat("all-reduce ", operation.tag, " of '",
                                                operation.group->name(), "' is wrong at ", i));
      }
    }
    return absl::OkStatus();
  };
  for (int k = 0; k < operations; ++k) {
    InFlight& operation = ring[k % kInFlight];
    RETURN_IF_ERROR(finish(operation));
    // The same on all ranks: which group, how much.
    const uint64_t choice = Mix(seed * 1000003 + static_cast<uint64_t>(k));
    operation.group = groups[choice % groups.size()];
    operation.tag = static_cast<uint64_t>(k) & 0xffffff;
    operation.data.resize(choice / 64 % 97 == 0 ? 9000 : choice / 64 % 33);
    for (size_t i = 0; i < operation.data.size(); ++i) {
      operation.data[i] =
          Value<float>(operation.tag, operation.group->rank(), static_cast<int64_t>(i));
    }
    operation.ticket =
        operation.group->AllReduce(operation.data.data(), operation.data.data(),
                                   static_cast<int64_t>(operation.data.size()), DType::kF32);
    // Another on each rank: how long it takes.
    const uint64_t delay = Mix(choice + static_cast<uint64_t>(groups[0]->rank()));
    if (delays && delay % 64 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(delay / 64 % 200));
    }
  }
  for (InFlight& operation : ring) RETURN_IF_ERROR(finish(operation));
  return absl::OkStatus();
}

absl::Status CheckUnwaitedOperations(Communicator& pair, std::atomic<int>* ended) {
  constexpr int64_t kCount = 20'000;
  constexpr int kRounds = 40;
  std::vector<float> data(kCount);
  for (int round = 0; round < kRounds; ++round) {
    if (pair.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::microseconds(18'500 + 100 * round));
    }
    const Ticket ticket = pair.AllReduce(data.data(), data.data(), kCount, DType::kF32);
    if (pair.rank() == 1) {
      for (int i = 0; i < 10'000 && *ended == round; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (*ended == round) {
        return absl::InternalError(absl::StrCat("operation ", round, " does not go on"));
      }
    }
    RETURN_IF_ERROR(pair.Wait(ticket));
    if (pair.rank() == 0) ++*ended;
  }
  return absl::OkStatus();
}

}  // namespace tessera::comm
