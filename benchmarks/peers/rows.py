"""What is compared: a text, its extents, the inputs to differentiate with respect to, and the same in JAX and in PyTorch."""
import functools
from dataclasses import dataclass, field
from typing import Callable

import numpy

import adbench_in_jax
import adbench_in_torch
import in_jax
import in_torch


@dataclass(frozen=True)
class Row:
    formula: str  # the file's name without .mox
    dims: str
    jax: Callable
    torch: Callable
    wrt: str = ""  # all inputs if empty
    grad: str = ""  # all outputs if empty
    values: dict = field(default_factory=dict)  # of an input: a number, or a function of the random array
    gpu_dims: str = ""  # what fills a GPU, where that is not `dims`
    jacobian: str = ""  # the output of which all derivatives by `wrt` are taken, in the place of gradients
    jax_jacobian: Callable | None = None  # what gives them
    torch_jacobian: Callable | None = None


def same(formula, dims, function, **options):
    return Row(formula, dims, getattr(in_jax, function), getattr(in_torch, function), **options)


def adbench(formula, dims, function, jacobian="", **options):
    if jacobian:
        of = f"{function}_jacobian"
        options |= {"jacobian": jacobian, "jax_jacobian": getattr(adbench_in_jax, of), "torch_jacobian": getattr(adbench_in_torch, of)}
    return Row(formula, dims, getattr(adbench_in_jax, function), getattr(adbench_in_torch, function), **options)


def whole(extent):
    """Whole numbers from 0, below an extent."""
    return lambda array: numpy.floor(numpy.abs(array) * 7919) % extent


def dominant(matrix):
    """Elimination without pivots is stable for it."""
    return matrix + len(matrix) * numpy.eye(len(matrix), dtype=matrix.dtype)


GMM = {"wrt": "alpha,mu,q,L", "values": {"q": lambda q: q / 8, "L": lambda L: L / 8}}
PACKED = {"wrt": "alpha,mu,icf", "values": {"icf": lambda icf: icf / 8, "m": 2}}
BUNDLE = {"cams": lambda cams: cams / 4 - [0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0], "weights": lambda w: 1 + w / 4, "shift": 0, "camera": whole(49), "point": whole(7776)}
FINGERS = [1 if joint == 0 else 1 + 4 * finger + joint for finger in range(5) for joint in range(4)]
BONES = {
    "base_relatives": lambda frames: numpy.eye(4) + frames / 8 * [[1], [1], [1], [0]],
    "inverse_base_absolutes": lambda frames: numpy.eye(4) + frames / 8 * [[1], [1], [1], [0]],
    "weights": lambda weights: numpy.abs(weights) / numpy.abs(weights).sum(0), "parent": lambda _: numpy.array([-1, 0, *FINGERS]),
    "us": lambda us: us / 8, "shift": 0, "mirror": -1, "corners": whole(544), "triangle": whole(1084),
}
NEIGHBOURS = {"jax": functools.partial(in_jax.argkmin, K=5), "torch": functools.partial(in_torch.argkmin, K=5)}

ROWS = (
    same("tc_batch_matmul", "B=500 N=26 M=72 K=26", "batch_matmul"),
    same("tc_convolution", "N=32 C=4 F=4 KH=3 KW=3 OH=54 OW=54", "convolution"),
    same("tc_group_convolution", "N=32 G=32 C=4 F=4 KH=3 KW=3 OH=54 OW=54", "group_convolution"),
    same("tc_group_normalization_2", "N=4 G=32 D=16 H=48 W=48", "group_normalization"),
    same("tc_kronecker3", "M=256 D0=32 D1=32 D2=32 N0=16 N1=16 N2=16", "kronecker3"),
    same("tc_mlp1", "B=128 M=2000 N=128", "mlp1", gpu_dims="B=4096 M=2000 N=1024"),
    same("tc_maxpool2x2", "B=32 C=16 H=28 W=28", "maxpool2x2", gpu_dims="B=256 C=64 H=56 W=56"),
    same("ko_attention", "B=1 H=8 S=512 D=64", "attention", gpu_dims="B=4 H=8 S=1024 D=64"),
    same("ko_attention_full", "B=1 H=8 S=512 D=64", "attention_full", gpu_dims="B=4 H=8 S=1024 D=64"),
    Row("ko_argkmin", "M=300 N=1000 D=3 K=5", **NEIGHBOURS, wrt="x,y", grad="distance", gpu_dims="M=10000 N=1000 D=3 K=5"),
    same("ad_gmm_square", "D=10 K=25 N=1000", "gmm_square", **GMM, gpu_dims="D=10 K=25 N=100000"),
    same("ad_gmm_square", "D=64 K=25 N=1000", "gmm_square", **GMM, gpu_dims="D=64 K=25 N=20000"),
    same("ad_gmm_expanded", "D=10 K=25 N=1000", "gmm_expanded", **GMM, gpu_dims="D=10 K=25 N=100000"),
    same("ad_gmm_expanded", "D=64 K=25 N=1000", "gmm_expanded", **GMM, gpu_dims="D=64 K=25 N=20000"),
    same("ad_lstm", "C=1024 B=14", "lstm", wrt="w1,w2,extra"),
    same("en_nbody_forces", "N=2000", "nbody_forces", wrt="x,mass", gpu_dims="N=10000"),
    same("en_nbody", "N=300", "nbody", wrt="x0,v0,mass", values={"dt": 0.01}, gpu_dims="N=2000"),
    same("en_gp_marginal", "N=300 D=8", "gp_marginal", gpu_dims="N=1000 D=8"),
    same("en_dft", "N=256 B=64", "dft", gpu_dims="N=256 B=8192"),
    same("en_brusselator", "N=256", "brusselator", wrt="u,v", values={"h": 0.5}, gpu_dims="N=4096"),
    same("taco_mttkrp", "I=100 J=32 K=100 L=100", "mttkrp", gpu_dims="I=400 J=32 K=400 L=400"),
    same("taco_tucker", "A=16 B=16 C=16 I=64 J=64 K=64", "tucker", gpu_dims="A=16 B=16 C=16 I=256 J=256 K=256"),
    same("taco_sddmm", "I=512 J=512 K=64", "sddmm", gpu_dims="I=4096 J=4096 K=64"),
    same("pb_covariance", "N=2000 M=200", "covariance", gpu_dims="N=20000 M=1000"),
    same("pb_gramschmidt", "M=120 N=100", "gramschmidt"),
    same("pb_lu", "N=100", "lu", values={"A": dominant}),
    same("pb_deriche", "H=500 W=500", "deriche", values={"b1": 0.5, "b2": -0.25}, gpu_dims="H=4096 W=1024"),
    adbench("gmm", "D=64 K=50 T=2080 N=10000", "gmm_square", **PACKED),
    adbench("gmm", "D=64 K=50 T=2080 N=10000", "gmm_expanded", **PACKED),
    adbench("lstm", "C=1024 B=14", "lstm", wrt="main,extra"),
    adbench("lstm", "C=4096 B=14", "lstm", wrt="main,extra"),
    adbench("ba", "C=49 X=7776 P=31843", "ba", wrt="shift", jacobian="reprojection", values=BUNDLE),
    adbench("hand", "V=544 F=1084 P=1000", "hand", wrt="theta,shift", jacobian="error", values=BONES),
    same("softmax", "S=1024 N=1000", "softmax", gpu_dims="S=32768 N=1000"),
    same("attention", "B=8 H=8 T=1024 D=64", "attention"),
)
