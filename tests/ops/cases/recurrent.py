"""Recurrent cells that carry a mean `_m` and a variance `_s` of every quantity, and an LSTM with dropout."""
from mpmath import mp, mpf

from random_numbers import uniform
from reference import Tensor, tensor, write

S, M, N, K, P, T = 2, 3, 2, 3, 2, 2
ZETA2 = mp.pi / 8
NU, OMEGA = 4 - 2 * mp.sqrt(2), -mp.log(1 + mp.sqrt(2))


def logistic(x):
    return 1 / (1 + mp.exp(-x))


def pair(f, *shape):
    """Two tensors of the two numbers that f gives."""
    values = {index: f(*index) for index in indices(shape)}
    return tuple(tensor(lambda *i: values[i][part], *shape) for part in range(2))


def indices(shape):
    return [(i, *rest) for i in range(shape[0]) for rest in indices(shape[1:])] if shape else [()]


# ---- Units: moments of an activation from those of its argument ----

def gaussian_sigmoid(m, s):
    """(8)"""
    mean = logistic(m / mp.sqrt(1 + ZETA2 * s))
    return mean, logistic(NU * (m + OMEGA) / mp.sqrt(1 + ZETA2 * NU**2 * s)) - mean**2


def gaussian_tanh(m, s):
    """tanh(x) = 2 sigmoid(2x) - 1"""
    mean, variance = gaussian_sigmoid(2 * m, 4 * s)
    return 2 * mean - 1, 4 * variance


def gamma_unit(shape, rate, c, gamma):
    """Moments of c (1 - exp(-gamma x)), by the moment generating function of the Gamma distribution."""
    generating = lambda t: (rate / (rate + t)) ** shape
    return c * (1 - generating(gamma)), c**2 * (generating(2 * gamma) - generating(gamma) ** 2)


def poisson_unit(rate, c, gamma):
    generating = lambda t: mp.exp((mp.exp(-t) - 1) * rate)
    return c * (1 - generating(gamma)), c**2 * (generating(2 * gamma) - generating(gamma) ** 2)


def gamma_of_moments(c, gamma):
    return lambda m, s: gamma_unit(m**2 / s, m / s, c, gamma)


# ---- Linear maps ----

def linear_at(W_m, W_s, a_m, a_s, n):
    """Mean and variance of sum_i W[n,i] a[i] of independent factors."""
    inputs = range(len(a_m))
    mean = sum(W_m[n, i] * a_m[i] for i in inputs)
    return mean, sum(W_s[n, i] * (a_s[i] + a_m[i] ** 2) + W_m[n, i] ** 2 * a_s[i] for i in inputs)


class Vector:
    """Means and variances of one sample."""

    def __init__(self, m, s):
        self.m, self.s = list(m), list(s)

    def __len__(self):
        return len(self.m)

    def pairs(self):
        return list(zip(self.m, self.s))


def row(m, s, *index):
    size = m.shape[-1]
    return Vector([m[(*index, i)] for i in range(size)], [s[(*index, i)] if s else mpf(0) for i in range(size)])


def of_pairs(pairs):
    return Vector([m for m, _ in pairs], [s for _, s in pairs])


def affine(x, h, weights, gate):
    """U x + W h + b of one gate; weights without variances have those of 0."""
    part = lambda name: (weights[f"{name}{gate}_m"], weights.get(f"{name}{gate}_s") or zeros(weights[f"{name}{gate}_m"]))
    (U_m, U_s), (W_m, W_s), (b_m, b_s) = part("U"), part("W"), part("b")

    def at(n):
        of_x, of_h = linear_at(U_m, U_s, x.m, x.s, n), linear_at(W_m, W_s, h.m, h.s, n)
        return of_x[0] + of_h[0] + b_m[n], of_x[1] + of_h[1] + b_s[n]

    return of_pairs([at(n) for n in range(b_m.shape[0])])


def zeros(like):
    return Tensor(like.shape, [0] * len(like.data))


def apply(unit, o):
    return of_pairs([unit(m, s) for m, s in o.pairs()])


def times(a, b):
    """Moments of a product of independent factors: E[a^2] E[b^2] - E[ab]^2."""
    return of_pairs([(m * n, (s + m**2) * (t + n**2) - (m * n) ** 2) for (m, s), (n, t) in zip(a.pairs(), b.pairs())])


def plus(a, b):
    return of_pairs([(m + n, s + t) for (m, s), (n, t) in zip(a.pairs(), b.pairs())])


# ---- Cells ----

