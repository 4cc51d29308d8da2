"""One of moxie's formulas as a function of Python, through the program."""
import json
import pathlib
import struct
import subprocess
import tempfile


def flat(values):
    return [value for part in values for value in flat(part)] if isinstance(values, (list, tuple)) else [float(values)]


def extents(values):
    return [len(values), *extents(values[0])] if isinstance(values, (list, tuple)) else []


def run_formula(program, operation, **inputs):
    """The outputs of the formula in double, by name, as flat lists; `program` is the path of moxie."""
    header, data = {}, b""
    for name, values in inputs.items():
        part = struct.pack(f"<{len(flat(values))}d", *flat(values))
        header[name] = {"dtype": "F64", "shape": extents(values), "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    with tempfile.TemporaryDirectory() as folder:
        given, found = pathlib.Path(folder, "in.safetensors"), pathlib.Path(folder, "out.safetensors")
        given.write_bytes(struct.pack("<Q", len(text)) + text + data)
        command = [program, "run", operation, "--dtype", "f64", "--device", "interp", "--in", given, "--out", found]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{operation}: {done.stderr}")
        content = found.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    outputs = {}
    for name, tensor in json.loads(content[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in tensor["data_offsets"])
            outputs[name] = list(struct.unpack(f"<{(end - begin) // 8}d", content[begin:end]))
    return outputs
