#include "tools/compare/compare.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/status/status_macros.h"
#include "core/train/programs.h"
#include "core/train/ranks/compare_ranks.h"
#include "tools/compare/comparison.h"
#include "tools/compare/preparation.h"
#include "tools/compare/results.h"
#include "tools/compare/rounds.h"
#include "tools/figures/recommendation.h"
#include "tools/train/rank/interrupt.h"
#include "tools/train/rank/standard_output.h"
#include "tools/train/rank/stop_request.h"
#include "tools/train/report/report.h"
#include "tools/train/setup/configure.h"
#include "tools/train/setup/priced_cluster.h"

namespace tessera {
namespace {

// Compares the flags that the training tool does not have.
absl::Status CompareFlagsOfRanks(const CompareCommandLine& line, Ranks& ranks) {
  std::vector<std::string> entries;
  for (const StrategyEntry& entry : line.strategies) {
    entries.push_back(absl::StrCat(entry.name, ":", absl::StrJoin(entry.options, ":"),
                                   entry.limit_between ? " with a limit between" : ""));
  }
  return CompareRanks(ranks,
                      {{"--strategies", absl::StrJoin(entries, ",")},
                       {"--steps", absl::StrCat(line.steps)},
                       {"--rounds", absl::StrCat(line.rounds)},
                       {"--json", line.json.empty() ? "" : "set"},
                       {"--report", line.report.empty() ? "" : "set"},
                       {"--one_at_a_time", line.one_at_a_time ? "true" : "false"}},
                      "start all ranks with the same flags");
}

// Returns the run of the first strategy with the batch that most have.
const ConfiguredRun& FirstRunOfCommonBatch(const Strategies& strategies) {
  std::vector<int64_t> batches;
  for (const auto& each : strategies) batches.push_back(each->batch());
  const auto first = absl::c_find(batches, MostFrequentBatch(batches));
  return strategies[first - batches.begin()]->configured();
}

// Returns the comparison before anything has run.
absl::StatusOr<Comparison> Describe(const CompareCommandLine& line, const Strategies& strategies,
                                    const Job& job) {
  const ConfiguredRun& run = FirstRunOfCommonBatch(strategies);
  const RunConfig& config = run.config;
  ASSIGN_OR_RETURN(const Graph evaluate, RecordEvaluate(*run.model, config));
  Comparison comparison;
  comparison.model =
      StepLine(line.model->name, config, run.unit(), absl::MakeConstSpan(&evaluate, 1));
  comparison.ranks = job.Description();
  comparison.num_ranks = run.ranks.size;
  comparison.processor = run.backend->processor().name;
  comparison.threads = run.backend->processor().threads;
  comparison.cluster = run.priced.cluster.name();
  comparison.unit = run.unit();
  comparison.on_loopback = job.emulates_hosts();
  return comparison;
}

// Calls a function for the files of the command line on rank 0; all ranks return its error.
absl::Status OnFirstRank(Ranks& ranks, const std::function<absl::Status()>& use) {
  return ranks
      .BroadcastFromFirst([&]() -> absl::StatusOr<std::string> {
        RETURN_IF_ERROR(use());
        return "";
      })
      .status();
}

// Prints the results, and writes the files.
absl::Status PrintAndWrite(const CompareCommandLine& line, const Comparison& comparison, int signal,
                           Ranks& ranks) {
  const int rounds = comparison.rounds;
  if (signal != 0) {
    PrintLine(rounds > 0 ? absl::StrCat("stopped: the table is of the first ",
                                        rounds == 1 ? "round" : absl::StrCat(rounds, " rounds"))
                         : "stopped before a round has ended");
    if (rounds == 0) return absl::OkStatus();
  }
  PrintResults(comparison);
  return OnFirstRank(ranks, [&] { return WriteResults(line, comparison); });
}

// Runs what is left of the strategies after they were compiled.
absl::Status RunStrategies(const CompareCommandLine& line, const Strategies& strategies,
                           const RunRanks& run_ranks, StopRequest& stop, Comparison* comparison) {
  if (line.steps > 0) RETURN_IF_ERROR(CheckAll(strategies, stop));
  const auto compared =
      absl::c_count_if(strategies, [](const auto& each) { return each->is_compared(); });
  comparison->alternated = !line.one_at_a_time && compared > 1;
  if (comparison->alternated) {
    ASSIGN_OR_RETURN(comparison->alternated, FitTogether(strategies, run_ranks));
  }
  RETURN_IF_ERROR(RunRounds({line.steps, line.rounds, comparison->alternated}, strategies, stop,
                            *run_ranks.ranks));
  CompareRounds(strategies);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> CompareOnRank(const CompareCommandLine& line, Job& job) {
  Ranks& ranks = job.ranks();
  if (!ranks.is_first()) DiscardOutput();
  PrintNotes(job.notes());
  RETURN_IF_ERROR(CompareFlagsOfRanks(line, ranks));
  RETURN_IF_ERROR(OnFirstRank(ranks, [&] { return CheckResultFiles(line); }));
  RunRanks run_ranks = {&ranks, ranks.size(), job.ranks_of_host(), job.cores(), {}};
  ASSIGN_OR_RETURN(run_ranks.site, SiteOfRanks(job.backend(), job.hosts()));
  run_ranks.on_loopback = job.emulates_hosts();
  ASSIGN_OR_RETURN(const Strategies strategies, ConfigureAll(line, run_ranks));
  ASSIGN_OR_RETURN(Comparison comparison, Describe(line, strategies, job));
  PrintLine(Title(comparison));
  RETURN_IF_ERROR(CompileAll(line, strategies, run_ranks));
  StopOnInterrupts(/*one_rank=*/ranks.size() == 1);
  StopRequest stop(&ranks);
  RETURN_IF_ERROR(RunStrategies(line, strategies, run_ranks, stop, &comparison));
  for (const auto& each : strategies) {
    comparison.rounds = std::max(comparison.rounds, static_cast<int>(each->rounds()));
    ASSIGN_OR_RETURN(StrategyResult result, each->Result());
    comparison.strategies.push_back(std::move(result));
  }
  RETURN_IF_ERROR(PrintAndWrite(line, comparison, stop.signal(), ranks));
  // Only rank 0 has a code for a fault: the launcher names the rank that ends with one.
  const int code = ranks.is_first() ? ReportFaults(comparison) : 0;
  return stop.signal() != 0 ? 128 + stop.signal() : code;
}

}  // namespace tessera
