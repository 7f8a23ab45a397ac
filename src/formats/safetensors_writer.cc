// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "base/json.h"
#include "formats/safetensors.h"
#include "formats/tensor_layout.h"

namespace firstlight::formats {

namespace fs = std::filesystem;

namespace {

// Data begins at a multiple of this: readers that map the file then find aligned tensors (the reference writer uses 8).
constexpr uint64_t kDataAlignment = 64;

Status disk_error(const std::string& path, std::string_view what) {
  return invalid_argument(path + ": cannot " + std::string(what) + ": " + std::strerror(errno));
}

struct OpenShard {
  std::string final_path;
  std::string partial_path;
  int fd = -1;
};

struct Placed {
  size_t shard_idx = 0;
  uint64_t begin = 0;  // in the file
  uint64_t size_bytes = 0;
  uint64_t done_bytes = 0;  // appended so far
};

Result<uint64_t> planned_bytes(const TensorPlan& plan) {
  const std::string context = "tensor " + quote_name(plan.name);
  if (plan.name.empty()) return invalid_argument("a tensor without a name");
  if (plan.name == "__metadata__") return invalid_argument(context + ": the name is reserved");
  if (!safetensors_dtype_name(plan.dtype)) {
    return unsupported(context + ": safetensors has no type for " + std::string(tensor::dtype_name(plan.dtype)));
  }
  const auto elements = count_elements(plan.shape);
  if (!elements.ok()) return invalid_argument(context + ": " + elements.status().message());
  const tensor::DTypeInfo& info = tensor::dtype_info(plan.dtype);
  const auto bytes = count_bytes(*elements, info.block_elements, info.block_bytes);
  if (!bytes.ok()) return invalid_argument(context + ": " + bytes.status().message());
  return *bytes;
}

// Which tensors go into which file, in the order given: a shard is closed when the next tensor would make it too large.
std::vector<std::vector<size_t>> split_into_shards(const std::vector<uint64_t>& sizes, uint64_t max_shard_bytes) {
  std::vector<std::vector<size_t>> shards(1);
  uint64_t used = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (max_shard_bytes > 0 && !shards.back().empty() && sizes[i] > max_shard_bytes - std::min(used, max_shard_bytes)) {
      shards.emplace_back();
      used = 0;
    }
    shards.back().push_back(i);
    used += sizes[i];
  }
  return shards;
}

std::string shard_name(const std::string& stem, size_t idx, size_t count) {
  if (count == 1) return stem + ".safetensors";
  std::array<char, 48> suffix{};
  std::snprintf(suffix.data(), suffix.size(), "-%05zu-of-%05zu.safetensors", idx + 1, count);
  return stem + suffix.data();
}

// Length, JSON, blanks up to the alignment. `order`: the tensors in the order of their data.
std::string header_bytes(const std::vector<TensorPlan>& plans, const std::vector<uint64_t>& sizes,
                         const std::vector<size_t>& order, const StringMap& metadata) {
  std::string json = "{";
  const auto quoted = [](const std::string& text) { return dump_json(Json(text)); };
  if (!metadata.empty()) {
    json += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) json += quoted(key) + ":" + quoted(value) + ",";
    json.back() = '}';
  }
  uint64_t offset = 0;
  for (const size_t i : order) {
    if (json.size() > 1) json += ",";
    json += quoted(plans[i].name) + ":{\"dtype\":\"" + std::string(*safetensors_dtype_name(plans[i].dtype)) +
            "\",\"shape\":" + dump_json(Json(plans[i].shape)) + ",\"data_offsets\":[" + std::to_string(offset) + "," +
            std::to_string(offset + sizes[i]) + "]}";
    offset += sizes[i];
  }
  json += "}";
  const uint64_t total = (8 + json.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
  json.resize(total - 8, ' ');
  const uint64_t length = json.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + json;
}

Status write_at(int fd, const std::string& path, std::span<const std::byte> bytes, uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return disk_error(path, "write");
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return ok_status();
}

}  // namespace

