#include "core/posix/user_folder.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string WorkingDirectory() {
  std::error_code error;
  const fs::path here = fs::current_path(error);
  return error ? "." : here.string();
}

// Returns "" unless `bazel run` has started the process.
std::string FolderFromBazel() {
  const char* const folder = std::getenv("BUILD_WORKING_DIRECTORY");
  return folder != nullptr && folder[0] == '/' ? folder : "";
}

std::string Absolute(const std::string& folder, absl::string_view path) {
  const fs::path absolute = fs::path(folder) / std::string(path);
  std::string normal = absolute.lexically_normal().string();
  while (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal;
}

}  // namespace

absl::StatusOr<std::string> EnterUserFolder(absl::string_view argv0) {
  const std::string folder = FolderFromBazel();
  if (folder.empty()) return std::string(argv0);
  const std::string before = WorkingDirectory();
  if (chdir(folder.c_str()) != 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot change to ", folder, ", which BUILD_WORKING_DIRECTORY names"));
  }
  // A name without a slash was found in $PATH.
  return absl::StrContains(argv0, '/') ? Absolute(before, argv0) : std::string(argv0);
}

std::string UserPath(absl::string_view path) {
  if (path.empty()) return "";
  const std::string folder = FolderFromBazel();
  return Absolute(folder.empty() ? WorkingDirectory() : folder, path);
}

}  // namespace tessera
