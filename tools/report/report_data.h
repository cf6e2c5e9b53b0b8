// The contents of a report: strategies on one model, as they were predicted and measured.
//
// Thread safety: plain data.
#ifndef TESSERA_TOOLS_REPORT_REPORT_DATA_H_
#define TESSERA_TOOLS_REPORT_REPORT_DATA_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/proto/estimate.pb.h"
#include "core/proto/strategy.pb.h"
#include "tools/report/step_view.h"

namespace tessera {

enum class ReportedOutcome : uint8_t {
  kPlanned,     // nothing was run
  kRan,         // and it trains as the others do
  kNotRun,      // something ended the comparison before
  kDoesNotFit,  // in the memory limit, or in the machine's memory
  kFailed,
  kDiffers,  // it trains differently
};

// The steps that were timed, on the slowest rank.
struct MeasuredStep {
  int64_t steps = 0;
  double median_seconds = 0;
  double first_quartile_seconds = 0;
  double third_quartile_seconds = 0;
  double computation_seconds = 0;  // of steps without communication
  double exposed_seconds = 0;      // that communication adds to them
  int64_t peak_bytes = 0;          // that a rank has allocated; 0: not measured
};

struct ReportedStrategy {
  std::string label;  // differs from those of the others: "fsdp", "fsdp, 64 ranks"
  ReportedOutcome outcome = ReportedOutcome::kPlanned;
  std::string remark;  // a few words: "does not fit: 44.9 MiB"; may be ""
  std::string fault;   // a sentence without its end; "" if there is none
  int ranks = 1;
  std::optional<StepCost> estimated;
  // By prices that were measured in the same rounds as the step times.
  std::optional<StepCost> calibrated;
  std::optional<MeasuredStep> measured;
  int64_t first_step = 1;          // that of losses[0]
  std::vector<double> losses;      // by step
  int64_t units = 0;               // of a step, over all ranks
  int64_t memory_limit_bytes = 0;  // of a rank; 0: none
  std::optional<StepView> view;
  strategy::Explanation explanation;  // of its Plan, by the strategy; may be empty
};

// Texts are plain text of one line, and need not be trusted. What is empty is left out.
struct ReportData {
  std::string title;           // "4 strategies compared on gpt"
  std::string written_by;      // "tessera compare 0.4"
  std::string model;           // "gpt: 842K parameters, 16 sequences of 128 tokens a step, adamw"
  std::string rate;            // "tokens/s"
  std::string machine;         // "AMD EPYC, AVX2"
  std::string ranks;           // "2 ranks, shm"
  int threads = 0;             // of each rank
  std::string cluster;         // that predicted times are for
  std::string recommendation;  // a sentence: which strategy to take, and why
  std::vector<std::string> notes;     // sentences
  std::vector<std::string> checks;    // sentences: what was checked to be equal
  std::vector<std::string> commands;  // that repeat the report, in a shell
  std::vector<ReportedStrategy> strategies;
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_REPORT_REPORT_DATA_H_
