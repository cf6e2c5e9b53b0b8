#include "strategies/osdp/step_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/types/span.h"

namespace tessera::strategy::osdp {
namespace {

constexpr char kAxis[] = "data";
constexpr Storage kStorages[] = {Storage::kReplicated, Storage::kSharded, Storage::kOnce,
                                 Storage::kPieces, Storage::kSlices};

int64_t Picoseconds(double seconds) { return std::llround(seconds * 1e12); }

// The work of a unit, or of what lies behind the blocks, in a lowered step.
struct Work {
  double forward_seconds = 0, backward_seconds = 0;  // of one micro-batch
  int64_t kept_bytes = 0;                            // from the forward pass for the backward pass
  int64_t backward_peak_bytes = 0;  // of the rank, while its backward pass runs
};

// Reads the work of each slot, in the order of the forward pass: slot 0 is what comes before the
// blocks, slot i + 1 is block i, and the last one is what comes behind them.
std::vector<Work> WorkOf(const Candidate& candidate, int blocks, int64_t micro_batches) {
  std::vector<Work> work(blocks + 2);
  bool was_in_block = false;  // in this pass
  bool forward_before = true;
  int64_t in_use = -1;  // at the end of the section before, in the first forward pass
  bool first_forward = true;
  for (const LoweredPlans::Section& section : candidate.sections) {
    if (section.phase() == GraphProto::UPDATE) continue;
    const bool forward = section.phase() == GraphProto::FORWARD && !section.recomputed();
    if (forward != forward_before) {
      was_in_block = false;
      if (!forward) first_forward = false;
    }
    forward_before = forward;
    const bool in_block = section.block() >= 0;
    was_in_block = was_in_block || in_block;
    const size_t slot = in_block                  ? section.block() + 1
                        : was_in_block == forward ? work.size() - 1
                                                  : 0;
    Work& of_slot = work[slot];
    if (forward) {
      of_slot.forward_seconds += section.computation_seconds() / micro_batches;
      if (first_forward && in_use >= 0) of_slot.kept_bytes += section.end_bytes() - in_use;
      in_use = section.end_bytes();
      continue;
    }
    of_slot.backward_seconds += section.computation_seconds() / micro_batches;
    of_slot.backward_peak_bytes = std::max(of_slot.backward_peak_bytes, section.peak_bytes());
  }
  return work;
}

// The lowered steps in which all units are in one mode.
struct Corner {
  Mode mode;
  const Candidate* candidate = nullptr;
  std::vector<Work> work;
};

// Returns the seconds of each collective of a unit in a storage, in the order of BytesOfGathers:
// gathers, then reductions. Replicated parameters have one reduction.
class Collectives {
 public:
  Collectives(const Request& request, Host& host) : request_(request), host_(host) {
    MeshAxis& axis = *prices_.add_mesh();
    axis.set_name(kAxis);
    axis.set_size(request.ranks());
  }

  // Returns the index of the price.
  int Add(ProgramProto::Collective::Operation operation, TypeProto::DType dtype, int64_t elements) {
    PriceCollectives::Call& call = *prices_.add_calls();
    call.set_operation(operation);
    call.set_dtype(dtype);
    call.set_elements(elements);
    call.add_mesh_axes(kAxis);
    return prices_.calls_size() - 1;
  }
  absl::Status Price() {
    ASSIGN_OR_RETURN(seconds_, host_.Price(prices_));
    return absl::OkStatus();
  }
  double operator[](int index) const { return seconds_.seconds(index); }

  TypeProto::DType gathered() const { return request_.message().precision().parameters(); }
  TypeProto::DType reduced() const { return request_.message().precision().reduction(); }

