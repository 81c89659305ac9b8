// XXH3 (xxhash.com). The library takes the widest vectors of the machine, which it needs to be as fast as memory.
#include "base/hash.hpp"

#ifdef POPART_XXHASH_DISPATCH
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

namespace popart {

uint64_t hashOfBytes(const void *data, size_t bytes) { return XXH3_64bits(data, bytes); }

uint64_t copyAndHash(void *to, const void *from, size_t bytes) {
  constexpr size_t kBlock = size_t{256} << 10;  // stays in the cache between copying and hashing
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t *)> state(XXH3_createState(), XXH3_freeState);
  if (!state) throw std::bad_alloc();
  XXH3_64bits_reset(state.get());
  for (size_t at = 0; at < bytes; at += kBlock) {
    const size_t size = std::min(kBlock, bytes - at);
    char *const block = static_cast<char *>(to) + at;
    std::memcpy(block, static_cast<const char *>(from) + at, size);
    XXH3_64bits_update(state.get(), block, size);
  }
  return XXH3_64bits_digest(state.get());
}

std::string fingerprintOf(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  std::string digits;
  for (uint64_t half : {hash.high64, hash.low64})
    for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[half >> shift & 15];
  return digits;
}

}  // namespace popart
