// The figures of planned steps as the contents of a report, and as JSON.
#ifndef TESSERA_TOOLS_PLAN_PLAN_REPORT_H_
#define TESSERA_TOOLS_PLAN_PLAN_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tools/plan/figures.h"
#include "tools/report/report_data.h"

namespace tessera {

// A planned step as tables, files and reports show it. Thread safety: plain data.
struct ShownStep {
  Figures figures;
  std::optional<StepView> view;  // for a report
};

// The facts that all steps of a command share.
struct ShownCommand {
  std::string typed;    // what the user typed
  std::string model;    // its name
  std::string step;     // StepLine of the first step that was planned
  std::string cluster;  // that times are for
  double tokens = 0;    // of a training; 0: no days
};

// Returns the sentence that says which strategy to choose on the largest number of ranks on which
// more than one was planned; "" if there is none.
std::string PlanRecommendation(absl::Span<const ShownStep> steps);

// Returns the contents of a report.
ReportData PlanReportData(const ShownCommand& command, std::vector<ShownStep> steps);

// Returns all figures as JSON (tools/plan/json.md).
std::string PlanJson(const ShownCommand& command, absl::Span<const ShownStep> steps);

}  // namespace tessera

#endif  // TESSERA_TOOLS_PLAN_PLAN_REPORT_H_
