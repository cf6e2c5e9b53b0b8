#include "tests/operators/signatures/case_form.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "core/status/check.h"
#include "tests/operators/case_list.h"

namespace tessera::operator_tests {

Sizes::Sizes(absl::string_view text) {
  for (absl::string_view size : absl::StrSplit(text, ' ')) {
    int64_t elements = 0;
    TESSERA_CHECK(size.size() > 2 && absl::SimpleAtoi(size.substr(2), &elements)) << size;
    elements_[size[0]] = elements;
  }
}

int64_t Sizes::operator()(char letter) const {
  if (letter == '1') return 1;
  const auto found = elements_.find(letter);
  TESSERA_CHECK(found != elements_.end()) << "a letter without a size: " << letter;
  return found->second;
}

Shape Sizes::ShapeOf(absl::string_view dims) const {
  Shape shape;
  for (char letter : dims) shape.push_back((*this)(letter));
  return shape;
}

std::vector<int64_t> Sizes::IntsOf(absl::string_view dims) const {
  const Shape shape = ShapeOf(dims);
  return {shape.begin(), shape.end()};
}

int64_t Sizes::Product(absl::string_view unit) const {
  int64_t product = 1;
  for (absl::string_view letter : absl::StrSplit(unit, '*')) product *= (*this)(letter[0]);
  return product;
}

Operand Floats(std::string dims) {
  return {std::move(dims), [](const Shape& shape, const Sizes&) { return Normal(shape); }};
}
Operand Wide(std::string dims) {
  return {std::move(dims), [](const Shape& shape, const Sizes&) { return Normal(shape, 0.5, 2); }};
}
Operand Positive(std::string dims) {
  return {std::move(dims), [](const Shape& shape, const Sizes&) { return Uniform(shape, 0.3, 3); }};
}
Operand NonZero(std::string dims) {
  return {std::move(dims), [](const Shape& shape, const Sizes&) { return AwayFromZero(shape); }};
}
Operand Ties(std::string dims) {
  return {std::move(dims),
          [](const Shape& shape, const Sizes&) { return Integers(DType::kF32, shape, 0, 3); }};
}
Operand ZeroOrOne(std::string dims) {
  return {std::move(dims),
          [](const Shape& shape, const Sizes&) { return Integers(DType::kF32, shape, 0, 2); }};
}
Operand Whole(std::string dims, DType dtype, double low, double high) {
  return {std::move(dims),
          [=](const Shape& shape, const Sizes&) { return Integers(dtype, shape, low, high); }};
}
Operand FloatsOf(std::string dims, DType dtype) {
  return {std::move(dims), [=](const Shape& shape, const Sizes&) {
            return CaseInput{{dtype, shape}, {Draw::Kind::kNormal, 0, 4}};
          }};
}
Operand IdsBelow(std::string dims, char count) {
  return {std::move(dims),
          [=](const Shape& shape, const Sizes& sizes) { return Ids(shape, sizes(count)); }};
}
Operand LabelsBelow(std::string dims, char count) {
  return {std::move(dims),
          [=](const Shape& shape, const Sizes& sizes) { return Labels(shape, sizes(count)); }};
}
Operand Number(DType dtype, int64_t value) {
  return {"", [=](const Shape&, const Sizes&) { return Scalar(dtype, value); }};
}

}  // namespace tessera::operator_tests
