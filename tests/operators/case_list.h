// The lists of cases, by the sections of docs/operators.md, and short forms to write them in.
#ifndef TESSERA_TESTS_OPERATORS_CASE_LIST_H_
#define TESSERA_TESTS_OPERATORS_CASE_LIST_H_

#include <string>
#include <vector>

#include "tests/operators/cases.h"

namespace tessera::operator_tests {

std::vector<Case> ElementwiseCases();
std::vector<Case> ViewCases();
std::vector<Case> MatMulCases();
std::vector<Case> PictureCases();
std::vector<Case> RowCases();
std::vector<Case> BatchNormCases();
std::vector<Case> AttentionCases();
std::vector<Case> LinearLogSumExpCases();
std::vector<Case> DrawCases();
std::vector<Case> UpdateCases();

CaseInput Normal(const Shape& shape, double mean = 0, double stddev = 1);
CaseInput Uniform(const Shape& shape, double low, double high);
CaseInput AwayFromZero(const Shape& shape);
CaseInput Distinct(const Shape& shape);
CaseInput Special(const Shape& shape);
CaseInput SomeNaN(const Shape& shape);
CaseInput Integers(DType dtype, const Shape& shape, double low, double high);
CaseInput Ids(const Shape& shape, int64_t count);
CaseInput Labels(const Shape& shape, int64_t count);
CaseInput Conditions(const Shape& shape);  // 0, 1 and 2
CaseInput Scalar(double value);
CaseInput Scalar(DType dtype, int64_t value);

// Makes a case whose inputs hold NaN or infinities. They must reach the output; otherwise they
// would go unnoticed.
Case SpecialCase(std::string op, std::vector<CaseInput> inputs, Attributes attributes = {});

// Makes a case that is named for its operator, attributes and types.
Case MakeCase(std::string op, std::vector<CaseInput> inputs, Attributes attributes = {});
// The same with `detail` in the name, for cases that differ in values.
Case MakeCase(std::string op, absl::string_view detail, std::vector<CaseInput> inputs,
              Attributes attributes = {});

}  // namespace tessera::operator_tests

#endif  // TESSERA_TESTS_OPERATORS_CASE_LIST_H_
