#!/usr/bin/env python3
"""Writes function_values.txt: values of every scalar function of the language over its whole domain, by mpmath.

    pip install mpmath && python3 tests/values/function_values.py

A line "function NAME ARITY" opens the rows of a function. A row holds the arguments (the shortest text that is exact in
double), the value (22 digits, more than any type of the language has) and the slack: how far the value moves when the arguments move by half a
unit in the last place of a double. Special values are those of the C standard (annex F) where it has the function.
"""
import itertools
import math
import pathlib
import random
import struct

from mpmath import inf, isfinite, mp, mpf, nan

mp.dps = 80

MAX = float.fromhex("0x1.fffffffffffffp+1023")
MAX_SINGLE = float.fromhex("0x1.fffffep+127")
LARGEST, SMALLEST = mpf(2) ** 1100, mpf(2) ** -1200  # what overflows, and what underflows, in every type

# Zeros, subnormal and smallest normal numbers of both types, numbers up to overflow of both types, and their limits.
MAGNITUDES = [0.0, 5e-324, 2.0**-1022, 1e-300, 2.0**-149, 2.0**-126, 1e-20, 1e-8, 2.0**-24, 0.01, 0.1, 0.25, 0.4, 0.5, 0.75, 1.0, 1.25,
              1.5, 1.75, 2.0, 2.5, 3.0, math.pi, 4.0, 5.5, 7.0, 8.5, 10.0, 13.0, 17.5, 20.0, 30.25, 38.5, 50.0, 87.0, 88.75, 103.5, 110.0,
              127.5, 150.0, 400.0, 709.0, 709.75, 745.0, 750.0, 1023.5, 1075.0, 1e4 + 0.5, 1e6, 2.0**20 + 0.25, 1e7, 2.0**31, 1e10, 2.0**52 + 1,
              2.0**53, 1e16, 1e22, 1e30, MAX_SINGLE, 1e100, 1e300, MAX, math.inf]


def single(x):
    return struct.unpack("f", struct.pack("f", x))[0] if math.isfinite(x) and abs(x) <= MAX_SINGLE else x


def arguments(*extra):
    """Every magnitude with both signs, NaN, random numbers, half of them exact in single precision, and `extra`."""
    draws = random.Random(17)
    drawn = [draws.choice((1, -1)) * math.exp(draws.uniform(-12, 12)) for _ in range(24)]
    drawn = [single(x) if k % 2 else x for k, x in enumerate(drawn)]
    return [s * x for x in MAGNITUDES for s in (1, -1)] + drawn + list(extra) + [math.nan]


def number(text):
    return float.fromhex(text)


# ---- Functions of one argument: the value for a finite argument, which is exact; then the special ones. ----

HALF_LOG_TWO_PI = mp.log(2 * mp.pi) / 2


def log_normal_cdf(x):
    if x > -1e4:
        return mp.log(erfc(-x / mp.sqrt(2)) / 2) if x < 0 else mp.log1p(-erfc(x / mp.sqrt(2)) / 2)
    return -x * x / 2 - mp.log(-x) - HALF_LOG_TWO_PI + mp.log1p(-1 / x**2 + 3 / x**4 - 15 / x**6)


def erfc(x):
    return SMALLEST if x > 1e5 else mpf(2) if x < -1e5 else mp.erfc(x)


def erf(x):
    return mp.sign(x) if abs(x) > 1e5 else mp.erf(x)


def bounded_exp(x):
    return LARGEST if x > 1000000 else SMALLEST if x < -1000000 else mp.exp(x)


def tanh(x):
    return mp.sign(x) if abs(x) > 1000 else mp.tanh(x)


def sigmoid(x):
    return 1 / (1 + bounded_exp(-x))


def softplus(x):
    return x if x > 1000 else mp.log1p(bounded_exp(x))


def normal_pdf(x):
    return bounded_exp(-x * x / 2 - HALF_LOG_TWO_PI)


def is_pole(x):
    return x <= 0 and x == mp.floor(x)


