# SPDX-License-Identifier: Apache-2.0
"""Pictures of small graphs, as notebooks show them: nodes in layers from top to bottom, each below all that it takes
and waits for; control edges are dashed."""

from xml.sax.saxutils import escape

MOST_NODES = 60
_HEIGHT, _GAP, _ROW, _LETTER = 34, 24, 74, 6.6
_BACK = ("NextIteration", "RefNextIteration")


def _edges(operations):
    """(from, to) by index, without the edges that close loops: those of values, and those of control."""
    index = {operation.name: i for i, operation in enumerate(operations)}
    values = [
        (index[value.op.name], to)
        for to, operation in enumerate(operations)
        for value in operation.inputs
        if value.op.type not in _BACK
    ]
    controls = [
        (index[source.name], to)
        for to, operation in enumerate(operations)
        for source in operation.control_inputs
        if source.type not in _BACK
    ]
    return values, controls


def _layers(count, edges):
    """Each node's layer: one more than the lowest that it takes from. Nodes may stand in any order."""
    layer, before = [0] * count, [[] for _ in range(count)]
    for source, to in edges:
        before[to].append(source)
    done = [False] * count
    for start in range(count):
        stack = [(start, iter(before[start]))]
        path = {start}
        while stack and not done[start]:
            node, sources = stack[-1]
            following = next((source for source in sources if not done[source] and source not in path), None)
            if following is not None:
                path.add(following)
                stack.append((following, iter(before[following])))
                continue
            layer[node] = 1 + max((layer[source] for source in before[node]), default=-1)
            done[node] = True
            stack.pop()
    return layer


def _columns(layer, edges, count):
    """The nodes of each layer in an order in which edges cross little: by the middle of what they take."""
    rows = [[] for _ in range(max(layer, default=-1) + 1)]
    for node in range(count):
        rows[layer[node]].append(node)
    place = {}
    for row in rows:
        def middle(node):
            sources = [place[source] for source, to in edges if to == node and source in place]
            return sum(sources) / len(sources) if sources else place.get(node, 1e9)

        row.sort(key=middle)
        place.update({node: i - len(row) / 2 for i, node in enumerate(row)})
    return rows


def _node(x, y, width, operation):
    device = f", on {operation.device}" if operation.device else ""
    title = escape(f"{operation.name}: {operation.type}{device}")
    names = [text if len(text) <= 24 else text[:23] + "\u2026" for text in (operation.type, operation.name)]
    return (
        f'<g><title>{title}</title><rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{_HEIGHT}" rx="5" fill="#eef3fa" stroke="#5b7aa5"/>'
        f'<text x="{x + width / 2:.0f}" y="{y + 14}" font-weight="bold">{escape(names[0])}</text>'
        f'<text x="{x + width / 2:.0f}" y="{y + 27}" fill="#555">{escape(names[1])}</text></g>'
    )


def svg_of(graph):
    """An SVG of the graph; None where it has no nodes, or more than can be looked at."""
    operations = graph.operations
    if not 0 < len(operations) <= MOST_NODES:
        return None
    values, controls = _edges(operations)
    edges = values + controls
    layer = _layers(len(operations), edges)
    rows = _columns(layer, edges, len(operations))
    width_of = [
        max(60.0, _LETTER * min(24, max(len(operation.type), len(operation.name))) + 16) for operation in operations
    ]
    total = max(sum(width_of[node] for node in row) + _GAP * (len(row) - 1) for row in rows)
    middle, parts = {}, []
    for number, row in enumerate(rows):
        x = 8 + (total - sum(width_of[node] for node in row) - _GAP * (len(row) - 1)) / 2
        for node in row:
            y = 8 + number * _ROW
            middle[node] = (x + width_of[node] / 2, y)
            parts.append(_node(x, y, width_of[node], operations[node]))
            x += width_of[node] + _GAP
    lines = []
    for number, (source, to) in enumerate(edges):
        dashes = ' stroke-dasharray="4 3"' if number >= len(values) else ""
        (x1, y1), (x2, y2) = middle[source], middle[to]
        lines.append(
            f'<path d="M{x1:.0f} {y1 + _HEIGHT} C{x1:.0f} {y1 + _HEIGHT + 20} {x2:.0f} {y2 - 22} {x2:.0f} {y2 - 2}" fill="none" stroke="#888"{dashes} marker-end="url(#tip)"/>'
        )
    height = 16 + (len(rows) - 1) * _ROW + _HEIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total + 16:.0f}" height="{height}" font-family="sans-serif" font-size="11" text-anchor="middle">'
        '<defs><marker id="tip" markerWidth="7" markerHeight="7" refX="6" refY="3" orient="auto"><path d="M0 0 L6 3 L0 6 z" fill="#888"/></marker></defs>'
        + "".join(lines + parts)
        + "</svg>"
    )
