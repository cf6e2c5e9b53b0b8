#include "strategies/api/search/relaxation.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace tessera::strategy::search {
namespace {

// Returns for how many of the first units bounds try all choices.
int FirstUnits(const Problem& problem) {
  size_t choices = 1;
  int units = 0;
  while (units < static_cast<int>(problem.units.size()) && units < 6 &&
         choices * problem.units[units].size() <= 256) {
    choices *= problem.units[units++].size();
  }
  return units;
}

// Returns the points that are of use, by bytes: more bytes take less time. Neighbours become one
// point with the least of both, so that there are at most so many points, and each is a bound.
std::vector<Point> Frontier(std::vector<Point> points, size_t most) {
  std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.ps < b.ps;
  });
  std::vector<Point> best;
  for (const Point& point : points) {
    if (best.empty() || point.ps < best.back().ps * (1 - kRounding)) best.push_back(point);
  }
  const size_t group = (best.size() + most - 1) / most;
  std::vector<Point> merged;
  for (size_t i = 0; i < best.size(); i += group) {
    merged.push_back({best[i].bytes, best[std::min(best.size(), i + group) - 1].ps});
  }
  return merged;
}

}  // namespace

Partial Extend(const Partial& later, const Alternative& unit) {
  Partial next = later;
  next.forward_ps = later.forward_ps + unit.forward_ps;
  if (unit.forward_gather_ps > 0) {
    next.forward_link_ps =
        unit.forward_gather_ps + std::max(next.forward_ps, later.forward_link_ps);
  }
  next.backward_link_ps = later.backward_link_ps + unit.backward_gather_ps;
  int64_t start = later.backward_ps;
  if (unit.backward_gather_ps > 0) start = std::max(start, next.backward_link_ps);
  if (later.waiting_ps > 0) {
    next.backward_link_ps = std::max(next.backward_link_ps, later.backward_ps) + later.waiting_ps;
  }
  next.backward_ps = start + unit.backward_ps;
  next.waiting_ps = unit.reduction_ps;
  next.end_bytes += unit.held_bytes + unit.growth_bytes;
  next.peak_bytes =
      unit.held_bytes +
      std::max(later.peak_bytes, later.end_bytes + std::max(unit.surge_bytes, unit.growth_bytes));
  return next;
}

int64_t BackwardEndOf(const Partial& partial) {
  const int64_t end = std::max(partial.backward_link_ps, partial.backward_ps);
  return partial.waiting_ps > 0 ? end + partial.waiting_ps : end;
}

Outcome OutcomeOf(const Partial& all) {
  return {std::max(all.forward_ps, all.forward_link_ps) + BackwardEndOf(all), all.peak_bytes};
}

double Relaxation::BoundOf(const Partial& partial, int first_unit, int64_t limit,
                           int64_t next_gather_ps) const {
  const int64_t bytes = (first_unit > position ? partial.end_bytes : partial.peak_bytes) - limit;
  // These units are computed behind the computation and the gathers of those before them.
  double so_far = std::max<double>(partial.forward_ps,
                                   Mean(forward, partial.forward_ps, partial.forward_link_ps));
  double pass = Mean(backward, partial.backward_ps, partial.backward_link_ps + partial.waiting_ps);
  if (partial.waiting_ps > 0) {
    // The link is not ahead of the computation, but for the gather of the next unit.
    pass = std::max(pass, Mean(backward, partial.backward_ps,
                               partial.backward_ps + partial.waiting_ps - next_gather_ps));
  }
  so_far += pass;
  const double bound = so_far + rest[first_unit] + ps_per_byte * static_cast<double>(bytes);
  if (frontiers.empty()) return bound;
  const std::vector<Point>& frontier = frontiers[first_unit];
  const auto above = std::upper_bound(
      frontier.begin(), frontier.end(), -bytes,
      [](int64_t limit_bytes, const Point& point) { return limit_bytes < point.bytes; });
  if (above == frontier.begin()) return kInfinite;
  return std::max(bound, so_far + std::prev(above)->ps);
}

std::vector<Point> Relaxation::PointsOfFirst(const Problem& problem, int units) const {
  // The link is free before their backward pass, so that only what they do themselves is exposed.
  struct Choice {
    Partial clocks;
    int64_t bytes = 0;
    double forward_ps = 0, backward_ps = 0;  // as if they were any units
    int64_t gather_ps = 0, link_ps = 0;      // of the forward, and of the backward pass
  };
  std::vector<Choice> choices(1);
  choices.front().clocks.backward_link_ps = kLinkFree;
  for (int i = units - 1; i >= 0; --i) {
    std::vector<Choice> next;
    for (const Choice& later : choices) {
      for (const Alternative& unit : problem.units[i]) {
        next.push_back({.clocks = Extend(later.clocks, unit),
                        .bytes = later.bytes + BytesOf(unit, i),
                        .forward_ps = later.forward_ps + ForwardOf(unit, i),
                        .backward_ps = later.backward_ps + BackwardOf(unit, i),
                        .gather_ps = later.gather_ps + unit.forward_gather_ps,
                        .link_ps = later.link_ps + unit.backward_gather_ps + unit.reduction_ps});
      }
    }
    choices = std::move(next);
  }
  std::vector<Point> points;
  for (const Choice& choice : choices) {
    const Partial& clocks = choice.clocks;
    const int64_t forward_ps = std::max(clocks.forward_ps, clocks.forward_link_ps);
    points.push_back(
        {choice.bytes,
         std::max(choice.forward_ps, Mean(forward, forward_ps, choice.gather_ps)) +
             std::max(choice.backward_ps, Mean(backward, BackwardEndOf(clocks), choice.link_ps))});
  }
  return points;
}

void Relaxation::AddRest(const Problem& problem) {
  const int first = FirstUnits(problem);
  rest.assign(1, 0);
  for (int i = 0; i < static_cast<int>(problem.units.size()); ++i) {
    double least = kInfinite;
    for (const Alternative& unit : problem.units[i]) least = std::min(least, CostOf(unit, i));
    rest.push_back(rest.back() + least);
    if (i + 1 != first) continue;
    least = kInfinite;
    for (const Point& point : PointsOfFirst(problem, first)) {
      least = std::min(least, point.ps + ps_per_byte * static_cast<double>(point.bytes));
    }
    rest.back() = std::max(rest.back(), least);
  }
}

void Relaxation::AddFrontiers(const Problem& problem, size_t most) {
  const int first = FirstUnits(problem);
  frontiers = {{{0, 0}}};
  for (int i = 0; i < static_cast<int>(problem.units.size()); ++i) {
    std::vector<Point> sums;
    for (const Alternative& unit : problem.units[i]) {
      for (const Point& point : frontiers.back()) {
        sums.push_back({point.bytes + BytesOf(unit, i), point.ps + TimeOf(unit, i)});
      }
    }
    if (i + 1 == first) sums = PointsOfFirst(problem, first);
    frontiers.push_back(Frontier(std::move(sums), most));
  }
}

}  // namespace tessera::strategy::search
