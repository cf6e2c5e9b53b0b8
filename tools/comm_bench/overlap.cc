#include "tools/comm_bench/overlap.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/status/status_macros.h"
#include "core/train/measure/arithmetic_loop.h"

namespace tessera::comm {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Ticket Issue(Communicator& group, const BenchOptions& options, Operation operation, int64_t count,
             char* first, char* second) {
  const int64_t part = count / group.size();
  const int64_t own = group.rank() * part * SizeOf(options.dtype);
  Request request = {.operation = operation,
                     .dtype = options.dtype,
                     .reduction = options.reduction,
                     .input = first,
                     .output = first,
                     .count = count};
  switch (operation) {
    case Operation::kReduceScatter:
      request.output = first + own;
      request.part = part;
      break;
    case Operation::kAllGather:
      request.input = first + own;
      request.part = part;
      break;
    case Operation::kAllToAll:
      request.output = second;
      request.part = part;
      break;
    case Operation::kBroadcast:
      request.peer = options.root;
      break;
    default:
      break;
  }
  return group.Issue(request);
}

class OverlapRunner {
 public:
  OverlapRunner(World& world, const OverlappedOperation& operation)
      : world_(world), operation_(operation) {}

  absl::StatusOr<OverlapRow> Run(int warmups, int iterations) {
    std::vector<Times> rounds;
    for (int i = 0; i <= warmups + iterations; ++i) {
      ASSIGN_OR_RETURN(const Times times, TimeRound(/*passes=*/0));
      if (i > warmups) rounds.push_back(times);
    }
    double alone = MedianOf(rounds, [](const Times& times) { return times[kAlone]; });
    repeats_ = std::clamp<int64_t>(std::lround(kRoundSeconds / alone), 1, kMaxRepeats);
    ASSIGN_OR_RETURN(int64_t passes, BroadcastFromRank0(computation_.PassesFor(kLength * alone)));
    rounds.clear();
    std::vector<Times> recent;
    for (int i = 0; i < kCorrections + iterations; ++i) {
      ASSIGN_OR_RETURN(Times times, TimeRound(passes));
      if (i >= kCorrections) rounds.push_back(times);
      // The next round computes as long as the operation takes now.
      times[kComputation] /= static_cast<double>(passes);
      recent.push_back(times);
      if (recent.size() > kRecent) recent.erase(recent.begin());
      alone = MedianOf(recent, [](const Times& times) { return times[kAlone]; });
      const double pass = MedianOf(recent, [](const Times& times) { return times[kComputation]; });
      passes = std::max<int64_t>(1, std::lround(kLength * alone / pass));
    }
    return RowOf(rounds);
  }

 private:
  static constexpr int kCorrections = 3;
  static constexpr size_t kRecent = 3;
  // Computation is a little longer than the operation, so that it can hide all of it although
  // their times vary.
  static constexpr double kLength = 1.07;
  // An operation of a few microseconds is repeated in a round: ranks leave a barrier that far
  // apart.
  static constexpr double kRoundSeconds = 500e-6;
  static constexpr int64_t kMaxRepeats = 100;
  enum { kAlone, kComputation, kInSequence, kBoth, kSlowed, kTimes };
  // The times of a round on the slowest rank, the same on all ranks. kSlowed is the computation of
  // kBoth.
  using Times = std::array<double, kTimes>;

