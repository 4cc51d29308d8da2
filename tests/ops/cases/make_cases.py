"""Writes the golden cases of this folder: python3 make_cases.py

Values come from the definitions in 40 digits (expectations by quadrature, not by the closed forms that the operations use), gradients
from central differences of them. Inputs are multiples of 1/64, or integers, exact in single precision.
"""
import itertools
import json
import pathlib
import random

from mpmath import mp, mpf

mp.dps = 40
STEP = mpf(10) ** -12


class Tensor:
    def __init__(self, shape, data):
        self.shape, self.data = list(shape), [mpf(x) for x in data]

    def __getitem__(self, index):
        index = index if isinstance(index, tuple) else (index,)
        flat = 0
        for i, extent in zip(index, self.shape):
            flat = flat * extent + i
        return self.data[flat]

    def moved(self, k, step):
        return Tensor(self.shape, [x + step if i == k else x for i, x in enumerate(self.data)])

    def json(self):
        return {"shape": self.shape, "data": [float(x) for x in self.data]}


def tensor(f, *shape):
    return Tensor(shape, [f(*i) for i in itertools.product(*map(range, shape))])


def scalar(value):
    return Tensor([], [value])


def draw(generator, shape, low, high, grid=64):
    count = 1
    for extent in shape:
        count *= extent
    return Tensor(shape, [round(generator.uniform(low, high) * grid) / grid for _ in range(count)])


def weighted(outputs, cotangents):
    return sum(c * y for name in outputs for c, y in zip(cotangents[name].data, outputs[name].data))


def gradients(function, inputs, cotangents, constants):
    result = {}
    for name, value in inputs.items():
        if name in constants:
            continue
        slopes = []
        for k in range(len(value.data)):
            up, down = (weighted(function(**{**inputs, name: value.moved(k, step)}), cotangents) for step in (STEP, -STEP))
            slopes.append((up - down) / (2 * STEP))
        result[name] = Tensor(value.shape, slopes)
    return result


def write(op, function, ranges, constants=(), differentiate=True, tolerance=1e-12):
    generator = random.Random(op)
    inputs = {name: draw(generator, *how) for name, how in ranges.items()}
    outputs = function(**inputs)
    case = {"name": "small", "op": op, "rtol_float64": tolerance, "rtol_grad_float64": tolerance, "cotangents": {}, "gradients": {}}
    if differentiate:
        cotangents = {name: draw(generator, y.shape, -1, 1) for name, y in outputs.items()}
        slopes = gradients(function, inputs, cotangents, constants)
        case["cotangents"] = {name: t.json() for name, t in cotangents.items()}
        case["gradients"] = {name: t.json() for name, t in slopes.items()}
    case["inputs"] = {name: t.json() for name, t in inputs.items()}
    case["outputs"] = {name: t.json() for name, t in outputs.items()}
    pathlib.Path(__file__).with_name(op + ".json").write_text(json.dumps({"op": op, "cases": [case]}, indent=1) + "\n")


# ---- Dense layers ----

S, M, N, D, R, P = 2, 3, 2, 3, 3, 4
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


# ---- ProbAct ----

def bounded_sigma(k, alpha, beta):
    return {"sigma": tensor(lambda n: alpha[()] / (1 + mp.exp(-beta[()] * k[n])), N)}


def affine_mean(a, slope, offset):
    return {"mean": tensor(lambda s, n: slope[n] * a[s, n] + offset[n], S, N)}


def affine_moments(mu, var, slope, offset, sigma):
    return {"mean": affine_mean(mu, slope, offset)["mean"],
            "variance": tensor(lambda s, n: slope[n] ** 2 * var[s, n] + sigma[n] ** 2, S, N)}


# ---- Images ----

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


# ---- Losses ----

def log_softmax(z):
    total = mp.log(sum(mp.exp(v) for v in z))
    return [v - total for v in z]


def cross_entropy(logits, target):
    rows = [log_softmax([logits[s, d] for d in range(D)]) for s in range(S)]
    return {"loss": scalar(-sum(target[s, d] * rows[s][d] for s in range(S) for d in range(D)) / S)}


def squared_error(prediction, target):
    return {"loss": scalar(sum((prediction[s, n] - target[s, n]) ** 2 for s in range(S) for n in range(N)) / S)}


def unscented_diag(mu, var, target):
    """The plain sum over the 2D+1 sigma points."""
    loss = mpf(0)
    for s in range(S):
        centre = [mu[s, d] for d in range(D)]
        points = [(1 - mpf(D) / 3, centre)]
        for i in range(D):
            for sign in (1, -1):
                moved = [z + (sign * mp.sqrt(3 * var[s, d]) if d == i else 0) for d, z in enumerate(centre)]
                points.append((mpf(1) / 6, moved))
        loss -= sum(w * sum(target[s, d] * row for d, row in enumerate(log_softmax(z))) for w, z in points)
    return {"loss": scalar(loss / S)}


