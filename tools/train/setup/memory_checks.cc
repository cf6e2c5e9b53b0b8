#include "tools/train/setup/memory_checks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "collectives/host_identity.h"
#include "core/posix/available_memory.h"
#include "core/status/status_macros.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "core/train/ranks/memory_limit.h"
#include "tools/train/flags/config_sources.h"
#include "tools/train/setup/prepare.h"

namespace tessera {
namespace {

// Fields of the configuration that may make a run need less memory.
struct MemorySaving {
  std::string recompute;
  int64_t micro_batches = 1;
  int64_t peak = 0;  // bytes of a rank with them; 0: not planned
};

// Returns the planned peak of the run with these fields; 0 if it cannot be planned so.
int64_t PeakWith(const MemorySaving& saving, CommandLine line, const ConfiguredRun& configured) {
  RunConfig config = configured.config;
  config.set_recompute(saving.recompute);
  config.set_micro_batches(saving.micro_batches);
  // As flags they override a checkpoint's Plan.
  line.settings.push_back({"--recompute", "recompute", saving.recompute});
  line.settings.push_back({"--micro_batches", "micro_batches", absl::StrCat(saving.micro_batches)});
  const absl::StatusOr<CompiledRun> compiled = CompileAlone(line, configured, config);
  return compiled.ok() ? configured.memory_bound.Bounded(*compiled) : 0;
}

// Returns the fewest micro-batches with which the run fits, or else those with which it needs
// least; a peak of 0 if none save memory.
MemorySaving WithMicroBatches(const std::string& recompute, const CommandLine& line,
                              const ConfiguredRun& configured, const CompiledRun& compiled) {
  // More would take long to plan, and save little more.
  constexpr int64_t kMost = 64;
  constexpr double kLeastGain = 0.02;
  MemorySaving best;
  double before = static_cast<double>(configured.memory_bound.Bounded(compiled));
  for (int64_t count = 2 * configured.config.micro_batches(); count <= kMost; count *= 2) {
    if (configured.config.batch() % count != 0) break;
    MemorySaving saving = {recompute, count};
    saving.peak = PeakWith(saving, line, configured);
    if (saving.peak == 0 || static_cast<double>(saving.peak) > (1 - kLeastGain) * before) break;
    best = saving;
    before = static_cast<double>(saving.peak);
    if (saving.peak <= configured.memory_bound.bytes) break;
  }
  return best;
}

// Returns how the run would need less memory, as the end of the error that it needs too much: by
// recomputation, by micro-batches, or by both if neither suffices.
std::string MemorySavings(const CommandLine& line, const ConfiguredRun& configured,
                          const CompiledRun& compiled) {
  const RunConfig& config = configured.config;
  const int64_t limit = configured.memory_bound.bytes;
  int64_t least = configured.memory_bound.Bounded(compiled);
  std::string text;
  // Adds a saving that saves more than those before. Returns whether the run fits with it.
  const auto add = [&](const MemorySaving& saving) {
    if (saving.peak == 0 || saving.peak >= least) return false;
    least = saving.peak;
    std::string flags;
    if (saving.recompute != config.recompute()) flags = " --recompute=block";
    if (saving.micro_batches != config.micro_batches()) {
      absl::StrAppend(&flags, " --micro_batches=", saving.micro_batches);
    }
    const bool fits = least <= limit;
    absl::StrAppend(&text, fits ? "; it fits with" : ", or with", flags, fits ? ", in " : " ",
                    fits ? FormatBytes(least) : SmallestLimit(least));
    return fits;
  };
  const bool recomputes = config.recompute() == "block";
  if (!recomputes) {
    MemorySaving recomputing = {"block", config.micro_batches()};
    recomputing.peak = PeakWith(recomputing, line, configured);
    if (add(recomputing)) return text;
  }
  if (compiled.state_bytes > limit) return text;  // state is not saved by either
  const MemorySaving in_micro_batches =
      WithMicroBatches(config.recompute(), line, configured, compiled);
  if (add(in_micro_batches) || recomputes) return text;
  add(WithMicroBatches("block", line, configured, compiled));
  return text;
}

// Returns whether the ranks of a host have their arenas in shared memory.
bool SharesMemory(Ranks& ranks) {
  if (ranks.world() == nullptr) return false;
  const std::string& backend = ranks.world()->backend();
  return backend == "shm" || backend == "hierarchical";
}

}  // namespace

absl::Status CheckMemoryLimit(const CommandLine& line, const ConfiguredRun& configured,
                              const CompiledRun& compiled) {
  const MemoryBound& bound = configured.memory_bound;
  absl::Status fits = CheckMemoryLimit(bound.Bounded(compiled), bound.bytes, bound.written,
                                       configured.ranks.size == 1 ? "the run" : "each rank");
  if (fits.ok()) return fits;
  std::string savings;
  if (line.mode == Mode::kTrain && !configured.plan.has_value()) {
    savings = configured.ranks.ranks
                  ->BroadcastFromFirst([&]() -> absl::StatusOr<std::string> {
                    return MemorySavings(line, configured, compiled);
                  })
                  .value_or("");
  }
  // All ranks have compiled the same Programs.
  return AgreedError(absl::ResourceExhaustedError(absl::StrCat(fits.message(), savings)));
}

absl::StatusOr<std::vector<std::string>> CheckMemoryOfHosts(int64_t bytes,
                                                            const RunRanks& run_ranks) {
  const int64_t needed = bytes * run_ranks.of_host;
  const int64_t available = AvailableMemory();
  std::string note;
  if (available > 0 && needed > available && run_ranks.size == 1) {
    note = absl::StrCat("the run needs ", FormatBytes(needed), " of memory, and only ",
                        FormatBytes(available), " are available");
  } else if (available > 0 && needed > available) {
    note = absl::StrCat("on ", comm::HostName(), ", ", Counted(run_ranks.of_host, "rank"), " of ",
                        FormatBytes(bytes), " need ", FormatBytes(needed), " of memory, and only ",
                        FormatBytes(available), " are available");
  }
  Ranks& ranks = *run_ranks.ranks;
  const bool fails = !note.empty() && bytes <= available && SharesMemory(ranks);
  RETURN_IF_ERROR(ranks.Agree(fails ? absl::ResourceExhaustedError(note) : absl::OkStatus()));
  ASSIGN_OR_RETURN(std::vector<std::string> notes, ranks.AllGather(note));
  std::sort(notes.begin(), notes.end());
  notes.erase(std::unique(notes.begin(), notes.end()), notes.end());
  if (notes.front().empty()) notes.erase(notes.begin());
  return notes;
}

}  // namespace tessera
