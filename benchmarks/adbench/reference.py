#!/usr/bin/env python3
"""Writes the reference values NAME.json of the texts NAME.mox: the objectives in double as they are published, derivatives by JAX.

    python benchmarks/adbench/reference.py

The functions take the module of arrays, so that NumPy gives the values and JAX, of the same lines, the derivatives. They follow Srajer, Kukelova and
Fitzgibbon, "A benchmark of selected algorithmic differentiation tools" (2018), and the benchmark's C++: what a step of it does to one observation,
component or bone is one step here.
"""
import json
import math
import pathlib

import jax
import numpy

HERE = pathlib.Path(__file__).resolve().parent
FINGERS, BONES = 5, 22


def gmm(xp, alpha, mu, icf, x, gamma, m):
    N, D = x.shape
    scores = []
    prior = 0
    nu = D + m + 1
    lgamma = jax.scipy.special.gammaln if xp is jax.numpy else numpy.vectorize(math.lgamma)
    log_gamma = 0.25 * D * (D - 1) * math.log(math.pi) + xp.sum(lgamma(0.5 * nu + 0.5 * (1 - xp.arange(1, D + 1))))
    for k in range(len(alpha)):
        factor = [[0.0] * D for _ in range(D)]
        position = D
        for j in range(D):
            factor[j][j] = xp.exp(icf[k, j])
            for i in range(j + 1, D):
                factor[i][j] = icf[k, position]
                position += 1
        factor = xp.array([xp.stack([xp.asarray(element) for element in row]) for row in factor])
        sum_q = xp.sum(icf[k, :D])
        scores.append(alpha[k] + sum_q - 0.5 * xp.sum(((x - mu[k]) @ factor.T) ** 2, axis=1))
        prior += 0.5 * gamma**2 * (xp.sum(xp.exp(icf[k, :D]) ** 2) + xp.sum(icf[k, D:] ** 2)) - m * sum_q
        prior -= nu * D * (xp.log(gamma) - 0.5 * math.log(2)) - log_gamma
    likelihood = -0.5 * N * D * math.log(2 * math.pi) + xp.sum(logsumexp(xp, xp.stack(scores))) - N * logsumexp(xp, alpha)
    return {"objective": likelihood + prior}


def logsumexp(xp, values):
    largest = xp.max(values, axis=0)
    return xp.log(xp.sum(xp.exp(values - largest), axis=0)) + largest


def rotate(xp, rotation, point):
    square = rotation @ rotation
    apart = xp.where(square > 0, square, 1.0)  # derivatives of the branch that is not taken are finite, too
    angle = xp.sqrt(apart)
    axis = rotation / angle
    turned = point * xp.cos(angle) + xp.cross(axis, point) * xp.sin(angle) + axis * (axis @ point) * (1 - xp.cos(angle))
    return xp.where(square > 0, turned, point + xp.cross(rotation, point))


def reprojection(xp, parameters, feature):
    """Of one observation, by the 11 parameters of its camera, its point and its weight."""
    camera, point, weight = parameters[:11], parameters[11:14], parameters[14]
    seen = rotate(xp, camera[:3], point - camera[3:6])
    plane = seen[:2] / seen[2]
    square = plane @ plane
    plane = plane * (1 + camera[9] * square + camera[10] * square * square)
    return weight * (plane * camera[6] + camera[7:9] - feature)


def observations(xp, cams, points, weights, camera, point):
    return [xp.concatenate([cams[c], points[x], weights[p : p + 1]]) for p, (c, x) in enumerate(zip(camera, point))]


def ba(xp, cams, points, weights, features, camera, point):
    parameters = observations(xp, cams, points, weights, camera, point)
    return {"reprojection": xp.stack([reprojection(xp, each, feature) for each, feature in zip(parameters, features)]), "weight_error": 1 - weights**2}


def ba_blocks(cams, points, weights, features, camera, point):
    xp = jax.numpy
    parameters = observations(xp, cams, points, weights, camera, point)
    blocks = [jax.jacfwd(lambda each: reprojection(xp, each, feature))(each) for each, feature in zip(parameters, features)]
    return {"reprojection": {"shift": xp.stack(blocks)}}


def euler(xp, tx, tz, ty):
    one, zero = xp.ones(()), xp.zeros(())
    x = xp.array([[one, zero, zero], [zero, xp.cos(tx), -xp.sin(tx)], [zero, xp.sin(tx), xp.cos(tx)]])
    y = xp.array([[xp.cos(ty), zero, xp.sin(ty)], [zero, one, zero], [-xp.sin(ty), zero, xp.cos(ty)]])
    z = xp.array([[xp.cos(tz), -xp.sin(tz), zero], [xp.sin(tz), xp.cos(tz), zero], [zero, zero, one]])
    return z @ y @ x


