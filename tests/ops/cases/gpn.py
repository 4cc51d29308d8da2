"""Gaussian process neurons. Expectations over activations are quadratures of what they are expectations of, not the closed forms that the
operations use."""
from mpmath import mp, mpf

from random_numbers import normal
from reference import Covariance, scalar, tensor, write
from training import log_softmax

S, M, N, D, R = 2, 3, 2, 3, 3
TERMS = 3


def product(x, W):
    """sum_m x[s,m] W[m,n]"""
    return tensor(lambda s, n: sum(x[s, m] * W[m, n] for m in range(W.shape[0])), x.shape[0], W.shape[1])


# ---- The response of a unit ----

def k(a, v, scale):
    return mp.exp(-(a - v) ** 2 / (2 * scale**2))


def prior(V, n, noise, scale):
    """K of unit n, with noise[r] on its diagonal."""
    return mp.matrix([[k(V[r, n], V[t, n], scale) + (noise[r] if r == t else 0) for t in range(R)] for r in range(R)])


def column(values, n):
    return mp.matrix([values[r, n] for r in range(R)])


class Unit:
    """f of one unit: its mean at a is alpha . beta and its variance 1 - alpha . kappa alpha."""

    def __init__(self, points, scale, kappa, beta):
        self.points, self.scale, self.kappa, self.beta = points, scale, kappa, beta

    @staticmethod
    def observed(n, V, U, noise, scale):
        kappa = prior(V, n, [noise[r, n] for r in range(R)], scale[n]) ** -1
        return Unit([V[r, n] for r in range(R)], scale[n], kappa, kappa * column(U, n))

    @staticmethod
    def random(n, V, mu_u, cov_u, jitter, scale):
        """(64)"""
        precision = prior(V, n, [jitter[()]] * R, scale[n]) ** -1
        covariance = mp.matrix([[cov_u[n, r, t] for t in range(R)] for r in range(R)])
        return Unit([V[r, n] for r in range(R)], scale[n], precision - precision * covariance * precision, precision * column(mu_u, n))

    def at(self, a):
        alpha = [k(a, v, self.scale) for v in self.points]
        explained = sum(p * self.kappa[r, t] * q for r, p in enumerate(alpha) for t, q in enumerate(alpha))
        return sum(p * b for p, b in zip(alpha, self.beta)), 1 - explained

    def second_at(self, a):
        mean, variance = self.at(a)
        return mean**2 + variance

    def mean(self, mu, var):
        """The closed form (29), (31)."""
        return sum(b * psi(mu, var, v, self.scale) for b, v in zip(self.beta, self.points))

    def second_moment(self, mu, var):
        """The closed form (36), (37)."""
        pairs = [(r, t) for r in range(R) for t in range(R)]
        return 1 - sum((self.kappa[r, t] - self.beta[r] * self.beta[t]) * omega(mu, var, self.points[r], self.points[t], self.scale)
                       for r, t in pairs)


def psi(mu, var, v, scale):
    return mp.sqrt(scale**2 / (scale**2 + var)) * mp.exp(-(mu - v) ** 2 / (2 * (scale**2 + var)))


def omega(mu, var, v, w, scale):
    """The product of two kernels is a kernel at their middle, times a constant."""
    return mp.exp(-(v - w) ** 2 / (4 * scale**2)) * psi(mu, var, (v + w) / 2, scale / mp.sqrt(2))


NODES = [mpf(j) / 8 for j in range(-112, 113)]
WEIGHTS = [mp.npdf(z) / 8 for z in NODES]


def expectation(f, mu, var):
    """By the trapezoidal rule, which has 40 digits here: what it integrates is entire, and as narrow as 1/4 at most."""
    root = mp.sqrt(var)
    return sum(w * f(mu + root * z) for w, z in zip(WEIGHTS, NODES))


def joint_expectation(f, g, mu, cov, s, n, m):
    """E[f(A_n) g(A_m)], where `g` gives E[g(A)] of a mean and a variance: A_m given A_n is normal."""
    slope = cov[s, n, m] / cov[s, n, n]
    rest = cov[s, m, m] - slope * cov[s, n, m]
    return expectation(lambda a: f(a) * g(mu[s, m] + slope * (a - mu[s, n]), rest), mu[s, n], cov[s, n, n])


