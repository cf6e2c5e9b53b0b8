// Pictures with labels, from the files of a data set such as MNIST (labelled_pictures.h), as a
// dataset: its rows are pictures.
//
// Training proceeds in epochs: in each, every picture of the training files is read once, in a
// random order. Rows take the pictures of one epoch after another. Evaluation reads the pictures of
// the test files in their order.
#ifndef TESSERA_CORE_TRAIN_DATA_PICTURE_DATASET_H_
#define TESSERA_CORE_TRAIN_DATA_PICTURE_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/random.h"
#include "core/train/data/dataset.h"
#include "core/train/data/labelled_pictures.h"

namespace tessera {

// The names of the fields.
inline constexpr char kPictures[] = "pictures";
inline constexpr char kLabels[] = "labels";

// Holds the pictures in memory, so that changes of the files are not seen. Thread safety:
// immutable.
class PictureDataset : public Dataset {
 public:
  // Reads the files of a folder, with labels of so many classes. `seed` determines the order of
  // training. The errors of FindPictures and ReadLabelledPictures; InvalidArgument if test pictures
  // have another size.
  static absl::StatusOr<std::unique_ptr<PictureDataset>> Open(const std::string& folder,
                                                              int classes, uint64_t seed);

  // "pictures", u8 [height, width, channels], and "labels", i32 [].
  const std::vector<BatchField>& fields() const override { return fields_; }

  absl::Status Read(DataSplit split, size_t field, const Box& box,
                    absl::Span<char> bytes) const override;

  int64_t RowsPerEpoch(int64_t sequence) const override { return training_.count; }
  int64_t EvaluationRows() const override { return evaluation_.count; }

  // "60000 pictures of 28 x 28 x 1, XXH3-128 1f3c..., and to evaluate 10000 pictures of ...".
  std::string Fingerprint() const override { return fingerprint_; }

 private:
  PictureDataset(LabelledPictures training, LabelledPictures evaluation, int classes,
                 uint64_t seed);

  const LabelledPictures training_, evaluation_;
  const std::vector<BatchField> fields_;
  const std::string fingerprint_;
  const RandomStream order_;
};

// Pictures without labels, from a file of pictures. They have no training rows: evaluation reads
// them in their order. Holds them in memory. Thread safety: immutable.
class UnlabelledPictureDataset : public Dataset {
 public:
  // The errors of ReadUnlabelledPictures.
  static absl::StatusOr<std::unique_ptr<UnlabelledPictureDataset>> Open(const std::string& path);

  // "pictures", u8 [height, width, channels].
  const std::vector<BatchField>& fields() const override { return fields_; }

  // Returns OutOfRange for rows of DataSplit::kTrain.
  absl::Status Read(DataSplit split, size_t field, const Box& box,
                    absl::Span<char> bytes) const override;

  int64_t RowsPerEpoch(int64_t sequence) const override { return 0; }
  int64_t EvaluationRows() const override { return pictures_.count; }

  // "10000 pictures of 28 x 28 x 1, XXH3-128 1f3c...".
  std::string Fingerprint() const override { return fingerprint_; }

 private:
  explicit UnlabelledPictureDataset(LabelledPictures pictures);

  const LabelledPictures pictures_;
  const std::vector<BatchField> fields_;
  const std::string fingerprint_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_PICTURE_DATASET_H_
