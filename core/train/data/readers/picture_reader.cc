// Reads pictures with labels: a folder with the files of a data set such as MNIST.
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/train/data/picture_dataset.h"
#include "core/train/data/readers/readers.h"

namespace tessera {
namespace {

constexpr char kFashionMnist[] = "fashion-mnist";
constexpr char kFashionMnistFolder[] = "/usr/share/datasets/fashion-mnist";

bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

// Returns the folder of a name or a path.
absl::StatusOr<std::string> FolderOf(const std::string& file) {
  if (file != kFashionMnist) return file;
  if (IsFolder(kFashionMnistFolder)) return kFashionMnistFolder;
  return absl::NotFoundError(absl::StrCat(
      kFashionMnist, ": ", kFashionMnistFolder,
      " is missing; install Debian's package dataset-fashion-mnist, or name a folder with the "
      "files of such a data set: --data=FOLDER"));
}

absl::StatusOr<std::unique_ptr<Dataset>> ReadFolder(const DataRequest& request) {
  constexpr int kMostClasses = 256;
  const BatchField* const labels = FindField(request.read, kLabels);
  const bool limited = labels != nullptr && labels->limit > 0 && labels->limit < kMostClasses;
  const int classes = limited ? static_cast<int>(labels->limit) : kMostClasses;
  ASSIGN_OR_RETURN(const std::string folder, FolderOf(request.file));
  ASSIGN_OR_RETURN(std::unique_ptr<PictureDataset> pictures,
                   PictureDataset::Open(folder, classes, request.seed));
  RETURN_IF_ERROR(CheckFieldsOf(folder, request, pictures->fields()));
  return pictures;
}

absl::StatusOr<UnreadData> Open(const DataRequest& request) {
  UnreadData data;
  data.read = [request](std::unique_ptr<DataFile> /*file*/, const std::string& /*checked*/) {
    return ReadFolder(request);
  };
  return data;
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenToPredict(const DataRequest& request) {
  if (request.file == kFashionMnist || IsFolder(request.file)) {
    return absl::InvalidArgumentError(absl::StrCat(
        request.file, ": is a folder: --mode=predict takes ", PictureReader().takes_to_predict));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<UnlabelledPictureDataset> pictures,
                   UnlabelledPictureDataset::Open(request.file));
  RETURN_IF_ERROR(CheckFieldsOf(request.file, request, pictures->fields()));
  return pictures;
}

}  // namespace

const Reader& PictureReader() {
  static const auto* const reader =
      new Reader{.name = "pictures",
                 .takes = "a folder of pictures, in the files of MNIST, or fashion-mnist",
                 .names = {kFashionMnist},
                 .takes_path = IsFolder,
                 .provides = {kPictures, kLabels},
                 .open = Open,
                 .open_to_predict = OpenToPredict,
                 .takes_to_predict =
                     "a file of pictures without labels, such as the folder's "
                     "t10k-images-idx3-ubyte"};
  return *reader;
}

}  // namespace tessera