# ---- Moments of activations ----

def activation_mean(mean_x, W):
    return {"mu": product(mean_x, W)}


def activation_variance(mean_x, var_x, W):
    return {"mu": product(mean_x, W), "var": product(var_x, tensor(lambda m, n: W[m, n] ** 2, M, N))}


def activation_covariance(mean_x, cov_x, W):
    inputs = [(i, j) for i in range(W.shape[0]) for j in range(W.shape[0])]
    quadratic = lambda s, n, m: sum(W[i, n] * cov_x[s, i, j] * W[j, m] for i, j in inputs)
    return {"mu": product(mean_x, W), "cov": tensor(quadratic, S, W.shape[1], W.shape[1])}


def diagonal(var):
    return tensor(lambda s, i, j: var[s, i] if i == j else mpf(0), S, var.shape[1], var.shape[1])


def activation_covariance_diag(mean_x, var_x, W):
    return activation_covariance(mean_x, diagonal(var_x), W)


# ---- Parts of the response ----

def kernel(a, V, **scale):
    return {"alpha": tensor(lambda s, r, n: k(a[s, n], V[r, n], scale["lambda"][n]), S, R, N)}


def kappa(V, U, noise, **scale):
    units = [Unit.observed(n, V, U, noise, scale["lambda"]) for n in range(N)]
    return {"kappa": tensor(lambda n, r, t: units[n].kappa[r, t], N, R, R), "beta": tensor(lambda r, n: units[n].beta[r], R, N)}


def expected_kernel(mu, var, V, **scale):
    at = lambda s, r, n: expectation(lambda a: k(a, V[r, n], scale["lambda"][n]), mu[s, n], var[s, n])
    return {"psi": tensor(at, S, R, N)}


def expected_product(mu, var, V, **scale):
    def at(s, r, t, n):
        return expectation(lambda a: k(a, V[r, n], scale["lambda"][n]) * k(a, V[t, n], scale["lambda"][n]), mu[s, n], var[s, n])

    return {"Omega": tensor(at, S, R, R, N)}


def expected_joint_product(mu, cov, V, **scale):
    l = scale["lambda"]

    def at(s, r, t, n, m):
        return joint_expectation(lambda a: k(a, V[r, n], l[n]), lambda mean, var: psi(mean, var, V[t, m], l[m]), mu, cov, s, n, m)

    return {"Lambda": tensor(at, S, R, R, N, N)}


def points(V0, h):
    return {"V": spaced(V0, h)}


def spaced(V0, h):
    return tensor(lambda r, n: V0[n] + h[n] * r, R, N)


def penalty_noise(noise, alpha_S, beta_S):
    return {"penalty": scalar(sum(alpha_S[()] / (1 + mp.exp(-beta_S[()] / v)) for v in noise.data) / (N * R))}


# ---- Responses ----

def observed_units(V, U, noise, scale):
    return [Unit.observed(n, V, U, noise, scale["lambda"]) for n in range(N)]


def mean_of(units, mu, var):
    return tensor(lambda s, n: expectation(lambda a: units[n].at(a)[0], mu[s, n], var[s, n]), S, N)


def second_moment_of(units, mu, var):
    return tensor(lambda s, n: expectation(units[n].second_at, mu[s, n], var[s, n]), S, N)


def moments_of(units, mu, var, sigma):
    mean, second = mean_of(units, mu, var), second_moment_of(units, mu, var)
    return {"mean": mean, "variance": tensor(lambda s, n: second[s, n] - mean[s, n] ** 2 + sigma[n] ** 2, S, N)}


def joint_moments_of(units, mu, cov, sigma):
    result = moments_of(units, mu, tensor(lambda s, n: cov[s, n, n], S, N), sigma)
    mean, variance = result["mean"], result["variance"]

    def covariance(s, n, m):
        if n == m:
            return variance[s, n]
        return joint_expectation(lambda a: units[n].at(a)[0], units[m].mean, mu, cov, s, n, m) - mean[s, n] * mean[s, m]

    return {"mean": mean, "covariance": tensor(covariance, S, N, N)}


