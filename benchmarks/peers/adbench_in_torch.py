"""ADBench's objectives in PyTorch, for all observations, points or bones at once. Arguments are the inputs by name; a tuple of the outputs comes back."""
import math

import torch

import in_torch


def factors(icf, D):
    """The lower triangles of which icf has the logarithms of the diagonal and the columns below it."""
    columns, rows = torch.triu_indices(D, D, 1)  # column after column
    Q = torch.diag_embed(torch.exp(icf[:, :D]))
    return Q.index_put((torch.arange(len(icf))[:, None], rows, columns), icf[:, D:])


def gmm_objective(alpha, icf, scores, gamma, m, N, D):
    """The scores have one row per component."""
    diagonal, below = icf[:, :D], icf[:, D:]
    nu = D + m + 1
    log_gamma = 0.25 * D * (D - 1) * math.log(math.pi) + torch.lgamma(0.5 * (nu - torch.arange(D))).sum()
    normaliser = nu * D * (torch.log(gamma) - 0.5 * math.log(2)) - log_gamma
    likelihood = -0.5 * N * D * math.log(2 * math.pi) + torch.logsumexp(scores, 0).sum() - N * torch.logsumexp(alpha, 0)
    prior = 0.5 * gamma**2 * ((torch.exp(diagonal) ** 2).sum() + (below**2).sum()) - m * diagonal.sum() - len(alpha) * normaliser
    return (likelihood + prior,)


def gmm_square(alpha, mu, icf, x, gamma, m):
    N, D = x.shape
    Qx = torch.bmm(factors(icf, D), (x - mu[:, None]).mT)
    return gmm_objective(alpha, icf, (alpha + icf[:, :D].sum(1))[:, None] - 0.5 * (Qx * Qx).sum(1), gamma, m, N, D)


def gmm_expanded(alpha, mu, icf, x, gamma, m):
    N, D = x.shape
    Q = factors(icf, D)
    Qx = Q @ x.T - Q @ mu[:, :, None]
    return gmm_objective(alpha, icf, (alpha + icf[:, :D].sum(1))[:, None] - 0.5 * (Qx * Qx).sum(1), gamma, m, N, D)


def rotate(rotation, point):
    square = (rotation * rotation).sum(-1, keepdim=True)
    angle = torch.sqrt(torch.where(square > 0, square, 1))
    axis = rotation / angle
    turned = point * torch.cos(angle) + torch.linalg.cross(axis, point) * torch.sin(angle)
    turned = turned + axis * (axis * point).sum(-1, keepdim=True) * (1 - torch.cos(angle))
    return torch.where(square > 0, turned, point + torch.linalg.cross(rotation, point))


def reprojection(parameters, features):
    """Of observations, by the 11 parameters of the camera, the point and the weight."""
    camera, point, weight = parameters[..., :11], parameters[..., 11:14], parameters[..., 14:]
    seen = rotate(camera[..., :3], point - camera[..., 3:6])
    plane = seen[..., :2] / seen[..., 2:]
    square = (plane * plane).sum(-1, keepdim=True)
    plane = plane * (1 + camera[..., 9:10] * square + camera[..., 10:] * square * square)
    return weight * (plane * camera[..., 6:7] + camera[..., 7:9] - features)


def observations(cams, points, weights, shift, camera, point):
    return torch.cat([cams[camera], points[point], weights[:, None]], 1) + shift


def ba(cams, points, weights, features, shift, camera, point):
    parameters = observations(cams, points, weights, shift, camera, point)
    return reprojection(parameters, features), 1 - parameters[:, 14] ** 2


def ba_jacobian(cams, points, weights, features, shift, camera, point):
    """One row of all blocks is one gradient of a sum, as observations share nothing."""
    parameters = observations(cams, points, weights, shift, camera, point).requires_grad_()
    errors = reprojection(parameters, features)
    rows = [torch.autograd.grad(errors[:, r].sum(), parameters, retain_graph=r == 0)[0] for r in range(2)]
    return (torch.stack(rows, 1),)


def axis_turns(angles, axis):
    first, second = ((1, 2), (2, 0), (0, 1))[axis]
    cosine, sine, one, zero = torch.cos(angles), torch.sin(angles), torch.ones_like(angles), torch.zeros_like(angles)
    rows = [[zero] * 4 for _ in range(4)]
    rows[axis][axis] = rows[3][3] = one
    rows[first][first] = rows[second][second] = cosine
    rows[first][second], rows[second][first] = -sine, sine
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def hand_positions(theta, base_relatives, inverse_base_absolutes, base_positions, weights, mirror, parent):
    fingers, zero = theta[6:].reshape(5, 4), torch.zeros(5, 1, dtype=theta.dtype)
    bend = torch.cat([zero[:2, 0], torch.cat([fingers[:, :1], fingers[:, 2:], zero], 1).ravel()])
    spread = torch.cat([zero[:2, 0], torch.cat([fingers[:, 1:2], zero, zero, zero], 1).ravel()])
    relatives = base_relatives @ axis_turns(spread, 2) @ axis_turns(bend, 0)
    absolutes = []
    for bone, above in enumerate(parent.tolist()):
        absolutes.append(relatives[bone] if above < 0 else absolutes[above] @ relatives[bone])
    transforms = torch.stack(absolutes) @ inverse_base_absolutes
    moved = torch.einsum("bv,bij->vij", weights, transforms[:, :3])
    skinned = (moved @ base_positions[:, :, None])[..., 0] * torch.stack([mirror, torch.ones(()), torch.ones(())])
    square = theta[:3] @ theta[:3]
    angle = torch.sqrt(torch.where(square < 1e-8, 1, square))
    x, y, z = theta[:3] / angle
    nought = torch.zeros_like(x)
    cross = torch.stack([nought, -z, y, z, nought, -x, -y, x, nought]).reshape(3, 3)
    turned = torch.eye(3) + torch.sin(angle) * cross + (1 - torch.cos(angle)) * cross @ cross
    return skinned @ torch.where(square < 1e-8, torch.eye(3), turned).T + theta[3:6]


def hand(theta, us, shift, points, corners, triangle, **model):
    at = hand_positions(theta, **model)[corners[triangle]]
    u = us + shift
    return (points - (torch.cat([u, 1 - u.sum(1, keepdim=True)], 1)[:, :, None] * at).sum(1),)


def hand_jacobian(theta, us, shift, points, corners, triangle, **model):
    """By theta in forward mode; the block of each observation by its two coordinates is the edges of its triangle."""
    by_theta = torch.func.jacfwd(lambda theta: hand(theta, us, shift, points, corners, triangle, **model)[0])(theta)
    at = hand_positions(theta, **model)[corners[triangle]]
    return by_theta, torch.stack([at[:, 2] - at[:, 0], at[:, 2] - at[:, 1]], -1)


def lstm(main, extra, state, x):
    return in_torch.lstm(*main, extra, *state.reshape(4, -1), x)
