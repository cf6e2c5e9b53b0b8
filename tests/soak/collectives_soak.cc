// Runs millions of small operations on overlapping groups (all ranks, and the rows and columns of a
// mesh of them) and checks every result. It is an error if a rank's memory or number of descriptors
// grows.
//
//   ./bazelw build //tests/soak:collectives_soak
//   ./bazelw run //tools/launch -- --nproc=4 bazel-bin/tests/soak/collectives_soak --backend=shm
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "collectives/communicator.h"
#include "collectives/connected_world.h"
#include "collectives/testing/conformance.h"
#include "core/status/status_macros.h"
#include "core/text/human_units.h"
#include "core/text/version.h"
#include "tools/command_line/command_line.h"
#include "tools/train/report/process_memory.h"

ABSL_FLAG(int64_t, operations, 5'000'000, "the least number of operations of each rank");
ABSL_FLAG(int64_t, seed, 1, "selects the operations and the pauses between them");
ABSL_FLAG(std::string, backend, "", "a backend of collectives/connected_world.h");
ABSL_FLAG(std::vector<std::string>, hosts, {},
          "the host of each rank, emulated on this machine: a,a,b,b");
ABSL_FLAG(double, timeout, 60, "seconds that a rank waits for another");

namespace tessera::comm {
namespace {

using Clock = std::chrono::steady_clock;

// All-reduces with pauses, in flight together, between two rounds of all operations.
constexpr int kInFlight = 2000;
// The groups of the mesh are made anew after this many rounds.
constexpr int64_t kRoundsOfGroups = 64;
// The share of the operations after which memory is measured for the first time.
constexpr double kWarmUp = 0.1;
constexpr int kReports = 20;
// The allowed growth of a rank's memory up to the end: less than a byte for each operation.
constexpr double kBytesPerOperation = 0.5;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kSlackBytes = int64_t{1} << 30;  // they keep what was freed
#else
constexpr int64_t kSlackBytes = int64_t{1} << 20;
#endif

struct Resources {
  int64_t memory = 0;  // without code, whose pages are read when they are first run
  int64_t descriptors = 0;
};

Resources MeasureResources() {
  const ResidentMemory memory = ReadResidentMemory();
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  return {memory.files + memory.anonymous,
          std::distance(begin(descriptors), end(descriptors)) - 1};  // it is one itself
}

class Soak {
 public:
  Soak(World& world, int64_t operations, uint64_t seed)
      : world_(world), operations_(operations), seed_(seed) {
    for (int rows = 1; rows * rows <= world.size(); ++rows) {
      if (world.size() % rows == 0) rows_ = rows;
    }
  }

  absl::Status Run() {
    Print(absl::StrFormat("%d ranks, %d x %d, %s: %d operations with seed %d\n", world_.size(),
                          rows_, world_.size() / rows_, world_.backend(), operations_, seed_));
    bool is_warm = false;
    double next_report = 1.0 / kReports;
    for (int64_t round = 0; Done() < operations_; ++round) {
      if (round % kRoundsOfGroups == 0) RETURN_IF_ERROR(MakeGroups());
      RETURN_IF_ERROR(Round(round));
      if (!is_warm && static_cast<double>(Done()) >= kWarmUp * static_cast<double>(operations_)) {
        is_warm = true;
        warm_at_ = Done();
        warm_ = MeasureResources();
      }
      const double part = static_cast<double>(Done()) / static_cast<double>(operations_);
      if (part < next_report) continue;
      next_report = std::floor(part * kReports + 1) / kReports;
      const double seconds = Seconds();
      const Resources held = MeasureResources();
      Print(absl::StrFormat("%d operations, %s, %s left; rank 0: %s, %d descriptors\n", Done(),
                            FormatSeconds(seconds),
                            FormatSeconds(seconds * std::max(0.0, 1 / part - 1)),
                            FormatBytes(held.memory), held.descriptors));
    }
    return Finish();
  }

 private:
  double Seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  void Print(const std::string& text) const {
    if (world_.rank() != 0) return;
    std::printf("%s", text.c_str());
    std::fflush(stdout);
  }

  std::vector<Communicator*> Groups() const {
    return {&world_.communicator(), row_.get(), column_.get()};
  }

  // Returns the number of operations so far; it is the same on all ranks.
  int64_t Done() const {
    int64_t done = 0;
    for (const OperationCount& each : Calls()) done += each.calls;
    return done;
  }
  Traffic Calls() const {
    Traffic calls = of_earlier_groups_;
    for (const Communicator* group : Groups()) Add(group, &calls);
    return calls;
  }
  static void Add(const Communicator* group, Traffic* calls) {
    for (int i = 0; group != nullptr && i < kOperations; ++i) {
      (*calls)[i].calls += group->traffic()[i].calls;
      (*calls)[i].bytes_sent += group->traffic()[i].bytes_sent;
    }
  }

  absl::Status MakeGroups() {
    const int in_row = world_.size() / rows_;
    std::vector<int> rows, columns;
    for (int rank = 0; rank < world_.size(); ++rank) {
      rows.push_back(rank / in_row);
      columns.push_back(rank % in_row);
    }
    Add(row_.get(), &of_earlier_groups_);
    Add(column_.get(), &of_earlier_groups_);
    row_.reset();
    column_.reset();
    ASSIGN_OR_RETURN(row_, world_.communicator().Split("row", rows));
    ASSIGN_OR_RETURN(column_, world_.communicator().Split("column", columns));
    return absl::OkStatus();
  }