def mixed(z, c, h):
    """Moments of (1-z) c + z h for independent z, c, h: E[(1-z)^2] E[c^2] + 2 E[z(1-z)] E[c] E[h] + E[z^2] E[h^2] - mean^2."""
    def at(z_m, z_s, c_m, c_s, h_m, h_s):
        mean = (1 - z_m) * c_m + z_m * h_m
        second = ((1 - z_m) ** 2 + z_s) * (c_s + c_m**2) + 2 * (z_m - z_m**2 - z_s) * c_m * h_m + (z_m**2 + z_s) * (h_s + h_m**2)
        return mean, second - mean**2

    return of_pairs([at(*p, *q, *r) for p, q, r in zip(z.pairs(), c.pairs(), h.pairs())])


def gru(x, h, weights, gate_unit, candidate_unit):
    r, z = (apply(gate_unit, affine(x, h, weights, gate)) for gate in "rz")
    return mixed(z, apply(candidate_unit, affine(x, times(r, h), weights, "c")), h)


def lstm(x, h, c, weights):
    """c = f c + i g and h = o tanh(c), their factors taken as independent."""
    i, f, o = (apply(gaussian_sigmoid, affine(x, h, weights, gate)) for gate in "ifo")
    content = plus(times(f, c), times(i, apply(gaussian_tanh, affine(x, h, weights, "g"))))
    return times(o, apply(gaussian_tanh, content)), content


def without_variance(units):
    """A Poisson unit takes the mean of its argument for its rate."""
    return lambda m, s: units(m)


def gru_units(family, constants):
    one = mpf(1)
    if family == "gaussian":
        return gaussian_sigmoid, gaussian_tanh
    c, gamma = constants["c"][()], constants["gamma"][()]
    if family == "gamma":
        return gamma_of_moments(one, gamma), gamma_of_moments(c, gamma)
    return without_variance(lambda m: poisson_unit(m, one, gamma)), without_variance(lambda m: poisson_unit(m, c, gamma))


def gru_cell(family):
    def cell(x_m, h_prev_m, h_prev_s, x_s=None, **weights):
        units = gru_units(family, weights)
        states = [gru(row(x_m, x_s, s), row(h_prev_m, h_prev_s, s), weights, *units) for s in range(S)]
        return {"h_m": tensor(lambda s, n: states[s].m[n], S, N), "h_s": tensor(lambda s, n: states[s].s[n], S, N)}

    return cell


def gru_sequence(family):
    def sequence(x_m, h0_m, h0_s, x_s=None, **weights):
        units, states = gru_units(family, weights), {}
        for s in range(S):
            h = row(h0_m, h0_s, s)
            for t in range(T):
                h = states[t, s] = gru(row(x_m, x_s, t, s), h, weights, *units)
        return {"h_m": tensor(lambda t, s, n: states[t, s].m[n], T, S, N), "h_s": tensor(lambda t, s, n: states[t, s].s[n], T, S, N)}

    return sequence


def lstm_cell(x_m, x_s, h_prev_m, h_prev_s, c_prev_m, c_prev_s, **weights):
    states = [lstm(row(x_m, x_s, s), row(h_prev_m, h_prev_s, s), row(c_prev_m, c_prev_s, s), weights) for s in range(S)]
    return {"h_m": tensor(lambda s, n: states[s][0].m[n], S, N), "h_s": tensor(lambda s, n: states[s][0].s[n], S, N),
            "c_m": tensor(lambda s, n: states[s][1].m[n], S, N), "c_s": tensor(lambda s, n: states[s][1].s[n], S, N)}


def lstm_sequence(x_m, x_s, h0_m, h0_s, **weights):
    states = {}
    for s in range(S):
        h, c = row(h0_m, h0_s, s), of_pairs([(mpf(0), mpf(0))] * N)
        for t in range(T):
            h, c = lstm(row(x_m, x_s, t, s), h, c, weights)
            states[t, s] = h
    return {"h_m": tensor(lambda t, s, n: states[t, s].m[n], T, S, N), "h_s": tensor(lambda t, s, n: states[t, s].s[n], T, S, N)}


