// Writes sample reports, to look at: compare2.html, compare6.html, large.html and plan.html, in the
// folder that the argument names.
//
//   ./bazelw run //tools/report/testing:sample_report -- /tmp
#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tools/report/report.h"
#include "tools/report/testing/sample_data.h"

namespace tessera {
namespace {

bool Write(const std::string& folder, const std::string& name, const ReportData& data) {
  const std::string path = absl::StrCat(folder, "/", name);
  const std::string html = ReportHtml(data);
  std::ofstream file(path);
  file << html;
  file.close();
  std::printf("%s: %zu bytes\n", path.c_str(), html.size());
  return file.good();
}

bool WriteAll(const std::string& folder) {
  return Write(folder, "compare2.html", SampleComparison(2)) &&
         Write(folder, "compare6.html", SampleComparison(6)) &&
         Write(folder, "large.html", SampleComparison(6, /*layers=*/96, /*channels=*/16)) &&
         Write(folder, "plan.html", SamplePlanning());
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 1;
  }
  return tessera::WriteAll(argv[1]) ? 0 : 1;
}
