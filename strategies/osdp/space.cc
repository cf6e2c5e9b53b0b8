#include "strategies/osdp/space.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "strategies/api/collective_prices.h"
#include "strategies/api/search/block_work.h"
#include "strategies/api/search/known_steps.h"

namespace tessera::strategy::osdp {
namespace {

using search::Alternative;
using search::Work;

int64_t Picoseconds(double seconds) { return std::llround(seconds * 1e12); }

// A lowered step in which all units are in one mode, as far as they can be: parameters outside of
// blocks are not recomputed.
struct Corner {
  Mode mode;
  bool kept_logits = false;
  int64_t peak_bytes = 0;
  std::vector<Work> work;  // by unit, and of what lies behind the blocks
};

std::vector<Mode> ModesOf(const std::vector<Unit>& units, Mode mode) {
  std::vector<Mode> modes;
  for (const Unit& unit : units) {
    const Storage storage = CanBe(unit, mode.storage) ? mode.storage : Storage::kSharded;
    modes.push_back({storage, mode.recompute && unit.block >= 0});
  }
  return modes;
}

// Lowers corners.
class Corners {
 public:
  Corners(const Run& run, const Settings& settings, search::PlanSearch& plans)
      : run_(run),
        settings_(settings),
        plans_(plans),
        recomputes_(run.request.MayDecide(PlanRequest::RECOMPUTE)) {}

  // Lowers those of the modes that need the least memory. Returns whether one of them fits or
  // nearly does, or cannot be run.
  absl::StatusOr<bool> LowerLean() {
    RETURN_IF_ERROR(TakeTwoMicroBatches());
    std::vector<Mode> lean;
    for (const Storage storage : kStorages) {
      if (IsLean(storage) && MayBe(storage)) lean.push_back({storage, recomputes_});
    }
    RETURN_IF_ERROR(plans_.Prepare(PlansIn(lean), of_two_));
    // Logits are decided, if there are any.
    const absl::Status first = plans_.Lower(PlanIn(lean.front()), of_two_).status();
    if (absl::IsInvalidArgument(first)) logits_ = PlanPart::LOGITS_UNSET;
    return plans_.AnyNearLimit(PlansIn(lean), of_two_);
  }

  // Lowers those of the modes that units may be in, and the one that keeps logits. Corners whose
  // Plans cannot be run are left out.
  absl::Status LowerAll() {
    RETURN_IF_ERROR(LowerLean().status());
    // The first one: others are compared with it.
    std::vector<Mode> modes = {{Storage::kSharded, false}};
    for (const Storage storage : kStorages) {
      if (!MayBe(storage)) continue;
      if (storage != Storage::kSharded) modes.push_back({storage, false});
      // In other units recomputation saves and costs the same as in those that are sharded.
      if (IsLean(storage) && recomputes_) modes.push_back({storage, true});
    }
    std::vector<Plan> all = PlansIn(modes);
    all.push_back(PlanIn(modes.front(), /*kept_logits=*/true));
    RETURN_IF_ERROR(plans_.Prepare(all, of_two_));
    for (const Mode mode : modes) RETURN_IF_ERROR(Lower(mode));
    return Lower(modes.front(), /*kept_logits=*/true);
  }

  // Returns null if its Plan cannot be run.
  const Corner* Find(Mode mode, bool kept_logits = false) const {
    for (const Corner& corner : corners_) {
      if (corner.mode == mode && corner.kept_logits == kept_logits) return &corner;
    }
    return nullptr;
  }
  const std::vector<Corner>& all() const { return corners_; }
  PlanPart::Logits logits() const { return logits_; }
  // The settings and the context in which they are lowered; null: that of the run.
  const Settings& settings() const { return settings_; }
  TesseraContext* context() const { return of_two_; }

 private:
  static bool IsLean(Storage storage) { return storage == Storage::kSharded || IsByPiece(storage); }
  bool MayBe(Storage storage) const {
    if (storage == Storage::kSlices && !settings_.slices) return false;
    if (storage == Storage::kNode && run_.node_ranks == 0) return false;
    return absl::c_any_of(run_.units, [&](const Unit& unit) { return CanBe(unit, storage); });
  }

