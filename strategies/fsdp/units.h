// Units: the groups of parameters that are gathered, used and freed together.
#ifndef TESSERA_STRATEGIES_FSDP_UNITS_H_
#define TESSERA_STRATEGIES_FSDP_UNITS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "strategies/api/kit.h"

namespace tessera::strategy {

struct Unit {
  std::vector<std::string> parameters;  // paths
  int64_t bytes = 0;
  bool root = false;  // parameters outside all blocks, used at both ends of a step
};

// How a model is divided into units.
struct UnitPolicy {
  enum class Kind { kBlock, kSize, kPattern };
  Kind kind = Kind::kBlock;
  int64_t max_bytes = 0;  // for kSize: blocks are joined while a unit has at most so many
  std::string pattern;    // for kPattern: scopes, one unit each ("blocks.*.mlp|blocks.*.attn")
};

// Returns the units of all parameters. The parameters of a unit have the same dtype and
// trainability, because they are stored as one array. InvalidArgument if a pattern matches nothing.
absl::StatusOr<std::vector<Unit>> DivideIntoUnits(const ModelInfo& model, const UnitPolicy& policy);

// Returns the path of the scope that contains `path` and matches the pattern; "" if there is none.
// In a pattern "*" stands for any characters within one part between dots, and "|" separates
// alternatives.
std::string ScopeThatMatches(const std::string& pattern, const std::string& path);

}  // namespace tessera::strategy

#endif  // TESSERA_STRATEGIES_FSDP_UNITS_H_
