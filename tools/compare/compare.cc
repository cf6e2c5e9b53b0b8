#include "tools/compare/compare.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/posix/available_memory.h"
#include "core/status/status_macros.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "core/train/ranks/compare_ranks.h"
#include "tools/compare/compared_strategy.h"
#include "tools/compare/comparison.h"
#include "tools/train/folder/run_folder.h"
#include "tools/train/job/interrupt.h"
#include "tools/train/job/standard_output.h"
#include "tools/train/job/stop_request.h"
#include "tools/train/report/report.h"
#include "tools/train/setup/run_cluster.h"
#include "tools/train/setup/setup.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using Strategies = std::vector<std::unique_ptr<ComparedStrategy>>;

void PrintNotes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) PrintLine(absl::StrCat("note: ", note));
}

// Compares the flags that the training tool does not have.
absl::Status CompareFlagsOfRanks(const CompareCommandLine& line, Ranks& ranks) {
  std::vector<std::string> entries;
  for (const StrategyEntry& entry : line.strategies) {
    entries.push_back(absl::StrCat(entry.name, ":", absl::StrJoin(entry.options, ":")));
  }
  return CompareRanks(ranks,
                      {{"--strategies", absl::StrJoin(entries, ",")},
                       {"--steps", absl::StrCat(line.steps)},
                       {"--rounds", absl::StrCat(line.rounds)},
                       {"--json", line.json.empty() ? "" : "set"},
                       {"--one_at_a_time", line.one_at_a_time ? "true" : "false"}},
                      "start all ranks with the same flags");
}

// Returns the comparison before anything has run. `setup` is that of the first strategy.
Comparison Describe(const CompareCommandLine& line, const Setup& setup, const Job& job) {
  const RunConfig& config = setup.config;
  Comparison comparison;
  comparison.model = absl::StrCat(
      line.model->name, ": ", FormatCount(static_cast<double>(ParameterCount(setup.compiled))),
      " parameters, ", Counted(config.batch(), "sequence"), " of ",
      Counted(config.sequence(), "token"), " a step, ", config.optimizer().kind());
  comparison.ranks = job.Description();
  comparison.processor = setup.backend->processor().name;
  comparison.threads = setup.backend->processor().threads;
  comparison.cluster = setup.cluster.name();
  comparison.tokens = config.batch() * config.sequence();
  comparison.rounds = static_cast<int>(line.rounds);
  return comparison;
}

std::string Title(const Comparison& comparison) {
  return absl::StrCat(comparison.model, comparison.ranks.empty() ? "" : "; ", comparison.ranks,
                      "; ", comparison.processor, ", ", Counted(comparison.threads, "thread"),
                      comparison.ranks.empty() ? "" : " each");
}

// Plans and compiles a strategy.
absl::StatusOr<Setup> Prepare(const StrategyEntry& entry, const CompareCommandLine& line,
                              const std::string& argv0, const RunRanks& ranks) {
  CommandLine train = line.train;
  RETURN_IF_ERROR(ranks.ranks->Agree(SetStrategy(entry, argv0, &train)));
  ASSIGN_OR_RETURN(Setup setup, PrepareRun(train, *line.model, argv0, ranks));
  RETURN_IF_ERROR(CheckMemoryLimit(setup, train));
  return setup;
}