def response_mean(mu, var, V, U, noise, **scale):
    return {"mean": mean_of(observed_units(V, U, noise, scale), mu, var)}


def second_moment(mu, var, V, U, noise, **scale):
    return {"second_moment": second_moment_of(observed_units(V, U, noise, scale), mu, var)}


def response(mu, var, V, U, noise, sigma, **scale):
    return moments_of(observed_units(V, U, noise, scale), mu, var, sigma)


def response_equispaced(mu, var, V0, h, U, noise, sigma, **scale):
    return response(mu, var, spaced(V0, h), U, noise, sigma, **scale)


def response_covariance(mu, cov, V, U, noise, sigma, **scale):
    return joint_moments_of(observed_units(V, U, noise, scale), mu, cov, sigma)


def response_covariance_equispaced(mu, cov, V0, h, U, noise, sigma, **scale):
    return response_covariance(mu, cov, spaced(V0, h), U, noise, sigma, **scale)


def response_covariance_series(mu, cov, V, U, noise, sigma, **scale):
    """Covariances of units by TERMS terms: cov^k/k! times the k-th derivatives of both means; with a bound of the others."""
    units = observed_units(V, U, noise, scale)
    variance = tensor(lambda s, n: cov[s, n, n], S, N)
    exact = moments_of(units, mu, variance, sigma)
    width = tensor(lambda s, n: units[n].scale ** 2 + cov[s, n, n], S, N)

    def slope(s, n, order):
        """d^order/dmu^order of psi is psi times a Hermite polynomial (of the probabilists; mpmath has those of the physicists)."""
        root, total = mp.sqrt(width[s, n]), mpf(0)
        for b, v in zip(units[n].beta, units[n].points):
            xi = (v - mu[s, n]) / root
            total += b * psi(mu[s, n], cov[s, n, n], v, units[n].scale) * mp.hermite(order, xi / mp.sqrt(2)) / mp.sqrt(2) ** order
        return total / root**order

    def covariance(s, n, m):
        if n == m:
            return exact["variance"][s, n]
        return sum(cov[s, n, m] ** order / mp.factorial(order) * slope(s, n, order) * slope(s, m, order) for order in range(1, TERMS + 1))

    weight = max(sum(abs(b) for b in unit.beta) for unit in units)

    def bound(s):
        rho = max(abs(cov[s, n, m]) / mp.sqrt(width[s, n] * width[s, m]) for n in range(N) for m in range(N) if n != m)
        return mpf("1.19") * weight**2 * rho ** (TERMS + 1) / (1 - rho)

    return {"mean": exact["mean"], "covariance": tensor(covariance, S, N, N), "error_bound": tensor(bound, S)}


def first_layer(x, W, V, U, noise, sigma, **scale):
    a, units = product(x, W), observed_units(V, U, noise, scale)
    at = tensor_pairs(lambda s, n: units[n].at(a[s, n]))
    return {"mean": at[0], "variance": tensor(lambda s, n: at[1][s, n] + sigma[n] ** 2, S, N)}


def tensor_pairs(f):
    pairs = {(s, n): f(s, n) for s in range(S) for n in range(N)}
    return [tensor(lambda s, n: pairs[s, n][i], S, N) for i in range(2)]


def first_layer_equispaced(x, W, V0, h, U, noise, sigma, **scale):
    return first_layer(x, W, spaced(V0, h), U, noise, sigma, **scale)


def layer_mean(x, W, V, U, noise, **scale):
    a, units = product(x, W), observed_units(V, U, noise, scale)
    return {"mean": tensor(lambda s, n: units[n].at(a[s, n])[0], S, N)}


def layer_mean_equispaced(x, W, V0, h, U, noise, **scale):
    return layer_mean(x, W, spaced(V0, h), U, noise, **scale)


def sample(mean, variance):
    return {"x": tensor(lambda s, n: mean[s, n] + mp.sqrt(variance[s, n]) * normal(0, s, n), S, N)}


def jitter(cov, relative):
    mean = lambda s: sum(cov[s, n, n] for n in range(N)) / N
    return {"jittered": tensor(lambda s, n, m: cov[s, n, m] + (relative[()] * mean(s) if n == m else 0), S, N, N)}


# ---- Random targets ----

