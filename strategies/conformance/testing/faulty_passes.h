// Passes with a fault each, of the plugin `faulty`.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_TESTING_FAULTY_PASSES_H_
#define TESSERA_STRATEGIES_CONFORMANCE_TESTING_FAULTY_PASSES_H_

#include <vector>

#include "strategies/api/kit.h"

namespace tessera::strategy {

struct FaultyPass {
  const char* name;
  void (*run)(ProgramProto& program);
};

const std::vector<FaultyPass>& FaultyPasses();

}  // namespace tessera::strategy

#endif  // TESSERA_STRATEGIES_CONFORMANCE_TESTING_FAULTY_PASSES_H_
