// Keeps the times of a run's kernels as prices for later plans.
#ifndef TESSERA_TOOLS_TRAIN_PRICE_KEEPER_H_
#define TESSERA_TOOLS_TRAIN_PRICE_KEEPER_H_

#include "absl/status/status.h"
#include "core/cost/prices/measured_prices.h"
#include "core/cost/step_time.h"
#include "core/ids/table.h"
#include "core/posix/load_of_others.h"
#include "core/program/program.h"
#include "tools/train/setup/configure.h"

namespace tessera {

// Every rank has one; rank 0's times are kept. Measures the machine's load from its construction
// on. Not thread-safe.
class PriceKeeper {
 public:
  // The run must outlive it.
  explicit PriceKeeper(const ConfiguredRun& configured) : configured_(configured) {}

  // Adds measurements.
  void Add(const MeasuredPrices& measured) { prices_.AddAll(measured); }
  // Adds the times of the instructions of a step.
  void AddStep(const Program& program, const Table<InstructionId, TimeSpan>& times);
  // Adds the prices to the file of this user, unless other processes were busy meanwhile or ranks
  // are threads, which share cores. Collective. A file that cannot be written is no error: the
  // prices are then not kept.
  absl::Status Keep();

 private:
  const ConfiguredRun& configured_;
  MeasuredPrices prices_;
  LoadOfOthers load_;
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_PRICE_KEEPER_H_