 private:
  const Request& request_;
  Host& host_;
  PriceCollectives prices_;
  Prices seconds_;
};

// The times in which a unit's parameters are gathered, and its gradients reduced.
struct LinkTimes {
  double gather = 0, reduction = 0;
};

absl::StatusOr<std::vector<std::vector<LinkTimes>>> LinkTimesOf(const Request& request,
                                                                const std::vector<Unit>& units,
                                                                Host& host) {
  using Collective = ProgramProto::Collective;
  constexpr int64_t kStored = sizeof(float);  // parameters are stored in f32
  Collectives collectives(request, host);
  std::vector<std::vector<std::pair<std::vector<int>, std::vector<int>>>> calls(units.size());
  for (size_t i = 0; i < units.size(); ++i) {
    for (const Storage storage : kStorages) {
      auto& [gathers, reductions] = calls[i].emplace_back();
      for (const int64_t bytes : BytesOfGathers(units[i], storage)) {
        const bool replicated = storage == Storage::kReplicated;
        if (!replicated) {
          gathers.push_back(collectives.Add(Collective::ALL_GATHER, collectives.gathered(),
                                            bytes / kStored));
        }
        reductions.push_back(
            collectives.Add(replicated ? Collective::ALL_REDUCE : Collective::REDUCE_SCATTER,
                            collectives.reduced(), bytes / kStored));
      }
    }
  }
  RETURN_IF_ERROR(collectives.Price());
  std::vector<std::vector<LinkTimes>> times(units.size());
  for (size_t i = 0; i < units.size(); ++i) {
    for (const auto& [gathers, reductions] : calls[i]) {
      LinkTimes& of_storage = times[i].emplace_back();
      for (const int call : gathers) of_storage.gather += collectives[call];
      for (const int call : reductions) of_storage.reduction += collectives[call];
    }
  }
  return times;
}

// Lowers a corner. Its candidate is null if its Plan cannot be run.
absl::StatusOr<Corner> LowerCorner(const std::vector<Unit>& units, Mode mode,
                                   const Settings& settings, int blocks, int64_t micro_batches,
                                   Candidates& candidates) {
  std::vector<Mode> modes;
  for (const Unit& unit : units) {
    Mode of_unit = mode;
    if (!CanBe(unit, mode.storage)) of_unit.storage = Storage::kSharded;
    of_unit.recompute = mode.recompute && unit.block >= 0;
    modes.push_back(of_unit);
  }
  Corner corner = {.mode = mode};
  const absl::StatusOr<const Candidate*> lowered =
      candidates.Lower(modes, settings, /*sections=*/true);
  if (absl::IsInvalidArgument(lowered.status())) return corner;
  RETURN_IF_ERROR(lowered.status());
  corner.candidate = *lowered;
  corner.work = WorkOf(*corner.candidate, blocks, micro_batches);
  return corner;
}

const Corner* Find(absl::Span<const Corner> corners, Storage storage, bool recompute) {
  for (const Corner& corner : corners) {
    if (corner.mode.storage == storage && corner.mode.recompute == recompute) return &corner;
  }
  return nullptr;
}

// Makes alternatives from corners.
class Maker {
 public:
  Maker(const std::vector<Unit>& units, std::vector<Corner> corners, int64_t ranks,
        int64_t micro_batches)
      : units_(units), corners_(std::move(corners)), ranks_(ranks), micro_batches_(micro_batches) {}

  void Make(const std::vector<std::vector<LinkTimes>>& link, StepModel& made) const {
    for (size_t i = 0; i < units_.size(); ++i) {
      std::vector<search::Alternative>& alternatives = made.problem.units.emplace_back();
      std::vector<Mode>& modes = made.modes.emplace_back();
      for (const Corner& corner : corners_) {
        if (!CanBe(units_[i], corner.mode.storage)) continue;
        if (corner.mode.recompute && units_[i].block < 0) continue;
        const LinkTimes& times = link[i][static_cast<size_t>(corner.mode.storage)];
        alternatives.push_back(AlternativeOf(i, corner, times));
        modes.push_back(corner.mode);
      }
    }
    const Work& tail = corners_[0].work.back();
    made.problem.units.push_back({{.forward_ps = Picoseconds(tail.forward_seconds),
                                   .backward_ps = Picoseconds(tail.backward_seconds),
                                   .held_bytes = std::max<int64_t>(0, tail.kept_bytes),
                                   .growth_bytes = -std::max<int64_t>(0, tail.kept_bytes)}});
    made.modes.emplace_back(1);
    SetSurges(made);
  }

 private:
  // Returns the alternative without its surge.
  search::Alternative AlternativeOf(size_t i, const Corner& corner, const LinkTimes& times) const {
    const Unit& unit = units_[i];
    // Parameters outside of blocks are two slots, but the second is a unit of its own. A block whose
    // parameters are in two units computes with the first.
    const bool first = i == 0 || units_[i - 1].block != unit.block;
    const Work work = first ? corner.work[unit.block + 1] : Work();
    // What is kept does not depend on the storage. Where parameters stay, kept activations cannot
    // be told from them.
    const Corner* const replicated = Find(corners_, Storage::kReplicated, corner.mode.recompute);
    const int64_t kept =
        first ? std::max<int64_t>(0, (replicated == nullptr ? corner : *replicated)
                                         .work[unit.block + 1].kept_bytes)
              : 0;
    search::Alternative made;
    made.forward_ps = Picoseconds(work.forward_seconds);
    made.backward_ps = Picoseconds(work.backward_seconds);
    const Storage storage = corner.mode.storage;
    int64_t gradients = unit.bytes;
    made.held_bytes = unit.state_bytes + kept;
    made.reduction_ps = Picoseconds(times.reduction);
    if (storage == Storage::kReplicated) {
      made.reduction_ps /= micro_batches_;  // reduced once, after the last micro-batch
    } else {
      gradients = (unit.bytes + ranks_ - 1) / ranks_;
      made.held_bytes = (unit.state_bytes + ranks_ - 1) / ranks_ + kept;
      made.forward_gather_ps = Picoseconds(times.gather);
      // Parameters outside of blocks are used by the first and the last operators, and stay.
      const bool once =
          storage == Storage::kOnce || (storage == Storage::kSharded && unit.block < 0);
      if (!once) made.backward_gather_ps = made.forward_gather_ps;
      if (once) made.held_bytes += unit.bytes;
      if (once) made.growth_bytes -= unit.block < 0 ? 0 : unit.bytes;
    }
    // Gradients that are added up are there from the first micro-batch on.
    (micro_batches_ > 1 ? made.held_bytes : made.growth_bytes) += gradients;
    made.growth_bytes -= kept;
    return made;
  }

