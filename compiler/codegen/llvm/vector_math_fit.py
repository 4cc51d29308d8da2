"""Computes the coefficients of the vectorised functions:  python3 vector_math_fit.py > vector_math_tables.h

Every polynomial is the minimax fit, by the Remez exchange in 40 digits, of a smooth function g with a weight w: it
minimises max |w(x) (p(x) - g(x))|. The weight is chosen such that this is the relative error of the function that p
serves. The error reached stands above each table. Needs mpmath.
"""
from mpmath import asin, atan, besseli, cos, digamma, erf, erfc, erfinv, exp, expm1, log, log1p, loggamma
from mpmath import lu_solve, matrix, mp, mpf, pi, psi, sin, sqrt

mp.dps = 40
SMALL = mpf(10) ** -12  # stands for zero where a quotient's limit is meant; digits are raised for it


def remez(g, weight, low, high, degree, rounds=12, samples=600):
    n = degree + 2
    middle, radius = (low + high) / 2, (high - low) / 2
    points = [middle - radius * cos(pi * (i + mpf(1) / 2) / n) for i in range(n)]
    grid = [middle - radius * cos(pi * i / samples) for i in range(samples + 1)]
    values, weights = [g(x) for x in grid], [weight(x) for x in grid]
    for _ in range(rounds):
        system, right = matrix(n, n), matrix(n, 1)
        for i, x in enumerate(points):
            for j in range(degree + 1):
                system[i, j] = x ** j
            system[i, degree + 1] = (-1) ** i / weight(x)
            right[i] = g(x)
        solution = lu_solve(system, right)
        coefficients = [solution[j] for j in range(degree + 1)]
        errors = [w * (mp.polyval(coefficients[::-1], x) - v) for x, v, w in zip(grid, values, weights)]
        points = alternation(grid, errors, n)
    return coefficients, max(abs(e) for e in errors)


def alternation(grid, errors, count):
    """The largest error of each run of one sign; with too many runs, the smaller end goes."""
    runs = []
    for x, e in zip(grid, errors):
        if runs and (runs[-1][1] > 0) == (e > 0):
            if abs(e) > abs(runs[-1][1]):
                runs[-1] = (x, e)
        else:
            runs.append((x, e))
    while len(runs) > count:
        runs.pop(0 if abs(runs[0][1]) < abs(runs[-1][1]) else -1)
    if len(runs) < count:
        raise ValueError("the fit has reached the working precision: lower the degree")
    return [x for x, _ in runs]


def limit(f, at_zero):
    """f, continued to its removable singularity at zero."""
    def continued(x):
        if abs(x) < SMALL:
            return mpf(at_zero)
        mp.dps += 50
        try:
            return +f(x)
        finally:
            mp.dps -= 50
    return continued


def erfcx(x):
    if x < 25:
        return exp(x * x) * erfc(x)
    term = total = mpf(1)  # the asymptotic series, Abramowitz and Stegun 7.1.23
    for n in range(1, 25):
        term *= -(2 * n - 1) / (2 * x * x)
        total += term
    return total / (x * sqrt(pi))


def mapped_erfcx(t):
    """(x + 4) erfcx(x), x = 4 (1 + t) / (1 - t), which maps [0, inf] to [-1, 1]; Shepherd, Laframboise 1981."""
    if 1 - t < mpf(10) ** -30:
        return 1 / sqrt(pi)
    x = 4 * (1 + t) / (1 - t)
    return (x + 4) * erfcx(x)


def stirling(u):
    """x (lgamma(x) - (x-1/2) log x + x - log(2 pi)/2) with u = 1/x^2: 1/12 - u/360 + ..."""
    x = 1 / sqrt(u)
    return x * (loggamma(x) - (x - mpf(1) / 2) * log(x) + x - log(2 * pi) / 2)


def digamma_tail(u):
    """x^2 (log x - 1/(2x) - digamma(x)) with u = 1/x^2: 1/12 - u/120 + ..."""
    x = 1 / sqrt(u)
    return (log(x) - 1 / (2 * x) - digamma(x)) / u


def trigamma_tail(u):
    """x^3 (trigamma(x) - 1/x - 1/(2x^2)) with u = 1/x^2: 1/6 - u/30 + ..."""
    x = 1 / sqrt(u)
    return x ** 3 * (psi(1, x) - 1 / x - u / 2)


def erfinv_ratio(w):
    """erfinv(x) / x, where w = -log(1 - x^2); Giles, Approximating the erfinv function, 2010."""
    x = sqrt(-expm1(-w))
    return erfinv(x) / x