  template <typename Value>
  static double MedianOf(const std::vector<Times>& rounds, Value value) {
    std::vector<double> values;
    for (const Times& times : rounds) values.push_back(value(times));
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

  static OverlapRow RowOf(const std::vector<Times>& rounds) {
    const auto median = [&](int time) {
      return MedianOf(rounds, [&](const Times& times) { return times[time]; });
    };
    return OverlapRow{
        .alone = median(kAlone),
        .computation = median(kComputation),
        .in_sequence = median(kInSequence),
        .both = median(kBoth),
        .hidden = MedianOf(
            rounds,
            [](const Times& t) { return (t[kAlone] + t[kComputation] - t[kBoth]) / t[kAlone]; }),
        .lost = MedianOf(rounds, [](const Times& t) { return t[kSlowed] / t[kComputation] - 1; }),
        .both_to_sequence =
            MedianOf(rounds, [](const Times& t) { return t[kBoth] / t[kInSequence]; })};
  }

  // Returns rank 0's number on all ranks. Their own estimates differ, and all ranks must compute
  // equally long.
  absl::StatusOr<int64_t> BroadcastFromRank0(int64_t number) {
    Communicator& cpu = world_.cpu_communicator();
    RETURN_IF_ERROR(cpu.Wait(cpu.Broadcast(&number, &number, 1, DType::kI64, 0)));
    return number;
  }

  // Runs a round: times the operation, `passes` of computation, and the two in sequence and
  // together, each after a barrier. With 0 passes, only the operation. Collective.
  absl::StatusOr<Times> TimeRound(int64_t passes) {
    Communicator& cpu = world_.cpu_communicator();
    Times times = {};
    RETURN_IF_ERROR(cpu.Wait(cpu.Barrier()));
    Clock::time_point begin = Clock::now();
    for (int64_t i = 0; i < repeats_; ++i) {
      operation_.start();
      RETURN_IF_ERROR(operation_.wait());
    }
    times[kAlone] = SecondsSince(begin);
    if (passes > 0) {
      RETURN_IF_ERROR(cpu.Wait(cpu.Barrier()));
      begin = Clock::now();
      for (int64_t i = 0; i < repeats_; ++i) computation_.Run(passes);
      times[kComputation] = SecondsSince(begin);
      RETURN_IF_ERROR(cpu.Wait(cpu.Barrier()));
      begin = Clock::now();
      for (int64_t i = 0; i < repeats_; ++i) {
        operation_.start();
        RETURN_IF_ERROR(operation_.wait());
        computation_.Run(passes);
      }
      times[kInSequence] = SecondsSince(begin);
      RETURN_IF_ERROR(cpu.Wait(cpu.Barrier()));
      begin = Clock::now();
      for (int64_t i = 0; i < repeats_; ++i) {
        operation_.start();
        const Clock::time_point computes = Clock::now();
        computation_.Run(passes);
        times[kSlowed] += SecondsSince(computes);
        RETURN_IF_ERROR(operation_.wait());
      }
      times[kBoth] = SecondsSince(begin);
    }
    for (double& time : times) time /= static_cast<double>(repeats_);
    RETURN_IF_ERROR(
        cpu.Wait(cpu.AllReduce(times.data(), times.data(), kTimes, DType::kF64, Reduction::kMax)));
    return times;
  }

  World& world_;
  const OverlappedOperation& operation_;
  ArithmeticLoop computation_;
  int64_t repeats_ = 1;  // of what a round times
};

}  // namespace

absl::StatusOr<OverlapRow> TimeOverlap(World& world, const OverlappedOperation& operation,
                                       int warmups, int iterations) {
  return OverlapRunner(world, operation).Run(warmups, iterations);
}

absl::Status BenchOverlap(World& world, const BenchOptions& options, char* first, char* second,
                          const std::function<void(const OverlapRow& row)>& seen) {
  Communicator& group = world.communicator();
  const int64_t unit = SizeOf(options.dtype) * world.size();
  for (const Operation operation : options.operations) {
    if (operation == Operation::kSend || operation == Operation::kBarrier) continue;
    for (double bytes = static_cast<double>(options.first_bytes);
         bytes <= static_cast<double>(options.last_bytes); bytes *= options.factor) {
      const int64_t count = std::max<int64_t>(1, static_cast<int64_t>(bytes) / unit) * world.size();
      Ticket ticket;
      const OverlappedOperation overlapped = {
          .start = [&] { ticket = Issue(group, options, operation, count, first, second); },
          .wait = [&] { return group.Wait(ticket); }};
      ASSIGN_OR_RETURN(OverlapRow row,
                       TimeOverlap(world, overlapped, options.warmups, options.iterations));
      row.name = std::string(OperationName(operation));
      row.bytes = count * SizeOf(options.dtype);
      seen(row);
    }
  }
  return absl::OkStatus();
}

std::string OverlapHead() {
  return absl::StrFormat("#%-14s %11s %11s %11s %13s %11s %7s %7s %8s\n", "operation", "size (B)",
                         "alone (us)", "comp. (us)", "sequence (us)", "both (us)", "hidden", "lost",
                         "both/seq.");
}

std::string OverlapLine(const OverlapRow& row) {
  return absl::StrFormat(" %-14s %11d %11.1f %11.1f %13.1f %11.1f %6.0f%% %6.0f%% %8.2f\n",
                         row.name, row.bytes, row.alone * 1e6, row.computation * 1e6,
                         row.in_sequence * 1e6, row.both * 1e6, 100 * row.hidden, 100 * row.lost,
                         row.both_to_sequence);
}

}  // namespace tessera::comm
