#!/usr/bin/env python3
"""Evidence for docs/errata.md: moxie's formulas equal their defining expectations, by quadrature or by enumeration, and what the
papers print does not."""
import itertools
import math
import pathlib
import re
import sys
import unittest
from math import cosh, exp, expm1, lgamma, log, pi, sqrt, tanh

from expectations import cholesky, density, determinant, expectation, expectation_2, integral, inverse, logistic, relu
from moxie_formula import run_formula

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOXIE = sys.argv.pop(1)
EULER = 0.57721566490153286


def moxie(operation, **inputs):
    return run_formula(MOXIE, operation, **inputs)


class Unit:
    """A neuron with its virtual observations: its response to an activation is normal, by eq. (16)."""

    def __init__(self, points, targets, noise, length):
        self.points, self.length = points, length
        matrix = [[self.kernel(p, q) + (noise[i] if i == k else 0) for k, q in enumerate(points)] for i, p in enumerate(points)]
        self.kappa = inverse(matrix)
        self.beta = [sum(w * u for w, u in zip(row, targets)) for row in self.kappa]

    def kernel(self, a, b):
        return exp(-(a - b) ** 2 / (2 * self.length ** 2))

    def alpha(self, a):
        return [self.kernel(a, point) for point in self.points]

    def mean(self, a):
        return sum(x * b for x, b in zip(self.alpha(a), self.beta))

    def variance(self, a):
        alpha = self.alpha(a)
        return 1 - sum(x * k * y for x, row in zip(alpha, self.kappa) for k, y in zip(row, alpha))


POINTS, TARGETS, NOISE, LENGTHS = [[-1.0, -0.4], [0.3, 0.5], [1.1, 1.6]], [[0.4, -0.9], [-1.2, 0.7], [0.8, 0.2]], \
    [[0.3, 0.1], [0.2, 0.4], [0.5, 0.3]], [0.8, 1.1]
MU, COV = [0.3, -0.5], [[0.7, 0.35], [0.35, 0.9]]
SIGMA = [0.2, 0.3]


def column(table, n):
    return [row[n] for row in table]


UNITS = [Unit(column(POINTS, n), column(TARGETS, n), column(NOISE, n), LENGTHS[n]) for n in range(2)]


