// Checks that arbitrary files of pictures and labels are read or refused. The first byte of the
// input selects what the rest is: "f" a file, compressed or not, "c" a file that is compressed
// here, so that it also decompresses after a mutation, and any other byte the number of classes,
// the labels after two bytes with their length, and the pictures.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "core/status/check.h"
#include "core/train/data/gzip_reader.h"
#include "core/train/data/idx_file.h"
#include "core/train/data/labelled_pictures.h"
#include "core/train/data/testing/idx_files.h"
#include "tests/fuzz/input.h"

namespace tessera {
namespace {

void CheckError(const absl::Status& status) {
  TESSERA_CHECK(absl::StartsWith(status.message(), "fuzz: ")) << status;
  TESSERA_CHECK(!absl::StrContains(status.message(), '\n')) << status;
}

// Reads a file and checks the result.
absl::StatusOr<IdxFile> Read(absl::string_view contents) {
  absl::StatusOr<IdxFile> file = ParseIdxFile("fuzz", contents);
  if (!file.ok()) {
    CheckError(file.status());
    return file;
  }
  const size_t dimensions = file->shape.size();
  TESSERA_CHECK(dimensions >= 1 && dimensions <= kMostIdxDimensions) << dimensions;
  const auto bytes = static_cast<int64_t>(file->data.size());
  TESSERA_CHECK(bytes == NumElements(file->shape) && bytes > 0) << bytes;
  return file;
}

// A file that is read is the one that its shape and data make.
void FuzzFile(absl::string_view contents) {
  const absl::StatusOr<IdxFile> file = Read(contents);
  if (!file.ok() || IsGzip(contents)) return;
  const std::vector<uint32_t> sizes(file->shape.begin(), file->shape.end());
  const std::string data(file->data.begin(), file->data.end());
  TESSERA_CHECK(IdxContents(sizes, data) == contents) << contents.size();
}

// A file is read or refused, whether it is compressed or not.
void FuzzCompressed(absl::string_view contents) {
  if (IsGzip(contents)) return;
  const absl::StatusOr<IdxFile> plain = Read(contents);
  const absl::StatusOr<IdxFile> compressed = Read(Gzip(contents, 1));
  TESSERA_CHECK(plain.ok() == compressed.ok()) << plain.status() << compressed.status();
  if (!plain.ok()) return;
  TESSERA_CHECK(plain->shape == compressed->shape) << ShapeToString(compressed->shape);
  TESSERA_CHECK(plain->data == compressed->data) << contents.size();
}

void FuzzPictures(int classes, comm::Input input) {
  const absl::StatusOr<IdxFile> labels = Read(input.TakeRecord());
  const absl::StatusOr<IdxFile> pictures = Read(input.TakeRest());
  if (!labels.ok() || !pictures.ok()) return;
  const absl::StatusOr<LabelledPictures> joined = JoinLabels(*pictures, *labels, classes);
  if (!joined.ok()) {
    CheckError(joined.status());
    return;
  }
  const int64_t pixels = joined->count * joined->height * joined->width * joined->channels;
  TESSERA_CHECK(pixels == static_cast<int64_t>(joined->pixels.size())) << pixels;
  TESSERA_CHECK(joined->count == static_cast<int64_t>(joined->labels.size())) << joined->count;
  TESSERA_CHECK(std::all_of(joined->labels.begin(), joined->labels.end(), [classes](uint8_t label) {
    return label < classes;
  })) << classes;
  TESSERA_CHECK(!joined->Fingerprint().empty());
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tessera::comm::Input input(data, size);
  switch (const auto first = input.Take<uint8_t>()) {
    case 'f':
      tessera::FuzzFile(input.TakeRest());
      break;
    case 'c':
      tessera::FuzzCompressed(input.TakeRest());
      break;
    default:
      tessera::FuzzPictures(first, input);
  }
  return 0;
}
