#include "collectives/net/frame_digest.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "collectives/net/proof.h"

namespace tessera::comm {
namespace {

const std::string kKey = absl::HexStringToBytes("feffe9928665731c6d6a8f9467308308");

using Block = std::array<unsigned char, 16>;

// AES of one block, by OpenSSL.
Block Encrypt(absl::string_view key, const Block& block) {
  Block result = {};
  int bytes = 0;
  EVP_CIPHER_CTX* const context = EVP_CIPHER_CTX_new();
  EXPECT_EQ(EVP_EncryptInit_ex(context, EVP_aes_128_ecb(), nullptr,
                               reinterpret_cast<const unsigned char*>(key.data()), nullptr),
            1);
  EVP_CIPHER_CTX_set_padding(context, 0);
  EXPECT_EQ(EVP_EncryptUpdate(context, result.data(), &bytes, block.data(), 16), 1);
  EVP_CIPHER_CTX_free(context);
  return result;
}

// Multiplies in GF(2^128), bit by bit, as algorithm 1 of NIST SP 800-38D.
Block Multiply(const Block& x, Block v) {
  Block z = {};
  for (int bit = 0; bit < 128; ++bit) {
    if ((x[bit / 8] >> (7 - bit % 8) & 1) != 0) {
      for (int i = 0; i < 16; ++i) z[i] ^= v[i];
    }
    const bool has_carry = (v[15] & 1) != 0;
    for (int i = 15; i > 0; --i) v[i] = static_cast<unsigned char>(v[i] >> 1 | v[i - 1] << 7);
    v[0] = static_cast<unsigned char>(v[0] >> 1);
    if (has_carry) v[0] ^= 0xe1;
  }
  return z;
}

// The digest of a frame, written out from NIST SP 800-38D, sections 6.4 and 7.1.
uint64_t Expected(absl::string_view key, uint64_t number, absl::string_view data) {
  const Block h = Encrypt(key, {});
  Block y = {};
  const auto add = [&](const Block& block) {
    for (int i = 0; i < 16; ++i) y[i] ^= block[i];
    y = Multiply(y, h);
  };
  for (size_t begin = 0; begin < data.size(); begin += 16) {
    Block block = {};
    const absl::string_view part = data.substr(begin, 16);
    std::memcpy(block.data(), part.data(), part.size());
    add(block);
  }
  Block lengths = {};  // in bits: of the data, and of the text that is encrypted, which is empty
  for (int i = 0; i < 8; ++i) {
    lengths[i] = static_cast<unsigned char>(uint64_t{data.size()} * 8 >> (56 - 8 * i));
  }
  add(lengths);
  Block counter = {};
  for (int i = 0; i < 8; ++i) counter[i] = static_cast<unsigned char>(number >> 8 * i);
  counter[15] = 1;
  const Block mask = Encrypt(key, counter);
  for (int i = 0; i < 16; ++i) y[i] ^= mask[i];
  uint64_t digest = 0;
  std::memcpy(&digest, y.data(), sizeof(digest));
  return digest;
}

uint64_t DigestOf(FrameDigest& digest, uint64_t number, absl::string_view data) {
  digest.Begin(number);
  digest.Add(data.data(), static_cast<int64_t>(data.size()));
  return digest.End();
}

std::string Data(size_t bytes) {
  std::string data(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(i * 7 + i / 256);
  return data;
}

// Test case 1 of "The Galois/Counter Mode of Operation" (McGrew and Viega), which has no data.
TEST(FrameDigestTest, APublishedVector) {
  FrameDigest digest(std::string(kSessionKeyBytes, '\0'));
  const uint64_t made = DigestOf(digest, 0, "");
  EXPECT_EQ(absl::BytesToHexString({reinterpret_cast<const char*>(&made), sizeof(made)}),
            "58e2fccefa7e3061");
}

TEST(FrameDigestTest, IsThatOfTheStandard) {
  FrameDigest digest(kKey);
  for (const size_t bytes : {0, 1, 15, 16, 17, 64, 72, 1000, 16448}) {
    for (const uint64_t number : {uint64_t{0}, uint64_t{1}, uint64_t{0x0123456789abcdef}}) {
      EXPECT_EQ(DigestOf(digest, number, Data(bytes)), Expected(kKey, number, Data(bytes)))
          << bytes << " bytes, frame " << number;
    }
  }
}

TEST(FrameDigestTest, DoesNotDependOnHowTheBytesArrive) {
  FrameDigest digest(kKey);
  const std::string data = Data(1000);
  const uint64_t expected = DigestOf(digest, 5, data);
  for (const size_t piece : {1, 3, 16, 40, 64, 999}) {
    digest.Begin(5);
    for (size_t begin = 0; begin < data.size(); begin += piece) {
      digest.Add(&data[begin], static_cast<int64_t>(std::min(piece, data.size() - begin)));
    }
    EXPECT_EQ(digest.End(), expected) << piece;
  }
}

TEST(FrameDigestTest, AFrameThatIsNotFinishedLeavesNothing) {
  FrameDigest digest(kKey);
  const uint64_t expected = DigestOf(digest, 5, "text");
  digest.Begin(4);
  digest.Add("more", 4);
  EXPECT_EQ(DigestOf(digest, 5, "text"), expected);
}

TEST(FrameDigestTest, EveryBitCounts) {
  FrameDigest digest(kKey);
  std::string data = Data(80);
  std::set<uint64_t> digests = {DigestOf(digest, 9, data)};
  for (size_t bit = 0; bit < 8 * data.size(); ++bit) {
    data[bit / 8] = static_cast<char>(data[bit / 8] ^ 1 << bit % 8);
    digests.insert(DigestOf(digest, 9, data));
    data[bit / 8] = static_cast<char>(data[bit / 8] ^ 1 << bit % 8);
  }
  EXPECT_EQ(digests.size(), 8 * data.size() + 1);
  // Bytes that are added or left out at the end, and another number or key.
  digests.insert(DigestOf(digest, 9, data + std::string(1, '\0')));
  digests.insert(DigestOf(digest, 9, data.substr(0, data.size() - 1)));
  digests.insert(DigestOf(digest, 10, data));
  FrameDigest other(std::string(kSessionKeyBytes, 'k'));
  digests.insert(DigestOf(other, 9, data));
  EXPECT_EQ(digests.size(), 8 * data.size() + 5);
}

TEST(FrameDigestTest, SealedMessagesOpenInTheirOrder) {
  FrameDigest sender(kKey), receiver(kKey);
  for (const std::string& message : {std::string(), std::string("message"), Data(5000)}) {
    std::string sealed = message;
    sender.Seal(3, &sealed);
    EXPECT_EQ(static_cast<int64_t>(sealed.size() - message.size()), kFrameDigestBytes);
    std::string opened = sealed;
    EXPECT_TRUE(receiver.Open(3, &opened));
    EXPECT_EQ(opened, message);
    for (const uint64_t number : {2, 4}) {
      opened = sealed;
      EXPECT_FALSE(receiver.Open(number, &opened));
    }
    for (size_t byte = 0; byte < sealed.size(); byte += 1 + sealed.size() / 20) {
      opened = sealed;
      opened[byte] = static_cast<char>(opened[byte] ^ 4);
      EXPECT_FALSE(receiver.Open(3, &opened));
    }
    opened = sealed.substr(1);
    EXPECT_FALSE(receiver.Open(3, &opened));
  }
  std::string none;
  EXPECT_FALSE(receiver.Open(0, &none));
}

}  // namespace
}  // namespace tessera::comm