def lgamma(x):
    if is_pole(x):
        return inf
    if x > 1e20:
        return x * (mp.log(x) - 1) + HALF_LOG_TWO_PI - mp.log(x) / 2
    return mp.re(mp.loggamma(x)) if x > 0 else mp.log(mp.pi / abs(x * mp.sinpi(x))) - mp.re(mp.loggamma(-x))


def psi(order, x):
    if x > 1e20:
        return mp.log(x) - 1 / (2 * x) if order == 0 else 1 / x + 1 / (2 * x * x)
    return mp.psi(order, x) if x > 0 else reflected_psi(order, x)


def reflected_psi(order, x):
    if order == 0:
        return mp.psi(0, 1 - x) - mp.pi / mp.tan(mp.pi * (x - mp.nint(x)))
    return (mp.pi / mp.sinpi(x)) ** 2 - mp.psi(1, 1 - x)


def digamma(x):
    return nan if is_pole(x) else psi(0, x)


def trigamma(x):
    return inf if is_pole(x) else psi(1, x)


def within_one(f):
    """f on [-1, 1], NaN beyond."""
    return lambda x: f(x) if abs(x) <= 1 else nan


def erfinv(x):
    return mp.sign(x) * inf if abs(x) == 1 else mp.erfinv(x)


def bessel(order):
    """e^-|x| I(x)."""
    def value(x):
        m = abs(x)
        if m > 500:  # Abramowitz and Stegun 9.7.1
            term = total = mpf(1)
            for k in range(1, 40):
                term *= -(4 * order**2 - (2 * k - 1) ** 2) / (8 * k * m)
                total += term
            scaled = total / mp.sqrt(2 * mp.pi * m)
        else:
            scaled = mp.exp(-m) * mp.besseli(order, m)
        return -scaled if order == 1 and x < 0 else scaled
    return value


SIGNED_ZERO = {0.0: 0.0, -0.0: -0.0}


def at(plus_zero, minus_zero, plus_infinity, minus_infinity):
    return {"+0": plus_zero, "-0": minus_zero, "+inf": plus_infinity, "-inf": minus_infinity}


def on(low, f):
    """f, NaN below `low`."""
    return lambda x: nan if x < low else f(x)


UNARY = {
    "neg": (lambda x: -x, at(-0.0, 0.0, -inf, inf)),
    "exp": (bounded_exp, at(1, 1, inf, 0.0)),
    "exp2": (lambda x: bounded_exp(x * mp.ln2), at(1, 1, inf, 0.0)),
    "expm1": (lambda x: LARGEST if x > 1000000 else mp.expm1(x) if x > -1000 else mpf(-1), at(0.0, -0.0, inf, -1)),
    "log": (on(0, mp.log), at(-inf, -inf, inf, nan)),
    "log2": (on(0, lambda x: mp.log(x) / mp.ln2), at(-inf, -inf, inf, nan)),
    "log1p": (lambda x: nan if x < -1 else -inf if x == -1 else mp.log1p(x), at(0.0, -0.0, inf, nan)),
    "sqrt": (on(0, mp.sqrt), at(0.0, -0.0, inf, nan)),
    "rsqrt": (on(0, lambda x: 1 / mp.sqrt(x)), at(inf, -inf, 0.0, nan)),
    "sin": (mp.sin, at(0.0, -0.0, nan, nan)),
    "cos": (mp.cos, at(1, 1, nan, nan)),
    "f32": (lambda x: x, at(0.0, -0.0, inf, -inf)),
    "f64": (lambda x: x, at(0.0, -0.0, inf, -inf)),
    "abs": (abs, at(0.0, 0.0, inf, inf)),
    "sign": (mp.sign, at(0.0, -0.0, 1, -1)),
    "floor": (mp.floor, at(0.0, -0.0, inf, -inf)),
    "relu": (lambda x: x if x > 0 else 0.0, at(0.0, 0.0, inf, 0.0)),
    "tanh": (tanh, at(0.0, -0.0, 1, -1)),
    "sigmoid": (sigmoid, at(0.5, 0.5, 1, 0.0)),
    "softplus": (softplus, at(mp.ln2, mp.ln2, inf, 0.0)),
    "erf": (erf, at(0.0, -0.0, 1, -1)),
    "erfc": (erfc, at(1, 1, 0.0, 2)),
    "normal_cdf": (lambda x: erfc(-x / mp.sqrt(2)) / 2, at(0.5, 0.5, 1, 0.0)),
    "normal_pdf": (normal_pdf, at(normal_pdf(mpf(0)), normal_pdf(mpf(0)), 0.0, 0.0)),
    "log_normal_cdf": (log_normal_cdf, at(-mp.ln2, -mp.ln2, -0.0, -inf)),
    "lgamma": (lgamma, at(inf, inf, inf, inf)),
    "digamma": (digamma, at(-inf, inf, inf, nan)),
    "trigamma": (trigamma, at(inf, inf, 0.0, nan)),
    "atan": (mp.atan, at(0.0, -0.0, mp.pi / 2, -mp.pi / 2)),
    "asin": (within_one(mp.asin), at(0.0, -0.0, nan, nan)),
    "acos": (within_one(mp.acos), at(mp.pi / 2, mp.pi / 2, nan, nan)),
    "erfinv": (within_one(erfinv), at(0.0, -0.0, nan, nan)),
    "i0e": (bessel(0), at(1, 1, 0.0, 0.0)),
    "i1e": (bessel(1), at(0.0, -0.0, 0.0, -0.0)),
    "stop_gradient": (lambda x: x, at(0.0, -0.0, inf, -inf)),
}