def class_probability(mu, var):
    def weight(s, d):
        scale = lambda e: mp.sqrt(1 + mp.pi / 8 * (var[s, d] + var[s, e]))
        return 1 / sum(mp.exp((mu[s, e] - mu[s, d]) / scale(e)) for e in range(D))

    return {"probability": tensor(lambda s, d: weight(s, d) / sum(weight(s, e) for e in range(D)), S, D)}


# ---- Gaussian process neurons ----

def k(a, v, scale):
    return mp.exp(-(a - v) ** 2 / (2 * scale**2))


def posterior(a, n, V, U, noise, scale):
    """Mean and variance of f(a) given the virtual observations."""
    K = mp.matrix(R, R)
    for r in range(R):
        for t in range(R):
            K[r, t] = k(V[r, n], V[t, n], scale) + (noise[r, n] if r == t else 0)
    alpha = mp.matrix([k(a, V[r, n], scale) for r in range(R)])
    weights = mp.lu_solve(K, alpha)
    return sum(weights[r] * U[r, n] for r in range(R)), 1 - sum(weights[r] * alpha[r] for r in range(R))


def expectation(f, mu, var):
    density = lambda z: mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi)
    return mp.quad(lambda z: density(z) * f(mu + mp.sqrt(var) * z), [-13, -4, 0, 4, 13])


def response(mu, var, V, U, noise, lambda_, sigma):
    mean = tensor(lambda s, n: expectation(lambda a: posterior(a, n, V, U, noise, lambda_[n])[0], mu[s, n], var[s, n]), *mu.shape)

    def second(s, n):
        def moment(a):
            m, v = posterior(a, n, V, U, noise, lambda_[n])
            return m * m + v

        return expectation(moment, mu[s, n], var[s, n])

    return {"mean": mean, "variance": tensor(lambda s, n: second(s, n) - mean[s, n] ** 2 + sigma[n] ** 2, *mu.shape)}


def spaced(V0, h):
    return tensor(lambda r, n: V0[n] + h[n] * r, R, N)


def response_equispaced(mu, var, V0, h, U, noise, sigma, **scale):
    return response(mu, var, spaced(V0, h), U, noise, scale["lambda"], sigma)


def first_layer_equispaced(x, W, V0, h, U, noise, sigma, **scale):
    a = dense(lambda v: v)(x, W, tensor(lambda n: 0, N))["a"]
    V = spaced(V0, h)
    at = lambda s, n: posterior(a[s, n], n, V, U, noise, scale["lambda"][n])
    return {"mean": tensor(lambda s, n: at(s, n)[0], S, N), "variance": tensor(lambda s, n: at(s, n)[1] + sigma[n] ** 2, S, N)}


def layer_mean(x, W, V, U, noise, **scale):
    a = dense(lambda v: v)(x, W, tensor(lambda n: 0, N))["a"]
    return {"mean": tensor(lambda s, n: posterior(a[s, n], n, V, U, noise, scale["lambda"][n])[0], S, N)}


def layer_mean_equispaced(x, W, V0, h, U, noise, **scale):
    return layer_mean(x, W, spaced(V0, h), U, noise, **scale)


def prior(V, jitter, scale, n):
    return mp.matrix([[k(V[r, n], V[t, n], scale[n]) + (jitter[()] if r == t else 0) for t in range(R)] for r in range(R)])


def vb_whitened(m, lower, log_scale, centre, V, jitter, **scale):
    """From the moments of the targets, by (57) and (64), not from whitened ones."""
    kl, means, covariances, khat, beta = mpf(0), [], [], [], []
    for n in range(N):
        K = prior(V, jitter, scale["lambda"], n)
        L = mp.cholesky(K)
        Q = mp.matrix([[lower[n, r, t] if t < r else mp.exp(log_scale[r, n]) if t == r else mpf(0) for t in range(R)] for r in range(R)])
        mean = mp.matrix([centre[r, n] for r in range(R)]) + L * mp.matrix([m[r, n] for r in range(R)])
        covariance = L * Q * Q.T * L.T
        inverse = K ** -1
        trace = sum((inverse * covariance)[r, r] for r in range(R))
        kl += (trace + (mean.T * inverse * mean)[0] - R + mp.log(mp.det(K)) - mp.log(mp.det(covariance))) / 2
        means.append(mean)
        covariances.append(covariance)
        khat.append(inverse - inverse * covariance * inverse)
        beta.append(inverse * mean)
    return {"kl": scalar(kl), "khat": tensor(lambda n, r, t: khat[n][r, t], N, R, R), "beta": tensor(lambda r, n: beta[n][r], R, N),
            "mu_u": tensor(lambda r, n: means[n][r], R, N), "var_u": tensor(lambda r, n: covariances[n][r, r], R, N)}