def angle_axis(xp, rotation):
    square = rotation @ rotation
    norm = xp.sqrt(xp.where(square < 1e-8, 1.0, square))
    x, y, z = rotation / norm
    s, c = xp.sin(norm), xp.cos(norm)
    turned = xp.array([
        [x * x + (1 - x * x) * c, x * y * (1 - c) - z * s, x * z * (1 - c) + y * s],
        [x * y * (1 - c) + z * s, y * y + (1 - y * y) * c, y * z * (1 - c) - x * s],
        [x * z * (1 - c) - y * s, z * y * (1 - c) + x * s, z * z + (1 - z * z) * c],
    ])
    return xp.where(square < 1e-8, xp.eye(3), turned)


def hand(xp, theta, us, points, base_relatives, inverse_base_absolutes, base_positions, weights, mirror, parent, corners, triangle):
    angles = [[xp.zeros(())] * 3 for _ in range(BONES)]  # about x, z and y
    next_angle = 6
    for finger in range(FINGERS):
        for joint in range(3):
            bone = 2 + 4 * finger + joint
            angles[bone][0] = theta[next_angle]
            next_angle += 1
            if joint == 0:
                angles[bone][1] = theta[next_angle]
                next_angle += 1
    absolutes = []
    positions = 0
    for bone in range(BONES):
        turn = xp.concatenate([xp.concatenate([euler(xp, *angles[bone]), xp.zeros((3, 1))], axis=1), xp.array([[0.0, 0.0, 0.0, 1.0]])])
        relative = base_relatives[bone] @ turn
        absolutes.append(relative if parent[bone] == -1 else absolutes[parent[bone]] @ relative)
        moved = base_positions @ (absolutes[bone] @ inverse_base_absolutes[bone]).T
        positions = positions + weights[bone][:, None] * moved[:, :3]
    positions = positions * xp.stack([mirror, xp.ones(()), xp.ones(())])
    positions = positions @ angle_axis(xp, theta[:3]).T + theta[3:6]
    first, second, third = (positions[corners[triangle, k]] for k in range(3))
    on_triangle = us[:, :1] * first + us[:, 1:] * second + (1 - us[:, :1] - us[:, 1:]) * third
    return {"error": points - on_triangle}


def hand_blocks(theta, us, **others):
    def error(theta, us):
        return hand(jax.numpy, theta, us, **others)["error"]

    by_theta, by_us = jax.jacfwd(error, (0, 1))(theta, us)
    return {"error": {"theta": by_theta, "shift": jax.numpy.stack([by_us[p, :, p] for p in range(len(us))])}}


def sigmoid(xp, x):
    return 1 / (1 + xp.exp(-x))


def lstm(xp, main, extra, state, x):
    hidden, cell = [list(state[:, k]) for k in range(2)]
    total = 0
    for t in range(len(x) - 1):
        value = x[t] * extra[0]
        for layer, (weight, bias) in enumerate(main):
            forget = sigmoid(xp, value * weight[0] + bias[0])
            ingate = sigmoid(xp, hidden[layer] * weight[1] + bias[1])
            outgate = sigmoid(xp, value * weight[2] + bias[2])
            change = xp.tanh(hidden[layer] * weight[3] + bias[3])
            cell[layer] = cell[layer] * forget + ingate * change
            value = hidden[layer] = outgate * xp.tanh(cell[layer])
        y = value * extra[1] + extra[2]
        total += x[t + 1] @ (y - xp.log(xp.sum(xp.exp(y)) + 2))
    return {"loss": -total / ((len(x) - 1) * x.shape[1])}


