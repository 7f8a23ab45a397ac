# SPDX-License-Identifier: Apache-2.0
"""Images through torch's conv2d, pooling and interpolate: tests/golden/data/vision_ops.json.

  python tools/golden/vision_ops.py tests/golden/data/vision_ops.json
"""
import json
import sys

import torch
import torch.nn.functional as F


def numbers(x):
    return [round(float(v), 6) for v in x.flatten()]


def case(op, attributes, operands, result):
    return {"op": op, "attributes": attributes, "result": numbers(result),
            "operands": [{"shape": list(o.shape), "values": numbers(o)} for o in operands]}


def main(path):
    torch.manual_seed(7)
    x = torch.randn(2, 4, 7, 9, dtype=torch.float64).round(decimals=3)
    cases = []
    for groups, stride, padding, dilation, bias in ((1, (1, 1), (0, 0), (1, 1), True), (2, (2, 1), (1, 2), (1, 2), False)):
        w = torch.randn(6, 4 // groups, 3, 2, dtype=torch.float64).round(decimals=3)
        b = torch.randn(6, dtype=torch.float64).round(decimals=3) if bias else None
        y = F.conv2d(x, w, b, stride, padding, dilation, groups)
        pads = f"{padding[0]}, {padding[0]}, {padding[1]}, {padding[1]}"
        cases.append(case("conv2d", f"{{stride = [{stride[0]}, {stride[1]}], padding = [{pads}], "
                                    f"dilation = [{dilation[0]}, {dilation[1]}], groups = {groups}}}",
                          [x, w] + ([b] if bias else []), y))
    cases.append(case("pool2d", '{op = "max", kernel = [3, 2], stride = [2, 1], padding = [1]}', [x],
                      F.max_pool2d(x, (3, 2), (2, 1), (1, 1))))
    for count in (True, False):
        cases.append(case("pool2d", f'{{op = "mean", kernel = [3], stride = [2], padding = [1], '
                                    f'count_padding = {str(count).lower()}}}', [x],
                          F.avg_pool2d(x, 3, 2, 1, count_include_pad=count)))
    for mode in ("nearest", "bilinear", "bicubic"):
        for size in ((5, 4), (11, 17), (1, 1)):
            for corners, antialias in ((False, False), (True, False), (False, True)):
                if mode == "nearest" and (corners or antialias):
                    continue
                options = {} if mode == "nearest" else {"align_corners": corners, "antialias": antialias}
                cases.append(case("interp2d", f'{{size = [{size[0]}, {size[1]}], mode = "{mode}", align_corners = '
                                              f'{str(corners).lower()}, antialias = {str(antialias).lower()}}}',
                                  [x[:1, :2]], F.interpolate(x[:1, :2], size, mode=mode, **options)))
    with open(path, "w") as out:
        json.dump({"made_by": "tools/golden/vision_ops.py", "torch": torch.__version__, "cases": cases}, out)


main(sys.argv[1])
