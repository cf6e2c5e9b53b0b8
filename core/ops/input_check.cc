#include "core/ops/input_check.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

struct TypeOfAttribute {
  const char* operator()(bool) const { return "true or false"; }
  const char* operator()(int64_t) const { return "an integer"; }
  const char* operator()(double) const { return "a floating number"; }
  const char* operator()(const std::string&) const { return "a text"; }
  const char* operator()(const std::vector<int64_t>&) const { return "a list of integers"; }
  const char* operator()(DType) const { return "a dtype"; }
};

}  // namespace

std::string InputCheck::Describe(int input) const {
  std::string name;
  if (!names_.empty()) name = absl::StrCat(" (", names_[input], ")");
  return absl::StrCat("input ", input, name, " is ", TypeToString(inputs_[input]));
}

absl::Status InputCheck::Misfit(int input, absl::string_view wanted) const {
  return absl::InvalidArgumentError(absl::StrCat(Describe(input), "; it must be ", wanted));
}

absl::Status InputCheck::Misfit(absl::string_view attribute, absl::string_view wanted) const {
  const std::string name(attribute.data(), attribute.size());
  const std::string printed = Attributes({{name, *attributes_.Find(attribute)}}).ToString();
  return absl::InvalidArgumentError(absl::StrCat(
      "attribute ", absl::string_view(printed).substr(1, printed.size() - 2), " must be ", wanted));
}

absl::Status InputCheck::NoAttribute(absl::string_view name, const AttributeValue& example) const {
  const char* wanted = std::visit(TypeOfAttribute(), example);
  if (attributes_.Has(name)) return Misfit(name, wanted);
  return absl::InvalidArgumentError(
      absl::StrCat("attribute ", name, " is missing; it must be ", wanted));
}

absl::Status InputCheck::Count() const {
  if (names_.empty() && inputs_.empty()) {
    return absl::InvalidArgumentError("no inputs; it takes one or more");
  }
  if (!names_.empty() && names_.size() != inputs_.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        inputs_.size(), " inputs; it takes ", names_.size(), ": ", absl::StrJoin(names_, ", ")));
  }
  return absl::OkStatus();
}

absl::Status InputCheck::Floating(int input) const {
  if (IsFloating(inputs_[input].dtype)) return absl::OkStatus();
  return Misfit(input, "floating");
}

absl::Status InputCheck::Statistic(int input) const {
  const DType dtype = inputs_[input].dtype;
  if (IsFloating(dtype) && !IsHalf(dtype)) return absl::OkStatus();
  return Misfit(input, "f32 or f64");
}

absl::Status InputCheck::Numeric(int input) const {
  const DType dtype = inputs_[input].dtype;
  if (IsFloating(dtype) || dtype == DType::kI32 || dtype == DType::kI64) return absl::OkStatus();
  return Misfit(input, "floating, i32 or i64");
}

absl::Status InputCheck::MinRank(int input, int rank) const {
  if (static_cast<int>(inputs_[input].shape.size()) >= rank) return absl::OkStatus();
  return Misfit(input, absl::StrCat("of rank ", rank, " or more"));
}

absl::Status InputCheck::SameDType(int input, int other) const {
  if (inputs_[input].dtype == inputs_[other].dtype) return absl::OkStatus();
  return Misfit(input, absl::StrCat(DTypeName(inputs_[other].dtype), ", as ", Describe(other)));
}

absl::Status InputCheck::OneFloatingDType(int count) const {
  RETURN_IF_ERROR(Floating(0));
  for (int i = 1; i < count; ++i) RETURN_IF_ERROR(SameDType(i, 0));
  return absl::OkStatus();
}

absl::Status InputCheck::Is(int input, const TensorType& type) const {
  if (inputs_[input] == type) return absl::OkStatus();
  return Misfit(input, TypeToString(type));
}

absl::Status InputCheck::IsFloatingOfShape(int input, const Shape& shape) const {
  if (IsFloating(inputs_[input].dtype) && inputs_[input].shape == shape) return absl::OkStatus();
  return Misfit(input, absl::StrCat("floating, of shape ", ShapeToString(shape)));
}

absl::StatusOr<Shape> InputCheck::BroadcastShape() const {
  Shape result;
  for (int i = 0; i < static_cast<int>(inputs_.size()); ++i) {
    const Shape& shape = inputs_[i].shape;
    if (shape.size() > result.size()) {
      result.insert(result.begin(), shape.size() - result.size(), 1);
    }
    const size_t extra = result.size() - shape.size();
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t& size = result[extra + d];
      if (size == 1) {
        size = shape[d];
      } else if (shape[d] != 1 && shape[d] != size) {
        return Misfit(i, absl::StrCat("of size ", size, " or 1 in dimension ", d,
                                      ", to broadcast with the inputs before it"));
      }
    }
  }
  return result;
}

absl::Status InputCheck::IntIn(absl::string_view name, int64_t low, int64_t high) const {
  RETURN_IF_ERROR(Has<int64_t>(name));
  const int64_t value = attributes_.GetInt(name);
  if (value >= low && value < high) return absl::OkStatus();
  return Misfit(name, absl::StrCat("at least ", low, " and less than ", high));
}

absl::StatusOr<Shape> InputCheck::ShapeOf(absl::string_view name) const {
  RETURN_IF_ERROR(Has<std::vector<int64_t>>(name));
  const std::vector<int64_t>& sizes = attributes_.GetInts(name);
  int64_t elements = 1;
  for (const int64_t size : sizes) {
    if (size < 0) return Misfit(name, "sizes of 0 or more");
    if (size > 0 && elements > std::numeric_limits<int64_t>::max() / 16 / size) {
      return Misfit(name, "of fewer elements");
    }
    elements *= std::max<int64_t>(size, 1);
  }
  return Shape(sizes.begin(), sizes.end());
}

}  // namespace tessera
