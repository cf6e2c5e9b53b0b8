#include "tools/compare/compare.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/posix/output_file.h"
#include "core/posix/user_folder.h"
#include "core/status/status_macros.h"
#include "core/status/with_message.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "core/text/text_stream.h"
#include "core/train/programs.h"
#include "core/train/ranks/compare_ranks.h"
#include "tools/compare/comparison.h"
#include "tools/compare/comparison_json.h"
#include "tools/compare/comparison_table.h"
#include "tools/compare/preparation.h"
#include "tools/compare/recommendation.h"
#include "tools/compare/rounds.h"
#include "tools/compare/strategy_table.h"
#include "tools/train/rank/interrupt.h"
#include "tools/train/rank/standard_output.h"
#include "tools/train/rank/stop_request.h"
#include "tools/train/report/report.h"
#include "tools/train/setup/configure.h"
#include "tools/train/setup/priced_cluster.h"

namespace tessera {
namespace {

// Exit codes of a comparison that has faults.
constexpr int kSomeDidNotRun = 2;
constexpr int kTrainingDiffers = 3;

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
  comparison.model = absl::StrCat(
      line.model->name, ": ",
      FormatCount(static_cast<double>(ParameterCount(absl::MakeConstSpan(&evaluate, 1)))),
      " parameters, ", Counted(config.batch(), "sequence"), " of ",
      Counted(config.sequence(), "token"), " a step, ", config.optimizer().kind());
  comparison.ranks = job.Description();
  comparison.processor = run.backend->processor().name;
  comparison.threads = run.backend->processor().threads;
  comparison.cluster = run.priced.cluster.name();
  comparison.sequence = config.sequence();
  comparison.on_loopback = job.emulates_hosts();
  return comparison;
}

std::string Title(const Comparison& comparison) {
  return absl::StrCat(comparison.model, comparison.ranks.empty() ? "" : "; ", comparison.ranks,
                      "; ", comparison.processor, ", ", Counted(comparison.threads, "thread"),
                      comparison.ranks.empty() ? "" : " each");
}

// Calls a function of core/posix/output_file.h for the file of --json, if there is one, on rank 0;
// all ranks return its error.
absl::Status UseJsonFile(const CompareCommandLine& line, Ranks& ranks,
                         const std::function<absl::Status(const std::string& path)>& use) {
  if (line.json.empty()) return absl::OkStatus();
  return ranks
      .BroadcastFromFirst([&]() -> absl::StatusOr<std::string> {
        const absl::Status status = use(UserPath(line.json));
        RETURN_IF_ERROR(WithMessage(status, absl::StrCat("--json: ", status.message())));
        return "";
      })
      .status();
}

// Prints the table and the recommendation, and writes the file.
absl::Status PrintAndWrite(const CompareCommandLine& line, const Comparison& comparison, int signal,
                           Ranks& ranks) {
  const bool any_ran = comparison.rounds > 0;
  if (signal != 0) {
    const int rounds = comparison.rounds;
    PrintLine(any_ran ? absl::StrCat("stopped: the table is of the first ",
                                     rounds == 1 ? "round" : absl::StrCat(rounds, " rounds"))
                      : "stopped before a round has ended");
    if (!any_ran) return absl::OkStatus();
  }
  if (any_ran) {
    PrintText(absl::StrCat(
        "\n", line.steps > 0 ? ComparisonTable(comparison) : PredictionTable(comparison)));
  }
  const std::string recommendation = RecommendationOf(comparison);
  if (!recommendation.empty()) {
    PrintText(absl::StrCat("\n", absl::StrJoin(Wrap(recommendation, kTableWidth), "\n"), "\n"));
  }
  std::fflush(Output());
  return UseJsonFile(line, ranks, [&](const std::string& path) {
    return WriteOutputFile(path, ComparisonJson(comparison));
  });
}

// Reports the faults, and returns the exit code. Only rank 0 has one for a fault: the launcher
// names the rank that ends with one.
int ReportFaults(const Comparison& comparison, bool is_first) {
  if (!is_first) return 0;
  std::fflush(stdout);
  int code = 0;
  for (const StrategyResult& each : comparison.strategies) {
    std::string fault = each.fault;
    if (fault.empty() && !each.same_collectives.ok()) {
      fault = std::string(each.same_collectives.message());
    }
    if (fault.empty()) continue;
    absl::FPrintF(stderr, "error: %s\n", Printable(absl::StrReplaceAll(fault, {{"\n", " "}})));
    const bool differs = each.outcome == Outcome::kDiffers;
    code = std::max(code, differs ? kTrainingDiffers : kSomeDidNotRun);
  }
  return code;
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
  RETURN_IF_ERROR(UseJsonFile(line, ranks, CheckOutputFile));
  RunRanks run_ranks = {&ranks, ranks.size(), job.ranks_of_host(), job.cores(), {}};
  ASSIGN_OR_RETURN(run_ranks.site, SiteOfRanks(job.backend(), job.hosts()));
  run_ranks.on_loopback = job.emulates_hosts();
  ASSIGN_OR_RETURN(const Strategies strategies, ConfigureAll(line, run_ranks));
  ASSIGN_OR_RETURN(Comparison comparison, Describe(line, strategies, job));
  PrintLine(Title(comparison));
  RETURN_IF_ERROR(CompileAll(strategies, run_ranks));
  StopOnInterrupts(/*one_rank=*/ranks.size() == 1);
  StopRequest stop(&ranks);
  RETURN_IF_ERROR(RunStrategies(line, strategies, run_ranks, stop, &comparison));
  for (const auto& each : strategies) {
    comparison.rounds = std::max(comparison.rounds, static_cast<int>(each->rounds()));
    ASSIGN_OR_RETURN(StrategyResult result, each->Result());
    comparison.strategies.push_back(std::move(result));
  }
  RETURN_IF_ERROR(PrintAndWrite(line, comparison, stop.signal(), ranks));
  const int code = ReportFaults(comparison, ranks.is_first());
  return stop.signal() != 0 ? 128 + stop.signal() : code;
}

}  // namespace tessera
