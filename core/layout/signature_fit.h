// Fits an operator's signatures to the layouts in which its inputs arrive, along one axis of a mesh
// or over micro-batches.
//
// Every signature stays true if all of its units are multiplied by one number, so a split arrives
// in any multiple of the unit that a signature names.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_LAYOUT_SIGNATURE_FIT_H_
#define TESSERA_CORE_LAYOUT_SIGNATURE_FIT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "core/layout/layout.h"
#include "core/tensor/shape.h"

namespace tessera {

// The axis over which values are split.
struct SplitAxis {
  int64_t parts = 1;
  // Whether parts must be equal: micro-batches are, the parts of a mesh's ranks may be padded.
  bool even = true;
};

// An operator's use, as far as its layouts depend on it.
struct FittedUse {
  absl::Span<const Signature> signatures;
  absl::Span<const TensorType> inputs;
  absl::Span<const TensorType> outputs;
};

// How an operator is computed on an axis.
struct SignatureFit {
  Signature signature;         // with the units in which values arrive
  std::vector<bool> gathered;  // by input: it is split or partial, and is made B first
};

// Whether `actual` is `named` with its unit multiplied by `factor`, which is set if it is 0.
bool TakesFactor(const AxisLayout& named, const AxisLayout& actual, int64_t& factor);

// `signature` with all units multiplied by `factor`.
Signature WithUnits(Signature signature, int64_t factor);

// An input's layout on arrival, or nothing if it can be brought to any layout, as parameters are.
using Arriving = std::optional<AxisLayout>;

// The signature that takes what arrives, where a B may be split to an S. Of several, the first one
// with the most split outputs.
std::optional<Signature> BestSignature(const FittedUse& use, absl::Span<const Arriving> arriving,
                                       const SplitAxis& axis);

// The same, but if no signature takes what arrives, partial inputs are gathered, then split ones,
// as few as possible. `values` numbers the values that inputs are: one that is two inputs is
// gathered for both. Nothing if no input arrives split or partial, or only gathering all of them
// helps: then the operator is computed on B.
std::optional<SignatureFit> FitOrGather(const FittedUse& use, absl::Span<const Arriving> arriving,
                                        absl::Span<const int32_t> values, const SplitAxis& axis);

// The first signature without partial inputs that makes the outputs that are read in the splits
// `read`; other outputs may be anything.
std::optional<Signature> SignatureMaking(const FittedUse& use, absl::Span<const Arriving> read,
                                         const SplitAxis& axis);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_SIGNATURE_FIT_H_
