#include "tools/comm_bench/bench.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "collectives/requests.h"
#include "core/status/status_macros.h"
#include "core/tensor/element_type.h"
#include "core/tensor/half.h"
#include "tools/comm_bench/bound.h"

namespace tessera::comm {
namespace {

using Clock = std::chrono::steady_clock;

// Up to this size the data that a rank moves stay in caches, so the rate of memory is no bound.
constexpr double kCacheBytes = 32 << 20;

constexpr int kPasses = 4;  // over memory, before and after an operation is timed

// Returns a small integer: every dtype holds it exactly, and sums of it in any order.
int64_t InputValue(int rank, int64_t i, int check) { return (i + 3 * rank + check) % 5; }

template <typename T>
T As(int64_t value) {
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

class Runner {
 public:
  // `memory` is timed beside each operation, unless it is null.
  Runner(World& world, const BenchOptions& options, char* first, char* second, MemoryPass* memory)
      : world_(world),
        group_(world.communicator()),
        options_(options),
        first_(first),
        second_(second),
        memory_(memory),
        host_copy_(options.check ? BufferBytes(options, world.size()) : 0) {}

  absl::StatusOr<BenchRow> Run(Operation operation, int64_t bytes) {
    BenchRow row;
    row.operation = operation;
    const bool has_size = operation != Operation::kBarrier;
    row.count = has_size ? bytes / SizeOf(options_.dtype) : 0;
    if (HasParts(operation)) row.count = row.count / group_.size() * group_.size();
    row.bytes = row.count * SizeOf(options_.dtype);
    row.has_in_place =
        has_size && operation != Operation::kAllToAll && operation != Operation::kSend;
    ASSIGN_OR_RETURN(row.out_of_place, CheckAndTime(operation, row.count, false));
    if (row.has_in_place) {
      ASSIGN_OR_RETURN(row.in_place, CheckAndTime(operation, row.count, true));
    }
    return row;
  }

 private:
  int64_t size() const { return SizeOf(options_.dtype); }
  int next() const { return (group_.rank() + 1) % group_.size(); }
  int previous() const { return (group_.rank() + group_.size() - 1) % group_.size(); }

  // Issues an operation and waits for it.
  absl::Status IssueAndWait(Operation operation, int64_t count, bool in_place) {
    const int64_t part = count / group_.size();
    const int64_t own = group_.rank() * part * size();
    const DType dtype = options_.dtype;
    char* const output = in_place ? first_ : second_;
    switch (operation) {
      case Operation::kAllReduce:
        return group_.Wait(group_.AllReduce(first_, output, count, dtype, options_.reduction));
      case Operation::kReduceScatter:
        return group_.Wait(group_.ReduceScatter(first_, in_place ? first_ + own : second_, count,
                                                part, dtype, options_.reduction));
      case Operation::kAllGather:
        return group_.Wait(
            group_.AllGather(in_place ? output + own : first_, output, count, part, dtype));
      case Operation::kAllToAll:
        return group_.Wait(group_.AllToAll(first_, second_, part, dtype));
      case Operation::kBroadcast:
        return group_.Wait(group_.Broadcast(first_, output, count, dtype, options_.root));
      case Operation::kBarrier:
        return group_.Wait(group_.Barrier());
      case Operation::kSend:
      case Operation::kReceive: {
        if (group_.size() == 1) return absl::OkStatus();
        const Ticket send = group_.Send(first_, count, dtype, next());
        RETURN_IF_ERROR(group_.Wait(group_.Receive(second_, count, dtype, previous())));
        return group_.Wait(send);
      }
    }
    return absl::OkStatus();
  }

  // Checks the results of an operation if the options say so, and times it.
  absl::StatusOr<Timing> CheckAndTime(Operation operation, int64_t count, bool in_place) {
    Timing timing;
    timing.wrong = -1;
    if (options_.check) {
      ASSIGN_OR_RETURN(timing.wrong, CountWrong(operation, count, in_place));
    }
    const double moved =
        BytesMoved(operation, count * size(), group_.size(), in_place) / group_.size();
    const bool has_bound = memory_ != nullptr && moved > kCacheBytes;
    const auto pass = [&] { return memory_->Run(); };
    const auto once = [&] { return IssueAndWait(operation, count, in_place); };
    double before = 0, after = 0;
    if (has_bound) {
      ASSIGN_OR_RETURN(before, MeanSeconds(kPasses, pass));
    }
    for (int i = 0; i < options_.warmups; ++i) RETURN_IF_ERROR(once());
    ASSIGN_OR_RETURN(timing.seconds, MeanSeconds(options_.iterations, once));
    if (has_bound) {
      ASSIGN_OR_RETURN(after, MeanSeconds(kPasses, pass));
      timing.bound = moved * group_.size() / memory_->bytes() * (before + after) / 2;
    }
    timing.algbw = static_cast<double>(count * size()) / timing.seconds;
    timing.busbw = timing.algbw * BusFactor(operation, group_.size());
    return timing;
  }

  // Returns the seconds that `body` takes on the slowest rank, as a mean of iterations.
  absl::StatusOr<double> MeanSeconds(int iterations, const std::function<absl::Status()>& body) {
    RETURN_IF_ERROR(group_.Wait(group_.Barrier()));
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < iterations; ++i) RETURN_IF_ERROR(body());
    double seconds = std::chrono::duration<double>(Clock::now() - begin).count() / iterations;
    Communicator& cpu = world_.cpu_communicator();
    RETURN_IF_ERROR(cpu.Wait(cpu.AllReduce(&seconds, &seconds, 1, DType::kF64, Reduction::kMax)));
    return seconds;
  }

  // Returns the number of wrong elements, summed over all ranks.
  absl::StatusOr<int64_t> CountWrong(Operation operation, int64_t count, bool in_place) {
    ++checks_;
    const int64_t part = count / group_.size(), own = group_.rank() * part;
    const bool gathers = operation == Operation::kAllGather;
    const int64_t begin = gathers ? own : 0, length = gathers ? part : count;  // of the input
    WithElementType(options_.dtype, [&](auto type) {
      using T = decltype(type);
      T* const input = reinterpret_cast<T*>(host_copy_.data());
      for (int64_t i = 0; i < length; ++i) {
        input[i] = As<T>(InputValue(group_.rank(), begin + i, checks_));
      }
      return 0;
    });
    RETURN_IF_ERROR(
        world_.Copy(first_ + (in_place ? begin * size() : 0), host_copy_.data(), length * size()));
    RETURN_IF_ERROR(IssueAndWait(operation, count, in_place));
    RETURN_IF_ERROR(world_.Copy(host_copy_.data(), in_place ? first_ : second_, count * size()));
    const bool scatters = operation == Operation::kReduceScatter;
    const char* const output = host_copy_.data() + (scatters && in_place ? own * size() : 0);
    int64_t wrong = 0;
    WithElementType(options_.dtype, [&](auto type) {
      using T = decltype(type);
      for (int64_t i = 0; i < OutputLength(operation, count); ++i) {
        const T value = As<T>(Expected(operation, part, i));
        const void* const got = reinterpret_cast<const T*>(output) + i;
        wrong += std::memcmp(got, static_cast<const void*>(&value), sizeof(T)) != 0 ? 1 : 0;
      }
      return 0;
    });
    Communicator& cpu = world_.cpu_communicator();
    RETURN_IF_ERROR(cpu.Wait(cpu.AllReduce(&wrong, &wrong, 1, DType::kI64)));
    return wrong;
  }

  // Returns how many elements an operation on `count` elements writes on this rank.
  int64_t OutputLength(Operation operation, int64_t count) const {
    const bool sends = operation == Operation::kSend || operation == Operation::kReceive;
    if (operation == Operation::kBarrier || (sends && group_.size() == 1)) return 0;
    return operation == Operation::kReduceScatter ? count / group_.size() : count;
  }

  // Returns element i of this rank's output.
  int64_t Expected(Operation operation, int64_t part, int64_t i) const {
    const int64_t own = group_.rank() * part;
    switch (operation) {
      case Operation::kReduceScatter:
        return ReducedValue(own + i);
      case Operation::kAllGather:
        return InputValue(static_cast<int>(i / std::max<int64_t>(1, part)), i, checks_);
      case Operation::kAllToAll:
        return InputValue(static_cast<int>(i / part), own + i % part, checks_);
      case Operation::kBroadcast:
        return InputValue(options_.root, i, checks_);
      case Operation::kSend:
      case Operation::kReceive:
        return InputValue(previous(), i, checks_);
      case Operation::kAllReduce:
      case Operation::kBarrier:
        break;
    }
    return ReducedValue(i);
  }

  // Returns element i of the ranks' inputs, reduced.
  int64_t ReducedValue(int64_t i) const {
    int64_t total = InputValue(0, i, checks_);
    for (int r = 1; r < group_.size(); ++r) {
      const int64_t value = InputValue(r, i, checks_);
      total = options_.reduction == Reduction::kSum ? total + value : std::max(total, value);
    }
    return total;
  }

  World& world_;
  Communicator& group_;
  const BenchOptions& options_;
  char* const first_;
  char* const second_;
  MemoryPass* const memory_;
  std::vector<char> host_copy_;  // of a buffer, for the CPU
  int checks_ = 0;
};

std::string TimingCells(const Timing& timing, bool with_bound) {
  const std::string wrong = timing.wrong < 0 ? "N/A" : absl::StrCat(timing.wrong);
  std::string cells = absl::StrFormat("%10.2f %7.2f %7.2f %6s", timing.seconds * 1e6,
                                      timing.algbw / 1e9, timing.busbw / 1e9, wrong);
  if (timing.bound > 0) {
    absl::StrAppendFormat(&cells, " %6.0f%%", 100 * timing.bound / timing.seconds);
  } else if (with_bound) {
    absl::StrAppendFormat(&cells, " %7s", "-");
  }
  return cells;
}

}  // namespace

int64_t BufferBytes(const BenchOptions& options, int ranks) {
  return std::max<int64_t>(options.last_bytes, ranks * SizeOf(options.dtype));
}

double BusFactor(Operation operation, int ranks) {
  const double share = ranks == 1 ? 1 : static_cast<double>(ranks - 1) / ranks;
  if (operation == Operation::kAllReduce) return ranks == 1 ? 1 : 2 * share;
  return HasParts(operation) ? share : 1;
}

absl::Status Bench(World& world, const BenchOptions& options, char* first, char* second,
                   const std::function<void(const BenchRow& row)>& seen) {
  std::optional<MemoryPass> memory;
  if (options.bound) {
    ASSIGN_OR_RETURN(memory, MemoryPass::Create(world.cpu_communicator()));
  }
  Runner runner(world, options, first, second, memory.has_value() ? &*memory : nullptr);
  for (const Operation operation : options.operations) {
    for (double bytes = static_cast<double>(options.first_bytes);
         bytes <= static_cast<double>(options.last_bytes); bytes *= options.factor) {
      ASSIGN_OR_RETURN(const BenchRow row, runner.Run(operation, static_cast<int64_t>(bytes)));
      seen(row);
      if (operation == Operation::kBarrier) break;  // which has no size
    }
  }
  return absl::OkStatus();
}

std::string TableHead(const BenchOptions& options) {
  const auto line = [&options](const std::vector<const char*>& left,
                               const std::vector<const char*>& cells) {
    std::string text = absl::StrFormat("#%-14s %11s %12s %6s %6s %4s", left[0], left[1], left[2],
                                       left[3], left[4], left[5]);
    for (int side = 0; side < 2; ++side) {
      absl::StrAppendFormat(&text, "  %10s %7s %7s %6s", cells[0], cells[1], cells[2], cells[3]);
      if (options.bound) absl::StrAppendFormat(&text, " %7s", cells[4]);
    }
    return absl::StrCat(text, "\n");
  };
  const int side = options.bound ? 41 : 33;
  return absl::StrCat(
      absl::StrFormat("#%58s  %*s  %*s\n", "", side, "out-of-place", side, "in-place"),
      line({"operation", "size", "count", "type", "redop", "root"},
           {"time", "algbw", "busbw", "#wrong", "bound"}),
      line({"", "(B)", "(elements)", "", "", ""}, {"(us)", "(GB/s)", "(GB/s)", "", ""}));
}

std::string TableRow(const BenchRow& row, const BenchOptions& options) {
  const bool reduces =
      row.operation == Operation::kAllReduce || row.operation == Operation::kReduceScatter;
  const std::string reduction = !reduces                               ? "none"
                                : options.reduction == Reduction::kSum ? "sum"
                                                                       : "max";
  const std::string root =
      row.operation == Operation::kBroadcast ? absl::StrCat(options.root) : "-1";
  const absl::string_view type =
      row.operation == Operation::kBarrier ? "none" : DTypeName(options.dtype);
  const auto cells = [&](const Timing& timing) { return TimingCells(timing, options.bound); };
  return absl::StrFormat(" %-14s %11d %12d %6s %6s %4s  %s%s\n", OperationName(row.operation),
                         row.bytes, row.count, type, reduction, root, cells(row.out_of_place),
                         row.has_in_place ? absl::StrCat("  ", cells(row.in_place)) : "");
}

}  // namespace tessera::comm
