#!/usr/bin/env python3
"""Converts one case of a golden file to safetensors, for `moxie run`.

The inputs keep their names, and the cotangent of output y becomes cot.y. With --expected, the outputs and the
gradients (as grad.x) go into a second file, to compare with what `moxie run` writes.
"""
import argparse
import json
import os
import struct
import sys
import tempfile

FORMATS = {"f32": ("F32", "f", 4), "f64": ("F64", "d", 8)}


def encode(tensors, dtype):
    """The bytes of a safetensors file: header size, JSON header, data."""
    name, code, size = FORMATS[dtype]
    header, data, offset = {}, [], 0
    for key in sorted(tensors):
        values = tensors[key]["data"]
        end = offset + size * len(values)
        header[key] = {"dtype": name, "shape": tensors[key]["shape"], "data_offsets": [offset, end]}
        data.append(struct.pack(f"<{len(values)}{code}", *values))
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data)


def write(path, contents):
    """Writes beside the file and renames, so that nothing half-written is left behind."""
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path) or ".", delete=False) as file:
        file.write(contents)
    os.replace(file.name, path)


def prefixed(prefix, tensors):
    return {prefix + name: tensor for name, tensor in tensors.items()}


def find_case(golden, name):
    for case in golden["cases"]:
        if name is None or case["name"] == name:
            return case
    names = ", ".join(case["name"] for case in golden["cases"])
    sys.exit(f"golden_to_safetensors: there is no case '{name}'; choose one of: {names}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("golden", help="a golden file, such as gpn.psi.json")
    parser.add_argument("out", help="the safetensors file of inputs and cotangents")
    parser.add_argument("--case", help="the name of the case (default: the first)")
    parser.add_argument("--dtype", choices=FORMATS, default="f64")
    parser.add_argument("--expected", metavar="FILE", help="also write outputs and gradients")
    options = parser.parse_args()

    with open(options.golden) as file:
        case = find_case(json.load(file), options.case)
    write(options.out, encode({**case["inputs"], **prefixed("cot.", case["cotangents"])}, options.dtype))
    if options.expected:
        write(options.expected, encode({**case["outputs"], **prefixed("grad.", case["gradients"])}, options.dtype))


if __name__ == "__main__":
    main()