  // Sets the surge of each alternative to what its corner needs beyond the rest.
  void SetSurges(StepModel& made) const {
    for (const Corner& corner : corners_) {
      std::vector<Mode> modes;
      for (size_t i = 0; i < units_.size(); ++i) {
        Mode mode = corner.mode;
        if (!CanBe(units_[i], mode.storage)) mode.storage = Storage::kSharded;
        mode.recompute = mode.recompute && units_[i].block >= 0;
        modes.push_back(mode);
      }
      const std::vector<int> choices = made.ChoicesOf(modes);
      int64_t in_use = 0;
      for (size_t i = 0; i < made.problem.units.size(); ++i) {
        in_use += made.problem.units[i][choices[i]].held_bytes;
      }
      for (size_t i = made.problem.units.size(); i-- > 0;) {
        search::Alternative& alternative = made.problem.units[i][choices[i]];
        const bool tail = i == units_.size();
        const bool first = !tail && (i == 0 || units_[i - 1].block != units_[i].block);
        const size_t slot = tail ? corner.work.size() - 1 : units_[i].block + 1;
        const bool exact = tail || (modes[i].storage == corner.mode.storage && first);
        if (exact && (!tail || &corner == &corners_[0])) {
          alternative.surge_bytes =
              std::max<int64_t>(0, corner.work[slot].backward_peak_bytes - in_use);
        }
        in_use += alternative.growth_bytes;
      }
    }
  }

  const std::vector<Unit>& units_;
  const std::vector<Corner> corners_;
  const int64_t ranks_, micro_batches_;
};

}  // namespace

std::vector<Mode> StepModel::ModesOf(const std::vector<int>& choices) const {
  std::vector<Mode> chosen;
  for (size_t i = 0; i + 1 < modes.size(); ++i) chosen.push_back(modes[i][choices[i]]);
  return chosen;
}

std::vector<int> StepModel::ChoicesOf(const std::vector<Mode>& wanted) const {
  std::vector<int> choices;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto found = absl::c_find(modes[i], wanted[i]);
    choices.push_back(found == modes[i].end() ? 0 : static_cast<int>(found - modes[i].begin()));
  }
  choices.push_back(0);
  return choices;
}

absl::StatusOr<StepModel> MakeStepModel(const Request& request, const ModelInfo& model,
                                        const std::vector<Unit>& units, const Settings& settings,
                                        bool recomputes, Host& host, Candidates& candidates) {
  const int64_t micro_batches = std::max<int64_t>(
      1, settings.micro_batches > 0 ? settings.micro_batches : request.micro_batches());
  const int blocks = static_cast<int>(model.blocks.size());
  std::vector<Corner> corners;
  for (const bool recompute : {false, true}) {
    if (recompute && !recomputes) continue;
    for (const Storage storage : kStorages) {
      if (!absl::c_any_of(units, [&](const Unit& unit) { return CanBe(unit, storage); })) continue;
      ASSIGN_OR_RETURN(Corner corner, LowerCorner(units, {storage, recompute}, settings, blocks,
                                                  micro_batches, candidates));
      if (corner.candidate != nullptr) corners.push_back(std::move(corner));
      if (host.cancelled() && !corners.empty()) break;
    }
  }
  // Units that cannot be in a mode are sharded there.
  if (Find(corners, Storage::kSharded, false) == nullptr) {
    ASSIGN_OR_RETURN(const StepCost cost,
                     host.Lower(PlanOf(model, units, std::vector<Mode>(units.size()), settings)));
    return absl::InvalidArgumentError("no parameter of this model can be sharded");
  }
  ASSIGN_OR_RETURN(const auto link, LinkTimesOf(request, units, host));
  StepModel made;
  made.settings = settings;
  Maker(units, std::move(corners), request.ranks(), micro_batches).Make(link, made);
  return made;
}

}  // namespace tessera::strategy::osdp