def dropout_sequence(x, h0, rate, **weights):
    """Every gate reads the inputs and the last state through masks that stay the same at all steps."""
    def keep(stream, s, i):
        return mpf(0) if uniform(stream, s, i) < rate[()] else 1 / (1 - rate[()])

    states = {}
    for s in range(S):
        h, c = [h0[s, n] for n in range(N)], [mpf(0)] * N
        for t in range(T):
            kept_x, kept_h = [x[t, s, m] * keep(0, s, m) for m in range(M)], [h[n] * keep(1, s, n) for n in range(N)]

            def gate(name, n):
                U, W, b = (weights[part + name] for part in ("U", "W", "b"))
                return sum(U[n, m] * kept_x[m] for m in range(M)) + sum(W[n, i] * kept_h[i] for i in range(N)) + b[n]

            c = [logistic(gate("f", n)) * c[n] + logistic(gate("i", n)) * mp.tanh(gate("g", n)) for n in range(N)]
            h = states[t, s] = [logistic(gate("o", n)) * mp.tanh(c[n]) for n in range(N)]
    return {"h": tensor(lambda t, s, n: states[t, s][n], T, S, N)}


# ---- Parts of cells ----

def unit_op(unit):
    def op(o_m, o_s):
        return dict(zip(("a_m", "a_s"), pair(lambda s, n: unit(o_m[s, n], o_s[s, n]), S, N)))

    return op


def gamma_layer(o_m, o_s, c, gamma):
    return unit_op(gamma_of_moments(c[()], gamma[()]))(o_m, o_s)


def gamma_activation(shape, rate, c, gamma):
    return dict(zip(("a_m", "a_s"), pair(lambda s, n: gamma_unit(shape[s, n], rate[s, n], c[()], gamma[()]), S, N)))


def poisson_activation(rate, c, gamma):
    return dict(zip(("a_m", "a_s"), pair(lambda s, n: poisson_unit(rate[s, n], c[()], gamma[()]), S, N)))


def moments_by(f, names):
    """An operation of elements: the outputs `names` from two numbers (or one) of each element."""
    return lambda **inputs: dict(zip(names, pair(lambda s, n: f(*(t[s, n] for t in inputs.values())), S, N)))


def linear(a_m, a_s, W_m, W_s, b_m, b_s):
    def at(s, n):
        a = row(a_m, a_s, s)
        mean, variance = linear_at(W_m, W_s, a.m, a.s, n)
        return mean + b_m[n], variance + b_s[n]

    return dict(zip(("o_m", "o_s"), pair(at, S, N)))


def gate_of(x_m, x_s, h_m, h_s, U_m, U_s, W_m, W_s, b_m, b_s, unit=gaussian_sigmoid, reset=None):
    weights = {"U_m": U_m, "U_s": U_s, "W_m": W_m, "W_s": W_s, "b_m": b_m, "b_s": b_s}

    def gate(s):
        h = row(h_m, h_s, s)
        return apply(unit, affine(row(x_m, x_s, s), times(row(*reset, s), h) if reset else h, weights, ""))

    gates = [gate(s) for s in range(S)]
    return pair(lambda s, n: gates[s].pairs()[n], S, N)


def gate(**inputs):
    return dict(zip(("g_m", "g_s"), gate_of(**inputs)))


def candidate(r_m, r_s, **inputs):
    return dict(zip(("c_m", "c_s"), gate_of(**inputs, unit=gaussian_tanh, reset=(r_m, r_s))))


def cell_state(z_m, z_s, c_m, c_s, h_prev_m, h_prev_s):
    states = [mixed(row(z_m, z_s, s), row(c_m, c_s, s), row(h_prev_m, h_prev_s, s)) for s in range(S)]
    return dict(zip(("h_m", "h_s"), pair(lambda s, n: states[s].pairs()[n], S, N)))


def cell_state_gate_mean(z_s, **inputs):
    return cell_state(z_s=zeros(z_s), **inputs)


def readout(h_m, h_s, W_m, W_s, b_m, b_s):
    def at(s, t, p):
        h = row(h_m, h_s, t, s)
        mean, variance = linear_at(W_m, W_s, h.m, h.s, p)
        return gaussian_sigmoid(mean + b_m[p], variance + b_s[p])

    return dict(zip(("mean", "variance"), pair(at, S, T, P)))


def lstm_readout(h, W, b):
    return {"mean": tensor(lambda s, t, p: logistic(sum(W[p, n] * h[t, s, n] for n in range(N)) + b[p]), S, T, P)}


MEAN, SPREAD, POSITIVE = (-1, 1), (0.1, 1), (0.1, 1)
CONSTANTS = {"c": ((), 1, 2), "gamma": ((), 0.5, 1)}


def moments(name, shape, mean=MEAN, variance=SPREAD):
    return {f"{name}_m": (shape, *mean), **({f"{name}_s": (shape, *variance)} if variance else {})}


