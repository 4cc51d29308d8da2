"""The formulas of rows.py in JAX. Arguments are the inputs by name; a tuple of the outputs comes back, in the order of the text."""
import math

import jax
import jax.numpy as jnp
from jax import lax


def batch_matmul(X, Y):
    return (X @ Y,)


def convolution(I, W1, B):
    return (lax.conv_general_dilated(I, W1, (1, 1), "VALID") + B[:, None, None],)


def group_convolution(I, W1, B):
    """As a sum over the window: lax.conv_general_dilated with groups is a thousand times slower on a CPU."""
    KH, KW = W1.shape[3:]
    H, W = I.shape[3] - KH + 1, I.shape[4] - KW + 1
    parts = (jnp.einsum("ngchw,gfc->ngfhw", I[..., i : i + H, j : j + W], W1[..., i, j]) for i in range(KH) for j in range(KW))
    return (sum(parts) + B[:, :, None, None],)


def group_normalization(I, gamma, beta):
    mean = I.mean((2, 3, 4), keepdims=True)
    variance = (I * I).mean((2, 3, 4), keepdims=True) - mean * mean
    return ((I - mean) * lax.rsqrt(variance + 1e-5) * gamma[:, :, None, None] + beta[:, :, None, None],)


def kronecker3(W0, W1, W2, X):
    XW2 = jnp.einsum("mabn,dn->mabd", X, W2)
    XW2W1 = jnp.einsum("mabd,cb->macd", XW2, W1)
    return XW2, XW2W1, jnp.einsum("macd,ea->mecd", XW2W1, W0)


def mlp1(I, W1, B1):
    return (jax.nn.relu(I @ W1 + B1),)


def maxpool2x2(x):
    return (lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),)


def attention(Q, K, V, causal=True):
    score = jnp.einsum("bhid,bhjd->bhij", Q, K) / math.sqrt(Q.shape[-1])
    if causal:
        score = jnp.where(jnp.tri(score.shape[-1], dtype=bool), score, -jnp.inf)
    return (jnp.einsum("bhij,bhjd->bhid", jax.nn.softmax(score, axis=-1), V),)


def attention_full(Q, K, V):
    return attention(Q, K, V, causal=False)


def argkmin(x, y, K):
    squares = ((x[:, None] - y[None]) ** 2).sum(-1)
    distance, nearest = lax.top_k(-squares, K)
    return nearest.astype(x.dtype), -distance


def gmm_constants(alpha, q, L, x, gamma, m):
    N, D = x.shape
    frobenius = (jnp.exp(q) ** 2).sum() + (jnp.tril(L, -1) ** 2).sum()
    return -N * D * 0.5 * math.log(2 * math.pi) - N * jax.nn.logsumexp(alpha) + 0.5 * gamma * gamma * frobenius - m * q.sum()


def triangles(q, L):
    return jnp.tril(L, -1) + jnp.exp(q)[:, :, None] * jnp.eye(q.shape[1], dtype=q.dtype)


def gmm_square(alpha, mu, q, L, x, gamma, m):
    Qx = jnp.einsum("kij,nkj->nki", triangles(q, L), x[:, None] - mu)
    main = alpha + q.sum(1) - 0.5 * (Qx * Qx).sum(-1)
    return (jax.nn.logsumexp(main, axis=1).sum() + gmm_constants(alpha, q, L, x, gamma, m),)


def gmm_expanded(alpha, mu, q, L, x, gamma, m):
    Q = triangles(q, L)
    difference = jnp.einsum("kij,nj->nki", Q, x) - jnp.einsum("kij,kj->ki", Q, mu)
    main = alpha + q.sum(1) - 0.5 * (difference * difference).sum(-1)
    return (jax.nn.logsumexp(main, axis=1).sum() + gmm_constants(alpha, q, L, x, gamma, m),)


def lstm_cell(weight, bias, input, hidden, cell):
    forget, ingate = jax.nn.sigmoid(input * weight[0] + bias[0]), jax.nn.sigmoid(hidden * weight[1] + bias[1])
    cell = cell * forget + ingate * jnp.tanh(hidden * weight[3] + bias[3])
    return jax.nn.sigmoid(input * weight[2] + bias[2]) * jnp.tanh(cell), cell


