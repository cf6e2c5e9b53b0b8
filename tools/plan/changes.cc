#include "tools/plan/changes.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "strategies/conformance/option_sets.h"
#include "strategies/host/option_values.h"
#include "tools/train/setup/decided_settings.h"
#include "tools/train/setup/strategy_session.h"

namespace tessera {
namespace {

// Smaller gains are those of rounding.
constexpr double kLeastGain = 0.001;

struct ChangedRequest {
  std::string setting;
  CellRequest request;
};

void AddField(const CellRequest& request, const std::string& field, const std::string& value,
              std::vector<ChangedRequest>* changed) {
  changed->push_back({absl::StrCat("--", field, "=", value), WithField(request, field, value)});
}

// Adds the request with every other value of each option of its strategy.
absl::Status AddOptions(const CellRequest& request, std::vector<ChangedRequest>* changed) {
  ASSIGN_OR_RETURN(const Plugin plugin, LoadStrategy(request.line.strategy, /*notes=*/nullptr));
  ASSIGN_OR_RETURN(const OptionValues now, ReadOptions(plugin, request.line.strategy_options));
  ASSIGN_OR_RETURN(const std::vector<TriedOption> options, OptionsToTry(plugin, {}));
  for (const TriedOption& option : options) {
    for (const std::string& value : option.values) {
      if (value == now.at(option.name)) continue;
      const std::string setting = absl::StrCat(option.name, "=", value);
      CellRequest other = request;
      std::erase_if(other.line.strategy_options, [&](const std::string& each) {
        return absl::StartsWith(each, absl::StrCat(option.name, "="));
      });
      other.line.strategy_options.push_back(setting);
      changed->push_back({absl::StrCat(plugin.name(), ":", setting), std::move(other)});
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ChangedRequest>> ChangedRequests(const Cell& cell) {
  const CellRequest& request = cell.request;
  const RunConfig& config = cell.configured->config;
  const auto is_decided = [&](strategy::PlanRequest::Setting setting) {
    return cell.prepared.explanation.decisions_size() > 0 &&
           absl::c_linear_search(OpenSettings(request.line, *cell.configured), setting);
  };
  std::vector<ChangedRequest> changed;
  if (!is_decided(strategy::PlanRequest::MICRO_BATCHES)) {
    const int64_t count = config.micro_batches();
    if (config.batch() % (2 * count) == 0) {
      AddField(request, "micro_batches", absl::StrCat(2 * count), &changed);
    }
    if (count % 2 == 0) AddField(request, "micro_batches", absl::StrCat(count / 2), &changed);
  }
  if (!is_decided(strategy::PlanRequest::RECOMPUTE)) {
    AddField(request, "recompute", config.recompute() == "none" ? "block" : "none", &changed);
  }
  if (!request.line.strategy.empty()) RETURN_IF_ERROR(AddOptions(request, &changed));
  return changed;
}

}  // namespace

absl::StatusOr<std::optional<std::vector<Change>>> FindChanges(const Cell& cell,
                                                               const ModelDefinition& model,
                                                               const StopsSearch& stops) {
  const Figures now = FiguresOf(cell);
  ASSIGN_OR_RETURN(const std::vector<ChangedRequest> requests, ChangedRequests(cell));
  if (requests.empty()) return std::nullopt;
  std::vector<Change> changes;
  for (const ChangedRequest& each : requests) {
    if (stops()) break;
    const absl::StatusOr<Cell> planned = PlanCell(each.request, model);
    if (!planned.ok()) continue;  // values that exclude each other
    Change change = {each.setting, FiguresOf(*planned)};
    const bool is_faster =
        change.figures.cost.step_seconds() < (1 - kLeastGain) * now.cost.step_seconds();
    const bool is_smaller = static_cast<double>(change.figures.peak_bytes) <
                            (1 - kLeastGain) * static_cast<double>(now.peak_bytes);
    if (is_faster || is_smaller) changes.push_back(std::move(change));
  }
  absl::c_stable_sort(changes, [](const Change& a, const Change& b) {
    if (a.figures.fits() != b.figures.fits()) return a.figures.fits();
    return a.figures.cost.step_seconds() < b.figures.cost.step_seconds();
  });
  return changes;
}

}  // namespace tessera
