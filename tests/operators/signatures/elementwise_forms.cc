#include "tests/operators/signatures/case_form.h"

namespace tessera::operator_tests {
namespace {

void AddBinaryForms(std::vector<Form>& forms) {
  for (const std::string op : {"add", "subtract", "multiply", "divide", "maximum", "minimum"}) {
    const auto second = op == "divide" ? NonZero : Floats;
    const std::pair<std::string, std::string> shapes[] = {
        {"RC", "RC"}, {"RC", "C"}, {"R1", "RC"}, {"RC", ""}};
    for (const auto& [a, b] : shapes) {
      forms.push_back({op, "", {Floats(a), second(b)}, kRowsColumns});
    }
    forms.push_back({op,
                     "i32",
                     {Whole("RC", DType::kI32, -50, 50), Whole("RC", DType::kI32, -50, 50)},
                     kRowsColumns});
  }
}

void AddUnaryForms(std::vector<Form>& forms) {
  for (const std::string op : {"exp", "negate", "square", "tanh", "sigmoid"}) {
    forms.push_back({op, "", {Wide("RC")}, kRowsColumns});
  }
  for (const std::string op : {"log", "sqrt", "rsqrt"}) {
    forms.push_back({op, "", {Positive("RC")}, kRowsColumns});
  }
  for (const std::string op : {"reciprocal", "relu"}) {
    forms.push_back({op, "", {NonZero("RC")}, kRowsColumns});
  }
  forms.push_back({"relu_grad", "", {Floats("RC"), NonZero("RC")}, kRowsColumns});
  for (const std::string kind : {"none", "tanh"}) {
    const auto attributes = [=](const Sizes&) { return Attributes{{"approximate", kind}}; };
    forms.push_back({"gelu", kind, {Wide("RC")}, kRowsColumns, attributes});
    forms.push_back({"gelu_grad", kind, {Floats("RC"), Wide("RC")}, kRowsColumns, attributes});
  }
}

void AddCastForms(std::vector<Form>& forms) {
  const auto add = [&](const std::string& detail, const Operand& x, const Attributes& attributes) {
    forms.push_back({"cast", detail, {x}, kRowsColumns, [=](const Sizes&) { return attributes; }});
  };
  add("f32 to bf16", Wide("RC"), {{"dtype", DType::kBF16}});
  add("f32 to bf16, terms", Wide("RC"), {{"dtype", DType::kBF16}, {"terms", true}});
  add("bf16 to f32", FloatsOf("RC", DType::kBF16), {{"dtype", DType::kF32}});
  add("bf16 to f32, no terms", FloatsOf("RC", DType::kBF16),
      {{"dtype", DType::kF32}, {"terms", false}});
  add("f32 to i32", FloatsOf("RC", DType::kF32), {{"dtype", DType::kI32}});
  add("i32 to f32", Whole("RC", DType::kI32, -50, 50), {{"dtype", DType::kF32}});
}

}  // namespace

std::vector<Form> ElementwiseForms() {
  std::vector<Form> forms;
  AddBinaryForms(forms);
  AddUnaryForms(forms);
  forms.push_back(
      {"select", "", {Whole("RC", DType::kU8, 0, 3), Floats("RC"), Floats("RC")}, kRowsColumns});
  forms.push_back(
      {"select", "", {Whole("R1", DType::kU8, 0, 3), Floats(""), Floats("RC")}, kRowsColumns});
  AddCastForms(forms);
  forms.push_back(
      {"valid_mask", "", {Whole("RC", DType::kI32, -102, -97)}, kRowsColumns, [](const Sizes&) {
         return Attributes{{"ignore_index", int64_t{-100}}, {"dtype", DType::kF32}};
       }});
  forms.push_back({"dropout",
                   "",
                   {Floats("RC"), Number(DType::kI64, 5), Number(DType::kI64, 7)},
                   kRowsColumns,
                   [](const Sizes&) {
                     return Attributes{{"probability", 0.4}, {"random_path", std::string("drop")}};
                   }});
  return forms;
}

std::vector<Form> ViewForms() {
  std::vector<Form> forms;
  const auto reshape = [&](const std::string& from, const std::string& to,
                           const std::string& detail, std::vector<std::string> units,
                           std::vector<std::string> sizes) {
    forms.push_back({"reshape",
                     detail,
                     {Floats(from)},
                     std::move(sizes),
                     [=](const Sizes& s) {
                       return Attributes{{"shape", s.IntsOf(to)}};
                     },
                     std::move(units)});
  };
  reshape("BTC", "RC", "to [R, C], R = B*T", {"T"},
          {"B=5 T=3 C=2 R=15", "B=6 T=2 C=4 R=12", "B=4 T=5 C=3 R=20"});
  reshape("RC", "BTC", "to [B, T, C], R = B*T", {"T"},
          {"B=5 T=3 C=2 R=15", "B=6 T=2 C=4 R=12", "B=4 T=5 C=3 R=20"});
  reshape("RC", "RHD", "to [R, H, D], C = H*D", {"D"},
          {"R=5 H=3 D=2 C=6", "R=6 H=5 D=3 C=15", "R=2 H=4 D=5 C=20"});
  reshape("RHD", "RC", "to [R, C], C = H*D", {"D"},
          {"R=5 H=3 D=2 C=6", "R=6 H=5 D=3 C=15", "R=2 H=4 D=5 C=20"});
  reshape("RC", "R1C", "to [R, 1, C]", {"C"}, {"R=5 C=7", "R=6 C=4", "R=4 C=6"});

  const auto transpose = [&](const std::string& dims, std::vector<int64_t> permutation,
                             std::vector<std::string> sizes) {
    std::string detail = "to [";
    for (const int64_t d : permutation) {
      detail += (detail.back() == '[' ? "" : ", ") + std::string(1, dims[d]);
    }
    forms.push_back(
        {"transpose", detail + "]", {Floats(dims)}, std::move(sizes), [=](const Sizes&) {
           return Attributes{{"permutation", permutation}};
         }});
  };
  transpose("RC", {1, 0}, kRowsColumns);
  transpose("ARC", {1, 2, 0}, {"A=2 R=5 C=3", "A=4 R=3 C=6", "A=1 R=6 C=4"});

  const auto split = [&](const std::string& dims, int64_t axis) {
    forms.push_back({"split",
                     axis == 0 ? "to [a, C], [b, C]" : "to [R, a], [R, b]",
                     {Floats(dims)},
                     {"R=7 C=7 a=3 b=4", "R=6 C=6 a=4 b=2", "R=4 C=4 a=2 b=2"},
                     [=](const Sizes& s) {
                       return Attributes{{"axis", axis}, {"sizes", s.IntsOf("ab")}};
                     }});
  };
  split("RC", 0);
  split("RC", 1);

  const auto expand = [&](const std::string& from) {
    forms.push_back({"expand", "to [R, C]", {Floats(from)}, kRowsColumns, [](const Sizes& s) {
                       return Attributes{{"shape", s.IntsOf("RC")}};
                     }});
  };
  expand("RC");
  expand("C");
  expand("R1");

  for (const int64_t axis : {0, 1}) {
    forms.push_back({"concat",
                     "",
                     {Floats(axis == 0 ? "aC" : "Ra"), Floats(axis == 0 ? "bC" : "Rb")},
                     {"R=5 C=7 a=3 b=4", "R=6 C=4 a=4 b=2", "R=4 C=6 a=2 b=2"},
                     [=](const Sizes&) {
                       return Attributes{{"axis", axis}};
                     }});
  }
  forms.push_back({"copy", "", {Floats("RC")}, kRowsColumns});
  forms.push_back({"copy", "i32", {Whole("RC", DType::kI32, -50, 50)}, kRowsColumns});
  forms.push_back({"zero_elsewhere", "", {Floats("RC")}, kRowsColumns, [](const Sizes& s) {
                     return Attributes{{"shape", s.IntsOf("RC")}};
                   }});
  return forms;
}

}  // namespace tessera::operator_tests
