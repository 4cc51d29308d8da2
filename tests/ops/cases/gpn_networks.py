"""Networks of two layers of Gaussian process neurons. Their layers are checked one by one in gpn.py, so that these use the closed forms."""
from mpmath import mp

from gpn import (
    D, FREE, M, N, S, SIGMA, activation_covariance, activation_covariance_diag, loss_regression, loss_unscented_diag, loss_unscented_full,
    observed_units, product, tensor_pairs,
)
from reference import tensor, write


def layer(inputs, number):
    scale = {"lambda": inputs[f"lambda{number}"]}
    return observed_units(inputs[f"V{number}"], inputs[f"U{number}"], inputs[f"noise{number}"], scale), inputs[f"sigma{number}"]


def closed_moments(units, mu, var, sigma):
    mean = tensor(lambda s, n: units[n].mean(mu[s, n], var[s, n]), S, N)
    second = tensor(lambda s, n: units[n].second_moment(mu[s, n], var[s, n]), S, N)
    return mean, second, tensor(lambda s, n: second[s, n] - mean[s, n] ** 2 + sigma[n] ** 2, S, N)


def joint_kernel(mu, cov, s, n, m, v, w, scale_n, scale_m):
    """E[k(A_n, v) k(A_m, w)]: the normal density at (v, w) of the covariance plus the squares of both lengthscales."""
    p, q, c = scale_n**2 + cov[s, n, n], scale_m**2 + cov[s, m, m], cov[s, n, m]
    x, y, D = v - mu[s, n], w - mu[s, m], p * q - c * c
    return scale_n * scale_m / mp.sqrt(D) * mp.exp(-(x * x * q + y * y * p - 2 * x * y * c) / (2 * D))


def after_first_layer(inputs):
    units, sigma = layer(inputs, 1)
    a = product(inputs["x"], inputs["W1"])
    mean, variance = tensor_pairs(lambda s, n: units[n].at(a[s, n]))
    return mean, tensor(lambda s, n: variance[s, n] + sigma[n] ** 2, S, N)


def network_regression(target, **inputs):
    mean1, var1 = after_first_layer(inputs)
    units, sigma = layer(inputs, 2)
    a = activation_covariance_diag(mean1, var1, inputs["W2"])
    mean, second, variance = closed_moments(units, a["mu"], tensor(lambda s, n: a["cov"][s, n, n], S, N), sigma)
    return {"mean": mean, "variance": variance, "nll": loss_regression(mean, second, target, sigma)["nll"]}


def network_diag(target, **inputs):
    mean1, var1 = after_first_layer(inputs)
    units, sigma = layer(inputs, 2)
    a = activation_covariance_diag(mean1, var1, inputs["W2"])
    mean, _, variance = closed_moments(units, a["mu"], tensor(lambda s, n: a["cov"][s, n, n], S, N), sigma)
    logits = activation_covariance_diag(mean, variance, inputs["W3"])
    logit_var = tensor(lambda s, d: logits["cov"][s, d, d], S, D)
    return {"logit_mean": logits["mu"], "logit_var": logit_var, **loss_unscented_diag(logits["mu"], logit_var, target)}


def network_full(target, **inputs):
    mean1, var1 = after_first_layer(inputs)
    units, sigma = layer(inputs, 2)
    a = activation_covariance_diag(mean1, var1, inputs["W2"])
    mean, _, variance = closed_moments(units, a["mu"], tensor(lambda s, n: a["cov"][s, n, n], S, N), sigma)

    def covariance(s, n, m):
        if n == m:
            return variance[s, n]
        joint = sum(b * c * joint_kernel(a["mu"], a["cov"], s, n, m, v, w, units[n].scale, units[m].scale)
                    for b, v in zip(units[n].beta, units[n].points) for c, w in zip(units[m].beta, units[m].points))
        return joint - mean[s, n] * mean[s, m]

    logits = activation_covariance(mean, tensor(covariance, S, N, N), inputs["W3"])
    return {"logit_mean": logits["mu"], "logit_cov": logits["cov"], **loss_unscented_full(logits["mu"], logits["cov"], target)}


def network(logits):
    """Inputs of two layers of N units, and of that many logits."""
    ranges = {"x": ((S, M), -1, 1), "W1": ((M, N), -1, 1), "W2": ((N, N), -1, 1)}
    for number in (1, 2):
        ranges.update({f"{name}{number}": how for name, how in {**FREE, **SIGMA}.items()})
    return {**ranges, **({"W3": ((N, logits), -1, 1), "target": ((S, logits), 0, 1)} if logits else {"target": ((S, N), -1, 1)})}


def write_all():
    write("gpn.network_regression", network_regression, network(logits=0), ["target"])
    write("gpn.network_diag", network_diag, network(logits=D), ["target"])
    write("gpn.network_full", network_full, network(logits=N), ["target"])
