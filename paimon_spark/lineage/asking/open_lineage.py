"""Lineage as OpenLineage events: one for each change of a job, not for each batch.

What was sent of a job is kept in `_lineage/open-lineage/<job>.json`, so that the next call sends only what changed: a
job, its sources or sinks, or their columns. The snapshots in an event are those of its moment.

Source: OpenLineage 2-0-2; its naming rules for datasets in files.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from paimon_spark.errors import InvalidInputError
from paimon_spark.format.json_files import find_object
from paimon_spark.lineage.asking.graph import NOWHERE, Graph, Node, newest_of
from paimon_spark.lineage.index.job_registry import find_owner, read_json_files
from paimon_spark.lineage.index.warehouse import Warehouse, encode_file, quote_name
from paimon_spark.metadata.retry import now_ms as time_ms
from paimon_spark.types import RowType

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent

_PRODUCER: Final = "https://pypi.org/project/paimon-spark"
_OBJECT_STORES: Final = ("s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "wasb", "wasbs", "oss", "cos", "obs")
"""Schemes whose names have no slash in front: keys of objects."""
_AS_S3: Final = ("s3a", "s3n")

Columns = Callable[[Node], RowType | None]
"""The columns of a table; None when it is gone."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The last event sent of a job: a digest of its tables and columns, the number of events sent so far, and when."""

    digest: str
    number: int
    sent_ms: int


@dataclass(frozen=True, slots=True)
class Change:
    """A job, by its OpenLineage name, that changed since it was sent; `sent` is written once `event` was sent."""

    job: str
    event: RunEvent
    sent: Sent


def changes(
    graph: Graph,
    warehouse: Warehouse,
    columns: Columns,
    namespace: str | None = None,
    since_ms: int | None = None,
    now_ms: int | None = None,
) -> list[Change]:
    """The jobs of a warehouse that changed since they were sent, by name. Writes nothing.

    Args:
        graph: loaded with its snapshots.
        warehouse: whose tables the jobs read or write.
        columns: of each table.
        namespace: of the jobs; None: the warehouse's URL.
        since_ms: what was sent at or after this moment, in epoch milliseconds, is sent again.
        now_ms: epoch milliseconds of the events.

    Raises:
        InvalidInputError: OpenLineage is not installed.
    """
    check_installed()
    newest, sent = newest_of(graph), _sent_before(warehouse)
    columns_once = cache(lambda node: None if node.ref == NOWHERE else columns(node))
    moment = time_ms() if now_ms is None else now_ms
    found = []
    for name, job, reads, writes in _units(graph):
        if warehouse.url not in {n.warehouse for n in (*reads, *writes)}:
            continue
        digest = _digest(reads, writes, columns_once)
        before = sent.get(_path(warehouse, name))
        again = before is not None and since_ms is not None and before.sent_ms >= since_ms
        if before is not None and before.digest == digest and not again:
            continue
        number = 1 if before is None else before.number + (before.digest != digest)
        owner = find_owner(warehouse, job)
        event = _event(
            name,
            namespace or warehouse.url,
            number,
            moment,
            inputs=[(n, newest.read.get((job, n)), columns_once(n)) for n in reads],
            outputs=[(n, newest.made.get((job, n)), columns_once(n)) for n in writes],
            streams=owner is not None and owner.query_id is not None,
        )
        found.append(Change(name, event, Sent(digest, number, moment)))
    return found


def send(client: Any, warehouse: Warehouse, found: Sequence[Change]) -> None:
    """Send events with an OpenLineageClient, and write what was sent after each.

    A process that dies between the two sends the event again, under the same run.
    """
    for change in found:
        client.emit(change.event)
        sent = change.sent
        data = encode_file(job=change.job, digest=sent.digest, number=sent.number, sentMs=sent.sent_ms)
        warehouse.store.write(_path(warehouse, change.job), data)


def forget_gone(graph: Graph, warehouse: Warehouse) -> None:
    """Forget what was sent of jobs that are no longer recorded."""
    here = {_path(warehouse, name) for name, *_ in _units(graph)}
    gone = [path for path, _ in read_json_files(warehouse, _folder(warehouse)) if path not in here]
    if gone:
        warehouse.store.delete_many(gone)


def check_installed() -> None:
    """Raise InvalidInputError when the OpenLineage client is not installed."""
    try:
        import openlineage.client.event_v2  # noqa: F401
    except ImportError as e:
        raise InvalidInputError(
            "open_lineage() needs the OpenLineage client: pip install 'paimon-spark[openlineage]'"
        ) from e