def loss_predictive(mean, variance, target):
    density = lambda s, n: mp.exp(-(target[s, n] - mean[s, n]) ** 2 / (2 * variance[s, n])) / mp.sqrt(2 * mp.pi * variance[s, n])
    return {"nll": scalar(-sum(mp.log(density(s, n)) for s in range(S) for n in range(N)) / S)}


def jitter(cov, relative):
    mean = lambda s: sum(cov[s, n, n] for n in range(N)) / N
    return {"jittered": tensor(lambda s, n, m: cov[s, n, m] + (relative[()] * mean(s) if n == m else 0), S, N, N)}


def relu_moments(mu, var, sigma):
    def moment(s, n, power):
        deviation = mp.sqrt(var[s, n])
        density = lambda x: mp.npdf(x, mu[s, n], deviation)
        top = abs(mu[s, n]) + 14 * deviation
        return mp.quad(lambda x: x**power * density(x), [0, deviation, 3 * deviation, 6 * deviation, top])

    mean = tensor(lambda s, n: moment(s, n, 1), S, N)
    return {"mean": mean, "variance": tensor(lambda s, n: moment(s, n, 2) - mean[s, n] ** 2 + sigma[n] ** 2, S, N)}


POINTS = {"V0": ((N,), -1.5, -1), "h": ((N,), 0.5, 1), "U": ((R, N), -1, 1), "noise": ((R, N), 0.1, 0.5), "lambda": ((N,), 0.7, 1.3)}
GIVEN = {"x": ((S, M), -1, 1), "W": ((M, N), -1, 1)}
FREE = {"V": ((R, N), -1.5, 1.5), **{name: POINTS[name] for name in ("U", "noise", "lambda")}}


# ---- Optimisers and schedules ----

def elementwise(f, *tensors):
    return tensor(lambda p: f(*(t[p] for t in tensors)), P)


def sgd(param, grad, rate, decay):
    return {"new_param": elementwise(lambda w, g: w - rate[()] * (g + decay[()] * w), param, grad)}


def momentum(param, grad, velocity, rate, momentum, decay):
    new = elementwise(lambda w, g, v: momentum[()] * v + g + decay[()] * w, param, grad, velocity)
    return {"new_velocity": new, "new_param": elementwise(lambda w, v: w - rate[()] * v, param, new)}


def rmsprop(param, grad, square, rate, beta, epsilon, decay):
    g = elementwise(lambda w, g: g + decay[()] * w, param, grad)
    new = elementwise(lambda q, g: beta[()] * q + (1 - beta[()]) * g * g, square, g)
    step = lambda w, g, q: w - rate[()] * g / (mp.sqrt(q) + epsilon[()])
    return {"new_square": new, "new_param": elementwise(step, param, g, new)}


def adam(param, grad, average, square, step, rate, beta1, beta2, epsilon, decay):
    g = elementwise(lambda w, g: g + decay[()] * w, param, grad)
    m = elementwise(lambda m, g: beta1[()] * m + (1 - beta1[()]) * g, average, g)
    v = elementwise(lambda v, g: beta2[()] * v + (1 - beta2[()]) * g * g, square, g)
    fresh = lambda beta: 1 - beta[()] ** step[()]
    move = lambda w, m, v: w - rate[()] * (m / fresh(beta1)) / (mp.sqrt(v / fresh(beta2)) + epsilon[()])
    return {"new_average": m, "new_square": v, "new_param": elementwise(move, param, m, v)}


VECTOR, UNIT = ((P,), -1, 1), ((), 0.25, 0.75)
FLAT = {"param": VECTOR, "grad": VECTOR}
SCHEDULE = {"initial": UNIT, "step": ((), 5, 9)}


