#include "tests/operators/signatures/case_form.h"

namespace tessera::operator_tests {
namespace {

using Ints = std::vector<int64_t>;

// One rank has no part of M, K or N at some of the sizes.
const std::vector<std::string> kMatrices = {"B=3 M=5 K=7 N=3", "B=2 M=6 K=4 N=2",
                                            "B=4 M=1 K=6 N=5"};

void AddMatMul(const std::string& a, const std::string& b, const Attributes& attributes,
               const std::string& detail, std::vector<Form>& forms) {
  forms.push_back({"matmul", detail, {Floats(a), Floats(b)}, kMatrices, [=](const Sizes&) {
                     return attributes;
                   }});
}

Attributes Transposed(bool a, bool b) { return {{"transpose_a", a}, {"transpose_b", b}}; }

Attributes Windows(const Ints& padding) {
  return {{"stride", Ints{1, 1}}, {"padding", padding}, {"dilation", Ints{1, 1}}};
}

Attributes WithShape(Attributes attributes, Ints shape) {
  attributes.Set("shape", std::move(shape));
  return attributes;
}

// A convolution and its gradients. x has C channels and the result O, in groups of i and of o.
void AddConvolution(const std::string& in, const std::string& detail,
                    const std::vector<std::string>& sizes, const std::vector<std::string>& units,
                    std::vector<Form>& forms) {
  const std::string x = "BHWC", weight = "Ohw" + in, y = "BPQO";
  forms.push_back({"convolution",
                   detail,
                   {Floats(x), Floats(weight)},
                   sizes,
                   [=](const Sizes& s) {
                     Attributes attributes = Windows({1, 1});
                     attributes.Set("groups", s('C') / s(in[0]));
                     return attributes;
                   },
                   units});
  forms.push_back({"convolution_grad_data",
                   detail,
                   {Floats(y), Floats(weight)},
                   sizes,
                   [=](const Sizes& s) {
                     return WithShape(Windows({1, 1}), s.IntsOf(x));
                   },
                   units});
  forms.push_back({"convolution_grad_weight",
                   detail,
                   {Floats(y), Floats(x)},
                   sizes,
                   [=](const Sizes& s) {
                     return WithShape(Windows({1, 1}), s.IntsOf(weight));
                   },
                   units});
}

}  // namespace

std::vector<Form> ProductForms() {
  std::vector<Form> forms;
  AddMatMul("MK", "KN", Transposed(false, false), "", forms);
  AddMatMul("MK", "NK", Transposed(false, true), "transposed b", forms);
  AddMatMul("KM", "KN", Transposed(true, false), "transposed a", forms);
  AddMatMul("KM", "NK", Transposed(true, true), "transposed a and b", forms);
  AddMatMul("BMK", "BKN", Transposed(false, false), "", forms);
  AddMatMul("BMK", "KN", Transposed(false, false), "", forms);
  Attributes contracts = Transposed(true, false);
  contracts.Set("contract_leading", true);
  AddMatMul("BKM", "BKN", contracts, "summed over B", forms);
  return forms;
}

std::vector<Form> PictureForms() {
  std::vector<Form> forms;
  AddConvolution("C", "",
                 {"B=3 H=4 W=3 C=4 O=5 h=2 w=3 P=5 Q=3", "B=4 H=3 W=5 C=3 O=6 h=2 w=3 P=4 Q=5",
                  "B=2 H=3 W=4 C=2 O=1 h=2 w=2 P=4 Q=5"},
                 {}, forms);
  AddConvolution("i", "in groups",
                 {"B=3 H=4 W=3 C=6 i=2 O=9 o=3 h=2 w=3 P=5 Q=3",
                  "B=4 H=3 W=5 C=8 i=2 O=20 o=5 h=2 w=3 P=4 Q=5",
                  "B=2 H=3 W=4 C=6 i=3 O=4 o=2 h=2 w=2 P=4 Q=5"},
                 {"i", "o"}, forms);
  const std::vector<std::string> pooled = {"B=3 H=3 W=4 C=5 P=4 Q=5", "B=4 H=2 W=3 C=6 P=3 Q=4",
                                           "B=1 H=3 W=2 C=2 P=4 Q=3"};
  Attributes windows = {{"window", Ints{2, 2}}, {"stride", Ints{1, 1}}, {"padding", Ints{1, 1}}};
  const auto same = [=](const Sizes&) { return windows; };
  const auto of_x = [=](const Sizes& s) { return WithShape(windows, s.IntsOf("BHWC")); };
  forms.push_back({"max_pool", "", {Floats("BHWC")}, pooled, same});
  forms.push_back(
      {"max_pool_grad", "", {Floats("BPQC"), Whole("BPQC", DType::kU8, 0, 4)}, pooled, of_x});
  forms.push_back({"average_pool", "", {Floats("BHWC")}, pooled, same});
  forms.push_back({"average_pool_grad", "", {Floats("BPQC")}, pooled, of_x});
  forms.push_back(
      {"random_crop_flip",
       "",
       {Whole("BHWC", DType::kU8, 1, 256), Number(DType::kI64, 5), Number(DType::kI64, 7)},
       {"B=5 H=3 W=4 C=3", "B=6 H=2 W=3 C=2", "B=4 H=3 W=2 C=1"},
       [](const Sizes&) {
         return Attributes{
             {"padding", int64_t{1}}, {"flip", true}, {"random_path", std::string("crop")}};
       }});
  return forms;
}

}  // namespace tessera::operator_tests