def bessel_tail(order):
    """sqrt(x) e^-x I(x), in 16/x - 1 for x >= 8; at infinity 1/sqrt(2 pi)."""
    def tail(u):
        if 1 + u < mpf(10) ** -3:  # the asymptotic series, Abramowitz and Stegun 9.7.1
            x = 16 / (1 + u) if u > -1 else mpf(10) ** 30
            term = total = mpf(1)
            for k in range(1, 30):
                term *= -(4 * order ** 2 - (2 * k - 1) ** 2) / (8 * k * x)
                total += term
            return total / sqrt(2 * pi)
        x = 16 / (1 + u)
        return sqrt(x) * exp(-x) * besseli(order, x)
    return tail


def one(x):
    return mpf(1)


HALF, LN2 = mpf(1) / 2, log(mpf(2))
ROOT = sqrt(mpf(2))
S = (ROOT - 1) / (ROOT + 1)
Q = (pi / 2) ** 2 * mpf("1.0001")
exp_tail = limit(lambda r: (expm1(r) - r) / r ** 2, HALF)
exp2_slope = limit(lambda f: expm1(f * LN2) / f, LN2)
expm1_slope = limit(lambda r: expm1(r) / r, 1)
log_tail = limit(lambda f: (log1p(f) - f + f * f / 2) / f ** 3, mpf(1) / 3)
log_ratio = limit(lambda z: (log((1 + sqrt(z)) / (1 - sqrt(z))) / sqrt(z) - 2) / z, mpf(2) / 3)
log_ratio_tail = limit(lambda z: (log_ratio(z) - mpf(2) / 3) / z, mpf(2) / 5)
sin_tail = limit(lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z, mpf(-1) / 6)
erf_slope = limit(lambda z: erf(sqrt(z)) / sqrt(z), 2 / sqrt(pi))
log1p_slope = limit(lambda e: log1p(e) / e, 1)
lgamma_slope = limit(lambda z: loggamma(2 + z) / z, digamma(mpf(2)))

atan_tail = limit(lambda z: (atan(sqrt(z)) / sqrt(z) - 1) / z, mpf(-1) / 3)
asin_tail = limit(lambda z: (asin(sqrt(z)) / sqrt(z) - 1) / z, mpf(1) / 6)
erfinv_centre = limit(erfinv_ratio, sqrt(pi) / 2)

