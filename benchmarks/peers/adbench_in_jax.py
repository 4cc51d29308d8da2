"""ADBench's objectives in JAX, for all observations, points or bones at once. Arguments are the inputs by name; a tuple of the outputs comes back."""
import math

import jax
import jax.numpy as jnp
import numpy

import in_jax


def factors(icf, D):
    """The lower triangles of which icf has the logarithms of the diagonal and the columns below it."""
    columns, rows = numpy.triu_indices(D, 1)  # column after column
    diagonal = jnp.exp(icf[:, :D])[:, :, None] * jnp.eye(D, dtype=icf.dtype)
    return diagonal.at[:, rows, columns].set(icf[:, D:])


def gmm_objective(alpha, icf, scores, gamma, m, N, D):
    diagonal, below = icf[:, :D], icf[:, D:]
    nu = D + m + 1
    log_gamma = 0.25 * D * (D - 1) * math.log(math.pi) + jax.scipy.special.gammaln(0.5 * (nu - jnp.arange(D))).sum()
    normaliser = nu * D * (jnp.log(gamma) - 0.5 * math.log(2)) - log_gamma
    likelihood = -0.5 * N * D * math.log(2 * math.pi) + jax.nn.logsumexp(scores, axis=1).sum() - N * jax.nn.logsumexp(alpha)
    prior = 0.5 * gamma**2 * ((jnp.exp(diagonal) ** 2).sum() + (below**2).sum()) - m * diagonal.sum() - len(alpha) * normaliser
    return (likelihood + prior,)


def gmm_square(alpha, mu, icf, x, gamma, m):
    N, D = x.shape
    Qx = jnp.einsum("kij,nkj->nki", factors(icf, D), x[:, None] - mu)
    return gmm_objective(alpha, icf, alpha + icf[:, :D].sum(1) - 0.5 * (Qx * Qx).sum(-1), gamma, m, N, D)


def gmm_expanded(alpha, mu, icf, x, gamma, m):
    N, D = x.shape
    Q = factors(icf, D)
    Qx = jnp.einsum("kij,nj->nki", Q, x) - jnp.einsum("kij,kj->ki", Q, mu)
    return gmm_objective(alpha, icf, alpha + icf[:, :D].sum(1) - 0.5 * (Qx * Qx).sum(-1), gamma, m, N, D)


def rotate(rotation, point):
    square = rotation @ rotation
    apart = jnp.where(square > 0, square, 1)
    angle = jnp.sqrt(apart)
    axis = rotation / angle
    turned = point * jnp.cos(angle) + jnp.cross(axis, point) * jnp.sin(angle) + axis * (axis @ point) * (1 - jnp.cos(angle))
    return jnp.where(square > 0, turned, point + jnp.cross(rotation, point))


def reprojection(parameters, feature):
    """Of one observation, by the 11 parameters of its camera, its point and its weight."""
    camera, point, weight = parameters[:11], parameters[11:14], parameters[14]
    seen = rotate(camera[:3], point - camera[3:6])
    plane = seen[:2] / seen[2]
    square = plane @ plane
    plane = plane * (1 + camera[9] * square + camera[10] * square * square)
    return weight * (plane * camera[6] + camera[7:9] - feature)


def observations(cams, points, weights, shift, camera, point):
    return jnp.concatenate([cams[camera], points[point], weights[:, None]], axis=1) + shift


def ba(cams, points, weights, features, shift, camera, point):
    parameters = observations(cams, points, weights, shift, camera, point)
    return jax.vmap(reprojection)(parameters, features), 1 - parameters[:, 14] ** 2


def ba_jacobian(cams, points, weights, features, shift, camera, point):
    return (jax.vmap(jax.jacfwd(reprojection))(observations(cams, points, weights, shift, camera, point), features),)


def axis_turns(angles, axis):
    first, second = ((1, 2), (2, 0), (0, 1))[axis]
    cosine, sine = jnp.cos(angles), jnp.sin(angles)
    turns = jnp.zeros((len(angles), 4, 4), angles.dtype).at[:, axis, axis].set(1).at[:, 3, 3].set(1)
    turns = turns.at[:, first, first].set(cosine).at[:, second, second].set(cosine)
    return turns.at[:, first, second].set(-sine).at[:, second, first].set(sine)


def hand_positions(theta, base_relatives, inverse_base_absolutes, base_positions, weights, mirror, parent):
    fingers = theta[6:].reshape(5, 4)
    bones = jnp.arange(5)[:, None] * 4 + 2
    bend = jnp.zeros(22, theta.dtype).at[(bones + jnp.arange(3)).ravel()].set(fingers[:, jnp.array([0, 2, 3])].ravel())
    spread = jnp.zeros(22, theta.dtype).at[bones.ravel()].set(fingers[:, 1])
    relatives = base_relatives @ axis_turns(spread, 2) @ axis_turns(bend, 0)

    def step(absolutes, bone):
        above = jnp.where(parent[bone] < 0, jnp.eye(4, dtype=theta.dtype), absolutes[parent[bone]])
        return absolutes.at[bone].set(above @ relatives[bone]), None

    absolutes, _ = jax.lax.scan(step, jnp.zeros_like(relatives), jnp.arange(22))
    skinned = jnp.einsum("bv,bij,vj->vi", weights, (absolutes @ inverse_base_absolutes)[:, :3], base_positions)
    skinned = skinned * jnp.stack([mirror, jnp.ones_like(mirror), jnp.ones_like(mirror)])
    square = theta[:3] @ theta[:3]
    angle = jnp.sqrt(jnp.where(square < 1e-8, 1, square))
    x, y, z = theta[:3] / angle
    zero = jnp.zeros_like(x)
    cross = jnp.stack([zero, -z, y, z, zero, -x, -y, x, zero]).reshape(3, 3)
    turned = jnp.eye(3, dtype=theta.dtype) + jnp.sin(angle) * cross + (1 - jnp.cos(angle)) * cross @ cross
    return skinned @ jnp.where(square < 1e-8, jnp.eye(3, dtype=theta.dtype), turned).T + theta[3:6]


def hand(theta, us, shift, points, corners, triangle, **model):
    at = hand_positions(theta, **model)[corners[triangle]]
    u = us + shift
    return (points - jnp.einsum("pc,pca->pa", jnp.concatenate([u, 1 - u.sum(1, keepdims=True)], axis=1), at),)


def hand_jacobian(theta, us, shift, points, corners, triangle, **model):
    """By theta in forward mode; the block of each observation by its two coordinates is the edges of its triangle."""
    by_theta = jax.jacfwd(lambda theta: hand(theta, us, shift, points, corners, triangle, **model)[0])(theta)
    at = hand_positions(theta, **model)[corners[triangle]]
    return by_theta, jnp.stack([at[:, 2] - at[:, 0], at[:, 2] - at[:, 1]], -1)


def lstm(main, extra, state, x):
    return in_jax.lstm(*main, extra, *state.reshape(4, -1), x)
