// The layout of a tensor along one axis of a device mesh, or over the micro-batches of a step,
// which are a split in time instead of over devices.
#ifndef TESSERA_CORE_LAYOUT_LAYOUT_H_
#define TESSERA_CORE_LAYOUT_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor/shape.h"

namespace tessera {

// The layout of one tensor along one axis.
//   S(d, u)  split along dimension d in units of u elements;
//   B        broadcast: every member of the axis has all of it;
//   P        partial: the true value is the sum, maximum, log-sum-exp or minimum over the axis.
struct AxisLayout {
  enum class Kind : uint8_t { kBroadcast, kSplit, kPartial };
  enum class Reduction : uint8_t { kSum, kMax, kLogSumExp, kMin };

  Kind kind = Kind::kBroadcast;
  int dim = 0;                            // of a split
  int64_t unit = 1;                       // of a split, in elements
  Reduction reduction = Reduction::kSum;  // of a partial

  static AxisLayout Broadcast() { return {}; }
  static AxisLayout Split(int dim, int64_t unit = 1) { return {Kind::kSplit, dim, unit}; }
  static AxisLayout Partial(Reduction reduction = Reduction::kSum) {
    return {Kind::kPartial, 0, 1, reduction};
  }

  bool broadcast() const { return kind == Kind::kBroadcast; }
  bool split() const { return kind == Kind::kSplit; }
  bool partial() const { return kind == Kind::kPartial; }

  // Returns text like "B", "S(0)", "S(0, 128)", "P", "P(max)", "P(lse)" or "P(min)".
  std::string ToString() const;

  friend bool operator==(const AxisLayout& a, const AxisLayout& b) {
    if (a.kind != b.kind) return false;
    if (a.split()) return a.dim == b.dim && a.unit == b.unit;
    return !a.partial() || a.reduction == b.reduction;
  }
  friend bool operator!=(const AxisLayout& a, const AxisLayout& b) { return !(a == b); }
};

// One combination of layouts, along one axis, that an operator can compute: with no communication,
// unless it is computed in parts.
struct Signature {
  std::vector<AxisLayout> inputs;
  std::vector<AxisLayout> outputs;
  // Whether ranks communicate inside the operator, to complete what its parts compute.
  bool in_parts = false;

  // Returns text like "S(0), B -> S(0)".
  std::string ToString() const;
};

// The part of a global tensor that a device or a micro-batch holds.
struct Region {
  Shape start;   // in elements of the global tensor, per dimension
  Shape global;  // the global tensor's shape
  // The start of the micro-batch or slice that is split over devices. Empty: 0 in each dimension.
  Shape value_start = {};

  // Returns where a device's part starts in its micro-batch or slice.
  int64_t StartInValue(int dim) const {
    return start[dim] - (value_start.empty() ? 0 : value_start[dim]);
  }
};

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_LAYOUT_H_
