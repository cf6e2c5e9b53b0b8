#include "core/train/data/text_check.h"

#include <utf8.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checksum.h"

namespace tessera {
namespace {

// Read at once, so that the checksum finds the bytes in a cache.
constexpr int64_t kChunkBytes = int64_t{256} << 10;
constexpr char kTokenIds[] = "a file of token ids";
// Texts hold a few control bytes by accident.
constexpr int64_t kBytesPerControl = 100;

constexpr uint64_t EachByte(uint64_t byte) { return byte * 0x0101010101010101u; }

// Returns whether a byte below 0x80 is a control byte that texts do not hold on purpose.
bool IsControl(unsigned char byte) {
  constexpr unsigned char kEscape = 27;
  return byte < 7 || (byte > 13 && byte < 32 && byte != kEscape) || byte == 127;
}

// Returns whether a word of eight bytes has bytes from 0x80 on, or control bytes (escapes count
// too). Adding 0x80 - n to a byte below 0x80 sets its high bit if the byte is n or more.
bool IsPlain(uint64_t word) {
  constexpr uint64_t kHigh = EachByte(0x80);
  const uint64_t low = word & ~kHigh;
  const uint64_t from_7 = low + EachByte(0x80 - 7), from_14 = low + EachByte(0x80 - 14);
  const uint64_t from_32 = low + EachByte(0x80 - 32), from_127 = low + EachByte(1);
  return ((word | ~from_7 | (from_14 & ~from_32) | from_127) & kHigh) == 0;
}

// A byte that is not as it should be.
struct Fault {
  int64_t offset = -1;  // in the text; -1 if there is none
  unsigned char byte = 0;