class GaussianProcessNeurons(unittest.TestCase):
    def test_G1_G2_G3_expected_product_of_the_covariances(self):
        found = moxie("gpn.lambda", mu=[MU], cov=[COV], V=POINTS, **{"lambda": LENGTHS})["Lambda"]

        def value(r, t, n, m):
            return found[((r * 3 + t) * 2 + n) * 2 + m]

        r, t = 0, 2
        right = expectation_2(lambda a, b: UNITS[0].kernel(a, POINTS[r][0]) * UNITS[1].kernel(b, POINTS[t][1]), MU, COV)
        self.assertAlmostEqual(value(r, t, 0, 1), right, 12)
        # The labels as printed, V_rm and V_tn.
        self.assertGreater(abs(value(t, r, 0, 1) - right), 0.01)
        # The sign as printed: what multiplies the exponential is below 1, and so is any expected product.
        p, q, c = LENGTHS[0] ** 2 + COV[0][0], LENGTHS[1] ** 2 + COV[1][1], COV[0][1]
        factor = LENGTHS[0] * LENGTHS[1] / sqrt(p * q - c * c)
        self.assertGreater(abs(factor * factor / right - right), 0.1)

    def test_G2_covariance_of_two_responses(self):
        found = moxie("gpn.response_covariance", mu=[MU], cov=[COV], V=POINTS, U=TARGETS, noise=NOISE, sigma=SIGMA,
                      **{"lambda": LENGTHS})["covariance"]
        means = [expectation(UNITS[n].mean, MU[n], COV[n][n]) for n in range(2)]
        right = expectation_2(lambda a, b: UNITS[0].mean(a) * UNITS[1].mean(b), MU, COV) - means[0] * means[1]
        self.assertAlmostEqual(found[1], right, 12)
        self.assertAlmostEqual(found[2], right, 12)

    def test_G4_G5_mean_and_variance_of_a_response(self):
        variances = [COV[n][n] for n in range(2)]
        found = moxie("gpn.response_variance", mu=[MU], var=[variances], V=POINTS, U=TARGETS, noise=NOISE, sigma=SIGMA,
                      **{"lambda": LENGTHS})
        for n, unit in enumerate(UNITS):
            mean = expectation(unit.mean, MU[n], variances[n])
            square = expectation(lambda a: unit.mean(a) ** 2, MU[n], variances[n])
            right = expectation(unit.variance, MU[n], variances[n]) + square - mean ** 2 + SIGMA[n] ** 2
            self.assertAlmostEqual(found["mean"][n], mean, 12)
            self.assertAlmostEqual(found["variance"][n], right, 12)
            # (35) as printed has beta_tn twice.
            omega = [[expectation(lambda a: unit.kernel(a, p) * unit.kernel(a, q), MU[n], variances[n]) for q in unit.points]
                     for p in unit.points]
            printed = sum(unit.beta[r] * unit.beta[t] ** 2 * omega[r][t] for r in range(3) for t in range(3))
            self.assertGreater(abs(printed - square), 0.1)

    def test_G6_loss_of_regression(self):
        mean, variance, sigma, target = 0.4, 0.3, 0.5, -0.2
        found = moxie("gpn.loss_regression", mean=[[mean]], second_moment=[[variance + mean ** 2]], target=[[target]], sigma=[sigma])
        right = -expectation(lambda f: log(density((target - f) / sigma) / sigma), mean, variance)
        self.assertAlmostEqual(found["nll"][0], right, 12)
        printed = -log(sigma) - ((target - mean) ** 2 + variance) / (2 * sigma ** 2)
        self.assertGreater(abs(printed - right), 1)

    def test_G7_G8_loss_of_classification(self):
        mean, covariance = [0.6, -0.4], [[0.5, 0.2], [0.2, 0.8]]
        right = expectation_2(lambda a, b: log(exp(a) + exp(b)) - b, mean, covariance)
        found = moxie("gpn.loss_unscented_full", mu=[mean], cov=[covariance], target=[[0.0, 1.0]])["loss"][0]
        self.assertGreater(right, 0)
        self.assertAlmostEqual(found, right, 2)

    def test_G8_G9_sigma_points_are_columns_of_the_lower_factor(self):
        covariance = [[2.0, 0.6, -0.3], [0.6, 1.5, 0.4], [-0.3, 0.4, 0.9]]
        lower, dims = cholesky(covariance), range(3)

        def second_moments(offsets):  # of 2 D + 1 points: the two of a pair weigh 1/6 each, and lie sqrt(3) offsets away
            return [[sum(2 / 6 * 3 * o[i] * o[k] for o in offsets) for k in dims] for i in dims]

        columns = second_moments([[lower[i][k] for i in dims] for k in dims])
        rows = second_moments([lower[k] for k in dims])
        self.assertAlmostEqual(max(abs(columns[i][k] - covariance[i][k]) for i in dims for k in dims), 0, 12)
        self.assertGreater(max(abs(rows[i][k] - covariance[i][k]) for i in dims for k in dims), 0.1)
        mean, target = [0.3, -0.2, 0.5], [0.0, 1.0, 0.0]

        def loss(offsets):
            def lse(z):
                return log(sum(exp(x) for x in z))
            pairs = sum(lse([m + sqrt(3) * s * o for m, o in zip(mean, offset)]) for offset in offsets for s in (1, -1))
            return pairs / 6 - sum(t * m for t, m in zip(target, mean))  # the weight of the centre is 1 - D/3 = 0

        found = moxie("gpn.loss_unscented_full", mu=[mean], cov=[covariance], target=[target])["loss"][0]
        self.assertAlmostEqual(found, loss([[lower[i][k] for i in dims] for k in dims]), 12)
        self.assertGreater(abs(found - loss([lower[k] for k in dims])), 1e-3)

    def test_G10_G11_covariance_of_logits(self):
        weights = [[0.5, -1.0, 0.25], [1.5, 0.5, -0.75]]  # 2 features, 3 logits
        variances = [0.5, 2.0]
        logits = [[sum(variances[i] * weights[i][d] * weights[i][e] for i in range(2)) for e in range(3)] for d in range(3)]
        self.assertAlmostEqual(determinant(logits), 0, 14)
        self.assertGreater(abs(logits[0][1]) / sqrt(logits[0][0] * logits[1][1]), 0.1)
        found = moxie("gpn.loss_unscented_features_full", mean_x=[[0.2, -0.1]], cov_x=[[[0.5, 0.0], [0.0, 2.0]]], W=weights,
                      target=[[1.0, 0.0, 0.0]])["loss"][0]

        def cross_entropy(a, b):
            z = [a * weights[0][d] + b * weights[1][d] for d in range(3)]
            return log(sum(exp(x) for x in z)) - z[0]

        self.assertAlmostEqual(found, expectation_2(cross_entropy, [0.2, -0.1], [[0.5, 0.0], [0.0, 2.0]]), 1)

    def test_G12_divergence_of_the_targets(self):
        mean, variance, jitter = 0.7, 0.4, 0.25
        found = moxie("gpn.kl", mu_u=[[mean]], cov_u=[[[variance]]], V=[[0.3]], jitter=jitter, **{"lambda": [0.9]})["kl"][0]

        def log_ratio(u):
            posterior = density((u - mean) / sqrt(variance)) / sqrt(variance)
            return log(posterior / (density(u / sqrt(1 + jitter)) / sqrt(1 + jitter)))

        self.assertAlmostEqual(found, expectation(log_ratio, mean, variance), 12)
        same = moxie("gpn.kl", mu_u=[[0.0]], cov_u=[[[1 + jitter]]], V=[[0.3]], jitter=jitter, **{"lambda": [0.9]})["kl"][0]
        self.assertAlmostEqual(same, 0, 12)  # without -R/2 it would be 1/2

    def test_G14_variational_responses(self):
        jitter, unit = 0.1, Unit([-0.8, 0.7], [0.0, 0.0], [0.1, 0.1], 0.9)
        targets, spread = [0.5, -1.1], [[0.3, 0.1], [0.1, 0.2]]
        found = moxie("gpn.vb_response_variance", mu=[[0.2]], var=[[0.6]], V=[[p] for p in unit.points],
                      mu_u=[[u] for u in targets], cov_u=[spread], jitter=jitter, sigma=[0.0], **{"lambda": [0.9]})

        def moments(a):  # of the response at one activation, the targets drawn
            weights = [sum(unit.kappa[r][t] * x for t, x in enumerate(unit.alpha(a))) for r in range(2)]
            mean = sum(w * u for w, u in zip(weights, targets))
            drawn = sum(weights[i] * spread[i][k] * weights[k] for i in range(2) for k in range(2))
            return mean, unit.variance(a) + drawn

        mean = expectation(lambda a: moments(a)[0], 0.2, 0.6)
        second = expectation(lambda a: moments(a)[1] + moments(a)[0] ** 2, 0.2, 0.6)
        self.assertAlmostEqual(found["mean"][0], mean, 12)
        self.assertAlmostEqual(found["variance"][0], second - mean ** 2, 12)

    def test_G16_evidence_of_a_batch(self):
        arguments = {"sigma": [0.5]}
        whole = moxie("gpn.vb_predictive", mean=[[0.1], [0.4]] * 3, second_moment=[[0.5], [0.7]] * 3, target=[[0.3], [-0.2]] * 3, **arguments)
        batch = moxie("gpn.vb_predictive", mean=[[0.1], [0.4]], second_moment=[[0.5], [0.7]], target=[[0.3], [-0.2]], **arguments)
        self.assertAlmostEqual(whole["L_pred"][0], 6 / 2 * batch["L_pred"][0], 12)

    def test_G23_a_bias_moves_the_inducing_points(self):
        bias, a = 0.37, 0.2

        def mean(at, points, targets):
            return moxie("gpn.first_layer", x=[[at]], W=[[1.0]], V=[[p] for p in points], U=[[u] for u in targets],
                         noise=[[0.1], [0.2], [0.3]], sigma=[0.1], **{"lambda": [0.8]})["mean"][0]

        points, targets = [-1.0, 0.1, 1.2], [0.5, -0.7, 0.9]
        right = mean(a + bias, points, targets)
        self.assertAlmostEqual(right, mean(a, [p - bias for p in points], targets), 12)
        self.assertGreater(abs(right - mean(a, points, [u + bias for u in targets])), 0.01)

    def test_G25_ratios_of_table_4(self):
        fixed, means_and_variances, covariances = 9, 36, 118
        self.assertEqual(round(covariances / means_and_variances, 1), 3.3)
        self.assertEqual(round(covariances / fixed), 13)


