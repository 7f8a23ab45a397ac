// SPDX-License-Identifier: Apache-2.0
#include "formats/tensor_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include "formats/gguf.h"

namespace firstlight::formats {
namespace {

// The whole pages around (will_need) or inside (done_with) a range.
void advise(std::span<const std::byte> bytes, bool is_inside, int advice) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t end = begin + bytes.size();
  const uintptr_t from = (is_inside ? begin + page - 1 : begin) / page * page;
  const uintptr_t to = is_inside ? end / page * page : end;
  if (from < to) ::madvise(reinterpret_cast<void*>(from), to - from, advice);
}

}  // namespace

Checkpoint::Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

const TensorRecord* Checkpoint::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

Result<std::span<const std::byte>> Checkpoint::bytes(const TensorRecord& record) const {
  FL_CHECK(record.file_idx < maps_.size());
  const std::string& file = files_[record.file_idx];
  if (!record.dtype) {
    return unsupported(file + ": tensor " + quote_name(record.name) + ": nothing here reads " + record.stored_type);
  }
  const auto all = maps_[record.file_idx].bytes();
  if (record.offset > all.size() || record.size_bytes > all.size() - record.offset) {
    return not_found(file + ": tensor " + quote_name(record.name) + ": bytes " + std::to_string(record.offset) +
                     " to " + std::to_string(record.offset + record.size_bytes) + " are not there, the file has " +
                     std::to_string(all.size()) + " (opened for its headers only)");
  }
  return all.subspan(static_cast<size_t>(record.offset), static_cast<size_t>(record.size_bytes));
}

void Checkpoint::will_need(const TensorRecord& record) const {
  const auto range = bytes(record);
  if (range.ok()) advise(*range, false, MADV_WILLNEED);
}

void Checkpoint::done_with(const TensorRecord& record) const {
  const auto range = bytes(record);
  if (range.ok()) advise(*range, true, MADV_DONTNEED);
}

}  // namespace firstlight::formats
