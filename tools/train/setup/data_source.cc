#include "tools/train/setup/data_source.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/language_model.h"
#include "core/posix/program_files.h"
#include "core/status/status_macros.h"
#include "core/train/data/check_once.h"
#include "core/train/data/picture_dataset.h"
#include "core/train/data/synthetic_dataset.h"
#include "core/train/data/synthetic_tokens.h"
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

constexpr char kFashionMnist[] = "fashion-mnist";
constexpr char kFashionMnistFolder[] = "/usr/share/datasets/fashion-mnist";

bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

// Returns the folder of pictures with a name or a path.
absl::StatusOr<std::string> FolderOfPictures(const std::string& file) {
  if (file != kFashionMnist) return file;
  if (IsFolder(kFashionMnistFolder)) return kFashionMnistFolder;
  return absl::NotFoundError(absl::StrCat(
      kFashionMnist, ": ", kFashionMnistFolder,
      " is missing; install Debian's package dataset-fashion-mnist, or name a folder with the "
      "files of such a data set: --data=FOLDER"));
}

constexpr int64_t kSyntheticEvaluationBatches = 8;

// Returns the dataset of data that are no text.
absl::StatusOr<std::unique_ptr<Dataset>> OpenRows(const RunConfig& config, const Model& model) {
  std::vector<BatchField> read = model.BatchFields(config.sequence());
  if (config.data().file() == kSyntheticData) {
    if (const LanguageModel* const language = model.AsLanguageModel(); language != nullptr) {
      return SyntheticTokens::Create(language->vocabulary(), config.sequence(), config.batch(),
                                     config.seed());
    }
    return SyntheticDataset::Create(std::move(read), kSyntheticEvaluationBatches * config.batch(),
                                    config.seed());
  }
  constexpr int kMostClasses = 256;
  const BatchField* const labels = FindField(read, kLabels);
  const bool limited = labels != nullptr && labels->limit > 0 && labels->limit < kMostClasses;
  ASSIGN_OR_RETURN(const std::string folder, FolderOfPictures(config.data().file()));
  ASSIGN_OR_RETURN(
      std::unique_ptr<PictureDataset> pictures,
      PictureDataset::Open(folder, limited ? static_cast<int>(labels->limit) : kMostClasses,
                           config.seed()));
  RETURN_IF_ERROR(CheckFields(read, pictures->fields()));
  return pictures;
}

}  // namespace

bool IsNameOfData(absl::string_view file) {
  return file == kSyntheticData || file == kFashionMnist;
}

absl::StatusOr<std::unique_ptr<MappedFile>> MapText(const RunConfig& config, const Model& model) {
  std::string file = config.data().file();
  if (file == kSyntheticData) return nullptr;
  const std::vector<BatchField> read = model.BatchFields(config.sequence());
  if (IsNameOfData(file) || IsFolder(file)) {
    if (FindField(read, kPictures) != nullptr) return nullptr;
    return absl::InvalidArgumentError(absl::StrCat(file, " holds pictures, and the model reads ",
                                                   FieldsText(read), ": name a file"));
  }
  if (file.empty()) {
    ASSIGN_OR_RETURN(file, FindCorpus());
  }
  ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> text, TextDataset::Map(file, config.sequence()));
  RETURN_IF_ERROR(CheckBeginningOfText(text->path(), text->contents()));
  RETURN_IF_ERROR(CheckFields(read, TextDataset::FieldsOf(config.sequence())));
  return text;
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const RunConfig& config, const Model& model,
                                                     std::unique_ptr<MappedFile> text,
                                                     Ranks& ranks) {
  const auto check = [](const MappedFile& file) { return CheckText(file.path(), file.contents()); };
  // Also without a text: other ranks, by mistake, may have one.
  ASSIGN_OR_RETURN(std::string checksum, CheckOncePerHost(text.get(), check, ranks));
  if (text == nullptr) return OpenRows(config, model);
  return TextDataset::Create(std::move(text), std::move(checksum), config.sequence(),
                             config.seed());
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenRowsToPredict(const RunConfig& config,
                                                           const Model& model) {
  std::vector<BatchField> read = model.PredictionFields(config.sequence());
  const std::string& file = config.data().file();
  if (file == kSyntheticData) {
    return SyntheticDataset::Create(std::move(read), kSyntheticEvaluationBatches * config.batch(),
                                    config.seed());
  }
  if (FindField(read, kPictures) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": the model reads ", FieldsText(read), ", and no pictures"));
  }
  if (IsNameOfData(file) || IsFolder(file)) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, ": is a folder: --mode=predict takes a file of pictures without labels, such as the ",
        "folder's t10k-images-idx3-ubyte"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<UnlabelledPictureDataset> pictures,
                   UnlabelledPictureDataset::Open(file));
  RETURN_IF_ERROR(CheckFields(read, pictures->fields()));
  return pictures;
}

}  // namespace tessera
