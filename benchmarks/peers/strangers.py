"""Formulas from papers and other projects that were new to moxie when they were first timed, in PyTorch alone: the texts are in strangers/."""
import math

import torch
from layers import row
from rows import whole
from torch.nn import functional


def grouped_heads(q, k, v):
    return (functional.scaled_dot_product_attention(q, k.repeat_interleave(4, 1), v.repeat_interleave(4, 1)),)


def linear_attention(q, k, v):
    scores = torch.tril((functional.elu(q) + 1) @ (functional.elu(k) + 1).transpose(1, 2))
    return (scores @ v / scores.sum(2, keepdim=True),)


def window_attention(q, k, v):
    t = torch.arange(q.shape[2], device=q.device)
    distance = t[:, None] - t
    return (functional.scaled_dot_product_attention(q, k, v, attn_mask=(distance >= 0) & (distance <= 32)),)


def cosine_attention(q, k, v, tau):
    def unit(x):
        return (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()).transpose(1, 2)

    return (functional.scaled_dot_product_attention(unit(q) * tau, unit(k), v.transpose(1, 2), scale=1.0).transpose(1, 2),)


def causal_heads(qkv):
    q, k, v = (part.unflatten(2, (-1, 64)).transpose(1, 2) for part in qkv.chunk(3, 2))
    return (functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2),)


def padded_conv(x, k):
    return (functional.conv2d(x, k, padding=1),)


def transposed_conv(x, k):
    return (functional.conv_transpose2d(x, k, stride=2, padding=1),)


def patch_embed(x, w, b):
    return (functional.conv2d(x, w, b, stride=16).permute(0, 2, 3, 1),)


def resblock(x, k1, k2, g1, b1, g2, b2):
    def norm(u, g, b):
        return functional.batch_norm(u, None, None, g, b, True, 0, 1e-5)

    inner = norm(functional.conv2d(x, k1, padding=1), g1, b1).relu()
    return ((x + norm(functional.conv2d(inner, k2, padding=1), g2, b2)).relu(),)


def upsample(x):
    return (functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False),)


def factorisation_machine(x, V, w, w0):
    pairs = (x @ V).square() - x.square() @ V.square()
    return (w0 + x @ w + pairs.sum(1) / 2,)


def kronecker_product(P, Q, x):
    return (P @ x.reshape(P.shape[1], -1) @ Q.T,)


def dct8(x):
    u = torch.arange(8, device=x.device)
    c = torch.cos(math.pi * (2 * u + 1) * u[:, None] / 16) / 2
    c[0] = 0.125**0.5
    patches = x.unflatten(2, (-1, 8)).unflatten(1, (-1, 8))
    return (torch.einsum("up,nipjq,vq->nijuv", c, patches, c),)


def ctc(x, y):
    batch, steps, _ = x.shape
    lengths = torch.full((batch,), steps), torch.full((batch,), y.shape[1])
    return (functional.ctc_loss(x.log_softmax(2).transpose(0, 1), (y + 1).long(), *lengths, reduction="sum") / batch,)


def edgeconv(x, nbr, U, V):
    return (functional.relu((x @ (U - V).T)[:, None] + (x @ V.T)[nbr.long()]).amax(1),)


def hsic(x, y):
    k, l = (torch.exp(-torch.cdist(z, z).square() / 2) for z in (x, y))
    centred = k - k.mean(1, keepdim=True) - k.mean(0, keepdim=True) + k.mean()
    return ((centred * l).sum() / (len(x) - 1) ** 2,)