def dataset_name(url: str, path: str = "") -> tuple[str, str]:
    """OpenLineage namespace and name of a path below the URL of a directory."""
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        return "file", unquote(parts.path) + path
    scheme = "s3" if parts.scheme in _AS_S3 else "gs" if parts.scheme == "gcs" else parts.scheme
    whole = parts.path + path
    return f"{scheme}://{parts.netloc}", whole.lstrip("/") if parts.scheme in _OBJECT_STORES else whole


def _units(graph: Graph) -> Iterator[tuple[str, str, tuple[Node, ...], tuple[Node, ...]]]:
    """OpenLineage job, the job that it is (a part of), and what it reads and writes.

    Readers of an event join all its inputs with all its outputs. So a job whose runs read and wrote different tables is
    several OpenLineage jobs, named `<job>:<first table written>`.
    """
    for job in graph.jobs:
        groups = graph.groups(job)
        for reads, writes in groups:
            yield (job if len(groups) == 1 else f"{job}:{(writes or reads)[0].name}"), job, reads, writes


def _event(
    job: str,
    namespace: str,
    number: int,
    moment_ms: int,
    inputs: Iterable[tuple[Node, int | None, RowType | None]],
    outputs: Iterable[tuple[Node, int | None, RowType | None]],
    *,
    streams: bool,
) -> RunEvent:
    from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
    from openlineage.client.facet_v2 import job_type_job

    kind = job_type_job.JobTypeJobFacet(
        processingType="STREAMING" if streams else "BATCH", integration="PAIMON", jobType="JOB", producer=_PRODUCER
    )
    run_id = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([namespace, job, number]))
    return RunEvent(
        eventTime=datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(),
        producer=_PRODUCER,
        run=Run(str(run_id)),
        job=Job(namespace, job, facets={"jobType": kind}),
        # A stream has no end; a batch job is sent when it is over.
        eventType=RunState.RUNNING if streams else RunState.COMPLETE,
        inputs=[_dataset(InputDataset, *source) for source in inputs],
        outputs=[_dataset(OutputDataset, *sink) for sink in outputs],
    )


def _dataset(kind: Callable[..., Any], node: Node, snapshot_id: int | None, columns: RowType | None) -> Any:
    from openlineage.client.facet_v2 import dataset_version_dataset, schema_dataset, symlinks_dataset

    facets: dict[str, Any] = {}
    if snapshot_id is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(str(snapshot_id), producer=_PRODUCER)
    if columns is not None:
        fields = [schema_dataset.SchemaDatasetFacetFields(f.name, str(f.type), f.description) for f in columns.fields]
        facets["schema"] = schema_dataset.SchemaDatasetFacet(fields, producer=_PRODUCER)
    if node.ref == NOWHERE:
        namespace, name = dataset_name(node.warehouse)
    else:
        branch = f"/branch/branch-{node.ref.branch}" if node.ref.table != node.ref.bare else ""
        namespace, name = dataset_name(node.warehouse, f"/{node.ref.database}.db/{node.ref.bare}{branch}")
        link = symlinks_dataset.Identifier(node.warehouse, node.ref.name, "TABLE")
        facets["symlinks"] = symlinks_dataset.SymlinksDatasetFacet([link], producer=_PRODUCER)
    return kind(namespace, name, facets=facets)


def _digest(reads: Sequence[Node], writes: Sequence[Node], columns: Columns) -> str:
    def described(node: Node) -> list[Any]:
        found = columns(node)
        fields = None if found is None else [(f.name, str(f.type), f.description) for f in found.fields]
        return [node.warehouse, *node.ref, fields]

    raw = [[described(n) for n in nodes] for nodes in (reads, writes)]
    return hashlib.sha256(json.dumps(raw, ensure_ascii=True).encode()).hexdigest()


def _sent_before(warehouse: Warehouse) -> dict[str, Sent]:
    """Events sent earlier, by file; jobs with unreadable files are sent once more."""
    found = {}
    for path, data in read_json_files(warehouse, _folder(warehouse)):
        sent = find_object(data, lambda raw: Sent(str(raw["digest"]), int(raw["number"]), int(raw["sentMs"])))
        if sent is not None:
            found[path] = sent
    return found


def _folder(warehouse: Warehouse) -> str:
    return f"{warehouse.lineage_dir}/open-lineage"


def _path(warehouse: Warehouse, job: str) -> str:
    return f"{_folder(warehouse)}/{quote_name(job)}.json"