NEAR_INTEGERS = [math.nextafter(n, s) for n in (-1.0, -2.0, -3.0, -10.0, -33.0) for s in (0, -100)]
GAMMA_ARGUMENTS = [-n - 0.5 for n in range(12)] + [-2.457024738220801, 1.4616321449683622, -0.5040830082644554, -2.75, -40.1, -170.625,
                                                   -171.5, -1000.3, -99999.5, -2.0**40 - 0.5] + NEAR_INTEGERS
NEAR_ONE = [s * (1 - e) for e in (0.3, 0.1, 0.03, 1e-3, 0.00096, 2.0**-10, 2.0**-20, 1.2e-7, 2.0**-24, 1e-9, 2.0**-40, 1e-15, 2.0**-53)
            for s in (1, -1)]
EXTRA = {
    "atan": [math.sqrt(2) - 1, math.sqrt(2) + 1, single(math.sqrt(2) - 1), single(math.sqrt(2) + 1), -0.41, -2.42],
    "asin": NEAR_ONE + [0.5000001, -0.49999, single(0.51)],
    "acos": NEAR_ONE + [0.5000001, -0.49999, single(0.51)],
    "erfinv": NEAR_ONE + [0.99903, -0.999, single(0.9991)],
    "i0e": [7.999, 8.0, -8.001, 29.99, 30.0, -35.5],
    "i1e": [7.999, 8.0, -8.001, 29.99, 30.0, -35.5],
    "floor": [2.0**51 + 0.5, -(2.0**51) - 0.5, 2.0**22 + 0.5, -(2.0**22) - 0.5, math.nextafter(3, 0), math.nextafter(-3, 0)],
    "exp": [709.782712893384, 88.72283, -87.33655, -708.3964185322641, -745.1332191019411],
    "exp2": [1024.0, 1023.999, -1022.0, -1074.0, 128.0, -126.0, -149.0, 127.9999],
    "log1p": [-1.0, -0.999999, math.nextafter(-1, 0)],
    "sin": [355.0, 3.0e5, 103993.0, 6.381956970095103e18, 2.0**120, single(1e7)],
    "cos": [math.pi / 2, 1e5, 6381956970095103.0 * 2.0**797, 2.0**120, single(1e7)],
    "tanh": [19.06, 22.0, 9.01],
    "erfc": [26.5, 27.2, 9.5, 10.05],
    "normal_cdf": [-37.5, -38.4, -13.2, -14.1],
    "normal_pdf": [38.5, 37.6, 13.2, 14.4],
    "log_normal_cdf": [-9.99, -10.01, -29.9, -30.1, 8.2, 37.6, -14.2],
    "lgamma": GAMMA_ARGUMENTS + [171.625, 2.55e305, 2.6e305],
    "digamma": GAMMA_ARGUMENTS,
    "trigamma": GAMMA_ARGUMENTS,
}