def lstm(w1, w2, extra, h1_0, c1_0, h2_0, c2_0, x):
    def step(state, row):
        h1, c1, h2, c2 = state
        h1, c1 = lstm_cell(w1[0], w1[1], row * extra[0], h1, c1)
        h2, c2 = lstm_cell(w2[0], w2[1], h1, h2, c2)
        return (h1, c1, h2, c2), h2

    _, h2 = lax.scan(step, (h1_0, c1_0, h2_0, c2_0), x[:-1])
    y = h2 * extra[1] + extra[2]
    lse = jnp.log(jnp.exp(y).sum(1) + 2)
    return (-(x[1:] * (y - lse[:, None])).sum() / y.size,)


def accelerations(x, mass, soft):
    difference = x[None] - x[:, None]
    strength = mass * ((difference**2).sum(-1) + soft) ** -1.5
    return jnp.einsum("ij,ijd->id", strength, difference)


def nbody_forces(x, mass, soft):
    return (accelerations(x, mass, soft),)


def nbody(x0, v0, mass, dt, soft):
    x, v = x0, v0
    for _ in range(5):
        v = v + dt * accelerations(x, mass, soft)
        x = x + dt * v
    kinetic = 0.5 * (mass[:, None] * v * v).sum()
    squares = ((x[:, None] - x[None]) ** 2).sum(-1)
    potential = -jnp.triu(mass[:, None] * mass * lax.rsqrt(squares + soft), 1).sum()
    return kinetic, potential, kinetic + potential


def gp_marginal(x, y, len, amp, noise):
    scaled = x / len
    squares = ((scaled[:, None] - scaled[None]) ** 2).sum(-1)
    root = jnp.linalg.cholesky(amp**2 * jnp.exp(-0.5 * squares) + noise * jnp.eye(y.size, dtype=y.dtype))
    a = jax.scipy.linalg.cho_solve((root, True), y)
    return (0.5 * y @ a + jnp.log(jnp.diag(root)).sum() + 0.5 * y.size * math.log(2 * math.pi),)


def dft(x):
    spectrum = jnp.fft.fft(x)
    return spectrum.real, spectrum.imag, spectrum.real**2 + spectrum.imag**2


def laplacian(u, h):
    return (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u) / h**2


def brusselator(u, v, A, B, alpha, h):
    reaction = u * u * v
    return alpha * laplacian(u, h) + B + reaction - (A + 1) * u, alpha * laplacian(v, h) + A * u - reaction


def mttkrp(B, C, D):
    return (jnp.einsum("ikl,lj,kj->ij", B, C, D),)


def tucker(G, U, V, W, R, S):
    return jnp.einsum("abc,ia,jb,kc->ijk", G, U, V, W), R @ S @ R.T


def sddmm(B, C, D):
    return (B * (C @ D),)


def covariance(data):
    N, M = data.shape
    centred = data - data.mean(0)
    deviation = jnp.sqrt((centred**2).mean(0))
    scaled = centred / (math.sqrt(N) * jnp.where(deviation <= 0.1, 1, deviation))
    return centred.T @ centred / (N - 1), jnp.where(jnp.eye(M, dtype=bool), 1, scaled.T @ scaled)


def gramschmidt(A):
    columns = jnp.arange(A.shape[1])

    def step(p, k):
        norm = jnp.sqrt((p[:, k] ** 2).sum())
        q = p[:, k] / norm
        later = jnp.where(columns > k, q @ p, 0)
        return p - q[:, None] * later, (q, jnp.where(columns == k, norm, later))

    _, (Q, R) = lax.scan(step, A, columns)
    return Q.T, R


def lu(A):
    rows = jnp.arange(A.shape[0])

    def step(p, k):
        factor = jnp.where(rows > k, p[:, k] / p[k, k], 0)
        later = p - factor[:, None] * jnp.where(rows > k, p[k], 0)
        return jnp.where((rows[:, None] > k) & (rows == k), factor[:, None], later), None

    return (lax.scan(step, A, rows)[0],)


def deriche(x, a1, a2, a3, a4, b1, b2):
    columns, zeros = x.T, jnp.zeros((1, x.shape[0]), x.dtype)

    def step(state, drive):
        y = drive + b1 * state[0] + b2 * state[1]
        return (y, state[0]), y

    start = (zeros[0], zeros[0])
    ahead = jnp.concatenate([zeros, columns[:-1]])
    behind, after = jnp.concatenate([columns[1:], zeros]), jnp.concatenate([columns[2:], zeros, zeros])
    _, y1 = lax.scan(step, start, a1 * columns + a2 * ahead)
    _, y2 = lax.scan(step, start, a3 * behind + a4 * after, reverse=True)
    return ((y1 + y2).T,)


def softmax(x):
    return (jax.nn.softmax(x, axis=-1),)
