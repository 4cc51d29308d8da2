"""Formulas of many fields, from state spaces and filters to rendering, finance and physics, in PyTorch alone: the texts are in fields/."""
import math

import numpy
import torch
from layers import row
from rows import whole
from torch.nn import functional


def selective_scan(x, delta, A, P, Q, skip):
    h, outputs = 0, []
    for t in range(x.shape[1]):
        h = torch.exp(delta[:, t, :, None] * A) * h + (delta[:, t] * x[:, t])[:, :, None] * P[:, t, None]
        outputs.append((h * Q[:, t, None]).sum(2) + skip * x[:, t])
    return (torch.stack(outputs, 1),)


def hmm(e, A, start):
    transition, a = A.log_softmax(1), e[:, 0] + start
    for t in range(1, e.shape[1]):
        a = e[:, t] + torch.logsumexp(a[:, :, None] + transition, 1)
    return (torch.logsumexp(a, 1).sum(),)


def kalman(z, F, Q, Hm, R, x0, P0):
    x, covariance, nll = x0.expand(len(z), -1), P0.expand(len(z), -1, -1), 0
    for t in range(z.shape[1]):
        xp, Pp = x @ F.T, F @ covariance @ F.T + Q
        HP = Hm @ Pp
        S = HP @ Hm.T + R
        Si, e = torch.linalg.inv(S), z[:, t] - xp @ Hm.T
        K = HP.transpose(1, 2) @ Si
        x, covariance = xp + (K @ e[:, :, None])[:, :, 0], Pp - K @ HP
        nll = nll + ((e[:, None] @ Si @ e[:, :, None]).sum() + torch.linalg.det(S).log().sum()) / 2
    return (nll,)


def neural_ode(x0, W, c, V, dt):
    def slope(x):
        return torch.tanh(x @ W.T + c) @ V.T

    x = x0
    for _ in range(20):
        k1 = slope(x)
        k2 = slope(x + dt / 2 * k1)
        k3 = slope(x + dt / 2 * k2)
        x = x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + slope(x + dt * k3))
    return (x,)


def focal(z, y):
    lp = z.log_softmax(1).gather(1, y.long()[:, None])[:, 0]
    return (-((1 - lp.exp()) ** 2 * lp).mean(),)


def triplet(x, y):
    products = x @ x.T
    norms = products.diagonal()
    squares, same = norms[:, None] + norms - 2 * products, y[:, None] == y
    far, near = torch.where(same, squares, -1e9).amax(1), torch.where(same, 1e9, squares).amin(1)
    return (functional.relu(far - near + 0.2).mean(),)


def contrast(x, y, logtau):
    def unit(v):
        return v / (v.square().sum(1, keepdim=True) + 1e-8).sqrt()

    z, t = logtau.exp() * (unit(x) @ unit(y).T), torch.arange(len(x), device=x.device)
    return ((functional.cross_entropy(z, t) + functional.cross_entropy(z.T, t)) / 2,)


def dice(z, y):
    p = z.softmax(1)
    hot = functional.one_hot(y.long(), z.shape[1]).permute(0, 3, 1, 2).to(z.dtype)
    return (1 - ((2 * (p * hot).sum((2, 3)) + 1) / ((p + hot).sum((2, 3)) + 1)).mean(),)


def cox(x, w, event):
    eta = x @ w
    return (-((eta - torch.logcumsumexp(eta, 0)) * event).sum() / len(x),)


def dlrm(idx, E, w, b):
    e = E[idx.long()]
    return (torch.sigmoid(b + (torch.tril(w, -1) * (e @ e.transpose(1, 2))).sum((1, 2))),)


def ssim(x, y, g):
    def blurred(u):
        return functional.conv2d(functional.conv2d(u[:, None], g[None, None, :, None]), g[None, None, None])[:, 0]

    mx, my = blurred(x), blurred(y)
    vx, vy, c = blurred(x * x) - mx**2, blurred(y * y) - my**2, blurred(x * y) - mx * my
    return (((2 * mx * my + 0.0001) * (2 * c + 0.0009) / ((mx**2 + my**2 + 0.0001) * (vx + vy + 0.0009))).mean(),)


