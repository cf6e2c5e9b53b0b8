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
  // Computation in one micro-batch, and the same with the waits between its operators.
  double forward_seconds = 0, backward_seconds = 0;
  double forward_span = 0, backward_span = 0;
  int64_t kept_bytes = 0;           // from the forward pass for the backward pass
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
  bool began = false;
  for (const LoweredPlans::Section& section : candidate.sections) {
    // Constants of the backward pass may be made before the forward pass.
    began = began || section.block() >= 0;
    if (section.phase() == GraphProto::UPDATE ||
        (!began && section.phase() == GraphProto::BACKWARD)) {
      continue;
    }
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
    const double span = (section.end_seconds() - section.begin_seconds()) / micro_batches;
    if (forward) {
      of_slot.forward_seconds += section.computation_seconds() / micro_batches;
      of_slot.forward_span += span;
      if (first_forward && in_use >= 0) of_slot.kept_bytes += section.end_bytes() - in_use;
      in_use = section.end_bytes();
      continue;
    }
    of_slot.backward_seconds += section.computation_seconds() / micro_batches;
    of_slot.backward_span += span;
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
          gathers.push_back(
              collectives.Add(Collective::ALL_GATHER, collectives.gathered(), bytes / kStored));
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
  Corner corner = {.mode = mode};
  const absl::StatusOr<const Candidate*> lowered =
      candidates.Lower(ModesOfCorner(units, mode), settings, /*sections=*/true);
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

// Returns what an alternative becomes by the change from one alternative to another.
search::Alternative ChangedAs(search::Alternative changed, const search::Alternative& from,
                              const search::Alternative& to) {
  changed.forward_ps += to.forward_ps - from.forward_ps;
  changed.backward_ps += to.backward_ps - from.backward_ps;
  changed.held_bytes = std::max<int64_t>(0, changed.held_bytes + to.held_bytes - from.held_bytes);
  changed.growth_bytes += to.growth_bytes - from.growth_bytes;
  changed.surge_bytes =
      std::max<int64_t>(0, changed.surge_bytes + to.surge_bytes - from.surge_bytes);
  return changed;
}

// Makes alternatives from corners.
class Maker {
 public:
  Maker(const std::vector<Unit>& units, std::vector<Corner> corners, int64_t ranks, bool casts)
      : units_(units), corners_(std::move(corners)), ranks_(ranks), casts_(casts) {
    for (const Unit& unit : units_) bytes_ += unit.bytes;
    DivideCasts();
  }

  void Make(const std::vector<std::vector<LinkTimes>>& link, StepModel& made) const {
    for (size_t i = 0; i < units_.size(); ++i) {
      made.problem.units.emplace_back();
      made.modes.emplace_back();
      made.parts.emplace_back();
      for (const Corner& corner : corners_) {
        if (!CanBe(units_[i], corner.mode.storage)) continue;
        if (corner.mode.recompute && units_[i].block < 0) continue;
        Add(i, corner, link[i][static_cast<size_t>(corner.mode.storage)], made);
      }
    }
    const Work& tail = corners_[0].work.back();
    const int64_t kept = std::max<int64_t>(0, tail.kept_bytes);
    made.problem.units.push_back({{.forward_ps = Picoseconds(tail.forward_seconds),
                                   .backward_ps = Picoseconds(tail.backward_seconds),
                                   .held_bytes = kept,
                                   .growth_bytes = -kept}});
    made.modes.emplace_back(1);
    made.parts.push_back({{.kept = kept}});
    SetSurges(made);
    for (size_t i = 0; i < units_.size(); ++i) AddRecomputed(i, made);
  }

 private:
  // Parameters that are not split are cast before the first block is computed, all of them. Each
  // unit gets its share of that time.
  void DivideCasts() {
    const Corner* const sharded = Find(corners_, Storage::kSharded, false);
    if (!casts_ || sharded == nullptr) return;
    for (Corner& corner : corners_) {
      if (corner.mode.storage != Storage::kReplicated) continue;
      double& root = corner.work[0].forward_seconds;
      const double casts = std::max(0.0, root - sharded->work[0].forward_seconds);
      root -= casts;
      for (size_t i = 0; i < units_.size(); ++i) {
        corner.work[units_[i].block + 1].forward_seconds +=
            casts * static_cast<double>(units_[i].bytes) / static_cast<double>(bytes_);
      }
    }
  }

  // Whether the work of a block is that of this unit: a block whose parameters are in two units, as
  // those of two dtypes are, computes with the first.
  bool Computes(size_t i) const { return i == 0 || units_[i - 1].block != units_[i].block; }

  // Adds an alternative without its surge.
  void Add(size_t i, const Corner& corner, const LinkTimes& times, StepModel& made) const {
    const Unit& unit = units_[i];
    const Storage storage = corner.mode.storage;
    const size_t slot = unit.block + 1;
    const Work work = Computes(i) ? corner.work[slot] : Work();
    StepModel::Parts parts;
    // Where parameters stay gathered, kept activations cannot be told from them.
    const Corner* const plain =
        Find(corners_, corner.mode.recompute ? Storage::kSharded : Storage::kReplicated,
             corner.mode.recompute);
    if (Computes(i)) {
      parts.kept = std::max<int64_t>(0, (plain == nullptr ? corner : *plain).work[slot].kept_bytes);
    }
    const bool replicated = storage == Storage::kReplicated;
    // Parameters outside of blocks are used by the first and the last operators, and stay.
    const bool once = storage == Storage::kOnce || (storage == Storage::kSharded && unit.block < 0);
    const auto share = [&](int64_t bytes) {
      return replicated ? bytes : (bytes + ranks_ - 1) / ranks_;
    };
    parts.gradients = share(unit.bytes);
    const std::vector<int64_t> gathers = BytesOfGathers(unit, storage);
    parts.fixed_surge =
        replicated ? 0 : (once ? 1 : 2) * *std::max_element(gathers.begin(), gathers.end());
    search::Alternative alternative;
    // A unit of several gathers also waits for them between its operators, even if the link has
    // time for all.
    const auto with_waits = [&](double seconds, double span, double link) {
      return gathers.size() == 1 ? seconds
                                 : seconds + std::max(0.0, span - std::max(seconds, link));
    };
    alternative.forward_ps =
        Picoseconds(with_waits(work.forward_seconds, work.forward_span, times.gather));
    alternative.backward_ps = Picoseconds(
        with_waits(work.backward_seconds, work.backward_span, times.gather + times.reduction));
    alternative.held_bytes = share(unit.state_bytes) + parts.kept;
    alternative.growth_bytes = -parts.kept;
    // Full gradients are reduced once, after the last micro-batch.
    alternative.reduction_ps = Picoseconds(times.reduction) / (replicated ? made.micro_batches : 1);
    if (!replicated) alternative.forward_gather_ps = Picoseconds(times.gather);
    if (!replicated && !once) alternative.backward_gather_ps = alternative.forward_gather_ps;
    // Parameters in the dtype in which they are used, from the forward to the backward pass.
    if (once || (replicated && casts_)) {
      const int64_t used = casts_ ? unit.bytes / 2 : unit.bytes;
      alternative.held_bytes += used;
      if (unit.block >= 0) alternative.growth_bytes -= used;
    }
    // Gradients that are added up are there from the first micro-batch on.
    (made.micro_batches > 1 ? alternative.held_bytes : alternative.growth_bytes) += parts.gradients;
    made.problem.units[i].push_back(alternative);
    made.modes[i].push_back(corner.mode);
    made.parts[i].push_back(parts);
  }

  // Adds the alternatives in which a unit is recomputed that have no corner.
  void AddRecomputed(size_t i, StepModel& made) const {
    std::vector<search::Alternative>& alternatives = made.problem.units[i];
    std::vector<Mode>& modes = made.modes[i];
    const auto from = absl::c_find(modes, Mode{Storage::kSharded, false}) - modes.begin();
    const auto to = absl::c_find(modes, Mode{Storage::kSharded, true}) - modes.begin();
    const size_t known = modes.size();
    if (to == static_cast<int64_t>(known)) return;
    for (size_t k = 0; k < known; ++k) {
      if (modes[k].recompute || modes[k].storage == Storage::kSharded) continue;
      alternatives.push_back(ChangedAs(alternatives[k], alternatives[from], alternatives[to]));
      StepModel::Parts parts = made.parts[i][k];
      parts.kept = made.parts[i][to].kept;
      made.parts[i].push_back(parts);
      modes.push_back({modes[k].storage, true});
    }
  }

  // Sets the surge of each alternative to what its corner needs beyond the rest.
  void SetSurges(StepModel& made) const {
    for (const Corner& corner : corners_) {
      const std::vector<Mode> modes = ModesOfCorner(units_, corner.mode);
      const std::vector<int> choices = made.ChoicesOf(modes);
      int64_t in_use = 0;
      for (size_t i = 0; i < choices.size(); ++i) {
        in_use += made.problem.units[i][choices[i]].held_bytes;
      }
      for (size_t i = choices.size(); i-- > 0;) {
        search::Alternative& alternative = made.problem.units[i][choices[i]];
        const bool tail = i == units_.size();
        const bool own = tail ? corner.mode == Mode{Storage::kSharded, false}
                              : modes[i].storage == corner.mode.storage && Computes(i);
        if (own) {
          const Work& work = tail ? corner.work.back() : corner.work[units_[i].block + 1];
          alternative.surge_bytes = std::max<int64_t>(0, work.backward_peak_bytes - in_use);
        }
        in_use += alternative.growth_bytes;
      }
    }
  }

  const std::vector<Unit>& units_;
  std::vector<Corner> corners_;
  const int64_t ranks_;
  const bool casts_;  // parameters are used in 16 bits
  int64_t bytes_ = 0;
};

}  // namespace

