#include "tools/plan/testing/small_cells.h"

#include <utility>

#include "core/status/check.h"
#include "models/gpt/gpt.h"

namespace tessera {

CellRequest SmallRequest(const std::string& strategy, int ranks,
                         const std::vector<std::string>& flags) {
  std::vector<std::string> all = {
      "--plan_only",
      "--data=synthetic",
      "--sample_tokens=0",
      "--threads=1",
      "--cluster=h100",
      "--sequence=16",
      "--batch=8",
      "--kernels=default",
      "--set=model.layers=2,model.heads=2,model.channels=16,model.vocabulary=64,model.context=16",
      "--strategy=" + strategy};
  all.insert(all.end(), flags.begin(), flags.end());
  absl::StatusOr<CommandLine> line = ParseCommandLine(all, GptDefinition());
  TESSERA_CHECK(line.ok());
  return {strategy, *std::move(line), ranks};
}

Cell SmallCell(const std::string& strategy, int ranks, const std::vector<std::string>& flags) {
  absl::StatusOr<Cell> cell = PlanCell(SmallRequest(strategy, ranks, flags), GptDefinition());
  TESSERA_CHECK(cell.ok());
  return *std::move(cell);
}

}  // namespace tessera