def squeeze_excite(x, W1, b1, W2, b2):
    gate = torch.sigmoid(functional.relu(x.mean((2, 3)) @ W1.T + b1) @ W2.T + b2)
    return (gate[:, :, None, None] * x,)


def style(f, target):
    u = f.flatten(2)
    return ((u @ u.transpose(1, 2) / f[0].numel() - target).square().sum(),)


def lrn(x):
    return (functional.local_response_norm(x, 5, 1e-4, 0.75, 2.0),)


def wavenet(x, F, G, S):
    u = functional.pad(x, (4, 0))
    f, g = torch.tanh(functional.conv1d(u, F.flip(2), dilation=4)), torch.sigmoid(functional.conv1d(u, G.flip(2), dilation=4))
    return (x + torch.einsum("cd,bdt->bct", S, f * g),)


def axial(q, key, v, rel):
    j = torch.arange(q.shape[2], device=q.device)
    return (functional.scaled_dot_product_attention(q, key, v, attn_mask=rel[j[:, None] - j + len(j) - 1]),)


def moe(x, G, W1, W2):
    z = functional.gelu(torch.einsum("sd,ehd->esh", x, W1))
    return (torch.einsum("se,eso->so", (x @ G.T).softmax(1), torch.bmm(z, W2.transpose(1, 2))),)


def bilinear(x, W, y, c):
    return (functional.bilinear(x, y, W, c),)


def grid_sample(x, u, v):
    return (functional.grid_sample(x, torch.stack([u, v], 3), padding_mode="border", align_corners=True),)


def cost_volume(f, g):
    _, channels, height, width = f.shape
    p = functional.pad(g, (4,) * 4)
    shifted = [[(f * p[:, :, u:u + height, v:v + width]).sum(1) / channels for v in range(9)] for u in range(9)]
    return (torch.stack([torch.stack(row, 1) for row in shifted], 1),)


def nerf(sigma, rgb, delta):
    def before(a):
        return torch.cumsum(a, 1) - a

    a = functional.softplus(sigma) * delta
    w = torch.exp(-before(a)) * (1 - torch.exp(-a))
    return (w[:, :, None] * torch.sigmoid(rgb)).sum(1), (w * before(delta)).sum(1)


def soft_histogram(x, centre, width):
    return (torch.exp(-(((x - centre[:, None]) / width) ** 2) / 2).mean(1),)


def sinkhorn(C, eps):
    (rows, columns), g = C.shape, C.new_zeros(C.shape[1])
    for _ in range(20):
        f = -eps * torch.logsumexp((g - C) / eps, 1) - eps * math.log(columns)
        g = -eps * torch.logsumexp((f[:, None] - C) / eps, 0) - eps * math.log(rows)
    return ((torch.exp((f[:, None] + g - C) / eps) * C).sum(),)


def black_scholes(S, K, T, sigma, r):
    def cdf(u):
        return (1 + torch.erf(u / math.sqrt(2))) / 2

    d1 = (torch.log(S / K) + (r + sigma**2 / 2) * T) / (sigma * T.sqrt())
    return (S * cdf(d1) - K * torch.exp(-r * T) * cdf(d1 - sigma * T.sqrt()),)


def heat3d(u, a):
    def at(i, j, k):
        return u[1 + i:u.shape[0] - 1 + i, 1 + j:u.shape[1] - 1 + j, 1 + k:u.shape[2] - 1 + k]

    around = at(1, 0, 0) + at(-1, 0, 0) + at(0, 1, 0) + at(0, -1, 0) + at(0, 0, 1) + at(0, 0, -1)
    return (functional.pad(at(0, 0, 0) + a * (around - 6 * at(0, 0, 0)), (1,) * 6),)


