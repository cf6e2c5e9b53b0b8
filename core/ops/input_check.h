// The checks that shape rules are made of. Their errors are one line and are shown to users: which
// input or attribute does not fit, what it is, and what would fit.
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
  // `names` are the inputs' names in docs/operators.md; none for an operator that takes any number.
  // `inputs` and `attributes` must outlive the check.
  InputCheck(std::initializer_list<absl::string_view> names, absl::Span<const TensorType> inputs,
             const Attributes& attributes)
      : names_(names), inputs_(inputs), attributes_(attributes) {}

  // As many inputs as names; without names at least one. The checks below need it to hold.
  absl::Status Count() const;
  absl::Status Floating(int input) const;
  // f32 or f64.
  absl::Status Statistic(int input) const;
  // Floating, i32 or i64: what arithmetic takes.
  absl::Status Numeric(int input) const;
  absl::Status MinRank(int input, int rank) const;
  // Floating, and the others of the inputs up to `count` have the same dtype.
  absl::Status OneFloatingDType(int count) const;
  absl::Status SameDType(int input, int other) const;
  // Has this shape, and is floating.
  absl::Status IsFloatingOfShape(int input, const Shape& shape) const;
  absl::Status Is(int input, const TensorType& type) const;
  // The shape to which inputs broadcast by numpy's rule.
  absl::StatusOr<Shape> BroadcastShape() const;

  // There is an attribute of that name and type.
  template <typename T>
  absl::Status Has(absl::string_view name) const {
    const AttributeValue* value = attributes_.Find(name);
    if (value != nullptr && std::holds_alternative<T>(*value)) return absl::OkStatus();
    return NoAttribute(name, AttributeValue(T()));
  }
  // An integer in [low, high).
  absl::Status IntIn(absl::string_view name, int64_t low, int64_t high) const;
  // A list of sizes, none negative, of no more elements than an int64_t can count.
  absl::Status ShapeAttribute(absl::string_view name) const;

  // "input 1 (b) is f32[4, 5]; it must be <wanted>"
  absl::Status Misfit(int input, absl::string_view wanted) const;
  // "attribute axis=7 must be <wanted>"
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