def lbm(f, omega):
    along_x, along_y = [0, 1, 0, -1, 0, 1, -1, -1, 1], [0, 0, 1, 0, -1, 1, 1, -1, -1]
    weight = f.new_tensor([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)[:, None, None]
    g = torch.stack([f[k].roll((along_y[k], along_x[k]), (0, 1)) for k in range(9)])
    cx, cy = (f.new_tensor(c)[:, None, None] for c in (along_x, along_y))
    density = g.sum(0)
    u, v = (cx * g).sum(0) / density, (cy * g).sum(0) / density
    speed = 3 * (cx * u + cy * v)
    return (g - omega * (g - weight * density * (1 + speed + speed**2 / 2 - 1.5 * (u**2 + v**2))),)


def potts(x, h, J):
    sites, states = h.shape
    one_hot = functional.one_hot(x.long(), states).to(h.dtype)
    others = 1 - torch.eye(sites, device=h.device)
    e = h + torch.einsum("ijab,sjb->sia", J * others[:, :, None, None], one_hot)
    return (-(e.log_softmax(2) * one_hot).sum() / len(x),)


def vorticity(w, psi, nu):
    def at(u, i, j):
        return u.roll((-i, -j), (0, 1))

    u, v = (at(psi, 0, 1) - at(psi, 0, -1)) / 2, (at(psi, -1, 0) - at(psi, 1, 0)) / 2
    along_i, along_j = (at(w, 1, 0) - at(w, -1, 0)) / 2, (at(w, 0, 1) - at(w, 0, -1)) / 2
    curvature = at(w, 1, 0) + at(w, -1, 0) + at(w, 0, 1) + at(w, 0, -1) - 4 * w
    return (w + 0.01 * (nu * curvature - u * along_i - v * along_j),)


def splat(px, py, mx, my, a, b, e, op, col):
    dx, dy = px[:, None] - mx, py[:, None] - my
    alpha = 0.99 * torch.sigmoid(op) * torch.exp(-(a.exp() * dx**2 + b.exp() * dy**2) / 2 - torch.tanh(e) * dx * dy)
    passed = torch.cumprod(1 - alpha, 1)
    return ((torch.cat([torch.ones_like(passed[:, :1]), passed[:, :-1]], 1) * alpha) @ col,)


def rotary(x):
    d = torch.arange(x.shape[3], device=x.device)
    angle = torch.arange(x.shape[1], device=x.device)[:, None] * torch.exp(-9.21034 * (d - d % 2) / len(d))
    turned = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(3)
    return (x * angle.cos()[:, None] + turned * angle.sin()[:, None],)


def viterbi(e, A):
    a = e[:, 0]
    for t in range(1, e.shape[1]):
        a = e[:, t] + (a[:, :, None] + A).amax(1)
    return (a.amax(1),)


def hopfield(x, q, beta):
    for _ in range(3):
        q = (beta * (q @ x.T)).softmax(1) @ x
    return (q,)


def lista(y, We, S, theta):
    c = y @ We.T
    x = torch.zeros_like(c)
    for threshold in theta:
        u = c + x @ S.T
        x = u.sign() * (u.abs() - threshold).relu()
    return (x,)


def conv3d(x, k, bias):
    return (functional.conv3d(x, k, bias, padding=1).relu(),)


def positive(array):
    return abs(array) + 1


def eighth(array):
    return array / 8


def sixteenth(array):
    return array / 16


ROWS = (
    row("grouped_heads", "B=2 H=8 G=2 T=512 D=64", grouped_heads),
    row("linear_attention", "B=8 T=256 D=32 E=32", linear_attention),
    row("linear_attention", "B=8 T=1024 D=64 E=64", linear_attention),
    row("window_attention", "B=4 H=4 T=512 D=64", window_attention),
    row("cosine_attention", "B=4 H=4 T=256 D=64", cosine_attention, values={"tau": 5.0}),
    row("causal_heads", "B=2 T=512 H=8", causal_heads),
    row("padded_conv", "N=8 C=64 O=64 H=28 W=28", padded_conv),
    row("transposed_conv", "N=8 C=32 F=16 H=16 W=16", transposed_conv),
    row("patch_embed", "N=4 C=3 O=192 H=14 W=14", patch_embed),
    row("resblock", "N=4 C=32 H=28 W=28", resblock, values={"k1": eighth, "k2": eighth}),
    row("upsample", "B=8 C=16 H=64 W=64", upsample),
    row("factorisation_machine", "B=2048 F=128 K=16", factorisation_machine),
    row("kronecker_product", "A=64 B=64 C=64", kronecker_product),
    row("dct8", "N=8 H=32 W=32", dct8),
    row("ctc", "B=16 T=100 K=30 L=20", ctc, wrt="x", values={"y": whole(28)}),
    row("edgeconv", "N=2000 K=16 C=32 O=64", edgeconv, wrt="x,U,V", values={"nbr": whole(2000)}),
    row("hsic", "N=1000 D=8 E=8", hsic),
    row("potts", "S=256 L=40 A=21", potts, wrt="h,J", values={"x": whole(21), "J": eighth}),
    row("vorticity", "N=512", vorticity, wrt="w,psi", values={"nu": 0.1}),
    row("splat", "P=4096 K=256", splat),
    row("rotary", "B=4 T=512 H=8 D=64", rotary),
    row("viterbi", "B=32 T=100 K=32", viterbi),
    row("hopfield", "B=64 N=1000 D=64 T=3", hopfield, values={"beta": 0.2}),
    row("lista", "B=256 N=128 M=64 L=16", lista, values={"We": eighth, "S": sixteenth, "theta": sixteenth}),
    row("conv3d", "B=2 C=16 O=16 D=16 H=16 W=16", conv3d),
    row("lbm", "H=256 W=256", lbm, wrt="f", values={"omega": 1.2, "f": positive}),
)
