// Little endian:
//   header       magic "POPARTEX", u32 version, u32 zero, u64 bytes of the file, u64 checksum of what follows up to the
//                values, u64 lengths of the three texts, u64 number of values
//   description  JSON: {"key", "target", "threads"}
//   program      text of lower::Program, large values as `hash …`, variables without values; empty: variables only
//   variables    an Ir that contains only variables and their values
//   table        per value: u64 hash (XXH3 of its bytes), u64 offset, u64 bytes
//   values       each at a multiple of 64 bytes
#include "session/program_file.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>

#include <popart/error.hpp>

#include "base/environment.hpp"
#include "base/files/mapped_file.hpp"
#include "base/files/pending_file.hpp"
#include "base/hash.hpp"
#include "base/threads/for_each_sized.hpp"

namespace popart::session {
namespace {

static_assert(std::endian::native == std::endian::little, "files of compiled programs are little endian");

constexpr char kMagic[] = "POPARTEX";
constexpr uint32_t kVersion = 2;
constexpr uint64_t kAlign = 64;
// Larger values are copied into memory of the process, which has huge pages; pages of mapped files are small.
constexpr uint64_t kOwnMemoryBytes = uint64_t{16} << 20;

struct Header {
  char magic[8];
  uint32_t version, zero;
  uint64_t fileBytes, checksum;
  uint64_t descriptionBytes, programBytes, variablesBytes, valueCount;
};
static_assert(sizeof(Header) == 64);
constexpr size_t kChecked = 32;  // offset of the first byte that the checksum covers

struct TableRow {
  uint64_t hash, offset, bytes;
};

uint64_t aligned(uint64_t offset) { return (offset + kAlign - 1) / kAlign * kAlign; }

// Kernels read values at multiples of 64 bytes; values of a model may be anywhere in a file.
bool mayServe(const TensorData &held, uint64_t bytes) {
  return static_cast<uint64_t>(held.nbytes()) == bytes && reinterpret_cast<uintptr_t>(held.data()) % kAlign == 0;
}

std::string variablesText(const VariableValues &variables, ValueTable &table) {
  Ir ir;
  for (const auto &[id, value] : variables) {
    check(!value.empty(), "variable '{}' has no values to save", id);
    ir.getMainGraph().addVariable(id, value);
  }
  return printWithTable(ir, table);
}

std::string describe(const ProgramDescription &d) {
  return nlohmann::json{{"key", d.key}, {"target", d.target}, {"threads", d.threads}}.dump(
      -1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void writeProgramFile(const ProgramDescription &description, const lower::Program *program,
                      const VariableValues &variables, const std::function<void(const void *, size_t)> &write) {
  ValueTable values;
  const std::string texts[] = {describe(description), program ? lower::printWithTable(*program, values) : std::string(),
                               variablesText(variables, values)};
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(header.magic));
  header.version = kVersion;
  header.descriptionBytes = texts[0].size(), header.programBytes = texts[1].size();
  header.variablesBytes = texts[2].size(), header.valueCount = values.size();
  std::string table;
  const uint64_t tableEnd =
      sizeof(Header) + texts[0].size() + texts[1].size() + texts[2].size() + values.size() * sizeof(TableRow);
  uint64_t end = tableEnd;
  for (const auto &[hash, value] : values) {
    const TableRow row{hash, aligned(end), static_cast<uint64_t>(value.nbytes())};
    table.append(reinterpret_cast<const char *>(&row), sizeof(row));
    end = row.offset + row.bytes;
  }
  header.fileBytes = end;
  std::string front(reinterpret_cast<const char *>(&header), sizeof(header));
  front += texts[0] + texts[1] + texts[2] + table;
  header.checksum = hashOfBytes(front.data() + kChecked, front.size() - kChecked);
  std::memcpy(front.data(), &header, sizeof(header));
  write(front.data(), front.size());
  uint64_t at = tableEnd;
  for (const auto &[hash, value] : values) {
    const std::string padding(aligned(at) - at, '\0');
    write(padding.data(), padding.size());
    write(value.data(), static_cast<size_t>(value.nbytes()));
    at += padding.size() + static_cast<uint64_t>(value.nbytes());
  }
}

void saveProgramFile(const std::string &path, const ProgramDescription &description, const lower::Program *program,
                     const VariableValues &variables) {
  PendingFile file(path);
  writeProgramFile(description, program, variables,
                   [&file](const void *data, size_t bytes) { file.write(data, bytes); });
  file.commit();
}

ProgramFile ProgramFile::open(const std::string &path, const std::string &what) {
  auto file = MappedFile::open(path, path);
  const std::string_view bytes(file->data(), file->size());
  if (environment::preloadPopef() == "full-preload") return parse(std::string(bytes), what);
  return ProgramFile(std::move(file), bytes, what);
}

ProgramFile ProgramFile::parse(std::string bytes, const std::string &what) {
  // Values are used in place, at multiples of 64 bytes from the start.
  const auto size = static_cast<int64_t>(bytes.size());
  auto copy = std::make_shared<TensorData>(TensorInfo(DataType::UINT8, {size}), bytes.data());
  const std::string_view view(static_cast<const char *>(copy->data()), bytes.size());
  return ProgramFile(std::move(copy), view, what);
}

ProgramFile::ProgramFile(std::shared_ptr<const void> owner, std::string_view bytes, std::string what)
    : owner_(std::move(owner)), bytes_(bytes), what_(std::move(what)) {
  Header header;
  if (bytes.size() < sizeof(header.magic) || !bytes.starts_with(kMagic))
    throw error("{}: this is not a file of a compiled program", what_);
  if (bytes.size() < sizeof(header)) damaged("it ends too early");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.version != kVersion)
    throw error("{}: another version of the file format: got {}, expected {}. Export it again", what_, header.version,
                kVersion);
  if (header.zero != 0) damaged("a number that must be zero is not");
  if (header.fileBytes != bytes.size()) damaged("its length is not the one it was written with");
  uint64_t end = sizeof(header);
  const auto take = [&](uint64_t length) {
    if (length > bytes.size() - end) damaged("it ends too early");
    const std::string_view part = bytes.substr(end, length);
    end += length;
    return part;
  };
  const std::string_view description = take(header.descriptionBytes);
  program_ = take(header.programBytes);
  variables_ = take(header.variablesBytes);
  if (header.valueCount > bytes.size() / sizeof(TableRow)) damaged("it ends too early");
  const std::string_view table = take(header.valueCount * sizeof(TableRow));
  if (hashOfBytes(bytes.data() + kChecked, end - kChecked) != header.checksum) damaged("its checksum is wrong");
  for (uint64_t i = 0; i < header.valueCount; ++i) {
    TableRow row;
    std::memcpy(&row, table.data() + i * sizeof(row), sizeof(row));
    if (row.offset % kAlign != 0 || row.offset > bytes.size() || row.bytes > bytes.size() - row.offset)
      damaged("a value is outside of it");
    values_[row.hash] = {bytes.data() + row.offset, row.bytes};
  }
  const nlohmann::json json = nlohmann::json::parse(description, nullptr, false);
  try {
    description_ = {json.at("key").get<std::string>(), json.at("target").get<std::string>(),
                    json.at("threads").get<int>()};
  } catch (const nlohmann::json::exception &) {
    damaged("its description cannot be read");
  }
}

void ProgramFile::damaged(const std::string &how) const {
  throw error("{}: the file is damaged: {}. Export it again", what_, how);
}

void ProgramFile::takeMemory(Value &value, const TensorData *held) {
  if (held) {
    value.memory = *held;
  } else {
    value.memory = TensorData(TensorInfo(DataType::UINT8, {static_cast<int64_t>(value.bytes)}));
    value.copy = value.memory.mutableData();
  }
}

bool ProgramFile::isIntact(uint64_t hash, Value &value) {
  if (value.isChecked) return true;
  if (value.bytes >= kOwnMemoryBytes && value.memory.empty()) takeMemory(value, nullptr);
  value.isChecked =
      hash == (value.copy ? copyAndHash(value.copy, value.data, value.bytes) : hashOfBytes(value.data, value.bytes));
  return value.isChecked;
}

void ProgramFile::checkValues(int threads, const ValueTable &held) {
  checkValuesDuring([] {}, threads, held);
}

void ProgramFile::checkValuesDuring(const std::function<void()> &other, int threads, const ValueTable &held) {
  std::vector<std::pair<uint64_t, Value *>> all;
  std::vector<int64_t> bytes;
  for (auto &[hash, value] : values_) {
    all.emplace_back(hash, &value);
    bytes.push_back(static_cast<int64_t>(value.bytes));
    if (value.bytes < kOwnMemoryBytes || !value.memory.empty()) continue;
    const auto same = held.find(hash);
    takeMemory(value, same != held.end() && mayServe(same->second, value.bytes) ? &same->second : nullptr);
  }
  std::atomic<bool> good{true};
  std::exception_ptr failure;
  areValuesBeingChecked_ = true;
  try {
    forEachSizedWith(other, bytes, threads, [&](size_t i) {
      if (!isIntact(all[i].first, *all[i].second)) good = false;
    });
  } catch (...) {
    failure = std::current_exception();  // from `other`, which may have read a damaged value
  }
  areValuesBeingChecked_ = false;
  if (!good) damaged("the checksum of a value is wrong");
  if (failure) std::rethrow_exception(failure);
}

lower::Program ProgramFile::checkedProgram(int threads, const ValueTable &held, const lower::FirstValues &first) {
  std::optional<lower::Program> read;
  checkValuesDuring([&] { read = program(first); }, threads, held);
  return std::move(*read);
}

TensorData ProgramFile::value(uint64_t hash, const TensorInfo &info) const {
  const auto found = values_.find(hash);
  if (found == values_.end() || found->second.bytes != static_cast<uint64_t>(info.nbytes()))
    damaged("a value is missing");
  Value &value = found->second;
  if (!areValuesBeingChecked_ && !isIntact(hash, value)) damaged("the checksum of a value is wrong");
  if (value.memory.empty()) return TensorData::share(info, owner_, value.data);
  const auto owner = std::make_shared<const TensorData>(value.memory);
  return TensorData::share(info, owner, owner->data());
}

lower::Program ProgramFile::program(const lower::FirstValues &first) const {
  if (!hasProgram()) throw error("{}: the file holds variables only, no program", what_);
  try {
    return lower::parseProgram(
        program_, [this](uint64_t hash, const TensorInfo &info) { return value(hash, info); }, first);
  } catch (const error &e) {
    throw error("{}: {}", what_, e.what());
  }
}

VariableValues ProgramFile::variables() const {
  VariableValues values;
  const auto ir =
      parseWithTable(variables_, [this](uint64_t hash, const TensorInfo &info) { return value(hash, info); });
  for (const Tensor *t : ir->getMainGraph().tensorsOfType(TensorType::Variable)) values[t->id] = t->tensorData();
  return values;
}

}  // namespace popart::session