  absl::Status Round(int64_t round) {
    RETURN_IF_ERROR(CheckOverlappingGroups(Groups(), kInFlight,
                                           seed_ * 1'000'000'007 + static_cast<uint64_t>(round),
                                           /*delays=*/true));
    ConformanceOptions options;
    options.sizes = {1, 7, 64};
    options.large_sizes = {};
    options.dtypes = {kAllDTypes[round % std::size(kAllDTypes)]};
    for (Communicator* group : Groups()) RETURN_IF_ERROR(CheckOperations(*group, options));
    return absl::OkStatus();
  }

  // Prints the table. Fails if a rank holds more than at the first measurement.
  absl::Status Finish() {
    const double seconds = Seconds();
    const Traffic calls = Calls();
    const int64_t done = Done();
    const Resources end = MeasureResources();
    using Numbers = std::array<int64_t, 4>;
    const Numbers mine = {warm_.memory, end.memory, warm_.descriptors, end.descriptors};
    std::vector<Numbers> all(world_.size());
    Communicator& world = world_.communicator();
    RETURN_IF_ERROR(world.Wait(world.AllGather(mine.data(), all.data(), world_.size() * mine.size(),
                                               mine.size(), DType::kI64)));
    std::string table = absl::StrFormat("\n%-16s %12s %12s\n", "", "operations", "bytes sent");
    for (int i = 0; i < kOperations; ++i) {
      absl::StrAppendFormat(&table, "%-16s %12d %12d\n", OperationName(static_cast<Operation>(i)),
                            calls[i].calls, calls[i].bytes_sent);
    }
    absl::StrAppendFormat(&table, "%-16s %12d   in %s, %.2f us each\n\n", "rank 0", done,
                          FormatSeconds(seconds), seconds / static_cast<double>(done) * 1e6);
    absl::StrAppendFormat(&table, "%-16s %12s %12s %12s %12s\n", "", "memory", "at the end",
                          "descriptors", "at the end");
    const int64_t more_bytes =
        kSlackBytes +
        static_cast<int64_t>(kBytesPerOperation * static_cast<double>(done - warm_at_));
    std::string wrong;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const auto& [memory, memory_end, descriptors, descriptors_end] = all[rank];
      absl::StrAppendFormat(&table, "rank %-11d %12s %12s %12d %12d\n", rank, FormatBytes(memory),
                            FormatBytes(memory_end), descriptors, descriptors_end);
      if (memory_end - memory <= more_bytes && descriptors_end == descriptors) continue;
      absl::StrAppend(&wrong, wrong.empty() ? "" : ", ", "rank ", rank);
    }
    Print(table);
    if (wrong.empty()) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(wrong, " holds more after ", done,
                                            " operations than after ", warm_at_, ": up to ",
                                            FormatBytes(more_bytes), " are allowed"));
  }

  World& world_;
  const int64_t operations_;
  const uint64_t seed_;
  int rows_ = 1;
  std::unique_ptr<Communicator> row_, column_;
  Traffic of_earlier_groups_ = {};
  const Clock::time_point begin_ = Clock::now();
  int64_t warm_at_ = 0;  // operations
  Resources warm_;
};

absl::Status Run(const std::vector<std::string>& arguments) {
  const std::vector<FlagGroup> groups = {{"Flags",
                                          {{"operations", "N"},
                                           {"seed", "N"},
                                           {"backend", "NAME"},
                                           {"hosts", "NAME,..."},
                                           {"timeout", "X"}}}};
  ASSIGN_OR_RETURN(const ParsedFlags parsed, ParseFlags(arguments, groups, Rest::kError));
  if (parsed.help) {
    std::printf("Many small operations on overlapping groups.\n%s", FlagsHelp(groups).c_str());
    return absl::OkStatus();
  }
  if (parsed.version) {
    std::printf("%s", VersionLine().c_str());
    return absl::OkStatus();
  }
  WorldOptions options;
  options.backend = absl::GetFlag(FLAGS_backend);
  options.hosts = absl::GetFlag(FLAGS_hosts);
  options.timeout_seconds = absl::GetFlag(FLAGS_timeout);
  ASSIGN_OR_RETURN(const std::unique_ptr<ConnectedWorld> world, ConnectedWorld::Connect(options));
  const absl::Status status =
      Soak(*world, absl::GetFlag(FLAGS_operations), absl::GetFlag(FLAGS_seed)).Run();
  const absl::Status left = world->Leave(status);
  return status.ok() ? left : status;
}

}  // namespace
}  // namespace tessera::comm

int main(int argc, char** argv) {
  const absl::Status status = tessera::comm::Run(std::vector<std::string>(argv + 1, argv + argc));
  std::fflush(stdout);
  if (status.ok()) return 0;
  // Errors are one line, even if a library's message has several.
  const std::string message(status.message());
  std::fprintf(stderr, "error: %s\n", absl::StrReplaceAll(message, {{"\n", " "}}).c_str());
  return 1;
}