def unary_value(f, special, x):
    if math.isnan(x):
        return nan
    if x == 0:
        return special["-0" if math.copysign(1, x) < 0 else "+0"]
    return special["+inf" if x > 0 else "-inf"] if math.isinf(x) else f(mpf(x))


# ---- Functions of several arguments ----

PAIRS = [0.0, -0.0, 1.0, -2.0, 3.0, 5e-324, -(2.0**-149), MAX, -MAX_SINGLE, math.inf, -math.inf, math.nan]
COMPARED = [0.0, -0.0, 1.0, -1.0, 5e-324, math.inf, -math.inf, math.nan]
TRIPLES = [0.0, 2.0, -0.5, math.inf, -math.inf, math.nan]
EXPONENTS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, -3.0, -4.0, 1 / 3, 17.0, -20.0, 33.0, 100.5, 1e10 + 1, 2.0**53 + 2, 1e300, -1e300, math.inf,
             -math.inf, math.nan]
BASES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1 + 2.0**-23, 1 - 2.0**-24, 1 + 2.0**-52, 10.0, -7.5, 5e-324, 2.0**-149, MAX, MAX_SINGLE, math.inf,
         -math.inf, math.nan, 0.1, 1e-10, 123456.0]


def plus(x, y):
    ieee = x + y
    return mpf(x) + mpf(y) if ieee != 0 and math.isfinite(x) and math.isfinite(y) else ieee


def times(x, y):
    ieee = x * y
    if x != 0 and y != 0 and math.isfinite(x) and math.isfinite(y):
        return mpf(x) * mpf(y)
    return ieee


def square_of_difference(x, m):
    if math.isfinite(x) and math.isfinite(m):
        return (mpf(x) - mpf(m)) ** 2
    return (x - m) * (x - m)


def over(x, y):
    if math.isnan(x) or math.isnan(y) or (math.isinf(x) and math.isinf(y)) or (x == 0 and y == 0):
        return nan
    sign = math.copysign(1, x) * math.copysign(1, y)
    if math.isinf(x) or y == 0:
        return sign * inf
    return sign * 0.0 if math.isinf(y) or x == 0 else mpf(x) / mpf(y)


def power(x, y):
    """As C's pow."""
    if y == 0 or x == 1:
        return mpf(1)
    if math.isnan(x) or math.isnan(y):
        return nan
    odd = math.isfinite(y) and y == math.floor(y) and math.fmod(y, 2) != 0
    sign = -1 if odd and math.copysign(1, x) < 0 else 1
    if math.isinf(y):
        return mpf(1) if abs(x) == 1 else inf if (abs(x) > 1) == (y > 0) else 0.0
    if x == 0 or math.isinf(x):
        return sign * (inf if (x == 0) == (y < 0) else 0.0)
    if x < 0 and y != math.floor(y):
        return nan
    return sign * bounded_exp(mpf(y) * mp.log(abs(mpf(x))))


ANGLES = [0.0, -0.0, 1.0, -1.0, 0.3, -2.5, 4.0, 1.75, 1e-20, -1e30, 2.0**-149, MAX_SINGLE, math.inf, -math.inf, math.nan]


def angle(y, x):
    """As C's atan2."""
    if math.isnan(x) or math.isnan(y):
        return nan
    if all(v != 0 and math.isfinite(v) for v in (x, y)):
        return mp.atan2(mpf(y), mpf(x))
    quarters = round(math.atan2(y, x) / (math.pi / 4))
    return math.atan2(y, x) if quarters == 0 else quarters * mp.pi / 4


def extreme(choose):
    return lambda *args: nan if any(map(math.isnan, args)) else choose(args)


def truth(f):
    return lambda *args: 1 if f(*args) else 0


