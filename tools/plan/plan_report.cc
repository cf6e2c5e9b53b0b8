#include "tools/plan/plan_report.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "core/text/version.h"
#include "tools/figures/cost_json.h"
#include "tools/figures/decisions.h"
#include "tools/figures/recommendation.h"

namespace tessera {
namespace {

// Grows when a field is removed, or gets another meaning.
constexpr int kSchemaVersion = 1;

// "fsdp", or "fsdp, 64 ranks" if a command has several numbers of ranks.
std::string LabelOf(const Figures& figures, bool several) {
  return several ? absl::StrCat(figures.label, ", ", Counted(figures.ranks, "rank"))
                 : figures.label;
}

bool HasSeveralNumbersOfRanks(absl::Span<const ShownStep> steps) {
  return std::any_of(steps.begin(), steps.end(), [&](const ShownStep& step) {
    return step.figures.ranks != steps.front().figures.ranks;
  });
}

ReportedStrategy ReportedOf(ShownStep step, bool several) {
  Figures& figures = step.figures;
  ReportedStrategy reported;
  reported.label = LabelOf(figures, several);
  reported.ranks = figures.ranks;
  if (!figures.planned()) {
    reported.outcome = ReportedOutcome::kFailed;
    reported.remark = "could not be planned";
    reported.fault = figures.fault;
    return reported;
  }
  if (!figures.fits()) {
    reported.outcome = ReportedOutcome::kDoesNotFit;
    reported.remark = absl::StrCat("does not fit: ", FormatBytes(figures.peak_bytes));
  }
  reported.estimated = std::move(figures.cost);
  reported.explanation = std::move(figures.explanation);
  reported.units = figures.batch * figures.unit.per_row;
  reported.memory_limit_bytes = figures.limit_bytes;
  reported.view = std::move(step.view);
  return reported;
}

Json ExplanationJson(const strategy::Explanation& explanation) {
  Json json;
  if (explanation.step_seconds() > 0) {
    json["step_seconds"] = explanation.step_seconds();
    json["peak_bytes"] = explanation.peak_bytes();
  }
  if (!BoundText(explanation).empty()) {
    json["bound_seconds"] = explanation.bound_seconds();
    json["gap"] = GapToBound(explanation);
  }
  if (explanation.least_limit_bytes() > 0) {
    json["least_limit_bytes"] = explanation.least_limit_bytes();
  }
  json["notes"] = std::vector<std::string>(explanation.notes().begin(), explanation.notes().end());
  json["decisions"] = Json::array();
  for (const auto& decision : explanation.decisions()) {
    Json& each = json["decisions"].emplace_back();
    each["subject"] = decision.subject();
    each["choice"] = decision.choice();
    each["alternatives"] = Json::array();
    for (const auto& alternative : decision.alternatives()) {
      each["alternatives"].push_back({{"choice", alternative.choice()},
                                      {"step_seconds", alternative.step_seconds()},
                                      {"peak_bytes", alternative.peak_bytes()},
                                      {"lowered", alternative.lowered()}});
    }
  }
  return json;
}

Json StepJson(const Figures& figures, double tokens) {
  Json json;
  json["strategy"] = figures.label;
  json["ranks"] = figures.ranks;
  if (!figures.planned()) {
    json["fault"] = figures.fault;
    return json;
  }
  json["batch"] = figures.batch;
  json["sequence"] = figures.unit.per_row;
  json["micro_batches"] = figures.micro_batches;
  json["recompute"] = figures.recompute;
  json["fits"] = figures.fits();
  if (figures.limit_bytes > 0) json["limit_bytes"] = figures.limit_bytes;
  if (figures.least.has_value()) {
    json["least"] = {{"bytes", figures.least->bytes},
                     {"micro_batches", figures.least->micro_batches},
                     {"recompute", figures.least->recompute}};
  }
  json["mfu"] = figures.mfu;
  if (tokens > 0) json["days"] = figures.DaysFor(tokens);
  json["sent_bytes"] = figures.sent_bytes;
  json["notes"] = figures.notes;
  json["estimated"] = EstimateJson(figures.cost, figures.batch, figures.unit);
  if (HasReasons(figures.explanation)) {
    json["explanation"] = ExplanationJson(figures.explanation);
  }
  return json;
}

}  // namespace

std::string PlanRecommendation(absl::Span<const ShownStep> steps) {
  std::map<int, std::vector<StrategyFigures>> by_ranks;
  for (const ShownStep& step : steps) {
    const Figures& figures = step.figures;
    if (!figures.planned()) continue;
    StrategyFigures each = PredictedFigures(figures.cost, figures.batch);
    each.label = figures.label;
    each.ranks = figures.ranks;
    each.fits = figures.fits();
    if (figures.least.has_value()) each.peak_bytes = figures.least->bytes;
    each.micro_batches = figures.micro_batches;
    by_ranks[figures.ranks].push_back(std::move(each));
  }
  for (auto most = by_ranks.rbegin(); most != by_ranks.rend(); ++most) {
    const std::string sentence = Recommendation(most->second, FiguresAre::kPredicted);
    if (sentence.empty()) continue;
    return by_ranks.size() == 1 ? sentence
                                : absl::StrCat("on ", Counted(most->first, "rank"), ", ", sentence);
  }
  return "";
}

ReportData PlanReportData(const ShownCommand& command, std::vector<ShownStep> steps) {
  ReportData data;
  const bool several = HasSeveralNumbersOfRanks(steps);
  data.title = absl::StrCat(Counted(static_cast<int64_t>(steps.size()), "step"), " of ",
                            command.model, " planned");
  data.written_by = absl::StrCat("tessera plan ", kVersion);
  data.model = command.step;
  const auto planned =
      absl::c_find_if(steps, [](const ShownStep& step) { return step.figures.planned(); });
  if (planned != steps.end()) data.rate = planned->figures.unit.Rate();
  data.cluster = command.cluster;
  if (!several) data.ranks = Counted(steps.front().figures.ranks, "rank");
  data.recommendation = PlanRecommendation(steps);
  for (const ShownStep& step : steps) {
    for (const std::string& note : step.figures.notes) {
      data.notes.push_back(absl::StrCat(LabelOf(step.figures, several), ": ", note));
    }
  }
  data.commands = {command.typed};
  for (ShownStep& step : steps) data.strategies.push_back(ReportedOf(std::move(step), several));
  return data;
}

std::string PlanJson(const ShownCommand& command, absl::Span<const ShownStep> steps) {
  Json json;
  json["schema_version"] = kSchemaVersion;
  json["model"] = command.step;
  json["cluster"] = command.cluster;
  if (command.tokens > 0) json["tokens"] = command.tokens;
  const std::string recommendation = PlanRecommendation(steps);
  if (!recommendation.empty()) json["recommendation"] = recommendation;
  json["steps"] = Json::array();
  for (const ShownStep& step : steps) {
    json["steps"].push_back(StepJson(step.figures, command.tokens));
  }
  return json.dump(2) + "\n";
}

}  // namespace tessera