class RecurrentUnits(unittest.TestCase):
    GRID = list(itertools.product([k / 2 for k in range(-8, 9)], [0.1, 0.3, 1.0, 3.0]))

    def test_S1_moments_of_a_normal_distribution(self):
        alpha, beta = 0.7, -0.4
        mass = integral(lambda x: exp(alpha * x + beta * x * x), -15, 17)
        mean = integral(lambda x: x * exp(alpha * x + beta * x * x), -15, 17) / mass
        square = integral(lambda x: x * x * exp(alpha * x + beta * x * x), -15, 17) / mass
        found = moxie("sp_gru.gaussian_moments", alpha=[[alpha]], beta=[[beta]])
        self.assertAlmostEqual(found["m"][0], mean, 9)
        self.assertAlmostEqual(found["s"][0], square - mean ** 2, 9)
        self.assertAlmostEqual(-alpha / beta, 2 * mean, 9)  # as printed

    def test_S3_moments_of_a_gamma_distribution(self):
        alpha, beta = 1.5, -2.0
        mass = integral(lambda x: x ** alpha * exp(beta * x), 0, 40)
        mean = integral(lambda x: x ** (alpha + 1) * exp(beta * x), 0, 40) / mass
        square = integral(lambda x: x ** (alpha + 2) * exp(beta * x), 0, 40) / mass
        found = moxie("sp_gru.gamma_moments", alpha=[[alpha]], beta=[[beta]])
        self.assertAlmostEqual(found["m"][0], mean, 7)
        self.assertAlmostEqual(found["s"][0], square - mean ** 2, 7)
        # Of shape 1.5 and rate 2 the mean is 0.75; the printed map takes them for natural parameters.
        self.assertNotAlmostEqual(-(1.5 + 1) / 2.0, 0.75)

    def test_S4_change_of_variables(self):
        # a = tanh(o), o ~ N(0, 1): only the density with the inverse function has mass 1.
        right = integral(lambda a: density(math.atanh(a)) / (1 - a * a), -1, 1)
        printed = integral(lambda a: density(tanh(a)) / cosh(a) ** 2, -1, 1)
        self.assertAlmostEqual(right, 1, 6)
        self.assertGreater(abs(printed - 1), 0.3)

    @staticmethod
    def variance_of_sigmoid(m, s, omega):
        zeta2, nu = pi / 8, 4 - 2 * sqrt(2)
        mean = logistic(m / sqrt(1 + zeta2 * s))
        return logistic(nu * (m + omega) / sqrt(1 + zeta2 * nu ** 2 * s)) - mean ** 2

    def errors(self, f, values):
        """Absolute errors of approximate variances of f on the grid."""
        exact = []
        for m, s in self.GRID:
            mean = expectation(f, m, s)
            exact.append(expectation(lambda o: f(o) ** 2, m, s) - mean ** 2)
        return [abs(x - y) for x, y in zip(values, exact)]

    def test_S6_S7_S8_S9_logistic_function(self):
        found = moxie("sp_gru.sigmoid", o_m=[[m for m, _ in self.GRID]], o_s=[[s for _, s in self.GRID]])["a_s"]
        right = self.errors(logistic, found)
        halved = self.errors(logistic, [self.variance_of_sigmoid(m, s, -log(1 + sqrt(2)) / 2) for m, s in self.GRID])
        self.assertLess(max(right), 0.03)
        self.assertGreater(sum(halved), 3 * sum(right))
        at = moxie("sp_gru.sigmoid", o_m=[[0.5]], o_s=[[0.8]])["a_s"][0]
        self.assertAlmostEqual(at, 0.03883, 5)
        self.assertAlmostEqual(self.variance_of_sigmoid(0.5, 0.8, -log(1 + sqrt(2)) / 2), 0.14565, 5)
        # The constant is the point where the square of the logistic function is 1/2.
        self.assertAlmostEqual(logistic(log(1 + sqrt(2))) ** 2, 0.5, 12)

    def test_S10_S11_S12_hyperbolic_tangent(self):
        found = moxie("sp_gru.tanh", o_m=[[m for m, _ in self.GRID]], o_s=[[s for _, s in self.GRID]])
        self.assertLess(max(self.errors(tanh, found["a_s"])), 0.12)
        mean_errors = [abs(a - expectation(tanh, m, s)) for a, (m, s) in zip(found["a_m"], self.GRID)]
        self.assertLess(max(mean_errors), 0.04)

        def square(m, s, nu, omega):  # the approximation of E[logistic(2 o)^2]
            return logistic(nu * (m + omega) / sqrt(1 + pi / 8 * nu ** 2 * s))

        nu, omega = 4 - 2 * sqrt(2), -log(1 + sqrt(2))
        wrong_constants = [4 * square(m, s, nu, omega) - a ** 2 - 2 * a - 1 for a, (m, s) in zip(found["a_m"], self.GRID)]
        last_but_one = [4 * square(m, s, 2 * nu, omega / 2) - 2 * (a + 1) / 2 - 3 - a ** 2 for a, (m, s) in zip(found["a_m"], self.GRID)]
        self.assertGreater(max(self.errors(tanh, wrong_constants)), 0.5)
        self.assertGreater(max(self.errors(tanh, last_but_one)), 2)

    @staticmethod
    def two_points(mean, variance):
        return [(0.5, mean + sqrt(variance)), (0.5, mean - sqrt(variance))]

    def enumerate_moments(self, f, *laws):
        outcomes = [(math.prod(w for w, _ in case), f(*(x for _, x in case))) for case in itertools.product(*laws)]
        mean = sum(w * y for w, y in outcomes)
        return mean, sum(w * (y - mean) ** 2 for w, y in outcomes)

    def test_S13_S14_product_of_gate_and_state(self):
        r_m, r_s, h_m, h_s = 0.5, 0.05, 0.4, 0.2
        exact = self.enumerate_moments(lambda r, h: r * h, self.two_points(r_m, r_s), self.two_points(h_m, h_s))
        # With weights of 1 and 0 the candidate sees nothing else, so that it equals tanh of these moments.
        found = moxie("sp_gru.candidate", x_m=[[0.0]], x_s=[[0.0]], h_m=[[h_m]], h_s=[[h_s]], U_m=[[0.0]], U_s=[[0.0]],
                      W_m=[[1.0]], W_s=[[0.0]], b_m=[0.0], b_s=[0.0], r_m=[[r_m]], r_s=[[r_s]])
        expected = moxie("sp_gru.tanh", o_m=[[exact[0]]], o_s=[[exact[1]]])
        self.assertAlmostEqual(found["c_m"][0], expected["a_m"][0], 12)
        self.assertAlmostEqual(found["c_s"][0], expected["a_s"][0], 12)
        without_gate = moxie("sp_gru.tanh", o_m=[[h_m]], o_s=[[h_s]])
        self.assertGreater(abs(found["c_m"][0] - without_gate["a_m"][0]), 0.1)

    def test_S15_variance_of_the_new_state(self):
        z, c, h = (0.6, 0.06), (0.5, 0.3), (-0.7, 0.25)
        exact = self.enumerate_moments(lambda z, c, h: (1 - z) * c + z * h, *(self.two_points(*law) for law in (z, c, h)))
        found = moxie("sp_gru.cell_state", z_m=[[z[0]]], z_s=[[z[1]]], c_m=[[c[0]]], c_s=[[c[1]]], h_prev_m=[[h[0]]], h_prev_s=[[h[1]]])
        self.assertAlmostEqual(found["h_m"][0], exact[0], 12)
        self.assertAlmostEqual(found["h_s"][0], exact[1], 12)
        printed = (1 - z[1]) ** 2 * c[0] + z[1] ** 2 * h[1]
        self.assertGreater(abs(printed - exact[1]), 0.1)

    def test_S16_activation_of_a_gamma_variable(self):
        shape, rate, c, gamma = 1.5, 2.0, 1.3, 0.7

        def moment(power):
            def term(x):
                return (c * -expm1(-gamma * x)) ** power * exp(shape * log(rate) - lgamma(shape) + (shape - 1) * log(x) - rate * x)
            return integral(lambda u: term(exp(u)) * exp(u), -20, 4)

        found = moxie("sp_gru.gamma_activation", shape=[[shape]], rate=[[rate]], c=c, gamma=gamma)
        self.assertAlmostEqual(found["a_m"][0], moment(1), 9)
        self.assertAlmostEqual(found["a_s"][0], moment(2) - moment(1) ** 2, 9)

    def test_S17_activation_of_a_poisson_variable(self):
        rate, c, gamma = 1.7, 1.3, 0.7

        def moment(power):
            return sum((c * -expm1(-gamma * k)) ** power * exp(k * log(rate) - rate - lgamma(k + 1)) for k in range(80))

        found = moxie("sp_gru.poisson_activation", rate=[[rate]], c=c, gamma=gamma)
        self.assertAlmostEqual(found["a_m"][0], moment(1), 12)
        self.assertAlmostEqual(found["a_s"][0], moment(2) - moment(1) ** 2, 12)

    def test_S18_a_poisson_distribution_has_one_parameter(self):
        found = moxie("sp_gru.poisson_moments", eta=[[0.4]])
        self.assertEqual(found["m"], found["s"])


