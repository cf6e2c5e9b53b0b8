#include "strategies/api/search/known_steps.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace tessera::strategy::search {
namespace {

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

int64_t HeldIn(const KnownStep& step, const Problem& problem) {
  int64_t held = 0;
  for (size_t i = 0; i < problem.units.size(); ++i) {
    held += problem.units[i][step.choices[i]].held_bytes;
  }
  return held;
}

// Returns what a step needs beyond what it holds while the last unit's passes run.
int64_t AtEnd(const KnownStep& step, const Problem& problem) {
  return std::max<int64_t>(0, step.work.back().peak_bytes - HeldIn(step, problem));
}

// Sets the surges of the last unit's alternatives.
void SetLastSurges(absl::Span<const KnownStep> steps, Problem& problem) {
  const size_t last = problem.units.size() - 1;
  std::vector<Alternative>& tail = problem.units[last];
  tail[0].surge_bytes = AtEnd(steps[0], problem);
  for (const KnownStep& step : steps) {
    if (step.choices[last] != 0) continue;
    tail[0].surge_bytes = std::min(tail[0].surge_bytes, AtEnd(step, problem));
  }
  for (const KnownStep& step : steps) {
    if (step.choices[last] == 0) continue;
    // The same step but for the last unit says what the unit before it needs.
    int64_t of_unit_before = 0;
    for (const KnownStep& other : steps) {
      if (last == 0 || other.choices[last] != 0) continue;
      if (other.choices[last - 1] != step.choices[last - 1]) continue;
      of_unit_before = AtEnd(other, problem) - tail[0].surge_bytes;
      break;
    }
    tail[step.choices[last]].surge_bytes =
        std::max<int64_t>(0, AtEnd(step, problem) - of_unit_before);
  }
}

}  // namespace

void SetSurges(absl::Span<const KnownStep> steps, Problem& problem) {
  const size_t last = problem.units.size() - 1;
  for (std::vector<Alternative>& unit : problem.units) {
    for (Alternative& alternative : unit) alternative.surge_bytes = kUnknown;
  }
  SetLastSurges(steps, problem);
  for (const KnownStep& step : steps) {
    if (step.choices[last] != 0) continue;
    const int64_t growth = problem.units[last][0].growth_bytes;
    int64_t in_use = HeldIn(step, problem) + growth;
    for (size_t i = last; i-- > 0;) {
      Alternative& alternative = problem.units[i][step.choices[i]];
      int64_t surge = step.work[i].peak_bytes - in_use;
      if (i + 1 == last) surge = std::max(surge, AtEnd(step, problem) - growth);
      alternative.surge_bytes = std::clamp<int64_t>(surge, 0, alternative.surge_bytes);
      in_use += alternative.growth_bytes;
    }
  }
  for (std::vector<Alternative>& unit : problem.units) {
    for (Alternative& alternative : unit) {
      if (alternative.surge_bytes == kUnknown) alternative.surge_bytes = 0;
    }
  }
}

Alternative ChangedAs(Alternative changed, const Alternative& from, const Alternative& to) {
  changed.forward_ps += to.forward_ps - from.forward_ps;
  changed.backward_ps += to.backward_ps - from.backward_ps;
  changed.held_bytes = std::max<int64_t>(0, changed.held_bytes + to.held_bytes - from.held_bytes);
  changed.growth_bytes += to.growth_bytes - from.growth_bytes;
  changed.surge_bytes =
      std::max<int64_t>(0, changed.surge_bytes + to.surge_bytes - from.surge_bytes);
  return changed;
}

Problem LeastOf(Problem problem, absl::Span<const KnownStep> steps) {
  for (size_t i = 0; i + 1 < problem.units.size(); ++i) {
    double seconds = std::numeric_limits<double>::infinity();
    for (const KnownStep& step : steps) {
      seconds = std::min(seconds, step.work[i].forward.computation_seconds +
                                      step.work[i].backward.computation_seconds);
    }
    for (Alternative& alternative : problem.units[i]) {
      alternative.forward_ps = std::llround(1e12 * seconds);
      alternative.backward_ps = 0;
      alternative.surge_bytes = 0;
    }
  }
  std::vector<Alternative>& tail = problem.units.back();
  int64_t surge = tail[0].surge_bytes;
  for (const Alternative& alternative : tail) surge = std::min(surge, alternative.surge_bytes);
  for (Alternative& alternative : tail) alternative.surge_bytes = surge;
  return problem;
}

}  // namespace tessera::strategy::search