std::vector<Mode> ModesOfCorner(const std::vector<Unit>& units, Mode mode) {
  std::vector<Mode> modes;
  for (const Unit& unit : units) {
    const Storage storage = CanBe(unit, mode.storage) ? mode.storage : Storage::kSharded;
    modes.push_back({storage, mode.recompute && unit.block >= 0});
  }
  return modes;
}

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

search::Problem StepModel::ScaledTo(int64_t count) const {
  search::Problem scaled = problem;
  const auto scale = [&](int64_t of_one) { return of_one * micro_batches / count; };
  for (size_t i = 0; i < scaled.units.size(); ++i) {
    for (size_t k = 0; k < scaled.units[i].size(); ++k) {
      search::Alternative& alternative = scaled.units[i][k];
      const Parts& of = parts[i][k];
      alternative.forward_ps = scale(alternative.forward_ps);
      alternative.backward_ps = scale(alternative.backward_ps);
      if (modes[i][k].storage == Storage::kReplicated) {
        alternative.reduction_ps = scale(alternative.reduction_ps);
      }
      const int64_t freed = of.kept - scale(of.kept);
      alternative.held_bytes -= freed;
      alternative.growth_bytes += freed;
      if (micro_batches == 1 && count > 1) {
        alternative.held_bytes += of.gradients;
        alternative.growth_bytes -= of.gradients;
      }
      const int64_t fixed = std::min(of.fixed_surge, alternative.surge_bytes);
      alternative.surge_bytes = fixed + scale(alternative.surge_bytes - fixed);
    }
  }
  return scaled;
}

