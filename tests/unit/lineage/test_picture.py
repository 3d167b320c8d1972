from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import InvalidInputError, LineageError
from paimon_spark.lineage.picture import Edge, Node, Picture
from paimon_spark.lineage.picture_layout import Box, Item, Layout, Link, lay_out

SVG = "{http://www.w3.org/2000/svg}"
NASTY = [
    "<script>alert(1)</script>",
    'a "quoted" name',
    "it's",
    "&amp; &lt;",
    "#quot; #35; ; end",
    "%%{init: {}}%%",
    "1. first",
    "- dash",
    "`x`",
    "]] --> x",
    "|pipe|",
    "$$x$$",
    "数据库.订单",
    "e\N{COMBINING ACUTE ACCENT}",
    "\N{RIGHT-TO-LEFT OVERRIDE}evil",
    "line\nbreak\ttab\x00nul",
    "\ud800",
    "x" * 100,
]


def table(name: str, group: str | None = None, detail: str = "") -> Node:
    return Node(f"table {group} {name}", "table", name, detail, group)


def job(name: str, group: str | None = None) -> Node:
    return Node(f"job {name}", "job", name, group=group)


def edge(a: Node, b: Node, label: str = "") -> Edge:
    return Edge(a.key, b.key, label)


def proposal() -> Picture:
    t = {i: table(f"db.table{i}") for i in range(1, 7)}
    one, two = job("ETL 1"), job("ETL 2")
    return Picture(
        (*t.values(), one, two),
        (
            edge(t[1], one, "snapshot 8"),
            edge(t[2], one, "snapshot 13"),
            edge(t[3], one, "snapshot 12"),
            edge(one, t[5], "snapshot 9"),
            edge(t[2], two, "snapshot 13"),
            edge(t[3], two, "snapshot 12"),
            edge(t[4], two, "snapshot 4"),
            edge(two, t[6], "snapshot 15"),
        ),
    )


def parsed(picture: Picture) -> ET.Element:
    return ET.fromstring(picture.to_svg())


def texts(picture: Picture) -> list[str]:
    return [e.text or "" for e in parsed(picture).iter(f"{SVG}text")]


def big(tables: int, seed: int = 1) -> Picture:
    rng = random.Random(seed)
    nodes = [table(f"db{i % 7}.table_{i:03d}") for i in range(tables)]
    jobs, edges = [], []
    for k in range(tables // 2):
        jobs.append(job(f"job {k}"))
        for n in rng.sample(range(tables), rng.randint(1, 4)):
            edges.append(edge(nodes[n], jobs[k], f"snapshot {rng.randint(1, 9999)}"))
        edges.append(edge(jobs[k], nodes[rng.randrange(tables)], f"snapshot {rng.randint(1, 9999)}"))
    return Picture((*nodes, *jobs), tuple(edges))


# What is in the picture


def test_every_table_job_and_snapshot_is_in_each_kind_of_picture() -> None:
    picture = proposal()
    seen = texts(picture)
    for name in ("db.table1", "db.table6", "ETL 1", "ETL 2", "snapshot 13", "snapshot 15"):
        assert name in seen
        assert name in picture.to_mermaid()
    assert seen.count("snapshot 13") == 2
    assert picture.to_mermaid().count("-->") == len(picture.edges)


def test_a_picture_of_nothing_says_so() -> None:
    assert texts(Picture(())) == ["Nothing is recorded."]
    assert Picture(()).to_mermaid().startswith("flowchart LR\n")


def test_the_same_graph_gives_the_same_picture() -> None:
    assert proposal().to_svg() == proposal().to_svg()
    assert big(60).to_svg() == big(60).to_svg()
    assert big(60).to_mermaid() == big(60).to_mermaid()


def test_warehouses_are_groups_when_there_are_two() -> None:
    one, two = "/data/one", 's3://b/"two"'
    a, j, b = table("db.t", one), job("copy", two), table("db.t", two)
    picture = Picture((a, j, b), (edge(a, j), edge(j, b)))
    assert {one, two} <= set(texts(picture))
    assert 'subgraph w0["/data/one"]' in picture.to_mermaid()
    assert picture.to_mermaid().count("  end\n") == 2
    alone = Picture((a,))
    assert one not in texts(alone)
    assert "subgraph" not in alone.to_mermaid()


# Names


@pytest.mark.parametrize("name", NASTY)
def test_any_name_is_shown_as_text_and_never_as_markup(name: str) -> None:
    a, j = table(name, detail=name), job(name)
    picture = Picture((a, j), (edge(a, j, name),), title=name)
    root = parsed(picture)
    picture.to_html().encode()
    kinds = {e.tag.removeprefix(SVG) for e in root.iter()}
    assert kinds <= {"svg", "title", "rect", "text", "path", "g"}

    tags: set[str] = set()

    class Seen(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            tags.add(tag)

    Seen().feed(picture._repr_html_())
    assert tags <= {"div", "svg", "title", "rect", "text", "path", "g"}
    lines = picture.to_mermaid().splitlines()
    assert len(lines) == 8
    for line in lines[1:4]:
        inside = re.findall(r'"([^"]*)"', line)
        assert len(inside) == 1, line
        coded = re.sub(r"#\d+;", "", inside[0].replace("<br/>", ""))
        assert all(c.isalnum() or c in " _./-" for c in coded), line


@given(st.text(max_size=30))
def test_any_text_makes_well_formed_xml_and_one_line_of_mermaid(name: str) -> None:
    picture = Picture((table(name),))
    parsed(picture)
    assert len(picture.to_mermaid().splitlines()) == 5
    picture.to_svg().encode()
    Picture((), title=name).to_html().encode()


def test_a_mermaid_label_reads_back_as_the_name() -> None:
    name = 'db.a"b#c;d<e>f&g%h{i}j|k\\l`m'
    line = Picture((table(name),)).to_mermaid().splitlines()[1]
    label = line[line.index('"') + 1 : line.rindex('"')]
    assert re.sub(r"#(\d+);", lambda m: chr(int(m[1])), label) == name


def test_a_long_name_loses_its_middle_and_is_whole_in_the_title() -> None:
    name = "start_" + "x" * 100 + "_end"
    picture = Picture((table(name),))
    shown = texts(picture)[0]
    assert shown.startswith("start_") and shown.endswith("_end") and "…" in shown
    assert f"table {name}" in [e.text for e in parsed(picture).iter(f"{SVG}title")]


# Saving


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("a.svg", "<svg "),
        ("a.HTML", "<!doctype html>"),
        ("a.mmd", "flowchart LR"),
        ("a.md", "```mermaid\nflowchart LR"),
    ],
)
def test_a_picture_is_saved_as_its_suffix_says(tmp_path: Path, name: str, begins: str) -> None:
    file = proposal().save(tmp_path / name)
    assert file == tmp_path / name
    assert file.read_text("utf-8").startswith(begins)


