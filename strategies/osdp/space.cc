#include "strategies/osdp/space.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "strategies/api/search/block_work.h"
#include "strategies/osdp/link_times.h"

namespace tessera::strategy::osdp {
namespace {

using search::Alternative;
using search::Work;

int64_t Picoseconds(double seconds) { return std::llround(seconds * 1e12); }

// A lowered step in which all units are in one mode, as far as they can be: parameters outside of
// blocks are not recomputed.
struct Corner {
  Mode mode;
  PlanPart::Logits logits;
  int64_t peak_bytes;
  std::vector<Work> work;
};

int64_t MicroBatchesOf(const Run& run, const Settings& settings) {
  return std::max<int64_t>(
      1, settings.micro_batches > 0 ? settings.micro_batches : run.request.micro_batches());
}

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
  Corners(const Run& run, Settings settings, search::PlanSearch& plans)
      : run_(run), settings_(settings), plans_(plans) {}

  // Adds the corners of the modes that units may be in, and the one that keeps logits.
  absl::Status AddAll() {
    // More than two micro-batches only repeat the second one.
    const int64_t micro_batches = MicroBatchesOf(run_, settings_);
    if (micro_batches > 2) {
      const auto opened = run_.host.OpenContext(2 * run_.batch / micro_batches, 0);
      if (!absl::IsInvalidArgument(opened.status())) RETURN_IF_ERROR(opened.status());
      if (opened.ok()) {
        of_two_ = {*opened,
                   [&host = run_.host](TesseraContext* context) { host.CloseContext(context); }};
        settings_.batch = 0;
        settings_.micro_batches = 2;
      }
    }
    for (const Storage storage : kStorages) {
      if (storage == Storage::kSlices && !settings_.slices) continue;
      if (absl::c_none_of(run_.units, [&](const Unit& unit) { return CanBe(unit, storage); })) {
        continue;
      }
      RETURN_IF_ERROR(Add({storage, false}, PlanPart::LOGITS_UNSET));
      // Elsewhere recomputation saves and costs the same as in units that are sharded.
      const bool stays = storage == Storage::kReplicated || storage == Storage::kOnce;
      if (stays || !run_.request.MayDecide(PlanRequest::RECOMPUTE)) continue;
      RETURN_IF_ERROR(Add({storage, true}, PlanPart::LOGITS_UNSET));
    }
    // The host decides about the logits of training that no strategy decides about.
    return Add({Storage::kSharded, false}, PlanPart::KEPT);
  }

  // Returns null if its Plan cannot be run.
  const Corner* Find(Storage storage, bool recompute, bool kept_logits = false) const {
    for (const Corner& corner : corners_) {
      if (corner.mode == Mode{storage, recompute} &&
          (corner.logits == PlanPart::KEPT) == kept_logits) {
        return &corner;
      }
    }
    return nullptr;
  }
  const std::vector<Corner>& all() const { return corners_; }
  // The settings and the context in which they are lowered; null: those of the run.
  const Settings& settings() const { return settings_; }
  const std::shared_ptr<TesseraContext>& context() const { return of_two_; }
  std::vector<Corner>& all() { return corners_; }

 private:
  absl::Status Add(Mode mode, PlanPart::Logits logits) {
    const Plan plan = PlanOf(run_.model, run_.units, ModesOf(run_.units, mode), logits, settings_);
    const auto lowered = plans_.Lower(plan, of_two_.get());
    if (absl::IsInvalidArgument(lowered.status())) return absl::OkStatus();
    RETURN_IF_ERROR(lowered.status());
    corners_.push_back(
        {mode, logits, lowered->cost.peak_bytes(),
         search::WorkOf(lowered->sections, static_cast<int>(run_.model.blocks.size()),
                        MicroBatchesOf(run_, settings_))});
    return absl::OkStatus();
  }

  const Run& run_;
  Settings settings_;
  search::PlanSearch& plans_;
  std::shared_ptr<TesseraContext> of_two_;
  std::vector<Corner> corners_;
};

// Returns what an alternative becomes by the change from one alternative to another.
Alternative ChangedAs(Alternative changed, const Alternative& from, const Alternative& to) {
  changed.forward_ps += to.forward_ps - from.forward_ps;
  changed.backward_ps += to.backward_ps - from.backward_ps;
  changed.held_bytes = std::max<int64_t>(0, changed.held_bytes + to.held_bytes - from.held_bytes);
  changed.growth_bytes += to.growth_bytes - from.growth_bytes;
  changed.surge_bytes =
      std::max<int64_t>(0, changed.surge_bytes + to.surge_bytes - from.surge_bytes);
  return changed;
}

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
  Maker(const Run& run, const Settings& settings, Corners corners)
      : units_(run.units),
        corners_(std::move(corners)),
        ranks_(run.request.ranks()),
        micro_batches_(MicroBatchesOf(run, settings)) {
    const TypeProto::DType used = run.request.message().precision().parameters();
    casts_ = used == TypeProto::BF16 || used == TypeProto::F16;
  }

