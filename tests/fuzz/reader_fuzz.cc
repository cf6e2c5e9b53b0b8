// Checks that arbitrary data are refused in one line that names them, or become a dataset of which
// every row can be read, with values in their range. The first byte of the input selects the
// reader: "t" a text, after a byte with the length of a row; "u" pictures without labels; any other
// byte is the number of classes of a folder of pictures. Its four files follow, each after a byte
// that says whether it is missing (0), compressed here (1) or as it is, and two bytes with its
// length.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/model/token_fields.h"
#include "core/status/check.h"
#include "core/train/data/idx_file.h"
#include "core/train/data/picture_dataset.h"
#include "core/train/data/readers/reader_list.h"
#include "core/train/data/testing/idx_files.h"
#include "tests/fuzz/input.h"

namespace tessera {
namespace {

constexpr const char* kFiles[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                  "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

// Returns a folder of this process, in memory if the system has one there.
const std::string& Folder() {
  static const auto* const folder = [] {
    const char* const tests = std::getenv("TEST_TMPDIR");
    const std::string parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm"
                               : tests != nullptr            ? tests
                                                             : "/tmp";
    auto* const path = new std::string(parent + "/reader_fuzz.XXXXXX");
    TESSERA_CHECK(mkdtemp(path->data()) != nullptr) << *path;
    std::atexit([] {
      for (const char* name : kFiles) unlink(absl::StrCat(Folder(), "/", name).c_str());
      unlink((Folder() + "/data").c_str());
      rmdir(Folder().c_str());
    });
    return path;
  }();
  return *folder;
}

void WriteFile(const std::string& path, absl::string_view contents) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  TESSERA_CHECK(file >= 0) << path;
  const ssize_t written = write(file, contents.data(), contents.size());
  TESSERA_CHECK(written == static_cast<ssize_t>(contents.size())) << path;
  close(file);
}

void CheckError(const absl::Status& status) {
  TESSERA_CHECK(absl::StartsWith(status.message(), Folder())) << status;
  TESSERA_CHECK(!absl::StrContains(status.message(), '\n')) << status;
  TESSERA_CHECK(!absl::IsInternal(status)) << status;
}

// Returns the rows [first, first + rows) of a field, which must have values in its range.
std::vector<int64_t> ReadRows(const Dataset& dataset, DataSplit split, size_t field, int64_t first,
                              int64_t rows) {
  const BatchField& of_row = dataset.fields()[field];
  Box box = {of_row.type.shape, of_row.type.shape};
  std::fill(box.start.begin(), box.start.end(), 0);
  box.start.insert(box.start.begin(), first);
  box.extent.insert(box.extent.begin(), rows);
  const int64_t size = SizeOf(of_row.type.dtype);
  std::vector<char> bytes(rows * of_row.elements() * size);
  const absl::Status status = dataset.Read(split, field, box, absl::MakeSpan(bytes));
  TESSERA_CHECK(status.ok()) << status;
  std::vector<int64_t> values;
  for (size_t at = 0; at < bytes.size(); at += size) {
    int32_t number = 0;
    TESSERA_CHECK(size == 1 || size == sizeof(number)) << size;
    std::memcpy(&number, bytes.data() + at, size);
    TESSERA_CHECK(number >= 0 && number < of_row.limit) << of_row.name << " is " << number;
    values.push_back(number);
  }
  return values;
}

// Reads all rows of a split, or some of many.
void ReadSplit(const Dataset& dataset, DataSplit split, int64_t rows) {
  constexpr int64_t kMostElements = 1 << 14;
  for (size_t field = 0; field < dataset.fields().size(); ++field) {
    const BatchField& of_row = dataset.fields()[field];
    const int64_t read = std::min(rows, std::max<int64_t>(1, kMostElements / of_row.elements()));
    const std::vector<int64_t> values = ReadRows(dataset, split, field, 0, read);
    if (rows > 0) ReadRows(dataset, split, field, rows - 1, 1);
    if (of_row.name != kTargets || read == 0) continue;
    const std::vector<int64_t> tokens = ReadRows(dataset, split, 0, 0, read);
    for (size_t i = 0; i + 1 < values.size(); ++i) {
      const bool in_row = (i + 1) % of_row.elements() != 0;
      TESSERA_CHECK(!in_row || values[i] == tokens[i + 1]) << "target " << i;
    }
  }
}

void ReadAll(const Dataset& dataset, const DataRequest& request) {
  TESSERA_CHECK(CheckFields(request.read, dataset.fields()).ok()) << request.file;
  const std::string fingerprint = dataset.Fingerprint();
  TESSERA_CHECK(!fingerprint.empty() && !absl::StrContains(fingerprint, '\n')) << fingerprint;
  const int64_t epoch = dataset.RowsPerEpoch(request.sequence);
  TESSERA_CHECK(epoch >= 0 && dataset.EvaluationRows() > 0) << epoch;
  if (epoch > 0) ReadSplit(dataset, DataSplit::kTrain, epoch + 1);  // and the next epoch's first
  ReadSplit(dataset, DataSplit::kEvaluate, dataset.EvaluationRows());
}

absl::StatusOr<std::unique_ptr<Dataset>> Open(const DataRequest& request) {
  absl::StatusOr<UnreadData> unread = OpenUnreadData(request);
  if (!unread.ok()) return unread.status();
  std::string checked;
  if (unread->file != nullptr) {
    absl::StatusOr<std::string> of_file = unread->check(*unread->file);
    if (!of_file.ok()) return of_file.status();
    checked = *std::move(of_file);
  }
  return unread->read(std::move(unread->file), std::move(checked));
}

void Fuzz(const DataRequest& request) {
  const absl::StatusOr<std::unique_ptr<Dataset>> dataset = Open(request);
  if (!dataset.ok()) return CheckError(dataset.status());
  ReadAll(**dataset, request);
}

// Returns the pictures that a model reads: those of a file, if it has any.
BatchField PicturesLike(absl::string_view contents) {
  const absl::StatusOr<IdxFile> file = ParseIdxFile("fuzz", contents);
  Shape shape = {2, 3, 1};
  if (file.ok() && file->shape.size() >= 3) {
    shape = {file->shape[1], file->shape[2], file->shape.size() > 3 ? file->shape[3] : 1};
  }
  return {kPictures, {DType::kU8, shape}, 256};
}

void FuzzText(comm::Input input) {
  const int64_t sequence = 1 + input.Take<uint8_t>() % 32;
  WriteFile(Folder() + "/data", input.TakeRest());
  Fuzz({.file = Folder() + "/data", .read = TokenFields(sequence, 256), .sequence = sequence});
}

void FuzzUnlabelled(absl::string_view contents) {
  WriteFile(Folder() + "/data", contents);
  const DataRequest request = {.file = Folder() + "/data", .read = {PicturesLike(contents)}};
  const absl::StatusOr<std::unique_ptr<Dataset>> dataset = OpenRowsToPredict(request);
  if (!dataset.ok()) return CheckError(dataset.status());
  ReadAll(**dataset, request);
}

void FuzzFolder(int classes, comm::Input input) {
  DataRequest request = {.file = Folder()};
  for (const char* name : kFiles) {
    const auto kind = input.Take<uint8_t>();
    const absl::string_view contents = input.TakeRecord();
    if (request.read.empty()) request.read = {PicturesLike(contents)};
    const std::string path = absl::StrCat(Folder(), "/", name);
    if (kind == 0) {
      unlink(path.c_str());
    } else {
      WriteFile(path, kind == 1 ? Gzip(contents, 1) : std::string(contents));
    }
  }
  request.read.push_back({kLabels, {DType::kI32, {}}, classes});
  Fuzz(request);
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tessera::comm::Input input(data, size);
  switch (const auto first = input.Take<uint8_t>()) {
    case 't':
      tessera::FuzzText(input);
      break;
    case 'u':
      tessera::FuzzUnlabelled(input.TakeRest());
      break;
    default:
      tessera::FuzzFolder(std::max<int>(1, first), input);
  }
  return 0;
}
