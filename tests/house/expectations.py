"""What docs/errata.md's evidence is computed with: expectations by quadrature, and dense linear algebra of a few rows."""
from math import exp, pi, sqrt


def density(z):
    return exp(-z * z / 2) / sqrt(2 * pi)


def logistic(x):
    return 1 / (1 + exp(-x))


# The rule with equal steps is exact beyond all powers of the step for smooth integrands that vanish on both sides.
STEP, REACH = 1 / 16, 9
NODES = [(k * STEP, STEP * density(k * STEP)) for k in range(-int(REACH / STEP), int(REACH / STEP) + 1)]


def expectation(f, mean=0.0, variance=1.0):
    """E[f(x)] for x ~ N(mean, variance)."""
    deviation = sqrt(variance)
    return sum(weight * f(mean + deviation * z) for z, weight in NODES)


def expectation_2(f, mean, covariance):
    """E[f(x, y)] for jointly normal x and y."""
    (a, c), (_, b) = covariance
    first, slope, rest = sqrt(a), c / sqrt(a), sqrt(b - c * c / a)
    nodes = [(z, 4 * weight) for z, weight in NODES[::4]]
    return sum(v * w * f(mean[0] + first * z, mean[1] + slope * z + rest * t)
               for z, v in nodes for t, w in nodes)


def integral(f, low, high, count=200_000):
    step = (high - low) / count
    return step * sum(f(low + (k + 0.5) * step) for k in range(count))


def relu(x):
    return max(x, 0.0)


def inverse(matrix):
    size = len(matrix)
    rows = [list(row) + [float(i == k) for k in range(size)] for i, row in enumerate(matrix)]
    for i in range(size):
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for k in range(size):
            if k != i:
                rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i])]
    return [row[size:] for row in rows]


def cholesky(matrix):
    lower = [[0.0] * len(matrix) for _ in matrix]
    for i in range(len(matrix)):
        for k in range(i + 1):
            rest = matrix[i][k] - sum(lower[i][j] * lower[k][j] for j in range(k))
            lower[i][k] = sqrt(rest) if i == k else rest / lower[k][k]
    return lower


def determinant(matrix):
    if len(matrix) == 1:
        return matrix[0][0]
    minor = [[row[:k] + row[k + 1:] for row in matrix[1:]] for k in range(len(matrix))]
    return sum((-1) ** k * matrix[0][k] * determinant(minor[k]) for k in range(len(matrix)))
