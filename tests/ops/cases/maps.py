"""Layers of images and of texts."""
import itertools

from mpmath import mp, mpf

from reference import tensor, write

S, N, D = 2, 2, 3
H, W, C, O = 3, 4, 2, 3
T, V = 5, 4


def convolution(x, F, b):
    def at(s, i, j, c):
        return x[s, i, j, c] if 0 <= i < H and 0 <= j < W else mpf(0)

    def filtered(s, i, j, o):
        return b[o] + sum(at(s, i + p - 1, j + q - 1, c) * F[p, q, c, o] for p in range(3) for q in range(3) for c in range(C))

    return {"y": tensor(filtered, S, H, W, O)}


def embedding(x, E):
    return {"y": tensor(lambda s, t, e: sum(E[v, e] for v in range(V) if x[s, t] == v + 1), S, T, D)}


def convolution_over_time(x, F, b):
    def filtered(s, t, o):
        return b[o] + sum(x[s, t + p - 1, c] * F[p, c, o] for p in range(3) if 0 <= t + p - 1 < T for c in range(C))

    return {"y": tensor(filtered, S, T, O)}


def max_over_time(x):
    return {"y": tensor(lambda s, c: max(x[s, t, c] for t in range(T)), S, C)}


def max_pool(x):
    return {"y": tensor(lambda s, i, j, c: max(x[s, 2 * i + p, 2 * j + q, c] for p in range(2) for q in range(2)), S, H, W, C)}


def batch_norm_predict(x, gain, offset, running_mean, running_variance, epsilon):
    scale = lambda c: gain[c] / mp.sqrt(running_variance[c] + epsilon[()])
    return {"y": tensor(lambda s, i, j, c: scale(c) * (x[s, i, j, c] - running_mean[c]) + offset[c], S, H, W, C)}


def batch_norm(x, gain, offset, running_mean, running_variance, momentum, epsilon):
    pixels = lambda c: [x[s, i, j, c] for s in range(S) for i in range(H) for j in range(W)]
    mean = tensor(lambda c: sum(pixels(c)) / (S * H * W), C)
    variance = tensor(lambda c: sum((v - mean[c]) ** 2 for v in pixels(c)) / (S * H * W), C)
    average = lambda old, new: tensor(lambda c: momentum[()] * old[c] + (1 - momentum[()]) * new[c], C)
    return {**batch_norm_predict(x, gain, offset, mean, variance, epsilon), "new_running_mean": average(running_mean, mean),
            "new_running_variance": average(running_variance, variance)}


def dense_on_maps(x, F, b):
    pixels = list(itertools.product(range(H), range(W), range(C)))
    return {"y": tensor(lambda s, n: b[n] + sum(x[(s, *p)] * F[(*p, n)] for p in pixels), S, N)}


MAPS, CHANNEL, UPPER = ((S, H, W, C), -1, 1), ((C,), -1, 1), ((C,), 0.5, 1)
NORM = {"x": MAPS, "gain": CHANNEL, "offset": CHANNEL, "running_mean": CHANNEL, "running_variance": UPPER}


def write_all():
    write("image.convolution", convolution, {"x": MAPS, "F": ((3, 3, C, O), -1, 1), "b": ((O,), -1, 1)})
    write("image.max_pool", max_pool, {"x": ((S, 2 * H, 2 * W, C), -100, 100)})  # no two of a square are equal
    write("image.batch_norm", batch_norm, {**NORM, "momentum": ((), 0.25, 0.75), "epsilon": ((), 0.25, 0.5)},
          ["running_mean", "running_variance", "momentum", "epsilon"])
    write("image.batch_norm_predict", batch_norm_predict, {**NORM, "epsilon": ((), 0.25, 0.5)}, ["epsilon"])
    write("image.dense", dense_on_maps, {"x": MAPS, "F": ((H, W, C, N), -1, 1), "b": ((N,), -1, 1)})
    write("text.embedding", embedding, {"x": ((S, T), 0, V, 1), "E": ((V, D), -1, 1)}, ["x"])
    write("text.convolution", convolution_over_time, {"x": ((S, T, C), -1, 1), "F": ((3, C, O), -1, 1), "b": ((O,), -1, 1)})
    write("text.max_over_time", max_over_time, {"x": ((S, T, C), -100, 100)})  # no two of a channel are equal
