#include "tools/figures/decisions.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/text/human_units.h"
#include "tools/figures/unit_labels.h"

namespace tessera {
namespace {

std::string SecondsText(double change) {
  if (!std::isfinite(change)) return "not known";
  // The same sums in another order differ by a rounding.
  return absl::StrFormat("%+.3g ms", std::abs(change) < 1e-9 ? 0 : 1e3 * change);
}

std::string BytesText(int64_t change) {
  return absl::StrCat(change < 0 ? "-" : "+", FormatBytes(change < 0 ? -change : change));
}

ShownDecision ShownAlone(const strategy::Explanation::Decision& decision,
                         const strategy::Explanation& explanation) {
  ShownDecision shown = {.subject = decision.subject(), .choice = decision.choice()};
  for (const auto& each : decision.alternatives()) {
    shown.alternatives.push_back(
        {each.choice(), SecondsText(each.step_seconds() - explanation.step_seconds()),
         BytesText(each.peak_bytes() - explanation.peak_bytes()), each.lowered()});
  }
  return shown;
}

// Returns whether a subject differs from all others of its neighbours in the same number.
bool Continues(const std::vector<std::string>& subjects, const std::string& subject) {
  // If it were another number, the second and third subjects would differ in two.
  for (size_t i = 0; i < std::min<size_t>(2, subjects.size()); ++i) {
    if (!DifferInOneNumber(subjects[i], subject)) return false;
  }
  return true;
}

}  // namespace

std::vector<ShownDecision> ShownDecisions(const strategy::Explanation& explanation) {
  std::vector<ShownDecision> all;
  std::vector<std::string> subjects;  // of the last one
  const auto finish = [&] {
    if (subjects.size() < 2) return;
    all.back().subject = LabelOfUnits(subjects, /*all=*/false);
    all.back().subjects = static_cast<int64_t>(subjects.size());
  };
  for (const auto& decision : explanation.decisions()) {
    ShownDecision shown = ShownAlone(decision, explanation);
    if (!all.empty() && shown.choice == all.back().choice &&
        shown.alternatives == all.back().alternatives && Continues(subjects, shown.subject)) {
      subjects.push_back(shown.subject);
      continue;
    }
    finish();
    subjects = {shown.subject};
    all.push_back(std::move(shown));
  }
  finish();
  return all;
}

double GapToBound(const strategy::Explanation& explanation) {
  const double bound = explanation.bound_seconds();
  if (!std::isfinite(bound) || !(bound > 0)) return 0;
  return std::max(0., explanation.step_seconds() / bound - 1);
}

std::string BoundText(const strategy::Explanation& explanation) {
  const double bound = explanation.bound_seconds();
  if (!std::isfinite(bound) || !(bound > 0)) return "";
  return absl::StrFormat("within %.1f %% of a bound of %s", 100 * GapToBound(explanation),
                         FormatSeconds(bound));
}

bool HasReasons(const strategy::Explanation& explanation) {
  return explanation.bound_seconds() > 0 || explanation.least_limit_bytes() > 0 ||
         explanation.notes_size() > 0 || explanation.decisions_size() > 0;
}

}  // namespace tessera
