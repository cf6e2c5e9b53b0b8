// Fits an operator's signatures to the layouts in which its inputs arrive, along one axis of a mesh
// or over micro-batches.
//
// A signature remains valid if all of its units are multiplied by one number. So an input may
// arrive split in any multiple of the unit that the signature names. It may also arrive in another
// unit, if the parts have the same elements: S(0) and S(0, 4) of 8 rows over 2 ranks.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_LAYOUT_SIGNATURE_FIT_H_
#define TESSERA_CORE_LAYOUT_SIGNATURE_FIT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "core/ids/id.h"
#include "core/layout/layout.h"
#include "core/tensor/shape.h"

namespace tessera {

struct Value;  // of a Graph

// The axis over which values are split: a mesh axis, or the micro-batches.
struct SplitAxis {
  int64_t parts = 1;
  // Whether parts must be equal. Micro-batches must; the parts of a mesh's ranks may be padded.
  bool even = true;
  // Whether an input is read in the unit in which it arrives: parts in time are. Ranks read it in
  // that of the signature, by which their parts of each micro-batch fit together, too.
  bool keeps_units = true;
};

// The part of an operator's use on which its layouts depend.
struct FittedUse {
  absl::Span<const Signature> signatures;
  absl::Span<const TensorType> inputs;
  absl::Span<const TensorType> outputs;
};

// The signature by which an operator is computed on an axis.
struct SignatureFit {
  Signature signature;         // with the units in which values arrive
  std::vector<bool> gathered;  // by input: it arrives split or partial, and is made B first
};

// Returns whether `actual` is `named` with its unit multiplied by `factor`. A factor of 0 is open:
// it is set to the one with which they match, so that the operands that are compared next must
// match with the same one.
bool MatchesWithUnitFactor(const AxisLayout& named, const AxisLayout& actual, int64_t& factor);

// Returns `signature` with all units multiplied by `factor`.
Signature WithUnits(Signature signature, int64_t factor);

// Returns whether an operator can be computed by `inner` on the parts that `outer`, its signature
// along an axis before, leaves. It cannot if `inner` splits one operand in units of another's, of
// which `outer` splits only one: if rows are split into halves, and each half into the rows of as
// many groups, the groups of the second half are others than those of the first.
bool FitsWithin(const Signature& inner, const Signature& outer);

// The layout in which an input arrives; nullopt if it can be brought to any layout, as parameters
// can.
using Arriving = std::optional<AxisLayout>;

// Returns the signature that accepts the arriving layouts, where a B may be split to an S. If there
// are several, the first one with the most split outputs.
std::optional<Signature> BestSignature(const FittedUse& use, absl::Span<const Arriving> arriving,
                                       const SplitAxis& axis);

// Like BestSignature(), but if no signature fits, as few inputs as possible are gathered: partial
// ones first, then split ones. `values` are the ids of the inputs; a value that is two inputs is
// gathered for both. Nullopt if no input arrives split or partial, or if all of them would have to
// be gathered: then the operator is computed on B.
std::optional<SignatureFit> FitOrGather(const FittedUse& use, absl::Span<const Arriving> arriving,
                                        absl::Span<const Id<Value>> values, const SplitAxis& axis);

// Returns the first signature without partial inputs that produces the outputs in the layouts
// `read`; an output without such a layout may have any.
std::optional<Signature> FindSignatureProducing(const FittedUse& use,
                                                absl::Span<const Arriving> read,
                                                const SplitAxis& axis);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_SIGNATURE_FIT_H_
