// XXH3 (xxhash.com), compiled into this file: for the instruction sets that every machine of the build's kind has.
#include "base/hash.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace popart {

uint64_t hashOfBytes(const void *data, size_t bytes) { return XXH3_64bits(data, bytes); }

uint64_t copyAndHash(void *to, const void *from, size_t bytes) {
  constexpr size_t kBlock = size_t{256} << 10;  // stays in the cache between copying and hashing
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (size_t at = 0; at < bytes; at += kBlock) {
    const size_t size = std::min(kBlock, bytes - at);
    char *const block = static_cast<char *>(to) + at;
    std::memcpy(block, static_cast<const char *>(from) + at, size);
    XXH3_64bits_update(&state, block, size);
  }
  return XXH3_64bits_digest(&state);
}

std::string fingerprintOf(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  std::string digits;
  for (uint64_t half : {hash.high64, hash.low64})
    for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[half >> shift & 15];
  return digits;
}

}  // namespace popart