def lj_periodic(x, box):
    d = x[:, None] - x
    d = d - box * torch.round(d / box)
    r2 = d.square().sum(2)
    near = (r2 < 6.25) & ~torch.eye(len(x), dtype=torch.bool, device=x.device)
    s6 = torch.where(near, 1 / torch.where(near, r2, 1.0) ** 3, 0.0)
    return ((2 * (s6**2 - s6)).sum(),)


def small(array):
    return array / 8


def short(array):
    return abs(array) * 0.02 + 0.01


def above(least):
    return lambda array: abs(array) + least


def below_zero(array):
    return -abs(array) - 0.1


def times_unit(factor):
    return lambda array: factor * numpy.eye(len(array), dtype=array.dtype)


def near_unit(array):
    return numpy.eye(len(array), dtype=array.dtype) + 0.05 * array


def lattice(array):
    """Points near those of a grid, so that none of them are close."""
    grid = numpy.stack(numpy.meshgrid(*[numpy.arange(12)] * 3), -1).reshape(-1, 3)[:len(array)]
    return grid * 1.1 + 0.05 * array


ROWS = (
    row("selective_scan", "B=4 T=128 D=64 N=16", selective_scan, values={"delta": short, "A": below_zero}),
    row("hmm", "B=32 T=100 K=32", hmm),
    row("kalman", "B=1024 T=8", kalman,
        values={"F": near_unit, "Q": times_unit(0.1), "R": times_unit(0.5), "P0": times_unit(1)}),
    row("neural_ode", "B=128 T=20 D=8 H=64", neural_ode, wrt="x0,W,c,V", values={"W": small, "V": small, "dt": 0.1}),
    row("focal", "S=8192 K=100", focal, wrt="z", values={"y": whole(100)}),
    row("triplet", "N=512 D=64", triplet, wrt="x", values={"y": whole(16)}),
    row("contrast", "N=512 D=128", contrast, values={"logtau": 1.0}),
    row("dice", "B=4 K=10 H=128 W=128", dice, wrt="z", values={"y": whole(10)}),
    row("cox", "N=20000 D=32", cox, wrt="x,w", values={"w": small, "event": lambda array: array > 0}),
    row("dlrm", "S=2048 F=26 D=16 V=10000", dlrm, wrt="E,w,b", values={"idx": whole(10000), "w": small}),
    row("ssim", "B=8 H=128 W=128", ssim, values={"x": abs, "y": abs, "g": short}),
    row("squeeze_excite", "B=16 C=64 H=28 W=28 R=8", squeeze_excite),
    row("style", "B=4 C=64 H=32 W=32", style),
    row("lrn", "B=8 C=64 H=28 W=28", lrn),
    row("wavenet", "B=8 T=1000 C=32", wavenet, values={"F": small, "G": small, "S": small}),
    row("axial", "B=2 H=48 W=48 D=32", axial),
    row("moe", "S=512 D=64 E=8 H=128", moe),
    row("bilinear", "B=256 I=64 J=64 K=32", bilinear),
    row("grid_sample", "B=4 C=16 H=64 W=64 P=64 Q=64", grid_sample, wrt="x", values={"u": numpy.tanh, "v": numpy.tanh}),
    row("cost_volume", "B=2 C=32 H=48 W=64", cost_volume),
    row("nerf", "R=4096 N=128", nerf, values={"delta": short}),
    row("soft_histogram", "N=100000 K=64", soft_histogram, values={"width": 0.3}),
    row("sinkhorn", "N=256 M=256 L=20", sinkhorn, wrt="C", values={"C": abs, "eps": 0.1}),
    row("black_scholes", "N=1000000", black_scholes, wrt="S,K,T,sigma",
        values={"S": above(1), "K": above(1), "T": above(0.5), "sigma": above(0.1), "r": 0.05}),
    row("heat3d", "N=128", heat3d),
    row("lj_periodic", "N=1500", lj_periodic, wrt="x", values={"x": lattice, "box": 13.2}),
)
