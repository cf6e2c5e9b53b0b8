#include <algorithm>
#include <string>
#include <vector>

#include "core/ops/operator_list.h"
#include "core/status/check.h"
#include "tests/operators/case_list.h"

namespace tessera::operator_tests {
namespace {

using Ints = std::vector<int64_t>;

// Returns the shape of an operator's first output.
Shape ResultOf(absl::string_view op, const std::vector<Shape>& inputs,
               const Attributes& attributes) {
  std::vector<TensorType> types;
  for (const Shape& shape : inputs) types.push_back({DType::kF32, shape});
  const auto outputs = FindOperator(op)->InferTypes(types, attributes);
  TESSERA_CHECK(outputs.ok()) << outputs.status();
  return (*outputs)[0].shape;
}

Attributes WithShape(Attributes attributes, const Shape& shape) {
  attributes.Set("shape", Ints(shape.begin(), shape.end()));
  return attributes;
}

struct Convolved {
  Shape x, weight;
  Ints stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  int64_t groups = 1;
};

// Adds a case of the convolution and one of each of its gradients.
void AddConvolution(const Convolved& use, std::vector<Case>& cases) {
  const Attributes windows = {
      {"stride", use.stride}, {"padding", use.padding}, {"dilation", use.dilation}};
  Attributes attributes = windows;
  attributes.Set("groups", use.groups);
  const Shape y = ResultOf("convolution", {use.x, use.weight}, attributes);
  cases.push_back(MakeCase("convolution", {Normal(use.x), Normal(use.weight)}, attributes));
  cases.push_back(MakeCase("convolution_grad_data", {Normal(y), Normal(use.weight)},
                           WithShape(windows, use.x)));
  cases.push_back(MakeCase("convolution_grad_weight", {Normal(y), Normal(use.x)},
                           WithShape(windows, use.weight)));
  for (size_t i = cases.size() - 3; i < cases.size(); ++i) cases[i].condition = 4;
}

// Adds cases of a 3 x 3 convolution and of its gradients with NaN in one operand.
void AddSpecialConvolution(int64_t in, int64_t out, int64_t groups, std::vector<Case>& cases) {
  const Attributes windows = {
      {"stride", Ints{1, 1}}, {"padding", Ints{1, 1}}, {"dilation", Ints{1, 1}}};
  Attributes attributes = windows;
  attributes.Set("groups", groups);
  const Shape x = {2, 6, 6, in}, weight = {out, 3, 3, in / groups}, y = {2, 6, 6, out};
  cases.push_back(SpecialCase("convolution", {SomeNaN(x), Normal(weight)}, attributes));
  cases.push_back(
      SpecialCase("convolution_grad_data", {SomeNaN(y), Normal(weight)}, WithShape(windows, x)));
  for (const bool of_y : {false, true}) {
    cases.push_back(MakeCase("convolution_grad_weight", of_y ? "NaN in dy" : "NaN in x",
                             {of_y ? SomeNaN(y) : Normal(y), of_y ? Normal(x) : SomeNaN(x)},
                             WithShape(windows, weight)));
  }
}

void AddConvolutionCases(std::vector<Case>& cases) {
  const Convolved uses[] = {
      {{1, 1, 1, 1}, {1, 1, 1, 1}},
      {{2, 3, 2, 4}, {5, 1, 1, 4}},
      {{1, 5, 5, 1}, {3, 3, 3, 1}, {1, 1}, {1, 1}},
      {{2, 7, 6, 3}, {7, 3, 3, 3}, {2, 2}, {1, 1}},
      // The last rows and columns are in no window.
      {{2, 6, 8, 7}, {3, 3, 2, 7}, {3, 4}, {1, 0}},
      {{2, 5, 5, 3}, {2, 1, 1, 3}, {2, 3}},
      {{1, 9, 8, 3}, {4, 3, 3, 3}, {1, 1}, {2, 2}, {2, 2}},
      {{2, 8, 9, 2}, {3, 2, 3, 2}, {2, 1}, {1, 3}, {3, 2}},
      // Windows of the whole picture.
      {{1, 3, 3, 7}, {1, 3, 3, 7}},
      {{5, 3, 2, 7}, {6, 3, 2, 7}, {2, 1}},
      {{19, 4, 4, 64}, {33, 4, 4, 64}},
      // Some windows read nothing but padding in their first rows and columns.
      {{1, 10, 4, 2}, {2, 5, 2, 2}, {3, 2}, {4, 1}},
      {{1, 2, 1, 3}, {2, 3, 3, 3}, {1, 1}, {2, 2}},
      // Groups, depthwise, and depthwise with two results for each channel.
      {{3, 4, 4, 4}, {6, 3, 3, 2}, {1, 1}, {1, 1}, {1, 1}, 2},
      {{2, 5, 5, 6}, {6, 3, 3, 1}, {2, 2}, {1, 1}, {1, 1}, 6},
      {{2, 5, 4, 3}, {6, 2, 3, 1}, {1, 1}, {1, 2}, {1, 2}, 3},
      {{2, 9, 9, 32}, {32, 3, 3, 1}, {1, 1}, {1, 1}, {1, 1}, 32},
      // Without pictures, and without channels.
      {{0, 4, 4, 3}, {5, 3, 3, 3}},
      {{2, 4, 4, 0}, {5, 3, 3, 0}},
      {{2, 4, 4, 3}, {0, 3, 3, 3}},
      // Full vectors, and more windows than the library's kernels handle at once.
      {{2, 14, 15, 64}, {48, 3, 3, 64}, {1, 1}, {1, 1}},
      {{3, 13, 13, 32}, {37, 3, 3, 32}, {2, 2}, {1, 1}},
      // More than one chunk of unfolded windows, of which the last is smaller.
      {{2, 30, 31, 64}, {5, 3, 3, 64}, {1, 1}, {1, 1}},
      // Unfolded rows of a multiple of 1024 bytes, which are padded.
      {{2, 9, 9, 256}, {20, 1, 1, 256}, {2, 2}},
  };
  for (const Convolved& use : uses) AddConvolution(use, cases);
  // A NaN reaches all results of which it is a term, and no others.
  const Ints special[] = {{5, 4, 1},   {4, 5, 1},  {1, 1, 1},   {33, 19, 1}, {6, 10, 2}, {7, 7, 7},
                          {16, 32, 1}, {3, 64, 1}, {17, 20, 1}, {34, 34, 2}, {20, 3, 1}};
  for (const Ints& sizes : special) {
    AddSpecialConvolution(sizes[0], sizes[1], sizes[2], cases);
  }
}

void AddPoolingCases(std::vector<Case>& cases) {
  struct Pooled {
    Shape x;
    Ints window, stride, padding = {0, 0};
  };
  const Pooled uses[] = {
      {{1, 1, 1, 1}, {1, 1}, {1, 1}},
      {{2, 6, 7, 3}, {2, 2}, {2, 2}},
      {{1, 5, 5, 1}, {3, 3}, {2, 2}, {1, 1}},
      {{2, 7, 9, 7}, {3, 2}, {3, 1}, {1, 1}},
      {{1, 8, 7, 3}, {2, 2}, {3, 3}},
      {{1, 2, 2, 3}, {3, 3}, {1, 1}, {1, 1}},
      {{1, 1, 3, 2}, {3, 4}, {2, 1}, {2, 3}},
      {{1, 17, 18, 2}, {16, 16}, {1, 1}},
      {{3, 8, 8, 16}, {3, 3}, {1, 1}, {1, 1}},
      {{2, 9, 5, 40}, {3, 5}, {2, 1}, {0, 2}},
      {{0, 4, 4, 3}, {2, 2}, {2, 2}},
      {{2, 4, 4, 0}, {2, 2}, {2, 2}},
      {{4, 33, 34, 67}, {3, 3}, {2, 2}, {1, 1}},
  };
  for (const Pooled& use : uses) {
    const Attributes attributes = {
        {"window", use.window}, {"stride", use.stride}, {"padding", use.padding}};
    const Shape y = ResultOf("max_pool", {use.x}, attributes);
    const Attributes of_gradient = WithShape(attributes, use.x);
    cases.push_back(MakeCase("max_pool", {Distinct(use.x)}, attributes));
    cases.push_back(MakeCase("max_pool", "ties", {Integers(DType::kF32, use.x, 0, 3)}, attributes));
    cases.back().smooth = false;
    // Positions in the padding, and such that are none, count for nothing.
    const auto positions = static_cast<double>(use.window[0] * use.window[1]);
    cases.push_back(MakeCase(
        "max_pool_grad", {Normal(y), Integers(DType::kU8, y, 0, std::min(256.0, positions + 1))},
        of_gradient));
    cases.back().condition = 4;
    cases.push_back(MakeCase("average_pool", {Normal(use.x)}, attributes));
    cases.back().condition = 4;
    cases.push_back(MakeCase("average_pool_grad", {Normal(y)}, of_gradient));
    cases.back().condition = 4;
  }
  const Attributes attributes = {
      {"window", Ints{3, 3}}, {"stride", Ints{2, 2}}, {"padding", Ints{1, 1}}};
  const Shape x = {2, 9, 9, 21}, y = {2, 5, 5, 21};
  for (const char* op : {"max_pool", "average_pool"}) {
    cases.push_back(SpecialCase(op, {SomeNaN(x)}, attributes));
    cases.push_back(MakeCase(op, "infinities", {Special(x)}, attributes));
  }
  cases.push_back(SpecialCase("max_pool_grad", {SomeNaN(y), Integers(DType::kU8, y, 0, 9)},
                              WithShape(attributes, x)));
  cases.push_back(SpecialCase("average_pool_grad", {SomeNaN(y)}, WithShape(attributes, x)));
}

void AddCropCases(std::vector<Case>& cases) {
  int64_t seed = 3;
  const auto add = [&](const Shape& shape, int64_t padding, bool flip, Attributes part = {}) {
    Attributes attributes = {
        {"padding", padding}, {"flip", flip}, {"random_path", std::string("augment.crop")}};
    for (const auto& [name, value] : part.entries()) attributes.Set(name, value);
    cases.push_back(MakeCase("random_crop_flip",
                             {Integers(DType::kU8, shape, 1, 256), Scalar(DType::kI64, seed),
                              Scalar(DType::kI64, seed / 2)},
                             attributes));
    seed = seed * 5 % 1000003;
  };
  for (const bool flip : {false, true}) {
    add({1, 1, 1, 1}, 0, flip);
    add({7, 5, 6, 1}, 2, flip);
    add({6, 6, 4, 3}, 3, flip);
    add({5, 2, 9, 2}, 1, flip);
    add({4, 8, 8, 5}, 0, flip);
    add({40, 28, 28, 1}, 4, flip);
    add({9, 50, 40, 3}, 39, flip);
    add({0, 4, 4, 3}, 1, flip);
    add({2, 4, 4, 0}, 1, flip);
    add({2, 0, 4, 3}, 0, flip);
  }
  const auto add_part = [&](const Shape& shape, Ints start, Ints global) {
    add(shape, 2, true, {{"start", std::move(start)}, {"global_shape", std::move(global)}});
  };
  add_part({3, 5, 6, 2}, {4, 0, 0, 0}, {7, 5, 6, 2});
  add_part({3, 5, 6, 2}, {0, 0, 0, 1}, {3, 5, 6, 4});
  add_part({0, 5, 6, 2}, {7, 0, 0, 0}, {7, 5, 6, 2});
}

}  // namespace

std::vector<Case> PictureCases() {
  std::vector<Case> cases;
  AddConvolutionCases(cases);
  AddPoolingCases(cases);
  AddCropCases(cases);
  return cases;
}

}  // namespace tessera::operator_tests
