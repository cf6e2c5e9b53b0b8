#include "tools/compare/preparation.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/posix/available_memory.h"
#include "core/status/status_macros.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "tools/strategy_entry/default_strategies.h"
#include "tools/strategy_entry/strategy_entry.h"
#include "tools/train/rank/standard_output.h"
#include "tools/train/setup/strategy_session.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Memory of a host: what its ranks need, and what it has available (0: not known). All ranks have
// the numbers of the host that needs most and of the one that has least.
struct HostMemory {
  int64_t needed = 0;
  int64_t available = 0;

  bool lacks() const { return available > 0 && needed > available; }
};

// Collective. `bytes` are those of a rank's arenas and copies.
absl::StatusOr<HostMemory> MemoryOfHosts(int64_t bytes, const RunRanks& ranks) {
  // Heaps, stacks and page tables need some memory too.
  const int64_t with_heap = bytes + bytes / 32;
  int64_t numbers[] = {with_heap * ranks.of_host, -AvailableMemory()};
  RETURN_IF_ERROR(ranks.ranks->Max(absl::MakeSpan(numbers)));
  return HostMemory{numbers[0], -numbers[1]};
}

std::string NeededMemoryText(const HostMemory& memory) {
  return absl::StrCat(FormatBytes(memory.needed), " of memory on a host, and ",
                      FormatBytes(memory.available), " are available");
}

// Excludes a strategy that does not fit in the memory of a host, even if it is there alone.
absl::Status CheckFit(ComparedStrategy& strategy, const RunRanks& ranks) {
  const int64_t bytes =
      std::max(strategy.arena_bytes() + strategy.state_bytes(), strategy.check_bytes());
  ASSIGN_OR_RETURN(const HostMemory memory, MemoryOfHosts(bytes, ranks));
  if (!memory.lacks()) return absl::OkStatus();
  strategy.Exclude(
      Outcome::kDoesNotFit, absl::StrCat("does not fit: ", FormatBytes(strategy.arena_bytes())),
      absl::StrCat(strategy.label(), " does not fit: ", Counted(ranks.of_host, "rank"),
                   ranks.of_host == 1 ? " needs " : " need ", NeededMemoryText(memory)));
  return absl::OkStatus();
}

// Estimates the time that the rest of several strategies takes.
class TimeLeft {
 public:
  explicit TimeLeft(size_t strategies) : left_(static_cast<double>(strategies)) {}

  // Call after each strategy. Returns "; about 24.0 s left", or "" if that is short.
  std::string AfterOne() {
    constexpr double kLong = 10;
    ++done_;
    --left_;
    const double seconds = SecondsSince(begin_) / done_ * left_;
    return seconds < kLong ? "" : absl::StrCat("; about ", FormatSeconds(seconds), " left");
  }

 private:
  const Clock::time_point begin_ = Clock::now();
  double done_ = 0, left_;
};

// Strategies with the same batch, and their trainings: only these must be the same.
struct Group {
  std::vector<ComparedStrategy*> strategies;
  std::vector<CheckedTraining> trainings;
};

// "5.54, 5.52, 5.5".
std::string LossesOf(const CheckedTraining& training) {
  return absl::StrJoin(training.steps, ", ", [](std::string* out, const CheckedStep& step) {
    absl::StrAppendFormat(out, "%.4f", step.loss.value);
  });
}

// Gives a strategy a memory limit between the peaks of those before it, unless the run has a limit
// that it is to keep.
void DeriveLimit(absl::Span<const PlannedPeak> planned, ComparedStrategy* strategy) {
  const DerivedLimit limit = LimitBetween(planned);
  const MemoryBound& bound = strategy->configured().memory_bound;
  if (bound.bytes > 0 && (!bound.of_device || bound.bytes <= limit.bytes)) return;
  strategy->AddNote(limit.note);
  if (limit.bytes > 0) strategy->LimitMemory(limit.bytes);
}

// Collective. Returns the names of the options of an entry's strategy, if they have to be known.
absl::StatusOr<std::vector<std::string>> OptionNamesOnRanks(const StrategyEntry& entry,
                                                            Ranks& ranks) {
  if (!StatesSettings(entry)) return std::vector<std::string>();
  ASSIGN_OR_RETURN(const std::string names,
                   ranks.BroadcastFromFirst([&]() -> absl::StatusOr<std::string> {
                     ASSIGN_OR_RETURN(const std::vector<std::string> each, OptionNames(entry));
                     return absl::StrJoin(each, ",");
                   }));
  return absl::StrSplit(names, ',', absl::SkipEmpty());
}

}  // namespace