  void Make(const std::vector<std::vector<LinkTimes>>& link, search::Problem& problem,
            search::Problem& least, Choices& choices, std::vector<int>& lean) {
    if (casts_) DivideCasts();
    problem.units.resize(units_.size());
    choices.modes.resize(units_.size());
    for (size_t i = 0; i < units_.size(); ++i) {
      for (const Corner& corner : corners_.all()) {
        const Storage storage = corner.mode.storage;
        if (corner.logits == PlanPart::KEPT || !CanBe(units_[i], storage)) continue;
        if (corner.mode.recompute && units_[i].block < 0) continue;
        problem.units[i].push_back(AlternativeOf(i, corner, link[i][static_cast<size_t>(storage)]));
        choices.modes[i].push_back(corner.mode);
      }
    }
    AddTail(problem, choices);
    SetSurges(choices, problem);
    for (size_t i = 0; i < units_.size(); ++i) {
      AddRecomputed(problem.units[i], choices.modes[i]);
    }
    least = LeastOf(problem, choices, link);
    const Corner& leanest = *absl::c_min_element(
        corners_.all(),
        [](const Corner& a, const Corner& b) { return a.peak_bytes < b.peak_bytes; });
    const std::vector<Mode> modes = ModesOf(units_, leanest.mode);
    for (size_t i = 0; i < units_.size(); ++i) lean.push_back(choices.Find(i, modes[i]));
    lean.push_back(leanest.logits == PlanPart::KEPT ? 1 : 0);
  }

 private:
  // Parameters that are not split are cast before the first block is computed, all of them. Each
  // unit gets its share of that time.
  void DivideCasts() {
    const Corner* const sharded = corners_.Find(Storage::kSharded, false);
    double bytes = 0;
    for (const Unit& unit : units_) bytes += static_cast<double>(unit.bytes);
    for (Corner& corner : corners_.all()) {
      if (corner.mode.storage != Storage::kReplicated) continue;
      double& root = corner.work[0].forward.computation_seconds;
      const double casts = std::max(0.0, root - sharded->work[0].forward.computation_seconds);
      root -= casts;
      for (const Unit& unit : units_) {
        corner.work[unit.block + 1].forward.computation_seconds +=
            casts * static_cast<double>(unit.bytes) / bytes;
      }
    }
  }

  // Whether the work of a block is that of this unit: a block whose parameters are in two units, as
  // those of two dtypes are, computes with the first.
  bool Computes(size_t i) const { return i == 0 || units_[i - 1].block != units_[i].block; }
  const Work& WorkOf(size_t i, const Corner& corner) const {
    return corner.work[i == units_.size() ? corner.work.size() - 1 : units_[i].block + 1];
  }

  // Returns an alternative, whose surge is not known.
  Alternative AlternativeOf(size_t i, const Corner& corner, const LinkTimes& times) const {
    const Unit& unit = units_[i];
    const Storage storage = corner.mode.storage;
    const Work work = Computes(i) ? WorkOf(i, corner) : Work();
    // Where parameters stay gathered, kept activations cannot be told from them.
    const Corner* plain = corners_.Find(
        corner.mode.recompute ? Storage::kSharded : Storage::kReplicated, corner.mode.recompute);
    if (plain == nullptr) plain = &corner;
    const int64_t kept = Computes(i) ? std::max<int64_t>(0, WorkOf(i, *plain).kept_bytes) : 0;
    const bool replicated = storage == Storage::kReplicated;
    // Parameters outside of blocks are used by the first and the last operators, and stay.
    const bool once =
        storage == Storage::kOnce || (unit.block < 0 && !replicated && storage != Storage::kSlices);
    const auto share = [&](int64_t bytes) {
      return replicated ? bytes : (bytes + ranks_ - 1) / ranks_;
    };
    // A unit of several gathers also waits for them between its operators, even if the link has
    // time for all.
    const bool waits = BytesOfGathers(unit, storage).size() > 1;
    const auto with_waits = [&](const search::PassWork& pass, double link) {
      const double seconds = pass.computation_seconds;
      return Picoseconds(seconds +
                         (waits ? std::max(0.0, pass.span_seconds - std::max(seconds, link)) : 0));
    };
    Alternative alternative = {.surge_bytes = std::numeric_limits<int64_t>::max()};
    alternative.forward_ps = with_waits(work.forward, times.gather);
    alternative.backward_ps = with_waits(work.backward, times.gather + times.reduction);
    alternative.held_bytes = share(unit.state_bytes) + kept;
    alternative.growth_bytes = -kept;
    // Full gradients are reduced once, after the last micro-batch.
    alternative.reduction_ps = Picoseconds(times.reduction) / (replicated ? micro_batches_ : 1);
    if (!replicated) {
      alternative.forward_gather_ps = Picoseconds(times.gather) / (once ? micro_batches_ : 1);
    }
    if (!replicated && !once) alternative.backward_gather_ps = alternative.forward_gather_ps;
    // Parameters in the dtype in which they are used, from the first forward to the last backward
    // pass.
    if (once || (replicated && casts_)) {
      const int64_t used = casts_ ? unit.bytes / 2 : unit.bytes;
      alternative.held_bytes += used;
      if (unit.block >= 0 && micro_batches_ == 1) alternative.growth_bytes -= used;
    }
    // Gradients that are added up are there from the first micro-batch on.
    (micro_batches_ > 1 ? alternative.held_bytes : alternative.growth_bytes) += share(unit.bytes);
    return alternative;
  }