# name, formula, g, weight, interval, degree
TABLES = [
    ("kExpF32", "(e^r - 1) / r",
     expm1_slope, lambda r: 1 / expm1_slope(r), -LN2 / 2 * mpf("1.01"), LN2 / 2 * mpf("1.01"), 5),
    ("kExpF64", "(e^r - 1 - r) / r^2",
     exp_tail, lambda r: abs(r) + mpf("1e-3"), -LN2 / 2 * mpf("1.01"), LN2 / 2 * mpf("1.01"), 9),
    ("kExp2F32", "(2^f - 1) / f",
     exp2_slope, lambda f: abs(f) + mpf("1e-3"), -HALF, HALF, 4),
    ("kExp2F64", "(2^f - 1) / f",
     exp2_slope, lambda f: abs(f) + mpf("1e-3"), -HALF, HALF, 10),
    ("kLogF32", "(log(1+f) - f + f^2/2) / f^3",
     log_tail, lambda f: f * f + mpf("1e-5"), 1 / ROOT - 1, ROOT - 1, 6),
    ("kLogF64", "(log((1+s)/(1-s)) / s - 2) / s^2, in s^2",
     log_ratio, lambda z: z + mpf("1e-5"), mpf(0), S * S, 6),
    ("kLogTailF64", "((log((1+s)/(1-s)) / s - 2) / s^2 - 2/3) / s^2, in s^2",
     log_ratio_tail, lambda z: z * z + mpf("1e-5"), mpf(0), S * S, 6),
    ("kLogTailF32", "((log((1+s)/(1-s)) / s - 2) / s^2 - 2/3) / s^2, in s^2",
     log_ratio_tail, lambda z: z * z + mpf("1e-5"), mpf(0), S * S, 3),
    ("kLog1pF32", "log(1+e) / e",
     log1p_slope, lambda e: 1 / log1p_slope(e), mpf(0), mpf(1), 9),
    ("kSinF32", "(sin(r) / r - 1) / r^2, in r^2",
     sin_tail, lambda z: z + mpf("1e-5"), mpf(0), Q, 3),
    ("kSinF64", "(sin(r) / r - 1) / r^2, in r^2",
     sin_tail, lambda z: z + mpf("1e-5"), mpf(0), Q, 7),
    ("kErfF64", "erf(x) / x, in x^2, |x| <= 1",
     erf_slope, lambda z: 1 / erf_slope(z), mpf(0), mpf(1), 11),
    ("kErfF32", "erf(x) / x, in x^2, |x| <= 1",
     erf_slope, lambda z: 1 / erf_slope(z), mpf(0), mpf(1), 5),
    ("kErfTailF32", "log2(erfc(x)); the error is that of erf",
     lambda x: log(erfc(x)) / LN2, lambda x: erfc(x) * LN2, mpf(1), mpf(4), 5),
    ("kErfcxF32", "(x + 4) e^(x^2) erfc(x), in (x-4)/(x+4)",
     mapped_erfcx, lambda t: 1 / mapped_erfcx(t), mpf(-1), mpf(1), 11),
    ("kErfcxF64", "(x + 4) e^(x^2) erfc(x), in (x-4)/(x+4)",
     mapped_erfcx, lambda t: 1 / mapped_erfcx(t), mpf(-1), mpf(1), 22),
    ("kLgamma", "lgamma(2+z) / z",
     lgamma_slope, one, -HALF, HALF, 17),
    ("kStirling", "x (lgamma(x) - (x-1/2) log x + x - log(2 pi)/2), in 1/x^2, x >= 8.5",
     limit(stirling, mpf(1) / 12), one, mpf(0), 1 / mpf("8.5") ** 2, 5),
    ("kDigamma", "x^2 (log x - 1/(2x) - digamma(x)), in 1/x^2, x >= 8",
     limit(digamma_tail, mpf(1) / 12), one, mpf(0), mpf(1) / 64, 6),
    ("kTrigamma", "x^3 (trigamma(x) - 1/x - 1/(2x^2)), in 1/x^2, x >= 8",
     limit(trigamma_tail, mpf(1) / 6), one, mpf(0), mpf(1) / 64, 7),
    ("kAtanF32", "(atan(r) / r - 1) / r^2, in r^2, |r| <= tan(pi/8)",
     atan_tail, lambda z: z + mpf("1e-5"), mpf(0), (ROOT - 1) ** 2, 3),
    ("kAtanF64", "(atan(r) / r - 1) / r^2, in r^2, |r| <= tan(pi/8)",
     atan_tail, lambda z: z + mpf("1e-5"), mpf(0), (ROOT - 1) ** 2, 9),
    ("kAsinF32", "(asin(r) / r - 1) / r^2, in r^2, |r| <= 1/2",
     asin_tail, lambda z: z + mpf("1e-5"), mpf(0), HALF ** 2, 4),
    ("kAsinF64", "(asin(r) / r - 1) / r^2, in r^2, |r| <= 1/2",
     asin_tail, lambda z: z + mpf("1e-5"), mpf(0), HALF ** 2, 11),
    ("kErfinvCentre", "erfinv(x) / x, in w/3.125 - 1, w = -log(1 - x^2) <= 6.25",
     lambda u: erfinv_centre((1 + u) * mpf("3.125")), one, mpf(-1), mpf(1), 26),
    ("kErfinvCentreF32", "erfinv(x) / x, in w/3.125 - 1, w = -log(1 - x^2) <= 6.25",
     lambda u: erfinv_centre((1 + u) * mpf("3.125")), one, mpf(-1), mpf(1), 10),
    ("kErfinvMiddle", "erfinv(x) / x, in (sqrt(w) - 3.25)/0.75, 6.25 <= w <= 16",
     lambda u: erfinv_ratio((mpf("3.25") + mpf("0.75") * u) ** 2), one, mpf(-1), mpf(1), 20),
    ("kErfinvMiddleF32", "erfinv(x) / x, in (sqrt(w) - 3.25)/0.75, 6.25 <= w <= 16",
     lambda u: erfinv_ratio((mpf("3.25") + mpf("0.75") * u) ** 2), one, mpf(-1), mpf(1), 7),
    ("kErfinvTail", "erfinv(x) / x, in (sqrt(w) - 5.05)/1.05, 16 <= w < 37.2",
     lambda u: erfinv_ratio((mpf("5.05") + mpf("1.05") * u) ** 2), one, mpf(-1), mpf(1), 20),
    ("kBessel0Tail", "sqrt(x) e^-x I0(x), in 16/x - 1, x >= 8",
     bessel_tail(0), one, mpf(-1), mpf(1), 22),
    ("kBessel1Tail", "sqrt(x) e^-x I1(x), in 16/x - 1, x >= 8",
     bessel_tail(1), one, mpf(-1), mpf(1), 22),
]


def main():
    print("#pragma once")
    print("// Minimax polynomials of the vectorised functions, lowest power first; made by vector_math_fit.py.")
    print("\nnamespace moxie::llvm_ir::table {\n")
    for name, formula, g, weight, low, high, degree in TABLES:
        coefficients, error = remez(g, weight, low, high, degree)
        print(f"// {formula} on [{mp.nstr(low, 5)}, {mp.nstr(high, 5)}]; weighted error {mp.nstr(error, 2)}")
        print(f"inline constexpr double {name}[] = {{")
        print(",\n".join("    " + float(c).hex() for c in coefficients) + "};\n")
    print("}  // namespace moxie::llvm_ir::table")


main()