def main():
    for name, act in ACTIVATIONS.items():
        write("dense." + name, dense(act), LAYER)
        write("activation." + name, pointwise(act), {"z": ((S, N), -1, 1)})
    write("activation.prelu", prelu_alone, {"z": ((S, N), -1, 1), "leak": ((N,), 0, 0.5)})
    write("dense.prelu", prelu, {**LAYER, "slope": ((N,), 0, 0.5)})
    write("dense.tanh_fast_dropout", fast_dropout, {**LAYER, "rate": UNIT}, ["rate"])
    write("loss.softmax_cross_entropy", cross_entropy, {"logits": ((S, D), -2, 2), "target": ((S, D), 0, 1)}, ["target"])
    write("loss.squared_error", squared_error, {"prediction": ((S, N), -2, 2), "target": ((S, N), 0, 1)}, ["target"])
    write("gpn.loss_unscented_diag", unscented_diag, {"mu": ((S, D), -2, 2), "var": ((S, D), 0.1, 2), "target": ((S, D), 0, 1)}, ["target"])
    write("gpn.class_probability", class_probability, {"mu": ((S, D), -2, 2), "var": ((S, D), 0, 2)})
    write("gpn.response_variance_equispaced", response_equispaced,
          {"mu": ((S, N), -1, 1), "var": ((S, N), 0.2, 1), **POINTS, "sigma": ((N,), 0.1, 0.5)})
    write("gpn.first_layer_equispaced", first_layer_equispaced, {**GIVEN, **POINTS, "sigma": ((N,), 0.1, 0.5)})
    write("gpn.layer_mean", layer_mean, {**GIVEN, **FREE})
    write("gpn.layer_mean_equispaced", layer_mean_equispaced, {**GIVEN, **POINTS})
    write("gpn.vb_whitened", vb_whitened, {"m": ((R, N), -1, 1), "lower": ((N, R, R), -1, 1), "log_scale": ((R, N), -1, 0.5),
                                           "centre": ((R, N), -1, 1), "V": ((R, N), -2, 2), "jitter": ((), 0.0625, 0.125),
                                           "lambda": ((N,), 0.5, 1.5)}, ["jitter"], tolerance=1e-10)
    write("gpn.loss_predictive", loss_predictive, {"mean": ((S, N), -1, 1), "variance": ((S, N), 0.25, 2), "target": ((S, N), -1, 1)}, ["target"])
    write("gpn.jitter", jitter, {"cov": ((S, N, N), -1, 1), "relative": ((), 0.25, 0.5)}, ["relative"])
    write("probact.moments", relu_moments, {"mu": ((S, N), -1, 1), "var": ((S, N), 0.2, 1), "sigma": ((N,), 0.1, 0.5)})
    unit = ((N,), -1, 1)
    write("probact.bounded_sigma", bounded_sigma, {"k": unit, "alpha": ((), 1, 3), "beta": ((), 1, 5)}, ["alpha", "beta"])
    write("probact.affine_mean", affine_mean, {"a": ((S, N), -1, 1), "slope": unit, "offset": unit})
    write("probact.affine_moments", affine_moments, {"mu": ((S, N), -1, 1), "var": ((S, N), 0, 1), "slope": unit, "offset": unit, "sigma": unit})
    write("image.convolution", convolution, {"x": MAPS, "F": ((3, 3, C, O), -1, 1), "b": ((O,), -1, 1)})
    write("image.max_pool", max_pool, {"x": ((S, 2 * H, 2 * W, C), -100, 100)})  # no two of a square are equal
    write("image.batch_norm", batch_norm, {**NORM, "momentum": ((), 0.25, 0.75), "epsilon": ((), 0.25, 0.5)},
          ["running_mean", "running_variance", "momentum", "epsilon"])
    write("image.batch_norm_predict", batch_norm_predict, {**NORM, "epsilon": ((), 0.25, 0.5)}, ["epsilon"])
    write("image.dense", dense_on_maps, {"x": MAPS, "F": ((H, W, C, N), -1, 1), "b": ((N,), -1, 1)})
    write("text.embedding", embedding, {"x": ((S, T), 0, V, 1), "E": ((V, D), -1, 1)}, ["x"])
    write("text.convolution", convolution_over_time, {"x": ((S, T, C), -1, 1), "F": ((3, C, O), -1, 1), "b": ((O,), -1, 1)})
    write("text.max_over_time", max_over_time, {"x": ((S, T, C), -100, 100)})  # no two of a channel are equal
    write("optimiser.sgd", sgd, {**FLAT, "rate": UNIT, "decay": UNIT})
    write("optimiser.momentum", momentum, {**FLAT, "velocity": VECTOR, "rate": UNIT, "momentum": UNIT, "decay": UNIT})
    write("optimiser.rmsprop", rmsprop, {**FLAT, "square": ((P,), 0, 1), "rate": UNIT, "beta": UNIT, "epsilon": UNIT, "decay": UNIT})
    write("optimiser.adam", adam, {**FLAT, "average": VECTOR, "square": ((P,), 0, 1), "step": ((), 2, 5), "rate": UNIT, "beta1": UNIT,
                                   "beta2": UNIT, "epsilon": UNIT, "decay": UNIT})
    rate = lambda f: lambda initial, step, **rest: {"rate": scalar(f(initial[()], step[()], *(t[()] for t in rest.values())))}
    write("schedule.step", rate(lambda a, t, f, n: a * f ** mp.floor(t / n)), {**SCHEDULE, "factor": UNIT, "period": ((), 1, 3)},
          differentiate=False)
    write("schedule.inverse_time", rate(lambda a, t, c: a / (1 + c * t)), {**SCHEDULE, "decay": UNIT})
    write("schedule.exponential", rate(lambda a, t, c: a * mp.exp(-c * t)), {**SCHEDULE, "decay": UNIT})


if __name__ == "__main__":
    main()
