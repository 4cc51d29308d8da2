#!/usr/bin/env python3
"""A layer of Gaussian process neurons, mean and variance with gradients, in PyTorch on a GPU: eager and compiled, as one JSON object.

The formulas are those of ops/gpn/gpn.response_variance.mox. What cannot run (memory, compiler) is reported with its reason.
"""
import argparse
import json
import statistics
import sys

try:
    import torch
except ImportError as error:
    print(json.dumps({"skipped": f"{error}"}))
    sys.exit(0)


def layer(mu, var, V, U, noise, lam, sigma):
    """mu, var [S,N]; V, U, noise [R,N]; lam, sigma [N]"""
    squares = lam**2
    gaps = V[:, None] - V[None]
    K = torch.exp(-(gaps**2) / (2 * squares)).permute(2, 0, 1) + torch.diag_embed(noise.T)
    kappa = torch.linalg.inv(K)
    beta = torch.einsum("nrt,tn->rn", kappa, U)
    p, q = squares + var, squares + 2 * var
    psi = torch.sqrt(squares / p)[:, None] * torch.exp(-((mu[:, None] - V) ** 2) / (2 * p[:, None]))
    mean = torch.einsum("srn,rn->sn", psi, beta)
    middle = (V[:, None] + V[None]) / 2
    omega = torch.sqrt(squares / q)[:, None, None] * torch.exp(
        -((mu[:, None, None] - middle) ** 2) / q[:, None, None] - gaps**2 / (4 * squares))
    M = kappa.permute(1, 2, 0) - beta[:, None] * beta
    second_moment = 1 - torch.einsum("rtn,srtn->sn", M, omega)
    return mean, torch.clamp(second_moment - mean**2, min=0) + sigma**2


def median_seconds(work, repeats):
    times = []
    for repeat in range(repeats + 3):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        stop.record()
        stop.synchronize()
        if repeat >= 3:
            times.append(start.elapsed_time(stop) / 1e3)
    return statistics.median(times)


def measure(function, S, N, R, repeats):
    torch.manual_seed(0)
    options = {"device": "cuda"}
    leaves = [torch.randn(S, N, **options), torch.rand(S, N, **options) + 0.05, torch.randn(R, N, **options),
              torch.full((R, N), 0.1**0.5, **options)]
    mu, var, U, noise = (leaf.requires_grad_() for leaf in leaves)
    V = torch.linspace(-2, 2, R, **options)[:, None].repeat(1, N)
    lam, sigma = torch.ones(N, **options), torch.full((N,), 0.1, **options)
    cotangents = [torch.randn(S, N, **options) for _ in range(2)]

    def forward():
        with torch.no_grad():
            function(mu, var, V, U, noise, lam, sigma)

    def both():
        torch.autograd.grad(function(mu, var, V, U, noise, lam, sigma), leaves, cotangents)

    return {"forward_s": median_seconds(forward, repeats), "forward_backward_s": median_seconds(both, repeats)}


def attempt(*arguments):
    try:
        return measure(*arguments)
    except Exception as error:  # whatever PyTorch or its compiler stops with is the finding
        return {"failed": f"{type(error).__name__}: {error}"[:500]}
    finally:
        torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, extent in {"S": 16384, "N": 512, "R": 14}.items():
        parser.add_argument(f"--{name}", type=int, default=extent)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print(json.dumps({"skipped": "PyTorch sees no GPU"}))
        return
    torch.backends.cuda.matmul.allow_tf32 = False
    extents = options.S, options.N, options.R
    report = {"version": torch.__version__, "S": options.S, "N": options.N, "R": options.R}
    for name, function in {"compiled": torch.compile(layer), "eager": layer}.items():
        report[name] = attempt(function, *extents, options.repeats)
        print(json.dumps(report), flush=True)  # the last line counts: what comes before is for those who stop waiting


if __name__ == "__main__":
    main()