absl::StatusOr<Strategies> ConfigureAll(const CompareCommandLine& line, const RunRanks& ranks) {
  Strategies strategies;
  for (const StrategyEntry& entry : line.strategies) {
    CommandLine train = line.train;
    const absl::StatusOr<std::vector<std::string>> names = OptionNamesOnRanks(entry, *ranks.ranks);
    RETURN_IF_ERROR(NamedStatus(entry.label, names.status()));
    RETURN_IF_ERROR(ranks.ranks->Agree(SetStrategy(entry, *names, &train)));
    if (!train.strategy.empty()) {
      RETURN_IF_ERROR(
          NamedStatus(entry.label, CheckStrategyFlags(train.strategy, train, *ranks.ranks)));
    }
    std::vector<std::string> notes;
    absl::StatusOr<ConfiguredRun> configured = ConfigureRun(train, *line.model, ranks, &notes);
    if (!configured.ok()) return NamedStatus(entry.label, configured.status());
    strategies.push_back(std::make_unique<ComparedStrategy>(
        entry.label, std::move(train), *std::move(configured), std::move(notes)));
  }
  return strategies;
}

absl::Status CompileAll(const CompareCommandLine& line, const Strategies& strategies,
                        const RunRanks& ranks) {
  TimeLeft left(strategies.size());
  std::vector<PlannedPeak> planned;
  for (size_t i = 0; i < strategies.size(); ++i) {
    ComparedStrategy* const each = strategies[i].get();
    const Clock::time_point begin = Clock::now();
    if (line.strategies[i].limit_between) DeriveLimit(planned, each);
    RETURN_IF_ERROR(each->Compile(/*with_view=*/!line.report.empty()));
    if (each->arena_bytes() > 0) planned.push_back({each->label(), each->arena_bytes()});
    if (each->is_compared()) RETURN_IF_ERROR(CheckFit(*each, ranks));
    if (each->is_compared()) {
      PrintLine(absl::StrCat("compiled ", each->label(), " in ", FormatSeconds(SecondsSince(begin)),
                             ": ", FormatBytes(each->arena_bytes()), " on each rank",
                             left.AfterOne()));
    } else {
      left.AfterOne();
      PrintLine(each->result().fault);
    }
    for (const std::string& note : each->notes()) {
      PrintLine(absl::StrCat("note: ", each->label(), ": ", note));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAll(const Strategies& strategies, StopRequest& stop) {
  std::vector<ComparedStrategy*> checked;
  for (const auto& each : strategies) {
    if (each->is_compared()) checked.push_back(each.get());
  }
  std::map<int64_t, Group> groups;  // by batch
  TimeLeft left(checked.size());
  for (ComparedStrategy* each : checked) {
    const Clock::time_point begin = Clock::now();
    ASSIGN_OR_RETURN(CheckedTraining training, each->Check(stop));
    if (stop.signal() != 0) return absl::OkStatus();
    PrintLine(absl::StrCat("trained with ", each->label(), " to compare, in ",
                           FormatSeconds(SecondsSince(begin)), ": losses ", LossesOf(training),
                           left.AfterOne()));
    Group& group = groups[each->batch()];
    group.strategies.push_back(each);
    group.trainings.push_back(std::move(training));
  }
  for (const auto& [batch, group] : groups) {
    if (groups.size() > 1 && group.strategies.size() == 1) {
      PrintLine(absl::StrCat("note: ", group.strategies.front()->label(), " alone has a batch of ",
                             batch,
                             ": there is no other to compare its losses and gradients with"));
    }
    Judge(group.strategies, JudgeTraining(group.trainings));
  }
  return absl::OkStatus();
}

void Judge(const std::vector<ComparedStrategy*>& strategies, const Verdict& verdict) {
  for (size_t i = 0; i < strategies.size(); ++i) {
    if (verdict.faults[i].empty()) continue;
    PrintLine(verdict.faults[i]);
    strategies[i]->Exclude(Outcome::kDiffers, "trains differently", verdict.faults[i]);
  }
}

absl::StatusOr<bool> FitTogether(const Strategies& strategies, const RunRanks& ranks) {
  int64_t bytes = 0, copy = 0;
  for (const auto& each : strategies) {
    if (!each->is_compared()) continue;
    bytes += each->arena_bytes();
    copy = std::max(copy, each->state_bytes());
  }
  ASSIGN_OR_RETURN(const HostMemory memory, MemoryOfHosts(bytes + copy, ranks));
  if (!memory.lacks()) return true;
  PrintLine(absl::StrCat("note: together the strategies need ", NeededMemoryText(memory),
                         ": they run one after the other"));
  return false;
}

}  // namespace tessera
