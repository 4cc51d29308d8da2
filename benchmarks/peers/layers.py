"""Layers, losses and sums over graphs as they are used every day, in PyTorch: the texts are in layers/. JAX has none of them here."""
import torch
from rows import Row, whole
from torch.nn import functional


def layer_norm(x, g, b):
    return (functional.layer_norm(x, (x.shape[1],), g, b, 1e-5),)


def batch_norm(x, g, b):
    return (functional.batch_norm(x, None, None, g, b, True, 0, 1e-5).relu(),)


def depthwise(x, k):
    return (functional.conv2d(x, k[:, None], groups=k.shape[0]),)


def convolution(x, k):
    return (functional.conv2d(x, k),)


def max_pool(x):
    return (functional.max_pool2d(x, 3, 2),)


def swiglu(x, U, G, V):
    return ((functional.silu(x @ G.T) * (x @ U.T)) @ V.T,)


def rms_norm_rope(x, g, c, s):
    n = g * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    half = n.shape[-1] // 2
    return (n * c[:, None] + s[:, None] * torch.cat([-n[..., half:], n[..., :half]], -1),)


def products(x, y):
    return (x @ y.transpose(1, 2),)


def running_sum(x):
    return (x.cumsum(1),)


def gru(h0, x, Wz, Uz, Wr, Ur, Wh, Uh):
    h, states = h0, []
    for step in x:
        z = torch.sigmoid(step @ Wz.T + h @ Uz.T)
        r = torch.sigmoid(step @ Wr.T + h @ Ur.T)
        h = (1 - z) * h + z * torch.tanh(step @ Wh.T + (r * h) @ Uh.T)
        states.append(h)
    return (torch.stack(states),)


def cross_entropy(z, y):
    return (functional.cross_entropy(z, y.long()),)


def embedding_ce(E, i, y):
    return (functional.cross_entropy(E[i.long()].tanh() @ E.T / E.shape[1] ** 0.5, y.long()),)


def logistic(X, w, b, y):
    return (functional.binary_cross_entropy_with_logits(X @ w + b, y),)


def infonce(x, y, tau):
    similarity = functional.normalize(x) @ functional.normalize(y).T / tau
    return (functional.cross_entropy(similarity, torch.arange(len(x), device=x.device)),)


def tv_loss(x, y):
    return (((x - y) ** 2).sum() + 0.1 * ((x[1:] - x[:-1]).abs().sum() + (x[:, 1:] - x[:, :-1]).abs().sum()),)


def chamfer(x, y):
    distance = ((x[:, None] - y[None]) ** 2).sum(2)
    return (distance.min(1)[0].mean() + distance.min(0)[0].mean(),)


def rbf_matvec(x, y, b):
    return (torch.exp(-torch.cdist(x, y).square() / 2) @ b,)


def matrix_factor(P, Q, bu, bi, y, u, i):
    u, i = u.long(), i.long()
    return (((y - bu[u] - bi[i] - (P[u] * Q[i]).sum(1)) ** 2).mean(),)


def spmm(v, x, row, col):
    return (torch.zeros_like(x).index_add(0, row.long(), v[:, None] * x[col.long()]),)


def gat(x, W, al, ar, src, dst):
    src, dst, nodes = src.long(), dst.long(), x.new_zeros(len(x))
    h = x @ W.T
    s = functional.leaky_relu((h @ al)[src] + (h @ ar)[dst], 0.2)
    weight = torch.exp(s - (nodes - 1e9).scatter_reduce(0, dst, s, "amax")[dst])
    return (torch.zeros_like(h).index_add(0, dst, weight[:, None] * h[src]) / (nodes.index_add(0, dst, weight) + 1e-9)[:, None],)


def scaled(names, factor):
    return {name: lambda array: array * factor for name in names}


def row(formula, dims, function, **options):
    return Row(formula, dims, None, function, **options)


ROWS = (
    row("layer_norm", "S=8192 N=1024", layer_norm),
    row("batch_norm", "N=64 C=64 H=56 W=56", batch_norm),
    row("depthwise", "N=32 C=128 H=56 W=56", depthwise),
    row("conv3x3", "N=32 C=64 F=64 H=56 W=56", convolution),
    row("maxpool3s2", "N=32 C=64 H=56 W=56", max_pool),
    row("swiglu", "B=4096 D=1024 H=2048", swiglu, values=scaled("UGV", 1 / 32)),
    row("rms_norm_rope", "B=8 T=2048 H=16 D=64", rms_norm_rope, wrt="x,g"),
    row("bmm", "B=64 M=512 N=512 K=64", products),
    row("cumsum", "S=4096 T=2048", running_sum),
    row("gru", "T=64 B=256 H=256", gru, values=scaled(("Wz", "Uz", "Wr", "Ur", "Wh", "Uh"), 1 / 16)),
    row("cross_entropy", "B=16384 V=1000", cross_entropy, wrt="z", values={"y": whole(1000)}),
    row("embedding_ce", "B=4096 V=8192 D=256", embedding_ce, wrt="E", values={"i": whole(8192), "y": whole(8192)}),
    row("logistic", "N=1000000 D=64", logistic, wrt="w,b"),
    row("infonce", "N=4096 D=128", infonce, wrt="x,y", values={"tau": 0.1}),
    row("tv_loss", "H=4096 W=4096", tv_loss, wrt="x"),
    row("chamfer", "M=4096 N=4096", chamfer),
    row("rbf_matvec", "M=4000 N=4000 D=3", rbf_matvec, gpu_dims="M=20000 N=20000 D=3"),
    row("matrix_factor", "U=20000 I=20000 R=1000000 D=32", matrix_factor, wrt="P,Q,bu,bi", values={"u": whole(20000), "i": whole(20000)}),
    row("spmm", "N=50000 Z=1000000 D=64", spmm, wrt="v,x", values={"row": whole(50000), "col": whole(50000)}),
    row("gat", "N=20000 E=200000 D=64", gat, wrt="x,W,al,ar", values={"src": whole(20000), "dst": whole(20000)}),
)
