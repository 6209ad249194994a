# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tables, formulas and plots of what the circuits cost."""

import html

ROWS = [
    ("NAND2", "generic", "nand2"), ("inverters", "generic", "inverters"),
    ("flip-flops", "generic", "flip_flops"), ("longest path in gates", "generic", "levels"),
    *((f"{cells} (Xilinx 7), {how}", step, key)
      for how, step in (("module by module", "modules"), ("as a whole", "xilinx"))
      for cells, key in (("LUT6", "luts"), ("MUXF7/8", "muxes"), ("CARRY4", "carry"),
                         ("flip-flops", "flip_flops"))),
    ("LUT4 (ECP5)", "ecp5", "luts"), ("flip-flops (ECP5)", "ecp5", "flip_flops"),
    ("clock in MHz (ECP5)", "clock", "mhz"),
]
FITTED = [("modules", "luts", "LUT6, module by module"), ("xilinx", "luts", "LUT6, as a whole"),
          ("modules", "flip_flops", "flip-flops, module by module"), ("generic", "nand2", "NAND2"),
          ("ecp5", "luts", "LUT4 (ECP5)")]
# Title of its table, what it grows with, colour of its curve.
KINDS = {
    "xtrapless": ("Xtrapless", "harts", "#1f5fa8"),
    "xvei": ("Xvei", "harts", "#2c7a3f"),
    "imsic": ("IMSIC of one hart, 255 identities where nothing else is said", "guest files",
              "#b5541c"),
}


def value(known, step, key):
    """A cell of the table."""
    found = known.get(step, {})
    if found.get(key) is not None:
        return f"{found[key]:,}".replace(",", " ")
    if "given_up" in found:
        return f"given up after {found['given_up']} s"
    return "failed" if "failed" in found else "-"


def name(circuit):
    """How a table calls it."""
    kind, *numbers = circuit.split(":")
    _, unit, _ = KINDS[kind]
    counted = f"{numbers[0]} {unit}" if numbers[0] != "1" else f"1 {unit.rstrip('s')}"
    return counted + (f", {numbers[1]} identities" if len(numbers) > 1 else "")


def fit(points):
    """Least squares of a + b n for (n, y), and the largest error of y in percent."""
    count = len(points)
    mean_n = sum(n for n, _ in points) / count
    mean_y = sum(y for _, y in points) / count
    slope = sum((n - mean_n) * (y - mean_y) for n, y in points)
    slope /= sum((n - mean_n) ** 2 for n, _ in points)
    base = mean_y - slope * mean_n
    error = max(abs(base + slope * n - y) / y for n, y in points)
    return base, slope, 100 * error


def points(results, kind, step, key):
    """(harts or guest files, figure) of what has been measured, in 255 identities."""
    found = []
    for circuit, known in results.items():
        parts = circuit.split(":")
        if parts[0] == kind and len(parts) == 2 and known.get(step, {}).get(key) is not None:
            found.append((int(parts[1]), known[step][key]))
    return sorted(found)


def formulas(results):
    """A line of text for each figure that grows."""
    for kind, (_, unit, _) in KINDS.items():
        for step, key, label in FITTED:
            known = points(results, kind, step, key)
            if len(known) >= 3:
                base, slope, error = fit(known)
                yield (f"{kind}: {label} = {base:.0f} + {slope:.0f} × {unit} "
                       f"({known[0][0]} to {known[-1][0]}; off by at most {error:.1f} %)")


def table(results, kind):
    """Lines of Markdown, a column for each circuit."""
    circuits = sorted((c for c in results if c.split(":")[0] == kind),
                      key=lambda c: [int(n) for n in c.split(":")[1:]])
    if not circuits:
        return
    yield "| | " + " | ".join(name(c) for c in circuits) + " |"
    yield "|---" + "|---:" * len(circuits) + "|"
    for label, step, key in ROWS:
        cells = [value(results[c], step, key) for c in circuits]
        yield f"| {label} | " + " | ".join(cells) + " |"
    times = [str(sum(s.get("seconds", 0) for s in results[c].values())) for c in circuits]
    yield "| processor time to measure in s | " + " | ".join(times) + " |"


