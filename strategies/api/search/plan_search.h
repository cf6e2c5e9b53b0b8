// Searches for the fastest Plan within a memory limit: a model of the step (search.h) proposes, and
// the host's lowering decides. For any strategy that searches: it says which choices a Plan has,
// what they cost about, and how a Plan is made of them.
//
//   search::PlanSearch plans(request.memory_limit_bytes(), host);
//   search::Space space = {.plan = [&](absl::Span<const int> choices) { return ...; }};
//   for (...) {
//     space.units.push_back({.name = "blocks.0", .alternatives = {"replicated", "sharded"}});
//     space.problem.units.push_back({replicated, sharded});
//   }
//   RETURN_IF_ERROR(plans.Search(std::move(space)).status());
//   ASSIGN_OR_RETURN(const search::Candidate* const best, plans.Finish());
//   host.Explain(plans.Explain(*best));
//   return best->plan;
//
// Several spaces may be searched, one after another: with other numbers of micro-batches, say.
#ifndef TESSERA_STRATEGIES_API_SEARCH_PLAN_SEARCH_H_
#define TESSERA_STRATEGIES_API_SEARCH_PLAN_SEARCH_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "strategies/api/kit.h"
#include "strategies/api/search/known_steps.h"
#include "strategies/api/search/search.h"

namespace tessera::strategy::search {

// The Plans that make one choice for each unit of a problem.
struct Space {
  // As explanations name it.
  struct Unit {
    std::string name;
    std::vector<std::string> alternatives;
  };
  std::string name = "";    // "4 micro-batches"; may be ""
  std::vector<Unit> units;  // [units of the problem]
  Problem problem;          // its limit is not read
  int64_t repetitions = 1;  // of the problem's times in a step
  // A problem whose choices take at least so much computation and communication, and so many bytes:
  // what no Plan of the space goes below. Its times and bytes bound those of all Plans (LeastTime).
  // Empty: no bound is known.
  Problem least;
  std::function<Plan(absl::Span<const int> choices)> plan;
  // Choices whose Plans were lowered, as those that the model was made of; may be empty. If the
  // model proposes none that fit, the leanest of them may.
  std::vector<KnownStep> known;
  // Where lowering takes long: the costs of the same choices in a smaller run that needs about as
  // much memory, as one with fewer micro-batches. Plans are lowered when one of these fits. May be
  // null.
  std::function<absl::StatusOr<StepCost>(absl::Span<const int> choices)> sketch;
};

// A Plan that the host lowered.
struct Candidate {
  Plan plan;
  StepCost cost;
  std::vector<LoweredPlans::Section> sections;
  int space = -1;  // by the order of the searches; -1: it was lowered before
  std::vector<int> choices = {};
};

// Thread safety: none. The host must outlive the object.
class PlanSearch {
 public:
  // `limit_bytes` of a rank; 0: there is none. The Plans are for a context; null: that of the run.
  PlanSearch(int64_t limit_bytes, Host& host, TesseraContext* context = nullptr);

  // Lowers a Plan, each once; it is a candidate. In another context, which has another batch, it is
  // none. InvalidArgument if the Plan cannot be run.
  absl::StatusOr<Candidate> Lower(const Plan& plan, TesseraContext* other = nullptr);

  // Lowers Plans of a space that its model proposes, until one fits and leaves little memory. The
  // pointers to candidates are valid as long as the object.
  // Returns the seconds of the fastest one that fits; infinite if none does.
  absl::StatusOr<double> Search(Space space);

  // Lowers Plans that differ in one choice from the fastest one, or else in two, as long as that is
  // faster: few of a large model, which take longer and have a closer model. Returns the fastest;
  // if no Plan fits, ResourceExhausted with the smallest limit that one fits: a search within this
  // limit finds one, and within a byte less none.
  absl::StatusOr<const Candidate*> Finish();

  // Returns the fastest candidate that fits; null if there is none.
  const Candidate* best() const { return FastestWithin(limit_); }
  int size() const { return static_cast<int>(candidates_.size()); }  // candidates

  // Returns at least how long a step of any Plan of the searched spaces takes that fits, in
  // seconds; 0 if it is not known.
  double Bound() const;
  // Returns what each unit's other choices would cost. Counts of equal choices are its first note,
  // and where its prices come from is the second.
  Explanation Explain(const Candidate& candidate) const;

 private:
  // A choice for each unit, whether it exceeds the limit by the model, and its time.
  struct Change {
    bool exceeds;
    int64_t step_ps;
    std::vector<int> choices;
  };

  absl::StatusOr<Candidate*> LowerOnce(const Plan& plan);
  absl::StatusOr<Candidate*> LowerChoices(int space, const std::vector<int>& choices);
  // Corrects the model's limit by what lowering finds. Returns the last choices that fit; empty if
  // none do.
  absl::StatusOr<std::vector<int>> Correct(int space);
  // Lowers them, if they were sketched.
  absl::Status Propose(int space);
  // Returns the peak of choices, by the sketch if there is one.
  absl::StatusOr<int64_t> PeakOf(int space, const std::vector<int>& choices);
  absl::Status FindSmallest();
  absl::Status Improve(int most);
  // Returns how many Plans Improve may lower.
  absl::StatusOr<int> MostImprovements() const;
  std::vector<Change> ChangesOf(const Candidate& candidate, bool of_two) const;
  const Candidate* FastestWithin(int64_t limit, int space = -1) const;
  const Candidate* Smallest() const;
  void Report() const;

  Host& host_;
  TesseraContext* const context_;
  int64_t limit_;
  std::vector<Space> spaces_;
  std::vector<int64_t>
      beyond_sketch_;  // by space: how many bytes a Plan needs more than its sketch
  std::deque<Candidate> candidates_;
  absl::flat_hash_map<std::string, Candidate*> by_plan_;
};

}  // namespace tessera::strategy::search

#endif  // TESSERA_STRATEGIES_API_SEARCH_PLAN_SEARCH_H_