  // Adds the work behind the blocks, with each decision about logits.
  void AddTail(search::Problem& problem, Choices& choices) const {
    problem.units.emplace_back();
    const Corner* const kept = corners_.Find(Storage::kSharded, false, /*kept_logits=*/true);
    for (const Corner* const corner : {corners_.Find(Storage::kSharded, false), kept}) {
      if (corner == nullptr) continue;
      const Work& tail = corner->work.back();
      const int64_t bytes = std::max<int64_t>(0, tail.kept_bytes);
      problem.units.back().push_back({.forward_ps = Picoseconds(tail.forward.computation_seconds),
                                      .backward_ps = Picoseconds(tail.backward.computation_seconds),
                                      .held_bytes = bytes,
                                      .growth_bytes = -bytes});
      choices.logits.push_back(kept == nullptr  ? PlanPart::LOGITS_UNSET
                               : corner == kept ? PlanPart::KEPT
                                                : PlanPart::RECOMPUTED);
    }
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
      alternatives.push_back(ChangedAs(alternatives[k], alternatives[from], alternatives[to]));
      modes.push_back(recomputed);
    }
  }

  // Returns the alternatives of all units that a corner has.
  std::vector<Alternative*> ChosenIn(const Corner& corner, const Choices& choices,
                                     search::Problem& problem) const {
    const std::vector<Mode> modes = ModesOf(units_, corner.mode);
    std::vector<Alternative*> chosen;
    for (size_t i = 0; i < units_.size(); ++i) {
      chosen.push_back(&problem.units[i][choices.Find(i, modes[i])]);
    }
    chosen.push_back(&problem.units.back()[corner.logits == PlanPart::KEPT ? 1 : 0]);
    return chosen;
  }

  // Sets the surge of each alternative to what its corner needs beyond the rest. While the backward
  // pass begins, behind the blocks, the last block is gathered: what that needs is the block's.
  void SetSurges(const Choices& choices, search::Problem& problem) const {
    const auto held_in = [](const std::vector<Alternative*>& chosen) {
      int64_t held = 0;
      for (const Alternative* const alternative : chosen) held += alternative->held_bytes;
      return held;
    };
    const auto of_tail = [&](const Corner& corner) {
      return std::max<int64_t>(
          0, corner.work.back().peak_bytes - held_in(ChosenIn(corner, choices, problem)));
    };
    std::vector<Alternative>& tail = problem.units.back();
    const int64_t of_sharded = of_tail(*corners_.Find(Storage::kSharded, false));
    tail[0].surge_bytes = of_sharded;
    for (const Corner& corner : corners_.all()) {
      if (corner.logits != PlanPart::KEPT) {
        tail[0].surge_bytes = std::min(tail[0].surge_bytes, of_tail(corner));
      }
    }
    for (const Corner& corner : corners_.all()) {
      if (corner.logits == PlanPart::KEPT) {
        tail[1].surge_bytes =
            std::max<int64_t>(0, of_tail(corner) - (of_sharded - tail[0].surge_bytes));
        continue;
      }
      const std::vector<Alternative*> chosen = ChosenIn(corner, choices, problem);
      int64_t in_use = held_in(chosen) + tail[0].growth_bytes;
      for (size_t i = units_.size(); i-- > 0; in_use += chosen[i]->growth_bytes) {
        int64_t surge = Computes(i) ? WorkOf(i, corner).peak_bytes - in_use : 0;
        if (i + 1 == units_.size()) surge = std::max(surge, of_tail(corner) - tail[0].growth_bytes);
        chosen[i]->surge_bytes = std::clamp<int64_t>(surge, 0, chosen[i]->surge_bytes);
      }
    }
  }

  // Returns a problem that no Plan goes below: its units compute as in the fastest corner, wait for
  // nothing, and have no surges.
  search::Problem LeastOf(search::Problem problem, const Choices& choices,
                          const std::vector<std::vector<LinkTimes>>& link) const {
    for (size_t i = 0; i < units_.size(); ++i) {
      double seconds = std::numeric_limits<double>::infinity();
      for (const Corner& corner : corners_.all()) {
        const Work work = Computes(i) ? WorkOf(i, corner) : Work();
        seconds =
            std::min(seconds, work.forward.computation_seconds + work.backward.computation_seconds);
      }
      for (size_t k = 0; k < problem.units[i].size(); ++k) {
        Alternative& alternative = problem.units[i][k];
        const Storage storage = choices.modes[i][k].storage;
        const bool replicated = storage == Storage::kReplicated;
        alternative.forward_ps = Picoseconds(seconds);
        alternative.backward_ps = 0;
        alternative.surge_bytes = 0;
        alternative.reduction_ps =
            Picoseconds(link[i][static_cast<size_t>(storage)].least_reduction) /
            (replicated ? micro_batches_ : 1);
      }
    }
    std::vector<Alternative>& tail = problem.units.back();
    const int64_t surge = std::min(tail.front().surge_bytes, tail.back().surge_bytes);
    for (Alternative& alternative : tail) alternative.surge_bytes = surge;
    return problem;
  }

  const std::vector<Unit>& units_;
  Corners corners_;
  const int64_t ranks_;
  const int64_t micro_batches_;
  bool casts_ = false;  // parameters are used in 16 bits
};