class NoisyActivations(unittest.TestCase):
    # A rectified unit with noise sigma_1 behind an activation of 0.3 / w2, and a second one behind it.
    MEAN, FIRST, SECOND = 0.3, 1.0, 0.2

    def test_P3_P4_moments_of_two_layers(self):
        found = moxie("probact.moments", mu=[[self.MEAN]], var=[[self.FIRST ** 2]], sigma=[self.SECOND])
        kink = -self.MEAN / self.FIRST  # the integrand is smooth on both of its sides
        mean = integral(lambda z: (self.MEAN + self.FIRST * z) * density(z), kink, 12)
        square = integral(lambda z: (self.MEAN + self.FIRST * z) ** 2 * density(z), kink, 12)
        self.assertAlmostEqual(found["mean"][0], mean, 9)
        self.assertAlmostEqual(found["variance"][0], square - mean ** 2 + self.SECOND ** 2, 9)
        # One draw for both layers: they are correlated.
        shared = square + 2 * self.SECOND * integral(lambda z: z * (self.MEAN + self.FIRST * z) * density(z), kink, 12)
        shared += self.SECOND ** 2 - mean ** 2
        self.assertAlmostEqual(shared, 0.754, 3)
        # Given that the unit is positive, its law is a truncated normal one, and none with mean 0.3 and variance 1.04.
        positive = integral(density, kink, 12)
        self.assertAlmostEqual(mean / positive, 0.917, 3)
        self.assertAlmostEqual(square / positive - (mean / positive) ** 2 + self.SECOND ** 2, 0.474, 3)

    def test_P5_negative_weights(self):
        w1x, w2 = 0.5, -2.0
        self.assertNotEqual(relu(w2 * relu(w1x)), w2 * relu(w1x))

    def test_P6_noise_is_added_behind_the_mean(self):
        found = moxie("probact.forward", x=[[-1.0]], eps=[[0.5]], sigma=2.0)["y"]
        self.assertEqual(found, [1.0])  # before it: relu(-1 + 1) = 0


