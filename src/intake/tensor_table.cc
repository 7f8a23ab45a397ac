// SPDX-License-Identifier: Apache-2.0
#include "intake/tensor_table.h"

#include "formats/tensor_file.h"
#include "intake/intake.h"

namespace firstlight::intake {

TensorTable TensorTable::of(const formats::Checkpoint& checkpoint) {
  TensorTable table(true);
  for (const auto& [name, record] : checkpoint.tensors()) {
    table.tensors_[name] = {record.dtype, record.stored_type, record.shape};
  }
  return table;
}

TensorTable TensorTable::of(const std::vector<TensorHeader>& headers) {
  TensorTable table(true);
  for (const TensorHeader& header : headers) {
    const std::string stored = header.dtype ? std::string(tensor::dtype_name(*header.dtype)) : "an unknown type";
    table.tensors_[header.name] = {header.dtype, stored, header.shape};
  }
  return table;
}

const TensorInfo* TensorTable::find(std::string_view name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

}  // namespace firstlight::intake
