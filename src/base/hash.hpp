// Hasher: 64-bit content hash for cache keys, printing and comparison. The same calls in the same order return the same
// value on every machine. It is not cryptographic.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace popart {

// XXH3 of the bytes, at memory speed.
uint64_t hashOfBytes(const void *data, size_t bytes);
// Copies the bytes and returns the hash of the copy, so the hashed bytes are those that are used. Reads memory once.
uint64_t copyAndHash(void *to, const void *from, size_t bytes);
// The 128 bits of XXH3 as 32 hexadecimal digits, for names that must not collide.
std::string fingerprintOf(std::string_view text);

// Combines the hash of several values, `seed`, with the hash of one more, for std::hash.
inline size_t combineHashes(size_t seed, size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15ull + (seed << 6) + (seed >> 2));
}

class Hasher {
 public:
  Hasher &add(uint64_t v) {
    state_ = (state_ ^ v) * 0x9e3779b97f4a7c15ull;
    state_ ^= state_ >> 29;
    return *this;
  }
  // The length comes first, so that the border between two texts is part of the hash.
  Hasher &addText(std::string_view text) { return add(text.size()).addBytes(text.data(), text.size()); }
  Hasher &addBytes(const void *data, size_t bytes) { return add(hashOfBytes(data, bytes)); }
  uint64_t value() const {
    uint64_t h = state_;
    h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93ull;
    return h ^ (h >> 32);
  }

 private:
  uint64_t state_ = 0x243f6a8885a308d3ull;
};

}  // namespace popart
