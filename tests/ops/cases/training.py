"""Losses, optimisers and schedules."""
from mpmath import mp

from reference import scalar, tensor, write

S, N, D, P, T = 2, 2, 3, 4, 3


def log_softmax(z):
    total = mp.log(sum(mp.exp(v) for v in z))
    return [v - total for v in z]


def cross_entropy(logits, target):
    rows = [log_softmax([logits[s, d] for d in range(D)]) for s in range(S)]
    return {"loss": scalar(-sum(target[s, d] * rows[s][d] for s in range(S) for d in range(D)) / S)}


def squared_error(prediction, target):
    return {"loss": scalar(sum((prediction[s, n] - target[s, n]) ** 2 for s in range(S) for n in range(N)) / S)}


def beta_nll(mean, variance, target, beta, held_variance):
    loss = lambda s, n: mp.log(2 * mp.pi * variance[s, n]) / 2 + (target[s, n] - mean[s, n]) ** 2 / (2 * variance[s, n])
    return {"loss": scalar(sum(held_variance[s, n] ** beta[()] * loss(s, n) for s in range(S) for n in range(N)) / S)}


def squared_error_frames(mean, target):
    return {"loss": scalar(sum((y - t) ** 2 for y, t in zip(mean.data, target.data)) / (S * T * P))}


def gaussian_frames(mean, variance, target):
    """Mean of -log density; density of each pixel by the definition of the normal distribution."""
    density = lambda y, v, t: mp.exp(-(t - y) ** 2 / (2 * v)) / mp.sqrt(2 * mp.pi * v)
    return {"loss": scalar(-sum(mp.log(density(*p)) for p in zip(mean.data, variance.data, target.data)) / (S * T * P))}


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


FRAMES = {"mean": ((S, T, P), -1, 1), "variance": ((S, T, P), 0.25, 2), "target": ((S, T, P), -1, 1)}


def write_all():
    write("loss.softmax_cross_entropy", cross_entropy, {"logits": ((S, D), -2, 2), "target": ((S, D), 0, 1)}, ["target"])
    write("loss.beta_nll", beta_nll,
          {"mean": ((S, N), -1, 1), "variance": ((S, N), 0.25, 2), "target": ((S, N), -1, 1), "beta": ((), 0.25, 0.75)},
          ["target", "beta"], held=["variance"])
    write("loss.squared_error", squared_error, {"prediction": ((S, N), -2, 2), "target": ((S, N), 0, 1)}, ["target"])
    write("loss.squared_error_frames", squared_error_frames, {name: FRAMES[name] for name in ("mean", "target")}, ["target"])
    write("loss.gaussian_frames", gaussian_frames, FRAMES, ["target"])
    write("optimiser.sgd", sgd, {**FLAT, "rate": UNIT, "decay": UNIT})
    write("optimiser.momentum", momentum, {**FLAT, "velocity": VECTOR, "rate": UNIT, "momentum": UNIT, "decay": UNIT})
    write("optimiser.rmsprop", rmsprop, {**FLAT, "square": ((P,), 0, 1), "rate": UNIT, "beta": UNIT, "epsilon": UNIT, "decay": UNIT})
    write("optimiser.adam", adam, {**FLAT, "average": VECTOR, "square": ((P,), 0, 1), "step": ((), 2, 5), "rate": UNIT, "beta1": UNIT,
                                   "beta2": UNIT, "epsilon": UNIT, "decay": UNIT})
    rate = lambda f: lambda initial, step, **rest: {"rate": scalar(f(initial[()], step[()], *(t[()] for t in rest.values())))}
    write("schedule.step", rate(lambda a, t, f, n: a * f ** mp.floor(t / n)), {**SCHEDULE, "factor": UNIT, "period": ((), 1, 3)},
          without_gradients="steps have no derivative at their ends, and 0 between")
    write("schedule.inverse_time", rate(lambda a, t, c: a / (1 + c * t)), {**SCHEDULE, "decay": UNIT})
    write("schedule.exponential", rate(lambda a, t, c: a * mp.exp(-c * t)), {**SCHEDULE, "decay": UNIT})
