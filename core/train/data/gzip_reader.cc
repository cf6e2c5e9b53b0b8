#include "core/train/data/gzip_reader.h"

#include <zlib.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/text/counted.h"

namespace tessera {
namespace {

constexpr absl::string_view kMagic = "\x1f\x8b";
// For inflateInit2: the largest window, and a gzip header.
constexpr int kWindowBits = 15 + 16;
// zlib counts in 32 bits.
constexpr size_t kMostAtOnce = size_t{1} << 30;

absl::Status OutOfMemory() {
  return absl::ResourceExhaustedError("there is no memory left to decompress it");
}

}  // namespace

bool IsGzip(absl::string_view data) { return absl::StartsWith(data, kMagic); }

GzipReader::GzipReader(absl::string_view compressed)
    : compressed_(compressed), rest_(compressed), stream_(new z_stream_s()) {
  if (inflateInit2(stream_.get(), kWindowBits) != Z_OK) status_ = OutOfMemory();
}

// inflateEnd returns an error, and does nothing, if inflateInit2 has failed.
void GzipReader::Free::operator()(z_stream_s* stream) const {
  inflateEnd(stream);
  delete stream;
}

absl::Status GzipReader::BeginMember() {
  if (!IsGzip(rest_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "its compressed data are followed by ", Counted(static_cast<int64_t>(rest_.size()), "byte"),
        " of something else: it may have nothing after them"));
  }
  inflateReset(stream_.get());
  in_member_ = true;
  return absl::OkStatus();
}

absl::StatusOr<size_t> GzipReader::Inflate(absl::Span<char> bytes) {
  const size_t in = std::min(rest_.size(), kMostAtOnce);
  const size_t out = std::min(bytes.size(), kMostAtOnce);
  // zlib does not change its input, but has no const.
  stream_->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest_.data()));
  stream_->avail_in = static_cast<uInt>(in);
  stream_->next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream_->avail_out = static_cast<uInt>(out);
  const int result = inflate(stream_.get(), Z_NO_FLUSH);
  rest_.remove_prefix(in - stream_->avail_in);
  switch (result) {
    case Z_STREAM_END:
      in_member_ = false;
      break;
    case Z_OK:
      break;
    case Z_BUF_ERROR:  // it needs more input than there is
      return absl::InvalidArgumentError(
          absl::StrCat("its compressed data are incomplete: they end after ",
                       Counted(static_cast<int64_t>(compressed_.size()), "byte")));
    case Z_MEM_ERROR:
      return OutOfMemory();
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "its compressed data are damaged before byte ", compressed_.size() - rest_.size(), " of ",
          compressed_.size(), ": ", stream_->msg == nullptr ? "no gzip data" : stream_->msg));
  }
  return out - stream_->avail_out;
}

absl::StatusOr<size_t> GzipReader::Read(absl::Span<char> bytes) {
  size_t filled = 0;
  while (filled < bytes.size() && (in_member_ || !rest_.empty())) {
    RETURN_IF_ERROR(status_);
    if (!in_member_) {
      status_ = BeginMember();
      continue;
    }
    const absl::StatusOr<size_t> count = Inflate(bytes.subspan(filled));
    status_ = count.status();
    if (count.ok()) filled += *count;
  }
  return filled;
}

}  // namespace tessera
