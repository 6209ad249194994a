"""Dictionaries, strings, floating point, big integers and objects, in about equal parts."""


class Body:
    def __init__(self, x, y, v, w, mass):
        self.x, self.y, self.v, self.w, self.mass = x, y, v, w, mass


def bodies(steps):
    system = [Body(float(i), i * 0.5, 0.01 * i, -0.02 * i, 1.0 + i) for i in range(5)]
    for _ in range(steps):
        for i, a in enumerate(system):
            for b in system[i + 1 :]:
                dx, dy = a.x - b.x, a.y - b.y
                force = 0.001 / ((dx * dx + dy * dy + 0.01) ** 1.5)
                a.v -= dx * b.mass * force
                a.w -= dy * b.mass * force
                b.v += dx * a.mass * force
                b.w += dy * a.mass * force
        for a in system:
            a.x += a.v * 0.001
            a.y += a.w * 0.001
    return sum(a.x for a in system)


def words(count):
    seen = {}
    x = 12345
    for _ in range(count):
        x = (x * 1103515245 + 12345) & 0x7FFFFFFF
        word = "w%d" % (x % 5000)
        seen[word] = seen.get(word, 0) + 1
    return ",".join(k.upper() for k, _ in sorted(seen.items(), key=lambda e: (-e[1], e[0]))[:20])


def queens(n, row=0, columns=0, left=0, right=0):
    if row == n:
        return 1
    found = 0
    free = ~(columns | left | right) & ((1 << n) - 1)
    while free:
        bit = free & -free
        free ^= bit
        found += queens(n, row + 1, columns | bit, (left | bit) << 1, (right | bit) >> 1)
    return found


def digits(count):
    q, r, t, k, n, l, out = 1, 0, 1, 1, 3, 3, []
    while len(out) < count:
        if 4 * q + r - t < n * t:
            out.append(n)
            q, r, n = 10 * q, 10 * (r - n * t), 10 * (3 * q + r) // t - 10 * n
        else:
            q, r, t, k, n, l = q * k, (2 * q + r) * l, t * l, k + 1, (q * (7 * k + 2) + r * l) // (t * l), l + 2
    return "".join(map(str, out))


print(bodies(2000), words(80000), queens(7), digits(400))
