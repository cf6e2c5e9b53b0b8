#include "tools/plan/figures.h"

namespace tessera {
namespace {

constexpr double kSecondsPerDay = 24 * 60 * 60;

}  // namespace

double Figures::DaysFor(double units) const { return units / units_per_second / kSecondsPerDay; }

Figures FiguresOf(const Cell& cell) {
  const RunConfig& config = cell.configured->config;
  Figures figures;
  figures.label = cell.request.label;
  figures.ranks = cell.request.ranks;
  figures.notes = cell.notes;
  figures.batch = config.batch();
  figures.unit = cell.configured->unit();
  figures.micro_batches = config.micro_batches();
  figures.recompute = config.recompute();
  figures.cost = cell.prepared.estimated;
  const double seconds = figures.cost.step_seconds();
  figures.units_per_second = static_cast<double>(config.batch() * figures.unit.per_row) / seconds;
  figures.mfu = EstimatedMfu(*cell.configured, cell.prepared);
  figures.peak_bytes = cell.peak_bytes();
  figures.limit_bytes = cell.memory.bytes;
  figures.limit_is_set = cell.configured->memory_bound.bytes > 0;
  figures.least = cell.least;
  figures.explanation = cell.prepared.explanation;
  for (const StepCost::Collective& collective : figures.cost.collectives()) {
    figures.sent_bytes += collective.bytes();
  }
  return figures;
}

Figures FailedFigures(const CellRequest& request, const absl::Status& status) {
  Figures figures;
  figures.label = request.label;
  figures.ranks = request.ranks;
  figures.fault = std::string(status.message());
  return figures;
}

}  // namespace tessera