class DeepGaussianProcesses(unittest.TestCase):
    def test_D1_D2_logarithm_of_a_derivative(self):
        # E[log abs z] and its variance for z ~ N(0, 1), with z = e^u.
        mean = 2 * integral(lambda u: u * density(exp(u)) * exp(u), -40, 3)
        square = 2 * integral(lambda u: u * u * density(exp(u)) * exp(u), -40, 3)
        self.assertAlmostEqual(mean, -(log(2) + EULER) / 2, 9)
        self.assertAlmostEqual(square - mean ** 2, pi ** 2 / 8, 9)

    def test_D3_variance_of_a_sum(self):
        law = [(0.5, 1.0), (0.5, 0.0)]
        outcomes = [(math.prod(w for w, _ in case), sum(x for _, x in case)) for case in itertools.product(law, repeat=4)]
        mean = sum(w * x for w, x in outcomes)
        self.assertAlmostEqual(sum(w * (x - mean) ** 2 for w, x in outcomes), 4 * 0.25, 12)

    def test_D4_variance_of_a_derivative(self):
        # Of f with the covariance s^2 exp(-d^2 / (2 w^2)): minus its second derivative at d = 0.
        s, w, step = 1.3, 0.7, 1e-4

        def covariance(d):
            return s * s * exp(-d * d / (2 * w * w))

        found = -(covariance(step) - 2 * covariance(0) + covariance(-step)) / step ** 2
        self.assertAlmostEqual(found, s * s / (w * w), 4)

    def test_D5_covariance_of_infinitely_many_layers(self):
        distance = 0.8

        def limit(sign):
            k = 0.5
            for _ in range(10_000):
                k = exp(min(-(2 - 2 * k + sign * distance ** 2) / 2, 10.0))
            return k

        # (21) is k - log k = 1 + abs(x - x')^2 / 2.
        self.assertAlmostEqual(limit(1) - log(limit(1)), 1 + distance ** 2 / 2, 9)
        self.assertGreater(limit(-1), 1000)  # as printed it has no limit, and no covariance is above 1

    def test_D6_D7_variance_under_dropout(self):
        p, mean, variance = 0.3, 0.9, 0.5
        values = [(0.5, mean + sqrt(variance)), (0.5, mean - sqrt(variance))]
        for scale, right in ((1, p * variance + p * (1 - p) * mean ** 2), (1 / p, variance / p + (1 - p) * mean ** 2 / p)):
            outcomes = [(p * w, scale * x) for w, x in values] + [(1 - p, 0.0)]
            first = sum(w * x for w, x in outcomes)
            self.assertAlmostEqual(sum(w * (x - first) ** 2 for w, x in outcomes), right, 12)
        self.assertGreater(abs(p * p * variance - p * variance - p * (1 - p) * mean ** 2), 0.1)


class Documentation(unittest.TestCase):
    def test_every_test_is_the_evidence_of_a_row(self):
        text = (ROOT / "docs" / "errata.md").read_text()
        cases = (GaussianProcessNeurons, RecurrentUnits, NoisyActivations, DeepGaussianProcesses)
        tests = {name for case in cases for name in dir(case) if name.startswith("test_")}
        numbers = {number for name in tests for number in re.findall(r"(?<=_)[GSPD]\d+(?=_)", name)}
        tested = set(re.findall(r"^\| ([GSPD]\d+) \|.*\| \*?test", text, re.MULTILINE))
        self.assertEqual(numbers, tested)


if __name__ == "__main__":
    unittest.main()
