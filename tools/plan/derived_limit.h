// The memory limit of a request that is to lie between those before it.
#ifndef TESSERA_TOOLS_PLAN_DERIVED_LIMIT_H_
#define TESSERA_TOOLS_PLAN_DERIVED_LIMIT_H_

#include <map>
#include <string>
#include <vector>

#include "tools/plan/cell.h"
#include "tools/strategy_entry/default_strategies.h"

namespace tessera {

// Collects peaks in the order of planning. Not thread-safe.
class DerivedLimits {
 public:
  void Add(const Cell& cell);

  // Returns the request with its own limit, if `limit_between` says that it has one and the run has
  // none; `notes` receives how it was derived. A device of --cluster that has less is the limit.
  CellRequest WithLimit(CellRequest request, std::vector<std::string>* notes) const;

 private:
  struct Planned {
    std::vector<PlannedPeak> peaks;
    MemoryBound bound;  // of the run
  };

  std::map<int, Planned> by_ranks_;
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_PLAN_DERIVED_LIMIT_H_