def gates(names, mean=MEAN, variance=SPREAD, hidden=N):
    ranges = {}
    for name in names:
        for part, shape in (("U", (N, M)), ("W", (N, hidden)), ("b", (N,))):
            ranges.update(moments(part + name, shape, mean, variance))
    return ranges


def write_all():
    states, elements = (S, N), {"m": ((S, N), 0.5, 2), "s": ((S, N), 0.5, 2)}
    write("sp_gru.gaussian_moments", moments_by(lambda a, b: (-a / (2 * b), -1 / (2 * b)), ("m", "s")),
          {"alpha": (states, -1, 1), "beta": (states, -2, -0.5)})
    write("sp_gru.gaussian_natural", moments_by(lambda m, s: (m / s, -1 / (2 * s)), ("alpha", "beta")), elements)
    write("sp_gru.gamma_moments", moments_by(lambda a, b: (-(a + 1) / b, (a + 1) / b**2), ("m", "s")),
          {"alpha": (states, -0.5, 2), "beta": (states, -2, -0.5)})
    write("sp_gru.gamma_natural", moments_by(lambda m, s: (m**2 / s - 1, -m / s), ("alpha", "beta")), elements)
    write("sp_gru.poisson_moments", moments_by(lambda eta: (mp.exp(eta), mp.exp(eta)), ("m", "s")), {"eta": (states, -1, 1)})
    write("sp_gru.linear", linear, {**moments("a", (S, M)), **moments("W", (N, M)), **moments("b", (N,))})
    write("sp_gru.sigmoid", unit_op(gaussian_sigmoid), moments("o", states))
    write("sp_gru.tanh", unit_op(gaussian_tanh), moments("o", states))
    write("sp_gru.gamma_activation", gamma_activation, {"shape": (states, 0.5, 2), "rate": (states, 0.5, 2), **CONSTANTS}, CONSTANTS)
    write("sp_gru.gamma_layer", gamma_layer, {**moments("o", states, (0.5, 2), (0.5, 2)), **CONSTANTS}, CONSTANTS)
    write("sp_gru.poisson_activation", poisson_activation, {"rate": (states, 0.5, 2), **CONSTANTS}, CONSTANTS)
    write("sp_gru.gate", gate, {**moments("x", (S, M)), **moments("h", (S, K)), **gates([""], hidden=K)})
    write("sp_gru.candidate", candidate,
          {**moments("x", (S, M)), **moments("h", (S, K)), **gates([""], hidden=K), **moments("r", (S, K), (0.25, 0.75), (0, 0.25))})
    mixture = {**moments("z", states, (0.25, 0.75), (0, 0.25)), **moments("c", states), **moments("h_prev", states)}
    write("sp_gru.cell_state", cell_state, mixture)
    write("sp_gru.cell_state_gate_mean", cell_state_gate_mean, mixture, ["z_s"])
    for family, mean, spread in (("gaussian", MEAN, SPREAD), ("gamma", POSITIVE, SPREAD), ("poisson", POSITIVE, None)):
        name = "sp_gru." if family == "gaussian" else f"sp_gru.{family}_"
        constants = {} if family == "gaussian" else CONSTANTS
        weights = {**gates("rzc", mean, spread), **constants}
        write(name + "cell", gru_cell(family), {**moments("x", (S, M), mean, spread), **moments("h_prev", states, mean), **weights}, constants)
        write(name + "sequence", gru_sequence(family),
              {**moments("x", (T, S, M), mean, spread), **moments("h0", states, mean), **weights}, constants)
    write("sp_gru.readout", readout, {**moments("h", (T, S, N)), **moments("W", (P, N)), **moments("b", (P,))})
    inputs = {**moments("x", (S, M)), **moments("h_prev", states), **moments("c_prev", states)}
    write("sp_lstm.cell", lstm_cell, {**inputs, **gates("ifog")})
    write("sp_lstm.sequence", lstm_sequence, {**moments("x", (T, S, M)), **moments("h0", states), **gates("ifog")})
    dropped = {f"{part}{name}": (shape, *MEAN) for name in "ifog" for part, shape in (("U", (N, M)), ("W", (N, N)), ("b", (N,)))}
    write("lstm.dropout_sequence", dropout_sequence, {"x": ((T, S, M), -1, 1), "h0": (states, -1, 1), "rate": ((), 0.25, 0.5), **dropped}, ["rate"])
    write("lstm.readout", lstm_readout, {"h": ((T, S, N), -1, 1), "W": ((P, N), -1, 1), "b": ((P,), -1, 1)})
