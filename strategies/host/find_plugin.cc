#include "strategies/host/find_plugin.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/text/nearest_name.h"
#include "tools/cpp/runfiles/runfiles.h"

namespace tessera {
namespace {

using ::bazel::tools::cpp::runfiles::Runfiles;

constexpr absl::string_view kOwnStrategies[] = {"ddp", "fsdp"};
constexpr char kPathVariable[] = "TESSERA_STRATEGY_PATH";

bool IsFile(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

// Returns the possible paths of the plugin NAME.so, in the order of the search.
std::vector<std::string> Candidates(const std::string& name, const std::string& argv0) {
  std::vector<std::string> candidates;
  const std::string file = absl::StrCat(name, ".so");
  if (const char* const folders = std::getenv(kPathVariable)) {
    for (const absl::string_view folder : absl::StrSplit(folders, ':', absl::SkipEmpty())) {
      candidates.push_back(absl::StrCat(folder, "/", file));
    }
  }
  const std::string runfile = absl::StrCat("tessera/strategies/", name, "/", file);
  std::string error;
  const std::unique_ptr<Runfiles> runfiles(Runfiles::Create(argv0, &error));
  if (runfiles != nullptr) candidates.push_back(runfiles->Rlocation(runfile));
  std::error_code no_link;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", no_link);
  if (!no_link) {
    candidates.push_back(absl::StrCat(program.string(), ".runfiles/", runfile));
    candidates.push_back((program.parent_path() / file).string());
  }
  return candidates;
}

}  // namespace

absl::Span<const absl::string_view> OwnStrategies() { return kOwnStrategies; }

absl::StatusOr<std::string> FindPlugin(const std::string& strategy, const std::string& argv0) {
  if (absl::StrContains(strategy, '/') || absl::EndsWith(strategy, ".so")) {
    if (IsFile(strategy)) {
      // Without a "/" the loader would search the system's folders.
      return absl::StrContains(strategy, '/') ? strategy : absl::StrCat("./", strategy);
    }
    return absl::NotFoundError(absl::StrCat("there is no strategy plugin ", strategy));
  }
  std::vector<std::string> folders;
  for (const std::string& candidate : Candidates(strategy, argv0)) {
    if (candidate.empty()) continue;
    if (IsFile(candidate)) return candidate;
    folders.push_back(std::filesystem::path(candidate).parent_path().string());
  }
  const std::vector<std::string> own(OwnStrategies().begin(), OwnStrategies().end());
  // A program that was moved does not find its own plugins.
  const bool is_own = absl::c_linear_search(own, strategy);
  return absl::NotFoundError(
      absl::StrCat("there is no strategy '", strategy, "'", is_own ? "" : DidYouMean(strategy, own),
                   "; ", strategy, ".so is neither in a folder of ", kPathVariable, " nor in ",
                   absl::StrJoin(folders, ", "), "; Tessera has ", absl::StrJoin(own, ", "),
                   ", and a plugin may be named by its path"));
}

}  // namespace tessera
