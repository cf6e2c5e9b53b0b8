#include "tools/train/setup/data_source.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/data/check_once.h"
#include "core/train/data/synthetic_dataset.h"
#include "core/train/data/text_check.h"
#include "core/train/data/text_dataset.h"
#include "tools/cpp/runfiles/runfiles.h"

namespace tessera {
namespace {

using ::bazel::tools::cpp::runfiles::Runfiles;

constexpr char kCorpusRunfile[] = "tessera/third_party/bible_kjv/bible_kjv.txt";
constexpr char kCorpusName[] = "bible_kjv.txt";

absl::StatusOr<std::string> FindCorpus(const std::string& argv0) {
  std::vector<std::string> candidates;
  std::string error;
  const std::unique_ptr<Runfiles> runfiles(Runfiles::Create(argv0, &error));
  if (runfiles != nullptr) candidates.push_back(runfiles->Rlocation(kCorpusRunfile));
  std::error_code no_link;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", no_link);
  if (!no_link) {
    candidates.push_back((program.parent_path() / kCorpusName).string());
    candidates.push_back(absl::StrCat(program.string(), ".runfiles/", kCorpusRunfile));
  }
  for (const std::string& candidate : candidates) {
    if (!candidate.empty() && Exists(candidate)) return candidate;
  }
  return absl::NotFoundError(absl::StrCat("the corpus that comes with this program, ", kCorpusName,
                                          ", is neither among its runfiles nor beside it: name a "
                                          "text with --data=FILE"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MappedFile>> FindText(const RunConfig& config, int64_t vocabulary,
                                                     const std::string& argv0) {
  std::string file = config.data().file();
  if (file == kSyntheticData) return nullptr;
  if (file.empty()) {
    ASSIGN_OR_RETURN(file, FindCorpus(argv0));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> text, TextDataset::Find(file, config.sequence()));
  RETURN_IF_ERROR(CheckBeginningOfText(text->path(), text->contents()));
  if (vocabulary < kByteTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.vocabulary is ", vocabulary, ": a text has ", kByteTokens,
                     " kinds of bytes, so it must be ", kByteTokens, " or more"));
  }
  return text;
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const RunConfig& config, int64_t vocabulary,
                                                     std::unique_ptr<MappedFile> text,
                                                     Ranks& ranks) {
  const auto check = [](const MappedFile& file) { return CheckText(file.path(), file.contents()); };
  // Also without a text: other ranks, by mistake, may have one.
  ASSIGN_OR_RETURN(std::string checksum, CheckOncePerHost(text.get(), check, ranks));
  if (text == nullptr) return SyntheticDataset::Create(vocabulary, config.seed());
  return TextDataset::Create(std::move(text), std::move(checksum), config.sequence(),
                             config.seed());
}

}  // namespace tessera
