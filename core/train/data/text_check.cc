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
#include "core/train/checkpoint/checksum.h"

namespace tessera {
namespace {

// Read at once, so that the checksum finds the bytes in a cache.
constexpr size_t kChunkBytes = size_t{256} << 10;
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

// The bytes of a text that are not as they should be.
struct Faults {
  const char* invalid = nullptr;  // begins no valid character
  const char* zero = nullptr;
  const char* control = nullptr;  // the first one
  int64_t controls = 0;
};

// Records the faults of a piece of text, which begins and ends with a character. Returns false at a
// fault after which nothing more needs to be checked: a zero byte, or bytes that are not UTF-8.
bool FindFaults(const char* at, const char* end, Faults* faults) {
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
      if (byte == 0 && faults->zero == nullptr) faults->zero = next;
      if (faults->control == nullptr) faults->control = next;
      ++faults->controls;
    }
    const char* const invalid = utf8::find_invalid(begin, next);
    if (invalid != next) faults->invalid = invalid;
    if (faults->invalid != nullptr || faults->zero != nullptr) return false;
    at = next;
  }
  return true;
}

// Returns the last border of a character in [at - 3, at].
const char* BorderBefore(const char* at) {
  for (int back = 0; back <= 3; ++back) {
    if ((static_cast<unsigned char>(at[-back]) & 0xC0) != 0x80) return at - back;
  }
  return at;  // not UTF-8
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
  if (absl::EndsWithIgnoreCase(path, ".bin")) return "a file of token ids";
  return "";
}

absl::Status IsNoText(absl::string_view path, absl::string_view text, absl::string_view fault) {
  const std::string format = FormatOf(path, text);
  std::string message = absl::StrCat(path, ": is not UTF-8 text: ", fault);
  if (absl::StartsWith(format, "text in")) {
    absl::StrAppend(&message, "; it looks like ", format, ": convert it with iconv -t UTF-8");
  } else if (!format.empty()) {
    absl::StrAppend(&message, "; it looks like ", format, ": extract its text to a file");
  }
  return absl::InvalidArgumentError(message);
}

absl::Status ToStatus(const Faults& faults, absl::string_view path, absl::string_view text) {
  const auto byte_at = [&](const char* at) {
    return absl::StrFormat("byte 0x%02x at offset %d, in line %d,", static_cast<unsigned char>(*at),
                           at - text.data(), 1 + std::count(text.data(), at, '\n'));
  };
  if (faults.zero != nullptr && (faults.invalid == nullptr || faults.zero < faults.invalid)) {
    return IsNoText(path, text, absl::StrCat(byte_at(faults.zero), " occurs in no text"));
  }
  if (faults.invalid != nullptr) {
    return IsNoText(path, text,
                    absl::StrCat(byte_at(faults.invalid), " begins no valid character"));
  }
  if (faults.controls * kBytesPerControl > static_cast<int64_t>(text.size())) {
    return IsNoText(path, text,
                    absl::StrCat(byte_at(faults.control), " is the first of ", faults.controls,
                                 " control bytes"));
  }
  return absl::OkStatus();
}

absl::Status CheckNoJson(absl::string_view path, absl::string_view text) {
  const bool named =
      absl::EndsWithIgnoreCase(path, ".json") || absl::EndsWithIgnoreCase(path, ".jsonl");
  const absl::string_view start = absl::StripLeadingAsciiWhitespace(text.substr(0, 4096));
  if (!named || start.empty() || (start[0] != '{' && start[0] != '[')) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path,
                   ": is a JSON file: extract its texts to a file, because its names and "
                   "brackets would be trained on; to train on them, name it .txt"));
}

}  // namespace

absl::StatusOr<std::string> CheckText(absl::string_view path, absl::string_view contents) {
  if (absl::Status json = CheckNoJson(path, contents); !json.ok()) return json;
  Checksum checksum;
  Faults faults;
  const char* const end = contents.data() + contents.size();
  for (const char* at = contents.data(); at < end;) {
    const size_t rest = end - at;
    const char* const next = rest <= kChunkBytes ? end : BorderBefore(at + kChunkBytes);
    if (!FindFaults(at, next, &faults)) break;
    checksum.Update(absl::MakeConstSpan(at, next - at));
    at = next;
  }
  if (absl::Status status = ToStatus(faults, path, contents); !status.ok()) return status;
  return checksum.Hex();
}

absl::Status CheckBeginningOfText(absl::string_view path, absl::string_view contents) {
  const absl::string_view beginning =
      contents.size() <= kChunkBytes
          ? contents
          : contents.substr(0, BorderBefore(contents.data() + kChunkBytes) - contents.data());
  return CheckText(path, beginning).status();
}

}  // namespace tessera
