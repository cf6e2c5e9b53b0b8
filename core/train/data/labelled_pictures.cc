#include "core/train/data/labelled_pictures.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "core/status/status_macros.h"
#include "core/text/counted.h"
#include "core/train/checkpoint/checksum.h"

namespace tessera {
namespace {

absl::Span<const char> AsChars(const std::vector<uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

absl::Status CheckPictures(const IdxFile& pictures) {
  if (pictures.shape.size() == 3 || pictures.shape.size() == 4) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      pictures.path, ": holds no pictures: its dimensions are ", ShapeToString(pictures.shape),
      ", and [count, height, width] or [count, height, width, channels] would be right"));
}

// Returns pictures without labels. The shape must have passed CheckPictures.
LabelledPictures WithoutLabels(IdxFile pictures) {
  LabelledPictures unlabelled;
  unlabelled.count = pictures.shape[0];
  unlabelled.height = pictures.shape[1];
  unlabelled.width = pictures.shape[2];
  unlabelled.channels = pictures.shape.size() == 4 ? pictures.shape[3] : 1;
  unlabelled.pixels = std::move(pictures.data);
  return unlabelled;
}

absl::Status CheckShapes(const IdxFile& pictures, const IdxFile& labels) {
  RETURN_IF_ERROR(CheckPictures(pictures));
  if (labels.shape.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(labels.path, ": holds no labels: its dimensions are ",
                     ShapeToString(labels.shape), ", and [count] would be right"));
  }
  if (labels.shape[0] != pictures.shape[0]) {
    return absl::InvalidArgumentError(absl::StrCat(
        labels.path, ": holds ", Counted(labels.shape[0], "label"), " for the ",
        Counted(pictures.shape[0], "picture"), " of ", pictures.path, ": as many would be right"));
  }
  return absl::OkStatus();
}

absl::Status CheckLabels(const IdxFile& labels, int classes) {
  const auto wrong = std::find_if(labels.data.begin(), labels.data.end(),
                                  [classes](uint8_t label) { return label >= classes; });
  if (wrong == labels.data.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      labels.path, ": the label of picture ", wrong - labels.data.begin(), " is ", int{*wrong},
      ": with ", Counted(classes, "class", "es"), " 0 to ", classes - 1, " would be right"));
}

}  // namespace

std::string LabelledPictures::Fingerprint() const {
  Checksum checksum;
  checksum.Update(AsChars(pixels));
  checksum.Update(AsChars(labels));
  return absl::StrCat(Counted(count, "picture"), " of ", height, " x ", width, " x ", channels,
                      ", XXH3-128 ", checksum.Hex());
}

absl::StatusOr<LabelledPictures> JoinLabels(IdxFile pictures, IdxFile labels, int classes) {
  constexpr int kMostClasses = 256;  // of labels of one byte
  if (classes < 1 || classes > kMostClasses) {
    return absl::InvalidArgumentError(absl::StrCat(labels.path, ": cannot read labels of ",
                                                   Counted(classes, "class", "es"), ": 1 to ",
                                                   kMostClasses, " would be right"));
  }
  RETURN_IF_ERROR(CheckShapes(pictures, labels));
  RETURN_IF_ERROR(CheckLabels(labels, classes));
  LabelledPictures joined = WithoutLabels(std::move(pictures));
  joined.labels = std::move(labels.data);
  return joined;
}

absl::StatusOr<LabelledPictures> ReadUnlabelledPictures(const std::string& path) {
  ASSIGN_OR_RETURN(IdxFile pictures, ReadIdxFile(path));
  RETURN_IF_ERROR(CheckPictures(pictures));
  return WithoutLabels(std::move(pictures));
}

absl::StatusOr<LabelledPictures> ReadLabelledPictures(const std::string& pictures_path,
                                                      const std::string& labels_path, int classes) {
  // The labels are read first: their faults show before the pictures are decompressed.
  ASSIGN_OR_RETURN(IdxFile labels, ReadIdxFile(labels_path));
  ASSIGN_OR_RETURN(IdxFile pictures, ReadIdxFile(pictures_path));
  return JoinLabels(std::move(pictures), std::move(labels), classes);
}

absl::StatusOr<PictureFolder> FindPictures(const std::string& folder) {
  struct stat info;
  if (stat(folder.c_str(), &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat(folder, ": cannot open the folder"));
  }
  if (!S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": is a file: the folder of the data set would be right"));
  }
  std::vector<std::string> missing;
  const auto find = [&](const std::string& name) {
    for (const std::string& candidate : {name, name + ".gz"}) {
      std::string path = absl::StrCat(folder, "/", candidate);
      if (access(path.c_str(), F_OK) == 0) return path;
    }
    missing.push_back(name);
    return std::string();
  };
  PictureFolder found;
  found.train = {find("train-images-idx3-ubyte"), find("train-labels-idx1-ubyte")};
  found.test = {find("t10k-images-idx3-ubyte"), find("t10k-labels-idx1-ubyte")};
  if (missing.empty()) return found;
  return absl::NotFoundError(absl::StrCat(
      folder, ": holds no ", absl::StrJoin(missing, ", no "),
      ": the four files of MNIST would be right, each with or without .gz after its name"));
}

}  // namespace tessera
