"""Dense layers, activations, and the stochastic activations of ProbAct."""
from mpmath import mp, mpf

from random_numbers import normal
from reference import scalar, tensor, write

S, M, N, D, T = 2, 3, 2, 3, 3
C, H, W = 2, 2, 3
ELU_SCALE, ELU_ALPHA = mpf("1.0507009873554805"), mpf("1.6732632423543772")


def dense(act):
    return lambda x, W, b: {"a": tensor(lambda s, n: act(sum(x[s, m] * W[m, n] for m in range(M)) + b[n]), S, N)}


def prelu(x, W, b, slope):
    z = dense(lambda v: v)(x, W, b)["a"]
    return {"a": tensor(lambda s, n: z[s, n] if z[s, n] > 0 else slope[n] * z[s, n], S, N)}


def fast_dropout(x, W, b, rate):
    keep = 1 - rate[()]
    mu = dense(lambda v: v)(x, W, b)["a"]
    var = tensor(lambda s, n: sum((x[s, m] * W[m, n]) ** 2 for m in range(M)) * rate[()] / keep, S, N)
    probit = lambda s, n: 1 / (1 + mp.exp(-2 * mu[s, n] / mp.sqrt(1 + mp.pi / 2 * var[s, n])))
    return {"a": tensor(lambda s, n: 2 * probit(s, n) - 1, S, N)}


LAYER = {"x": ((S, M), -1, 1), "W": ((M, N), -1, 1), "b": ((N,), -1, 1)}
ACTIVATIONS = {
    "tanh": mp.tanh,
    "sigmoid": lambda z: 1 / (1 + mp.exp(-z)),
    "relu": lambda z: max(z, mpf(0)),
    "leaky_relu": lambda z: z if z > 0 else z / 100,
    "elu": lambda z: z if z > 0 else mp.exp(z) - 1,
    "selu": lambda z: ELU_SCALE * (z if z > 0 else ELU_ALPHA * (mp.exp(z) - 1)),
    "swish": lambda z: z / (1 + mp.exp(-z)),
    "identity": lambda z: z,
}


def pointwise(act):
    return lambda z: {"a": tensor(lambda s, n: act(z[s, n]), S, N)}


def prelu_alone(z, leak):
    return {"a": tensor(lambda s, n: z[s, n] if z[s, n] > 0 else leak[n] * z[s, n], S, N)}


def softmax(logits):
    return {"probability": tensor(lambda s, d: 1 / sum(mp.exp(logits[s, e] - logits[s, d]) for e in range(D)), S, D)}


# ---- ProbAct ----

def bounded_sigma(k, alpha, beta):
    return {"sigma": tensor(lambda n: alpha[()] / (1 + mp.exp(-beta[()] * k[n])), N)}


def affine_mean(a, slope, offset):
    return {"mean": tensor(lambda s, n: slope[n] * a[s, n] + offset[n], S, N)}


def affine_moments(mu, var, slope, offset, sigma):
    return {"mean": affine_mean(mu, slope, offset)["mean"],
            "variance": tensor(lambda s, n: slope[n] ** 2 * var[s, n] + sigma[n] ** 2, S, N)}


def rectified(x, s, n):
    return max(x[s, n], mpf(0))


def forward(x, eps, sigma):
    """sigma is one number, or one of each element."""
    return {"y": tensor(lambda s, n: rectified(x, s, n) + sigma[(n,) if sigma.shape else ()] * eps[s, n], S, N)}


def forward_bounded(x, eps, k, alpha, beta):
    return forward(x, eps, bounded_sigma(k, alpha, beta)["sigma"])


def forward_affine_mean(x, eps, slope, offset, sigma):
    return {"y": tensor(lambda s, n: slope[n] * rectified(x, s, n) + offset[n] + sigma[n] * eps[s, n], S, N)}


def predictive(y):
    mean = tensor(lambda s, n: sum(y[t, s, n] for t in range(T)) / T, S, N)
    return {"mean": mean, "variance": tensor(lambda s, n: sum((y[t, s, n] - mean[s, n]) ** 2 for t in range(T)) / T, S, N)}


def noise(mean, sigma):
    return {"y": tensor(lambda s, n: mean[s, n] + sigma[n] * normal(0, s, n), S, N)}


def sample(x, sigma):
    return noise(tensor(lambda s, n: rectified(x, s, n), S, N), sigma)


def sample_channels(x, sigma):
    return {"y": tensor(lambda s, c, i, j: max(x[s, c, i, j], mpf(0)) + sigma[c] * normal(0, s, c, i, j), S, C, H, W)}


def relu_moments(mu, var, sigma):
    def moment(s, n, power):
        deviation = mp.sqrt(var[s, n])
        density = lambda x: mp.npdf(x, mu[s, n], deviation)
        top = abs(mu[s, n]) + 14 * deviation
        return mp.quad(lambda x: x**power * density(x), [0, deviation, 3 * deviation, 6 * deviation, top])

    mean = tensor(lambda s, n: moment(s, n, 1), S, N)
    return {"mean": mean, "variance": tensor(lambda s, n: moment(s, n, 2) - mean[s, n] ** 2 + sigma[n] ** 2, S, N)}


UNIT, ELEMENT = ((S, N), -1, 1), ((N,), -1, 1)
DRAWN = {"x": UNIT, "eps": UNIT}
SETTINGS = {"alpha": ((), 1, 3), "beta": ((), 1, 5)}


def write_all():
    for name, act in ACTIVATIONS.items():
        write("dense." + name, dense(act), LAYER)
        write("activation." + name, pointwise(act), {"z": UNIT})
    write("activation.prelu", prelu_alone, {"z": UNIT, "leak": ((N,), 0, 0.5)})
    write("activation.softmax", softmax, {"logits": ((S, D), -2, 2)})
    write("dense.prelu", prelu, {**LAYER, "slope": ((N,), 0, 0.5)})
    write("dense.tanh_fast_dropout", fast_dropout, {**LAYER, "rate": ((), 0.25, 0.75)}, ["rate"])
    write("probact.moments", relu_moments, {"mu": UNIT, "var": ((S, N), 0.2, 1), "sigma": ((N,), 0.1, 0.5)})
    write("probact.bounded_sigma", bounded_sigma, {"k": ELEMENT, **SETTINGS}, ["alpha", "beta"])
    write("probact.affine_mean", affine_mean, {"a": UNIT, "slope": ELEMENT, "offset": ELEMENT})
    write("probact.affine_moments", affine_moments,
          {"mu": UNIT, "var": ((S, N), 0, 1), "slope": ELEMENT, "offset": ELEMENT, "sigma": ELEMENT})
    write("probact.forward", forward, {**DRAWN, "sigma": ((), 0, 1)}, ["eps"])
    write("probact.forward_elementwise", forward, {**DRAWN, "sigma": ELEMENT}, ["eps"])
    write("probact.forward_bounded", forward_bounded, {**DRAWN, "k": ELEMENT, **SETTINGS}, ["eps", "alpha", "beta"])
    write("probact.forward_affine_mean", forward_affine_mean, {**DRAWN, "slope": ELEMENT, "offset": ELEMENT, "sigma": ELEMENT}, ["eps"])
    write("probact.predictive", predictive, {"y": ((T, S, N), -1, 1)})
    write("probact.noise", noise, {"mean": UNIT, "sigma": ELEMENT})
    write("probact.sample", sample, {"x": UNIT, "sigma": ELEMENT})
    write("probact.sample_channels", sample_channels, {"x": ((S, C, H, W), -1, 1), "sigma": ((C,), -1, 1)})