def plot(results, step, key, title):
    """All circuits in one picture: figures over harts, or over guest files of one hart."""
    series = {kind: points(results, kind, step, key) for kind in KINDS}
    every = [p for found in series.values() for p in found]
    if not every:
        return ""
    most_n = max(n for n, _ in every)
    most_y = max(y for _, y in every)
    at = lambda n, y: (70 + 400 * n / most_n, 250 - 220 * y / most_y)  # noqa: E731
    parts = [f'<figure><figcaption>{html.escape(title)}</figcaption>'
             '<svg width="520" height="300" role="img">']
    for tick in range(5):
        y = most_y * tick / 4
        _, height = at(0, y)
        parts.append(f'<line x1="70" x2="470" y1="{height}" y2="{height}" stroke="#ddd"/>'
                     f'<text x="64" y="{height + 4}" text-anchor="end">{y:,.0f}</text>')
    free = 0
    for n in sorted({n for n, _ in every}):
        x, _ = at(n, 0)
        if x >= free:
            parts.append(f'<text x="{x}" y="268" text-anchor="middle">{n}</text>')
            free = x + 20
    for row, (kind, found) in enumerate(series.items()):
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*p) for p in found))
        _, unit, colour = KINDS[kind]
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'
                  for x, y in (at(*p) for p in found)]
        unit += " of one hart" if kind == "imsic" else ""
        parts.append(f'<text x="80" y="{24 + 16 * row}" fill="{colour}">{kind}, {unit}</text>')
    parts.append('<text x="270" y="290" text-anchor="middle">harts, or guest files</text>'
                 '</svg></figure>')
    return "".join(parts)


def as_html(lines):
    """A Markdown table as HTML."""
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in lines]
    text = "<table><tr>" + "".join(f"<th>{html.escape(c)}</th>" for c in rows[0]) + "</tr>"
    for row in rows[2:]:
        text += "<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>"
    return text + "</table>"


STYLE = ("body{font:15px sans-serif;max-width:1150px;margin:2em auto;color:#222}"
         "table{border-collapse:collapse;margin:1em 0}td,th{border-bottom:1px solid #ccc;"
         "padding:3px 9px;text-align:right;font-weight:normal}td:first-child{text-align:left}"
         "figure{display:inline-block;margin:8px}svg{font-size:12px}")


def write(folder, results):
    """tables.md and index.html."""
    tables = {title: list(table(results, kind)) for kind, (title, _, _) in KINDS.items()}
    tables = {title: lines for title, lines in tables.items() if lines}
    lines = [line for title, rows in tables.items() for line in (f"## {title}", "", *rows, "")]
    lines += [f"* {text}" for text in formulas(results)]
    (folder / "tables.md").write_text("\n".join(lines) + "\n")
    body = "".join(f"<h2>{html.escape(t)}</h2>{as_html(rows)}" for t, rows in tables.items())
    body += "<h2>Growth</h2><ul>"
    body += "".join(f"<li>{html.escape(text)}</li>" for text in formulas(results)) + "</ul>"
    body += plot(results, "modules", "luts", "LUT6 of a Xilinx 7 series device, module by module")
    body += plot(results, "xilinx", "luts", "LUT6 of a Xilinx 7 series device, as a whole")
    body += plot(results, "modules", "flip_flops", "Flip-flops")
    body += plot(results, "generic", "nand2", "NAND2 gates")
    body += plot(results, "clock", "mhz", "Clock in MHz, ECP5")
    (folder / "index.html").write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Cost of the circuits</title>'
        f"<style>{STYLE}</style><h1>Cost of the circuits</h1>{body}</html>")