def lists(values, arity):
    return list(itertools.product(values, repeat=arity))


SEVERAL = {
    "+": (plus, lists(PAIRS, 2)),
    "*": (times, lists(PAIRS, 2)),
    "/": (over, lists(PAIRS, 2)),
    "pow": (power, list(itertools.product(BASES, EXPONENTS))),
    "<": (truth(lambda x, y: x < y), lists(COMPARED, 2)),
    "<=": (truth(lambda x, y: x <= y), lists(COMPARED, 2)),
    ">": (truth(lambda x, y: x > y), lists(COMPARED, 2)),
    ">=": (truth(lambda x, y: x >= y), lists(COMPARED, 2)),
    "==": (truth(lambda x, y: x == y), lists(COMPARED, 2)),
    "!=": (truth(lambda x, y: x != y), lists(COMPARED, 2)),
    # Conditions are numbers other than zero here.
    "and": (truth(lambda *args: all(args)), lists([0.0, 1.0], 3)),
    "or": (truth(lambda *args: any(args)), lists([0.0, 1.0], 3)),
    "not": (truth(lambda x: not x), lists([0.0, 1.0], 1)),
    "where": (lambda c, x, y: x if c else y, [(c, x, y) for c in (0.0, 1.0) for x, y in lists([0.0, -0.0, 5e-324, MAX, math.inf, math.nan], 2)]),
    "atan2": (angle, lists(ANGLES, 2)),
    "with_slope": (lambda value, x, slope: value, lists([0.0, -0.0, 5e-324, MAX, math.inf, math.nan], 3)),
    "squared_deviation": (square_of_difference, lists([0.0, -0.0, 1.5, -2.25, 1e30, math.inf, -math.inf, math.nan], 2)),
    "min": (extreme(min), lists(TRIPLES, 3)),
    "max": (extreme(max), lists(TRIPLES, 3)),
}


# ---- Writing ----


def decimal(value):
    if isinstance(value, float) and (value == 0 or not math.isfinite(value)):
        return str(value)
    value = mpf(value)
    if not isfinite(value):
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    if abs(value) > LARGEST:
        return "inf" if value > 0 else "-inf"
    if abs(value) < SMALLEST:
        value = mp.sign(value) * SMALLEST if value != 0 else mpf(0)
    return mp.nstr(value, 22, strip_zeros=True)


def slack_of(f, args, value):
    """The change of the value over half a unit in the last place of each argument."""
    total = mpf(0)
    for k, x in enumerate(args):
        if not math.isfinite(x) or x == 0 or not isfinite(mpf(value)):
            continue
        step = mpf(math.ulp(x)) / 2**20
        moved = [f(*[mpf(a) + s * step if i == k else mpf(a) for i, a in enumerate(args)]) for s in (1, -1)]
        if all(isfinite(mpf(m)) for m in moved):
            total += abs(moved[0] - moved[1]) * 2**18
    return total if total < LARGEST else LARGEST


def row(args, value, slack):
    return " ".join([*map(repr, args), decimal(value), mp.nstr(slack, 3)])


def rows_of_unary(name):
    f, special = UNARY[name]
    for x in arguments(*EXTRA.get(name, [])):
        value = unary_value(f, special, x)
        smooth = name not in ("floor", "sign", "f32", "f64", "neg", "abs", "relu", "stop_gradient") and math.isfinite(x) and x != 0
        yield row([x], value, slack_of(f, [x], value) if smooth else mpf(0))


def rows_of_several(name):
    f, lists_of_arguments = SEVERAL[name]
    for args in lists_of_arguments:
        value = f(*args)
        yield row(args, value, mpf(0))


def main():
    lines = ["# Written by function_values.py."]
    for name in [*UNARY, *SEVERAL]:
        rows = list(rows_of_unary(name) if name in UNARY else rows_of_several(name))
        arity = 1 if name in UNARY else len(SEVERAL[name][1][0])
        lines += [f"function {name} {arity}", *dict.fromkeys(rows)]
    pathlib.Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")


main()
