#include "core/text/human_units.h"

#include <cmath>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace tessera {
namespace {

struct Unit {
  absl::string_view name;
  double bytes;
};

constexpr Unit kBinaryUnits[] = {
    {"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}};
constexpr Unit kDecimalUnits[] = {{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1}};

// Returns at least three digits, and no more digits after the point than that takes.
std::string ThreeDigits(double value) {
  const double magnitude = std::fabs(value);
  return absl::StrFormat("%.*f", magnitude < 9.995 ? 2 : magnitude < 99.95 ? 1 : 0, value);
}

// Returns the bytes of a unit, 1 for "", and 0 for a name that is none.
double BytesOfUnit(absl::string_view name) {
  for (const Unit& unit : kBinaryUnits) {
    if (absl::EqualsIgnoreCase(unit.name, name)) return unit.bytes;
    // "M" means "MiB".
    if (absl::EqualsIgnoreCase(unit.name.substr(0, 1), name)) return unit.bytes;
  }
  for (const Unit& unit : kDecimalUnits) {
    if (absl::EqualsIgnoreCase(unit.name, name)) return unit.bytes;
  }
  return name.empty() ? 1 : 0;
}

struct ScaledCount {
  std::string digits;
  const char* prefix;  // "", "K", "M", ...
};

// Returns a count in the largest power of 1000 that does not exceed it.
ScaledCount Scaled(double count) {
  constexpr const char* kPrefixes[] = {"", "K", "M", "G", "T", "P", "E"};
  int i = 0;
  while (std::fabs(count) >= 999.5 && i < 6) {
    count /= 1000;
    ++i;
  }
  if (i == 0 && count == std::floor(count)) return {absl::StrFormat("%.0f", count), ""};
  return {ThreeDigits(count), kPrefixes[i]};
}

}  // namespace

std::string FormatBytes(int64_t bytes) {
  for (const Unit& unit : kBinaryUnits) {
    // A number that rounds up to 1024 of the next smaller unit is shown in this unit.
    if (std::fabs(static_cast<double>(bytes)) >= unit.bytes * (1023.5 / 1024)) {
      return absl::StrCat(ThreeDigits(static_cast<double>(bytes) / unit.bytes), " ", unit.name);
    }
  }
  return absl::StrCat(bytes, " B");
}

absl::StatusOr<int64_t> ParseBytes(absl::string_view text) {
  const absl::string_view whole = absl::StripAsciiWhitespace(text);
  const size_t digits = std::min(whole.find_first_not_of("0123456789."), whole.size());
  const absl::string_view unit = absl::StripAsciiWhitespace(whole.substr(digits));
  double number = 0;
  const double bytes_of_unit = BytesOfUnit(unit);
  if (digits == 0 || !absl::SimpleAtod(whole.substr(0, digits), &number) || bytes_of_unit == 0 ||
      number * bytes_of_unit >= 0x1p62) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not a size: write it as 2GiB, 512MiB or 4096"));
  }
  return static_cast<int64_t>(std::llround(number * bytes_of_unit));
}

std::string FormatSeconds(double seconds) {
  if (!(seconds >= 0) || seconds > 1e15) return "?";
  if (seconds < 0.9995) return absl::StrCat(ThreeDigits(seconds * 1e3), " ms");
  if (seconds < 9.995) return absl::StrFormat("%.2f s", seconds);
  if (seconds < 59.95) return absl::StrFormat("%.1f s", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 3600) return absl::StrFormat("%dm %02ds", whole / 60, whole % 60);
  const int64_t minutes = std::llround(seconds / 60);
  if (minutes < 24 * 60) return absl::StrFormat("%dh %02dm", minutes / 60, minutes % 60);
  const int64_t hours = std::llround(seconds / 3600);
  return absl::StrFormat("%dd %02dh", hours / 24, hours % 24);
}

std::string FormatCount(double count) {
  const ScaledCount scaled = Scaled(count);
  const std::string prefix(scaled.prefix);
  return absl::StrCat(scaled.digits, prefix == "G" ? "B" : prefix);
}

std::string FormatCount(double count, absl::string_view unit) {
  const ScaledCount scaled = Scaled(count);
  return absl::StrCat(scaled.digits, " ", scaled.prefix, unit);
}

}  // namespace tessera
