#include "tools/plan/fit.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/layout/mesh.h"
#include "core/status/status_macros.h"
#include "tools/train/setup/configure.h"

namespace tessera {
namespace {

double StepSeconds(const Cell& cell) { return cell.prepared.estimated.step_seconds(); }

// A step in so many micro-batches has all that a step in more of the same size has.
constexpr int64_t kProbedMicroBatches = 3;
// If nothing fits, micro-batches that save less than this share are not worth their time.
constexpr double kLeastGain = 0.02;

// Finds the fewest micro-batches that fit. A step in hundreds of them takes long to plan, so it is
// searched by probes: steps of few micro-batches of the same size, which need about as much memory.
// The peak is about c + a / m for m micro-batches.
class MicroBatchSearch {
 public:
  MicroBatchSearch(const CellRequest& request, const ModelDefinition& model,
                   const StopsSearch& stops)
      : request_(request), model_(model), stops_(stops) {}

  // Returns the Cell with the fewest micro-batches that fit, or else the request's own with the
  // least memory that was found.
  absl::StatusOr<Cell> Run() {
    ASSIGN_OR_RETURN(Cell first, PlanCell(request_, model_));
    if (first.fits()) return first;
    const RunConfig& config = first.configured->config;
    recompute_ = config.recompute();
    batch_ = config.batch();
    limit_ = first.memory.bytes;
    counts_ = MicroBatchesToTry(batch_, config.micro_batches(), request_.ranks);
    if (counts_.empty()) counts_ = {config.micro_batches()};
    probes_ = {{0, first.peak_bytes()}};
    // No number of micro-batches makes the state smaller.
    const bool is_open =
        !SetsField(request_.line, "micro_batches") && first.prepared.compiled.state_bytes <= limit_;
    if (is_open) {
      for (size_t next = Search(); next < counts_.size() && !stops_(); ++next) {
        absl::StatusOr<Cell> cell = PlanCell(WithCount(counts_[next], batch_), model_);
        if (!cell.ok() || cell->fits()) return cell;
      }
    }
    first.least = Least();
    return first;
  }

 private:
  struct Probe {
    size_t index;   // in counts_
    int64_t bytes;  // the peak
  };

  CellRequest WithCount(int64_t count, int64_t batch) const {
    return WithField(WithField(request_, "micro_batches", absl::StrCat(count)), "batch",
                     absl::StrCat(batch));
  }

  // Adds the probe of counts_[i]. Returns whether there is one.
  bool AddProbe(size_t i) {
    const int64_t count = std::min(counts_[i], kProbedMicroBatches);
    const absl::StatusOr<Cell> cell =
        PlanCell(WithCount(count, batch_ / counts_[i] * count), model_);
    if (cell.ok()) probes_.push_back({i, cell->peak_bytes()});
    return cell.ok();
  }

  // Returns the index of the fewest micro-batches that may fit, by the two last probes.
  size_t Guess() const {
    const Probe& a = probes_[probes_.size() - 2];
    const Probe& b = probes_.back();
    const auto inverse = [this](const Probe& probe) {
      return 1 / static_cast<double>(counts_[probe.index]);
    };
    const double slope = static_cast<double>(a.bytes - b.bytes) / (inverse(a) - inverse(b));
    const double rest = static_cast<double>(b.bytes) - slope * inverse(b);
    const double left = static_cast<double>(limit_) - rest;
    if (!(slope > 0) || left <= 0) return counts_.size() - 1;
    const auto found = absl::c_lower_bound(counts_, slope / left, [](int64_t count, double least) {
      return static_cast<double>(count) < least;
    });
    return std::min(static_cast<size_t>(found - counts_.begin()), counts_.size() - 1);
  }

  // Returns the index of the fewest micro-batches whose probe fits; the number of counts_ if none
  // does.
  size_t Search() {
    size_t too_few = 0, fit = counts_.size();
    size_t next = 1;
    while (fit - too_few > 1 && !stops_() && AddProbe(next)) {
      const bool fits = probes_.back().bytes <= limit_;
      (fits ? fit : too_few) = next;
      next = fits ? too_few + (fit - too_few) / 2
                  : std::clamp(Guess(), too_few + 1, std::max(fit, too_few + 2) - 1);
    }
    return fit;
  }

