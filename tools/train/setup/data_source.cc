#include "tools/train/setup/data_source.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/posix/program_files.h"
#include "core/status/status_macros.h"
#include "core/train/data/check_once.h"
#include "core/train/data/synthetic_dataset.h"
#include "core/train/data/text_check.h"
#include "core/train/data/text_dataset.h"

namespace tessera {
namespace {

constexpr char kCorpusRunfile[] = "tessera/third_party/bible_kjv/bible_kjv.txt";

absl::StatusOr<std::string> FindCorpus() {
  absl::StatusOr<std::string> corpus = FindProgramFile(kCorpusRunfile);
  if (corpus.ok()) return corpus;
  return absl::NotFoundError(absl::StrCat(
      "the corpus that comes with this program is missing: ", corpus.status().message(),
      "; name a text with --data=FILE"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MappedFile>> MapText(const RunConfig& config, int64_t vocabulary) {
  std::string file = config.data().file();
  if (file == kSyntheticData) return nullptr;
  if (file.empty()) {
    ASSIGN_OR_RETURN(file, FindCorpus());
  }
  ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> text, TextDataset::Map(file, config.sequence()));
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
