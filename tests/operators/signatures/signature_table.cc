// Writes docs/layout-signatures.md:
//   ./bazelw run //tests/operators/signatures:signature_table
// Outside of `bazel run` it prints the page.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/operator_list.h"
#include "tests/operators/signatures/case_space.h"
#include "tests/operators/signatures/signature_page.h"
#include "tests/operators/signatures/signature_space.h"

int main() {
  using namespace tessera;                  // NOLINT(google-build-using-namespace)
  using namespace tessera::operator_tests;  // NOLINT(google-build-using-namespace)
  const auto reference = MakeReferenceBackend();
  std::string page = PageHead();
  int wrong = 0;
  for (const Operator* op : AllOperators()) {
    for (const CaseFamily& family : FamiliesOf(op->name())) {
      const DecidedSignatures decided = DecideSignatures(family, *reference);
      for (const std::string& text : decided.wrong) {
        std::cerr << family.op << " " << family.shapes << ": " << text << "\n";
        ++wrong;
      }
      absl::StrAppend(&page, PageRow(family, decided));
    }
  }
  absl::StrAppend(&page, PageEnd());
  const char* workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  if (workspace == nullptr) {
    std::cout << page;
  } else {
    std::ofstream(absl::StrCat(workspace, "/docs/layout-signatures.md")) << page;
  }
  return wrong == 0 ? 0 : 1;
}
