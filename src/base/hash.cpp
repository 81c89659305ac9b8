// XXH3 (xxhash.com), compiled into this file: for the instruction sets that every machine of the build's kind has.
#include "base/hash.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace popart {

uint64_t hashOfBytes(const void *data, size_t bytes) { return XXH3_64bits(data, bytes); }

std::string fingerprintOf(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  std::string digits;
  for (uint64_t half : {hash.high64, hash.low64})
    for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[half >> shift & 15];
  return digits;
}

}  // namespace popart
