// XXH3 (xxhash.com). The library uses the widest vectors of the machine, which it needs to hash at memory speed.
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

namespace {

// The hash of all bytes, computed block by block. `next(at, size)` returns the bytes from `at` on.
template <class Next>
uint64_t hashByBlocks(size_t bytes, size_t block, const Next &next) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t *)> state(XXH3_createState(), XXH3_freeState);
  if (!state) throw std::bad_alloc();
  XXH3_64bits_reset(state.get());
  for (size_t at = 0; at < bytes; at += block) {
    const size_t size = std::min(block, bytes - at);
    XXH3_64bits_update(state.get(), next(at, size), size);
  }
  return XXH3_64bits_digest(state.get());
}

}  // namespace

uint64_t hashOfBytes(const void *data, size_t bytes) {
  constexpr size_t kBlock = 4 << 10, kAhead = 8 << 10, kLine = 64;
  if (bytes < (size_t{256} << 10)) return XXH3_64bits(data, bytes);
  // The hardware prefetcher restarts at each page, and the library prefetches less than a page ahead.
  return hashByBlocks(bytes, kBlock, [&](size_t at, size_t) {
    const char *const first = static_cast<const char *>(data) + at;
    const char *const end = static_cast<const char *>(data) + std::min(bytes, at + kAhead + kBlock);
    for (const char *line = first + kAhead; line < end; line += kLine) __builtin_prefetch(line);
    return first;
  });
}

uint64_t copyAndHash(void *to, const void *from, size_t bytes) {
  constexpr size_t kBlock = size_t{256} << 10;  // stays in the cache between copying and hashing
  return hashByBlocks(bytes, kBlock, [&](size_t at, size_t size) {
    return std::memcpy(static_cast<char *>(to) + at, static_cast<const char *>(from) + at, size);
  });
}

std::string fingerprintOf(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  std::string digits;
  for (uint64_t half : {hash.high64, hash.low64})
    for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[half >> shift & 15];
  return digits;
}

}  // namespace popart
