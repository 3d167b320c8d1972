"""Lineage graphs as Mermaid, HTML and text, whatever the names."""

from __future__ import annotations

import random
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import InvalidInputError, LineageError
from paimon_spark.lineage.asking.graph import Direction, Node, load, newest_of
from paimon_spark.lineage.asking.picture import Box, Edge, Picture, picture_of
from paimon_spark.lineage.index.provenance import Provenance, SourceRange, TableRef
from paimon_spark.lineage.index.tables import rows_of
from tests.harness.lineage_index import MemoryIndex

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


def table(name: str, group: str | None = None, detail: str = "") -> Box:
    return Box(f"table {group} {name}", "table", name, detail, group)


def job(name: str, group: str | None = None) -> Box:
    return Box(f"job {name}", "job", name, group=group)


def edge(a: Box, b: Box, label: str = "") -> Edge:
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


class Shown(HTMLParser):
    """Tags and texts of a piece of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def texts(picture: Picture) -> list[str]:
    return Shown(picture._repr_html_()).texts


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


def test_a_notebook_shows_the_mermaid_text_with_the_arrows_below() -> None:
    picture = proposal()
    html = picture._repr_html_()
    assert html.index('<pre class="mermaid">') < html.index("<table")
    assert picture.to_mermaid() in texts(picture)
    assert html.count("<tr>") == 1 + len(picture.edges)


def test_a_table_without_arrows_is_in_the_table_too() -> None:
    assert "db.t (branch fix)" in texts(Picture((table("db.t", detail="branch fix"),)))


def test_a_picture_of_nothing_says_so() -> None:
    assert "Nothing is recorded." in texts(Picture(()))
    assert Picture(()).to_mermaid().startswith("flowchart LR\n")


def test_the_same_graph_gives_the_same_picture() -> None:
    assert proposal().to_html() == proposal().to_html()
    assert big(60).to_html() == big(60).to_html()
    assert big(60).to_mermaid() == big(60).to_mermaid()


def test_warehouses_are_groups_when_there_are_two() -> None:
    one, two = "/data/one", 's3://b/"two"'
    a, j, b = table("db.t", one), job("copy", two), table("db.t", two)
    picture = Picture((a, j, b), (edge(a, j), edge(j, b)))
    assert 'subgraph w0["/data/one"]' in picture.to_mermaid()
    assert picture.to_mermaid().count("  end\n") == 2
    alone = Picture((a,))
    assert "subgraph" not in alone.to_mermaid()


# Names


@pytest.mark.parametrize("name", NASTY)
def test_any_name_is_shown_as_text_and_never_as_markup(name: str) -> None:
    a, j = table(name, detail=name), job(name)
    picture = Picture((a, j), (edge(a, j, name),), title=name)
    picture.to_html().encode()
    assert Shown(picture._repr_html_()).tags <= {"div", "pre", "table", "thead", "tbody", "tr", "th", "td"}
    lines = picture.to_mermaid().splitlines()
    assert len(lines) == 8
    for line in lines[1:4]:
        inside = re.findall(r'"([^"]*)"', line)
        assert len(inside) == 1, line
        coded = re.sub(r"#\d+;", "", inside[0].replace("<br/>", ""))
        assert all(c.isalnum() or c in " _./-" for c in coded), line


@given(st.text(max_size=30))
def test_any_text_makes_html_and_one_line_of_mermaid(name: str) -> None:
    picture = Picture((table(name),))
    assert picture.to_mermaid() in texts(picture)
    assert len(picture.to_mermaid().splitlines()) == 5
    picture.to_html().encode()
    Picture((), title=name).to_html().encode()


def test_a_mermaid_label_reads_back_as_the_name() -> None:
    name = 'db.a"b#c;d<e>f&g%h{i}j|k\\l`m'
    line = Picture((table(name),)).to_mermaid().splitlines()[1]
    label = line[line.index('"') + 1 : line.rindex('"')]
    assert re.sub(r"#(\d+);", lambda m: chr(int(m[1])), label) == name


# Saving


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("a.HTML", "<!doctype html>"),
        ("a.mmd", "flowchart LR"),
        ("a.md", "```mermaid\nflowchart LR"),
    ],
)
def test_a_picture_is_saved_as_its_suffix_says(tmp_path: Path, name: str, begins: str) -> None:
    file = proposal().save(tmp_path / name)
    assert file == tmp_path / name
    assert file.read_text("utf-8").startswith(begins)


@pytest.mark.parametrize("name", ["a.png", "a.svg"])
def test_another_suffix_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInputError, match=r"\.mmd \(Mermaid\), \.md \(Mermaid in Markdown\) or \.html"):
        proposal().save(str(tmp_path / name))
    assert not list(tmp_path.iterdir())


def test_svg_is_refused_by_naming_mermaid() -> None:
    with pytest.raises(InvalidInputError, match="Mermaid"):
        proposal().to_svg()


def test_a_file_that_cannot_be_written_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(LineageError, match="choose another path"):
        proposal().save(tmp_path / "no" / "such" / "a.mmd")


# The graph as a picture


def record(
    index: MemoryIndex, job: str, barrier: int, sources: dict[str, int], sink: str, snapshot: int | None
) -> None:
    ranges = tuple(SourceRange(TableRef.parse(name), last=last) for name, last in sources.items())
    index.upsert(rows_of(Provenance(job, barrier, ranges), TableRef.parse(sink), snapshot))


def names(index: MemoryIndex, *around: str) -> set[str]:
    url = index.warehouse.url
    nodes = [Node(url, TableRef.parse(name)) for name in around]
    return {n.name for n in picture_of(load([index], nodes, direction=Direction.BOTH), around=nodes).nodes}


def test_the_newest_is_of_the_newest_batch_even_when_its_id_is_lower() -> None:
    index = MemoryIndex()
    record(index, "j", 7, {"db.a": 20}, "db.b", 9)
    record(index, "j", 8, {"db.a": 21}, "db.b", 3)  # the sink was rolled back
    record(index, "j", 9, {"db.a": 22}, "db.b", None)
    newest = newest_of(load([index]))
    url = index.warehouse.url
    assert newest.made == {("j", Node(url, TableRef("db", "b"))): 3}
    assert newest.read == {("j", Node(url, TableRef("db", "a"))): 22}
    assert newest.barriers == {"j": 9}


def test_a_job_of_which_no_batch_is_known_is_drawn_without_snapshots() -> None:
    index = MemoryIndex()
    index.upsert({"source_job_lineage": [("j", "db", "a")], "sink_job_lineage": [("j", "db", "b")]})
    picture = picture_of(load([index]))
    assert [(n.name, n.detail) for n in picture.nodes] == [("db.a", ""), ("db.b", ""), ("j", "")]
    assert [e.label for e in picture.edges] == ["", ""]


def test_what_is_near_is_what_a_table_comes_from_and_goes_into() -> None:
    index = MemoryIndex()
    record(index, "up", 0, {"db.a": 1, "db.b": 1}, "db.c", 1)
    record(index, "up", 1, {}, "db.other", 1)
    record(index, "down", 0, {"db.c": 1, "db.sibling": 1}, "db.d", 1)
    record(index, "aside", 0, {"db.a": 1}, "db.e", 1)
    assert names(index, "db.c") == {"db.a", "db.b", "db.c", "db.d", "up", "down"}
    assert names(index, "db.a") == {"db.a", "up", "db.c", "db.other", "down", "db.d", "aside", "db.e"}
    assert names(index, "db.b", "db.e") >= {"db.a", "db.b", "db.e", "aside", "up"}


def test_what_is_near_in_a_cycle_is_the_cycle() -> None:
    index = MemoryIndex()
    record(index, "there", 0, {"db.a": 1}, "db.b", 1)
    record(index, "back", 0, {"db.b": 1}, "db.a", 2)
    assert names(index, "db.a") == {"db.a", "db.b", "there", "back"}


def test_a_job_stands_where_it_writes_to() -> None:
    one, two = MemoryIndex(), MemoryIndex()
    one.upsert({"source_job_lineage": [("j", "db", "a"), ("reads", "db", "a")]})
    two.upsert({"sink_job_lineage": [("j", "db", "a")]})
    picture = picture_of(load([one, two]))
    assert {n.name: n.group for n in picture.nodes if n.kind == "job"} == {
        "j": two.warehouse.url,
        "reads": one.warehouse.url,
    }
    assert len([n for n in picture.nodes if n.kind == "table"]) == 2