  // Returns the fewest micro-batches that need little more than the least.
  LeastMemory Least() const {
    const auto less = [](const Probe& a, const Probe& b) { return a.bytes < b.bytes; };
    const double least = static_cast<double>(absl::c_min_element(probes_, less)->bytes);
    Probe fewest = probes_.back();
    for (const Probe& probe : probes_) {
      const bool is_near = static_cast<double>(probe.bytes) <= (1 + kLeastGain) * least;
      if (is_near && probe.index <= fewest.index) fewest = probe;
    }
    return {fewest.bytes, counts_[fewest.index], recompute_};
  }

  const CellRequest& request_;
  const ModelDefinition& model_;
  const StopsSearch& stops_;
  std::vector<int64_t> counts_;
  int64_t batch_ = 0, limit_ = 0;
  std::string recompute_;
  std::vector<Probe> probes_;  // in the order in which they were made
};

}  // namespace

std::vector<int64_t> MicroBatchesToTry(int64_t batch, int64_t fewest, int ranks) {
  const int64_t most = std::max<int64_t>(fewest, batch / std::min<int64_t>(ranks, batch));
  std::vector<int64_t> counts;
  for (int64_t count = fewest; count <= most; ++count) {
    if (batch % count == 0) counts.push_back(count);
  }
  return counts;
}

absl::StatusOr<Cell> PlanFastestFit(const CellRequest& request, const ModelDefinition& model,
                                    const StopsSearch& stops) {
  ASSIGN_OR_RETURN(Cell best, MicroBatchSearch(request, model, stops).Run());
  const bool may_recompute =
      !SetsField(request.line, "recompute") && best.configured->config.recompute() == "none";
  // A step that fits as the command line has it has nothing to save.
  const bool fits_at_once =
      best.fits() && best.request.line.settings.size() == request.line.settings.size();
  if (!may_recompute || fits_at_once || stops()) return best;
  absl::StatusOr<Cell> recomputing =
      MicroBatchSearch(WithField(request, "recompute", "block"), model, stops).Run();
  if (!recomputing.ok()) return best;  // a model without blocks, or a Plan that states it
  if (recomputing->fits()) {
    return !best.fits() || StepSeconds(*recomputing) < StepSeconds(best) ? *std::move(recomputing)
                                                                         : std::move(best);
  }
  if (!best.fits() && recomputing->least->bytes < best.least->bytes) {
    best.least = recomputing->least;
  }
  return best;
}

absl::StatusOr<Cell> PlanFewestRanks(CellRequest request, const ModelDefinition& model,
                                     const StopsSearch& stops) {
  const auto plan = [&](int ranks) {
    request.ranks = ranks;
    return PlanFastestFit(request, model, stops);
  };
  // A step on the most ranks is the soonest planned, because it needs no micro-batches.
  absl::StatusOr<RunConfig> config = EffectiveRunConfig(request.line, model);
  RETURN_IF_ERROR(config.status());
  int most = 1;
  while (2 * int64_t{most} <= std::min<int64_t>(config->batch(), Mesh::kMaxRanks)) most *= 2;
  ASSIGN_OR_RETURN(Cell fewest, plan(most));
  if (!fewest.fits()) return fewest;
  int too_few = 0;  // ranks; on 0 nothing fits
  while (fewest.request.ranks > 1 && fewest.request.ranks > 2 * too_few && !stops()) {
    // The power of two in the middle.
    int ranks = fewest.request.ranks / 2;
    while (ranks > 1 &&
           int64_t{ranks} * ranks > int64_t{fewest.request.ranks} * std::max(1, too_few)) {
      ranks /= 2;
    }
    ranks = std::max(ranks, 2 * too_few);
    ASSIGN_OR_RETURN(Cell cell, plan(ranks));
    if (cell.fits()) {
      fewest = std::move(cell);
    } else {
      too_few = ranks;
    }
  }
  return fewest;
}

}  // namespace tessera
