"""The formulas of rows.py in PyTorch. Arguments are the inputs by name; a tuple of the outputs comes back, in the order of the text."""
import math

import torch
from torch.nn import functional


def batch_matmul(X, Y):
    return (torch.bmm(X, Y),)


def convolution(I, W1, B):
    return (functional.conv2d(I, W1, B),)


def group_convolution(I, W1, B):
    N, G, C, H, W = I.shape
    F, KH, KW = W1.shape[1], *W1.shape[3:]
    flat = functional.conv2d(I.reshape(N, G * C, H, W), W1.reshape(G * F, C, KH, KW), B.reshape(G * F), groups=G)
    return (flat.reshape(N, G, F, *flat.shape[2:]),)


def group_normalization(I, gamma, beta):
    N, G, D, H, W = I.shape
    return (functional.group_norm(I.reshape(N, G * D, H, W), G, gamma.reshape(-1), beta.reshape(-1), 1e-5).reshape(I.shape),)


def kronecker3(W0, W1, W2, X):
    XW2 = X @ W2.T
    XW2W1 = W1 @ XW2
    return XW2, XW2W1, torch.einsum("macd,ea->mecd", XW2W1, W0)


def mlp1(I, W1, B1):
    return (functional.relu(torch.addmm(B1, I, W1)),)


def maxpool2x2(x):
    return (functional.max_pool2d(x, 2),)


def attention(Q, K, V):
    return (functional.scaled_dot_product_attention(Q, K, V, is_causal=True),)


def attention_full(Q, K, V):
    return (functional.scaled_dot_product_attention(Q, K, V),)


def argkmin(x, y, K):
    squares = ((x[:, None] - y[None]) ** 2).sum(-1)
    distance, nearest = torch.topk(squares, K, largest=False)
    return nearest.to(x.dtype), distance


def gmm_constants(alpha, q, L, x, gamma, m):
    N, D = x.shape
    frobenius = (torch.exp(q) ** 2).sum() + (torch.tril(L, -1) ** 2).sum()
    return -N * D * 0.5 * math.log(2 * math.pi) - N * torch.logsumexp(alpha, 0) + 0.5 * gamma * gamma * frobenius - m * q.sum()


def triangles(q, L):
    return torch.tril(L, -1) + torch.diag_embed(torch.exp(q))


def gmm_square(alpha, mu, q, L, x, gamma, m):
    Qx = torch.bmm(triangles(q, L), (x - mu[:, None]).mT)
    main = alpha[:, None] + q.sum(1)[:, None] - 0.5 * (Qx * Qx).sum(1)
    return (torch.logsumexp(main, 0).sum() + gmm_constants(alpha, q, L, x, gamma, m),)


def gmm_expanded(alpha, mu, q, L, x, gamma, m):
    Q = triangles(q, L)
    difference = torch.einsum("kij,nj->nki", Q, x) - torch.einsum("kij,kj->ki", Q, mu)
    main = alpha + q.sum(1) - 0.5 * (difference * difference).sum(-1)
    return (torch.logsumexp(main, 1).sum() + gmm_constants(alpha, q, L, x, gamma, m),)


def lstm_cell(weight, bias, input, hidden, cell):
    forget, ingate = torch.sigmoid(input * weight[0] + bias[0]), torch.sigmoid(hidden * weight[1] + bias[1])
    cell = cell * forget + ingate * torch.tanh(hidden * weight[3] + bias[3])
    return torch.sigmoid(input * weight[2] + bias[2]) * torch.tanh(cell), cell


def lstm(w1, w2, extra, h1_0, c1_0, h2_0, c2_0, x):
    h1, c1, h2, c2, states = h1_0, c1_0, h2_0, c2_0, []
    for row in (x[:-1] * extra[0]).unbind():
        h1, c1 = lstm_cell(w1[0], w1[1], row, h1, c1)
        h2, c2 = lstm_cell(w2[0], w2[1], h1, h2, c2)
        states.append(h2)
    y = torch.stack(states) * extra[1] + extra[2]
    lse = torch.log(torch.exp(y).sum(1) + 2)
    return (-(x[1:] * (y - lse[:, None])).sum() / y.numel(),)


