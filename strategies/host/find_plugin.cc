#include "strategies/host/find_plugin.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/posix/program_files.h"
#include "core/status/status_macros.h"
#include "core/text/nearest_name.h"
#include "core/text/plain_name.h"
#include "core/text/quote.h"

namespace tessera {
namespace {

constexpr absl::string_view kOwnStrategies[] = {"ddp", "fsdp", "osdp", "tensor"};
constexpr char kPathVariable[] = "TESSERA_STRATEGY_PATH";

bool IsFile(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

// Returns the file of a name, which has no "/". NotFound says where it is not.
absl::StatusOr<PluginFile> FindByName(const std::string& name) {
  const std::string file = absl::StrCat(name, ".so");
  if (const char* const folders = std::getenv(kPathVariable)) {
    for (const absl::string_view folder : absl::StrSplit(folders, ':', absl::SkipEmpty())) {
      std::string path = absl::StrCat(folder, "/", file);
      if (IsFile(path)) return PluginFile{std::move(path), /*comes_with_program=*/false};
    }
  }
  absl::StatusOr<std::string> own =
      FindProgramFile(absl::StrCat("tessera/strategies/", name, "/", file));
  if (own.ok()) return PluginFile{*std::move(own), /*comes_with_program=*/true};
  return absl::NotFoundError(
      absl::StrCat("no folder of ", kPathVariable, " has it, and ", own.status().message()));
}

}  // namespace

absl::Span<const absl::string_view> BundledStrategies() { return kOwnStrategies; }

absl::StatusOr<PluginFile> FindPlugin(const std::string& strategy) {
  if (absl::StrContains(strategy, '/') || absl::EndsWith(strategy, ".so")) {
    if (IsFile(strategy)) return PluginFile{strategy, /*comes_with_program=*/false};
    return absl::NotFoundError(absl::StrCat("there is no strategy plugin ", strategy));
  }
  absl::StatusOr<PluginFile> found = FindByName(strategy);
  if (found.ok()) return found;
  const std::vector<std::string> own(BundledStrategies().begin(), BundledStrategies().end());
  // A program that was moved does not find its own plugins.
  const bool is_own = absl::c_linear_search(own, strategy);
  return absl::NotFoundError(absl::StrCat(
      "there is no strategy ", Quote(strategy), is_own ? "" : DidYouMean(strategy, own), "; ",
      found.status().message(), "; Tessera has ", absl::StrJoin(own, ", "),
      ", and a plugin may be named by its path"));
}

absl::StatusOr<PluginFile> FindPluginOfPlan(const std::string& name) {
  if (!IsPlainName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the Plan names the strategy plugin ", Quote(name),
                     ": a Plan names a plugin by its name and version, never by a path"));
  }
  absl::StatusOr<PluginFile> found = FindByName(name);
  if (found.ok()) return found;
  return absl::NotFoundError(absl::StrCat("the Plan needs a pass of the strategy plugin ",
                                          Quote(name),
                                          ", which is not installed: ", found.status().message(),
                                          "; name its folder in ", kPathVariable));
}

}  // namespace tessera
