#include "core/train/data/idx_file.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "core/status/status_macros.h"
#include "core/status/with_message.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "core/train/data/data_file.h"
#include "core/train/data/gzip_reader.h"

namespace tessera {
namespace {

constexpr uint8_t kBytes = 0x08;

// Reads bytes of a file at an offset. Those that are asked for are in it.
using ReadAt = std::function<absl::Status(int64_t offset, absl::Span<char> bytes)>;

// The contents of a file as they come out of it, decompressed if they are compressed.
class Source {
 public:
  // A file that is not compressed.
  Source(int64_t file_bytes, ReadAt read_at)
      : file_bytes_(file_bytes), read_at_(std::move(read_at)) {}
  // A file that is compressed by gzip.
  explicit Source(absl::string_view gzip)
      : file_bytes_(static_cast<int64_t>(gzip.size())), gzip_(gzip) {}

  // Returns how many of the next bytes there are: all, or fewer at the end.
  absl::StatusOr<int64_t> Read(absl::Span<uint8_t> bytes) {
    absl::Span<char> chars(reinterpret_cast<char*>(bytes.data()), bytes.size());
    size_t count = 0;
    if (gzip_.has_value()) {
      ASSIGN_OR_RETURN(count, gzip_->Read(chars));
    } else {
      count = std::min<size_t>(bytes.size(), file_bytes_ - read_);
      RETURN_IF_ERROR(read_at_(read_, chars.first(count)));
    }
    read_ += static_cast<int64_t>(count);
    return static_cast<int64_t>(count);
  }

  bool compressed() const { return gzip_.has_value(); }
  int64_t file_bytes() const { return file_bytes_; }
  int64_t read() const { return read_; }
  // Returns the most bytes that can still come out of it.
  int64_t MostLeft() const {
    return compressed() ? GzipReader::kMostBytesPerByte * file_bytes_ : file_bytes_ - read_;
  }

 private:
  const int64_t file_bytes_;
  ReadAt read_at_;
  std::optional<GzipReader> gzip_;
  int64_t read_ = 0;
};

// Returns a type of the format in words, or "" if the format has none of this number.
absl::string_view NameOfType(uint8_t type) {
  switch (type) {
    case kBytes:
      return "unsigned bytes";
    case 0x09:
      return "signed bytes";
    case 0x0b:
      return "16-bit integers";
    case 0x0c:
      return "32-bit integers";
    case 0x0d:
      return "32-bit floating-point numbers";
    case 0x0e:
      return "64-bit floating-point numbers";
    default:
      return "";
  }
}

absl::Status CheckStart(absl::Span<const uint8_t> start) {
  const absl::string_view type = NameOfType(start[2]);
  if (start[0] != 0 || start[1] != 0 || type.empty()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "is no IDX file: it begins with the bytes %02x %02x %02x %02x, and 00 00 08 and the number "
        "of dimensions would be right",
        start[0], start[1], start[2], start[3]));
  }
  if (start[2] != kBytes) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "holds %s (type 0x%02x): only unsigned bytes (type 0x08) can be read", type, start[2]));
  }
  if (start[3] < 1 || start[3] > kMostIdxDimensions) {
    return absl::InvalidArgumentError(
        absl::StrFormat("has %d dimensions: 1 to %d would be right", start[3], kMostIdxDimensions));
  }
  return absl::OkStatus();
}

absl::Status ReadOfHeader(Source& source, absl::Span<uint8_t> bytes) {
  ASSIGN_OR_RETURN(const int64_t count, source.Read(bytes));
  if (count == static_cast<int64_t>(bytes.size())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("ends after ", Counted(source.read(), "byte"),
                                                 ", within the header of an IDX "
                                                 "file: it is incomplete, or no IDX file"));
}

absl::StatusOr<Shape> ReadShape(Source& source) {
  std::array<uint8_t, 4> start;
  RETURN_IF_ERROR(ReadOfHeader(source, absl::MakeSpan(start)));
  RETURN_IF_ERROR(CheckStart(start));
  Shape shape;
  for (int i = 0; i < start[3]; ++i) {
    std::array<uint8_t, 4> size;
    RETURN_IF_ERROR(ReadOfHeader(source, absl::MakeSpan(size)));
    shape.push_back((int64_t{size[0]} << 24) | (size[1] << 16) | (size[2] << 8) | size[3]);
  }
  return shape;
}

// Returns the number of elements of a shape that a header claims, or nothing if they are more than
// `most`.
std::optional<int64_t> ElementsUpTo(const Shape& shape, int64_t most) {
  int64_t elements = 1;
  for (int64_t size : shape) {
    if (elements > most / size) return std::nullopt;
    elements *= size;
  }
  return elements;
}

