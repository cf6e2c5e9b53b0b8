#include "strategies/api/search/plan_search.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "strategies/api/search/one_number.h"

namespace tessera::strategy::search {
namespace {

// The seconds of a Plan that does not exist.
constexpr double kNoTime = std::numeric_limits<double>::infinity();
constexpr int kProposals = 8;     // for one space, at most
constexpr int64_t kUnused = 100;  // proposals end when less than one part in so many is unused

}  // namespace

PlanSearch::PlanSearch(int64_t limit_bytes, Host& host, TesseraContext* context)
    : host_(host), context_(context), limit_(limit_bytes == 0 ? kUnlimited : limit_bytes) {}

PlanSearch::~PlanSearch() {
  for (const auto& [batch, context] : contexts_) host_.CloseContext(context);
}

absl::StatusOr<TesseraContext*> PlanSearch::ContextOf(int64_t batch) {
  const auto known = contexts_.find(batch);
  if (known != contexts_.end()) return known->second;
  ASSIGN_OR_RETURN(TesseraContext* const opened, host_.OpenContext(batch, 0));
  return contexts_[batch] = opened;
}

absl::Status PlanSearch::Prepare(absl::Span<const Plan> plans, TesseraContext* other) {
  LowerPlans request;
  request.set_sections(true);
  std::vector<Key> keys, unknown;
  for (const Plan& plan : plans) {
    keys.emplace_back(other, plan.SerializeAsString());
    if (known_.contains(keys.back()) || absl::c_linear_search(unknown, keys.back())) continue;
    unknown.push_back(keys.back());
    *request.add_plans() = plan;
  }
  LoweredPlans lowered;
  if (!unknown.empty()) {
    ASSIGN_OR_RETURN(lowered, host_.Lower(request, other == nullptr ? context_ : other));
  }
  for (size_t i = 0; i < unknown.size(); ++i) {
    LoweredPlans::Lowered& result = *lowered.mutable_plans(static_cast<int>(i));
    Known& known = known_[std::move(unknown[i])];
    if (!result.error().empty()) {
      known.lowered = absl::InvalidArgumentError(result.error());
      continue;
    }
    Candidate& candidate = lowered_.emplace_back();
    candidate.plan = std::move(*request.mutable_plans(static_cast<int>(i)));
    candidate.cost = std::move(*result.mutable_cost());
    candidate.sections = {result.sections().begin(), result.sections().end()};
    known.lowered = &candidate;
  }
  for (const Key& key : keys) {
    Known& known = known_.at(key);
    if (known.search == search_) continue;
    known.search = search_;
    ++asked_;
    if (!known.lowered.ok()) continue;
    (*known.lowered)->space = -1;
    if (other == nullptr) candidates_.push_back(*known.lowered);
  }
  return absl::OkStatus();
}

absl::StatusOr<Candidate*> PlanSearch::LowerOnce(const Plan& plan, TesseraContext* other) {
  RETURN_IF_ERROR(Prepare({plan}, other));
  return known_.at({other, plan.SerializeAsString()}).lowered;
}

absl::StatusOr<bool> PlanSearch::AnyNearLimit(absl::Span<const Plan> plans, TesseraContext* other) {
  RETURN_IF_ERROR(Prepare(plans, other));
  for (const Plan& plan : plans) {
    const auto lowered = LowerOnce(plan, other);
    if (!lowered.ok() || IsNearLimit(**lowered)) return true;
  }
  return false;
}

absl::StatusOr<Candidate*> PlanSearch::LowerChoices(int space, const std::vector<int>& choices) {
  ASSIGN_OR_RETURN(Candidate* const candidate, LowerOnce(spaces_[space].plan(choices), nullptr));
  if (candidate->space < 0) {
    candidate->space = space;
    candidate->choices = choices;
  }
  return candidate;
}

absl::StatusOr<double> PlanSearch::Search(absl::StatusOr<Space> space) {
  if (absl::IsInvalidArgument(space.status()) && size() > 0) return kNoTime;
  RETURN_IF_ERROR(space.status());
  const int index = static_cast<int>(spaces_.size());
  spaces_.push_back(*std::move(space));
  beyond_sketch_.push_back(0);
  ASSIGN_OR_RETURN(const bool large, IsLarge());
  if (large && IsSlowerByModel(index)) return kNoTime;
  // They are candidates of this space.
  for (const KnownStep& step : spaces_[index].known) {
    if (spaces_[index].sketch != nullptr) break;
    RETURN_IF_ERROR(LowerChoices(index, step.choices).status());
  }
  // The Plans of a space may be ones that cannot be run, though its sketches can.
  const absl::Status proposed = Propose(index);
  if (absl::IsInvalidArgument(proposed) && size() > 0) return kNoTime;
  RETURN_IF_ERROR(proposed);
  if (!large && spaces_[index].sketch == nullptr) RETURN_IF_ERROR(LowerKnown(index));
  Report();
  const Candidate* const found = BestOf(index);
  const bool fits = found != nullptr && found->cost.peak_bytes() <= limit_;
  return fits ? found->cost.step_seconds() : kNoTime;
}

std::vector<std::vector<int>> PlanSearch::KnownAsBest(int space) const {
  const Candidate* const fastest = BestOf(space);
  std::vector<std::vector<int>> all;
  for (const KnownStep& step : spaces_[space].known) {
    if (fastest == nullptr) break;
    all.push_back(step.choices);
    all.back().back() = fastest->choices.back();
  }
  return all;
}

absl::Status PlanSearch::LowerKnown(int space) {
  const std::vector<std::vector<int>> all = KnownAsBest(space);
  std::vector<Plan> plans;
  for (const std::vector<int>& choices : all) plans.push_back(spaces_[space].plan(choices));
  RETURN_IF_ERROR(Prepare(plans));
  for (const std::vector<int>& choices : all) {
    const absl::Status status = LowerChoices(space, choices).status();
    if (!absl::IsInvalidArgument(status)) RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status PlanSearch::SearchAscending(
    absl::Span<const int64_t> numbers, const std::function<absl::StatusOr<bool>(int64_t)>& may_fit,
    const std::function<absl::StatusOr<Space>(int64_t)>& space) {
  const auto stops = [this] { return size() > 0 && host_.cancelled(); };
  return search::SearchAscending(
      numbers,
      [&](int64_t number) -> absl::StatusOr<bool> {
        if (stops()) return true;
        return may_fit(number);
      },
      [&](int64_t number) -> absl::StatusOr<double> {
        if (stops()) return kNoTime;
        return Search(space(number));
      });
}

bool PlanSearch::IsSlowerByModel(int space) const {
  const Candidate* const fastest = best();
  if (fastest == nullptr || fastest->space < 0) return false;
  const Space& of_fastest = spaces_[fastest->space];
  const Outcome outcome = Evaluate(of_fastest.problem, fastest->choices);
  // Models of the same run err alike.
  Problem problem = spaces_[space].problem;
  problem.limit_bytes = limit_ - (fastest->cost.peak_bytes() - outcome.peak_bytes);
  const Solution solution =
      Solve(problem, {.gap = kGap, .stop = [this] { return host_.cancelled(); }});
  return solution.found() &&
         spaces_[space].SecondsOf(solution.outcome.step_ps) > of_fastest.SecondsOf(outcome.step_ps);
}

absl::StatusOr<const Candidate*> PlanSearch::Sketch(int space, const std::vector<int>& choices) {
  if (spaces_[space].sketch == nullptr) return LowerChoices(space, choices);
  return LowerOnce(spaces_[space].sketch(choices), spaces_[space].sketch_context);
}

absl::StatusOr<int64_t> PlanSearch::PeakOf(int space, const std::vector<int>& choices) {
  ASSIGN_OR_RETURN(const Candidate* const sketch, Sketch(space, choices));
  return sketch->cost.peak_bytes() + beyond_sketch_[space];
}

// Choices that do not fit need a greater excess; if they fit, or if the model has none, a smaller
// one may be enough.
absl::StatusOr<std::vector<int>> PlanSearch::Correct(int space) {
  Problem& problem = spaces_[space].problem;
  std::vector<int> fitting;
  // By how much the Plan's memory exceeds the model's: what was tried, and the range that it is in.
  int64_t excess = 0, low = -kUnlimited, high = kUnlimited;
  for (int i = 0; i < kProposals && !host_.cancelled(); ++i) {
    problem.limit_bytes = limit_ - excess;
    const Solution solution =
        Solve(problem, {.gap = kGap, .stop = [this] { return host_.cancelled(); }});
    std::vector<int> choices = solution.found() ? solution.choices : solution.least_choices;
    if (choices.empty()) break;
    absl::StatusOr<int64_t> peak = PeakOf(space, choices);
    if (absl::IsInvalidArgument(peak.status())) break;
    RETURN_IF_ERROR(peak.status());
    const std::vector<KnownStep>& known = spaces_[space].known;
    if (!solution.found() && *peak > limit_ && !known.empty()) {
      choices = std::min_element(known.begin(), known.end(), [](const auto& a, const auto& b) {
                  return a.peak_bytes < b.peak_bytes;
                })->choices;
      ASSIGN_OR_RETURN(peak, PeakOf(space, choices));
    }
    const bool fits = *peak <= limit_;
    const int64_t found = *peak - Evaluate(problem, choices).peak_bytes;
    if (fits) fitting = std::move(choices);
    if (fits && limit_ - *peak < limit_ / kUnused) break;
    if (fits || !solution.found()) high = excess;
    if (!fits && solution.found()) low = excess;
    if (found > low && found < high) {
      excess = found;
    } else if (low > -kUnlimited && high < kUnlimited && high - low > limit_ / kUnused) {
      excess = low + (high - low) / 2;
    } else {
      break;
    }
  }
  return fitting;
}

absl::Status PlanSearch::Propose(int space) {
  for (int i = 0; i < kProposals; ++i) {
    ASSIGN_OR_RETURN(const std::vector<int> fitting, Correct(space));
    if (fitting.empty() || spaces_[space].sketch == nullptr) break;
    ASSIGN_OR_RETURN(const int64_t sketched, PeakOf(space, fitting));
    ASSIGN_OR_RETURN(const Candidate* const lowered, LowerChoices(space, fitting));
    const int64_t beyond = lowered->cost.peak_bytes() - sketched;
    if (beyond <= 0 || lowered->cost.peak_bytes() <= limit_) break;
    beyond_sketch_[space] += beyond;
  }
  return absl::OkStatus();
}

void PlanSearch::Begin(int64_t limit) {
  limit_ = limit;
  ++search_;
  asked_ = 0;
  candidates_.clear();
  spaces_.clear();
  beyond_sketch_.clear();
}

absl::Status PlanSearch::Repeat(const std::function<absl::Status()>& search) {
  RETURN_IF_ERROR(search());
  RETURN_IF_ERROR(Improve());
  if (best() != nullptr) return absl::OkStatus();
  // Where Plans were only sketched, the leanest one is lowered.
  for (size_t i = 0; i < spaces_.size(); ++i) {
    if (spaces_[i].sketch == nullptr) continue;
    spaces_[i].problem.limit_bytes = 0;
    const auto lowered = LowerChoices(static_cast<int>(i), Solve(spaces_[i].problem).least_choices);
    if (!absl::IsInvalidArgument(lowered.status())) RETURN_IF_ERROR(lowered.status());
  }
  return absl::OkStatus();
}

absl::StatusOr<const Candidate*> PlanSearch::Find(const std::function<absl::Status()>& search) {
  const int64_t requested = limit_;
  RETURN_IF_ERROR(Repeat(search));
  if (Smallest() == nullptr) return absl::InvalidArgumentError("no Plan of the search can be run");
  int64_t smallest = Smallest()->cost.peak_bytes();
  // Which Plans are proposed depends on the limit. So the search for the smallest one begins at
  // the least, and is the same for all that are too small.
  int64_t found = kUnlimited;
  for (int64_t limit = 1; std::min(smallest, found) > requested; limit = found - 1) {
    if (host_.cancelled()) break;
    Begin(limit);
    RETURN_IF_ERROR(Repeat(search));
    if (Smallest() == nullptr || (limit > 1 && best() == nullptr)) break;
    found = Smallest()->cost.peak_bytes();
  }
  smallest = std::min(smallest, found);
  limit_ = requested;
  if (best() != nullptr) return best();
  return absl::ResourceExhaustedError(absl::StrCat("no Plan of the search fits into ", limit_,
                                                   " bytes; the smallest limit that was found is ",
                                                   smallest));
}

std::pair<int64_t, double> PlanSearch::Order(const Candidate& candidate) const {
  return {std::max<int64_t>(0, candidate.cost.peak_bytes() - limit_),
          candidate.cost.step_seconds()};
}

const Candidate* PlanSearch::BestOf(int space) const {
  const Candidate* best = nullptr;
  for (const Candidate* const candidate : candidates_) {
    if (candidate->space != space) continue;
    if (best == nullptr || Order(*candidate) < Order(*best)) best = candidate;
  }
  return best;
}

const Candidate* PlanSearch::best() const {
  const Candidate* best = nullptr;
  for (const Candidate* const candidate : candidates_) {
    if (best == nullptr || IsBetter(*candidate, *best)) best = candidate;
  }
  return best == nullptr || best->cost.peak_bytes() > limit_ ? nullptr : best;
}

const Candidate* PlanSearch::Smallest() const {
  const Candidate* smallest = nullptr;
  for (const Candidate* const candidate : candidates_) {
    if (smallest == nullptr || candidate->cost.peak_bytes() < smallest->cost.peak_bytes()) {
      smallest = candidate;
    }
  }
  return smallest;
}

void PlanSearch::Report() const {
  Progress progress;
  progress.set_fraction(-1);  // how many Plans there will be is not known
  progress.set_message(absl::StrCat(size(), " Plans are lowered"));
  if (const Candidate* const fastest = best(); fastest != nullptr) {
    absl::StrAppendFormat(progress.mutable_message(), "; the fastest that fits takes %.4g s",
                          fastest->cost.step_seconds());
    *progress.mutable_best() = fastest->plan;
  }
  host_.Report(progress);
}

}  // namespace tessera::strategy::search