def gmm_inputs(random, N, D, K):
    return {"alpha": random.normal(size=K), "mu": random.uniform(size=(K, D)), "icf": random.normal(size=(K, D * (D + 1) // 2)) / math.sqrt(D),
            "x": random.normal(size=(N, D)), "gamma": numpy.array(1.5), "m": numpy.array(2.0)}


def ba_inputs(random, P, C, X):
    """Cameras that look at the points from ten units away; the first does not turn."""
    cams = numpy.concatenate([random.normal(size=(C, 3)) / 4, random.normal(size=(C, 3)) - [0, 0, 10], random.uniform(0.5, 1.5, (C, 1)),
                              random.normal(size=(C, 2)), random.normal(size=(C, 2)) / 4], axis=1)
    cams[0, :3] = 0
    return {"cams": cams, "points": random.normal(size=(X, 3)), "weights": random.uniform(0.5, 1.5, P), "features": random.normal(size=(P, 2)),
            "camera": numpy.arange(P) % C, "point": random.integers(0, X, P)}


def hand_inputs(random, P, V, F):
    """Five fingers of four bones at the wrist, which is the second bone of the arm."""
    frames = numpy.tile(numpy.eye(4), (2, BONES, 1, 1))
    frames[:, :, :3] += random.normal(size=(2, BONES, 3, 4)) / 8
    weights = random.uniform(size=(BONES, V))
    parent = [-1, 0] + [1 if joint == 0 else 1 + 4 * finger + joint for finger in range(FINGERS) for joint in range(4)]
    return {"theta": random.normal(size=26) / 2, "us": random.uniform(0, 0.5, (P, 2)), "points": random.normal(size=(P, 3)), "base_relatives": frames[0],
            "inverse_base_absolutes": frames[1], "base_positions": numpy.concatenate([random.normal(size=(V, 3)), numpy.ones((V, 1))], axis=1),
            "weights": weights / weights.sum(0), "mirror": numpy.array(-1.0), "parent": numpy.array(parent), "corners": random.integers(0, V, (F, 3)),
            "triangle": random.integers(0, F, P)}


def lstm_inputs(random, C, B):
    return {"main": random.normal(size=(2, 2, 4, B)), "extra": random.normal(size=(3, B)), "state": random.normal(size=(2, 2, B)),
            "x": numpy.asarray(random.uniform(size=(C, B)) < 0.5, float)}


FORMULAS = {
    "gmm": (gmm, gmm_inputs, "alpha mu icf", None, {"small": {"N": 7, "D": 3, "K": 2}, "one": {"N": 1, "D": 1, "K": 1}, "big": {"N": 60, "D": 10, "K": 5}}),
    "ba": (ba, ba_inputs, "cams points weights", ba_blocks, {"small": {"P": 5, "C": 2, "X": 3}, "one": {"P": 1, "C": 1, "X": 1}, "big": {"P": 24, "C": 3, "X": 9}}),
    "hand": (hand, hand_inputs, "theta us", hand_blocks, {"small": {"P": 3, "V": 5, "F": 2}, "one": {"P": 1, "V": 1, "F": 1}, "big": {"P": 12, "V": 9, "F": 7}}),
    "lstm": (lstm, lstm_inputs, "main extra", None, {"small": {"C": 5, "B": 3}, "one": {"C": 2, "B": 1}, "big": {"C": 24, "B": 14}}),
}
SHIFTS = {"ba": 15, "hand": 2}  # the parameters of an observation


def tensor(array):
    array = numpy.asarray(array)
    return {"shape": list(array.shape), "data": array.ravel().tolist()}


def tensors(arrays):
    return {name: tensor(array) for name, array in arrays.items()}


def make_case(name, formula, size, extents):
    """Inputs are exact in single precision. The values of NumPy and JAX must be the same."""
    function, draw, wrt, blocks, _ = FORMULAS[formula]
    random = numpy.random.default_rng(len(name) + sum(extents.values()))
    inputs = {key: array if array.dtype.kind == "i" else numpy.asarray(array, numpy.float32).astype(float) for key, array in draw(random, **extents).items()}
    values = function(numpy, **inputs)
    cotangents = {key: numpy.asarray(random.normal(size=numpy.shape(value)), numpy.float32).astype(float) for key, value in values.items()}
    others = {key: array for key, array in inputs.items() if key not in wrt.split()}

    def weighted(chosen):
        outputs = function(jax.numpy, **chosen, **others)
        return sum((outputs[key] * cotangents[key]).sum() for key in outputs), outputs

    (_, again), gradients = jax.value_and_grad(weighted, has_aux=True)({key: inputs[key] for key in wrt.split()})
    for key, value in values.items():
        numpy.testing.assert_allclose(value, again[key], rtol=1e-12, atol=1e-12)
    shift = {"shift": numpy.zeros(SHIFTS[formula])} if formula in SHIFTS else {}
    jacobians = {key: tensors(of) for key, of in blocks(**inputs).items()} if blocks else {}
    return {"name": size, "dims": {}, "inputs": tensors(inputs | shift), "outputs": tensors(values), "cotangents": tensors(cotangents),
            "gradients": tensors(gradients), "jacobians": jacobians, "rtol_float64": 1e-11, "rtol_float32": 1e-4}


def main():
    jax.config.update("jax_enable_x64", True)
    for formula, (*_, sizes) in FORMULAS.items():
        cases = [make_case(formula, formula, size, extents) for size, extents in sizes.items()]
        path = HERE / f"{formula}.json"
        path.write_text(json.dumps({"formula": formula, "cases": cases}) + "\n")


if __name__ == "__main__":
    main()
