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
//   ASSIGN_OR_RETURN(const search::Candidate* const best,
//                    plans.Find([&] { return plans.Search(space).status(); }));
//   host.Explain(plans.Explain(*best));
//   return best->plan;
//
// Several spaces may be searched, one after another: with other numbers of micro-batches, say.
#ifndef TESSERA_STRATEGIES_API_SEARCH_PLAN_SEARCH_H_
#define TESSERA_STRATEGIES_API_SEARCH_PLAN_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "strategies/api/kit.h"
#include "strategies/api/search/known_steps.h"
#include "strategies/api/search/least_time.h"
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
  // A problem whose choices take at least so much computation, communication and memory, about. It
  // bounds the time of all Plans of the space (LeastTime), if none takes less of one of them, by
  // more than a lowered one does. Empty: no bound is known.
  Problem least;
  std::function<Plan(absl::Span<const int> choices)> plan;
  // Choices whose Plans were lowered, as those that the model was made of; may be empty. If the
  // model proposes none that fit, the leanest of them may.
  std::vector<KnownStep> known;
  // Where lowering takes long: the Plan with the same choices in a smaller run, which needs about
  // as much memory, as one with fewer micro-batches. A Plan is lowered when its sketch fits. May be
  // null.
  std::function<Plan(absl::Span<const int> choices)> sketch;
  TesseraContext* sketch_context = nullptr;  // of the smaller run; outlives the search

  // Returns a time of the problem, in a step.
  double SecondsOf(int64_t ps) const {
    return 1e-12 * static_cast<double>(ps) * static_cast<double>(repetitions);
  }
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
  ~PlanSearch();
  PlanSearch(const PlanSearch&) = delete;
  PlanSearch& operator=(const PlanSearch&) = delete;

  // Returns the context of another batch, which is open as long as the object, or the host's error.
  absl::StatusOr<TesseraContext*> ContextOf(int64_t batch);

  // Lowers a Plan, each once; it is a candidate of this search. In another context, which has
  // another batch, it is none. InvalidArgument if the Plan cannot be run. The pointers to
  // candidates are valid as long as the object.
  absl::StatusOr<const Candidate*> Lower(const Plan& plan, TesseraContext* other = nullptr) {
    return LowerOnce(plan, other);
  }
  // Lowers Plans that are asked for next. Several at a time take less time than one after another.
  absl::Status Prepare(absl::Span<const Plan> plans, TesseraContext* other = nullptr);
  // Returns whether one of these Plans, the leanest of a space, fits or nearly does, or cannot be
  // run. Else no other of the space will fit.
  absl::StatusOr<bool> AnyNearLimit(absl::Span<const Plan> plans, TesseraContext* other = nullptr);

  // Lowers Plans of a space that its model proposes, until one fits and leaves little memory.
  // Returns the seconds of the fastest one that fits; infinite if none does; if there are
  // candidates, also if it cannot be made (InvalidArgument), and, where lowering takes long, if its
  // model is slower than that of the best one.
  absl::StatusOr<double> Search(absl::StatusOr<Space> space);

  // Searches spaces with one number each, as of micro-batches, which are in ascending order:
  // search:: SearchAscending. `may_fit` says whether the leanest Plans of a space may fit, and
  // `space` makes it.
  absl::Status SearchAscending(absl::Span<const int64_t> numbers,
                               const std::function<absl::StatusOr<bool>(int64_t)>& may_fit,
                               const std::function<absl::StatusOr<Space>(int64_t)>& space);

  // Calls `search`, which searches spaces, and then lowers Plans that differ from the fastest ones
  // in one, two or three choices, or in one from a Plan that treats all units alike and is nearly
  // as fast, as long as that is faster: few of a large model, which take
  // longer and have a closer model; all of a small space. Returns the fastest. If no Plan fits,
  // ResourceExhausted with the smallest limit that one fits. To find it, all is repeated within a
  // byte less than the leanest Plan so far needs, until nothing fits.
  absl::StatusOr<const Candidate*> Find(const std::function<absl::Status()>& search);

  // Returns whether lowering takes so long that few Plans are lowered.
  absl::StatusOr<bool> IsLarge();
  // Returns the fastest candidate that fits; null if there is none.
  const Candidate* best() const;
  int size() const { return static_cast<int>(candidates_.size()); }  // candidates of this search

  // Returns at least how long a step of any Plan of the searched spaces takes that fits, in
  // seconds; 0 if it is not known. See Space::least for the condition.
  double Bound() const;
  // Returns what each unit's other choices would cost. Counts of equal choices are its first note,
  // and where its prices come from is the second.
  Explanation Explain(const Candidate& candidate) const;

 private:
  // Choices for all units, and about what they take.
  struct Change {
    int64_t peak_bytes;
    double seconds;
    std::vector<int> choices;
  };

  static constexpr double kGap = 1e-3;  // of the model's search
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max() / 4;

  // The host's answer about a Plan, and the last search that asked.
  struct Known {
    absl::StatusOr<Candidate*> lowered;
    int search = 0;
  };
  // The context, if it is another one, and the Plan.
  using Key = std::pair<TesseraContext*, std::string>;

  absl::StatusOr<Candidate*> LowerOnce(const Plan& plan, TesseraContext* other);
  absl::StatusOr<Candidate*> LowerChoices(int space, const std::vector<int>& choices);
  // Lowers choices, or their sketch if the space has sketches.
  absl::StatusOr<const Candidate*> Sketch(int space, const std::vector<int>& choices);
  // Corrects the model's limit by what lowering finds. Returns the last choices that fit; empty if
  // none do.
  absl::StatusOr<std::vector<int>> Correct(int space);
  // Lowers them, if they were sketched.
  absl::Status Propose(int space);
  // Returns the choices of a space's known steps, with the choice behind the blocks that its
  // fastest candidate has. LowerKnown lowers them, so that no Plan that treats all units alike is
  // missed.
  std::vector<std::vector<int>> KnownAsBest(int space) const;
  absl::Status LowerKnown(int space);
  // Returns whether the fastest choices of a space are slower than the best candidate, by the
  // models alone.
  bool IsSlowerByModel(int space) const;
  // Returns the peak of choices, by the sketch if there is one.
  absl::StatusOr<int64_t> PeakOf(int space, const std::vector<int>& choices);
  // Begins another search. What is lowered stays known, and all else is as in a new object.
  void Begin(int64_t limit);
  absl::Status Repeat(const std::function<absl::Status()>& search);
  // Lowers changes of the fastest candidate, unless a sketch says that they do not pay.
  absl::Status TryChanges(const Candidate& fastest, absl::Span<const Change> changes);
  // Lowers changes until there is a better candidate of the space, if asked to, or until as many
  // Plans are lowered as may be.
  absl::Status TryInOrder(const Candidate& now, absl::Span<const Change> changes,
                          bool until_better = false);
  absl::Status TryAll(const Candidate& now);  // the Plans of its space
  absl::Status ImproveSpace(int space);
  absl::Status ImproveFromBest(int space, bool may_exceed,
                               absl::flat_hash_set<const Candidate*>& tried);
  absl::Status Improve();
  // Returns how many Plans all improvement may lower.
  absl::StatusOr<int> MostLowerings(int64_t micro_batches);
  // Return what this search lowered; null if it did not. SketchOf: the sketch of choices, or the
  // Plan if there are no sketches.
  const Candidate* KnownOf(const Plan& plan, TesseraContext* other) const;
  const Candidate* SketchOf(int space, const std::vector<int>& choices) const;
  // Return the changes of one choice, by the model; those in which the model decides all other
  // choices again; and those of two or three choices that fit and are not slow, if they do together
  // what each does alone. The fastest come first.
  std::vector<Change> SingleChanges(const Candidate& candidate) const;
  std::vector<Change> ForcedChanges(const Candidate& candidate) const;
  std::vector<Change> JointChanges(const Candidate& candidate) const;
  // Returns the Plans of KnownAsBest that are near, the fastest first.
  std::vector<const Candidate*> KnownStarts(int space) const;
  // Returns whether `a` should be changed before `b`: Order; or, if they may exceed the limit, an
  // excess of a part of the memory is as bad as the same part of the time.
  bool IsBetterStart(const Candidate& a, const Candidate& b, bool may_exceed) const;
  // Returns the most by which the sums of a space's `least` exceed those of a lowered Plan; of
  // times, one that fits.
  Sums LeastExcess(int index) const;
  // By how much a candidate exceeds the limit, and its time: the least is best.
  std::pair<int64_t, double> Order(const Candidate& candidate) const;
  // Compares by Order. Of steps that take equally long, the one that computes less is better, then
  // the one that needs less memory.
  bool IsBetter(const Candidate& a, const Candidate& b) const;
  // Return whether a candidate fits nearly; and also is nearly as fast as the best.
  bool IsNearLimit(const Candidate& candidate) const;
  bool IsNear(const Candidate& candidate, double slower = 1.1) const;
  const Candidate* BestOf(int space) const;  // null if there is none
  const Candidate* Smallest() const;
  void Report() const;

  Host& host_;
  TesseraContext* const context_;
  int64_t limit_;
  std::vector<Space> spaces_;
  std::vector<int64_t> beyond_sketch_;  // by space: the bytes of a Plan beyond its sketch
  // Improvement ends when so many Plans were asked for; and that of a space ends at give_up_at_,
  // which is patience_ Plans after a better one was found.
  size_t most_lowered_ = 0;
  size_t give_up_at_ = 0;
  size_t patience_ = 0;
  int search_ = 1;
  size_t asked_ = 0;                    // Plans for which this search asked, in any context
  double operators_ = 0;                // of the largest Graph; 0: not counted yet
  std::vector<Candidate*> candidates_;  // of this search
  std::deque<Candidate> lowered_;
  absl::flat_hash_map<int64_t, TesseraContext*> contexts_;  // by batch
  absl::flat_hash_map<Key, Known> known_;
};

}  // namespace tessera::strategy::search

#endif  // TESSERA_STRATEGIES_API_SEARCH_PLAN_SEARCH_H_
