// Small steps that are planned in tests.
#ifndef TESSERA_TOOLS_PLAN_TESTING_SMALL_CELLS_H_
#define TESSERA_TOOLS_PLAN_TESTING_SMALL_CELLS_H_

#include <string>
#include <vector>

#include "tools/plan/cell.h"

namespace tessera {

// Returns the request for a GPT of two blocks and some 4000 parameters, in a batch of 8 sequences
// of 16 tokens, by a strategy on so many ranks of H100s, with more flags of the training tool.
CellRequest SmallRequest(const std::string& strategy, int ranks,
                         const std::vector<std::string>& flags = {});

// Plans it. The test fails if that is not possible.
Cell SmallCell(const std::string& strategy, int ranks, const std::vector<std::string>& flags = {});

}  // namespace tessera

#endif  // TESSERA_TOOLS_PLAN_TESTING_SMALL_CELLS_H_
