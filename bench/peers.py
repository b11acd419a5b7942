#!/usr/bin/env python3
"""Times ops of this library beside torch's, interleaved in one process on the same data, and prints JSON.

    cmake -DMINITE_BENCH=ON ... && ninja minite_peers
    python3 bench/peers.py --library build/release/bench/libminite_peers.so [--rounds 5] [--filter REGEX]

A ratio is torch's time over ours. Where torch, a GPU or one of the ops is missing, the row says so: "against" is
"absent" and "reason" a sentence. Nothing here is a stored number.
"""
import argparse
import ctypes
import datetime
import json
import re
import statistics
import sys

CALLS = 20  # of one side in a round
ROTATE = 256 << 20  # bytes that a round's buffers take at least, four times the L2


def load_torch():
    """torch, and why it cannot be used ("" when it can)."""
    try:
        import torch
    except ImportError as error:
        return None, f"torch cannot be imported: {error}"
    if not torch.cuda.is_available():
        return None, "torch sees no CUDA device"
    return torch, ""


class Library:
    """The C interface of bench/peers.cpp."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.minite_peers_error.restype = ctypes.c_char_p
        for name in ("minite_nvfp4_bytes", "minite_gemm_scratch", "minite_grouped_scratch"):
            getattr(self.lib, name).restype = ctypes.c_int64

    def call(self, name, *args):
        """Pointers and sizes as 64 bits, floats as floats."""
        values = [ctypes.c_float(a) if isinstance(a, float) else ctypes.c_int64(a) for a in args]
        if getattr(self.lib, name)(*values) != 0:
            raise RuntimeError(f"{name}: {self.lib.minite_peers_error().decode()}")

    def size(self, name, *args):
        return getattr(self.lib, name)(*[ctypes.c_int64(a) for a in args])

    def has(self, name):
        return hasattr(self.lib, name)


def activations(torch, rows, cols):
    """N(0, 1), one row in 64 thirty times larger."""
    x = torch.randn(rows, cols, device="cuda")
    x[::64] *= 30
    return x.bfloat16()


def torch_nvfp4(torch, x):
    """NVFP4 with a scale a row in torch's own ops: what a user without a kernel writes. Codes one to a byte."""
    rows = x.shape[0]
    v = x.float().view(rows, -1, 16)
    amax = v.abs().amax(dim=(1, 2), keepdim=True)
    encode = torch.where(amax == 0, torch.ones_like(amax), 2688.0 / amax)
    scale = (v.abs().amax(dim=2, keepdim=True) * (encode / 6)).clamp(max=448).to(torch.float8_e4m3fn)
    y = v * (encode / scale.float().clamp(min=2.0**-9))
    edges = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], device=x.device)
    codes = torch.bucketize(y.abs(), edges).to(torch.uint8) | ((y < 0).to(torch.uint8) << 3)
    return codes, scale, amax


def gemm_row(m, n, k):
    def build(torch, lib):
        a, b = activations(torch, m, k), (torch.randn(n, k, device="cuda") * 0.02).bfloat16()
        y, z = torch.empty(m, n, device="cuda", dtype=torch.bfloat16), None
        scratch = torch.empty(max(1, lib.size("minite_gemm_scratch", m, n, k)), device="cuda", dtype=torch.uint8)
        z = torch.empty_like(y)

        def ours(stream):
            lib.call("minite_gemm_bf16", a.data_ptr(), b.data_ptr(), y.data_ptr(), m, n, k, scratch.data_ptr(), stream)

        return ours, lambda stream: torch.mm(a, b.t(), out=z), 2 * (m * k + n * k + m * n)

    return f"gemm/bf16/{m}x{n}x{k}", f"M={m} N={n} K={k}", "torch.mm", ("minite_gemm_bf16",), build


def quantize_row(rows, cols):
    def build(torch, lib):
        x = activations(torch, rows, cols)
        place = torch.empty(lib.size("minite_nvfp4_bytes", rows, cols), device="cuda", dtype=torch.uint8)

        def ours(stream):
            lib.call("minite_quantize_nvfp4", x.data_ptr(), place.data_ptr(), rows, cols, stream)

        return ours, lambda stream: torch_nvfp4(torch, x), x.numel() * 3

    return f"quantize/{rows}x{cols}", f"{rows}x{cols}", "torch ops", ("minite_quantize_nvfp4",), build


def norm_row(rows, cols):
    def build(torch, lib):
        x, w = activations(torch, rows, cols), torch.randn(cols, device="cuda").bfloat16()
        y = torch.empty_like(x)
        place = torch.empty(lib.size("minite_nvfp4_bytes", rows, cols), device="cuda", dtype=torch.uint8)

        def ours(stream):
            lib.call("minite_rmsnorm_nvfp4", x.data_ptr(), w.data_ptr(), y.data_ptr(), place.data_ptr(), rows, cols,
                     1e-6, stream)

        def theirs(stream):
            return torch_nvfp4(torch, torch.nn.functional.rms_norm(x, (cols,), w, 1e-6))

        return ours, theirs, x.numel() * 5

    return f"norm_quantize/{rows}x{cols}", f"{rows}x{cols}", "torch rms_norm + torch ops", ("minite_rmsnorm_nvfp4",), build


