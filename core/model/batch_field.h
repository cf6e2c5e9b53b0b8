// A part of each row of a batch: an input of a model, or what a dataset provides.
#ifndef TESSERA_CORE_MODEL_BATCH_FIELD_H_
#define TESSERA_CORE_MODEL_BATCH_FIELD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace tessera {

struct BatchField {
  std::string name;     // "tokens": the path of the input
  TensorType type;      // of one row, without the dimension of the batch: i32 [sequence]
  int64_t limit = 0;    // integers are in [0, limit), or `missing`; 0: they are any
  int64_t missing = 0;  // every element of a row that does not exist
  // The setting of the model that gives the limit: "model.vocabulary". Empty in a dataset.
  std::string limited_by = {};

  // The elements of the field in a row.
  int64_t elements() const { return NumElements(type.shape); }
};

// Returns null if there is no field of this name.
const BatchField* FindField(absl::Span<const BatchField> fields, absl::string_view name);

// Returns "tokens i32[64] and targets i32[64]".
std::string FieldsText(absl::Span<const BatchField> fields);

// Returns InvalidArgument, which names both, if the data lack a field that a model reads, or have
// it in another type or with values that the model does not know.
absl::Status CheckFields(absl::Span<const BatchField> read, absl::Span<const BatchField> provided);

}  // namespace tessera

#endif  // TESSERA_CORE_MODEL_BATCH_FIELD_H_
