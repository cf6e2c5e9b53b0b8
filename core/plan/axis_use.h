// How an operator is computed along each axis of a mesh, and its text in a Plan.
#ifndef TESSERA_CORE_PLAN_AXIS_USE_H_
#define TESSERA_CORE_PLAN_AXIS_USE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/layout/layout.h"
#include "core/layout/mesh.h"

namespace tessera {

// How an operator is computed along one axis.
struct AxisUse {
  enum class Kind : uint8_t {
    kBroadcast,  // every rank reads and makes all of it
    kSigned,     // by `signature`
    kFlat,       // on the elements of flat groups that a rank holds; other values are B
  };
  Kind kind = Kind::kBroadcast;
  // The layouts of all kinds, once the use is chosen; values that are flat are B in it.
  Signature signature;
  // The units in `signature` are the smallest; those in which values arrive are multiples.
  bool open_units = false;

  // B for all inputs and outputs.
  static AxisUse Broadcast(size_t inputs, size_t outputs);
  // By a signature; kBroadcast if it is B everywhere.
  static AxisUse By(Signature signature);

  // "B", "S(0), B -> S(0)", "flat"
  std::string ToString() const;
};

// By axis; nothing where a Plan leaves it open.
using AxisUses = std::vector<std::optional<AxisUse>>;

// "data: S(0), B -> S(0); model: B": one clause for each axis that is decided, in any order.
// InvalidArgument says which clause is wrong. The signatures of kinds other than kSigned are empty.
absl::StatusOr<AxisUses> ParseAxisUses(absl::string_view text, const Mesh& mesh);

// The text of a use along all axes.
std::string AxisUsesToString(absl::Span<const AxisUse> uses, const Mesh& mesh);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_AXIS_USE_H_
