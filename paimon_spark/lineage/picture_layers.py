"""Which layer of a picture each box is in, and which boxes lines join: numbers of boxes, and links between them.

Source: Sugiyama, Tagawa, Toda, "Methods for visual understanding of hierarchical system structures" (1981).
"""

from __future__ import annotations

from collections.abc import Sequence


def ordered(count: int, links: Sequence[tuple[int, int]]) -> tuple[list[int], list[bool]]:
    """A topological order, and which links must be turned round for it to be one."""
    out: list[list[int]] = [[] for _ in range(count)]
    entered = [0] * count
    for i, (source, target) in enumerate(links):
        out[source].append(i)
        entered[target] += 1
    backwards = [False] * len(links)
    state = [0] * count  # 1: being visited, 2: done
    done: list[int] = []
    for root in sorted(range(count), key=lambda n: (entered[n] > 0, n)):
        if state[root]:
            continue
        state[root] = 1
        stack = [(root, iter(out[root]))]
        while stack:
            node, rest = stack[-1]
            for i in rest:
                target = links[i][1]
                if state[target] == 1:
                    backwards[i] = True
                elif not state[target]:
                    state[target] = 1
                    stack.append((target, iter(out[target])))
                    break
            else:
                state[node] = 2
                done.append(node)
                stack.pop()
    return done[::-1], backwards


def ranks(columns: Sequence[int], ends: Sequence[tuple[int, int]], order: Sequence[int]) -> list[int]:
    """The layer of each box: as far left as it can be, but what nothing leads to stands beside what it leads to."""
    after: list[list[int]] = [[] for _ in columns]
    before: list[list[int]] = [[] for _ in columns]
    for a, b in ends:
        after[a].append(b)
        before[b].append(a)
    rank = [0] * len(columns)
    for n in order:
        rank[n] = max((rank[m] + 1 for m in before[n]), default=columns[n])
    for n in reversed(order):
        if not before[n] and after[n]:
            rank[n] = min(rank[m] for m in after[n]) - 1
    lowest = min(rank)
    return [r - lowest for r in rank]


def components(count: int, ends: Sequence[tuple[int, int]]) -> list[int]:
    """A number for each box, the same for all that lines join."""
    parent = list(range(count))

    def root(n: int) -> int:
        while parent[n] != n:
            parent[n] = parent[parent[n]]
            n = parent[n]
        return n

    for a, b in ends:
        low, high = sorted((root(a), root(b)))
        parent[high] = low
    return [root(n) for n in range(count)]