  bool exists() const { return offset >= 0; }
};

struct Faults {
  Fault invalid;  // begins no valid character
  Fault zero;
  Fault control;  // the first one
  int64_t controls = 0;
};

// Records the faults of a piece of text that begins at an offset, and begins and ends with a
// character. Returns false at a fault after which nothing more needs to be checked: a zero byte, or
// bytes that are not UTF-8.
bool FindFaults(absl::string_view piece, int64_t offset, Faults* faults) {
  const char *at = piece.data(), *const end = at + piece.size();
  const auto fault_at = [&](const char* byte) {
    return Fault{offset + (byte - piece.data()), static_cast<unsigned char>(*byte)};
  };
  while (at < end) {
    const char* next = at;
    for (uint64_t word = 0; end - next >= 8; next += 8) {
      std::memcpy(&word, next, 8);
      if (!IsPlain(word)) break;
    }
    // Continues byte by byte to the next word of plain ASCII.
    const char* const begin = next;
    for (uint64_t word = 0; next < end; ++next) {
      if (next > begin && end - next >= 8) {
        std::memcpy(&word, next, 8);
        if (IsPlain(word)) break;
      }
      const auto byte = static_cast<unsigned char>(*next);
      if (byte >= 0x80 || !IsControl(byte)) continue;
      if (byte == 0 && !faults->zero.exists()) faults->zero = fault_at(next);
      if (!faults->control.exists()) faults->control = fault_at(next);
      ++faults->controls;
    }
    const char* const invalid = utf8::find_invalid(begin, next);
    if (invalid != next) faults->invalid = fault_at(invalid);
    if (faults->invalid.exists() || faults->zero.exists()) return false;
    at = next;
  }
  return true;
}

// Returns how many of the last bytes of a piece belong to a character that may go on behind it.
size_t UnfinishedBytes(absl::string_view piece) {
  for (size_t back = 1; back <= std::min<size_t>(4, piece.size()); ++back) {
    if ((static_cast<unsigned char>(piece[piece.size() - back]) & 0xC0) != 0x80) return back;
  }
  return 0;  // not UTF-8
}

// Returns whether zero bytes are at most of the even, or of the odd, offsets of the beginning: text
// in UTF-16 is mostly ASCII.
bool LooksLikeUtf16(absl::string_view text) {
  const absl::string_view start = text.substr(0, 4096);
  int64_t zeros[2] = {0, 0}, letters = 0;
  for (size_t i = 0; i < start.size(); ++i) {
    if (start[i] == '\0') ++zeros[i % 2];
    if (absl::ascii_isalpha(static_cast<unsigned char>(start[i]))) ++letters;
  }
  const int64_t half = static_cast<int64_t>(start.size()) / 2;
  return std::max(zeros[0], zeros[1]) > half * 3 / 4 && letters > half / 2;
}

// Returns "a Parquet file", or "" if the format is not known.
std::string FormatOf(absl::string_view path, absl::string_view text) {
  using std::literals::string_literals::operator""s;
  static const struct {
    std::string start;
    const char* name;
  } kFormats[] = {
      {"PAR1", "a Parquet file"},
      {"ARROW1", "an Arrow file"},
      {"\x1f\x8b", "a gzip archive"},
      {"\x28\xb5\x2f\xfd", "a Zstandard archive"},
      {"\xfd\x37zXZ", "an xz archive"},
      {"BZh", "a bzip2 archive"},
      {"PK\x03\x04", "a ZIP archive, as PyTorch and .docx files are"},
      {"\x93NUMPY", "a NumPy array"},
      {"\x89HDF", "an HDF5 file"},
      {"%PDF", "a PDF document"},
      {"\0\0\x08\x01"s, "an IDX file of labels"},
      {"\0\0\x08\x03"s, "an IDX file of pictures"},
      {"\0\0\x08\x04"s, "an IDX file of pictures"},
      {"\xff\xfe\0\0"s, "text in UTF-32"},
      {"\0\0\xfe\xff"s, "text in UTF-32"},
      {"\xff\xfe", "text in UTF-16"},
      {"\xfe\xff", "text in UTF-16"},
  };
  for (const auto& format : kFormats) {
    if (absl::StartsWith(text, format.start)) return format.name;
  }
  if (text.size() > 10 && text.substr(5, 3) == absl::string_view("\0\0\0", 3) && text[8] == '{') {
    return "a safetensors file";
  }
  if (LooksLikeUtf16(text)) return "text in UTF-16";
  if (absl::EndsWithIgnoreCase(path, ".bin")) return kTokenIds;
  return "";
}

absl::Status IsNoText(absl::string_view path, absl::string_view text, absl::string_view fault) {
  const std::string format = FormatOf(path, text);
  std::string message = absl::StrCat(path, ": is not UTF-8 text: ", fault);
  if (absl::StartsWith(format, "text in")) {
    absl::StrAppend(&message, "; it looks like ", format, ": convert it with iconv -t UTF-8");
  } else if (absl::StartsWith(format, "an IDX") || format == kTokenIds) {
    absl::StrAppend(&message, "; it looks like ", format, ": a text would be right");
  } else if (!format.empty()) {
    absl::StrAppend(&message, "; it looks like ", format, ": extract its text to a file");
  }
  return absl::InvalidArgumentError(message);
}

// Calls visit(piece, offset) for the first `bytes` bytes of a text, in pieces that begin and end
// with a character, until it returns false. A character that goes on behind them is left out, but
// at the end of the text.
template <typename Visit>
absl::Status VisitPieces(const DataFile& text, int64_t bytes, const Visit& visit) {
  std::string buffer;
  for (int64_t offset = 0; offset + static_cast<int64_t>(buffer.size()) < bytes;) {
    const auto kept = static_cast<int64_t>(buffer.size());
    const int64_t read = std::min(kChunkBytes, bytes - offset - kept);
    buffer.resize(kept + read);
    RETURN_IF_ERROR(text.ReadAt(offset + kept, absl::MakeSpan(buffer).subspan(kept)));
    const bool is_end = offset + kept + read == text.opened().bytes;
    const size_t left = is_end ? 0 : UnfinishedBytes(buffer);
    if (!visit(absl::string_view(buffer).substr(0, buffer.size() - left), offset)) break;
    offset += static_cast<int64_t>(buffer.size() - left);
    buffer.erase(0, buffer.size() - left);
  }
  return absl::OkStatus();
}

// Returns the line of a byte, from 1 on. Reads the text up to there again.
absl::StatusOr<int64_t> LineOf(int64_t offset, const DataFile& text) {
  int64_t line = 1;
  std::string piece;
  for (int64_t at = 0; at < offset; at += static_cast<int64_t>(piece.size())) {
    piece.resize(std::min(kChunkBytes, offset - at));
    RETURN_IF_ERROR(text.ReadAt(at, absl::MakeSpan(piece)));
    line += std::count(piece.begin(), piece.end(), '\n');
  }
  return line;
}

// Returns the first bytes of a text, of which formats are recognised.
absl::StatusOr<std::string> StartOf(const DataFile& text) {
  std::string start(std::min<int64_t>(text.opened().bytes, 4096), ' ');
  RETURN_IF_ERROR(text.ReadAt(0, absl::MakeSpan(start)));
  return start;
}

// `checked` bytes have these faults.
absl::Status ToStatus(const Faults& faults, const DataFile& text, int64_t checked) {
  const bool is_zero = faults.zero.exists() &&
                       (!faults.invalid.exists() || faults.zero.offset < faults.invalid.offset);
  const bool is_control = faults.controls * kBytesPerControl > checked;
  if (!is_zero && !faults.invalid.exists() && !is_control) return absl::OkStatus();
  const Fault& fault = is_zero                   ? faults.zero
                       : faults.invalid.exists() ? faults.invalid
                                                 : faults.control;
  ASSIGN_OR_RETURN(const int64_t line, LineOf(fault.offset, text));
  ASSIGN_OR_RETURN(const std::string start, StartOf(text));
  const std::string why =
      is_zero ? " occurs in no text"
      : faults.invalid.exists()
          ? " begins no valid character"
          : absl::StrCat(" is the first of ", faults.controls, " control bytes");
  return IsNoText(text.path(), start,
                  absl::StrFormat("byte 0x%02x at offset %d, in line %d,%s", fault.byte,
                                  fault.offset, line, why));
}

absl::Status CheckNoJson(const DataFile& text) {
  const bool named = absl::EndsWithIgnoreCase(text.path(), ".json") ||
                     absl::EndsWithIgnoreCase(text.path(), ".jsonl");
  if (!named) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string start, StartOf(text));
  const absl::string_view json = absl::StripLeadingAsciiWhitespace(start);
  if (json.empty() || (json[0] != '{' && json[0] != '[')) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(text.path(),
                   ": is a JSON file: extract its texts to a file, because its names and "
                   "brackets would be trained on; to train on them, name it .txt"));
}

// Checks the first `bytes` bytes of a text and returns their checksum.
absl::StatusOr<std::string> Check(const DataFile& text, int64_t bytes) {
  RETURN_IF_ERROR(CheckNoJson(text));
  Checksum checksum;
  Faults faults;
  RETURN_IF_ERROR(VisitPieces(text, bytes, [&](absl::string_view piece, int64_t offset) {
    if (!FindFaults(piece, offset, &faults)) return false;
    checksum.Update(piece);
    return true;
  }));
  RETURN_IF_ERROR(ToStatus(faults, text, bytes));
  return checksum.Hex();
}

}  // namespace

absl::StatusOr<std::string> CheckText(const DataFile& file) {
  return Check(file, file.opened().bytes);
}

absl::Status CheckBeginningOfText(const DataFile& file) {
  return Check(file, std::min(file.opened().bytes, kChunkBytes)).status();
}

}  // namespace tessera
