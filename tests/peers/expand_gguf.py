# SPDX-License-Identifier: Apache-2.0
"""Writes a GGUF file whose tensors are those of another as float32: `python3 expand_gguf.py FROM TO`.

Every quantised value becomes the float32 that its format says it is (by the `gguf` package, the format's own library),
metadata stays except general.file_type. What two engines then compute differs by float32 rounding alone."""

import os
import sys

import gguf


def expand(source, target):
    """`target` appears whole or not at all."""
    reader = gguf.GGUFReader(source)
    fields = {name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    writer = gguf.GGUFWriter(f"{target}.part", fields.pop("general.architecture").contents())
    for name, field in fields.items():
        kind = field.types[0]
        items = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, 0 if name == "general.file_type" else field.contents(), kind, sub_type=items)
    for tensor in reader.tensors:
        data = tensor.data
        if tensor.tensor_type != gguf.GGMLQuantizationType.F32:
            data = gguf.quants.dequantize(data, tensor.tensor_type)
        writer.add_tensor(tensor.name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(f"{target}.part", target)


if __name__ == "__main__":
    expand(sys.argv[1], sys.argv[2])
