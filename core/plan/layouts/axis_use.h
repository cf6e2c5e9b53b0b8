// How an operator is computed along each axis of a mesh, and its text in a Plan.
#ifndef TESSERA_CORE_PLAN_LAYOUTS_AXIS_USE_H_
#define TESSERA_CORE_PLAN_LAYOUTS_AXIS_USE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/layout/layout.h"
#include "core/layout/mesh.h"

namespace tessera {

// How an operator is computed along one axis.
struct AxisUse {
  enum class Kind : uint8_t {
    kBroadcast,  // every rank reads and computes all of it
    kSigned,     // as `signature` says
    kFlat,       // on this rank's elements of flat groups; other values are B
  };
  Kind kind = Kind::kBroadcast;
  // The layouts of the operands. Set for all kinds once the use is chosen; flat values are B in it.
  Signature signature;
  // Whether the units in `signature` are the smallest ones; values then arrive in multiples of
  // them.
  bool open_units = false;

  // Returns the use with B for all inputs and outputs of `op`.
  static AxisUse Broadcast(const Op& op);
  // Returns the use of kind kFlat.
  static AxisUse Flat(const Op& op);
  // Returns the use with this signature; of kind kBroadcast if the signature is B everywhere.
  static AxisUse By(Signature signature);

  // Returns text like "B", "S(0), B -> S(0)" or "flat".
  std::string ToString() const;
};

// By axis; nullopt for an axis that a Plan leaves open.
using AxisUses = std::vector<std::optional<AxisUse>>;

// Parses text like "data: S(0), B -> S(0); model: B", which has one clause for each axis that is
// decided, in any order. InvalidArgument names the clause that is wrong. The signatures of kinds
// other than kSigned are empty.
absl::StatusOr<AxisUses> ParseAxisUses(absl::string_view text, const Mesh& mesh);

// Returns the text of a use along all axes.
std::string AxisUsesToString(absl::Span<const AxisUse> uses, const Mesh& mesh);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_LAYOUTS_AXIS_USE_H_