def test_another_suffix_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"\.svg, \.html, \.mmd or \.md"):
        proposal().save(str(tmp_path / "a.png"))
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(LineageError, match="give another place"):
        proposal().save(tmp_path / "no" / "such" / "a.svg")


# Layout


def overlap(a: Box, b: Box) -> bool:
    return a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height


def check(layout: Layout, items: list[Item], links: list[Link]) -> None:
    for i, a in enumerate(layout.boxes):
        assert a.height >= items[i].height and a.width >= items[i].width
        assert a.x >= 0 and a.x + a.width <= layout.width
        assert a.y >= 0 and a.y + a.height <= layout.height
        band = layout.bands[items[i].group]
        assert band.y <= a.y and a.y + a.height <= band.y + band.height
        for b in layout.boxes[:i]:
            assert not overlap(a, b)
    for link, route in zip(links, layout.routes, strict=True):
        left, right = (link.target, link.source) if route.backwards else (link.source, link.target)
        a, b = layout.boxes[left], layout.boxes[right]
        assert route.start[0] == a.x + a.width and a.y <= route.start[1] <= a.y + a.height
        assert route.end[0] == b.x and b.y <= route.end[1] <= b.y + b.height
        assert route.start[0] < route.end[0]
        assert all(bend.x0 < bend.x1 for bend in route.bends)
        room = (route.bends[0].x0 - route.start[0]) if route.backwards else (route.end[0] - route.bends[-1].x1)
        assert room >= link.label
    for i, low in enumerate(layout.bands):
        for high in layout.bands[:i]:
            assert not overlap(low, high)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Item], list[Link], int]:
    groups = draw(st.integers(1, 3))
    sizes = st.floats(10, 300)
    items = draw(
        st.lists(st.builds(Item, sizes, sizes, st.integers(0, groups - 1), st.integers(0, 1)), min_size=1, max_size=12)
    )
    ends = st.integers(0, len(items) - 1)
    links = draw(st.lists(st.builds(Link, ends, ends, st.floats(0, 80)), max_size=25))
    return items, [k for k in links if k.source != k.target], groups


@given(graphs())
def test_boxes_never_overlap_and_lines_meet_their_boxes(graph: tuple[list[Item], list[Link], int]) -> None:
    items, links, groups = graph
    check(lay_out(items, links, groups, titled=groups > 1), items, links)


def test_what_leads_to_a_box_is_left_of_it_when_there_is_no_cycle() -> None:
    items = [Item(50, 20)] * 5
    links = [Link(0, 1), Link(1, 2), Link(0, 3), Link(3, 2), Link(2, 4)]
    layout = lay_out(items, links)
    assert not any(r.backwards for r in layout.routes)
    assert all(layout.boxes[k.source].x < layout.boxes[k.target].x for k in links)


def test_one_line_of_a_cycle_goes_backwards() -> None:
    layout = lay_out([Item(50, 20)] * 3, [Link(0, 1), Link(1, 2), Link(2, 0)])
    assert [r.backwards for r in layout.routes] == [False, False, True]


def test_a_job_that_writes_what_it_reads_has_two_lines_apart() -> None:
    layout = lay_out([Item(50, 20, 0, 0), Item(50, 20, 0, 1)], [Link(0, 1, 40), Link(1, 0, 40)])
    there, back = layout.routes
    assert not there.backwards and back.backwards
    assert abs(there.start[1] - back.start[1]) >= 10


def test_lines_that_need_not_cross_do_not() -> None:
    # Given so that the first order crosses them all.
    items = [Item(50, 20, 0, i % 2) for i in range(12)]
    links = [Link(i, 11 - i) for i in range(0, 12, 2)]
    layout = lay_out(items, links)
    starts = sorted(layout.routes, key=lambda r: r.start[1])
    assert [r.end[1] for r in starts] == sorted(r.end[1] for r in starts)


def test_two_hundred_tables_are_drawn_without_overlaps_in_a_second() -> None:
    root = parsed(big(200))
    boxes = [
        Box(float(r.attrib["x"]), float(r.attrib["y"]), float(r.attrib["width"]), float(r.attrib["height"]))
        for g in root.iter(f"{SVG}g")
        for r in g.findall(f"{SVG}rect")[:1]
    ]
    assert len(boxes) == 300
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert not overlap(a, b)


def test_a_chain_of_thousands_does_not_exhaust_the_stack() -> None:
    count = 3000
    layout = lay_out([Item(50, 20)] * count, [Link(i, i + 1) for i in range(count - 1)])
    assert layout.boxes[-1].x > layout.boxes[0].x
