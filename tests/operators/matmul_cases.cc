#include "tests/operators/case_list.h"

namespace tessera::operator_tests {
namespace {

Shape Concatenated(Shape leading, int64_t rows, int64_t columns) {
  leading.push_back(rows);
  leading.push_back(columns);
  return leading;
}

// [..., M, K] times [..., K, N]
Case Product(const Shape& a_leading, const Shape& b_leading, int64_t m, int64_t k, int64_t n,
             bool transpose_a, bool transpose_b) {
  return MakeCase(
      "matmul",
      {Normal(transpose_a ? Concatenated(a_leading, k, m) : Concatenated(a_leading, m, k)),
       Normal(transpose_b ? Concatenated(b_leading, n, k) : Concatenated(b_leading, k, n))},
      {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

}  // namespace

std::vector<Case> MatMulCases() {
  std::vector<Case> cases;
  struct Sizes {
    int64_t m, k, n;
  };
  const Sizes matrices[] = {{3, 4, 5},
                            {1, 7, 1},
                            {1, 1, 1},
                            {17, 33, 9},
                            {5, 1, 3},
                            {0, 3, 2},
                            {3, 2, 0},
                            {3, 0, 2},
                            {1, 64, 9},
                            {66, 5, 1},
                            {70, 65, 130},
                            // Rows of a multiple of 1024 bytes, which some kernels copy.
                            {3, 512, 2},
                            {256, 2, 512}};
  for (bool transpose_a : {false, true}) {
    for (bool transpose_b : {false, true}) {
      const auto add = [&](const Shape& a, const Shape& b, int64_t m, int64_t k, int64_t n) {
        cases.push_back(Product(a, b, m, k, n, transpose_a, transpose_b));
      };
      for (const auto& [m, k, n] : matrices) add({}, {}, m, k, n);
      add({2}, {2}, 3, 4, 5);
      add({2, 3}, {2, 3}, 3, 4, 5);
      add({1}, {1}, 3, 4, 5);
      add({0}, {0}, 3, 4, 5);
      add({5, 1, 2}, {5, 1, 2}, 1, 3, 2);
      add({6, 4}, {6, 4}, 33, 16, 35);
      if (transpose_a) continue;
      add({2}, {}, 3, 4, 5);
      add({2, 3}, {}, 3, 4, 5);
      add({1}, {}, 1, 4, 5);
      add({0}, {}, 3, 4, 5);
      add({2, 17}, {}, 3, 65, 34);
    }
  }
  // Leading dimensions are summed over too.
  for (const Shape& leading : {Shape{2}, Shape{2, 3}, Shape{1}, Shape{0}, Shape{}, Shape{4, 17}}) {
    const auto add = [&](int64_t m, int64_t k, int64_t n) {
      cases.push_back(MakeCase(
          "matmul", {Normal(Concatenated(leading, k, m)), Normal(Concatenated(leading, k, n))},
          {{"contract_leading", true}, {"transpose_a", true}, {"transpose_b", false}}));
      cases.back().condition = 4;
    };
    add(3, 4, 5);
    add(1, 7, 1);
    add(33, 16, 35);
    add(256, 2, 512);
  }
  for (bool transpose : {false, true}) {
    const Attributes attributes = {{"transpose_a", transpose}, {"transpose_b", transpose}};
    cases.push_back(SpecialCase("matmul", {SomeNaN({12, 12}), Normal({12, 12})}, attributes));
    cases.push_back(SpecialCase("matmul", {Normal({40, 40}), SomeNaN({40, 40})}, attributes));
  }
  return cases;
}

}  // namespace tessera::operator_tests
