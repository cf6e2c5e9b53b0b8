// How families of cases are written: an operator, the letters of its inputs' dimensions, and sizes
// of the letters.
#ifndef TESSERA_TESTS_OPERATORS_SIGNATURES_CASE_FORM_H_
#define TESSERA_TESTS_OPERATORS_SIGNATURES_CASE_FORM_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/operators/cases.h"

namespace tessera::operator_tests {

// The number of elements of each letter.
class Sizes {
 public:
  explicit Sizes(absl::string_view text);  // "R=5 C=7"

  int64_t operator()(char letter) const;
  Shape ShapeOf(absl::string_view dims) const;  // "RC"; 1 is one element
  std::vector<int64_t> IntsOf(absl::string_view dims) const;
  // Returns the elements of a unit like "T*C".
  int64_t Product(absl::string_view unit) const;

 private:
  std::map<char, int64_t> elements_;
};

// An input: the letters of its dimensions, and how its values are drawn.
struct Operand {
  std::string dims;
  std::function<CaseInput(const Shape&, const Sizes&)> draw;
};

Operand Floats(std::string dims);
Operand Wide(std::string dims);  // of mean 0.5 and standard deviation 2
Operand Positive(std::string dims);
Operand NonZero(std::string dims);
Operand Ties(std::string dims);       // 0, 1 and 2, in f32
Operand ZeroOrOne(std::string dims);  // in f32
Operand Whole(std::string dims, DType dtype, double low, double high);
Operand FloatsOf(std::string dims, DType dtype);
Operand IdsBelow(std::string dims, char count);     // i32 below the size of a letter
Operand LabelsBelow(std::string dims, char count);  // the same, except that every third is -100
Operand Number(DType dtype, int64_t value);

// The definition of a family of cases.
struct Form {
  std::string op;
  std::string detail;  // what matters besides shapes
  std::vector<Operand> inputs;
  std::vector<std::string> sizes;
  std::function<Attributes(const Sizes&)> attributes = [](const Sizes&) { return Attributes(); };
  std::vector<std::string> units = {};
  // Inputs that another operator computes. It has the attributes of the form if it has none.
  std::vector<DerivedInputs> derived = {};
};

// The forms, by the sections of docs/operators.md.
std::vector<Form> ElementwiseForms();
std::vector<Form> ViewForms();
std::vector<Form> ProductForms();
std::vector<Form> PictureForms();
std::vector<Form> RowForms();
std::vector<Form> BatchNormForms();
std::vector<Form> AttentionForms();
std::vector<Form> UpdateForms();

// Sizes of two dimensions: odd ones, ones that the ranks divide, and ones that are shorter than the
// ranks.
inline const std::vector<std::string> kRowsColumns = {"R=5 C=7", "R=6 C=4", "R=4 C=6", "R=1 C=3"};

}  // namespace tessera::operator_tests

#endif  // TESSERA_TESTS_OPERATORS_SIGNATURES_CASE_FORM_H_
