// Pictures of which each shows a thing of one class: the data sets that have the files of MNIST.
// And pictures of which it is not known what they show.
#ifndef TESSERA_CORE_TRAIN_DATA_LABELLED_PICTURES_H_
#define TESSERA_CORE_TRAIN_DATA_LABELLED_PICTURES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/train/data/idx_file.h"

namespace tessera {

struct LabelledPictures {
  int64_t count = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  std::vector<uint8_t> pixels;  // [count, height, width, channels]
  std::vector<uint8_t> labels;  // [count], each less than the number of classes; or none

  // Identifies the data: the same text for the same pictures and labels, wherever and however they
  // are stored. "60000 pictures of 28 x 28 x 1, XXH3-128 1f3c...". Reads all of them.
  std::string Fingerprint() const;
};

// Reads a file of pictures, [count, height, width] or [count, height, width, channels], and one of
// labels, [count]. There are 1 to 256 classes. An error of ReadIdxFile, or InvalidArgument, in one
// line that starts with a path: for files of other shapes, of different numbers of pictures and
// labels, and for a label that is no class. Thread-safe.
absl::StatusOr<LabelledPictures> ReadLabelledPictures(const std::string& pictures_path,
                                                      const std::string& labels_path, int classes);

// Does the same with two files that have been read. Thread safety: a pure function.
absl::StatusOr<LabelledPictures> JoinLabels(IdxFile pictures, IdxFile labels, int classes);

// Reads a file of pictures alone, with the errors of ReadLabelledPictures. Thread-safe.
absl::StatusOr<LabelledPictures> ReadUnlabelledPictures(const std::string& path);

struct LabelledPicturesPaths {
  std::string pictures;
  std::string labels;
};
// The files of a data set such as MNIST.
struct PictureFolder {
  LabelledPicturesPaths train;
  LabelledPicturesPaths test;
};

// Finds train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
// t10k-labels-idx1-ubyte in a folder. Each may also have ".gz" after its name; if there are both,
// the one without is taken. The system's error if the folder cannot be opened, and NotFound with
// all names that are missing. Thread-safe.
absl::StatusOr<PictureFolder> FindPictures(const std::string& folder);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_LABELLED_PICTURES_H_
