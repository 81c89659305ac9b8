// Hasher: 64-bit content hash for cache keys, printing and comparison. Equal calls in equal order give equal values on
// every machine; it is not cryptographic.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace popart {

// XXH3 of the bytes, as fast as memory delivers them.
uint64_t hashOfBytes(const void *data, size_t bytes);
// Copies the bytes and gives the hash of the copy, which is then what was checked; memory is read once.
uint64_t copyAndHash(void *to, const void *from, size_t bytes);
// The 128 bits of XXH3 as 32 hexadecimal digits: names of things that must not be mixed up.
std::string fingerprintOf(std::string_view text);

// Of several values into a std::hash: of everything up to `seed`, and of one value more.
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
  // Length first, so that neighbouring texts cannot run into each other.
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