def divergence(mean, covariance, K):
    """(57): the divergence of N(mean, covariance) from N(0, K)."""
    inverse = K ** -1
    trace = sum((inverse * covariance)[r, r] for r in range(R))
    return (trace + (mean.T * inverse * mean)[0] - R + mp.log(mp.det(K)) - mp.log(mp.det(covariance))) / 2


def kl(mu_u, cov_u, V, jitter, **scale):
    total = mpf(0)
    for n in range(N):
        covariance = mp.matrix([[cov_u[n, r, t] for t in range(R)] for r in range(R)])
        total += divergence(column(mu_u, n), covariance, prior(V, n, [jitter[()]] * R, scale["lambda"][n]))
    return {"kl": scalar(total)}


def random_units(V, mu_u, cov_u, jitter, scale):
    return [Unit.random(n, V, mu_u, cov_u, jitter, scale["lambda"]) for n in range(N)]


def vb_khat(mu_u, cov_u, V, jitter, **scale):
    units = random_units(V, mu_u, cov_u, jitter, scale)
    return {"khat": tensor(lambda n, r, t: units[n].kappa[r, t], N, R, R), "beta": tensor(lambda r, n: units[n].beta[r], R, N)}


def vb_response_variance(mu, var, V, mu_u, cov_u, jitter, sigma, **scale):
    return moments_of(random_units(V, mu_u, cov_u, jitter, scale), mu, var, sigma)


def vb_response_covariance(mu, cov, V, mu_u, cov_u, jitter, sigma, **scale):
    return joint_moments_of(random_units(V, mu_u, cov_u, jitter, scale), mu, cov, sigma)


def vb_whitened(m, lower, log_scale, centre, V, jitter, **scale):
    """From the moments of the targets, by (57) and (64), not from whitened ones."""
    total, means, covariances = mpf(0), [], []
    for n in range(N):
        K = prior(V, n, [jitter[()]] * R, scale["lambda"][n])
        L = mp.cholesky(K)
        Q = mp.matrix([[lower[n, r, t] if t < r else mp.exp(log_scale[r, n]) if t == r else mpf(0) for t in range(R)] for r in range(R)])
        means.append(column(centre, n) + L * column(m, n))
        covariances.append(L * Q * Q.T * L.T)
        total += divergence(means[n], covariances[n], K)
    mu_u, cov_u = tensor(lambda r, n: means[n][r], R, N), tensor(lambda n, r, t: covariances[n][r, t], N, R, R)
    return {"kl": scalar(total), **vb_khat(mu_u, cov_u, V, jitter, **scale), "mu_u": mu_u,
            "var_u": tensor(lambda r, n: covariances[n][r, r], R, N)}


# ---- Losses ----

def regression_sum(mean, second_moment, target, sigma):
    """The sum over samples of -E[log N(target | F, sigma^2)]."""
    def of(s, n):
        error = target[s, n] ** 2 - 2 * target[s, n] * mean[s, n] + second_moment[s, n]
        return mp.log(2 * mp.pi * sigma[n] ** 2) / 2 + error / (2 * sigma[n] ** 2)

    return sum(of(s, n) for s in range(S) for n in range(N))


def loss_regression(mean, second_moment, target, sigma):
    return {"nll": scalar(regression_sum(mean, second_moment, target, sigma) / S)}


def vb_predictive(mean, second_moment, target, sigma):
    return {"L_pred": scalar(-regression_sum(mean, second_moment, target, sigma))}


def loss_predictive(mean, variance, target):
    density = lambda s, n: mp.exp(-(target[s, n] - mean[s, n]) ** 2 / (2 * variance[s, n])) / mp.sqrt(2 * mp.pi * variance[s, n])
    return {"nll": scalar(-sum(mp.log(density(s, n)) for s in range(S) for n in range(N)) / S)}


def unscented(centre, offsets, target):
    """The plain sum over the sigma points: `centre`, and each of `offsets` added and subtracted; of all samples."""
    loss, logits = mpf(0), range(centre.shape[1])
    for s in range(S):
        z = [centre[s, d] for d in logits]
        points = [(1 - mpf(len(offsets(s))) / 3, z)]
        for offset in offsets(s):
            points += [(mpf(1) / 6, [v + sign * o for v, o in zip(z, offset)]) for sign in (1, -1)]
        loss -= sum(w * sum(target[s, d] * row for d, row in enumerate(log_softmax(point))) for w, point in points)
    return scalar(loss / S)