  // More than two micro-batches only repeat the second one.
  absl::Status TakeTwoMicroBatches() {
    if (settings_.micro_batches <= 2) return absl::OkStatus();
    const auto opened = plans_.ContextOf(2 * run_.batch / settings_.micro_batches);
    if (!opened.ok()) return absl::OkStatus();  // the run has one batch
    of_two_ = *opened;
    settings_.micro_batches = 2;
    settings_.sets_micro_batches = true;
    settings_.batch = 0;
    return absl::OkStatus();
  }

  Plan PlanIn(Mode mode, bool kept_logits = false) const {
    return PlanOf(run_, ModesOf(run_.units, mode), kept_logits ? PlanPart::KEPT : logits_,
                  settings_);
  }

  std::vector<Plan> PlansIn(const std::vector<Mode>& modes) const {
    std::vector<Plan> plans;
    for (const Mode mode : modes) plans.push_back(PlanIn(mode));
    return plans;
  }

  absl::Status Lower(Mode mode, bool kept_logits = false) {
    const auto found = plans_.Lower(PlanIn(mode, kept_logits), of_two_);
    if (absl::IsInvalidArgument(found.status())) return absl::OkStatus();
    ASSIGN_OR_RETURN(const search::Candidate* const lowered, found);
    const std::vector<Work> work = search::WorkOf(
        lowered->sections, static_cast<int>(run_.model.blocks.size()), settings_.micro_batches);
    std::vector<int64_t> bytes;
    std::vector<int> blocks;
    for (const Unit& unit : run_.units) {
      bytes.push_back(unit.bytes);
      blocks.push_back(unit.block);
    }
    Corner corner = {mode, kept_logits, lowered->cost.peak_bytes(),
                     search::WorkOfUnits(work, blocks)};
    if (IsWhole(mode.storage) && !corners_.empty()) {
      search::DivideCasts(bytes, corners_.front().work[0], absl::MakeSpan(corner.work));
    }
    corners_.push_back(std::move(corner));
    return absl::OkStatus();
  }

  const Run& run_;
  Settings settings_;
  search::PlanSearch& plans_;
  const bool recomputes_;
  TesseraContext* of_two_ = nullptr;
  PlanPart::Logits logits_ = PlanPart::RECOMPUTED;  // unless they are kept
  std::vector<Corner> corners_;
};

// The modes of each unit's alternatives, and the logits of the alternatives of the last one.
struct Choices {
  std::vector<std::vector<Mode>> modes;
  std::vector<PlanPart::Logits> logits;

  int Find(size_t unit, Mode mode) const {
    return static_cast<int>(absl::c_find(modes[unit], mode) - modes[unit].begin());
  }
};

// Makes the alternatives of units.
class Maker {
 public:
  Maker(const Run& run, const Corners& corners, int64_t micro_batches)
      : run_(run),
        units_(run.units),
        corners_(corners),
        micro_batches_(micro_batches),
        casts_(run.request.message().precision().parameters() != TypeProto::F32) {}

  // `times` are those of each unit, by Storage.
  void Make(absl::Span<const GroupTimes> times, search::Space& space, Choices& choices) const {
    choices.modes.resize(units_.size());
    space.problem.units.resize(units_.size() + 1);
    for (size_t i = 0; i < units_.size(); ++i) {
      for (const Corner& corner : corners_.all()) {
        const Storage storage = corner.mode.storage;
        if (corner.kept_logits || !CanBe(units_[i], storage)) continue;
        if (corner.mode.recompute && !IsRecomputed(i)) continue;
        space.problem.units[i].push_back(AlternativeOf(
            i, corner, times[i * std::size(kStorages) + static_cast<size_t>(storage)]));
        choices.modes[i].push_back(corner.mode);
      }
    }
    // The work behind the blocks, with each decision about logits.
    choices.logits = {corners_.logits()};
    space.problem.units.back() = {BehindBlocks(corners_.all().front())};
    if (corners_.all().back().kept_logits) {
      choices.logits.push_back(PlanPart::KEPT);
      space.problem.units.back().push_back(BehindBlocks(corners_.all().back()));
    }
    space.known = StepsOf(choices);
    search::SetSurges(space.known, space.problem);
    for (size_t i = 0; i < units_.size(); ++i) {
      AddRecomputed(space.problem.units[i], choices.modes[i]);
    }
    space.least = search::LeastOf(space.problem, space.known);
  }

