#include "core/train/data/testing/idx_files.h"

#include <zlib.h>

#include "core/status/check.h"

namespace tessera {

std::string IdxContents(absl::Span<const uint32_t> sizes, absl::string_view data, uint8_t type) {
  std::string contents = {0, 0, static_cast<char>(type), static_cast<char>(sizes.size())};
  for (uint32_t size : sizes) {
    for (int shift : {24, 16, 8, 0}) contents += static_cast<char>(size >> shift);
  }
  contents.append(data.data(), data.size());
  return contents;
}

std::string SomeBytes(int64_t bytes) {
  std::string data;
  for (int64_t i = 0; i < bytes; ++i) data += static_cast<char>(i * i / 7 + i % 11);
  return data;
}

std::string Gzip(absl::string_view data, int level) {
  constexpr int kGzipWindowBits = 15 + 16;
  z_stream stream = {};
  TESSERA_CHECK(deflateInit2(&stream, level, Z_DEFLATED, kGzipWindowBits, 8, Z_DEFAULT_STRATEGY) ==
                Z_OK);
  std::string compressed(deflateBound(&stream, data.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(&compressed[0]);
  stream.avail_out = static_cast<uInt>(compressed.size());
  TESSERA_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  return compressed;
}

}  // namespace tessera
