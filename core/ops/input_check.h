// The checks that shape rules consist of. Their errors are shown to users. Each is one line that
// says which input or attribute does not fit, what it is, and what would fit.
#ifndef TESSERA_CORE_OPS_INPUT_CHECK_H_
#define TESSERA_CORE_OPS_INPUT_CHECK_H_

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/graph/attributes.h"
#include "core/graph/operator.h"

namespace tessera {

class InputCheck {
 public:
  // `names` are the inputs' names in docs/operators.md; empty for an operator with any number of
  // inputs. `inputs` and `attributes` must outlive the check.
  InputCheck(std::initializer_list<absl::string_view> names, absl::Span<const TensorType> inputs,
             const Attributes& attributes)
      : names_(names), inputs_(inputs), attributes_(attributes) {}

  // Checks that there are as many inputs as names; without names, at least one. The checks below
  // may be called only if this check passes.
  absl::Status Count() const;
  absl::Status Floating(int input) const;
  // Checks for f32 or f64.
  absl::Status Statistic(int input) const;
  // Checks for a floating dtype, i32 or i64: the dtypes that arithmetic accepts.
  absl::Status Numeric(int input) const;
  absl::Status MinRank(int input, int rank) const;
  // Checks that the first `count` inputs have the same floating dtype.
  absl::Status OneFloatingDType(int count) const;
  absl::Status SameDType(int input, int other) const;
  // Checks for this shape and a floating dtype.
  absl::Status IsFloatingOfShape(int input, const Shape& shape) const;
  absl::Status Is(int input, const TensorType& type) const;
  // Returns the shape to which the inputs broadcast by numpy's rule.
  absl::StatusOr<Shape> BroadcastShape() const;

  // Checks that there is an attribute with this name and type.
  template <typename T>
  absl::Status Has(absl::string_view name) const {
    const AttributeValue* value = attributes_.Find(name);
    if (value != nullptr && std::holds_alternative<T>(*value)) return absl::OkStatus();
    return NoAttribute(name, AttributeValue(T()));
  }
  // Checks for an integer in [low, high).
  absl::Status IntIn(absl::string_view name, int64_t low, int64_t high) const;
  // Returns an attribute that is a list of sizes: none is negative, and the product fits an
  // int64_t.
  absl::StatusOr<Shape> ShapeOf(absl::string_view name) const;

  // Returns the error "input 1 (b) is f32[4, 5]; it must be <wanted>".
  absl::Status Misfit(int input, absl::string_view wanted) const;
  // Returns the error "attribute axis=7 must be <wanted>".
  absl::Status Misfit(absl::string_view attribute, absl::string_view wanted) const;

 private:
  std::string Describe(int input) const;
  absl::Status NoAttribute(absl::string_view name, const AttributeValue& example) const;

  std::vector<absl::string_view> names_;
  absl::Span<const TensorType> inputs_;
  const Attributes& attributes_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_INPUT_CHECK_H_