absl::StatusOr<int64_t> CheckShape(const Shape& shape, const Source& source) {
  const std::string text = ShapeToString(shape);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("holds no data: its dimensions are ", text, ", and none may be 0"));
  }
  const int64_t most = source.MostLeft();
  const std::optional<int64_t> elements = ElementsUpTo(shape, most);
  if (!elements.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "is incomplete or damaged: its dimensions are ", text, ", and a ",
        source.compressed() ? "gzip " : "", "file of ", Counted(source.file_bytes(), "byte"),
        " holds at most ", Counted(most, "byte"), " of data"));
  }
  if (*elements > kMostIdxBytes) {
    return absl::InvalidArgumentError(absl::StrCat("is too large: its dimensions are ", text,
                                                   ", and at most ", FormatBytes(kMostIdxBytes),
                                                   " of data can be read"));
  }
  return *elements;
}

// Allocates as the data come, at most twice as much as there are.
absl::StatusOr<std::vector<uint8_t>> ReadData(Source& source, int64_t elements) {
  constexpr int64_t kFirstBytes = int64_t{1} << 20;
  std::vector<uint8_t> data;
  int64_t filled = 0;
  while (filled < elements) {
    data.resize(std::min(elements, std::max(kFirstBytes, 2 * filled)));
    const absl::Span<uint8_t> next = absl::MakeSpan(data).subspan(filled);
    ASSIGN_OR_RETURN(const int64_t count, source.Read(next));
    filled += count;
    if (count == static_cast<int64_t>(next.size())) continue;
    return absl::InvalidArgumentError(absl::StrCat("is incomplete: it holds ", filled, " of ",
                                                   Counted(elements, "byte"), " of data"));
  }
  return data;
}

absl::Status CheckEnd(Source& source, const Shape& shape) {
  const int64_t expected = source.read();
  uint8_t next;
  ASSIGN_OR_RETURN(const int64_t count, source.Read(absl::MakeSpan(&next, 1)));
  if (count == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "has more data than its dimensions ", ShapeToString(shape), " say: ",
      Counted(expected, "byte"), source.compressed() ? ", decompressed," : "", " would be right"));
}

absl::StatusOr<IdxFile> Parse(Source source) {
  IdxFile file;
  ASSIGN_OR_RETURN(file.shape, ReadShape(source));
  ASSIGN_OR_RETURN(const int64_t elements, CheckShape(file.shape, source));
  ASSIGN_OR_RETURN(file.data, ReadData(source, elements));
  RETURN_IF_ERROR(CheckEnd(source, file.shape));
  return file;
}

absl::StatusOr<IdxFile> ParseFile(int64_t file_bytes, const ReadAt& read_at) {
  constexpr int64_t kStartBytes = 16;  // from which compressed data are recognised
  std::string start(std::min(file_bytes, kStartBytes), 0);
  RETURN_IF_ERROR(read_at(0, absl::MakeSpan(start)));
  if (!IsGzip(start)) return Parse(Source(file_bytes, read_at));
  if (file_bytes > kMostIdxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("is too large: at most ", FormatBytes(kMostIdxBytes), " can be read"));
  }
  std::string contents(file_bytes, 0);
  RETURN_IF_ERROR(read_at(0, absl::MakeSpan(contents)));
  return Parse(Source(contents));
}

// Adds the path to an error.
absl::StatusOr<IdxFile> Named(const std::string& path, absl::StatusOr<IdxFile> file) {
  if (!file.ok()) {
    return WithMessage(file.status(), absl::StrCat(path, ": ", file.status().message()));
  }
  file->path = path;
  return file;
}

}  // namespace

absl::StatusOr<IdxFile> ParseIdxFile(const std::string& path, absl::string_view contents) {
  const auto read_at = [&](int64_t offset, absl::Span<char> bytes) {
    std::copy_n(contents.begin() + offset, bytes.size(), bytes.begin());
    return absl::OkStatus();
  };
  return Named(path, ParseFile(static_cast<int64_t>(contents.size()), read_at));
}

absl::StatusOr<IdxFile> ReadIdxFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<DataFile> file, DataFile::Open(path));
  absl::Status read;  // with the path
  absl::StatusOr<IdxFile> parsed =
      ParseFile(file->opened().bytes, [&](int64_t offset, absl::Span<char> bytes) {
        read = file->ReadAt(offset, bytes);
        return read;
      });
  RETURN_IF_ERROR(read);
  return Named(path, std::move(parsed));
}

}  // namespace tessera