 private:
  static Alternative BehindBlocks(const Corner& corner) {
    const Work& work = corner.work.back();
    const int64_t kept = std::max<int64_t>(0, work.kept_bytes);
    return {.forward_ps = Picoseconds(work.forward.computation_seconds),
            .backward_ps = Picoseconds(work.backward.computation_seconds),
            .held_bytes = kept,
            .growth_bytes = -kept};
  }

  // Returns an alternative, whose surge is not known.
  Alternative AlternativeOf(size_t i, const Corner& corner, const GroupTimes& times) const {
    const Unit& unit = units_[i];
    const Storage storage = corner.mode.storage;
    const Work& work = corner.work[i];
    // Where parameters stay gathered, kept activations cannot be told from them.
    const bool recompute = corner.mode.recompute;
    const Corner* const plain =
        corners_.Find({recompute ? Storage::kSharded : Storage::kReplicated, recompute});
    int64_t kept = std::max<int64_t>(0, (plain == nullptr ? corner : *plain).work[i].kept_bytes);
    const int64_t used = casts_ ? unit.bytes / 2 : unit.bytes;
    if (storage == Storage::kNode) kept += used / run_.node_ranks;
    const bool replicated = storage == Storage::kReplicated, updated = storage == Storage::kUpdated;
    const bool whole = IsWhole(storage);
    // Parameters outside of blocks are used by the first and the last operators, and stay.
    const bool once =
        storage == Storage::kOnce || (unit.block < 0 && !whole && storage != Storage::kSlices);
    const int64_t parts = replicated ? 1 : run_.request.ranks();
    const auto share = [parts](int64_t bytes) { return (bytes + parts - 1) / parts; };
    const int64_t gather = Picoseconds(times.gather), once_a_step = gather / micro_batches_;
    const double again = storage == Storage::kNode ? times.gather_in_node : times.gather;
    // A unit of several gathers waits for them between operators, even if the link has time.
    const bool waits = Gathers(unit, storage).size() > 1;
    const auto with_waits = [&](const search::PassWork& pass, double link) {
      const double seconds = pass.computation_seconds;
      return Picoseconds(seconds +
                         (waits ? std::max(0.0, pass.span_seconds - std::max(seconds, link)) : 0));
    };
    Alternative alternative = {
        .forward_gather_ps = updated ? 0 : (once ? once_a_step : gather),
        .forward_ps = with_waits(work.forward, times.gather),
        .backward_gather_ps = once || updated ? 0 : Picoseconds(again),
        .backward_ps = with_waits(work.backward, again + times.reduction),
        // Full gradients are reduced once, after the last micro-batch.
        .reduction_ps = Picoseconds(times.reduction) / (replicated ? micro_batches_ : 1) +
                        (updated ? once_a_step : 0),
        .held_bytes = share(unit.state_bytes) + kept,
        .growth_bytes = -kept};
    if (updated) alternative.held_bytes += unit.bytes - share(unit.bytes);
    // Parameters as they are used, from the first forward to the last backward pass.
    if (once || (whole && casts_)) {
      alternative.held_bytes += used;
      if (unit.block >= 0 && micro_batches_ == 1) alternative.growth_bytes -= used;
    }
    // Gradients that are added up are there from the first micro-batch on.
    (micro_batches_ > 1 ? alternative.held_bytes : alternative.growth_bytes) += share(unit.bytes);
    return alternative;
  }

  std::vector<search::KnownStep> StepsOf(const Choices& choices) const {
    std::vector<search::KnownStep> steps;
    for (const Corner& corner : corners_.all()) {
      search::KnownStep& step = steps.emplace_back();
      step.work = corner.work;
      step.peak_bytes = corner.peak_bytes;
      const std::vector<Mode> modes = ModesOf(units_, corner.mode);
      for (size_t i = 0; i < units_.size(); ++i) {
        const Mode mode = {modes[i].storage, modes[i].recompute && IsRecomputed(i)};
        step.choices.push_back(choices.Find(i, mode));
      }
      step.choices.push_back(corner.kept_logits ? 1 : 0);
    }
    return steps;
  }