// Prepares all strategies. `comparison` is described when the first one is ready.
absl::StatusOr<Strategies> PrepareAll(const CompareCommandLine& line, const std::string& argv0,
                                      const RunRanks& ranks, const Job& job,
                                      Comparison* comparison) {
  Strategies strategies;
  for (const StrategyEntry& entry : line.strategies) {
    const Clock::time_point begin = Clock::now();
    absl::StatusOr<Setup> setup = Prepare(entry, line, argv0, ranks);
    if (!setup.ok()) return NamedStatus(entry.label, setup.status());
    strategies.push_back(std::make_unique<ComparedStrategy>(entry.label, *std::move(setup)));
    if (strategies.size() == 1) {
      *comparison = Describe(line, strategies.front()->setup(), job);
      PrintLine(Title(*comparison));
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    PrintLine(absl::StrCat("compiled ", entry.label, " in ", FormatSeconds(seconds), ": ",
                           FormatBytes(strategies.back()->arena_bytes()), " on each rank"));
    std::vector<std::string> notes = strategies.back()->setup().notes;
    for (std::string& note : notes) note = absl::StrCat(entry.label, ": ", note);
    PrintNotes(notes);
  }
  return strategies;
}

// Whether the strategies fit in memory together, on every host. `strategies` is not empty.
absl::StatusOr<bool> FitTogether(const Strategies& strategies, const RunRanks& ranks) {
  int64_t bytes = 0, copy = 0;
  for (const auto& each : strategies) {
    bytes += each->arena_bytes();
    copy = std::max(copy, each->state_bytes());
  }
  const int64_t needed = (bytes + copy) * ranks.of_host;
  const int64_t available = AvailableMemory();
  int64_t lacks = available > 0 && needed > available ? 1 : 0;
  RETURN_IF_ERROR(ranks.ranks->Max(absl::MakeSpan(&lacks, 1)));
  if (lacks == 0) return true;
  PrintNotes({absl::StrCat("together the strategies need ", FormatBytes(needed),
                           " of memory on a host, and ", FormatBytes(available),
                           " are available: they run one after the other")});
  return false;
}

// Shows the progress of the comparison.
class Reporter {
 public:
  Reporter(int64_t rounds, int64_t runs) : rounds_(rounds), runs_(runs) {}

  void Ran(int64_t round, const ComparedStrategy& strategy) {
    ++done_;
    const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    const double left = seconds / static_cast<double>(done_) * static_cast<double>(runs_ - done_);
    PrintLine(absl::StrFormat("round %d/%d | %s | %s a step | loss %.4f | %s left", round, rounds_,
                              strategy.label(), FormatSeconds(strategy.median_seconds()),
                              strategy.last_loss(), left > 0 ? FormatSeconds(left) : "0 s"));
  }

 private:
  const int64_t rounds_, runs_;
  int64_t done_ = 0;
  const Clock::time_point begin_ = Clock::now();
};

// Runs all rounds of strategies that are in memory together.
absl::Status RunRounds(const CompareCommandLine& line, absl::Span<ComparedStrategy* const> group,
                       const ComparedStrategy& base, StopRequest& stop, Reporter* reporter) {
  for (ComparedStrategy* each : group) {
    RETURN_IF_ERROR(each->Begin());
    RETURN_IF_ERROR(Agreed(CheckFirstLoss(base.result(), each->result())));
  }
  for (int64_t round = 0; round < line.rounds; ++round) {
    const int64_t steps = line.steps * (round + 1) / line.rounds - line.steps * round / line.rounds;
    for (ComparedStrategy* each : group) {
      RETURN_IF_ERROR(each->Run(steps, stop));
      if (stop.signal() != 0) return absl::OkStatus();
      reporter->Ran(round + 1, *each);
    }
  }
  return absl::OkStatus();
}

// Runs the strategies, all of them in each round or one at a time.
absl::Status RunAll(const CompareCommandLine& line, bool alternates, const Strategies& strategies,
                    StopRequest& stop, Ranks& ranks) {
  std::vector<std::vector<ComparedStrategy*>> groups;
  for (const auto& each : strategies) {
    if (groups.empty() || !alternates) groups.emplace_back();
    groups.back().push_back(each.get());
  }
  Reporter reporter(line.rounds, line.rounds * static_cast<int64_t>(strategies.size()));
  for (const std::vector<ComparedStrategy*>& group : groups) {
    const absl::Status status = RunRounds(line, group, *strategies.front(), stop, &reporter);
    // Reports the error to the other ranks before the memory is freed, because freeing is
    // collective.
    if (!status.ok()) ranks.Abort(status);
    for (ComparedStrategy* each : group) each->End();
    RETURN_IF_ERROR(status);
    if (stop.signal() != 0) break;
  }
  return absl::OkStatus();
}

absl::Status WriteText(const std::string& text, const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "w");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  int error = errno;
  if (file != nullptr && std::fclose(file) != 0) {
    written = false;
    error = errno;
  }
  return written ? absl::OkStatus()
                 : absl::ErrnoToStatus(error, absl::StrCat("--json: cannot write ", path));
}

// Writes the file on rank 0; all ranks return its error.
absl::Status WriteJson(const CompareCommandLine& line, const std::string& text, Ranks& ranks) {
  if (line.json.empty()) return absl::OkStatus();
  return ranks
      .FromFirst([&]() -> absl::StatusOr<std::string> {
        RETURN_IF_ERROR(WriteText(text, UserPath(line.json)));
        return "";
      })
      .status();
}

}  // namespace

absl::StatusOr<int> CompareOnRank(const CompareCommandLine& line, const std::string& argv0,
                                  Job& job) {
  Ranks& ranks = job.ranks();
  if (!ranks.is_first()) DiscardOutput();
  PrintNotes(job.notes());
  RETURN_IF_ERROR(CompareFlagsOfRanks(line, ranks));
  RETURN_IF_ERROR(WriteJson(line, "", ranks));  // checks now that the file can be written
  RunRanks run_ranks = {&ranks, ranks.size(), job.ranks_of_host(), job.cores(), {}};
  ASSIGN_OR_RETURN(run_ranks.site, SiteOfJob(job.backend(), job.hosts()));
  Comparison comparison;
  ASSIGN_OR_RETURN(Strategies strategies, PrepareAll(line, argv0, run_ranks, job, &comparison));
  comparison.alternated = !line.one_at_a_time && strategies.size() > 1;
  if (comparison.alternated) {
    ASSIGN_OR_RETURN(comparison.alternated, FitTogether(strategies, run_ranks));
  }
  StopOnInterrupts(/*one_rank=*/ranks.size() == 1);
  StopRequest stop(&ranks);
  RETURN_IF_ERROR(RunAll(line, comparison.alternated, strategies, stop, ranks));
  if (stop.signal() != 0) return 128 + stop.signal();
  for (const auto& each : strategies) {
    ASSIGN_OR_RETURN(StrategyResult result, each->Result());
    comparison.strategies.push_back(std::move(result));
  }
  absl::FPrintF(Output(), "\n%s", ComparisonTable(comparison));
  RETURN_IF_ERROR(WriteJson(line, ComparisonJson(comparison), ranks));
  for (const StrategyResult& result : comparison.strategies) {
    RETURN_IF_ERROR(Agreed(result.same_collectives));
  }
  return 0;
}

}  // namespace tessera
