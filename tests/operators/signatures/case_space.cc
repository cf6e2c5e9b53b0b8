#include "tests/operators/signatures/case_space.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/operators/case_list.h"
#include "tests/operators/signatures/case_form.h"

namespace tessera::operator_tests {
namespace {

std::string ShapeText(absl::string_view dims) {
  std::vector<std::string> letters;
  for (char letter : dims) letters.emplace_back(1, letter);
  return absl::StrCat("[", absl::StrJoin(letters, ", "), "]");
}

CaseFamily FamilyOf(const Form& form) {
  CaseFamily family;
  family.op = form.op;
  family.units = form.units;
  std::vector<std::string> shapes;
  for (const Operand& input : form.inputs) {
    family.dims.push_back(input.dims);
    shapes.push_back(ShapeText(input.dims));
  }
  family.shapes = absl::StrJoin(shapes, ", ");
  if (!form.detail.empty()) {
    absl::StrAppend(&family.shapes, shapes.empty() ? "" : " ", form.detail);
  }
  for (const std::string& text : form.sizes) {
    const Sizes sizes(text);
    SizedCase sized;
    sized.sizes = text;
    std::vector<CaseInput> inputs;
    for (const Operand& input : form.inputs) {
      inputs.push_back(input.draw(sizes.ShapeOf(input.dims), sizes));
    }
    sized.use = MakeCase(form.op, absl::StrCat(form.detail, " ", text), std::move(inputs),
                         form.attributes(sizes));
    sized.use.derived = form.derived;
    for (DerivedInputs& derived : sized.use.derived) {
      if (derived.attributes.empty()) derived.attributes = sized.use.attributes;
    }
    for (const std::string& unit : form.units) sized.units.push_back(sizes.Product(unit));
    family.cases.push_back(std::move(sized));
  }
  return family;
}

}  // namespace

const std::vector<CaseFamily>& CaseSpace() {
  static const auto* const families = [] {
    auto* all = new std::vector<CaseFamily>();
    for (const auto& section : {ElementwiseForms(), ViewForms(), ProductForms(), PictureForms(),
                                RowForms(), BatchNormForms(), AttentionForms(), UpdateForms()}) {
      for (const Form& form : section) all->push_back(FamilyOf(form));
    }
    return all;
  }();
  return *families;
}

std::vector<CaseFamily> FamiliesOf(absl::string_view op) {
  std::vector<CaseFamily> families;
  for (const CaseFamily& family : CaseSpace()) {
    if (family.op == op) families.push_back(family);
  }
  return families;
}

}  // namespace tessera::operator_tests