def grouped_row(experts, n, k, rows):
    """Equal groups."""

    def build(torch, lib):
        if not hasattr(torch, "_grouped_mm"):
            raise RuntimeError("this torch has no _grouped_mm")
        a = activations(torch, rows, k)
        b = (torch.randn(experts, n, k, device="cuda") * 0.02).bfloat16()
        y = torch.empty(rows, n, device="cuda", dtype=torch.bfloat16)
        bounds = torch.arange(experts + 1, device="cuda", dtype=torch.int32) * (rows // experts)
        size = lib.size("minite_grouped_scratch", rows, experts, n, k)
        scratch = torch.empty(max(1, size), device="cuda", dtype=torch.uint8)

        def ours(stream):
            lib.call("minite_grouped_gemm_bf16", a.data_ptr(), bounds.data_ptr(), b.data_ptr(), y.data_ptr(), rows,
                     experts, n, k, scratch.data_ptr(), stream)

        def theirs(stream):
            return torch._grouped_mm(a, b.transpose(1, 2), offs=bounds[1:])

        return ours, theirs, 2 * (rows * k + experts * n * k + rows * n)

    name = f"grouped/bf16/{experts}x{n}x{k}/{rows}"
    needs = ("minite_grouped_scratch", "minite_grouped_gemm_bf16")
    return name, f"{experts} experts {n}x{k}, {rows} rows", "torch._grouped_mm", needs, build


ROWS = [
    gemm_row(8192, 8192, 8192),
    gemm_row(4096, 6144, 2560),
    gemm_row(4096, 19456, 2560),
    quantize_row(16384, 4096),
    norm_row(16384, 2560),
    norm_row(16384, 4096),
    norm_row(8192, 8192),
    grouped_row(128, 1536, 2048, 2048),
    grouped_row(128, 1536, 2048, 32768),
]


def time_us(torch, sets, side):
    """Microseconds of a call: CALLS calls over the sets of buffers in turn."""
    stream = torch.cuda.current_stream().cuda_stream
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for i in range(CALLS):
        sets[i % len(sets)][side](stream)
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1000 / CALLS


def measure(torch, lib, build, rounds):
    first = build(torch, lib)
    sets = [first] + [build(torch, lib) for _ in range(min(16, ROTATE // first[2]))]
    for side in (0, 1):
        time_us(torch, sets, side)  # warm
    pairs = [(time_us(torch, sets, 0), time_us(torch, sets, 1)) for _ in range(rounds)]
    ratios = [theirs / ours for ours, theirs in pairs]
    return {
        "ratio": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "ours": statistics.median(p[0] for p in pairs),
        "theirs": statistics.median(p[1] for p in pairs),
    }


def why_absent(lib, missing_library, no_torch, needs):
    if lib is None:
        return missing_library
    missing = [name for name in needs if not lib.has(name)]
    if missing:
        return f"the library has no {', '.join(missing)}"
    return no_torch


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--library", default="build/release/bench/libminite_peers.so")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--filter", default="", help="a regular expression that a row's name contains")
    args = parser.parse_args()
    torch, no_torch = load_torch()
    lib, missing_library = None, ""
    try:
        lib = Library(args.library)
    except OSError as error:
        missing_library = f"{args.library} cannot be opened: {error}; build the target minite_peers"
    machine = {"date": datetime.date.today().isoformat(), "rounds": args.rounds, "torch": torch and torch.__version__}
    if torch:
        machine["device"] = torch.cuda.get_device_name()
        machine["cuda"] = torch.version.cuda
    rows = []
    for name, problem, against, needs, build in ROWS:
        if not re.search(args.filter, name):
            continue
        row = {"name": name, "problem": problem, "unit": "us", "rival": against}
        reason = why_absent(lib, missing_library, no_torch, needs)
        if reason:
            rows.append({**row, "against": "absent", "reason": reason})
            continue
        try:
            measured = measure(torch, lib, build, args.rounds)
        except RuntimeError as error:  # one side cannot run this row: the others still can
            rows.append({**row, "against": "absent", "reason": str(error)})
            continue
        rows.append({**row, "against": f"torch {torch.__version__}", **measured})
        print(f"{name}: {rows[-1]['ratio']:.2f}", file=sys.stderr)
    if not rows:
        sys.exit(f"--filter {args.filter}: no row has such a name; names look like {ROWS[0][0]}")
    print(json.dumps({"machine": machine, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
