// The text of docs/layout-signatures.md, which shows what operators declare and what they lack.
#ifndef TESSERA_TESTS_OPERATORS_SIGNATURES_SIGNATURE_PAGE_H_
#define TESSERA_TESTS_OPERATORS_SIGNATURES_SIGNATURE_PAGE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "tests/operators/signatures/case_space.h"
#include "tests/operators/signatures/signature_space.h"

namespace tessera::operator_tests {

// Returns the text before the rows of the table, and after them.
std::string PageHead();
std::string PageEnd();

// Returns the row of a family; it ends with a newline.
std::string PageRow(const CaseFamily& family, const DecidedSignatures& decided);

// Returns how the rows of an operator begin. No other line of the page begins so.
std::string RowStart(absl::string_view op);

}  // namespace tessera::operator_tests

#endif  // TESSERA_TESTS_OPERATORS_SIGNATURES_SIGNATURE_PAGE_H_