  // Returns whether anything is computed again if a unit is recomputed. Nothing is where all that
  // the backward pass reads is the block's input and output, as of a convolution and its ReLU.
  bool IsRecomputed(size_t i) const {
    if (units_[i].block < 0) return false;
    const Corner* const kept = corners_.Find({Storage::kSharded, false});
    const Corner* const again = corners_.Find({Storage::kSharded, true});
    if (kept == nullptr || again == nullptr) return true;
    constexpr double kRounding = 1e-9;
    return again->work[i].backward.computation_seconds >
           kept->work[i].backward.computation_seconds * (1 + kRounding);
  }

  // Adds the alternatives in which a unit is recomputed that have no corner.
  static void AddRecomputed(std::vector<Alternative>& alternatives, std::vector<Mode>& modes) {
    const auto from = absl::c_find(modes, Mode{Storage::kSharded, false}) - modes.begin();
    const auto to = absl::c_find(modes, Mode{Storage::kSharded, true}) - modes.begin();
    const size_t known = modes.size();
    if (to == static_cast<int64_t>(known)) return;
    for (size_t k = 0; k < known; ++k) {
      const Mode recomputed = {modes[k].storage, true};
      if (absl::c_linear_search(modes, recomputed)) continue;
      alternatives.push_back(
          search::ChangedAs(alternatives[k], alternatives[from], alternatives[to]));
      modes.push_back(recomputed);
    }
  }

  const Run& run_;
  const std::vector<Unit>& units_;
  const Corners& corners_;
  const int64_t micro_batches_;
  const bool casts_;  // parameters are used in 16 bits
};

// Returns the units as explanations name them.
std::vector<search::Space::Unit> NamesOf(const std::vector<Unit>& units, const Choices& choices) {
  std::vector<search::Space::Unit> named;
  for (size_t i = 0; i < units.size(); ++i) {
    search::Space::Unit& unit = named.emplace_back();
    unit.name = units[i].name;
    for (const Mode& mode : choices.modes[i]) unit.alternatives.push_back(NameOf(mode));
  }
  named.push_back({"logits", {"logits computed again"}});
  if (choices.logits.size() > 1) named.back().alternatives.emplace_back("logits kept");
  return named;
}

}  // namespace

absl::StatusOr<bool> MayFit(const Run& run, const Settings& settings, search::PlanSearch& plans) {
  return Corners(run, settings, plans).LowerLean();
}

absl::StatusOr<search::Space> MakeSpace(const Run& run, const Settings& settings,
                                        search::PlanSearch& plans) {
  Corners corners(run, settings, plans);
  RETURN_IF_ERROR(corners.LowerAll());
  // Units that cannot be in a mode are sharded there.
  if (corners.Find({Storage::kSharded, false}) == nullptr) {
    const std::vector<Mode> whole(run.units.size());
    RETURN_IF_ERROR(plans.Lower(PlanOf(run, whole, PlanPart::LOGITS_UNSET, settings)).status());
    return absl::InvalidArgumentError("no parameter of this model can be sharded");
  }
  std::vector<StoredGroup> groups;
  for (const Unit& unit : run.units) {
    for (const Storage storage : kStorages) {
      groups.push_back({storage == Storage::kReplicated, Gathers(unit, storage)});
    }
  }
  ASSIGN_OR_RETURN(const std::vector<GroupTimes> times,
                   PriceGroups(run.request, kAxis, groups, run.node_ranks, run.host));
  search::Space space;
  space.repetitions = settings.micro_batches;
  if (space.repetitions > 1) space.name = absl::StrCat(space.repetitions, " micro-batches");
  const auto choices = std::make_shared<Choices>();
  Maker(run, corners, settings.micro_batches).Make(times, space, *choices);
  space.units = NamesOf(run.units, *choices);
  const auto plan_in = [choices, run](const Settings& settings) {
    return [choices, run, settings](absl::Span<const int> chosen) {
      std::vector<Mode> modes;
      for (size_t i = 0; i < run.units.size(); ++i) modes.push_back(choices->modes[i][chosen[i]]);
      return PlanOf(run, modes, choices->logits[chosen.back()], settings);
    };
  };
  space.plan = plan_in(settings);
  if (corners.context() != nullptr) {
    space.sketch = plan_in(corners.settings());
    space.sketch_context = corners.context();
  }
  return space;
}

}  // namespace tessera::strategy::osdp
