// SPDX-License-Identifier: Apache-2.0
#include "align/identity.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <vector>

#include "align/sketch.h"

namespace firstlight::align {
namespace {

// h = mix64(mix64(bytes) ^ sum of w_i (mix64(i) | 1)), w_i the little-endian words of 8 bytes, zeros behind the end.
class ByteHash {
 public:
  // All calls but the last one with a multiple of 8 bytes.
  void add(std::string_view bytes) {
    for (size_t at = 0; at < bytes.size(); at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, std::min<size_t>(8, bytes.size() - at));
      sum_ += word * (mix64(words_++) | 1);
    }
    bytes_ += bytes.size();
  }
  uint64_t value() const { return mix64(mix64(bytes_) ^ sum_); }

 private:
  uint64_t sum_ = 0, words_ = 0, bytes_ = 0;
};

Result<uint64_t> hash_tensor(const std::string& path, std::ifstream& file, const formats::TensorRecord& record) {
  constexpr size_t kPiece = size_t{1} << 18;
  std::string piece(kPiece, '\0');
  ByteHash hash;
  file.seekg(static_cast<std::streamoff>(record.offset));
  for (uint64_t left = record.size_bytes; left > 0;) {
    const auto count = std::min<uint64_t>(left, kPiece);
    file.read(piece.data(), static_cast<std::streamsize>(count));
    if (!file) return unavailable(path + ": cannot read tensor " + formats::quote_name(record.name));
    hash.add(std::string_view(piece).substr(0, count));
    left -= count;
  }
  return hash.value();
}

bool is_vendor(const Pack& pack) {
  const auto kind = pack.origin.find("kind");
  return kind != pack.origin.end() && kind->second != "firstlight";
}

std::string backend_of(const Pack& pack) {
  const auto backend = pack.origin.find("backend");
  return backend == pack.origin.end() ? "" : backend->second;
}

}  // namespace

std::string hex64(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

Result<std::string> weights_hash(const formats::Checkpoint& checkpoint) {
  std::vector<std::ifstream> files;
  for (const std::string& path : checkpoint.files()) files.emplace_back(path, std::ios::binary);
  uint64_t all = 0;
  for (const auto& [name, record] : checkpoint.tensors()) {
    ByteHash of_name;
    of_name.add(name);
    all = mix64(all ^ of_name.value());
    all = mix64(all ^ FL_TRY(hash_tensor(checkpoint.files()[record.file_idx], files[record.file_idx], record)));
  }
  return hex64(all);
}

int64_t count_parameters(const formats::Checkpoint& checkpoint) {
  int64_t count = 0;
  for (const auto& [name, record] : checkpoint.tensors()) count += record.num_elements();
  return count;
}

std::map<std::string, Sight> visible_faults(const Pack& baseline, const Pack* tested) {
  std::map<std::string, Sight> sights;
  const bool vendor = is_vendor(baseline);
  const bool other_spec = tested != nullptr && baseline.spec_hash != tested->spec_hash;
  sights["spec"] = vendor       ? Sight{true, "the baseline ran the vendor's own code"}
                   : other_spec ? Sight{true, "the two sides ran different graphs"}
                                : Sight{false, "both sides run the same graph: a vendor's recording would see them"};
  const bool other_weights =
      tested != nullptr && !baseline.weights_hash.empty() && baseline.weights_hash != tested->weights_hash;
  sights["weights"] =
      other_weights ? Sight{true, "the two sides have different tensors"}
      : vendor      ? Sight{false, "both sides have the same files; faults of reading them are seen"}
                    : Sight{false, "both sides read the same files: a recording of the clean ones would see them"};
  const bool same_backend = tested != nullptr && !vendor && backend_of(baseline) == backend_of(*tested);
  const Sight kernels = same_backend ? Sight{false, "both sides ran the backend " + backend_of(baseline)}
                                     : Sight{true, "the baseline ran other kernels without fusion"};
  sights["kernels"] = kernels;
  sights["plan"] = kernels;
  return sights;
}

}  // namespace firstlight::align
