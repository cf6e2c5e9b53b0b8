#include "core/train/data/picture_dataset.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/ops/ops.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/state_shard.h"
#include "core/train/data/shuffle.h"

namespace tessera {
namespace {

Shape ShapeOf(const LabelledPictures& pictures) {
  return {pictures.height, pictures.width, pictures.channels};
}

BatchField FieldOfPictures(const Shape& shape) { return {kPictures, {DType::kU8, shape}, 256}; }

std::vector<BatchField> FieldsOf(const Shape& shape, int classes) {
  return {FieldOfPictures(shape), {kLabels, {DType::kI32, {}}, classes, kIgnoreIndex}};
}

// Copies the part of a picture that is in a box of pictures, and returns where the copy ends.
char* CopyPart(const LabelledPictures& from, int64_t picture, const Box& box, char* out) {
  const Box part = {Shape(box.start.begin() + 1, box.start.end()),
                    Shape(box.extent.begin() + 1, box.extent.end())};
  const Shape shape = ShapeOf(from);
  const uint8_t* const pixels = from.pixels.data() + picture * NumElements(shape);
  SharedRuns runs((StateShard(part)), FullShard(shape));
  while (const std::optional<SharedRun> run = runs.Next()) {
    out = std::copy_n(pixels + run->second, run->count, out);
  }
  return out;
}

}  // namespace

PictureDataset::PictureDataset(LabelledPictures training, LabelledPictures evaluation, int classes,
                               uint64_t seed)
    : training_(std::move(training)),
      evaluation_(std::move(evaluation)),
      fields_(FieldsOf(ShapeOf(training_), classes)),
      fingerprint_(
          absl::StrCat(training_.Fingerprint(), ", and to evaluate ", evaluation_.Fingerprint())),
      order_(MakeStream(seed, "data.order")) {}

absl::StatusOr<std::unique_ptr<PictureDataset>> PictureDataset::Open(const std::string& folder,
                                                                     int classes, uint64_t seed) {
  ASSIGN_OR_RETURN(const PictureFolder files, FindPictures(folder));
  const auto read = [classes](const LabelledPicturesPaths& paths) {
    return ReadLabelledPictures(paths.pictures, paths.labels, classes);
  };
  ASSIGN_OR_RETURN(LabelledPictures training, read(files.train));
  ASSIGN_OR_RETURN(LabelledPictures evaluation, read(files.test));
  if (ShapeOf(training) != ShapeOf(evaluation)) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.test.pictures, ": its pictures are ", ShapeToString(ShapeOf(evaluation)),
                     ", and those of ", files.train.pictures, " are ",
                     ShapeToString(ShapeOf(training)), ": they must have one size"));
  }
  return std::unique_ptr<PictureDataset>(
      new PictureDataset(std::move(training), std::move(evaluation), classes, seed));
}

absl::Status PictureDataset::Read(DataSplit split, size_t field, const Box& box,
                                  absl::Span<char> bytes) const {
  RETURN_IF_ERROR(CheckRead(split, field, box, bytes));
  const bool trains = split == DataSplit::kTrain;
  const LabelledPictures& from = trains ? training_ : evaluation_;
  char* out = bytes.data();
  for (int64_t row = box.start[0]; row < box.start[0] + box.extent[0]; ++row) {
    const int64_t picture =
        trains ? Shuffle(order_, row / from.count, from.count)(row % from.count) : row;
    if (field == 1) {
      reinterpret_cast<int32_t*>(bytes.data())[row - box.start[0]] = from.labels[picture];
      continue;
    }
    out = CopyPart(from, picture, box, out);
  }
  return absl::OkStatus();
}

UnlabelledPictureDataset::UnlabelledPictureDataset(LabelledPictures pictures)
    : pictures_(std::move(pictures)),
      fields_({FieldOfPictures(ShapeOf(pictures_))}),
      fingerprint_(pictures_.Fingerprint()) {}

absl::StatusOr<std::unique_ptr<UnlabelledPictureDataset>> UnlabelledPictureDataset::Open(
    const std::string& path) {
  ASSIGN_OR_RETURN(LabelledPictures pictures, ReadUnlabelledPictures(path));
  return std::unique_ptr<UnlabelledPictureDataset>(
      new UnlabelledPictureDataset(std::move(pictures)));
}

absl::Status UnlabelledPictureDataset::Read(DataSplit split, size_t field, const Box& box,
                                            absl::Span<char> bytes) const {
  RETURN_IF_ERROR(CheckRead(split, field, box, bytes));
  if (split == DataSplit::kTrain) {
    return absl::OutOfRangeError("pictures without labels have no rows to train on");
  }
  char* out = bytes.data();
  for (int64_t row = box.start[0]; row < box.start[0] + box.extent[0]; ++row) {
    out = CopyPart(pictures_, row, box, out);
  }
  return absl::OkStatus();
}

}  // namespace tessera