// Returns the units as explanations name them.
std::vector<search::Space::Unit> NamesOf(const std::vector<Unit>& units, const Choices& choices) {
  std::vector<search::Space::Unit> named;
  for (size_t i = 0; i < units.size(); ++i) {
    search::Space::Unit& unit = named.emplace_back();
    unit.name = units[i].name;
    for (const Mode& mode : choices.modes[i]) unit.alternatives.push_back(NameOf(mode));
  }
  search::Space::Unit& tail = named.emplace_back();
  tail.name = "logits";
  tail.alternatives = {"logits computed again"};
  if (choices.logits.size() > 1) tail.alternatives.emplace_back("logits kept");
  return named;
}

}  // namespace

absl::StatusOr<search::Space> MakeSpace(const Run& run, const Settings& settings,
                                        search::PlanSearch& plans) {
  Corners corners(run, settings, plans);
  RETURN_IF_ERROR(corners.AddAll());
  // Units that cannot be in a mode are sharded there.
  if (corners.Find(Storage::kSharded, false) == nullptr) {
    const std::vector<Mode> replicated(run.units.size());
    RETURN_IF_ERROR(
        plans.Lower(PlanOf(run.model, run.units, replicated, PlanPart::LOGITS_UNSET, settings))
            .status());
    return absl::InvalidArgumentError("no parameter of this model can be sharded");
  }
  ASSIGN_OR_RETURN(const auto link, LinkTimesOf(run.request, run.units, run.host));
  search::Space space;
  auto choices = std::make_shared<Choices>();
  space.repetitions = MicroBatchesOf(run, settings);
  if (space.repetitions > 1) space.name = absl::StrCat(space.repetitions, " micro-batches");
  const auto plan_in = [choices, run](const Settings& settings) {
    return [choices, run, settings](absl::Span<const int> chosen) {
      std::vector<Mode> modes;
      for (size_t i = 0; i < run.units.size(); ++i) modes.push_back(choices->modes[i][chosen[i]]);
      return PlanOf(run.model, run.units, modes, choices->logits[chosen.back()], settings);
    };
  };
  space.plan = plan_in(settings);
  if (corners.context() != nullptr) {
    space.sketch = [&host = run.host, context = corners.context(),
                    plan = plan_in(corners.settings())](absl::Span<const int> chosen) {
      return host.Lower(plan(chosen), context.get());
    };
  }
  Maker(run, settings, std::move(corners))
      .Make(link, space.problem, space.least, *choices, space.lean);
  space.units = NamesOf(run.units, *choices);
  return space;
}

}  // namespace tessera::strategy::osdp
