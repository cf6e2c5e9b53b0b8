#include "core/posix/program_files.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tools/cpp/runfiles/runfiles.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using ::bazel::tools::cpp::runfiles::Runfiles;

// Returns the path that a variable holds. A relative one is ignored: it would start at the working
// directory.
std::string AbsolutePathIn(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && value[0] == '/' ? value : "";
}

// Returns the path of a runfile as Bazel's library knows it; "" if it does not.
std::string PathInRunfiles(const std::string& program, const std::string& runfile) {
  std::string unused_error;
  const std::unique_ptr<Runfiles> runfiles(
      Runfiles::Create(program, AbsolutePathIn("RUNFILES_MANIFEST_FILE"),
                       AbsolutePathIn("RUNFILES_DIR"), &unused_error));
  return runfiles == nullptr ? "" : runfiles->Rlocation(runfile);
}

// Returns the possible paths of a file, in the order of the search.
std::vector<std::string> Candidates(const std::string& runfile) {
  const std::string program = ProgramPath();
  std::vector<std::string> candidates = {PathInRunfiles(program, runfile)};
  if (!program.empty()) {
    candidates.push_back(absl::StrCat(program, ".runfiles/", runfile));
    candidates.push_back((fs::path(program).parent_path() / fs::path(runfile).filename()).string());
  }
  return candidates;
}

bool IsFile(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

}  // namespace

std::string ProgramPath() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  return error || !path.is_absolute() ? "" : path.string();
}

absl::StatusOr<std::string> FindProgramFile(absl::string_view runfile) {
  const std::vector<absl::string_view> parts = absl::StrSplit(runfile, '/');
  const std::string name(parts.back());
  if (name.empty() || absl::c_linear_search(parts, "..")) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", runfile, "' is no path of a file that comes with this program"));
  }
  std::vector<std::string> folders;
  for (const std::string& candidate : Candidates(std::string(runfile))) {
    if (!absl::StartsWith(candidate, "/")) continue;
    if (IsFile(candidate)) return candidate;
    const std::string folder = fs::path(candidate).parent_path().string();
    if (!absl::c_linear_search(folders, folder)) folders.push_back(folder);
  }
  return absl::NotFoundError(absl::StrCat(name, " is in none of ", absl::StrJoin(folders, ", ")));
}

}  // namespace tessera