def lower_factor(cov, s):
    size = cov.shape[-1]
    return mp.cholesky(mp.matrix([[cov[s, i, j] for j in range(size)] for i in range(size)]))


def loss_unscented_full(mu, cov, target):
    def offsets(s):
        L = lower_factor(cov, s)
        return [[mp.sqrt(3) * L[d, i] for d in range(L.rows)] for i in range(L.rows)]

    return {"loss": unscented(mu, offsets, target)}


def loss_unscented_diag(mu, var, target):
    logits = range(mu.shape[1])
    offsets = lambda s: [[mp.sqrt(3 * var[s, d]) if d == i else mpf(0) for d in logits] for i in logits]
    return {"loss": unscented(mu, offsets, target)}


def loss_unscented_features_full(mean_x, cov_x, W, target):
    def offsets(s):
        L = lower_factor(cov_x, s)
        return [[mp.sqrt(3) * sum(L[m, i] * W[m, d] for m in range(M)) for d in range(D)] for i in range(M)]

    return {"loss": unscented(product(mean_x, W), offsets, target)}


def loss_unscented_features_diag(mean_x, var_x, W, target):
    offsets = lambda s: [[mp.sqrt(3 * var_x[s, i]) * W[i, d] for d in range(D)] for i in range(M)]
    return {"loss": unscented(product(mean_x, W), offsets, target)}


def class_probability(mu, var):
    def weight(s, d):
        scale = lambda e: mp.sqrt(1 + mp.pi / 8 * (var[s, d] + var[s, e]))
        return 1 / sum(mp.exp((mu[s, e] - mu[s, d]) / scale(e)) for e in range(D))

    return {"probability": tensor(lambda s, d: weight(s, d) / sum(weight(s, e) for e in range(D)), S, D)}


LENGTHS = {"lambda": ((N,), 0.7, 1.3)}
TARGETS = {"U": ((R, N), -1, 1), "noise": ((R, N), 0.1, 0.5), **LENGTHS}
FREE = {"V": ((R, N), -1.5, 1.5), **TARGETS}
SPACED = {"V0": ((N,), -1.5, -1), "h": ((N,), 0.5, 1), **TARGETS}
GIVEN = {"x": ((S, M), -1, 1), "W": ((M, N), -1, 1)}
FEATURES = {"mean_x": ((S, M), -1, 1), "W": ((M, N), -1, 1)}
SIGMA = {"sigma": ((N,), 0.1, 0.5)}
MU = {"mu": ((S, N), -1, 1)}
ACTIVATION = {**MU, "var": ((S, N), 0.2, 1)}
JOINT = {**MU, "cov": Covariance(S, N, N)}
RANDOM = {"V": ((R, N), -1.5, 1.5), "mu_u": ((R, N), -1, 1), "cov_u": Covariance(N, R, R), "jitter": ((), 0.0625, 0.125), **LENGTHS}
CLASSES = {"target": ((S, D), 0, 1)}
PREDICTED = {"mean": ((S, N), -1, 1), "second_moment": ((S, N), 1, 2), "target": ((S, N), -1, 1), "sigma": ((N,), 0.25, 1)}


