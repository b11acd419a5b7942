"""Reads FOLDER/q (safetensors) and FOLDER/q.gguf with the packages of others; exits 77 when they are missing."""
import json
import struct
import sys

try:
    import gguf
    import numpy
    import safetensors
except ImportError:
    sys.exit(77)

folder = sys.argv[1]
path = f"{folder}/q/model.safetensors"
with open(path, "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
with safetensors.safe_open(path, "numpy") as stored:
    names = list(stored.keys())
    assert sorted(names) == sorted(name for name in header if name != "__metadata__")
    for name in names:
        assert stored.get_slice(name).get_shape() == header[name]["shape"], name
    codes = stored.get_tensor("model.layers.0.mlp.up_proj.weight")
    scale = stored.get_tensor("model.layers.0.mlp.up_proj.weight_scale_2")

tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(f"{folder}/q.gguf").tensors}
blocks = tensors["blk.0.ffn_up.weight"]
assert blocks.tensor_type.name == "NVFP4" and list(blocks.shape) == [64, 192], blocks
assert tensors["blk.0.ffn_up.scale"].data[0] == scale
# The same codes: in bytes 2i and 2i + 1 there, split at 8 elements here.
nibbles = numpy.stack([codes & 15, codes >> 4], -1).reshape(192, 64)
data = numpy.asarray(blocks.data).reshape(192, 36)[:, 4:].reshape(192, 4, 8)
assert (numpy.concatenate([data & 15, data >> 4], -1).reshape(192, 64) == nibbles).all()
