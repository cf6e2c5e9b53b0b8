#include "tests/operators/case_list.h"
#include "tests/operators/signatures/case_form.h"

namespace tessera::operator_tests {
namespace {

using Ints = std::vector<int64_t>;

void AddAttention(bool causal, const std::vector<std::string>& sizes, std::vector<Form>& forms) {
  const std::string q = "BTHD", k = causal ? "BTHD" : "BSHD", lse = "BHT";
  const std::string detail = causal ? "causal" : "";
  const auto attributes = [=](const Sizes&) {
    return Attributes{{"causal", causal}, {"scale", 0.5}};
  };
  forms.push_back({"attention", detail, {Floats(q), Floats(k), Floats(k)}, sizes, attributes});
  forms.push_back({"attention_grad",
                   detail,
                   {Floats(q), Floats(q), Floats(k), Floats(k), Floats(q), Floats(lse)},
                   sizes,
                   attributes,
                   {},
                   {{.op = "attention",
                     .attributes = {},
                     .from = {1, 2, 3},
                     .outputs = {0, 1},
                     .to = {4, 5}}}});
}

void AddLinearLogSumExp(const std::string& rows, bool keep_logits, std::vector<Form>& forms) {
  const std::vector<std::string> sizes = {"A=2 R=5 C=3 V=7", "A=3 R=4 C=2 V=6", "A=4 R=1 C=5 V=4"};
  const std::string x = rows + "C";
  const std::string detail = keep_logits ? "keeps logits" : "";
  const auto attributes = [=](const Sizes&) {
    return keep_logits ? Attributes{{"keep_logits", true}} : Attributes();
  };
  forms.push_back({"linear_log_sum_exp",
                   detail,
                   {Floats(x), Floats("VC"), LabelsBelow(rows, 'V')},
                   sizes,
                   attributes});
  std::vector<Operand> inputs = {Floats(rows), Floats(rows),           Floats(x),
                                 Floats("VC"), LabelsBelow(rows, 'V'), Floats(rows)};
  DerivedInputs derived = {
      .op = "linear_log_sum_exp", .attributes = {}, .from = {2, 3, 4}, .outputs = {0}, .to = {5}};
  if (keep_logits) {
    inputs.push_back(Floats(rows + "V"));
    derived.outputs.push_back(2);
    derived.to.push_back(6);
  }
  forms.push_back({"linear_log_sum_exp_grad", detail, inputs, sizes, attributes, {}, {derived}});
}

// Has NaN and infinities at one size of R, and a few infinities at another one, so that neither 0
// nor 1 is always the result.
Operand FiniteUnless(const std::string& dims, int64_t special, int64_t infinite) {
  return {dims, [=](const Shape& shape, const Sizes& s) {
            if (s('R') == special) return Special(shape);
            return Normal(shape, 0, s('R') == infinite ? 3e38 : 1);  // at most 3.4e38 are finite
          }};
}

// A predicate that is 0 at one of kRowsColumns.
Operand Predicate() {
  return {"", [](const Shape&, const Sizes& s) { return Scalar(DType::kU8, s('R') == 4 ? 0 : 1); }};
}

void AddUpdates(std::vector<Form>& forms) {
  for (const double momentum : {0.0, 0.9}) {
    std::vector<Operand> inputs = {Floats("RC"), Floats("RC")};
    if (momentum != 0) inputs.push_back(Floats("RC"));
    inputs.insert(inputs.end(), {Floats(""), Floats(""), Predicate()});
    forms.push_back({"sgd_update", momentum == 0 ? "" : "with momentum", inputs, kRowsColumns,
                     [=](const Sizes&) {
                       return Attributes{{"momentum", momentum}, {"weight_decay", 0.1}};
                     }});
  }
  forms.push_back(
      {"adamw_update",
       "",
       {Floats("RC"), Floats("RC"), Floats("RC"), Positive("RC"), Floats(""), Floats(""),
        Number(DType::kI64, 3), Predicate()},
       kRowsColumns,
       [](const Sizes&) {
         return Attributes{{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 0.01}, {"weight_decay", 0.1}};
       }});
}

}  // namespace

std::vector<Form> AttentionForms() {
  std::vector<Form> forms;
  AddAttention(true, {"B=2 T=3 H=3 D=2", "B=3 T=4 H=2 D=3", "B=1 T=2 H=4 D=1"}, forms);
  AddAttention(false, {"B=2 T=3 S=5 H=3 D=2", "B=3 T=4 S=2 H=2 D=3", "B=1 T=2 S=3 H=4 D=1"}, forms);
  const std::string token = "B1HD", cache = "BTHD";
  forms.push_back({"attention_decode",
                   "",
                   {Floats(token), Floats(token), Floats(token), Floats(cache), Floats(cache),
                    Whole("", DType::kI64, 1, 3)},
                   {"B=2 T=5 H=3 D=2", "B=3 T=4 H=2 D=3", "B=1 T=3 H=4 D=1"},
                   [](const Sizes&) {
                     return Attributes{{"scale", 0.5}};
                   }});
  for (const bool up_to : {false, true}) {
    forms.push_back({"row_mask",
                     up_to ? "to [T, C], up to it" : "to [T, C]",
                     {Whole("", DType::kI64, 1, 3)},
                     {"T=5 C=2", "T=3 C=4", "T=6 C=1"},
                     [up_to](const Sizes& s) {
                       return Attributes{{"shape", s.IntsOf("TC")}, {"up_to", up_to}};
                     }});
  }
  for (const bool keep_logits : {false, true}) {
    AddLinearLogSumExp("R", keep_logits, forms);
    AddLinearLogSumExp("AR", keep_logits, forms);
  }
  return forms;
}

std::vector<Form> UpdateForms() {
  std::vector<Form> forms;
  for (const double value : {3.0, 0.0}) {
    forms.push_back(
        {"fill",
         value == 0 ? "[R, C] with 0" : "[R, C] with 3",
         {},
         kRowsColumns,
         [=](const Sizes& s) {
           return Attributes{{"shape", s.IntsOf("RC")}, {"dtype", DType::kF32}, {"value", value}};
         }});
  }
  forms.push_back(
      {"random_normal", "to [R, C]", {Number(DType::kI64, 42)}, kRowsColumns, [](const Sizes& s) {
         return Attributes{{"shape", s.IntsOf("RC")},
                           {"dtype", DType::kF32},
                           {"mean", 0.5},
                           {"stddev", 0.5},
                           {"random_path", std::string("w")}};
       }});
  const std::vector<std::string> sizes = {"R=5 C=7 A=2", "R=6 C=4 A=5", "R=4 C=6 A=3",
                                          "R=1 C=3 A=4"};
  forms.push_back({"all_finite", "", {FiniteUnless("RC", 6, 1)}, sizes});
  forms.push_back({"all_finite", "", {FiniteUnless("RC", 6, 1), FiniteUnless("A", 4, 0)}, sizes});
  AddUpdates(forms);
  return forms;
}

}  // namespace tessera::operator_tests
