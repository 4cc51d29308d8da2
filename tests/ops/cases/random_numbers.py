"""The draws of formulas with the seed 0 in step 0: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC11), by the addresses of docs/determinism.md."""
from mpmath import mp, mpf

WORD = 2**32


def philox(counter, key):
    a, b, c, d = counter
    k, l = key
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = q // WORD ^ b ^ k, q % WORD, p // WORD ^ d ^ l, p % WORD
        k, l = (k + 0x9E3779B9) % WORD, (l + 0xBB67AE85) % WORD
    return a, b, c, d


def block(stream, index):
    *rest, last = index
    counter = [*rest, last // 4]
    return philox(counter + [0] * (4 - len(counter)), (0x9E3779B9 * stream % WORD, 0))


def open_unit(word):
    return (word + mpf(1) / 2) / WORD


def uniform(stream, *index):
    return open_unit(block(stream, index)[index[-1] % 4])


def normal(stream, *index):
    """Box and Muller: two elements share a pair of words, one takes the cosine and the other the sine."""
    words, place = block(stream, index), index[-1] % 4
    radius, angle = mp.sqrt(-2 * mp.log(open_unit(words[place // 2 * 2]))), 2 * mp.pi * open_unit(words[place // 2 * 2 + 1])
    return radius * (mp.cos(angle) if place % 2 == 0 else mp.sin(angle))