struct SafetensorsWriter::State {
  std::string directory;
  std::string stem;
  std::vector<OpenShard> shards;
  std::map<std::string, Placed, std::less<>> tensors;
  std::vector<std::string> files;
  uint64_t total_bytes = 0;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    for (const OpenShard& shard : shards) {
      if (shard.fd < 0) continue;
      ::close(shard.fd);
      ::unlink(shard.partial_path.c_str());
    }
  }

  // Creates one shard's file with its header and notes where its tensors go.
  Status begin_shard(const std::vector<TensorPlan>& plans, const std::vector<uint64_t>& sizes,
                     std::vector<size_t> order, const StringMap& metadata) {
    // Wide elements first keeps every tensor aligned to its element, since holes are not allowed.
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return tensor::dtype_info(plans[a].dtype).block_bytes > tensor::dtype_info(plans[b].dtype).block_bytes;
    });
    OpenShard& shard = shards[shards.size() - 1];
    shard.fd = ::open(shard.partial_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (shard.fd < 0) return disk_error(shard.partial_path, "create");
    const std::string header = header_bytes(plans, sizes, order, metadata);
    FL_TRY(write_at(shard.fd, shard.partial_path, std::as_bytes(std::span(header)), 0));
    uint64_t offset = header.size();
    for (const size_t i : order) {
      tensors.emplace(plans[i].name, Placed{shards.size() - 1, offset, sizes[i], 0});
      offset += sizes[i];
      total_bytes += sizes[i];
    }
    return ok_status();
  }

  std::string index_text() const {
    Json weight_map = Json::object();
    // Pushed at the back: an ordered object would look each key up first.
    auto& items = weight_map.get_ref<Json::object_t&>();
    for (const auto& [name, placed] : tensors) {
      items.emplace_back(name, fs::path(shards[placed.shard_idx].final_path).filename().string());
    }
    Json index = {{"metadata", {{"total_size", total_bytes}}}};
    index["weight_map"] = std::move(weight_map);
    return dump_json(index, 2) + "\n";
  }
};

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter& SafetensorsWriter::operator=(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

const std::vector<std::string>& SafetensorsWriter::files() const { return state_->files; }

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& directory, std::vector<TensorPlan> tensors,
                                                    SafetensorsWriteOptions options) {
  std::vector<uint64_t> sizes;
  std::set<std::string_view> names;
  for (const TensorPlan& plan : tensors) {
    sizes.push_back(FL_TRY(planned_bytes(plan)));
    if (!names.insert(plan.name).second) {
      return invalid_argument("tensor " + quote_name(plan.name) + " is announced twice");
    }
  }
  auto state = std::make_unique<State>();
  state->directory = directory;
  state->stem = options.stem;
  const auto shards = split_into_shards(sizes, options.max_shard_bytes);
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string path = (fs::path(directory) / shard_name(options.stem, i, shards.size())).string();
    state->files.push_back(path);
    state->shards.push_back({path, path + ".partial", -1});
    FL_TRY(state->begin_shard(tensors, sizes, shards[i], options.metadata));
  }
  if (shards.size() > 1) {
    state->files.push_back((fs::path(directory) / (options.stem + ".safetensors.index.json")).string());
  }
  return SafetensorsWriter(std::move(state));
}

Status SafetensorsWriter::append(std::string_view name, std::span<const std::byte> bytes) {
  const auto found = state_->tensors.find(name);
  if (found == state_->tensors.end()) return not_found("tensor " + quote_name(name) + " was not announced");
  Placed& placed = found->second;
  if (bytes.size() > placed.size_bytes - placed.done_bytes) {
    return invalid_argument("tensor " + quote_name(name) + ": " + std::to_string(placed.done_bytes + bytes.size()) +
                            " bytes, its type and shape want " + std::to_string(placed.size_bytes));
  }
  const OpenShard& shard = state_->shards[placed.shard_idx];
  FL_CHECK(shard.fd >= 0);
  FL_TRY(write_at(shard.fd, shard.partial_path, bytes, placed.begin + placed.done_bytes));
  placed.done_bytes += bytes.size();
  return ok_status();
}

Status SafetensorsWriter::finish() {
  for (const auto& [name, placed] : state_->tensors) {
    if (placed.done_bytes == placed.size_bytes) continue;
    return invalid_argument("tensor " + quote_name(name) + " is incomplete: " + std::to_string(placed.done_bytes) +
                            " of " + std::to_string(placed.size_bytes) + " bytes");
  }
  for (OpenShard& shard : state_->shards) {
    const int fd = std::exchange(shard.fd, -1);
    Status status;
    if (::close(fd) != 0) {
      status = disk_error(shard.partial_path, "write");
    } else if (::rename(shard.partial_path.c_str(), shard.final_path.c_str()) != 0) {
      status = disk_error(shard.final_path, "rename into place");
    }
    if (!status.ok()) ::unlink(shard.partial_path.c_str());
    FL_TRY(std::move(status));
  }
  if (state_->shards.size() == 1) return ok_status();
  return write_file(state_->files.back(), state_->index_text());
}

}  // namespace firstlight::formats