def write_all():
    write("gpn.activation_mean", activation_mean, FEATURES)
    write("gpn.activation_variance", activation_variance, {**FEATURES, "var_x": ((S, M), 0.1, 1)})
    write("gpn.activation_covariance_diag", activation_covariance_diag, {**FEATURES, "var_x": ((S, M), 0.1, 1)})
    write("gpn.activation_covariance", activation_covariance, {**FEATURES, "cov_x": Covariance(S, M, M)})
    write("gpn.points", points, {name: SPACED[name] for name in ("V0", "h")}, dims={"R": R})
    write("gpn.kernel", kernel, {"a": ((S, N), -1, 1), "V": FREE["V"], **LENGTHS})
    write("gpn.kappa", kappa, FREE)
    write("gpn.psi", expected_kernel, {**ACTIVATION, "V": FREE["V"], **LENGTHS})
    write("gpn.omega", expected_product, {**ACTIVATION, "V": FREE["V"], **LENGTHS})
    write("gpn.lambda", expected_joint_product, {**JOINT, "V": FREE["V"], **LENGTHS})
    write("gpn.penalty_noise", penalty_noise, {"noise": ((R, N), 0.1, 0.5), "alpha_S": ((), 0.1, 0.5), "beta_S": ((), 0.05, 0.2)},
          ["alpha_S", "beta_S"])
    write("gpn.first_layer", first_layer, {**GIVEN, **FREE, **SIGMA})
    write("gpn.first_layer_equispaced", first_layer_equispaced, {**GIVEN, **SPACED, **SIGMA})
    write("gpn.layer_mean", layer_mean, {**GIVEN, **FREE})
    write("gpn.layer_mean_equispaced", layer_mean_equispaced, {**GIVEN, **SPACED})
    write("gpn.response_mean", response_mean, {**ACTIVATION, **FREE})
    write("gpn.second_moment", second_moment, {**ACTIVATION, **FREE})
    write("gpn.response_variance", response, {**ACTIVATION, **FREE, **SIGMA})
    write("gpn.response_variance_equispaced", response_equispaced, {**ACTIVATION, **SPACED, **SIGMA})
    write("gpn.response_covariance", response_covariance, {**JOINT, **FREE, **SIGMA})
    write("gpn.response_covariance_equispaced", response_covariance_equispaced, {**JOINT, **SPACED, **SIGMA})
    write("gpn.response_covariance_series", response_covariance_series, {**JOINT, **FREE, **SIGMA}, dims={"J": TERMS})
    write("gpn.sample", sample, {"mean": ((S, N), -1, 1), "variance": ((S, N), 0.25, 2)})
    write("gpn.jitter", jitter, {"cov": ((S, N, N), -1, 1), "relative": ((), 0.25, 0.5)}, ["relative"])
    write("gpn.kl", kl, RANDOM, ["jitter"])
    write("gpn.vb_khat", vb_khat, RANDOM, ["jitter"])
    write("gpn.vb_response_variance", vb_response_variance, {**ACTIVATION, **RANDOM, **SIGMA}, ["jitter"])
    write("gpn.vb_response_covariance", vb_response_covariance, {**JOINT, **RANDOM, **SIGMA}, ["jitter"],
          single=(1e-5, 3e-5))  # 2.1e-5 where multiply-adds are fused as NVRTC does it
    write("gpn.vb_whitened", vb_whitened, {"m": ((R, N), -1, 1), "lower": ((N, R, R), -1, 1), "log_scale": ((R, N), -1, 0.5),
                                           "centre": ((R, N), -1, 1), "V": ((R, N), -2, 2), "jitter": ((), 0.0625, 0.125),
                                           "lambda": ((N,), 0.5, 1.5)}, ["jitter"], tolerance=1e-10)
    write("gpn.loss_regression", loss_regression, PREDICTED, ["target"])
    write("gpn.vb_predictive", vb_predictive, PREDICTED, ["target"])
    write("gpn.loss_predictive", loss_predictive, {"mean": ((S, N), -1, 1), "variance": ((S, N), 0.25, 2), "target": ((S, N), -1, 1)}, ["target"])
    write("gpn.loss_unscented_full", loss_unscented_full, {"mu": ((S, D), -2, 2), "cov": Covariance(S, D, D), **CLASSES}, ["target"])
    write("gpn.loss_unscented_diag", loss_unscented_diag, {"mu": ((S, D), -2, 2), "var": ((S, D), 0.1, 2), **CLASSES}, ["target"])
    features = {"mean_x": ((S, M), -1, 1), "W": ((M, D), -1, 1), **CLASSES}
    write("gpn.loss_unscented_features_full", loss_unscented_features_full, {**features, "cov_x": Covariance(S, M, M)}, ["target"])
    write("gpn.loss_unscented_features_diag", loss_unscented_features_diag, {**features, "var_x": ((S, M), 0.1, 1)}, ["target"])
    write("gpn.class_probability", class_probability, {"mu": ((S, D), -2, 2), "var": ((S, D), 0, 2)})
