// The redistributions that a Plan states, and those that a completed Plan lists.
#ifndef TESSERA_CORE_COMPILE_REDISTRIBUTION_CHOICES_H_
#define TESSERA_CORE_COMPILE_REDISTRIBUTION_CHOICES_H_

#include <string>

#include "absl/status/status.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// States the stage's redistributions to a finder on its mesh, from which nothing was found yet.
// InvalidArgument, in one line that names the redistribution, if one is not possible on that mesh
// or is stated twice.
absl::Status StateRedistributions(const Stage& stage, RedistributionFinder& finder);

// Returns bytes that are equal for two stages if they state the same redistributions.
std::string RedistributionKey(const Stage& stage);

// Replaces the stage's redistributions by those that Programs use.
void ListRedistributions(const RedistributionFinder& finder, Stage& stage);

}  // namespace tessera

#endif  // TESSERA_CORE_COMPILE_REDISTRIBUTION_CHOICES_H_