absl::StatusOr<StepModel> MakeStepModel(const Request& request, const ModelInfo& model,
                                        const std::vector<Unit>& units, const Settings& settings,
                                        const Alternatives& kinds, Host& host,
                                        Candidates& candidates) {
  StepModel made;
  made.settings = settings;
  made.micro_batches = std::max<int64_t>(
      1, settings.micro_batches > 0 ? settings.micro_batches : request.micro_batches());
  std::vector<Mode> modes;
  for (const Storage storage : kStorages) {
    if (storage == Storage::kSlices && !kinds.slices) continue;
    if (absl::c_any_of(units, [&](const Unit& unit) { return CanBe(unit, storage); })) {
      modes.push_back({storage, false});
    }
  }
  if (kinds.recomputed) modes.push_back({Storage::kSharded, true});
  std::vector<Corner> corners;
  for (const Mode mode : modes) {
    ASSIGN_OR_RETURN(Corner corner,
                     LowerCorner(units, mode, settings, static_cast<int>(model.blocks.size()),
                                 made.micro_batches, candidates));
    if (corner.candidate != nullptr) corners.push_back(std::move(corner));
  }
  // Units that cannot be in a mode are sharded there.
  if (Find(corners, Storage::kSharded, false) == nullptr) {
    ASSIGN_OR_RETURN(const StepCost cost,
                     host.Lower(PlanOf(model, units, ModesOfCorner(units, Mode()), settings)));
    return absl::InvalidArgumentError("no parameter of this model can be sharded");
  }
  ASSIGN_OR_RETURN(const auto link, LinkTimesOf(request, units, host));
  const TypeProto::DType used = request.message().precision().parameters();
  const bool casts = used == TypeProto::BF16 || used == TypeProto::F16;
  Maker(units, std::move(corners), request.ranks(), casts).Make(link, made);
  return made;
}

}  // namespace tessera::strategy::osdp