def accelerations(x, mass, soft):
    difference = x[None] - x[:, None]
    strength = mass * ((difference**2).sum(-1) + soft) ** -1.5
    return (strength[:, None] @ difference)[:, 0]


def nbody_forces(x, mass, soft):
    return (accelerations(x, mass, soft),)


def nbody(x0, v0, mass, dt, soft):
    x, v = x0, v0
    for _ in range(5):
        v = v + dt * accelerations(x, mass, soft)
        x = x + dt * v
    kinetic = 0.5 * (mass[:, None] * v * v).sum()
    squares = ((x[:, None] - x[None]) ** 2).sum(-1)
    potential = -torch.triu(mass[:, None] * mass * torch.rsqrt(squares + soft), 1).sum()
    return kinetic, potential, kinetic + potential


def gp_marginal(x, y, len, amp, noise):
    scaled = x / len
    squares = ((scaled[:, None] - scaled[None]) ** 2).sum(-1)
    root = torch.linalg.cholesky(amp**2 * torch.exp(-0.5 * squares) + noise * torch.eye(y.numel()))
    a = torch.cholesky_solve(y[:, None], root)[:, 0]
    return (0.5 * y @ a + torch.log(torch.diagonal(root)).sum() + 0.5 * y.numel() * math.log(2 * math.pi),)


def dft(x):
    spectrum = torch.fft.fft(x)
    return spectrum.real, spectrum.imag, spectrum.real**2 + spectrum.imag**2


def laplacian(u, h):
    return (u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1) - 4 * u) / h**2


def brusselator(u, v, A, B, alpha, h):
    reaction = u * u * v
    return alpha * laplacian(u, h) + B + reaction - (A + 1) * u, alpha * laplacian(v, h) + A * u - reaction


def mttkrp(B, C, D):
    return (((B @ C) * D).sum(1),)


def tucker(G, U, V, W, R, S):
    return torch.einsum("abc,ia,jb,kc->ijk", G, U, V, W), R @ S @ R.T


def sddmm(B, C, D):
    return (B * (C @ D),)


def covariance(data):
    N, M = data.shape
    centred = data - data.mean(0)
    deviation = torch.sqrt((centred**2).mean(0))
    scaled = centred / (math.sqrt(N) * torch.where(deviation <= 0.1, 1, deviation))
    return centred.T @ centred / (N - 1), torch.where(torch.eye(M, dtype=torch.bool), 1, scaled.T @ scaled)


def gramschmidt(A):
    rest, columns, rows = A, [], []
    for k in range(A.shape[1]):
        norm = torch.linalg.vector_norm(rest[:, 0])
        q, rest = rest[:, 0] / norm, rest[:, 1:]
        later = q @ rest
        rest = rest - torch.outer(q, later)
        columns.append(q)
        rows.append(functional.pad(torch.cat([norm[None], later]), (k, 0)))
    return torch.stack(columns, 1), torch.stack(rows)


def lu(A):
    N, rest, factors, rows = A.shape[0], A, [], []
    for k in range(N):
        rows.append(functional.pad(rest[0], (k, 0)))
        factor = rest[1:, 0] / rest[0, 0]
        factors.append(functional.pad(factor, (k + 1, 0)))
        rest = rest[1:, 1:] - torch.outer(factor, rest[0, 1:])
    return (torch.stack(rows) + torch.stack(factors, 1),)


def recurrence(drives, b1, b2):
    one = two = torch.zeros_like(drives[0])
    states = []
    for drive in drives:
        one, two = drive + b1 * one + b2 * two, one
        states.append(one)
    return states


def deriche(x, a1, a2, a3, a4, b1, b2):
    columns = x.T
    forward = a1 * columns + a2 * functional.pad(columns[:-1], (0, 0, 1, 0))
    backward = a3 * functional.pad(columns[1:], (0, 0, 0, 1)) + a4 * functional.pad(columns[2:], (0, 0, 0, 2))
    y1, y2 = recurrence(forward.unbind(), b1, b2), recurrence(backward.flip(0).unbind(), b1, b2)
    return (torch.stack(y1, 1) + torch.stack(y2[::-1], 1),)


def softmax(x):
    return (torch.softmax(x, -1),)
