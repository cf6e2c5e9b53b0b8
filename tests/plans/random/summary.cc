#include "tests/plans/random/summary.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tessera {

void Summary::Add(const Traits& traits, const PlanCase& tried, const Outcome& outcome) {
  ++plans_;
  groups_ += traits.groups;
  two_flat_axes_ += traits.two_flat_axes;
  updates_or_stores_ += traits.updates_or_stores;
  const size_t kind = static_cast<size_t>(outcome.kind);
  ++outcomes_[kind];
  if (outcome.kind == OutcomeKind::kRight) return;
  Kind& messages = messages_[kind][Generalized(outcome.message)];
  ++messages.count;
  std::string plan = tried.ToString();
  if (!messages.plan.empty() && messages.plan.size() <= plan.size()) return;
  messages.message = outcome.message;
  messages.plan = std::move(plan);
}

int Summary::bad() const {
  return plans_ - outcomes_[static_cast<size_t>(OutcomeKind::kRight)] -
         outcomes_[static_cast<size_t>(OutcomeKind::kRefused)];
}

double Summary::share_refused() const {
  return Share(outcomes_[static_cast<size_t>(OutcomeKind::kRefused)]);
}

std::string Summary::ToString() const {
  std::string text = absl::StrFormat("%-24s %7d\n", "plans", plans_);
  for (int kind = 0; kind < kNumOutcomeKinds; ++kind) {
    absl::StrAppend(
        &text, absl::StrFormat("  %-22s %7d %6.2f %%\n", NameOf(static_cast<OutcomeKind>(kind)),
                               outcomes_[kind], 100 * Share(outcomes_[kind])));
  }
  const std::vector<std::pair<const char*, double>> shares = {
      {"with groups", share_of_groups()},
      {"with two flat axes", share_of_two_flat_axes()},
      {"with updates or stores", share_of_updates_or_stores()}};
  for (const auto& [name, share] : shares) {
    absl::StrAppend(&text, absl::StrFormat("%-24s         %6.2f %%\n", name, 100 * share));
  }
  for (int kind = 0; kind < kNumOutcomeKinds; ++kind) {
    std::vector<Kind> kinds;
    for (const auto& [general, example] : messages_[kind]) kinds.push_back(example);
    std::stable_sort(kinds.begin(), kinds.end(),
                     [](const Kind& a, const Kind& b) { return a.count > b.count; });
    for (const Kind& example : kinds) {
      absl::StrAppend(&text, NameOf(static_cast<OutcomeKind>(kind)), " ", example.count, ": ",
                      example.message, "\n    ", example.plan, "\n");
    }
  }
  return text;
}

}  // namespace tessera
