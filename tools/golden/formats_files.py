#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small files of each format, written by the libraries that define the formats.

    python3 tools/golden/formats_files.py src/formats/test/data

Needs numpy, torch, safetensors and gguf. Byte i of a tensor's data is (37 i + 11 k) mod 256 where k is the tensor's
place in the list, except for the halves and floats of the GGUF file, which are numbers.
"""
import struct
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import save

SAFETENSORS_TYPES = ["bool", "uint8", "int8", "int16", "uint16", "float16", "bfloat16", "int32", "uint32", "float32",
                     "float64", "int64", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"]
GGUF_TYPES = ["F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K",
              "Q5_K", "Q6_K", "MXFP4", "IQ4_XS"]


def ramp(size: int, place: int) -> np.ndarray:
    return ((37 * np.arange(size) + 11 * place) % 256).astype(np.uint8)


def all_dtypes() -> bytes:
    tensors = {}
    for place, name in enumerate(SAFETENSORS_TYPES):
        dtype = getattr(torch, name)
        raw = torch.from_numpy(ramp(6 * dtype.itemsize, place))
        tensors[f"t.{name}"] = (raw % 2 if name == "bool" else raw).view(dtype).reshape(2, 3)
    tensors["scalar"] = torch.tensor(2.5)
    tensors["empty"] = torch.zeros(0, 4)
    return save(tensors, metadata={"format": "pt", "made by": "tools/golden/formats_files.py"})


def all_ggml_types(path: Path) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint8("v.u8", 200)
    writer.add_int8("v.i8", -100)
    writer.add_uint16("v.u16", 60000)
    writer.add_int16("v.i16", -30000)
    writer.add_uint32("v.u32", 4000000000)
    writer.add_int32("v.i32", -2000000000)
    writer.add_uint64("v.u64", 2**63 + 5)
    writer.add_int64("v.i64", -(2**62))
    writer.add_float32("v.f32", 0.1)
    writer.add_float64("v.f64", 0.1)
    writer.add_bool("v.bool", True)
    writer.add_string("v.string", "héllo\n")
    writer.add_array("a.string", ["", "a", "\u2581the", "\U0001f600"])
    writer.add_array("a.i32", [1, -2, 3])
    writer.add_array("a.f32", [0.5, -1.5])
    writer.add_array("a.bool", [True, False])
    for place, name in enumerate(GGUF_TYPES):
        qtype = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[qtype]
        row = 256 // elements * size
        data = ramp(3 * row, place).reshape(3, row)
        writer.add_tensor(f"blk.{place}.{name}", data, raw_shape=(3, row), raw_dtype=qtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def nested_arrays() -> bytes:
    """Version 2, an array of arrays, alignment 64, one scalar tensor: what the writer above can not make."""
    out = b"GGUF" + struct.pack("<IQQ", 2, 1, 2)
    out += string("nested") + struct.pack("<IIQ", 9, 9, 2)
    out += struct.pack("<IQ3H", 2, 3, 1, 2, 3) + struct.pack("<IQ", 8, 2) + string("x") + string("yz")
    out += string("general.alignment") + struct.pack("<II", 4, 64)
    out += string("scalar") + struct.pack("<IIQ", 0, 0, 0)
    out += b"\0" * (-len(out) % 64)
    return out + struct.pack("<f", 1.25) + b"\0" * 60


def main() -> None:
    folder = Path(sys.argv[1])
    (folder / "all_dtypes.safetensors").write_bytes(all_dtypes())
    all_ggml_types(folder / "all_types.gguf")
    (folder / "nested_v2.gguf").write_bytes(nested_arrays())
    np.save(folder / "f32_2x3.npy", np.arange(6, dtype=np.float32).reshape(2, 3) / 4)
    np.save(folder / "i64_scalar.npy", np.array(-7, dtype=np.int64))
    np.save(folder / "f64_fortran.npy", np.asfortranarray(np.arange(6.0).reshape(2, 3)))


if __name__ == "__main__":
    main()
