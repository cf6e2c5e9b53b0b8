#include "tools/compare/rounds.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/status/status_macros.h"
#include "core/text/human_units.h"
#include "tools/compare/same_training.h"
#include "tools/train/rank/standard_output.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using Group = std::vector<ComparedStrategy*>;

// Shows the progress of the rounds.
class Reporter {
 public:
  Reporter(int64_t rounds, int64_t strategies) : rounds_(rounds), runs_(rounds * strategies) {}

  void PrintRound(int64_t round, const ComparedStrategy& strategy) {
    ++done_;
    if (!strategy.is_compared()) return PrintLine(strategy.result().fault);
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
absl::Status RunGroup(const RoundOptions& options, const Group& group, StopRequest& stop,
                      Reporter& reporter) {
  for (ComparedStrategy* each : group) RETURN_IF_ERROR(each->Begin());
  for (int64_t round = 0; round < options.rounds; ++round) {
    const int64_t steps =
        options.steps * (round + 1) / options.rounds - options.steps * round / options.rounds;
    for (ComparedStrategy* each : group) {
      if (!each->is_compared()) continue;
      RETURN_IF_ERROR(each->Run(steps, stop));
      if (stop.signal() != 0) return absl::OkStatus();
      reporter.PrintRound(round + 1, *each);
    }
  }
  return absl::OkStatus();
}

void KeepCommonRounds(const Group& group, size_t rounds) {
  for (const ComparedStrategy* each : group) {
    if (each->is_compared()) rounds = std::min(rounds, each->rounds());
  }
  for (ComparedStrategy* each : group) {
    if (each->is_compared()) each->KeepRounds(rounds);
  }
}

}  // namespace

absl::Status RunRounds(const RoundOptions& options, const Strategies& strategies, StopRequest& stop,
                       Ranks& ranks) {
  std::vector<Group> groups;
  int64_t compared = 0;
  for (const auto& each : strategies) {
    if (!each->is_compared()) continue;
    ++compared;
    if (groups.empty() || !options.alternates) groups.emplace_back();
    groups.back().push_back(each.get());
  }
  Reporter reporter(options.rounds, compared);
  for (const Group& group : groups) {
    if (stop.signal() == 0) {
      const absl::Status status = RunGroup(options, group, stop, reporter);
      // Reports the error to the other ranks before the memory is freed, because freeing is
      // collective.
      if (!status.ok()) ranks.Abort(status);
      for (ComparedStrategy* each : group) each->End();
      RETURN_IF_ERROR(status);
    }
    KeepCommonRounds(group, static_cast<size_t>(options.rounds));
  }
  return absl::OkStatus();
}

void CompareRounds(const Strategies& strategies) {
  std::map<int64_t, Group> groups;  // by batch
  std::map<int64_t, std::vector<LossSeries>> series;
  for (const auto& each : strategies) {
    // A strategy that failed in a round ends with a loss that is not finite.
    if (!each->is_compared() || each->result().losses.empty()) continue;
    groups[each->batch()].push_back(each.get());
    series[each->batch()].push_back(each->Series());
  }
  for (const auto& [batch, group] : groups) Judge(group, JudgeSeries(series[batch]));
}

}  // namespace tessera
