// Reads a text, of which each byte is a token: a file, or the corpus that comes with the program.
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/model/token_fields.h"
#include "core/posix/program_files.h"
#include "core/status/status_macros.h"
#include "core/train/data/readers/readers.h"
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

absl::StatusOr<UnreadData> Open(const DataRequest& request) {
  std::string path = request.file;
  if (path.empty()) {
    ASSIGN_OR_RETURN(path, FindCorpus());
  }
  ASSIGN_OR_RETURN(std::unique_ptr<DataFile> file, TextDataset::OpenFile(path, request.sequence));
  RETURN_IF_ERROR(CheckBeginningOfText(*file));
  RETURN_IF_ERROR(CheckFieldsOf(file->path(), request, TokenFields(request.sequence, kByteTokens)));
  UnreadData data;
  data.file = std::move(file);
  data.check = [](const DataFile& text) { return CheckText(text); };
  data.read = [request](std::unique_ptr<DataFile> text, std::string checksum) {
    return TextDataset::Create(std::move(text), std::move(checksum), request.sequence,
                               request.seed);
  };
  return data;
}

}  // namespace

const Reader& TextReader() {
  static const auto* const reader = new Reader{
      .name = "text",
      .takes = "a UTF-8 text, of which each byte is a token (without --data, the King James Bible)",
      .takes_path = [](const std::string& /*path*/) { return true; },
      .provides = {kTokens, kTargets},
      .tokens_are_bytes = true,
      .open = Open};
  return *reader;
}

}  // namespace tessera
