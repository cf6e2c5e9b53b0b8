#include "tools/plan/fit.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

double StepSeconds(const Cell& cell) { return cell.prepared.estimated.step_seconds(); }

// Returns whether `a` is the better choice: it fits and is faster, or it needs less memory if
// neither fits.
bool IsBetter(const Cell& a, const Cell& b) {
  if (a.fits() != b.fits()) return a.fits();
  return a.fits() ? StepSeconds(a) < StepSeconds(b) : a.peak_bytes() < b.peak_bytes();
}

// Finds the fewest micro-batches that fit. The peak is about c + a / m for m micro-batches.
class MicroBatchSearch {
 public:
  MicroBatchSearch(const CellRequest& request, const ModelDefinition& model,
                   const StopsSearch& stops)
      : request_(request), model_(model), stops_(stops) {}

  // Returns the best Cell, which may not fit.
  absl::StatusOr<Cell> Run() {
    ASSIGN_OR_RETURN(Cell first, PlanCell(request_, model_));
    const RunConfig& config = first.configured->config;
    counts_ = MicroBatchesToTry(config.batch(), config.micro_batches(), request_.ranks);
    best_ = std::move(first);
    // No number of micro-batches makes the state smaller.
    const bool is_open = !SetsField(request_.line, "micro_batches") && !best_->fits() &&
                         best_->prepared.compiled.state_bytes <= best_->memory.bytes;
    if (is_open && counts_.size() > 1) Search();
    return *std::move(best_);
  }

 private:
  // Plans the step in counts_[i] micro-batches. Returns whether it fits.
  absl::StatusOr<bool> Try(size_t i) {
    ASSIGN_OR_RETURN(
        Cell cell,
        PlanCell(WithField(request_, "micro_batches", absl::StrCat(counts_[i])), model_));
    peaks_.push_back({static_cast<double>(counts_[i]), static_cast<double>(cell.peak_bytes())});
    const bool fits = cell.fits();
    if (IsBetter(cell, *best_)) best_ = std::move(cell);
    return fits;
  }

  // Returns the index of the fewest micro-batches that may fit, by the two last peaks.
  size_t Guess() const {
    const auto& [m0, p0] = peaks_[peaks_.size() - 2];
    const auto& [m1, p1] = peaks_.back();
    const double a = (p0 - p1) / (1 / m0 - 1 / m1);
    const double c = p1 - a / m1;
    const double limit = static_cast<double>(best_->memory.bytes);
    if (!(a > 0) || c >= limit) return counts_.size() - 1;
    const auto found = absl::c_lower_bound(counts_, a / (limit - c), [](int64_t count, double least) {
      return static_cast<double>(count) < least;
    });
    return std::min(static_cast<size_t>(found - counts_.begin()), counts_.size() - 1);
  }

  void Search() {
    peaks_ = {{static_cast<double>(counts_[0]), static_cast<double>(best_->peak_bytes())}};
    size_t too_few = 0;          // counts_[too_few] does not fit
    size_t fit = counts_.size();  // counts_[fit] fits, if there is one
    size_t next = 1;
    while (fit - too_few > 1 && !stops_()) {
      const absl::StatusOr<bool> fits = Try(next);
      if (!fits.ok()) return;  // a Plan states its micro-batches, or cannot have so many
      (*fits ? fit : too_few) = next;
      if (*fits) {
        next = too_few + (fit - too_few) / 2;
      } else {
        next = std::clamp(Guess(), too_few + 1, std::max(fit, too_few + 2) - 1);
      }
    }
  }

  const CellRequest& request_;
  const ModelDefinition& model_;
  const StopsSearch& stops_;
  std::vector<int64_t> counts_;
  std::vector<std::pair<double, double>> peaks_;  // micro-batches and bytes, as they were tried
  std::optional<Cell> best_;
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
  const bool may_recompute = !SetsField(request.line, "recompute") &&
                             best.configured->config.recompute() == "none";
  if (!may_recompute || stops()) return best;
  // A step that fits in one micro-batch, with nothing computed again, has nothing to save.
  if (best.fits() && best.configured->config.micro_batches() == 1) return best;
  absl::StatusOr<Cell> recomputing =
      MicroBatchSearch(WithField(request, "recompute", "block"), model, stops).Run();
  if (!recomputing.ok()) return best;  // a model without blocks
  return IsBetter(*recomputing, best) ? *std::move(recomputing) : std::move(best);
}

}  // namespace tessera
